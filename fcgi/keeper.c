/*
 * The config keeper: looks at the store when it hears of a change, once a second,
 * and on SIGHUP; compiles what changed into a snapshot, writes its file and publishes its generation. A
 * value that cannot be read or is not valid is reported, and the last good
 * snapshot stays in force.
 */
#include "fcgi/configuration.h"

#include <stdio.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/config/entry.h"
#include "core/log/log.h"
#include "core/store/store.h"

enum {
    LOOK_MS = 1000, /* twice as often as is promised */
};

struct keeper {
    struct engine_process *process;
    const struct router_shared *shared;
    struct store *store;
    struct arena *arena;
    uint64_t stamp;   /* of the store when it was last read */
    bool has_read;    /* `stamp` is one */
    bool is_store_ok; /* as last reported */
    bool is_retrying; /* the last look failed for want of a resource */
};

static void report_store(struct keeper *k, bool is_ok, const char *why)
{
    struct keeper_view *view = &k->process->mapping->keeper;

    if (!is_ok && (k->is_store_ok || !k->has_read))
        log_line(LOG_ERROR, "store_unreadable", "%s; the last good configuration stays in force", why);
    if (is_ok && !k->is_store_ok && k->has_read)
        log_line(LOG_INFO, "store_readable", "the store can be read again");
    k->is_store_ok = is_ok;
    atomic_store_explicit(&view->is_store_ok, is_ok, memory_order_relaxed);
    atomic_store_explicit(&view->checked_us, clock_monotonic_us(), memory_order_release);
}

/* The file before the last one may still be about to be mapped; older ones cannot. */
static void remove_old(const char *run_dir, uint64_t generation)
{
    char path[4096];
    if (generation > 2 && snapshot_path(run_dir, generation - 2, path, sizeof(path)) == 0)
        unlink(path);
}

static int publish(struct keeper *k, const struct entry_value values[ENTRY_COUNT], struct error *e)
{
    struct mapping *mapping = k->process->mapping;
    const char *run_dir = k->process->settings->run_dir;
    uint64_t generation = atomic_load_explicit(&mapping->generation, memory_order_relaxed) + 1;
    struct span image;

    int r = configuration_compile(k->shared, values, generation, k->arena, &image, e);
    if (r != 0)
        return r;
    if ((r = snapshot_write(run_dir, image, e)) != 0)
        return r;
    atomic_store_explicit(&mapping->generation, generation, memory_order_release);
    remove_old(run_dir, generation);
    struct json_writer *w = log_begin(LOG_INFO, "configuration_in_force");
    jw_member_uint(w, "generation", generation);
    jw_member_cstr(w, "tree_version", values[ENTRY_LLM_ROUTER_CONFIG].version);
    log_end();
    return 0;
}

/* One look. What failed for want of a resource is tried again at the next. */
static void look(struct keeper *k, bool is_asked)
{
    struct keeper_view *view = &k->process->mapping->keeper;
    struct entry_value values[ENTRY_COUNT];
    struct error e = { 0 };
    uint64_t stamp;

    store_listen(k->store); /* first: what changes while we look is heard again */
    if (store_stamp(k->store, &stamp, &e) != 0) {
        report_store(k, false, e.text);
        k->has_read = true;
        k->stamp = 0;
        return;
    }
    if (k->has_read && stamp == k->stamp && !is_asked && !k->is_retrying) {
        report_store(k, k->is_store_ok, e.text);
        return;
    }
    int r = configuration_read(k->store, k->arena, values, &e);
    report_store(k, r == 0, e.text);
    k->has_read = true;
    k->stamp = stamp;
    bool is_read = r == 0;
    if (is_read)
        r = publish(k, values, &e);
    if (r == 0)
        atomic_fetch_add_explicit(&view->reloads, 1, memory_order_relaxed);
    else if (r == ERR_FORMAT)
        atomic_fetch_add_explicit(&view->refusals, 1, memory_order_relaxed);
    atomic_store_explicit(&view->is_refused, r == ERR_FORMAT, memory_order_relaxed);
    bool has_failed = r != 0 && r != ERR_FORMAT;
    if (has_failed && is_read && !k->is_retrying)
        log_line(LOG_ERROR, "configuration_not_published", "%s", e.text);
    k->is_retrying = has_failed;
    arena_reset(k->arena);
}

int keeper_run(struct engine_process *process, const struct router_shared *shared)
{
    struct keeper k = { .process = process, .shared = shared, .arena = arena_new() };
    struct error e;

    if (store_open(&shared->place, &k.store, &e) != 0) {
        log_line(LOG_ERROR, "store_unreadable", "%s", e.text);
        arena_free(k.arena);
        return 1;
    }
    int watch = store_watch_fd(k.store);
    for (look(&k, true); !engine_is_stopping(); look(&k, engine_take_hangup()))
        engine_wait_readable(process, watch, LOOK_MS);
    store_close(k.store);
    arena_free(k.arena);
    return 0;
}
