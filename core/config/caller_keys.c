#include "core/config/caller_keys.h"

#include <openssl/crypto.h>

#include "core/base/ids.h"
#include "core/config/document.h"
#include "core/config/faults.h"
#include "core/config/members.h"
#include "core/config/patch.h"
#include "core/crypto/digest.h"
#include "core/json/scan.h"
#include "core/store/store.h"

enum {
    CALLER_KEY_RANDOM_BYTES = 32,
    SHOWN_LIMIT_BYTES = 2 * STORE_VALUE_LIMIT_BYTES, /* a row is as long as whoever wrote it laid it out */
};

static const char empty_document[] = "{\"keys\":[]}";

void caller_key_generate(char out[CALLER_KEY_TEXT_BYTES])
{
    unsigned char bytes[CALLER_KEY_RANDOM_BYTES];
    ids_random(bytes, sizeof(bytes));
    memcpy(out, "lr-", 3);
    base64url_encode(span_of((const char *)bytes, sizeof(bytes)), out + 3);
    OPENSSL_cleanse(bytes, sizeof(bytes));
}

/* The document, the list in it, and its rows. */
struct rows {
    struct span raw;
    struct span list;
    struct members items;
};

static int read_rows(struct span raw, struct arena *arena, struct rows *out)
{
    struct entry_faults ignored = { 0 };
    out->raw = raw.len == 0 ? span_cstr(empty_document) : raw;
    if (entry_check(ENTRY_CALLER_KEYS, out->raw, arena, &ignored) != 0)
        return ERR_UNSUPPORTED;
    struct members members = members_read(span_trim(out->raw), arena);
    out->list = members_find(&members, span_cstr("keys"))->value;
    out->items = members_read(out->list, arena);
    return 0;
}

static const char *text_member(const struct members *row, const char *name, struct arena *arena)
{
    const struct member *member = members_find(row, span_cstr(name));
    return member == NULL ? NULL : json_decode(arena, member->value).ptr;
}

static struct caller_key key_of(struct span row, struct arena *arena)
{
    struct members members = members_read(row, arena);
    const struct member *models = members_find(&members, span_cstr("models"));
    const struct member *limits = members_find(&members, span_cstr("limits"));
    struct caller_key key = {
        .id = text_member(&members, "id", arena),
        .owner = text_member(&members, "owner", arena),
        .created_at = text_member(&members, "createdAt", arena),
    };
    if (models != NULL)
        key.models = models->value;
    if (limits != NULL)
        key.limits = limits->value;
    memcpy(key.fingerprint, text_member(&members, "sha256", arena), CALLER_KEY_FINGERPRINT_DIGITS);
    return key;
}

int caller_keys_list(struct span raw, struct arena *arena, struct caller_key **out, size_t *n)
{
    struct rows rows;
    int r = read_rows(raw, arena, &rows);
    if (r != 0)
        return r;
    struct caller_key *keys = arena_array_of(arena, struct caller_key, rows.items.count);
    for (size_t i = 0; i < rows.items.count; i++)
        keys[i] = key_of(rows.items.items[i].value, arena);
    *out = keys;
    *n = rows.items.count;
    return 0;
}

/* The position of the row with this id, or the number of rows. */
static size_t position_of(const struct rows *rows, struct span id, struct arena *arena)
{
    for (size_t i = 0; i < rows->items.count; i++) {
        struct members members = members_read(rows->items.items[i].value, arena);
        if (span_eq(json_decode(arena, members_find(&members, span_cstr("id"))->value), id))
            return i;
    }
    return rows->items.count;
}

int caller_keys_find(struct span raw, const char *id, struct arena *arena, struct caller_key *out)
{
    struct rows rows;
    int r = read_rows(raw, arena, &rows);
    if (r != 0)
        return r;
    size_t i = position_of(&rows, span_cstr(id), arena);
    if (i == rows.items.count)
        return ERR_NOT_FOUND;
    *out = key_of(rows.items.items[i].value, arena);
    return 0;
}

/* The document with `len` bytes from `at` replaced. */
static int replace(const struct rows *rows, const char *at, size_t len, struct span with, struct arena *arena,
                   struct span *out)
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
static int check_row(struct span row, struct arena *arena, struct entry_faults *faults)
{
    static const char place[] = "/keys/0";
    struct entry_faults found = { 0 };
    const char *alone = arena_printf(arena, "{\"keys\":[%.*s]}", (int)row.len, row.ptr);
    if (entry_check(ENTRY_CALLER_KEYS, span_cstr(alone), arena, &found) == 0)
        return 0;
    for (size_t i = 0; i < found.count; i++) {
        const char *path = found.items[i].path;
        bool is_inside = strncmp(path, place, sizeof(place) - 1) == 0;
        fault_add(faults, arena, span_cstr(is_inside ? path + sizeof(place) - 1 : ""), "%s",
                  found.items[i].message);
    }
    return ERR_FORMAT;
}

/* What a row is made or changed with is an object, in which these may not stand. */
static int check_request(struct span text, const char *const *refused, size_t n_refused, struct arena *arena,
                         struct members *out, struct entry_faults *faults)
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

static struct span write_row(const struct members *wanted, const char *key, const char *created_at,
                             struct arena *arena)
{
    char digest[SHA256_HEX_BYTES];
    struct json_writer w;
    struct buf row;

