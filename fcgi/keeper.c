/*
 * The config keeper: looks at the store when it hears of a change, once a second,
 * and on SIGHUP; compiles what changed into a snapshot, writes its file and publishes
 * its generation. A value that cannot be read or is not valid is reported, and the last
 * good snapshot stays in force.
 */
#include "fcgi/configuration.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/config/entry.h"
#include "core/log/log.h"
#include "core/store/store.h"
#include "fcgi/keeper_report.h"

enum {
    LOOK_MS = 1000, /* llm-router(8); a change of which no news comes is found within two seconds */
    PAUSE_MS = 50,  /* between a look and one for a message: who can publish could keep us busy */
    READS_MAX = 3,  /* of one look; when there is news during each of them, the last one counts */
};

struct keeper {
    struct engine_process *process;
    const struct router_shared *shared;
    struct store *store;
    struct keeper_report report;
    struct arena *arena;
    uint64_t stamp;     /* of the store when it was last read */
    bool has_stamp;     /* that read was answered */
    bool is_retrying;   /* what was read could not be published, for want of a resource */
    bool has_published; /* `versions` are those of the snapshot in force */
    char versions[ENTRY_COUNT][STORE_VERSION_BYTES]; /* "": no value */
};

static enum reload_source source_of(enum store_news news)
{
    static const enum reload_source sources[] = {
        [STORE_NEWS_NONE] = RELOAD_TTL,
        [STORE_NEWS_FILE] = RELOAD_FILE,
        [STORE_NEWS_PUBSUB] = RELOAD_PUBSUB,
        [STORE_NEWS_RECONNECT] = RELOAD_RECONNECT,
    };
    return sources[news];
}

static const char *version_of(const struct entry_value *value)
{
    return value->version == NULL ? "" : value->version;
}

static bool is_in_force(const struct keeper *k, const struct entry_value values[ENTRY_COUNT])
{
    for (int i = 0; i < ENTRY_COUNT; i++) {
        if (strcmp(k->versions[i], version_of(&values[i])) != 0)
            return false;
    }
    return k->has_published;
}

/* --- publishing --- */

/* The file before the last one may still be about to be mapped; older ones cannot. */
static void remove_old(const char *run_dir, uint64_t generation)
{
    char path[PATH_MAX];
    if (generation > 2 && snapshot_path(run_dir, generation - 2, path, sizeof(path)) == 0)
        unlink(path);
}

/* A version is in force since it came, whatever else changes beside it. */
static struct tree_in_force next_tree(const struct mapping *mapping, const char *version,
                                      enum reload_source source)
{
    struct tree_in_force tree;
    if (mapping_in_force(mapping, &tree) != 0 && strcmp(tree.version, version) == 0)
        return tree;
    tree = (struct tree_in_force){ .since_us = clock_wall_us(), .source = source };
    snprintf(tree.version, sizeof(tree.version), "%s", version);
    return tree;
}

static int publish(struct keeper *k, const struct entry_value values[ENTRY_COUNT], enum reload_source source,
                   struct error *e)
{
    struct mapping *mapping = k->process->mapping;
    const char *run_dir = k->process->settings->run_dir;
    uint64_t generation = atomic_load_explicit(&mapping->generation, memory_order_relaxed) + 1;
    const char *version = version_of(&values[ENTRY_LLM_ROUTER_CONFIG]);
    struct tree_in_force tree = next_tree(mapping, version, source);
    struct span image;

    int r = configuration_compile(k->shared, values, generation, k->arena, &image, e);
    if (r != 0)
        return r;
    /* The run directory may be another instance's by now. */
    if (engine_is_orphaned())
        return error_set(e, ERR_CONFLICT, "the master has died");
    telemetry_assign(&mapping->telemetry, (struct snap_root *)(void *)image.ptr);
    if ((r = snapshot_write(run_dir, image, e)) != 0)
        return r;
    mapping_put_in_force(mapping, generation, &tree);
    engine_wake_workers(mapping);
    remove_old(run_dir, generation);
    struct json_writer *w = log_begin(LOG_INFO, "configuration_in_force");
    jw_member_uint(w, "generation", generation);
    jw_member_cstr(w, "tree_version", version);
    jw_member_cstr(w, "source", reload_source_name(source));
    log_end();
    return 0;
}

/* A worker that begins could not map what is in force: somebody has removed it. */
static bool is_file_gone(const struct keeper *k)
{
    uint64_t generation = atomic_load_explicit(&k->process->mapping->generation, memory_order_relaxed);
    char path[PATH_MAX];
    return k->has_published &&
           snapshot_path(k->process->settings->run_dir, generation, path, sizeof(path)) == 0 &&
           access(path, F_OK) != 0 && errno == ENOENT;
}

