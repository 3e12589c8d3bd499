#include "core/route/plan.h"

/* Every key of every upstream, in the document's order. */
static int expand(const struct plan_facts *facts, struct arena *arena, struct plan *plan)
{
    const struct snap_root *root = facts->root;
    const struct snap_vec upstreams = facts->model->upstreams;
    size_t count = 0;

    for (unsigned u = 0; u < upstreams.count; u++)
        count += SNAP_ITEM(root, upstreams, struct snap_upstream, u)->keys.count;
    plan->items = arena_array_of(arena, struct candidate, count);
    plan->count = 0;
    for (unsigned u = 0; u < upstreams.count; u++) {
        const struct snap_upstream *upstream = SNAP_ITEM(root, upstreams, struct snap_upstream, u);
        for (unsigned k = 0; k < upstream->keys.count; k++) {
            plan->items[plan->count++] = (struct candidate){
                .upstream = upstream,
                .key = SNAP_ITEM(root, upstream->keys, struct snap_key, k),
                .upstream_index = u,
            };
        }
    }
    return 0;
}

/* Without the candidates of upstreams that cannot do it. */
static int exclude(const struct plan_facts *facts, struct arena *arena, struct plan *plan)
{
    const struct snap_upstream *asked = NULL;
    bool can = true;
    size_t kept = 0;

    (void)arena;
    if (facts->can_serve == NULL)
        return 0;
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->items[i].upstream != asked)
            can = facts->can_serve(facts->ctx, plan->items[i].upstream);
        asked = plan->items[i].upstream;
        if (can)
            plan->items[kept++] = plan->items[i];
    }
    plan->count = kept;
    return 0;
}

static const struct stage {
    const char *name;
    int (*run)(const struct plan_facts *facts, struct arena *arena, struct plan *plan);
} stages[] = {
    { "expand", expand },
    { "exclude", exclude },
};

void plan_make(const struct plan_facts *facts, struct arena *arena, struct plan *out)
{
    *out = (struct plan){ NULL, 0 };
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        struct plan next = *out;
        if (stages[i].run(facts, arena, &next) == 0)
            *out = next;
    }
}
