#include "fcgi/engine/gauges.h"

#include "core/base/clock.h"

static void read_workers(struct mapping *mapping)
{
    unsigned counts[STAGE_COUNT] = { 0 };

    scoreboard_count_stages(mapping, counts);
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        telemetry_set(&mapping->telemetry, METRIC_WORKERS, i, counts[i]);
}

void gauges_read(struct mapping *mapping, unsigned program, struct gauges *out)
{
    struct telemetry *t = &mapping->telemetry;
    uint64_t generation = mapping_in_force(mapping, &out->tree), now = clock_wall_us();

    out->facts = (struct series_facts){
        .program = program,
        .instance = mapping->instance,
        .tree_version = out->tree.version,
    };
    bool has_tree = generation != 0 && out->tree.since_us != 0 && now > out->tree.since_us;
    telemetry_set(t, METRIC_CONFIG_GENERATION, 0, generation);
    telemetry_set(t, METRIC_CONFIG_VERSION_AGE, 0, has_tree ? now - out->tree.since_us : 0);
    telemetry_set(t, METRIC_STORE_UP, 0, mapping_is_store_ok(mapping));
    telemetry_set(t, METRIC_QUEUE_LENGTH, 0, atomic_load_explicit(&mapping->waiting, memory_order_relaxed));
    telemetry_set(t, METRIC_CONNECTIONS_ACCEPTED, 0,
                  atomic_load_explicit(&mapping->accepted, memory_order_relaxed));
    read_workers(mapping);
}
