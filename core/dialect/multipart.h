/*
 * multipart/form-data (RFC 7578, RFC 2046 section 5.1): a scanner over a body that
 * stays where it is. It copies and keeps nothing, and its time is linear.
 *
 * It is strict where readers differ: two of them must not be able to find different
 * fields in one body. So it refuses what some take for a boundary and others do
 * not (after a bare CR or LF, with bytes behind it, after the closing one), lines
 * of a part's head that are folded or no fields, repeated or extended names, quotes
 * escaped by a backslash, and encodings that a reader would have to undo.
 */
#ifndef CORE_DIALECT_MULTIPART_H
#define CORE_DIALECT_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/span.h"

enum {
    MULTIPART_BOUNDARY_BYTES = 70,
    MULTIPART_HEAD_BYTES = 8 * 1024, /* of one part's head, its empty line included */
    MULTIPART_PARTS = 1024,
};

/* One part. Spans point into the body. */
struct multipart_part {
    struct span name; /* of the field; what was quoted without the quotes */
    bool is_file;     /* it has a file name */
    struct span value;
    struct span length; /* the value of its own Content-Length; empty: it has none */
};

/* Why a body was refused. */
struct multipart_fault {
    size_t offset;    /* bytes before the place */
    const char *what; /* a constant phrase: "no closing boundary", … */
};

/* The boundary that a Content-Type names, quoted or not. ERR_FORMAT, and *fault
 * speaks of the header: it names none, or in a way that no boundary may have. */
int multipart_boundary(struct span content_type, struct span *boundary, struct multipart_fault *fault);

/*
 * Scans the whole body and calls on_part(ctx, &part) for each part when its end has
 * been found. What stands before the first boundary and after the closing one is
 * skipped. A negative return of on_part ends the scan and is returned, and *fault
 * is what it was.
 *
 * `boundary` is one that multipart_boundary gave. ERR_FORMAT: see *fault.
 * ERR_LIMIT: a head or the number of parts exceeds its bound; *fault says so too.
 */
int multipart_scan(struct span body, struct span boundary,
                   int (*on_part)(void *ctx, const struct multipart_part *part), void *ctx,
                   struct multipart_fault *fault);

#endif
