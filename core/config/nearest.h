/* What somebody probably meant. Pure. */
#ifndef CORE_CONFIG_NEAREST_H
#define CORE_CONFIG_NEAREST_H

#include <stddef.h>

#include "core/base/span.h"

/* The edit distance between two names, ASCII case ignored; names are cut at 64 bytes. */
size_t name_distance(struct span a, struct span b);

/* Whether a distance to `known` is small enough that a slip explains it. */
bool name_is_near(struct span known, size_t distance);

#endif
