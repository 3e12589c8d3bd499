/*
 * Private to core/json: the member names seen in the objects of one text, for
 * JSON_SCAN_UNIQUE. Owns heap memory, about 60 bytes per name.
 */
#ifndef CORE_JSON_NAMES_H
#define CORE_JSON_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"

struct seen_name {
    uint64_t hash;
    size_t object;
    struct span name; /* as written, without quotes; ptr NULL: a free place */
};

struct names {
    struct seen_name *table; /* open addressing; at most half full */
    size_t capacity;         /* a power of two, or 0 */
    size_t count;
};

/* Notes a name of an object; the caller numbers objects as it meets them. The
 * bytes must outlive the table. False if the object has that name already, in
 * whatever spelling. All zero is an empty table. */
bool names_add(struct names *names, size_t object, struct span name);

void names_free(struct names *names);

#endif
