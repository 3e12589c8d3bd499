#include "core/config/members.h"

#include <stdlib.h>

#include "core/json/scan.h"

static const struct json_want each = { "*", false };

static int count_value(void *ctx, const struct json_value *value)
{
    size_t *count = ctx;
    (void)value;
    ++*count;
    return 0;
}

struct reading {
    struct arena *arena;
    struct members *members;
};

static int take_value(void *ctx, const struct json_value *value)
{
    struct reading *reading = ctx;
    struct member *member = &reading->members->items[reading->members->count++];
    member->value = value->raw;
    member->written = value->raw;
    if (value->key.ptr != NULL) {
        member->name = json_decode(reading->arena, span_of(value->key.ptr - 1, value->key.len + 2));
        member->written =
            span_of(value->key.ptr - 1, (size_t)(value->raw.ptr + value->raw.len - (value->key.ptr - 1)));
    }
    return 0;
}

/* The blanks that end right in front of `at`. */
static struct span blanks_before(struct span text, const char *at)
{
    const char *begin = at;
    while (begin > text.ptr && strchr(" \t\r\n", begin[-1]) != NULL)
        begin--;
    return span_of(begin, (size_t)(at - begin));
}

static int compare_spans(struct span a, struct span b)
{
    size_t least = a.len < b.len ? a.len : b.len;
    int order = least == 0 ? 0 : memcmp(a.ptr, b.ptr, least);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_members(const void *a, const void *b, void *items)
{
    const struct member *x = (const struct member *)items + *(const size_t *)a;
    const struct member *y = (const struct member *)items + *(const size_t *)b;
    return compare_spans(x->name, y->name);
}

/* The blanks from `at` on, if a comma follows: else they are the bracket's. */
static struct span blanks_after(struct span text, const char *at)
{
    const char *end = at;
    while (end < text.ptr + text.len && strchr(" \t\r\n", *end) != NULL && *end != '\0')
        end++;
    return span_of(at, *end == ',' ? (size_t)(end - at) : 0);
}

struct members members_read(struct span text, struct arena *arena)
{
    struct members members = { .behind = span_of("", 0) };
    struct reading reading = { arena, &members };
    size_t count = 0;

    if (text.len < 2 || (text.ptr[0] != '{' && text.ptr[0] != '['))
        return members;
    json_scan(text, &each, 1, 0, count_value, &count, NULL);
    members.items = arena_array_of(arena, struct member, count);
    json_scan(text, &each, 1, 0, take_value, &reading, NULL);
    for (size_t i = 0; i < members.count; i++) {
        struct member *member = &members.items[i];
        member->before = blanks_before(text, member->written.ptr);
        member->after = blanks_after(text, member->written.ptr + member->written.len);
    }
    members.behind = blanks_before(text, text.ptr + text.len - 1);
    if (text.ptr[0] == '[')
        return members;
    members.by_name = arena_array_of(arena, size_t, count);
    for (size_t i = 0; i < members.count; i++)
        members.by_name[i] = i;
    if (count > 0)
        qsort_r(members.by_name, count, sizeof(size_t), compare_members, members.items);
    return members;
}

const struct member *members_find(const struct members *members, struct span name)
{
    size_t low = 0, high = members->by_name == NULL ? 0 : members->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct member *member = &members->items[members->by_name[middle]];
        int order = compare_spans(name, member->name);
        if (order == 0)
            return member;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
