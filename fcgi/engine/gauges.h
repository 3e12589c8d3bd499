/* What the metrics say of the instance as it is now. */
#ifndef FCGI_ENGINE_GAUGES_H
#define FCGI_ENGINE_GAUGES_H

#include "core/telemetry/cells.h"
#include "fcgi/engine/mapping.h"

/* What labels say besides the cells: who we are, and which tree is in force. */
struct gauges {
    struct series_facts facts;
    struct tree_in_force tree; /* the facts point into it */
};

/* Brings the cells up to date that nobody counts: workers by stage, the queue, the
 * age of the configuration. Before they are read; by any process. `program` is
 * METRIC_OF_ROUTER or METRIC_OF_ADMIN. */
void gauges_read(struct mapping *mapping, unsigned program, struct gauges *out);

#endif
