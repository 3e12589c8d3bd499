/*
 * Dialects: one row per wire protocol that callers and upstreams speak. What the
 * edge, the scanner, the hold-back, the relay and the error mapping need to know
 * of a protocol they ask the row.
 *
 * Everything here is pure: bytes in, facts out.
 */
#ifndef CORE_DIALECT_DIALECT_H
#define CORE_DIALECT_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/span.h"
#include "core/dialect/sse.h"
#include "core/json/scan.h"
#include "core/json/splice.h"
#include "core/record/usage.h"

struct speech_facts;
struct transcription_facts;

/* What a request's body says, of what we care about. Spans point into the body. */
struct request_facts {
    struct span body;
    struct span model;        /* as asked, decoded; empty if absent, null or "" */
    const char *content_type; /* of the body, as an upstream is told; NULL in a dialect that is adapted */
    struct json_value model_value, stream_options, include_usage; /* kind ABSENT where nothing stands */
    bool is_stream;
    bool wants_usage; /* the usage of a stream comes without our asking: the caller asks, or it always does */
    bool wants_text;  /* a plain reply is no JSON */
    const struct speech_facts *speech;               /* of that dialect; else NULL */
    const struct transcription_facts *transcription; /* the same */
};

/* Why a body was refused; `param` is the member at fault or NULL. */
struct request_fault {
    const char *message; /* arena memory */
    const char *param;
    bool is_syntax; /* not JSON at all, where it should be */
};

/* What one event of an upstream's stream is. */
enum event_class {
    EVENT_NOTHING,  /* promises nothing: comments, role-only deltas, empty lifecycle events */
    EVENT_CONTENT,  /* content, or something nobody here recognises */
    EVENT_USAGE,    /* there only because usage was asked for */
    EVENT_ERROR,    /* the upstream failed; the event's data says how */
    EVENT_TERMINAL, /* the dialect's terminal mark */
};

enum { STREAM_CHOICES_MAX = 64, REPLY_MODEL_BYTES = 129 };

/* What has been seen of one stream. Zero is the beginning; `usage` needs usage_init. */
struct stream_state {
    uint64_t choices_seen, choices_finished; /* bit i: choice i, below STREAM_CHOICES_MAX */
    bool has_untracked_choice;               /* one beyond that: its end is not known */
    struct usage usage;
    char finish_reason[32];        /* the last one seen, cut */
    char model[REPLY_MODEL_BYTES]; /* as the upstream names it, the first one seen, cut; "" before that */
    uint64_t said_quarters;        /* of a token, in all content so far: usage_estimate_text */
    bool is_done;                  /* where an event, and no choice, says that all has been said */
};

/* What a whole plain reply is. */
struct plain_facts {
    bool is_usable;  /* it answers the request */
    bool is_error;   /* JSON with an error object in it */
    const char *why; /* not usable: a constant name for the record */
    struct usage usage;
    char finish_reason[32];
    char model[REPLY_MODEL_BYTES];
};

/* An error as it stands in a stream after its start. */
struct stream_error {
    const char *message;
    const char *type;
    const char *code;
    struct span details; /* JSON, whatever it says; empty: none */
};

struct dialect {
    const char *name;          /* as the configuration and the record have it */
    const char *endpoint;      /* the path below a mount, and below an upstream's base URL */
    const char *media_type;    /* of a request's body */
    size_t body_bytes;         /* of a request's body at most; 0: what the process allows */
    const char *stream_type;   /* media type of a stream */
    const char *terminal_mark; /* the bytes that end a whole stream; NULL: none is put where none came */
    const char *heartbeat;     /* bytes that say nothing, for between two events; NULL: there are none */

    /* No model stands for none, "" and "auto". */
    bool needs_model;

    /* Who asks for a stream may be answered with a whole reply instead. */
    bool may_answer_whole;

    /* Upstreams speak protocols of their own, and what they reply is an adapter's
     * to read: its models stand in `tts`, and NULL are terminal_mark and what
     * splices and judges below. */
    bool is_adapted;

    /* Reads a request; `type` is its Content-Type, of this media type. 0, or
     * ERR_FORMAT with *fault. */
    int (*read_request)(struct span body, struct span type, struct arena *arena, struct request_facts *facts,
                        struct request_fault *fault);

    /* The body for an upstream: `model` replaced and, if `asks_usage`, usage
     * asked for in a stream. Replacements are arena memory. 0 or ERR_LIMIT. */
    int (*splice_request)(const struct request_facts *facts, struct span model, bool asks_usage,
                          struct arena *arena, struct splice *out);

    /* What the model is given to read, in quarters of a token, for an estimate of its usage;
     * NULL: nobody can tell. Reads the body once more: not for every request. */
    uint64_t (*estimate_request)(const struct request_facts *facts);

    /* Judges one event and updates the state. */
    enum event_class (*judge_event)(const struct sse_event *event, struct stream_state *state);

    /* Whether a stream that ended without its mark was whole nevertheless. */
    bool (*is_finished)(const struct stream_state *state);

    /* Judges a whole plain reply; the second, one to a request that wants text, and
     * NULL where none does. */
    void (*judge_plain)(struct span body, struct plain_facts *facts);
    void (*judge_text)(struct span body, struct plain_facts *facts);

    /* Reads the usage from the last bytes of a plain reply that was too large to
     * be judged whole; they may begin anywhere. Changes nothing if it finds none. */
    void (*read_tail)(struct span tail, struct usage *usage);

    /* The error event, whole, blank line included. */
    void (*write_error_event)(struct buf *out, const struct stream_error *error);

    /* An upstream's refusal of a request as an error event: the upstream's own
     * text where a client would see the error in it, else `error` with that text
     * as its details if it is JSON. */
    void (*write_refusal_event)(struct buf *out, struct span body, const struct stream_error *error);
};

extern const struct dialect dialect_chat, dialect_speech, dialect_transcription;

/* The dialect whose endpoint is `path` (below the mount, without a leading slash); NULL if none. */
const struct dialect *dialect_by_endpoint(struct span path);

#endif