    sha256_hex(span_cstr(key), digest);
    buf_init(&row, STORE_VALUE_LIMIT_BYTES);
    jw_init(&w, &row);
    jw_begin_object(&w);
    for (size_t i = 0; i < wanted->count; i++) {
        jw_key_span(&w, wanted->items[i].name);
        jw_raw(&w, wanted->items[i].value);
    }
    jw_member_cstr(&w, "sha256", digest);
    jw_member_cstr(&w, "createdAt", created_at);
    jw_end_object(&w);
    struct span text = span_of(arena_span(arena, buf_span(&row)), row.len);
    buf_free(&row);
    return text;
}

int caller_keys_add(struct span raw, struct span wanted, const char *key, const char *created_at,
                    struct arena *arena, struct span *out, struct entry_faults *faults)
{
    static const char *const refused[] = { "sha256", "createdAt", "key" };
    struct entry_faults many = { 0 };
    struct members members;
    struct rows rows;
    struct span result;

    int r = read_rows(raw, arena, &rows);
    if (r == 0)
        r = check_request(wanted, refused, sizeof(refused) / sizeof(refused[0]), arena, &members, faults);
    if (r != 0)
        return r;
    struct span row = write_row(&members, key, created_at, arena);
    if ((r = check_row(row, arena, faults)) != 0)
        return r;
    struct span id = json_decode(arena, members_find(&members, span_cstr("id"))->value);
    if (position_of(&rows, id, arena) < rows.items.count)
        return ERR_CONFLICT;
    if (rows.items.count > 0) {
        const struct member *last = &rows.items.items[rows.items.count - 1];
        row = span_cstr(
            arena_printf(arena, ",%.*s%.*s", (int)last->before.len, last->before.ptr, (int)row.len, row.ptr));
        r = replace(&rows, last->written.ptr + last->written.len, 0, row, arena, &result);
    } else {
        r = replace(&rows, rows.list.ptr + 1, rows.list.len - 2, row, arena, &result);
    }
    /* Each row is right by itself: what may be wrong is how many there are. */
    if (r == 0 && entry_check(ENTRY_CALLER_KEYS, result, arena, &many) != 0)
        r = ERR_LIMIT;
    if (r == 0)
        *out = result;
    return r;
}

int caller_keys_change(struct span raw, const char *id, struct span patch, struct arena *arena,
                       struct span *out, struct entry_faults *faults)
{
    static const char *const refused[] = { "id", "sha256", "createdAt", "key" };
    struct members ignored;
    struct rows rows;
    struct span row;

    int r = read_rows(raw, arena, &rows);
    if (r == 0)
        r = check_request(patch, refused, sizeof(refused) / sizeof(refused[0]), arena, &ignored, faults);
    if (r != 0)
        return r;
    size_t i = position_of(&rows, span_cstr(id), arena);
    if (i == rows.items.count)
        return ERR_NOT_FOUND;
    struct span old = rows.items.items[i].value;
    r = config_patch(old, patch, arena, &row);
    if (r == 0)
        r = check_row(row, arena, faults);
    return r != 0 ? r : replace(&rows, old.ptr, old.len, row, arena, out);
}

int caller_keys_revoke(struct span raw, const char *id, struct arena *arena, struct span *out)
{
    struct rows rows;
    int r = read_rows(raw, arena, &rows);
    if (r != 0)
        return r;
    const struct member *items = rows.items.items;
    size_t i = position_of(&rows, span_cstr(id), arena);
    if (i == rows.items.count)
        return ERR_NOT_FOUND;
    /* With the comma in front of it, or the one behind the first. */
    const char *begin = i > 0 ? items[i - 1].written.ptr + items[i - 1].written.len : items[i].written.ptr;
    const char *end = items[i].written.ptr + items[i].written.len;
    if (i == 0 && rows.items.count > 1)
        end = items[1].written.ptr;
    return replace(&rows, begin, (size_t)(end - begin), span_of("", 0), arena, out);
}

void caller_key_write(const struct caller_key *key, struct json_writer *w)
{
    jw_begin_object(w);
    jw_member_cstr(w, "id", key->id);
    if (key->owner != NULL)
        jw_member_cstr(w, "owner", key->owner);
    if (key->models.ptr != NULL) {
        jw_key(w, "models");
        jw_raw(w, key->models);
    }
    if (key->limits.ptr != NULL) {
        jw_key(w, "limits");
        jw_raw(w, key->limits);
    }
    if (key->created_at != NULL)
        jw_member_cstr(w, "createdAt", key->created_at);
    jw_member_cstr(w, "fingerprint", key->fingerprint);
    jw_end_object(w);
}

struct span caller_keys_show(struct span raw, const char *id, struct arena *arena)
{
    struct caller_key key;
    struct json_writer w;
    struct buf text;

    if (raw.len == 0 || caller_keys_find(raw, id, arena, &key) != 0)
        return span_of("", 0);
    buf_init(&text, SHOWN_LIMIT_BYTES);
    jw_init(&w, &text);
    caller_key_write(&key, &w);
    struct span row = span_of(arena_span(arena, buf_span(&text)), text.len);
    buf_free(&text);
    return row;
}
