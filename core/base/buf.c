#include "core/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/err.h"

void buf_init(struct buf *buf, size_t limit)
{
    *buf = (struct buf){ .limit = limit };
}

void buf_init_in(struct buf *buf, char *memory, size_t size, size_t limit)
{
    *buf = (struct buf){
        .data = memory,
        .capacity = size < limit ? size : limit,
        .limit = limit,
        .is_lent = true,
    };
}

void buf_free(struct buf *buf)
{
    if (!buf->is_lent)
        free(buf->data);
    *buf = (struct buf){ .limit = buf->limit };
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->overflowed = false;
}

static void grow(struct buf *buf, size_t need)
{
    size_t least = buf->capacity < 256 ? 256 : buf->capacity;
    size_t capacity = least < buf->limit ? least : buf->limit;
    while (capacity < need)
        capacity = capacity > buf->limit / 2 ? buf->limit : capacity * 2;
    const char *lent = buf->is_lent ? buf->data : NULL;
    buf->data = xrealloc(lent == NULL ? buf->data : NULL, capacity);
    if (lent != NULL)
        memcpy(buf->data, lent, buf->len);
    buf->is_lent = false;
    buf->capacity = capacity;
}

char *buf_reserve(struct buf *buf, size_t len)
{
    if (len > buf->limit - buf->len) {
        buf->overflowed = true;
        return NULL;
    }
    if (buf->data == NULL || len > buf->capacity - buf->len)
        grow(buf, buf->len + len);
    return buf->data + buf->len;
}

int buf_append(struct buf *buf, const void *bytes, size_t len)
{
    if (len == 0)
        return 0;
    char *room = buf_reserve(buf, len);
    if (room == NULL)
        return ERR_LIMIT;
    memcpy(room, bytes, len);
    buf->len += len;
    return 0;
}

int buf_append_span(struct buf *buf, struct span span)
{
    return buf_append(buf, span.ptr, span.len);
}

int buf_append_cstr(struct buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

int buf_append_char(struct buf *buf, char c)
{
    return buf_append(buf, &c, 1);
}

int buf_append_uint(struct buf *buf, uint64_t value)
{
    char digits[20], *at = digits + sizeof(digits);

    do
        *--at = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    return buf_append(buf, at, (size_t)(digits + sizeof(digits) - at));
}

int buf_printf(struct buf *buf, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(small, sizeof(small), format, args);
    va_end(args);
    int r = len < 0 ? ERR_FORMAT : 0;
    if (r == 0 && (size_t)len < sizeof(small)) {
        r = buf_append(buf, small, (size_t)len);
    } else if (r == 0) {
        char *large = xmalloc((size_t)len + 1);
        vsnprintf(large, (size_t)len + 1, format, again);
        r = buf_append(buf, large, (size_t)len);
        free(large);
    }
    va_end(again);
    return r;
}

void buf_consume(struct buf *buf, size_t len)
{
    if (len >= buf->len) {
        buf->len = 0;
        return;
    }
    memmove(buf->data, buf->data + len, buf->len - len);
    buf->len -= len;
}
