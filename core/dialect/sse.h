/*
 * Server-sent events (WHATWG HTML, section 9.2): a framer over bytes that come
 * in pieces of any size. It finds where events end and what their data is; it
 * does not change a byte.
 *
 * An event is everything up to and including the blank line that ends it:
 * comments, unknown fields, LF, CR LF or CR. An event that lies whole in one
 * piece is not copied; one that spans pieces is collected in a buffer. The raw
 * bytes of all events, and of what sse_rest still holds, are the bytes fed.
 *
 * How the bytes are cut into pieces changes no event but for one byte: when a
 * blank line's CR ends a piece, the event is given at once, and a LF that
 * follows counts to the next event.
 */
#ifndef CORE_DIALECT_SSE_H
#define CORE_DIALECT_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"
#include "core/base/span.h"

struct sse_event {
    struct span raw;  /* the event as written, blank line included; or, if is_part, a piece of one */
    struct span data; /* its data lines joined by LF; empty if it has none */
    struct span name; /* of its last "event:" line; empty if it has none */
    bool has_data;
    bool is_comment;   /* nothing but comments and blank lines */
    bool is_foreign;   /* holds a line that is no field of the format: bare JSON, HTML */
    bool is_part;      /* of an event beyond the limit: raw bytes only, judge it as unknown */
    bool is_last_part; /* that event ends here */
};

struct sse_framer {
    struct buf held;   /* the unfinished event */
    struct buf joined; /* data of an event with several data lines */
    size_t limit;
    bool at_start;      /* no event yet: a byte order mark may come */
    bool in_large;      /* parts of an unfinished event were given already */
    bool line_is_empty; /* a line end here is a blank line */
    bool saw_cr;        /* the last byte was a CR: a LF belongs to it */
};

/* An event of more than `limit` bytes is given in parts, so that no more than
 * that is ever held of it. */
void sse_init(struct sse_framer *framer, size_t limit);
void sse_free(struct sse_framer *framer);

/* Takes the next piece and calls on_event for every event that it completes
 * (and for parts of a large one). The event's spans live for the call. A
 * negative return of on_event ends the call and is returned; the rest of the
 * piece is then lost, and the framer is only good for sse_free. */
int sse_feed(struct sse_framer *framer, struct span piece,
             int (*on_event)(void *ctx, const struct sse_event *event), void *ctx);

/* The bytes held of an unfinished event: at the end of the stream, empty if the
 * end is clean. Of a large event nothing is held: its end is missing as long as
 * no is_last_part was given. Valid until the next call. */
struct span sse_rest(const struct sse_framer *framer);

/* At the end of a stream that ended as its transport says it must: gives an
 * unfinished event to on_event as if its last line and a blank line had ended;
 * its raw bytes then have the missing LFs. Providers end without them. */
int sse_finish(struct sse_framer *framer, int (*on_event)(void *ctx, const struct sse_event *event),
               void *ctx);

#endif
