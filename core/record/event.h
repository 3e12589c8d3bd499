/*
 * The request event, version 1: one JSON line per request with every attempt in
 * it. Traces, metrics, bills and health are all made from it, so names and units
 * are fixed: times in µs, offsets from the request's start. It holds no prompt,
 * no reply text, no key and no caller's address.
 *
 * Strings are borrowed: they live as long as the request (arena, snapshot,
 * constants). NULL, empty, 0 where 0 cannot occur, and -1 mean "nothing to say"
 * and are left out.
 */
#ifndef CORE_RECORD_EVENT_H
#define CORE_RECORD_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/ids.h"
#include "core/base/span.h"
#include "core/record/trace_context.h"
#include "core/record/usage.h"

enum {
    EVENT_LIMIT_BYTES = 64 * 1024, /* of one line; further attempts are summarised */
    EVENT_ATTEMPTS_MAX = 64,
    EVENT_ADMISSIONS_MAX = 4,
    EVENT_SKIPS_MAX = 32,
};

/* How a request ended. */
enum event_end {
    EVENT_END_DONE,         /* the caller has the whole reply */
    EVENT_END_ERROR_BEFORE, /* every attempt failed before content */
    EVENT_END_ERROR_MID,    /* the upstream reported a failure after content */
    EVENT_END_CUT,          /* the upstream broke off, or a clock ran out, after content */
    EVENT_END_CLIENT_GONE,  /* the caller left, or stopped reading */
    EVENT_END_REFUSED,      /* the caller's mistake: ours to say, or an upstream's */
    EVENT_END_THROTTLED,    /* the caller has reached a limit of its own */
    EVENT_END_OVERFLOW,     /* no worker was free in time */
    EVENT_END_WORKER_DIED,  /* with its worker: the master tells of it, and knows less */
};

const char *event_end_name(enum event_end end);

/* What became of the attempt that may be made beside the first one (hedging). */
enum event_hedge {
    EVENT_HEDGE_NONE,      /* it was not its time, or there is no other candidate */
    EVENT_HEDGE_WON,       /* it answered */
    EVENT_HEDGE_LOST,      /* the first one answered, and it was cancelled */
    EVENT_HEDGE_FAILED,    /* it failed */
    EVENT_HEDGE_CANCELLED, /* the caller left, or the chain ended without it */
    EVENT_HEDGE_BUSY,      /* not made: connections waited for a worker */
    EVENT_HEDGE_NO_SLOT,   /* not made: the candidate's pool had no slot */
    EVENT_HEDGES,
};

/* "won", "lost", "failed", "cancelled", "busy", "no_slot"; NULL: there is nothing to say. */
const char *event_hedge_name(enum event_hedge hedge);

/* First cells of blocks that what is counted belongs to (core/telemetry/cells.h); not in the line. */
struct attempt_series {
    uint32_t key, provider, route; /* 0: none */
};

struct attempt_event {
    struct span upstream, account, supplier_model, host, dialect;
    struct span model;       /* that it is asked for, where it is not the caller's */
    unsigned upstream_index; /* its place in the model's list, from 0 on */
    struct span provider;    /* as telemetry names it */
    struct span url;         /* scheme, host, port and path: no credentials, no query */
    const char *key_fp;
    bool is_hedged; /* it was begun beside the one before it, which ran */
    uint64_t start_us, dns_us, connect_us, tls_us, send_us, first_byte_us, first_content_us, last_byte_us;
    bool is_reused, is_resumed;
    unsigned replays;
    int status;
    const char *provider_code;
    const char *verdict, *reason, *fault;
    bool counts_for_health;
    unsigned retry_after_s;
    uint64_t bytes_in, bytes_out;
    unsigned held_events;
    const char *failure; /* what came instead of a status: "timeout", "connect", "reset", "invalid"; not in
                            the line */
    uint64_t took_us;    /* in the line of a request that was hedged */
    struct attempt_series series;
};

