/* How many characters a text has, as adapters take them (adapters/characters.h). */
#ifndef TESTS_UNIT_COUNT_CHARACTERS_H
#define TESTS_UNIT_COUNT_CHARACTERS_H

#include "adapters/characters.h"

static inline size_t count_characters(struct span text)
{
    size_t n = 0;
    for (; text.len > 0; n++)
        (void)character_take(&text);
    return n;
}

#endif
