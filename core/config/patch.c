#include "core/config/patch.h"

#include "core/config/members.h"
#include "core/store/store.h"

/* Where the result goes: first nowhere, to learn its size, then to its place. A
 * buffer that grows would leave copies of plaintext keys in freed memory. */
struct sink {
    char *at; /* NULL: only counts */
    size_t len;
};

static void put(struct sink *sink, struct span text)
{
    if (sink->at != NULL && text.len > 0)
        memcpy(sink->at + sink->len, text.ptr, text.len);
    sink->len += text.len;
}

static bool is_object(struct span value)
{
    return value.len > 0 && value.ptr[0] == '{';
}

static bool is_null(struct span value)
{
    return span_is(value, "null");
}

static void merge(struct sink *sink, struct span target, struct span patch, struct arena *arena);

static void put_member(struct sink *sink, bool is_first, struct span before, const struct member *named,
                       struct span target, struct span patch, struct arena *arena)
{
    struct span name = span_of(named->written.ptr, (size_t)(named->value.ptr - named->written.ptr));
    if (!is_first)
        put(sink, span_cstr(","));
    put(sink, before);
    put(sink, name); /* with the colon and blanks */
    merge(sink, target, patch, arena);
}

/* `target` is empty where nothing stands yet. */
static void merge(struct sink *sink, struct span target, struct span patch, struct arena *arena)
{
    bool is_first = true;

    if (!is_object(patch)) {
        put(sink, patch);
        return;
    }
    struct members changes = members_read(patch, arena);
    struct members old = { .behind = changes.behind };
    if (is_object(target))
        old = members_read(target, arena);
    put(sink, span_cstr("{"));
    for (size_t i = 0; i < old.count; i++) {
        const struct member *member = &old.items[i], *change = members_find(&changes, member->name);
        if (change != NULL && is_null(change->value))
            continue;
        if (change != NULL)
            put_member(sink, is_first, member->before, member, member->value, change->value, arena);
        else {
            if (!is_first)
                put(sink, span_cstr(","));
            put(sink, member->before);
            put(sink, member->written);
        }
        put(sink, member->after);
        is_first = false;
    }
    for (size_t i = 0; i < changes.count; i++) {
        const struct member *change = &changes.items[i];
        if (is_null(change->value) || members_find(&old, change->name) != NULL)
            continue;
        /* Indented as its new neighbours are. */
        struct span before = old.count > 0 ? old.items[old.count - 1].before : change->before;
        put_member(sink, is_first, before, change, span_of("", 0), change->value, arena);
        is_first = false;
    }
    put(sink, old.behind);
    put(sink, span_cstr("}"));
}

int config_patch(struct span target, struct span patch, struct arena *arena, struct span *out)
{
    struct sink sink = { NULL, 0 };

    target = span_trim(target);
    patch = span_trim(patch);
    merge(&sink, target, patch, arena);
    if (sink.len > STORE_VALUE_LIMIT_BYTES)
        return ERR_LIMIT;
    sink.at = arena_alloc(arena, sink.len + 1);
    sink.len = 0;
    merge(&sink, target, patch, arena);
    sink.at[sink.len] = '\0';
    *out = span_of(sink.at, sink.len);
    return 0;
}