/* What was read becomes what is in force, or is refused. */
static void apply(struct keeper *k, const struct entry_value values[ENTRY_COUNT], enum reload_source source)
{
    struct keeper_view *view = &k->process->mapping->keeper;
    struct telemetry *telemetry = &k->process->mapping->telemetry;
    struct error e;
    int r = 0;

    if (source == RELOAD_SIGNAL || k->is_retrying || !is_in_force(k, values) || is_file_gone(k)) {
        r = publish(k, values, source, &e);
        if (r == 0) {
            telemetry_add(telemetry, METRIC_CONFIG_RELOAD, source, 1);
            for (int i = 0; i < ENTRY_COUNT; i++)
                snprintf(k->versions[i], sizeof(k->versions[i]), "%s", version_of(&values[i]));
            k->has_published = true;
        } else if (r == ERR_FORMAT) {
            telemetry_add(telemetry, METRIC_CONFIG_REFUSALS, 0, 1);
        } else if (!k->is_retrying) {
            log_line(LOG_ERROR, "configuration_not_published", "%s", e.text);
        }
    }
    k->is_retrying = r != 0 && r != ERR_FORMAT;
    atomic_store_explicit(&view->is_refused, r == ERR_FORMAT, memory_order_relaxed);
}

/* --- looking --- */

/* Reads until nothing was heard meanwhile: what is published is not older than news that
 * came before it. The stamp is taken first, so that what changes during a read is found
 * at the next look. */
static int read_store(struct keeper *k, uint64_t stamp, struct entry_value values[ENTRY_COUNT],
                      enum reload_source *source, struct error *e)
{
    for (int reads = 1;; reads++) {
        arena_reset(k->arena);
        int r = configuration_read(k->store, k->arena, values, e);
        k->has_stamp = r == 0;
        k->stamp = stamp;
        enum reload_source heard = source_of(store_listen(k->store));
        if (heard > *source)
            *source = heard;
        if (r != 0 || heard == RELOAD_TTL || reads == READS_MAX)
            return r;
        if ((r = store_stamp(k->store, &stamp, e)) != 0) {
            k->has_stamp = false;
            return r;
        }
    }
}

/* What failed is tried again at the next look. */
static void look(struct keeper *k, enum reload_source source)
{
    struct entry_value values[ENTRY_COUNT];
    struct error e = { 0 };
    uint64_t stamp;

    int r = store_stamp(k->store, &stamp, &e);
    if (r != 0)
        k->has_stamp = false;
    if (r == 0 && k->has_stamp && stamp == k->stamp && source != RELOAD_SIGNAL && !k->is_retrying &&
        !is_file_gone(k))
        return;
    if (r == 0)
        r = read_store(k, stamp, values, &source, &e);
    keeper_report_store(&k->report, r == 0, e.text);
    if (r == 0)
        configuration_provide_tag_key(k->shared, k->store, k->arena, values);
    if (r == 0)
        apply(k, values, source);
    arena_reset(k->arena);
}

static unsigned left_ms(uint64_t until_us)
{
    uint64_t now = clock_monotonic_us();
    return now >= until_us ? 0 : (unsigned)((until_us - now + US_PER_MS - 1) / US_PER_MS);
}

/* From one look to the next, by its reason. */
static const uint64_t wait_ms[RELOAD_SOURCES] = { [RELOAD_TTL] = LOOK_MS, [RELOAD_PUBSUB] = PAUSE_MS };

void keeper_serve(struct engine_process *process, const struct router_shared *shared, struct store *store)
{
    struct keeper k = { .process = process, .shared = shared, .store = store, .arena = arena_new() };
    uint64_t looked_us = 0;                 /* at the end of the last look */
    enum reload_source source = RELOAD_TTL; /* the reason for the next one */

    keeper_report_init(&k.report, process->mapping, store);
    if (atomic_load_explicit(&process->mapping->generation, memory_order_relaxed) == 0)
        snapshot_remove_all(process->settings->run_dir);
    while (!engine_is_stopping()) {
        enum reload_source heard = source_of(store_listen(store));
        if (heard > source)
            source = heard;
        if (engine_take_hangup())
            source = RELOAD_SIGNAL;
        uint64_t due_us = looked_us + wait_ms[source] * US_PER_MS;
        uint64_t now = clock_monotonic_us();
        if (now >= due_us) {
            look(&k, source);
            if (source == RELOAD_SIGNAL ||
                looked_us == 0) /* a SIGHUP may have been a keeper's before this one */
                atomic_store_explicit(&process->mapping->keeper.followed_us, now, memory_order_release);
            source = RELOAD_TTL;
            looked_us = clock_monotonic_us();
            due_us = looked_us + LOOK_MS * US_PER_MS;
        }
        keeper_report_health(&k.report);
        keeper_report_instance(&k.report);
        engine_wait_readable(process, store_watch_fd(store), left_ms(due_us));
    }
    arena_free(k.arena);
}

int keeper_run(struct engine_process *process, const struct router_shared *shared)
{
    struct store *store;
    struct error e;

    if (store_open(&shared->place, &store, &e) != 0) {
        log_line(LOG_ERROR, "store_unreadable", "%s", e.text);
        return 1;
    }
    keeper_serve(process, shared, store);
    store_close(store);
    return 0;
}
