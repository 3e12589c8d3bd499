/* UTF-8 text, one character at a time. */
#ifndef ADAPTERS_CHARACTERS_H
#define ADAPTERS_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"

/* Takes the first character of `rest`, which must not be empty, and returns its
 * code point. A byte that belongs to no well-formed character is U+FFFD. */
uint32_t character_take(struct span *rest);

/* Whether it extends the character before it, so that a cut between the two would
 * change what is written: an accent, a variation selector, a skin tone, a joiner. */
bool character_extends(uint32_t code);

/* Whether some of the text can be read out: a letter, a digit or an ideograph. Of
 * punctuation, spaces and pictographs alone nothing can. */
bool character_any_readable(struct span text);

#endif