/* What became of one of the caller's limits. */
struct admission_event {
    const char *meter;
    uint64_t held;    /* what was taken of it before the first attempt; 0: nothing, the request was refused */
    uint64_t settled; /* what it was in the end */
    const char *result; /* "settled", "refused", "cancelled"; "" of the others, when one was refused */
    const char *where;  /* who counts: "scoreboard", "mapping", "redis" */
};

/* What became of the slot that the request needed. */
struct pool_event {
    const char *result; /* "settled", "refused": there was none, "cancelled": no attempt was made; NULL: it
                           needed none */
    const char *where;  /* who counts: "mapping", "redis" */
    struct span id;     /* of the pool that it had a slot of last */
    uint64_t waited_us; /* for it */
};

/* An upstream that was not asked, and why: "pool_full", "pool_saturated", "pool_away". */
struct skip_event {
    struct span upstream;
    const char *reason;
};

struct request_event {
    /* identity */
    char id[UUID_TEXT_BYTES];
    uint64_t time_us; /* wall clock at the start */
    const char *instance;
    unsigned worker;
    uint64_t generation;
    const char *request_id;
    struct trace_context trace;

    /* principal */
    const char *key_id;      /* 16 hex of SHA-256 of the caller's key */
    const char *remote_user; /* 16 hex of SHA-256 of the name that the web server gave */
    struct span owner;

    /* request */
    const char *mount, *endpoint, *dialect;
    bool has_stream, is_stream;
    struct span model, model_routed;
    uint64_t body_bytes;
    uint64_t text_utf16; /* code units of a text that is to be spoken; 0: there is none */
    const char *client;

    /* decision: upstreams that were passed over */
    struct skip_event skips[EVENT_SKIPS_MAX];
    unsigned n_skips;         /* of those in the array */
    unsigned n_skips_dropped; /* that found no room in it */

    /* attempts */
    struct attempt_event attempts[EVENT_ATTEMPTS_MAX];
    unsigned n_attempts;         /* of those in the array */
    unsigned n_attempts_dropped; /* that found no room in it */
    unsigned decided_by; /* the place in the array, from 1 on, of the one that decided; 0: the last one did */
    enum event_hedge hedge;

    /* admission, by each limit that the caller has */
    struct admission_event admissions[EVENT_ADMISSIONS_MAX];
    unsigned n_admissions;
    struct pool_event pool; /* in the line, one of them */

    /* outcome */
    enum event_end end;
    int status;
    const char *code;
    bool is_committed;
    bool is_exhausted;           /* it failed, and no candidate was left to try; not in the line */
    const char *fallback_reason; /* of the first failed attempt: its status, or "timeout", "connect", … */
    uint64_t ttft_us, total_us, upstream_us, client_wait_us;

    /* of the reply that was given: what the upstream says */
    const char *response_model; /* cut and redacted */
    const char *finish_reason;  /* of a closed list */

    struct usage usage;
    uint64_t characters;     /* of a text that was spoken; 0: none was */
    bool is_usage_estimated; /* at least one of the numbers is ours: the upstream did not say */

    uint32_t series; /* as an attempt's: of the model on its surface */
};

/* A new event for a request that starts now. */
void event_begin(struct request_event *event);

/* Room for one more attempt, zeroed; the last one's when there is none left. */
struct attempt_event *event_add_attempt(struct request_event *event);

/* The attempt that decided how the request ended: there is at least one. */
const struct attempt_event *event_deciding_attempt(const struct request_event *event);

/* How many failed before it; of them one that was cancelled for another is none. */
unsigned event_fallback_depth(const struct request_event *event);

/* An upstream is passed over. */
void event_add_skip(struct request_event *event, struct span upstream, const char *reason);

/* The line, without newlines; it fits into EVENT_LIMIT_BYTES whatever the event
 * holds. Texts are cut at 256 bytes; attempts for which no room is left, but never
 * the last one, are left out and counted in `attempts_dropped`. */
void event_write(const struct request_event *event, struct buf *out);

#endif
