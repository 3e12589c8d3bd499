#include "core/config/caller_keys.h"

#include <openssl/crypto.h>

#include "core/base/ids.h"
#include "core/config/members.h"
#include "core/config/patch.h"
#include "core/config/row_list.h"
#include "core/crypto/digest.h"
#include "core/json/scan.h"
#include "core/store/store.h"

enum {
    CALLER_KEY_RANDOM_BYTES = 32,
    SHOWN_LIMIT_BYTES = 2 * STORE_VALUE_LIMIT_BYTES, /* a row is as long as whoever wrote it laid it out */
};

static const struct row_list_kind kind = { ENTRY_CALLER_KEYS, "keys" };

void caller_key_generate(char out[CALLER_KEY_TEXT_BYTES])
{
    unsigned char bytes[CALLER_KEY_RANDOM_BYTES];
    ids_random(bytes, sizeof(bytes));
    memcpy(out, "lr-", 3);
    base64url_encode(span_of((const char *)bytes, sizeof(bytes)), out + 3);
    OPENSSL_cleanse(bytes, sizeof(bytes));
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
    struct row_list rows;
    int r = row_list_read(&kind, raw, arena, &rows);
    if (r != 0)
        return r;
    struct caller_key *keys = arena_array_of(arena, struct caller_key, rows.items.count);
    for (size_t i = 0; i < rows.items.count; i++)
        keys[i] = key_of(rows.items.items[i].value, arena);
    *out = keys;
    *n = rows.items.count;
    return 0;
}

int caller_keys_find(struct span raw, const char *id, struct arena *arena, struct caller_key *out)
{
    struct row_list rows;
    int r = row_list_read(&kind, raw, arena, &rows);
    if (r != 0)
        return r;
    size_t i = row_list_find(&rows, span_cstr(id), arena);
    if (i == rows.items.count)
        return ERR_NOT_FOUND;
    *out = key_of(rows.items.items[i].value, arena);
    return 0;
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
    struct members members;
    struct row_list rows;

    int r = row_list_read(&kind, raw, arena, &rows);
    if (r == 0)
        r = row_list_check_request(wanted, refused, sizeof(refused) / sizeof(refused[0]), arena, &members,
                                   faults);
    if (r != 0)
        return r;
    struct span row = write_row(&members, key, created_at, arena);
    return row_list_append(&rows, row, arena, out, faults);
}

int caller_keys_change(struct span raw, const char *id, struct span patch, struct arena *arena,
                       struct span *out, struct entry_faults *faults)
{
    static const char *const refused[] = { "id", "sha256", "createdAt", "key" };
    struct members ignored;
    struct row_list rows;
    struct span row;

    int r = row_list_read(&kind, raw, arena, &rows);
    if (r == 0)
        r = row_list_check_request(patch, refused, sizeof(refused) / sizeof(refused[0]), arena, &ignored,
                                   faults);
    if (r != 0)
        return r;
    size_t i = row_list_find(&rows, span_cstr(id), arena);
    if (i == rows.items.count)
        return ERR_NOT_FOUND;
    struct span old = rows.items.items[i].value;
    r = config_patch(old, patch, arena, &row);
    return r != 0 ? r : row_list_replace(&rows, i, row, arena, out, faults);
}

int caller_keys_revoke(struct span raw, const char *id, struct arena *arena, struct span *out)
{
    struct row_list rows;
    int r = row_list_read(&kind, raw, arena, &rows);
    if (r != 0)
        return r;
    size_t i = row_list_find(&rows, span_cstr(id), arena);
    return i == rows.items.count ? ERR_NOT_FOUND : row_list_remove(&rows, i, arena, out);
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
