/*
 * A body with some of its bytes replaced, without a copy of the rest: a short
 * list of edits over the caller's bytes, read as a sequence of pieces.
 *
 * The body and the replacements must outlive the splice.
 */
#ifndef CORE_JSON_SPLICE_H
#define CORE_JSON_SPLICE_H

#include <stddef.h>

#include "core/base/span.h"

enum { SPLICE_EDITS_MAX = 8 };

struct splice_edit {
    size_t offset; /* in the body */
    size_t len;    /* bytes of the body that are left out; 0 inserts */
    struct span with;
};

struct splice {
    struct span body;
    struct splice_edit edits[SPLICE_EDITS_MAX]; /* ascending, without overlap */
    size_t n_edits;
};

/* A splice that changes nothing yet. */
void splice_init(struct splice *splice, struct span body);

/* Adds an edit, at its place in the order. At one offset, what is inserted comes
 * before what is replaced, and insertions keep the order in which they were
 * added. ERR_LIMIT: no room. ERR_FORMAT: outside the body or overlapping another
 * edit, which includes an insertion within bytes that are left out. */
int splice_add(struct splice *splice, size_t offset, size_t len, struct span with);

/* Bytes of the whole result. */
size_t splice_size(const struct splice *splice);

/* Where a reader stands; all zero is the beginning. */
struct splice_cursor {
    size_t piece;  /* 2 * i: the body before edit i; 2 * i + 1: edit i's replacement */
    size_t offset; /* in that piece */
};

/* Copies at most `room` next bytes to `out` and returns how many; 0 at the end. */
size_t splice_read(const struct splice *splice, struct splice_cursor *cursor, char *out, size_t room);

#endif
