#include "core/config/voice_pack_rows.h"

#include "core/base/buf.h"
#include "core/config/diff.h"
#include "core/config/patch.h"
#include "core/config/row_list.h"
#include "core/json/writer.h"
#include "core/store/store.h"

static const struct row_list_kind kind = { ENTRY_VOICE_PACKS, "packs" };

int voice_packs_list(struct span raw, struct arena *arena, struct members *out)
{
    struct row_list rows;
    int r = row_list_read(&kind, raw, arena, &rows);
    if (r == 0)
        *out = rows.items;
    return r;
}

int voice_packs_find(struct span raw, const char *id, struct arena *arena, struct span *out)
{
    struct row_list rows;
    int r = row_list_read(&kind, raw, arena, &rows);
    if (r != 0)
        return r;
    size_t i = row_list_find(&rows, span_cstr(id), arena);
    if (i == rows.items.count)
        return ERR_NOT_FOUND;
    *out = rows.items.items[i].value;
    return 0;
}

/* The members as they are wanted, between the id and what is said where nothing is. */
static struct span write_row(const struct members *wanted, const char *id, const char *now,
                             struct arena *arena)
{
    static const struct {
        const char *name, *preset;
    } presets[] = { { "params", "{}" }, { "enabled", "true" } };
    struct json_writer w;
    struct buf row;

    buf_init(&row, STORE_VALUE_LIMIT_BYTES);
    jw_init(&w, &row);
    jw_begin_object(&w);
    jw_member_cstr(&w, "id", id);
    for (size_t i = 0; i < wanted->count; i++) {
        jw_key_span(&w, wanted->items[i].name);
        jw_raw(&w, wanted->items[i].value);
    }
    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
        if (members_find(wanted, span_cstr(presets[i].name)) != NULL)
            continue;
        jw_key(&w, presets[i].name);
        jw_raw(&w, span_cstr(presets[i].preset));
    }
    jw_member_cstr(&w, "createdAt", now);
    jw_member_cstr(&w, "updatedAt", now);
    jw_end_object(&w);
    struct span text = span_of(arena_span(arena, buf_span(&row)), row.len);
    buf_free(&row);
    return text;
}

int voice_packs_add(struct span raw, struct span wanted, const char *id, const char *now, struct arena *arena,
                    struct span *out, struct entry_faults *faults)
{
    static const char *const refused[] = { "id", "createdAt", "updatedAt" };
    struct members members;
    struct row_list rows;

    int r = row_list_read(&kind, raw, arena, &rows);
    if (r == 0)
        r = row_list_check_request(wanted, refused, sizeof(refused) / sizeof(refused[0]), arena, &members,
                                   faults);
    return r != 0 ? r : row_list_append(&rows, write_row(&members, id, now, arena), arena, out, faults);
}

/* The patched row, with its time if anything else of it is another. */
static int patch_row(struct span old, struct span patch, const char *now, struct arena *arena,
                     struct span *out)
{
    struct config_diff diff;
    struct span patched;

    int r = config_patch(old, patch, arena, &patched);
    if (r != 0)
        return r;
    config_diff(old, patched, arena, &diff);
    if (diff.count == 0) {
        *out = old;
        return 0;
    }
    return config_patch(patched, span_cstr(arena_printf(arena, "{\"updatedAt\":\"%s\"}", now)), arena, out);
}

static int change(struct span raw, const char *id, struct span patch, const char *now, struct arena *arena,
                  struct span *out, struct entry_faults *faults)
{
    struct row_list rows;
    struct span row;

    int r = row_list_read(&kind, raw, arena, &rows);
    if (r != 0)
        return r;
    size_t i = row_list_find(&rows, span_cstr(id), arena);
    if (i == rows.items.count)
        return ERR_NOT_FOUND;
    r = patch_row(rows.items.items[i].value, patch, now, arena, &row);
    return r != 0 ? r : row_list_replace(&rows, i, row, arena, out, faults);
}

int voice_packs_change(struct span raw, const char *id, struct span patch, const char *now,
                       struct arena *arena, struct span *out, struct entry_faults *faults)
{
    static const char *const refused[] = { "id", "createdAt", "updatedAt" };
    struct members ignored;
    int r =
        row_list_check_request(patch, refused, sizeof(refused) / sizeof(refused[0]), arena, &ignored, faults);
    return r != 0 ? r : change(raw, id, patch, now, arena, out, faults);
}

int voice_packs_enable(struct span raw, const char *id, bool is_enabled, const char *now, struct arena *arena,
                       struct span *out)
{
    struct entry_faults none = { 0 };
    const char *patch = is_enabled ? "{\"enabled\":true}" : "{\"enabled\":false}";
    return change(raw, id, span_cstr(patch), now, arena, out, &none);
}
