#include "core/admit/pools.h"

#include "core/base/clock.h"

void pools_init(struct pools_shared *shared)
{
    pool_slots_init(&shared->slots);
}

void pools_open(struct pools *pools)
{
    *pools = (struct pools){ .terms = { POOL_LEASE_MS, POOL_TICKET_MS } };
}

static bool is_each_saturated(const struct pool_state *states, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (states[i].saturated_ms == 0)
            return false;
    }
    return true;
}

static uint64_t next_renewal_us(const struct pools *pools)
{
    return clock_monotonic_us() + pools->terms.lease_ms * US_PER_MS * POOL_RENEW_MS / POOL_LEASE_MS;
}

enum pool_answer pools_take(struct pools *pools, const struct slot_pool *asked, size_t n, bool waits,
                            struct pool_lease *lease, struct pool_state *states)
{
    if (lease->is_taken || (lease->asked != NULL && (lease->asked != asked || lease->n != n)))
        pools_leave(pools, lease);
    lease->redis = REDIS_AS_BEFORE;
    lease->is_in_redis = false;
    lease->asked = asked;
    lease->n = n;
    size_t place = pool_slots_take(&pools->shared->slots, &pools->owners, pools->own, &pools->terms, asked, n,
                                   waits, states);
    if (place == n)
        return is_each_saturated(states, n) ? POOL_SATURATED : POOL_FULL;
    lease->place = place;
    lease->is_taken = true;
    lease->renew_at_us = next_renewal_us(pools);
    return POOL_TAKEN;
}

void pools_renew(struct pools *pools, struct pool_lease *lease)
{
    if (!lease->is_taken || clock_monotonic_us() < lease->renew_at_us)
        return;
    if (lease->asked[lease->place].capacity > 0)
        pool_owner_hold(pools->own, lease->asked[lease->place].hash);
    lease->renew_at_us = next_renewal_us(pools);
}

void pools_leave(struct pools *pools, struct pool_lease *lease)
{
    if (lease->asked == NULL)
        return;
    pool_owner_leave(pools->own);
    *lease = (struct pool_lease){
        .place = lease->place,
        .is_in_redis = lease->is_in_redis,
        .redis = lease->redis,
    };
}

void pools_mark_saturated(struct pools *pools, const struct slot_pool *pool, uint32_t ms)
{
    pool_slots_mark_saturated(&pools->shared->slots, pool->hash, ms);
}

bool pools_count(struct pools *pools, const struct slot_pool *asked, size_t n, uint32_t *held)
{
    for (size_t i = 0; i < n; i++)
        held[i] = 0;
    pool_owners_count(&pools->owners, NULL, &pools->terms, asked, n, held);
    return true;
}
