/* The state of one attempt, for the files that make it: race.c runs it, attempt.c or
 * speech.c says what it does; judge.c how it ended, or speech_judge.c; attempt_record.c
 * writes that down. */
#ifndef FCGI_EDGE_ATTEMPT_INTERNAL_H
#define FCGI_EDGE_ATTEMPT_INTERNAL_H

#include "core/upstream/relay.h"
#include "fcgi/edge/attempt.h"

/* The header line that carries the key. */
struct key_line {
    char *text;
    size_t size;
};

enum { ATTEMPT_BEATS = 2 };

struct attempt {
    struct errand *errand;
    const struct candidate *candidate;
    struct attempt_event *event; /* NULL: the key cannot be decrypted, and there was no attempt */
    bool is_beside;              /* it was begun beside another */
    bool is_lost;                /* and this one, or that one, is of no use any more: it is recorded */
    struct exchange *exchange;   /* NULL: none runs */
    struct exchange_request request;
    struct exchange_receiver receiver;
    struct exchange_beat beats[ATTEMPT_BEATS];
    struct splice body;
    struct key_line key_line;
    const char *const *headers;
    const char *url;               /* of a speech's attempt, its endpoint */
    struct exchange_result result; /* of the exchange that runs, as far as it has come */
    uint64_t start_us;             /* of that exchange, monotonic */
    bool is_recorded;              /* the event has all of it */
    struct relay relay;
    struct relay_sink sink;
    bool asks_usage;    /* in a stream whose caller did not */
    bool lacks_usage;   /* the same, but for an upstream that refuses to be asked */
    bool refuses_usage; /* the reply refuses the member that asks */
    uint64_t learns;    /* the memo's fact that content will prove; 0: none */
    bool is_relaying;   /* the head was a 2xx */
    struct buf failed;  /* the body of any other, at most SIGNATURE_BODY_MAX of it */
    bool is_failed_cut; /* it was longer */
    const char *detail; /* of a failed exchange, or NULL */
    struct span retry_after, retry_after_ms, amzn_error_type, content_type; /* arena copies */
    int status;
    struct span trace; /* by which the upstream finds the request again; may be empty */
};

/* A copy in the request's arena. */
struct span attempt_keep(const struct attempt *a, struct span text);

/* What the head of a reply says, and the beginning of the body of one that is no 2xx. */
void attempt_keep_head(struct attempt *a, const struct exchange_head *head);
enum exchange_want attempt_keep_failed(struct attempt *a, struct span piece);

/* Where an upstream is told the trace: adds its headers, at most ATTEMPT_TRACE_HEADERS, and
 * returns how many. */
enum { ATTEMPT_TRACE_HEADERS = 2 };
size_t attempt_add_trace(const struct attempt *a, const char **headers);

/* It gives the caller its first bytes: another that runs has lost. */
void race_win(struct attempt *a);

/* No other runs. */
bool race_is_alone(const struct attempt *a);

/* For an exchange: ctx is the errand. */
bool attempt_has_caller_left(void *ctx);

/* Puts the key into the template at {KEY}: 0, or its error, which has been logged.
 * To be wiped as soon as the exchange is over. */
int attempt_open_key(const struct attempt *a, const char *template, struct key_line *out);
void attempt_wipe_key(struct key_line *line);

/* How the exchange itself failed: true, and what *out says of it. False: the reply says more. */
bool attempt_judge_transport(struct attempt *a, enum exchange_end end, struct attempt_outcome *out);

/* The provider's token, which must not be a key, for the record. */
const char *attempt_redact(const struct attempt *a, struct span text, size_t limit);

/* Judges how the exchange ended: fills *out and the event's reason and code;
 * `message` receives the upstream's sentence about a failure, if there is one. */
void attempt_judge(struct attempt *a, enum exchange_end end, struct attempt_outcome *out,
                   struct span *message);

/* The same for a reply that the relay has finished. */
void attempt_judge_finished(struct attempt *a, struct attempt_outcome *out);

/* The record: who was asked, how long it took, what came of it; and the log's
 * line of a failure, or of streams that will have no usage. */
void attempt_note_candidate(struct attempt *a);
void attempt_note_in_hand(const struct attempt *a); /* for the scoreboard: its upstream is asked */
void attempt_note_begin(struct attempt *a);         /* an exchange begins */
void attempt_note_exchange(struct attempt *a, uint64_t now_us); /* it is over, or as good as that */
void attempt_note_lack_of_usage(const struct attempt *a);
void attempt_note_outcome(struct attempt *a, const struct attempt_outcome *out, struct span message);

#endif
