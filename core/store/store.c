#include "core/store/store_ops.h"

#include "core/json/scan.h"

enum { KEY_MAX_BYTES = 64 };

/* A key becomes part of a path. */
static int check_key(const char *key, struct error *e)
{
    size_t len = strlen(key);
    if (len == 0 || len > KEY_MAX_BYTES || strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != len)
        return error_set(e, ERR_FORMAT, "a key of the store has 1 to %d of A-Z, 0-9 and _", KEY_MAX_BYTES);
    return 0;
}

bool store_is_expected(const char *expected, const char *current)
{
    if (expected == NULL)
        return current == NULL;
    return strcmp(expected, "*") == 0 || (current != NULL && strcmp(expected, current) == 0);
}

int store_refuse(const struct store_change *change, const char *current, struct store_outcome *out,
                 struct error *e)
{
    *out = (struct store_outcome){ .version = "" };
    if (current == NULL)
        return error_set(e, ERR_CONFLICT, "%s has no value", change->key);
    memcpy(out->version, current, strnlen(current, STORE_VERSION_BYTES - 1));
    return error_set(e, ERR_CONFLICT, "%s has version %s", change->key, current);
}

int store_open(const struct store_place *place, struct store **out, struct error *e)
{
    bool has_database = place->database_url != NULL && place->database_url[0] != '\0';
    return has_database ? postgres_open(place, out, e) : directory_open(place, out, e);
}

void store_close(struct store *store)
{
    if (store != NULL)
        store->ops->close(store);
}

int store_get(struct store *store, const char *key, struct arena *arena, struct store_value *out,
              struct error *e)
{
    struct store_value value;
    int r = store_get_all(store, &key, 1, arena, &value, e);
    if (r == 0 && value.raw.ptr == NULL)
        r = error_set(e, ERR_NOT_FOUND, "%s has no value", key);
    if (r == 0)
        *out = value;
    return r;
}

int store_get_all(struct store *store, const char *const *keys, size_t n, struct arena *arena,
                  struct store_value *out, struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        int r = check_key(keys[i], e);
        if (r != 0)
            return r;
    }
    return store->ops->get_all(store, keys, n, arena, out, e);
}

static int check_changes(struct span changes, struct error *e)
{
    if (changes.len > STORE_CHANGES_LIMIT_BYTES)
        return error_set(e, ERR_LIMIT, "what changed has %zu bytes, at most %d are allowed", changes.len,
                         STORE_CHANGES_LIMIT_BYTES);
    if (changes.len > 0 && json_scan(changes, NULL, 0, 0, NULL, NULL, NULL) != 0)
        return error_set(e, ERR_FORMAT, "what changed is not told in JSON");
    return 0;
}

int store_put(struct store *store, const struct store_change *change, struct store_outcome *out,
              struct error *e)
{
    int r = check_key(change->key, e);
    if (r == 0 && change->raw.len > STORE_VALUE_LIMIT_BYTES)
        r = error_set(e, ERR_LIMIT, "the value has %zu bytes, at most %d are allowed", change->raw.len,
                      STORE_VALUE_LIMIT_BYTES);
    if (r == 0)
        r = check_changes(change->audit.changes, e);
    return r != 0 ? r : store->ops->put(store, change, out, e);
}

int store_versions(struct store *store, const char *key, size_t max, struct arena *arena,
                   struct store_version *out, size_t *n, size_t *total, struct error *e)
{
    int r = check_key(key, e);
    return r != 0 ? r : store->ops->versions(store, key, max, arena, out, n, total, e);
}

/* A version, too, becomes part of a path. */
static bool is_version(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len < STORE_VERSION_BYTES &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

int store_get_version(struct store *store, const char *key, const char *version, struct arena *arena,
                      struct store_value *out, struct error *e)
{
    int r = check_key(key, e);
    if (r == 0 && !is_version(version))
        r = error_set(e, ERR_NOT_FOUND, "%s never had such a version", key);
    return r != 0 ? r : store->ops->get_version(store, key, version, arena, out, e);
}

int store_audit_log(struct store *store, size_t max, struct arena *arena, struct span *json, struct error *e)
{
    return store->ops->audit_log(store, max, arena, json, e);
}

int store_stamp(struct store *store, uint64_t *stamp, struct error *e)
{
    return store->ops->stamp(store, stamp, e);
}

int store_watch_fd(struct store *store)
{
    return store->ops->watch_fd(store);
}

enum store_news store_listen(struct store *store)
{
    return store->ops->listen(store);
}

void store_health(const struct store *store, struct store_health *out)
{
    *out = (struct store_health){ .has_database = false };
    store->ops->health(store, out);
}

int store_report(struct store *store, const struct store_instance *self, struct error *e)
{
    return store->ops->report(store, self, e);
}

int store_instances(struct store *store, struct arena *arena, struct store_instance **out, size_t *n,
                    struct error *e)
{
    return store->ops->instances(store, arena, out, n, e);
}
