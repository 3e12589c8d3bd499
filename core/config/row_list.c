#include "core/config/row_list.h"

#include <string.h>

#include "core/config/document.h"
#include "core/config/faults.h"
#include "core/json/scan.h"
#include "core/store/store.h"

int row_list_read(const struct row_list_kind *kind, struct span raw, struct arena *arena,
                  struct row_list *out)
{
    struct entry_faults ignored = { 0 };
    if (raw.len == 0)
        raw = span_cstr(arena_printf(arena, "{\"%s\":[]}", kind->member));
    if (entry_check(kind->entry, raw, arena, &ignored) != 0)
        return ERR_UNSUPPORTED;
    struct members members = members_read(span_trim(raw), arena);
    struct span list = members_find(&members, span_cstr(kind->member))->value;
    *out = (struct row_list){ .kind = kind, .raw = raw, .list = list, .items = members_read(list, arena) };
    return 0;
}

static struct span id_of(struct span row, struct arena *arena)
{
    struct members members = members_read(row, arena);
    return json_decode(arena, members_find(&members, span_cstr("id"))->value);
}

size_t row_list_find(const struct row_list *rows, struct span id, struct arena *arena)
{
    for (size_t i = 0; i < rows->items.count; i++)
        if (span_eq(id_of(rows->items.items[i].value, arena), id))
            return i;
    return rows->items.count;
}

/* The document with `len` bytes from `at` replaced. */
static int splice(const struct row_list *rows, const char *at, size_t len, struct span with,
                  struct arena *arena, struct span *out)
{
    size_t before = (size_t)(at - rows->raw.ptr), behind = rows->raw.len - before - len;
    size_t size = before + with.len + behind;
    if (size > STORE_VALUE_LIMIT_BYTES)
        return ERR_LIMIT;
    char *text = arena_alloc(arena, size + 1);
    memcpy(text, rows->raw.ptr, before);
    memcpy(text + before, with.ptr, with.len);
    memcpy(text + before + with.len, at + len, behind);
    text[size] = '\0';
    *out = span_of(text, size);
    return 0;
}

/* What is wrong with one row, with paths in the row. */
static int check_row(const struct row_list_kind *kind, struct span row, struct arena *arena,
                     struct entry_faults *faults)
{
    const char *place = arena_printf(arena, "/%s/0", kind->member);
    struct entry_faults found = { 0 };
    const char *alone = arena_printf(arena, "{\"%s\":[%.*s]}", kind->member, (int)row.len, row.ptr);
    if (entry_check(kind->entry, span_cstr(alone), arena, &found) == 0)
        return 0;
    for (size_t i = 0; i < found.count; i++) {
        const char *path = found.items[i].path;
        bool is_inside = strncmp(path, place, strlen(place)) == 0;
        fault_add(faults, arena, span_cstr(is_inside ? path + strlen(place) : ""), "%s",
                  found.items[i].message);
    }
    return ERR_FORMAT;
}

int row_list_check_request(struct span text, const char *const *refused, size_t n_refused,
                           struct arena *arena, struct members *out, struct entry_faults *faults)
{
    if (document_check(text, arena, faults) != 0)
        return ERR_FORMAT;
    struct span object = span_trim(text);
    if (object.len == 0 || object.ptr[0] != '{') {
        fault_add(faults, arena, span_of("", 0), "expected an object");
        return ERR_FORMAT;
    }
    *out = members_read(object, arena);
    size_t before = faults->count;
    for (size_t i = 0; i < n_refused; i++)
        if (members_find(out, span_cstr(refused[i])) != NULL)
            fault_add(faults, arena, span_cstr(arena_printf(arena, "/%s", refused[i])), "cannot be set");
    return faults->count == before ? 0 : ERR_FORMAT;
}

int row_list_append(const struct row_list *rows, struct span row, struct arena *arena, struct span *out,
                    struct entry_faults *faults)
{
    struct entry_faults many = { 0 };
    size_t n = rows->items.count;
    struct span result;

    int r = check_row(rows->kind, row, arena, faults);
    if (r != 0)
        return r;
    if (row_list_find(rows, id_of(row, arena), arena) < n)
        return ERR_CONFLICT;
    if (n > 0) {
        const struct member *last = &rows->items.items[n - 1];
        row = span_cstr(
            arena_printf(arena, ",%.*s%.*s", (int)last->before.len, last->before.ptr, (int)row.len, row.ptr));
        r = splice(rows, last->written.ptr + last->written.len, 0, row, arena, &result);
    } else {
        r = splice(rows, rows->list.ptr + 1, rows->list.len - 2, row, arena, &result);
    }
    /* Each row is right by itself: what may be wrong is how many there are. */
    if (r == 0 && entry_check(rows->kind->entry, result, arena, &many) != 0)
        r = ERR_LIMIT;
    if (r == 0)
        *out = result;
    return r;
}

int row_list_replace(const struct row_list *rows, size_t i, struct span row, struct arena *arena,
                     struct span *out, struct entry_faults *faults)
{
    struct span old = rows->items.items[i].value;
    int r = check_row(rows->kind, row, arena, faults);
    return r != 0 ? r : splice(rows, old.ptr, old.len, row, arena, out);
}

int row_list_remove(const struct row_list *rows, size_t i, struct arena *arena, struct span *out)
{
    const struct member *items = rows->items.items;
    /* With the comma in front of it, or the one behind the first. */
    const char *begin = i > 0 ? items[i - 1].written.ptr + items[i - 1].written.len : items[i].written.ptr;
    const char *end = items[i].written.ptr + items[i].written.len;
    if (i == 0 && rows->items.count > 1)
        end = items[1].written.ptr;
    return splice(rows, begin, (size_t)(end - begin), span_of("", 0), arena, out);
}
