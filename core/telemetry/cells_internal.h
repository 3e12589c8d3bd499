/* The blocks that every mapping has, private to core/telemetry. */
#ifndef CORE_TELEMETRY_CELLS_INTERNAL_H
#define CORE_TELEMETRY_CELLS_INTERNAL_H

#include "core/telemetry/cells.h"

/* Positions in the directory, as telemetry_init makes them. Behind the first are those named "_other". */
enum first_block {
    FIRST_BLOCK_INSTANCE,
    FIRST_BLOCK_PROVIDER,
    FIRST_BLOCK_KEY,
    FIRST_BLOCK_POOL,
    FIRST_BLOCK_MODELS,                                        /* one for each surface */
    FIRST_BLOCK_ROUTES = FIRST_BLOCK_MODELS + METRIC_SURFACES, /* one for each operation */
};

#endif
