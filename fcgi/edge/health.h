/*
 * What probes and people are told of this instance: pure functions of the shared
 * mapping, for the overflow process (on the health socket) and for workers.
 */
#ifndef FCGI_EDGE_HEALTH_H
#define FCGI_EDGE_HEALTH_H

#include <stdbool.h>

#include "core/base/buf.h"
#include "fcgi/engine/mapping.h"
#include "fcgi/in_hand.h"

/* {"status":"live"} */
void health_write_live(struct buf *out);

/* {"status":"ready"|"not_ready","checks":{…}}; returns whether it is ready. The checks are
 * "store", "db" and "redis" where the store has them, and "workers".
 * `is_strict`: not while one of them fails, as the keeper saw it; else only while
 * there is nothing to serve with. The health of provider keys never matters. */
bool health_write_ready(const struct mapping *mapping, bool is_strict, struct buf *out);

/* Whether Redis did not answer when it was last asked for a slot of a pool. */
bool health_is_pools_alone(const struct mapping *mapping);

/* A JSON object: the instance, the version of the tree in force, since when it is and how
 * it came, the checks, the reloads, whether slots of pools are counted alone, and each worker with the
 * generation it uses and what it has in hand. */
void health_write_status(const struct mapping *mapping, struct in_hand_upstreams *upstreams, struct buf *out);

#endif
