/*
 * A span: bytes that somebody else owns. Not NUL-terminated. `ptr` may be NULL
 * only when `len` is 0. A span is valid as long as what it points into.
 */
#ifndef CORE_BASE_SPAN_H
#define CORE_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *ptr;
    size_t len;
};

static inline struct span span_of(const char *ptr, size_t len)
{
    return (struct span){ ptr, len };
}

/* NULL gives the empty span. */
static inline struct span span_cstr(const char *text)
{
    return (struct span){ text, text == NULL ? 0 : strlen(text) };
}

static inline bool span_eq(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool span_is(struct span a, const char *text)
{
    return span_eq(a, span_cstr(text));
}

/* ASCII case is ignored. */
static inline bool span_is_nocase(struct span a, const char *text)
{
    return a.len == strlen(text) && (a.len == 0 || strncasecmp(a.ptr, text, a.len) == 0);
}

static inline bool span_starts(struct span a, const char *prefix)
{
    size_t len = strlen(prefix);
    return a.len >= len && (len == 0 || memcmp(a.ptr, prefix, len) == 0);
}

/* As much of it as `size` bytes hold, with a NUL behind; size > 0. */
static inline void span_copy_text(struct span a, char *out, size_t size)
{
    size_t len = a.len < size ? a.len : size - 1;
    if (len > 0)
        memcpy(out, a.ptr, len);
    out[len] = '\0';
}

/* Without the spaces, tabs, CRs and LFs at both ends. */
static inline struct span span_trim(struct span a)
{
    while (a.len > 0 && strchr(" \t\r\n", a.ptr[0]) != NULL && a.ptr[0] != '\0')
        a = span_of(a.ptr + 1, a.len - 1);
    while (a.len > 0 && strchr(" \t\r\n", a.ptr[a.len - 1]) != NULL && a.ptr[a.len - 1] != '\0')
        a.len--;
    return a;
}

#endif
