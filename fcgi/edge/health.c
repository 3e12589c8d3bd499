#include "fcgi/edge/health.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/base/clock.h"
#include "core/base/version.h"
#include "core/json/writer.h"

static uint64_t load(const _Atomic uint64_t *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

static uint32_t load_flag(const _Atomic uint32_t *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

/* --- checks --- */

enum { CHECKS_MAX = 4 };

struct checks {
    size_t n;
    struct check {
        const char *name;
        bool is_ok;
    } items[CHECKS_MAX];
};

static void add_check(struct checks *checks, const char *name, bool is_ok)
{
    checks->items[checks->n++] = (struct check){ name, is_ok };
}

/* Some have a configuration, be it one that has just been replaced: all that have the next may have a request
 * in hand. Before there is any, those without count. Where workers come on demand, none need be there. */
static bool can_serve(const struct mapping *mapping)
{
    bool is_configured = load(&mapping->generation) != 0;

    if (load_flag(&mapping->is_resting) != 0)
        return true;
    for (unsigned i = 0; is_configured && i < mapping->n_records; i++) {
        if (load(&mapping->workers[i].generation) != 0)
            return true;
    }
    return !is_configured && scoreboard_alive(mapping) > 0;
}

static struct checks make_checks(const struct mapping *mapping)
{
    const struct keeper_view *view = &mapping->keeper;
    bool is_fresh = mapping_is_view_fresh(mapping);
    struct checks checks = { .n = 0 };

    add_check(&checks, "store", mapping_is_store_ok(mapping));
    if (load_flag(&view->has_database) != 0)
        add_check(&checks, "db", is_fresh && load_flag(&view->is_database_ok) != 0);
    if (load_flag(&view->has_redis) != 0)
        add_check(&checks, "redis", is_fresh && load_flag(&view->is_redis_ok) != 0);
    add_check(&checks, "workers", can_serve(mapping));
    return checks;
}

static bool is_every_check_ok(const struct checks *checks)
{
    for (size_t i = 0; i < checks->n; i++) {
        if (!checks->items[i].is_ok)
            return false;
    }
    return true;
}

static void write_checks(struct json_writer *w, const struct checks *checks)
{
    jw_key(w, "checks");
    jw_begin_object(w);
    for (size_t i = 0; i < checks->n; i++)
        jw_member_cstr(w, checks->items[i].name, checks->items[i].is_ok ? "ok" : "fail");
    jw_end_object(w);
}

/* --- live and ready --- */

void health_write_live(struct buf *out)
{
    buf_append_cstr(out, "{\"status\":\"live\"}");
}

bool health_write_ready(const struct mapping *mapping, bool is_strict, struct buf *out)
{
    struct checks checks = make_checks(mapping);
    bool has_something = can_serve(mapping) && load(&mapping->generation) != 0;
    bool is_ready = is_strict ? is_every_check_ok(&checks) : has_something;
    struct json_writer w;

    jw_init(&w, out);
    jw_begin_object(&w);
    jw_member_cstr(&w, "status", is_ready ? "ready" : "not_ready");
    write_checks(&w, &checks);
    jw_end_object(&w);
    return is_ready;
}

/* --- status --- */

static void write_worker(struct json_writer *w, const struct in_hand_look *look, unsigned slot)
{
    jw_begin_object(w);
    jw_member_uint(w, "slot", slot);
    jw_member_int(w, "pid", look->pid);
    jw_member_cstr(w, "stage", stage_name(look->stage));
    jw_member_uint(w, "stageMs", look->stage_ms);
    jw_member_uint(w, "requests", look->requests);
    jw_member_uint(w, "generation", look->generation);
    if (look->has_request) {
        jw_key(w, "inHand");
        jw_begin_object(w);
        jw_member_uint(w, "ageMs", look->age_ms);
        jw_member_cstr(w, "requestId", look->request.request_id);
        jw_member_cstr(w, "endpoint", look->request.endpoint);
        jw_member_cstr(w, "model", look->request.model);
        jw_member_span(w, "upstream", look->upstream);
        jw_end_object(w);
    }
    jw_end_object(w);
}

static void write_tree(struct json_writer *w, const struct mapping *mapping)
{
    struct tree_in_force tree;
    char since[CLOCK_TEXT_BYTES];
    uint64_t generation = mapping_in_force(mapping, &tree);
    bool has_tree = generation != 0 && tree.version[0] != '\0';

    clock_text(tree.since_us, since);
    jw_member_uint(w, "generation", generation);
    jw_member_cstr(w, "version", has_tree ? tree.version : NULL);
    jw_member_cstr(w, "since", generation != 0 ? since : NULL);
    jw_member_cstr(w, "source", generation != 0 ? reload_source_name(tree.source) : NULL);
    jw_member_bool(w, "isRefused", load_flag(&mapping->keeper.is_refused) != 0);
}

bool health_is_pools_alone(const struct mapping *mapping)
{
    return load(&mapping->pools.redis_rest.until_us) != 0;
}

void health_write_status(const struct mapping *mapping, struct in_hand_upstreams *upstreams, struct buf *out)
{
    struct checks checks = make_checks(mapping);
    char started[CLOCK_TEXT_BYTES];
    struct json_writer w;

    clock_text(mapping->started_wall_us, started);
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_member_cstr(&w, "program", mapping->program);
    jw_member_cstr(&w, "programVersion", LLM_ROUTER_VERSION);
    jw_member_cstr(&w, "instance", mapping->instance);
    jw_member_cstr(&w, "startedAt", started);
    write_tree(&w, mapping);
    write_checks(&w, &checks);
    jw_key(&w, "reloads");
    jw_begin_object(&w);
    for (uint32_t i = 0; i < RELOAD_SOURCES; i++)
        jw_member_uint(&w, reload_source_name(i),
                       telemetry_get(&mapping->telemetry, METRIC_CONFIG_RELOAD, i));
    jw_end_object(&w);
    jw_member_bool(&w, "poolsAlone", health_is_pools_alone(mapping));
    jw_member_uint(&w, "workersAlive", scoreboard_alive(mapping));
    jw_member_uint(&w, "workersCurrent", scoreboard_current(mapping));
    jw_key(&w, "workers");
    jw_begin_array(&w);
    for (unsigned i = 0; i < mapping->n_records; i++) {
        struct in_hand_look look;
        in_hand_look(upstreams, &mapping->workers[i], &look);
        if (look.pid != 0)
            write_worker(&w, &look, i);
    }
    jw_end_array(&w);
    jw_end_object(&w);
}
