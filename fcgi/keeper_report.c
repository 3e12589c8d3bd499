#include "fcgi/keeper_report.h"

#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/log/log.h"

enum {
    ROW_MS = 5000,        /* a third of an instance's life */
    ROW_CHANGED_MS = 500, /* when it is only the workers that have changed */
};

void keeper_report_init(struct keeper_report *report, struct mapping *mapping, struct store *store)
{
    *report = (struct keeper_report){
        .mapping = mapping,
        .store = store,
        .is_store_ok = true,
        .is_redis_ok = true,
        .is_row_ok = true,
    };
    if (gethostname(report->host, sizeof(report->host) - 1) != 0)
        report->host[0] = '\0';
}

void keeper_report_store(struct keeper_report *report, bool is_ok, const char *why)
{
    if (!is_ok && report->is_store_ok)
        log_line(LOG_ERROR, "store_unreadable", "%s; the last good configuration stays in force", why);
    if (is_ok && !report->is_store_ok)
        log_line(LOG_INFO, "store_readable", "the store can be read again");
    report->is_store_ok = is_ok;
    atomic_store_explicit(&report->mapping->keeper.is_store_ok, is_ok, memory_order_relaxed);
}

/* One that is being connected to for the first time has no trouble yet. */
static void log_redis(struct keeper_report *report, const struct store_health *health)
{
    if (!health->is_redis_ok && health->redis_trouble[0] == '\0')
        return;
    if (report->is_redis_ok && !health->is_redis_ok)
        log_line(LOG_WARN, "redis_unreachable",
                 "Redis: %s; until it is back, changes are found by asking every second",
                 health->redis_trouble);
    if (!report->is_redis_ok && health->is_redis_ok)
        log_line(LOG_INFO, "redis_reachable", "Redis tells of changes again");
    report->is_redis_ok = health->is_redis_ok;
}

/* The store counts since this process began, the cell since the master did. */
static void count_up(struct keeper_report *report, enum metric_id id, uint64_t *counted, uint64_t now)
{
    telemetry_add(&report->mapping->telemetry, id, 0, now - *counted);
    *counted = now;
}

void keeper_report_health(struct keeper_report *report)
{
    struct keeper_view *view = &report->mapping->keeper;
    struct store_health health;

    store_health(report->store, &health);
    if (health.has_redis)
        log_redis(report, &health);
    atomic_store_explicit(&view->has_database, health.has_database, memory_order_relaxed);
    atomic_store_explicit(&view->has_redis, health.has_redis, memory_order_relaxed);
    atomic_store_explicit(&view->is_database_ok, health.is_database_ok, memory_order_relaxed);
    atomic_store_explicit(&view->is_redis_ok, health.is_redis_ok, memory_order_relaxed);
    count_up(report, METRIC_CONFIG_INVALID_HMAC, &report->refused_messages, health.refused_messages);
    count_up(report, METRIC_REDIS_CONNECTIONS, &report->redis_connections, health.redis_connections);
    atomic_store_explicit(&view->checked_us, clock_monotonic_us(), memory_order_release);
}

static bool is_row_due(const struct keeper_report *report, const struct tree_in_force *tree, unsigned workers,
                       unsigned current)
{
    uint64_t age_us = clock_monotonic_us() - report->said_us;
    if (report->said_us == 0 || age_us >= ROW_MS * US_PER_MS ||
        strcmp(tree->version, report->said.tree.version) != 0)
        return true;
    return age_us >= ROW_CHANGED_MS * US_PER_MS &&
           (workers != report->said.workers || current != report->said.current);
}

void keeper_report_instance(struct keeper_report *report)
{
    const struct mapping *mapping = report->mapping;
    unsigned workers = scoreboard_alive(mapping), current = scoreboard_current(mapping);
    char since[CLOCK_TEXT_BYTES];
    struct store_health health;
    struct tree_in_force tree;
    struct error e;

    store_health(report->store, &health);
    uint64_t generation = mapping_in_force(mapping, &tree);
    if (!health.has_database || !health.is_database_ok || !is_row_due(report, &tree, workers, current))
        return;
    /* Without a tree, it is without one since it started. */
    clock_text(generation == 0 ? mapping->started_wall_us : tree.since_us, since);
    const struct store_instance self = {
        .id = mapping->instance,
        .host = report->host,
        .version = tree.version,
        .since = since,
        .source = reload_source_name(tree.source),
        .workers = workers,
        .workers_current = current,
    };
    bool is_ok = store_report(report->store, &self, &e) == 0;
    if (!is_ok && report->is_row_ok)
        log_line(LOG_ERROR, "instance_unreported", "%s", e.text);
    report->is_row_ok = is_ok;
    report->said.tree = tree;
    report->said.workers = workers;
    report->said.current = current;
    report->said_us = clock_monotonic_us();
}
