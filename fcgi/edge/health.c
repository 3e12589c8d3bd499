#include "fcgi/edge/health.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/base/clock.h"
#include "core/base/version.h"

enum { VIEW_OLD_US = 5 * 1000 * 1000 }; /* a keeper that has not looked for so long is no witness */

static uint64_t load(const _Atomic uint64_t *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

static bool is_store_ok(const struct mapping *mapping)
{
    uint64_t checked = atomic_load_explicit(&mapping->keeper.checked_us, memory_order_acquire);
    return checked != 0 && clock_monotonic_us() - checked < VIEW_OLD_US &&
           atomic_load_explicit(&mapping->keeper.is_store_ok, memory_order_relaxed) != 0;
}

void health_write_live(struct buf *out)
{
    buf_append_cstr(out, "{\"status\":\"live\"}");
}

bool health_write_ready(const struct mapping *mapping, bool is_strict, struct buf *out)
{
    bool store = is_store_ok(mapping);
    bool workers = scoreboard_alive(mapping) > 0;
    bool has_snapshot = load(&mapping->generation) != 0;
    bool is_ready = workers && (is_strict ? store : has_snapshot);

    buf_printf(out, "{\"status\":\"%s\",\"checks\":{\"store\":\"%s\",\"workers\":\"%s\"}}",
               is_ready ? "ready" : "not_ready", store ? "ok" : "fail", workers ? "ok" : "fail");
    return is_ready;
}

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
    { "llm_router_config_reloads_total", "counter", "Configurations that came into force.",
      offsetof(struct mapping, keeper.reloads) },
    { "llm_router_config_refusals_total", "counter", "Configurations that were refused.",
      offsetof(struct mapping, keeper.refusals) },
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
    buf_printf(out,
               "# HELP llm_router_store_up Whether the keeper can read the store.\n"
               "# TYPE llm_router_store_up gauge\nllm_router_store_up %d\n",
               is_store_ok(mapping) ? 1 : 0);
    count_stages(mapping, counts);
    buf_append_cstr(out, "# HELP llm_router_workers Workers by stage.\n# TYPE llm_router_workers gauge\n");
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        buf_printf(out, "llm_router_workers{stage=\"%s\"} %u\n", stage_name((enum stage)i), counts[i]);
}

static void write_worker(const struct scoreboard_record *record, unsigned slot, uint64_t now, struct buf *out)
{
    int32_t pid = atomic_load_explicit(&record->pid, memory_order_relaxed);
    uint32_t stage = atomic_load_explicit(&record->stage, memory_order_relaxed);
    uint64_t since = load(&record->since_us);

    if (pid == 0)
        return;
    buf_printf(out, "%4u %8d  %-10s %10.1f %10" PRIu64 " %10" PRIu64 "\n", slot, (int)pid,
               stage_name((enum stage)stage), now > since ? (double)(now - since) / 1e6 : 0.0,
               load(&record->requests), load(&record->generation));
}

void health_write_status(const struct mapping *mapping, struct buf *out)
{
    uint64_t now = clock_monotonic_us();
    char started[CLOCK_TEXT_BYTES];

    clock_text(mapping->started_wall_us, started);
    buf_printf(out, "%s " LLM_ROUTER_VERSION ", instance %s, since %s\n", mapping->program, mapping->instance,
               started);
    for (size_t i = 0; i < N_METRICS; i++)
        buf_printf(out, "%-12" PRIu64 " %s\n", value_of(mapping, &metrics[i]), metrics[i].help);
    buf_append_cstr(out, "\nslot      pid  stage          seconds   requests generation\n");
    for (unsigned i = 0; i < mapping->n_workers; i++)
        write_worker(&mapping->workers[i], i, now, out);
}
