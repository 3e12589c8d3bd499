#include "fcgi/engine/pool.h"

static unsigned at_most(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Nobody is free and somebody waits: the step doubles from look to look. Those that are
 * starting will take as many. */
static unsigned rise(struct pool *pool, const struct pool_facts *facts)
{
    if (facts->waiting == 0) {
        pool->step = 0;
        return 0;
    }
    if (facts->now_us < pool->rise_at_us || facts->idle > 0 || facts->waiting <= facts->starting)
        return 0;
    pool->step = pool->step == 0 ? 1 : at_most(2 * pool->step, POOL_STEP_MAX);
    pool->rise_at_us = facts->now_us + POOL_RISE_US;
    uint64_t lacking = facts->waiting - facts->starting;
    return lacking < pool->step ? (unsigned)lacking : pool->step;
}

/* So many are too few to be ready for who comes next. */
static unsigned lack_spare(const struct pool_policy *policy, const struct pool_facts *facts)
{
    unsigned spare = facts->idle + facts->starting;
    return policy->mode == POOL_DYNAMIC && spare < policy->min_spare ? policy->min_spare - spare : 0;
}

static bool is_one_too_many(const struct pool_policy *policy, const struct pool_facts *facts)
{
    if (facts->idle == 0 || facts->waiting > 0)
        return false;
    if (policy->mode == POOL_DYNAMIC)
        return facts->idle > policy->max_spare;
    return facts->longest_idle_us >= policy->idle_timeout_us;
}

static unsigned decide(struct pool *pool, const struct pool_policy *policy, const struct pool_facts *facts)
{
    if (policy->mode == POOL_STATIC)
        return policy->max;
    unsigned risen = rise(pool, facts), spare = lack_spare(policy, facts);
    unsigned more = risen > spare ? risen : spare;
    if (more > 0)
        return at_most(facts->running + more, policy->max);
    if (facts->old == 0 && facts->now_us >= pool->fall_at_us && is_one_too_many(policy, facts)) {
        pool->fall_at_us = facts->now_us + POOL_FALL_US;
        return facts->running - 1;
    }
    return at_most(facts->running, policy->max);
}

unsigned pool_decide(struct pool *pool, const struct pool_policy *policy, const struct pool_facts *facts)
{
    struct pool_facts seen = *facts;

    /* Of an old one and the one that replaces it, which may both serve, only one counts. */
    if (facts->old > 0)
        seen.running = pool->wanted;
    pool->wanted = decide(pool, policy, &seen);
    return pool->wanted;
}

bool pool_needs_looks(const struct pool_policy *policy, unsigned running)
{
    return policy->mode == POOL_DYNAMIC || (policy->mode == POOL_ONDEMAND && running > 0);
}
