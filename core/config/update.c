#include "core/config/update.h"

#include <time.h>

#include "core/base/ids.h"

enum {
    TRIES = 64, /* each lost one means that somebody else's change went through */
    PAUSE_MAX_MS = 20,
};

/* Writers that met once shall not meet again. */
static void pause_for_a_while(void)
{
    uint32_t random;
    ids_random(&random, sizeof(random));
    struct timespec pause = { .tv_nsec = (long)(random % (PAUSE_MAX_MS * 1000000U)) };
    nanosleep(&pause, NULL);
}

static void tell_version(const char *version, struct store_outcome *out)
{
    *out = (struct store_outcome){ .is_same = false };
    memcpy(out->version, version, sizeof(out->version));
}

/* *is_lost: somebody else was faster, and it can be tried again. */
static int try_once(struct store *store, const struct entry_update *update, struct arena *arena,
                    struct store_outcome *out, bool *is_lost, struct error *e)
{
    const char *key = entry_name(update->entry);
    struct store_value current = { .raw = { NULL, 0 }, .version = "" };
    struct store_change change = { .key = key, .audit = update->audit };

    *is_lost = false;
    int r = store_get(store, key, arena, &current, e);
    if (r != 0 && r != ERR_NOT_FOUND)
        return r;
    if (update->expected != NULL && strcmp(update->expected, current.version) != 0) {
        tell_version(current.version, out);
        return ERR_CONFLICT;
    }
    r = update->change(update->ctx, &current, arena, &change.raw, &change.audit);
    if (r != 0)
        return r;
    change.expected = current.raw.ptr == NULL ? NULL : current.version;
    r = store_put(store, &change, out, e);
    *is_lost = r == ERR_CONFLICT && update->expected == NULL;
    return r;
}

int entry_update(struct store *store, const struct entry_update *update, struct store_outcome *out,
                 struct error *e)
{
    bool is_lost = true;
    int r = ERR_CONFLICT;
    for (int tries = 0; is_lost && tries < TRIES; tries++) {
        struct arena *arena = arena_new();
        if (tries > 0)
            pause_for_a_while();
        r = try_once(store, update, arena, out, &is_lost, e);
        arena_free(arena);
    }
    return r;
}
