/*
 * HTTP exchanges with upstreams: a request, its reply as it arrives, and the clocks
 * that bound it. One runs at a time, or two side by side: in one loop, which blocks
 * its caller. After fork only.
 *
 * http and https only, HTTP/1.1, no redirects, no proxies of the environment, no
 * cookies, no compression. Connections are kept for reuse by later exchanges.
 */
#ifndef CORE_UPSTREAM_EXCHANGE_H
#define CORE_UPSTREAM_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"
#include "core/json/splice.h"
#include "core/upstream/trust.h"

struct exchange_client; /* connections, name cache: one per process */

/* Process-wide start of libcurl, on allocators that overwrite what they take back.
 * Before fork, once. ERR_SYSTEM. */
int exchange_init_master(struct error *e);

/* `trust` is asked at each handshake, and outlives the client. NULL: nobody is
 * trusted, and https fails. ERR_SYSTEM. */
int exchange_open(struct trust *trust, struct exchange_client **out, struct error *e);
void exchange_close(struct exchange_client *client);

/* The clocks. Each is its own reason in the record. They stand still while a
 * receiver is at work, because it may be blocked on the caller. */
struct exchange_clocks {
    uint32_t connect_ms;       /* name, connection and TLS; > 0 */
    uint32_t first_content_ms; /* from the start until the receiver says EXCHANGE_CONTENT; > 0 */
    uint32_t idle_ms;          /* between bytes after that; > 0 */
    uint64_t chain_us;         /* clock_monotonic_us() at which the chain ends, until content; > 0 */
};

enum {
    EXCHANGES_MAX = 2, /* of a client, at a time */
    EXCHANGE_HEADER_BYTES = 256,
    EXCHANGE_FIRST_LOOK_MS = 30, /* when is first asked whether the caller has left */
    EXCHANGE_LOOK_MS = 100,      /* and how often after that */
};

/* A header that is absent is empty, and so is one that holds more than
 * EXCHANGE_HEADER_BYTES or a control character: nothing that is said in so many
 * words, or in such, is meant. */
struct exchange_head {
    int status;
    struct span reason; /* the status line's phrase: where some providers say what is wrong */
    struct span trace;  /* of request->trace_header */
    struct span content_type, retry_after, retry_after_ms, amzn_error_type;
};

/* What the receiver wants next. */
enum exchange_want {
    EXCHANGE_MORE,    /* go on; no content yet */
    EXCHANGE_CONTENT, /* go on; content has come */
    EXCHANGE_ENOUGH,  /* stop: the rest does not matter */
    EXCHANGE_LINGER, /* all has come that matters: read to the end shortly, so that the connection can be kept
                      */
    EXCHANGE_LEFT,   /* stop: the caller is gone */
};

struct exchange_receiver {
    void *ctx;
    enum exchange_want (*on_head)(void *ctx, const struct exchange_head *head);
    enum exchange_want (*on_data)(void *ctx, struct span piece);
};

/* What is to be done by the clock while the upstream says nothing, or goes on saying something. */
struct exchange_beat {
    void *ctx;
    /* When `run` is to be called, on clock_monotonic_us(); UINT64_MAX: not as
     * things stand. Asked before each wait. */
    uint64_t (*due_us)(void *ctx);
    /* Receiver's time, like that of on_data. Puts off what is due. 0, or a
     * negative error: the caller is gone. */
    int (*run)(void *ctx);
};

struct exchange_request {
    const char *url;
    const char *const *headers; /* "Name: value", NULL-terminated; valid for the exchange */
    const struct splice *body;  /* of a POST; NULL: a GET */
    const char *trace_header;   /* by whose value the upstream finds the request again; NULL: none */
    struct exchange_clocks clocks;
    const struct exchange_beat *beats; /* n_beats */
    size_t n_beats;
    int caller_fd; /* readable: the caller left. -1: not watched */
    /* Asked now and then: whether the caller has left although caller_fd does not
     * say so. NULL: it always does. */
    bool (*has_caller_left)(void *ctx);
    void *caller;
};

enum exchange_end {
    EXCHANGE_END_WHOLE,      /* the reply ended as HTTP says it must */
    EXCHANGE_END_ENOUGH,     /* the receiver stopped it */
    EXCHANGE_END_CUT,        /* the connection broke inside the reply */
    EXCHANGE_END_RESET,      /* it broke before the reply's head */
    EXCHANGE_END_REFUSED,    /* no connection could be made */
    EXCHANGE_END_UNRESOLVED, /* the name has no address */
    EXCHANGE_END_TLS,        /* no trusted connection could be made */
    EXCHANGE_END_INVALID,    /* the reply is not HTTP, or the URL cannot be used */
    EXCHANGE_END_TIMEOUT_CONNECT,
    EXCHANGE_END_TIMEOUT_FIRST_CONTENT,
    EXCHANGE_END_TIMEOUT_IDLE,
    EXCHANGE_END_TIMEOUT_CHAIN,
    EXCHANGE_END_CALLER_LEFT,
};

/* The record's name of an end: "timeout_idle"; never NULL. */
const char *exchange_end_name(enum exchange_end end);

/* Times in µs from the start of the exchange; 0 where it did not come to that.
 * Filled as the exchange goes, so that the receiver may read it too; `end` and
 * `detail` at its end. */
struct exchange_result {
    enum exchange_end end;
    int status; /* 0: no head came */
    uint64_t dns_us, connect_us, tls_us, send_us, first_byte_us, first_content_us, last_byte_us;
    uint64_t receiver_us; /* spent in receivers and beats, the other exchange's too */
    uint64_t bytes_in, bytes_out;
    bool is_reused;     /* over a kept connection */
    bool is_resumed;    /* over a new one, whose TLS session is one from before */
    const char *detail; /* libcurl's sentence about a failure, until the next one begins; NULL: it has none */
    unsigned replays;   /* sends beyond the first: at most 1 */
};

struct exchange; /* one that runs; the client's */

/* Begins one, beside at most one that runs; what it is given stays where it is until it is over.
 * Nothing is received before exchange_wait. NULL: libcurl cannot; *out says EXCHANGE_END_INVALID. */
struct exchange *exchange_begin(struct exchange_client *client, const struct exchange_request *request,
                                const struct exchange_receiver *receiver, struct exchange_result *out);

/* Runs all that were begun, at least one, until one of them is over: that one, whose result is
 * complete; or until until_us on clock_monotonic_us() (UINT64_MAX: without limit): NULL. */
struct exchange *exchange_wait(struct exchange_client *client, uint64_t until_us);

/* Nobody needs it any more. Its receiver is not called again, its times are measured, and the next
 * exchange_wait that waits closes its connection and returns it, as EXCHANGE_END_ENOUGH. May be called
 * by the other one's receiver. */
void exchange_cancel(struct exchange *x);

#endif
