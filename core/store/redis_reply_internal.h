/*
 * A reader of what Redis sends (RESP2), for somebody who does not trust it: it
 * allocates nothing, whatever lengths are announced. A text beyond its room is
 * passed over, byte by byte, and marked; so is nothing else: more elements or
 * another nesting than we ask for are errors.
 *
 * Pure.
 */
#ifndef CORE_STORE_REDIS_REPLY_INTERNAL_H
#define CORE_STORE_REDIS_REPLY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/span.h"

enum {
    REDIS_ELEMENTS_MAX = 4,
    REDIS_TEXT_BYTES = 1024, /* of each element */
    REDIS_LINE_BYTES = 128,  /* of a status or an error; the rest is passed over */
};

enum redis_kind { REDIS_STATUS, REDIS_ERROR, REDIS_INTEGER, REDIS_TEXT, REDIS_NULL };

struct redis_element {
    enum redis_kind kind;
    struct span text; /* of a status, an error or a text; the reader's memory */
    bool is_too_long; /* a text that was passed over: `text` is empty */
    int64_t integer;
};

struct redis_reply {
    bool is_array; /* else it is element[0] */
    size_t n;      /* elements */
    struct redis_element element[REDIS_ELEMENTS_MAX];
};

struct redis_reader {
    struct redis_reply reply; /* whole when redis_reader_take has said so, until it is called again */

    /* Its own. */
    enum { REDIS_AT_LINE, REDIS_AT_TEXT, REDIS_AT_TEXT_END, REDIS_IS_WHOLE } at;
    size_t wanted; /* elements */
    char line[REDIS_LINE_BYTES];
    size_t line_len;
    bool has_cr;
    uint64_t text_left;
    char texts[REDIS_ELEMENTS_MAX][REDIS_TEXT_BYTES];
};

void redis_reader_init(struct redis_reader *reader);

/* Takes bytes from the front of *in, up to the end of a reply. 1: it is whole. 0: all were
 * taken, and it is not. ERR_FORMAT: this is no reply that we ask for; the reader is of no
 * further use. */
int redis_reader_take(struct redis_reader *reader, struct span *in);

#endif
