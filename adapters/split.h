/*
 * A text in pieces, for providers that bound what one request may say. A cut is
 * made where a reader would pause: after a sentence, else after a clause, else
 * at a space, else between two characters.
 */
#ifndef ADAPTERS_SPLIT_H
#define ADAPTERS_SPLIT_H

#include <stddef.h>

#include "core/base/span.h"

enum { SPLIT_BYTES_MIN = 16 }; /* every character fits, with something that extends it */

/* Takes the next piece of at most `max_bytes`, which is SPLIT_BYTES_MIN or more,
 * from the front of `rest`; it is empty only if `rest` is. The pieces together are
 * the text; a cut is never inside a UTF-8 character, nor, unless what belongs
 * together is longer than max_bytes, before a character that extends another. */
struct span split_take(struct span *rest, size_t max_bytes);

#endif
