/*
 * The relay: carries one upstream's reply to the caller, holding it back until
 * there is something worth committing, and knows how it ended.
 *
 * Pure over bytes: it is fed pieces of a reply and writes through a sink. What a
 * failure means is not its matter: it keeps the bytes that say it.
 */
#ifndef CORE_UPSTREAM_RELAY_H
#define CORE_UPSTREAM_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/span.h"
#include "core/dialect/dialect.h"
#include "core/dialect/sse.h"
#include "core/upstream/exchange.h"

enum {
    RELAY_HOLD_BYTES = 64 * 1024,    /* of a stream, before content */
    RELAY_EVENT_BYTES = 64 * 1024,   /* of one event, before it passes unjudged */
    RELAY_PLAIN_BYTES = 1024 * 1024, /* of a plain reply, before it passes unchecked */
    RELAY_TAIL_BYTES = 4 * 1024,     /* of a plain reply that passes */
    RELAY_FAILURE_BYTES = 8 * 1024,  /* of a failed reply */
};

/* Where the reply goes. Each returns 0, or a negative error: the caller is gone. */
struct relay_sink {
    void *ctx;
    /* Status 200 and this media type; `whole_bytes` is the body's length, or -1
     * if it is not known. Called once, right before the first write. */
    int (*commit)(void *ctx, struct span content_type, int64_t whole_bytes);
    /* `is_last`: nothing follows, so that the end of the reply can leave with
     * these bytes. A plain reply beyond RELAY_PLAIN_BYTES ends without it. */
    int (*write)(void *ctx, struct span bytes, bool is_last);
};

enum relay_end {
    RELAY_OPEN,        /* not ended yet */
    RELAY_FINISHED,    /* the upstream finished; the caller has all of it */
    RELAY_CUT,         /* it broke off */
    RELAY_ERROR,       /* it reported a failure inside its 2xx: see `failure` */
    RELAY_UNUSABLE,    /* it is not an answer: see `why` */
    RELAY_CALLER_LEFT, /* the sink failed */
};

struct relay {
    const struct dialect *dialect;
    const struct relay_sink *sink;
    bool is_stream;   /* not where the upstream answers who asked for one with a whole reply, and may */
    bool wants_text;  /* a plain reply is no JSON */
    bool hides_usage; /* only we asked for the usage chunk */

    enum relay_end end;
    const char *why; /* a constant name for the record, or NULL */
    bool is_committed;
    bool has_content;
    unsigned held_events; /* events that came before content */
    uint64_t bytes_out;   /* given to the sink */
    struct stream_state state;
    struct buf failure; /* what the upstream said of its failure; overflowed: it was longer */

    /* private */
    char content_type_text[128];
    struct sse_framer framer;
    struct buf held; /* before commitment */
    struct buf tail;
    bool misses_lf;      /* of the CR LF that ends the terminal mark */
    struct span pending; /* events of the current piece that are ready to go, in one run */
    bool is_document;    /* a stream was asked for, something else comes */
    bool is_passing;     /* a plain reply that outgrew its bound */
    bool has_begun;      /* a byte that is not white space came */
};

/* Begins with a reply to this request whose head was a 2xx; `content_type` is
 * copied. The relay is used for one reply and freed with relay_free. */
void relay_init(struct relay *relay, const struct dialect *dialect, const struct request_facts *request,
                bool hides_usage, struct span content_type, const struct relay_sink *sink);
void relay_free(struct relay *relay);

/* The next piece. */
enum exchange_want relay_feed(struct relay *relay, struct span piece);

/* The upstream's end. `is_whole`: as HTTP says it must. Afterwards relay->end is
 * not RELAY_OPEN. A committed stream that finished has its terminal mark; one
 * that did not has no ending yet, which is for relay_fail to write. */
void relay_finish(struct relay *relay, bool is_whole);

/* Whether bytes that are not the upstream's may go to the caller now: what it
 * has of this reply is nothing, or whole events of a stream that goes on. */
bool relay_is_between_events(const struct relay *relay);

/* Ends a committed stream with the dialect's error event. 0 or the sink's error. */
int relay_fail(struct relay *relay, const struct stream_error *error);

#endif
