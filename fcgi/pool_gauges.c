#include "fcgi/pool_gauges.h"

#include "core/base/clock.h"
#include "core/log/log.h"

int pool_gauges_open(struct pool_gauges *gauges, struct engine_process *process,
                     const struct store_place *place, struct error *e)
{
    *gauges = (struct pool_gauges){ .process = process, .arena = arena_new(), .was_read = true };
    pools_open(&gauges->pools);
    gauges->pools.shared = &process->mapping->pools;
    gauges->pools.owners = scoreboard_pool_owners(process->mapping);
    gauges->pools.instance = process->mapping->instance;
    int r = redis_client_open(place, &gauges->pools.redis, e);
    return r == ERR_NOT_FOUND ? 0 : r;
}

/* A pool that several models name has the largest capacity that any of them gives it. */
static void add_pool(struct pool_gauges *gauges, const struct snap_root *root,
                     const struct snap_upstream *upstream)
{
    uint32_t capacity = upstream->max_concurrency;
    size_t i = 0;

    while (i < gauges->n && gauges->asked[i].hash != upstream->pool_hash)
        i++;
    if (i < gauges->n) {
        if (gauges->asked[i].capacity < capacity)
            gauges->asked[i].capacity = gauges->readings[i].capacity = capacity;
        return;
    }
    gauges->asked[gauges->n] = (struct slot_pool){ .id = snap_span(root, upstream->pool),
                                                   .hash = upstream->pool_hash,
                                                   .capacity = capacity };
    gauges->readings[gauges->n++] =
        (struct pool_reading){ .series = upstream->pool_series, .capacity = capacity };
}

static void each_limited(struct pool_gauges *gauges, struct snap_vec models,
                         void (*visit)(struct pool_gauges *gauges, const struct snap_root *root,
                                       const struct snap_upstream *upstream))
{
    const struct snap_root *root = gauges->snapshot.root;

    for (unsigned i = 0; i < models.count; i++) {
        struct snap_vec upstreams = SNAP_ITEM(root, models, struct snap_model, i)->upstreams;
        for (unsigned k = 0; k < upstreams.count; k++) {
            const struct snap_upstream *upstream = SNAP_ITEM(root, upstreams, struct snap_upstream, k);
            if (upstream->max_concurrency > 0)
                visit(gauges, root, upstream);
        }
    }
}

static void count(struct pool_gauges *gauges, const struct snap_root *root,
                  const struct snap_upstream *upstream)
{
    (void)root;
    (void)upstream;
    gauges->n++;
}

/* The pools of the tree in force. One that cannot be mapped was replaced just now: next time. */
static void refresh(struct pool_gauges *gauges)
{
    uint64_t generation = atomic_load_explicit(&gauges->process->mapping->generation, memory_order_acquire);
    struct snapshot next;
    char path[4096];

    if (generation == gauges->generation ||
        snapshot_path(gauges->process->settings->run_dir, generation, path, sizeof(path)) != 0 ||
        snapshot_map(path, &next, NULL) != 0)
        return;
    snapshot_unmap(&gauges->snapshot);
    arena_reset(gauges->arena);
    gauges->snapshot = next;
    gauges->generation = generation;
    gauges->n = 0;
    each_limited(gauges, next.root->models, count);
    each_limited(gauges, next.root->tts_models, count);
    gauges->asked = arena_array_of(gauges->arena, struct slot_pool, gauges->n);
    gauges->readings = arena_array_of(gauges->arena, struct pool_reading, gauges->n);
    gauges->held = arena_array_of(gauges->arena, uint32_t, gauges->n);
    gauges->n = 0;
    each_limited(gauges, next.root->models, add_pool);
    each_limited(gauges, next.root->tts_models, add_pool);
}

void pool_gauges_read(void *ctx)
{
    struct pool_gauges *gauges = ctx;
    struct telemetry *telemetry = &gauges->process->mapping->telemetry;
    uint64_t now_us = clock_monotonic_us();

    if (now_us < gauges->due_us)
        return;
    gauges->due_us = now_us + POOL_GAUGES_MS * US_PER_MS;
    refresh(gauges);
    bool is_read = gauges->n == 0 || pools_count(&gauges->pools, gauges->asked, gauges->n, gauges->held);
    for (size_t i = 0; i < gauges->n; i++) {
        gauges->readings[i].held = gauges->held[i];
        gauges->readings[i].is_known = is_read;
    }
    telemetry_set_pools(telemetry, gauges->readings, gauges->n);
    if (!is_read)
        telemetry_add(telemetry, METRIC_READ_ERRORS, 0, 1);
    if (!is_read && gauges->was_read)
        log_line(LOG_WARN, "pool_gauges_unreadable", "Redis: %s; pool.inflight says nothing until it answers",
                 redis_client_trouble(gauges->pools.redis));
    gauges->was_read = is_read;
}
