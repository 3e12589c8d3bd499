#include "core/config/nearest.h"

#include <ctype.h>

enum { NAME_BYTES = 64 };

static size_t least(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein's distance, one row at a time. */
size_t name_distance(struct span a, struct span b)
{
    size_t row[NAME_BYTES + 1];
    a.len = a.len > NAME_BYTES ? NAME_BYTES : a.len;
    b.len = b.len > NAME_BYTES ? NAME_BYTES : b.len;
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            bool is_same = tolower((unsigned char)a.ptr[i - 1]) == tolower((unsigned char)b.ptr[j - 1]);
            size_t above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (is_same ? 0 : 1));
            diagonal = above;
        }
    }
    return row[b.len];
}

bool name_is_near(struct span known, size_t distance)
{
    return distance <= (known.len < 4 ? 1 : known.len < 9 ? 2 : 3);
}
