/*
 * Server-sent events whose data may be long: unlike the framer of core/dialect,
 * which gives events whole and unchanged, this gives the data as it comes and
 * keeps of the rest what speech providers say there.
 */
#ifndef ADAPTERS_EVENT_READER_H
#define ADAPTERS_EVENT_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/span.h"

enum { EVENT_READER_BYTES = 64 }; /* of a line that is not data; the rest of it is not looked at */

/* What an event said besides its data. */
struct event_head {
    struct span name; /* of its "event:" line, cut at EVENT_READER_BYTES; empty if it has none */
    int status;       /* of a comment ":HTTP_STATUS/429" or a line "status:429"; 0 if none */
};

/* Each returns 0, or a negative error that ends the reading. */
struct event_sink {
    void *ctx;
    /* The next bytes of the open event's data; its lines are joined by LF. */
    int (*on_data)(void *ctx, struct span bytes);
    /* An event with data has ended. Valid for the call. */
    int (*on_event)(void *ctx, const struct event_head *head);
};

/* All zero is the beginning of a stream. */
struct event_reader {
    unsigned state;
    char line[EVENT_READER_BYTES]; /* the open line up to its data */
    size_t line_len;
    char name[EVENT_READER_BYTES];
    size_t name_len;
    int status;
    bool has_data;
    bool saw_cr; /* a LF belongs to it */
};

/* 0, or what the sink returned; the reader is then of no more use. */
int event_reader_feed(struct event_reader *reader, struct span piece, const struct event_sink *sink);

/* At the end of a stream that ended as its transport says it must: ends the open
 * event, since providers end without the blank line. */
int event_reader_finish(struct event_reader *reader, const struct event_sink *sink);

#endif
