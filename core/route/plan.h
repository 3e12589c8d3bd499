/*
 * The plan: which candidates a request may use, in which order. It is made by
 * stages in tables; a stage is a pure function that may move or drop
 * candidates. Unconfigured, the list is the document's order, without those that
 * cannot do what is asked.
 */
#ifndef CORE_ROUTE_PLAN_H
#define CORE_ROUTE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/config/snapshot.h"

/* An upstream and one of its keys. Everything points into the snapshot. */
struct candidate {
    const struct snap_upstream *upstream;
    const struct snap_key *key;
    unsigned upstream_index;  /* position in the document; for people */
    bool is_passed, is_tried; /* the loop's: out of the list; an attempt was made */
};

/* What a stage may look at. */
struct plan_facts {
    const struct snap_root *root;
    const struct snap_model *model;
    /* Whether an upstream can do what is asked; those that cannot are left out. NULL: each can. */
    bool (*can_serve)(void *ctx, const struct snap_upstream *upstream);
    void *ctx;
};

/* Why an upstream is not asked although it could serve: the state of its pool. */
enum skip_reason {
    SKIP_NONE,
    SKIP_SATURATED, /* its provider has said that it is full */
    SKIP_FULL,      /* all its slots are in use */
    SKIP_AWAY,      /* nobody can say: who counts does not answer */
};

/* "pool_saturated", "pool_full", "pool_away"; NULL of SKIP_NONE. */
const char *skip_reason_name(enum skip_reason reason);

struct skip {
    const struct snap_upstream *upstream;
    enum skip_reason reason;
};

struct plan {
    struct candidate *items; /* arena memory */
    size_t count;
    struct skip *skips; /* arena memory, with room for each upstream once */
    size_t n_skips;
};

/* Runs the stages of the model in order. A stage that fails leaves the list as it was. */
void plan_make(const struct plan_facts *facts, struct arena *arena, struct plan *out);

/* How an upstream's pool stands for this request. */
struct standing {
    uint32_t capacity; /* slots; 0: without limit */
    uint32_t room;     /* of those, what this request may have */
    bool is_saturated;
};

/*
 * Runs the stages of pools over a plan. standings: by the upstream's position in the document.
 *
 *   rank      the places of upstreams with a limit go to the one of them that has the largest part
 *             of its capacity as room, then the next, of equals the one that stands first in the
 *             document; one without limit stays where it stands
 *   exclude   saturated upstreams are skipped
 *   put_off   full ones are behind all others: a slot may have come free when it is their turn
 *
 * An upstream's keys stay together, in their order. If any upstream has room, the first one has,
 * and it is the one that pools_take takes (core/admit/pools.h).
 */
void plan_rank(const struct standing *standings, struct arena *arena, struct plan *plan);

/* An upstream is skipped: notes why. To be called once for each; there is room for no more. */
void plan_skip(struct plan *plan, const struct snap_upstream *upstream, enum skip_reason reason);

#endif
