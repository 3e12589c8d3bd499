#include "core/config/field.h"

#include <stdlib.h>

static int compare_values(struct span a, struct span b)
{
    size_t least = a.len < b.len ? a.len : b.len;
    int order = least == 0 ? 0 : memcmp(a.ptr, b.ptr, least);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare(const void *a, const void *b)
{
    const struct distinct *x = a, *y = b;
    int order = compare_values(x->value, y->value);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

void reader_check_distinct(struct reader *reader, struct distinct *items, size_t n, const void *ctx,
                           void (*on_repeat)(struct reader *reader, const void *ctx, size_t first,
                                             size_t again))
{
    qsort(items, n, sizeof(*items), compare);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (span_eq(items[i].value, items[first].value))
            on_repeat(reader, ctx, items[first].index, items[i].index);
        else
            first = i;
    }
}
