#include "core/store/store_ops.h"

#include "core/crypto/digest.h"

enum { KEY_MAX_BYTES = 64 };

/* A key becomes part of a path. */
static int check_key(const char *key, struct error *e)
{
    size_t len = strlen(key);
    if (len == 0 || len > KEY_MAX_BYTES || strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != len)
        return error_set(e, ERR_FORMAT, "a key of the store has 1 to %d of A-Z, 0-9 and _", KEY_MAX_BYTES);
    return 0;
}

void store_version_of(struct span raw, char version[STORE_VERSION_BYTES])
{
    fingerprint(raw, STORE_VERSION_BYTES - 1, version);
}

void store_close(struct store *store)
{
    if (store != NULL)
        store->ops->close(store);
}

int store_get(struct store *store, const char *key, struct arena *arena, struct store_value *out,
              struct error *e)
{
    int r = check_key(key, e);
    return r != 0 ? r : store->ops->get(store, key, arena, out, e);
}

int store_put(struct store *store, const char *key, struct span raw, const char *expected, const char *author,
              char version[STORE_VERSION_BYTES], char current[STORE_VERSION_BYTES], struct error *e)
{
    int r = check_key(key, e);
    if (r == 0 && raw.len > STORE_VALUE_LIMIT_BYTES)
        r = error_set(e, ERR_LIMIT, "the value has %zu bytes, at most %d are allowed", raw.len,
                      STORE_VALUE_LIMIT_BYTES);
    return r != 0 ? r : store->ops->put(store, key, raw, expected, author, version, current, e);
}

int store_stamp(struct store *store, uint64_t *stamp, struct error *e)
{
    return store->ops->stamp(store, stamp, e);
}

int store_watch_fd(struct store *store)
{
    return store->ops->watch_fd(store);
}
