/*
 * Private to core/json: characters of strings as they stand in a text.
 */
#ifndef CORE_JSON_TEXT_H
#define CORE_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"

enum { UTF8_BYTES_MAX = 4 };

/* How many of the `room` bytes at `p`, at least 1, begin or are one well-formed
 * character. *need is the length that its first byte announces, 0 if it can be
 * none; the character is whole exactly when the result is *need and not 0. */
size_t utf8_prefix(const unsigned char *p, size_t room, size_t *need);

/* How many of the `len` bytes at `p` are well-formed characters beyond ASCII, up to the first byte that is
 * not of one. */
size_t utf8_skip(const unsigned char *p, size_t len);

/* Writes a code point below 0x110000 that is no surrogate; returns its bytes. */
size_t utf8_encode(uint32_t code, char out[UTF8_BYTES_MAX]);

/* A string without its quotes, read one decoded character at a time. It must be
 * one that the scanner passed. */
struct json_chars {
    const char *p;
    const char *end;
};

static inline struct json_chars json_chars_of(struct span inner)
{
    return (struct json_chars){ inner.ptr, inner.ptr + inner.len };
}

/* The next piece of decoded text: one byte as written, or the whole of an
 * escaped character. Returns its bytes, 0 at the end. */
size_t json_chars_next(struct json_chars *chars, char out[UTF8_BYTES_MAX]);

/* Whether two strings, without their quotes, are the same text. */
bool json_same_text(struct span a, struct span b);

#endif
