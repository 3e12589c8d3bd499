/*
 * The plan: which candidates a request may use, in which order. It is made by
 * stages in one table; a stage is a pure function that may move or drop
 * candidates. Unconfigured, the list is the document's order, without those that
 * cannot do what is asked.
 */
#ifndef CORE_ROUTE_PLAN_H
#define CORE_ROUTE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

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

struct plan {
    struct candidate *items; /* arena memory */
    size_t count;
};

/* Runs the stages in order. A stage that fails leaves the list as it was. */
void plan_make(const struct plan_facts *facts, struct arena *arena, struct plan *out);

#endif
