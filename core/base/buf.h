/*
 * A growing byte buffer with a hard limit. The buffer owns its memory, which
 * comes from the heap and is freed with buf_free; one may begin in memory of
 * the caller's, so that what is short needs none.
 *
 * Appending beyond the limit changes nothing but `overflowed`, which stays set
 * until buf_clear: a writer can append many pieces and ask once at the end.
 */
#ifndef CORE_BASE_BUF_H
#define CORE_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"

struct buf {
    char *data; /* NULL until the first append */
    size_t len;
    size_t capacity; /* never more than the limit */
    size_t limit;    /* bytes; len never exceeds it */
    bool overflowed;
    bool is_lent; /* data is the caller's memory */
};

/* An empty buffer that will hold at most `limit` bytes; allocates nothing. */
void buf_init(struct buf *buf, size_t limit);

/* The same in `size` bytes of memory that outlives the buffer, until it needs more. */
void buf_init_in(struct buf *buf, char *memory, size_t size, size_t limit);
void buf_free(struct buf *buf);

/* Empties the buffer and keeps its memory. */
void buf_clear(struct buf *buf);

/* 0, or ERR_LIMIT. */
int buf_append(struct buf *buf, const void *bytes, size_t len);
int buf_append_span(struct buf *buf, struct span span);
int buf_append_cstr(struct buf *buf, const char *text);
int buf_append_char(struct buf *buf, char c);
int buf_append_uint(struct buf *buf, uint64_t value); /* in decimal digits; printf takes four times as long */
int buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for `len` more bytes, behind what there is, to be written and then added to buf->len; NULL:
 * beyond the limit. */
char *buf_reserve(struct buf *buf, size_t len);

/* Removes `len` bytes (at most all) from the front. */
void buf_consume(struct buf *buf, size_t len);

static inline struct span buf_span(const struct buf *buf)
{
    return (struct span){ buf->data, buf->len };
}

#endif
