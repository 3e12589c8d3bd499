#include "core/json/names.h"

#include <stdlib.h>

#include "core/base/arena.h"
#include "core/json/text.h"

enum { CAPACITY_FIRST = 256 };

/* FNV-1a over the object's number and the decoded text. */
static uint64_t hash_name(size_t object, struct span name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ ((uint64_t)object * UINT64_C(0x9e3779b97f4a7c15));
    struct json_chars chars = json_chars_of(name);
    char piece[UTF8_BYTES_MAX];
    size_t n;
    while ((n = json_chars_next(&chars, piece)) > 0)
        for (size_t i = 0; i < n; i++)
            hash = (hash ^ (unsigned char)piece[i]) * UINT64_C(0x100000001b3);
    return hash ^ (hash >> 32);
}

/* The place of that name, or the free one where it belongs. */
static struct seen_name *find(const struct names *names, const struct seen_name *wanted)
{
    size_t i = (size_t)wanted->hash & (names->capacity - 1);
    for (;; i = (i + 1) & (names->capacity - 1)) {
        struct seen_name *place = &names->table[i];
        if (place->name.ptr == NULL || (place->hash == wanted->hash && place->object == wanted->object &&
                                        json_same_text(place->name, wanted->name)))
            return place;
    }
}

static void grow(struct names *names)
{
    struct names larger = { .capacity = names->capacity == 0 ? CAPACITY_FIRST : names->capacity * 2,
                            .count = names->count };
    larger.table = xcalloc(larger.capacity, sizeof(*larger.table));
    for (size_t i = 0; i < names->capacity; i++)
        if (names->table[i].name.ptr != NULL)
            *find(&larger, &names->table[i]) = names->table[i];
    free(names->table);
    *names = larger;
}

bool names_add(struct names *names, size_t object, struct span name)
{
    if (names->count >= names->capacity / 2)
        grow(names);
    struct seen_name wanted = { hash_name(object, name), object, name };
    struct seen_name *place = find(names, &wanted);
    if (place->name.ptr != NULL)
        return false;
    *place = wanted;
    names->count++;
    return true;
}

void names_free(struct names *names)
{
    free(names->table);
    *names = (struct names){ 0 };
}
