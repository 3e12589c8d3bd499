#include "core/route/plan.h"

#include <string.h>

/* --- the model's --- */

/* Every key of every upstream, in the document's order. */
static int expand(const struct plan_facts *facts, struct arena *arena, struct plan *plan)
{
    const struct snap_root *root = facts->root;
    const struct snap_vec upstreams = facts->model->upstreams;
    size_t count = 0;

    for (unsigned u = 0; u < upstreams.count; u++)
        count += SNAP_ITEM(root, upstreams, struct snap_upstream, u)->keys.count;
    plan->items = arena_array_of(arena, struct candidate, count);
    plan->skips = arena_array_of(arena, struct skip, upstreams.count);
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
static int exclude_unable(const struct plan_facts *facts, struct arena *arena, struct plan *plan)
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
    { "exclude", exclude_unable },
};

void plan_make(const struct plan_facts *facts, struct arena *arena, struct plan *out)
{
    *out = (struct plan){ .count = 0 };
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        struct plan next = *out;
        if (stages[i].run(facts, arena, &next) == 0)
            *out = next;
    }
}

/* --- of pools --- */

/* The candidates of one upstream, which stand together. */
struct group {
    const struct candidate *first;
    size_t count;
    const struct standing *standing;
};

static size_t group_candidates(const struct standing *standings, const struct plan *plan,
                               struct group *groups)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct candidate *c = &plan->items[i];
        if (n == 0 || groups[n - 1].first->upstream != c->upstream)
            groups[n++] = (struct group){ c, 0, &standings[c->upstream_index] };
        groups[n - 1].count++;
    }
    return n;
}

/* Whether a larger part of its capacity is free. */
static bool is_roomier(const struct standing *a, const struct standing *b)
{
    return (uint64_t)a->room * b->capacity > (uint64_t)b->room * a->capacity;
}

/* Insertion, which keeps equals as they stand: there are few, and most often they are in order. */
static size_t rank(struct group *groups, size_t n, struct plan *plan)
{
    (void)plan;
    for (size_t i = 1; i < n; i++) {
        struct group moved = groups[i];
        size_t place = i;
        if (moved.standing->capacity == 0)
            continue;
        for (size_t j = i; j-- > 0;) {
            if (groups[j].standing->capacity == 0)
                continue;
            if (!is_roomier(moved.standing, groups[j].standing))
                break;
            groups[place] = groups[j];
            place = j;
        }
        groups[place] = moved;
    }
    return n;
}

static size_t exclude_saturated(struct group *groups, size_t n, struct plan *plan)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (groups[i].standing->is_saturated)
            plan_skip(plan, groups[i].first->upstream, SKIP_SATURATED);
        else
            groups[kept++] = groups[i];
    }
    return kept;
}

static bool is_full(const struct group *group)
{
    return group->standing->capacity > 0 && group->standing->room == 0;
}

static size_t put_off_full(struct group *groups, size_t n, struct plan *plan)
{
    (void)plan;
    for (size_t i = 0, left = n; left > 0; left--) {
        struct group group = groups[i];
        if (!is_full(&group)) {
            i++;
            continue;
        }
        memmove(&groups[i], &groups[i + 1], (n - i - 1) * sizeof(group));
        groups[n - 1] = group;
    }
    return n;
}

static const struct pool_stage {
    const char *name;
    /* Moves and drops upstreams; how many are left. */
    size_t (*run)(struct group *groups, size_t n, struct plan *plan);
} pool_stages[] = {
    { "rank", rank },
    { "exclude", exclude_saturated },
    { "put_off", put_off_full },
};

void plan_rank(const struct standing *standings, struct arena *arena, struct plan *plan)
{
    struct group *groups = arena_array_of(arena, struct group, plan->count);
    struct candidate *items = arena_array_of(arena, struct candidate, plan->count);
    size_t n = group_candidates(standings, plan, groups), count = 0;

    for (size_t i = 0; i < sizeof(pool_stages) / sizeof(pool_stages[0]); i++)
        n = pool_stages[i].run(groups, n, plan);
    for (size_t i = 0; i < n; i++) {
        memcpy(&items[count], groups[i].first, groups[i].count * sizeof(*items));
        count += groups[i].count;
    }
    plan->items = items;
    plan->count = count;
}

const char *skip_reason_name(enum skip_reason reason)
{
    static const char *const names[] = {
        [SKIP_NONE] = NULL,
        [SKIP_SATURATED] = "pool_saturated",
        [SKIP_FULL] = "pool_full",
        [SKIP_AWAY] = "pool_away",
    };
    return names[reason];
}

void plan_skip(struct plan *plan, const struct snap_upstream *upstream, enum skip_reason reason)
{
    plan->skips[plan->n_skips++] = (struct skip){ upstream, reason };
}
