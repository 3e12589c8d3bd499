/*
 * What the fuzz targets share: how a broken promise ends the run, and how an
 * input is taken apart. Each fuzz_NAME.c is one target; it is linked with
 * libFuzzer, or with replay.c, which runs kept inputs without it.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/span.h"

/* The target: 0, or the end of the process. Keeps nothing from one call to the next. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* `promise` is a sentence about the program, true for every input. */
static inline void fuzz_check(bool holds, const char *promise)
{
    if (holds)
        return;
    fprintf(stderr, "broken promise: %s\n", promise);
    abort();
}

/* An input that is taken from its front: choices first, then the bytes that are tested. */
struct fuzz_input {
    const uint8_t *p;
    size_t left;
};

static inline struct fuzz_input fuzz_input_of(const uint8_t *data, size_t size)
{
    return (struct fuzz_input){ data, size };
}

/* The next byte, 0 at the end. */
static inline unsigned fuzz_take_byte(struct fuzz_input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->p++;
}

/* A choice from 0 to below `count`. */
static inline size_t fuzz_take_choice(struct fuzz_input *in, size_t count)
{
    return fuzz_take_byte(in) % count;
}

/* The bytes up to the next newline, which is taken too; all without one. */
static inline struct span fuzz_take_line(struct fuzz_input *in)
{
    const uint8_t *begin = in->p;
    while (in->left > 0 && *in->p != '\n')
        (void)fuzz_take_byte(in);
    struct span line = span_of((const char *)begin, (size_t)(in->p - begin));
    (void)fuzz_take_byte(in);
    return line;
}

/* All that is left. libFuzzer's memory ends where the input does, so that a read beyond it is seen. */
static inline struct span fuzz_rest(const struct fuzz_input *in)
{
    return span_of((const char *)in->p, in->left);
}

/* A copy whose memory ends where it ends; freed by fuzz_free_copy. */
static inline struct span fuzz_copy(struct span bytes)
{
    char *copy = xmalloc(bytes.len);
    if (bytes.len > 0)
        memcpy(copy, bytes.ptr, bytes.len);
    return span_of(copy, bytes.len);
}

static inline void fuzz_free_copy(struct span copy)
{
    free((void *)(uintptr_t)copy.ptr);
}

static inline bool fuzz_lies_inside(struct span part, struct span whole)
{
    return part.ptr >= whole.ptr && part.len <= whole.len &&
           (size_t)(part.ptr - whole.ptr) <= whole.len - part.len;
}

/* Sizes of the pieces in which a stream comes: up to 8 of them, over and over. */
struct fuzz_pieces {
    size_t sizes[8];
    size_t count, next;
};

static inline struct fuzz_pieces fuzz_take_pieces(struct fuzz_input *in)
{
    struct fuzz_pieces pieces = { .count = 1 + fuzz_take_choice(in, 8) };
    for (size_t i = 0; i < pieces.count; i++)
        pieces.sizes[i] = 1 + fuzz_take_byte(in);
    return pieces;
}

/* Takes the next piece from the front of `rest`. */
static inline struct span fuzz_next_piece(struct fuzz_pieces *pieces, struct span *rest)
{
    size_t n = pieces->sizes[pieces->next++ % pieces->count];
    struct span piece = span_of(rest->ptr, n < rest->len ? n : rest->len);
    *rest = span_of(rest->ptr + piece.len, rest->len - piece.len);
    return piece;
}

#endif
