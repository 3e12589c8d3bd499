#include "fcgi/edge/health.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/base/clock.h"
#include "core/base/version.h"
#include "core/json/writer.h"

enum { VIEW_OLD_US = 5 * 1000 * 1000 }; /* a keeper that has not looked for so long is no witness */

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

static bool is_view_fresh(const struct mapping *mapping)
{
    uint64_t checked = atomic_load_explicit(&mapping->keeper.checked_us, memory_order_acquire);
    return checked != 0 && clock_monotonic_us() - checked < VIEW_OLD_US;
}

static bool is_store_ok(const struct mapping *mapping)
{
    return is_view_fresh(mapping) && load_flag(&mapping->keeper.is_store_ok) != 0;
}

static struct checks make_checks(const struct mapping *mapping)
{
    const struct keeper_view *view = &mapping->keeper;
    bool is_fresh = is_view_fresh(mapping);
    struct checks checks = { .n = 0 };

    add_check(&checks, "store", is_store_ok(mapping));
    if (load_flag(&view->has_database) != 0)
        add_check(&checks, "db", is_fresh && load_flag(&view->is_database_ok) != 0);
    if (load_flag(&view->has_redis) != 0)
        add_check(&checks, "redis", is_fresh && load_flag(&view->is_redis_ok) != 0);
    add_check(&checks, "workers", scoreboard_alive(mapping) > 0);
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
    bool has_something = scoreboard_alive(mapping) > 0 && load(&mapping->generation) != 0;
    bool is_ready = is_strict ? is_every_check_ok(&checks) : has_something;
    struct json_writer w;

    jw_init(&w, out);
    jw_begin_object(&w);
    jw_member_cstr(&w, "status", is_ready ? "ready" : "not_ready");
    write_checks(&w, &checks);
    jw_end_object(&w);
    return is_ready;
}

/* --- metrics --- */

/* Workers in each stage. */
static void count_stages(const struct mapping *mapping, unsigned counts[STAGE_COUNT])
{
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        counts[i] = 0;
    for (unsigned i = 0; i < mapping->n_workers; i++) {
        const struct scoreboard_record *record = &mapping->workers[i];
        uint32_t stage = atomic_load_explicit(&record->stage, memory_order_relaxed);
        if (atomic_load_explicit(&record->pid, memory_order_relaxed) != 0 && stage < STAGE_COUNT)
            counts[stage]++;
        else
            counts[STAGE_FREE]++;
    }
}

/* A cell of the mapping each. */
static const struct metric {
    const char *name, *kind, *help;
    size_t place; /* of an _Atomic uint64_t */
} metrics[] = {
    { "llm_router_connections_accepted_total", "counter", "Connections taken by workers and overflow.",
      offsetof(struct mapping, accepted) },
    { "llm_router_requests_total", "counter", "Requests that workers have finished.",
      offsetof(struct mapping, requests) },
    { "llm_router_overflow_total", "counter", "Connections answered 503 because they waited too long.",
      offsetof(struct mapping, shed) },
    { "llm_router_queue_length", "gauge", "Connections that wait for a worker.",
      offsetof(struct mapping, waiting) },
    { "llm_router_worker_deaths_total", "counter", "Workers that died unasked.",
      offsetof(struct mapping, worker_deaths) },
    { "llm_router_lost_wakeups_total", "counter", "Wake-ups that died with a worker and were repaired.",
      offsetof(struct mapping, nudges) },
    { "llm_router_config_generation", "gauge", "Generation of the configuration in force.",
      offsetof(struct mapping, generation) },
    { "llm_router_config_refusals_total", "counter", "Configurations that were refused.",
      offsetof(struct mapping, keeper.refusals) },
    { "llm_router_config_refused_messages_total", "counter",
      "News of changes that did not verify, or were malformed or too long.",
      offsetof(struct mapping, keeper.refused_messages) },
    { "llm_router_redis_connections_total", "counter", "Subscriptions to Redis that stood.",
      offsetof(struct mapping, keeper.redis_connections) },
};

enum { N_METRICS = sizeof(metrics) / sizeof(metrics[0]) };

static uint64_t value_of(const struct mapping *mapping, const struct metric *metric)
{
    return load((const _Atomic uint64_t *)(const void *)((const char *)mapping + metric->place));
}

void health_write_metrics(const struct mapping *mapping, struct buf *out)
{
    unsigned counts[STAGE_COUNT];

    for (size_t i = 0; i < N_METRICS; i++) {
        const struct metric *m = &metrics[i];
        buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", m->name, m->help, m->name, m->kind,
                   m->name, value_of(mapping, m));
    }
    buf_append_cstr(out,
                    "# HELP llm_router_config_reloads_total Configurations that came into force, by what "
                    "they were found with.\n# TYPE llm_router_config_reloads_total counter\n");
    for (uint32_t i = 0; i < RELOAD_SOURCES; i++)
        buf_printf(out, "llm_router_config_reloads_total{source=\"%s\"} %" PRIu64 "\n", reload_source_name(i),
                   load(&mapping->keeper.reloads[i]));
    buf_printf(out,
               "# HELP llm_router_store_up Whether the keeper can read the store.\n"
               "# TYPE llm_router_store_up gauge\nllm_router_store_up %d\n",
               is_store_ok(mapping) ? 1 : 0);
    count_stages(mapping, counts);
    buf_append_cstr(out, "# HELP llm_router_workers Workers by stage.\n# TYPE llm_router_workers gauge\n");
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        buf_printf(out, "llm_router_workers{stage=\"%s\"} %u\n", stage_name((enum stage)i), counts[i]);
}

/* --- status --- */

static void write_worker(struct json_writer *w, const struct scoreboard_record *record, unsigned slot,
                         uint64_t now)
{
    int32_t pid = atomic_load_explicit(&record->pid, memory_order_relaxed);
    uint64_t since = load(&record->since_us);

    if (pid == 0)
        return;
    jw_begin_object(w);
    jw_member_uint(w, "slot", slot);
    jw_member_int(w, "pid", pid);
    jw_member_cstr(w, "stage", stage_name((enum stage)load_flag(&record->stage)));
    jw_member_uint(w, "stageMs", now > since ? (now - since) / US_PER_MS : 0);
    jw_member_uint(w, "requests", load(&record->requests));
    jw_member_uint(w, "generation", load(&record->generation));
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

static void write_counts(struct json_writer *w, const struct mapping *mapping)
{
    jw_key(w, "reloads");
    jw_begin_object(w);
    for (uint32_t i = 0; i < RELOAD_SOURCES; i++)
        jw_member_uint(w, reload_source_name(i), load(&mapping->keeper.reloads[i]));
    jw_end_object(w);
    jw_key(w, "metrics");
    jw_begin_object(w);
    for (size_t i = 0; i < N_METRICS; i++)
        jw_member_uint(w, metrics[i].name, value_of(mapping, &metrics[i]));
    jw_end_object(w);
}

void health_write_status(const struct mapping *mapping, struct buf *out)
{
    struct checks checks = make_checks(mapping);
    uint64_t now = clock_monotonic_us();
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
    write_counts(&w, mapping);
    jw_member_uint(&w, "workersAlive", scoreboard_alive(mapping));
    jw_member_uint(&w, "workersCurrent", scoreboard_current(mapping));
    jw_key(&w, "workers");
    jw_begin_array(&w);
    for (unsigned i = 0; i < mapping->n_workers; i++)
        write_worker(&w, &mapping->workers[i], i, now);
    jw_end_array(&w);
    jw_end_object(&w);
}
