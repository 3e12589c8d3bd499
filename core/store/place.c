#include "core/store/place.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/environment.h"

static const char database_name[] = "DATABASE_URL", redis_name[] = "REDIS_URL",
                  password_name[] = "PGPASSWORD";

/* What cannot be an address is said at the start, and not by each process that opens it. */
static int check_addresses(const struct store_place *place, struct error *e)
{
    struct store *store = NULL;
    int r = store_open(place, &store, e);
    store_close(store);
    return r;
}

int store_place_from_environment(struct store_place *out, struct error *e)
{
    struct arena *arena = arena_new();
    struct span database = { NULL, 0 }, redis = { NULL, 0 }, password = { NULL, 0 };
    struct error first = { 0 };
    const char *prefix = getenv("LLM_ROUTER_REDIS_PREFIX");

    /* All are taken, whatever happens: nothing may stay in the environment. libpq would find
     * its own variable there, and nobody would wipe it. */
    int r = environment_take_secret(database_name, arena, &database, &first);
    int s = environment_take_secret(redis_name, arena, &redis, r == 0 ? &first : NULL);
    environment_take_secret(password_name, arena, &password, NULL);
    if (r == 0)
        r = s;
    if (r != 0)
        error_set(e, r, "%s", first.text);
    else if ((database.len > 0) != (redis.len > 0))
        r = error_set(e, ERR_FORMAT, "%s is set without %s: Postgres keeps what Redis tells of",
                      database.len > 0 ? database_name : redis_name,
                      database.len > 0 ? redis_name : database_name);
    else if (database.len > 0 && password.len > 0)
        r = error_set(e, ERR_FORMAT, "%s is set: the password of the database belongs in %s or %s_FILE",
                      password_name, database_name, database_name);
    else if (redis.len > 0 && prefix != NULL && strlen(prefix) > REDIS_PREFIX_MAX_BYTES)
        r = error_set(e, ERR_FORMAT, "LLM_ROUTER_REDIS_PREFIX has more than %d bytes",
                      REDIS_PREFIX_MAX_BYTES);
    if (r == 0) {
        bool is_set = database.len > 0;
        out->database_url = is_set ? xstrdup(database.ptr) : NULL;
        out->redis_url = is_set ? xstrdup(redis.ptr) : NULL;
        out->redis_prefix = is_set ? prefix : NULL;
        if (is_set && (r = check_addresses(out, e)) != 0)
            store_place_wipe(out);
    }
    environment_wipe(database);
    environment_wipe(redis);
    environment_wipe(password);
    arena_free(arena);
    return r;
}

static void wipe(const char **text)
{
    environment_wipe(span_cstr(*text));
    free((char *)(uintptr_t)*text);
    *text = NULL;
}

void store_place_wipe(struct store_place *place)
{
    wipe(&place->database_url);
    wipe(&place->redis_url);
}
