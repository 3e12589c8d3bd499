/*
 * Base64 that comes in pieces of any size. (core/crypto's is for whole texts, and
 * strict for the sake of keys.)
 */
#ifndef ADAPTERS_BASE64_READER_H
#define ADAPTERS_BASE64_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"

/* All zero is the beginning of a text. */
struct base64_reader {
    uint32_t bits; /* what was read and not given yet, and older bits above it */
    unsigned n_bits;
    unsigned n_digits; /* of the text, modulo 4 */
    unsigned n_padding;
};

/* Decodes the next digits up to the first character that is none, or that follows
 * the padding; returns how many were taken. `out` has room for digits.len bytes. */
size_t base64_read(struct base64_reader *reader, struct span digits, unsigned char *out, size_t *n_out);

/* Whether the text may end here. Padding may be missing, and stray bits are not looked at. */
bool base64_may_end(const struct base64_reader *reader);

#endif
