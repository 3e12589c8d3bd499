#include "fcgi/shipper/shipper.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/log/log.h"
#include "fcgi/shipper/sink_thread.h"

enum {
    TICK_MS = 1000,
    LAST_CHANCE_MS = 3000,
    GRACE_MS = 500, /* for a thread to see that its time is over */
};

static void report(const char *variable, const char *problem)
{
    log_line(LOG_WARN, "telemetry_setting_ignored", "%s: %s", variable, problem);
}

int shipper_read_settings(const char *program, struct otlp_settings *out, struct error *e)
{
    return otlp_settings_read(program, arena_new(), report, out, e);
}

static const struct series_facts *read_gauges(void *ctx)
{
    struct shipper *shipper = ctx;
    gauges_read(shipper->process->mapping, shipper->program, &shipper->gauges);
    return &shipper->gauges.facts;
}

void shipper_init(struct shipper *shipper, struct engine_process *process, unsigned program,
                  const struct spool_plan *plan, const struct otlp_settings *otlp)
{
    *shipper = (struct shipper){ .process = process, .plan = plan, .program = program };
    shipper->otlp = (struct otlp_sinks){
        .settings = otlp,
        .telemetry = &process->mapping->telemetry,
        .instance = process->mapping->instance,
        .read_gauges = read_gauges,
        .ctx = shipper,
    };
}

void shipper_add(struct shipper *shipper, const struct sink *sink)
{
    shipper->sinks[shipper->n_sinks++] = *sink;
}

int shipper_add_otlp(struct shipper *shipper, enum metric_signal signal, struct error *e)
{
    static int (*const open_sink[OTLP_SIGNALS])(const struct otlp_sinks *, struct sink *, struct error *) = {
        [METRIC_SIGNAL_TRACES] = otlp_open_traces,
        [METRIC_SIGNAL_METRICS] = otlp_open_metrics,
        [METRIC_SIGNAL_LOGS] = otlp_open_logs,
    };
    struct sink sink;
    if (!shipper->otlp.settings->receivers[signal].is_on)
        return 0;
    int r = open_sink[signal](&shipper->otlp, &sink, e);
    if (r == 0)
        shipper_add(shipper, &sink);
    return r;
}

/* The first segment that a sink still needs; 0: no sink reads the spool, or one does not know
 * yet. */
static uint64_t first_needed(const struct sink_thread *threads, size_t n)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        if (!threads[i].sink->reads_spool)
            continue;
        uint64_t passed = atomic_load(&threads[i].passed_segment);
        if (passed < first)
            first = passed;
    }
    return first == UINT64_MAX ? 0 : first;
}

/* How long the oldest event that a sink has in hand has been there. */
static uint64_t lag_us(const struct sink_thread *thread)
{
    uint64_t waiting = atomic_load(&thread->waiting_us), now = clock_wall_us();
    return waiting != 0 && now > waiting ? now - waiting : 0;
}

static void tick(const struct shipper *shipper, const struct sink_thread *threads)
{
    uint64_t total_bytes;

    if (spool_remove_passed(shipper->plan, first_needed(threads, shipper->n_sinks), &total_bytes) == 0)
        telemetry_set(&shipper->process->mapping->telemetry, METRIC_SPOOL_BYTES, 0, total_bytes);
    for (size_t i = 0; i < shipper->n_sinks; i++)
        telemetry_set(&shipper->process->mapping->telemetry, METRIC_SPOOL_LAG, shipper->sinks[i].signal,
                      lag_us(&threads[i]));
    if (shipper->on_tick != NULL)
        shipper->on_tick(shipper->tick_ctx);
}

/* All or none: what one of them has not passed, nobody may remove. */
static void start_all(struct shipper *shipper, struct sink_thread *threads, const struct sink_end *end)
{
    struct error e;

    for (size_t i = 0; i < shipper->n_sinks; i++) {
        if (sink_thread_start(&threads[i], &shipper->sinks[i], shipper->plan, end, &e) == 0)
            continue;
        log_line(LOG_ERROR, "sink_failed", "%s", e.text);
        _exit(1); /* the master starts another process after a while */
    }
}

static void end_all(struct shipper *shipper, struct sink_thread *threads, struct sink_end *end)
{
    int64_t drain_ms = shipper->process->settings->drain_timeout_ms;
    uint64_t chance_ms = drain_ms < LAST_CHANCE_MS ? (uint64_t)drain_ms : LAST_CHANCE_MS;
    uint64_t end_us = clock_monotonic_us() + chance_ms * US_PER_MS;
    const uint64_t wake = 1;

    atomic_store(&end->end_us, end_us);
    if (write(end->wake_fd, &wake, sizeof(wake)) != sizeof(wake))
        log_line(LOG_ERROR, "sink_stuck", "the sinks cannot be told of the end");
    for (size_t i = 0; i < shipper->n_sinks; i++) {
        if (!sink_thread_join(&threads[i], end_us + GRACE_MS * US_PER_MS)) {
            log_line(LOG_WARN, "sink_stuck", "the sink of %s does not end; its cursor is where it was",
                     sink_name(shipper->sinks[i].signal));
            _exit(0); /* it still uses what an orderly end would free */
        }
        shipper->sinks[i].close(shipper->sinks[i].ctx);
    }
}

int shipper_run(struct shipper *shipper)
{
    struct sink_thread *threads = xcalloc(SHIPPER_SINKS_MAX, sizeof(*threads));
    struct sink_end end = { .end_us = UINT64_MAX, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };

    if (end.wake_fd < 0) {
        log_line(LOG_ERROR, "sink_failed", "no eventfd");
        free(threads);
        return 1;
    }
    start_all(shipper, threads, &end);
    while (!engine_is_stopping()) {
        tick(shipper, threads);
        engine_wait(shipper->process, TICK_MS);
    }
    end_all(shipper, threads, &end);
    close(end.wake_fd);
    free(threads);
    return 0;
}
