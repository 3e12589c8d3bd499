#include "core/config/diff.h"

#include "core/base/buf.h"
#include "core/config/faults.h"
#include "core/config/keyplaces.h"
#include "core/config/members.h"
#include "core/json/scan.h"

struct comparison {
    struct arena *arena;
    struct config_diff *diff;
    struct buf path;
};

static const struct span nothing = { NULL, 0 };

static bool is_container(struct span value)
{
    return value.ptr != NULL && value.len > 0 && (value.ptr[0] == '{' || value.ptr[0] == '[');
}

static bool is_text(struct span value)
{
    return value.len > 0 && value.ptr[0] == '"';
}

static bool is_same(struct span a, struct span b, struct arena *arena)
{
    if (a.ptr == NULL || b.ptr == NULL)
        return a.ptr == b.ptr;
    if (span_eq(a, b))
        return true;
    if (is_text(a) && is_text(b))
        return span_eq(json_decode(arena, a), json_decode(arena, b));
    if (!is_container(a) || a.ptr[0] != b.ptr[0])
        return false;
    struct members x = members_read(a, arena), y = members_read(b, arena);
    if (x.count != y.count)
        return false;
    for (size_t i = 0; i < x.count; i++) {
        bool is_list = a.ptr[0] == '[';
        const struct member *other = is_list ? &y.items[i] : members_find(&y, x.items[i].name);
        if (other == NULL || !is_same(x.items[i].value, other->value, arena))
            return false;
    }
    return true;
}

/* Without the blanks between its parts: what is told may have to fit into one line. */
static struct span compact(struct span value, struct arena *arena)
{
    char *text = arena_alloc(arena, value.len + 1);
    bool is_in_text = false;
    size_t len = 0;

    if (value.ptr == NULL)
        return nothing;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (!is_in_text && strchr(" \t\r\n", c) != NULL)
            continue;
        text[len++] = c;
        if (is_in_text && c == '\\')
            text[len++] = value.ptr[++i];
        else if (c == '"')
            is_in_text = !is_in_text;
    }
    return span_of(text, len);
}

static void add(struct comparison *c, struct span before, struct span after)
{
    if (c->diff->count == DIFF_CHANGES_MAX) {
        c->diff->dropped++;
        return;
    }
    if (c->diff->items == NULL)
        c->diff->items = arena_array_of(c->arena, struct config_change, DIFF_CHANGES_MAX);
    c->diff->items[c->diff->count++] =
        (struct config_change){ .path = arena_span(c->arena, buf_span(&c->path)),
                                .before = compact(before, c->arena),
                                .after = compact(after, c->arena) };
}

static void compare(struct comparison *c, struct span before, struct span after);

static void compare_member(struct comparison *c, struct span name, struct span before, struct span after)
{
    size_t mark = fault_path_push_name(&c->path, name);
    compare(c, before, after);
    fault_path_pop(&c->path, mark);
}

static void compare_objects(struct comparison *c, struct span before, struct span after)
{
    struct members old = members_read(before, c->arena), new = members_read(after, c->arena);
    for (size_t i = 0; i < old.count; i++) {
        const struct member *member = &old.items[i], *now = members_find(&new, member->name);
        compare_member(c, member->name, member->value, now == NULL ? nothing : now->value);
    }
    for (size_t i = 0; i < new.count; i++)
        if (members_find(&old, new.items[i].name) == NULL)
            compare_member(c, new.items[i].name, nothing, new.items[i].value);
}

static void compare_lists(struct comparison *c, struct span before, struct span after)
{
    struct members old = members_read(before, c->arena), new = members_read(after, c->arena);
    size_t least = old.count < new.count ? old.count : new.count, first = 0, behind = 0;
    while (first < least && is_same(old.items[first].value, new.items[first].value, c->arena))
        first++;
    while (behind < least - first && is_same(old.items[old.count - 1 - behind].value,
                                             new.items[new.count - 1 - behind].value, c->arena))
        behind++;
    size_t most = old.count > new.count ? old.count : new.count;
    for (size_t i = first; i < most - behind; i++) {
        size_t mark = fault_path_push_index(&c->path, i);
        compare(c, i < old.count - behind ? old.items[i].value : nothing,
                i < new.count - behind ? new.items[i].value : nothing);
        fault_path_pop(&c->path, mark);
    }
}

static bool is_key(struct span value, struct arena *arena)
{
    struct members members = members_read(value, arena);
    return members_find(&members, span_cstr(key_member_names[MEMBER_CIPHERTEXT_FINGERPRINT])) != NULL;
}

static void compare(struct comparison *c, struct span before, struct span after)
{
    if (is_same(before, after, c->arena))
        return;
    struct span one = after.ptr != NULL ? after : before;
    bool is_alone = before.ptr == NULL || after.ptr == NULL;
    bool has_parts = is_alone ? is_container(one) && one.len > DIFF_WHOLE_BYTES
                              : is_container(before) && before.ptr[0] == after.ptr[0];
    if (!has_parts || is_key(before, c->arena) || is_key(after, c->arena))
        add(c, before, after);
    else if (one.ptr[0] == '{')
        compare_objects(c, before, after);
    else
        compare_lists(c, before, after);
}

void config_diff(struct span before, struct span after, struct arena *arena, struct config_diff *out)
{
    struct comparison c = { .arena = arena, .diff = out };
    *out = (struct config_diff){ .count = 0 };
    before = span_trim(before);
    after = span_trim(after);
    buf_init(&c.path, FAULT_PATH_LIMIT_BYTES);
    compare(&c, before.len == 0 ? nothing : before, after.len == 0 ? nothing : after);
    buf_free(&c.path);
}

static void write_change(const struct config_change *change, const char *path_name, struct json_writer *w)
{
    jw_begin_object(w);
    jw_member_cstr(w, path_name, change->path);
    if (change->before.ptr != NULL) {
        jw_key(w, "before");
        jw_raw(w, change->before);
    }
    if (change->after.ptr != NULL) {
        jw_key(w, "after");
        jw_raw(w, change->after);
    }
    jw_end_object(w);
}

void config_diff_write(const struct config_diff *diff, const char *path_name, struct json_writer *w)
{
    jw_begin_array(w);
    for (size_t i = 0; i < diff->count; i++)
        write_change(&diff->items[i], path_name, w);
    jw_end_array(w);
}

struct span config_diff_audit(const struct config_diff *diff, struct arena *arena)
{
    enum { LAST_BYTES = 64 }; /* {"further":N}] */
    struct json_writer w;
    struct buf text;
    size_t written = 0;

    buf_init(&text, DIFF_AUDIT_BYTES);
    jw_init(&w, &text);
    jw_begin_array(&w);
    while (written < diff->count) {
        size_t before = text.len;
        write_change(&diff->items[written], "field", &w);
        if (text.overflowed || text.len + LAST_BYTES > DIFF_AUDIT_BYTES) {
            text.len = before;
            text.overflowed = false;
            w.need_comma = written > 0;
            break;
        }
        written++;
    }
    size_t rest = diff->count - written + diff->dropped;
    if (rest > 0) {
        jw_begin_object(&w);
        jw_member_uint(&w, "further", rest);
        jw_end_object(&w);
    }
    jw_end_array(&w);
    struct span changes = span_of(arena_span(arena, buf_span(&text)), text.len);
    buf_free(&text);
    return changes;
}
