/*
 * How many slots of each pool are in use, for the gauges: read now and then by the
 * shipper, of all instances where there is Redis. What cannot be read is not told.
 */
#ifndef FCGI_POOL_GAUGES_H
#define FCGI_POOL_GAUGES_H

#include "core/admit/pools.h"
#include "core/base/arena.h"
#include "core/config/snapshot.h"
#include "core/store/store.h"
#include "core/telemetry/cells.h"
#include "fcgi/engine/engine.h"

enum { POOL_GAUGES_MS = 5000 };

struct pool_gauges {
    struct engine_process *process;
    struct pools pools;
    struct snapshot snapshot; /* of the generation in force, whose pools they are */
    uint64_t generation;
    uint64_t due_us;         /* monotonic */
    struct arena *arena;     /* of what follows */
    struct slot_pool *asked; /* n, those that have a limit */
    struct pool_reading *readings;
    uint32_t *held;
    size_t n;
    bool was_read; /* the last time, all of them were */
};

/* After fork, in one process; copies what it needs of the place. ERR_FORMAT: its Redis' URL cannot be one. */
int pool_gauges_open(struct pool_gauges *gauges, struct engine_process *process,
                     const struct store_place *place, struct error *e);

/* ctx is struct pool_gauges: reads them, if it is time to. May wait for Redis, at most POOLS_PATIENCE_MS. */
void pool_gauges_read(void *ctx);

#endif
