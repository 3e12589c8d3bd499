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

static int try_once(struct store *store, const struct entry_update *update, struct arena *arena,
                    struct store_outcome *out, struct error *e)
{
    const char *key = entry_name(update->entry);
    struct store_value current = { .raw = { NULL, 0 }, .version = "" };
    struct store_change change = { .key = key, .audit = update->audit };

    int r = store_get(store, key, arena, &current, e);
    if (r != 0 && r != ERR_NOT_FOUND)
        return r;
    if (update->expected != NULL && strcmp(update->expected, current.version) != 0) {
        *out = (struct store_outcome){ .is_same = false };
        memcpy(out->version, current.version, sizeof(out->version));
        return ERR_CONFLICT;
    }
    r = update->change(update->ctx, &current, arena, &change.raw, &change.audit);
    if (r != 0)
        return r;
    change.expected = current.raw.ptr == NULL ? NULL : current.version;
    return store_put(store, &change, out, e);
}

int entry_update(struct store *store, const struct entry_update *update, struct store_outcome *out,
                 struct error *e)
{
    int r = ERR_CONFLICT;
    for (int tries = 0; tries < TRIES; tries++) {
        struct arena *arena = arena_new();
        r = try_once(store, update, arena, out, e);
        arena_free(arena);
        if (r != ERR_CONFLICT || update->expected != NULL)
            break;
        pause_for_a_while();
    }
    return r;
}
