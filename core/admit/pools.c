#include "core/admit/pools.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/admit/shared_pools.h"
#include "core/base/clock.h"
#include "core/base/ids.h"

enum { RETRY_MS = 500 /* from a renewal that could not be told to the next */ };

void pools_init(struct pools_shared *shared)
{
    pool_slots_init(&shared->slots);
}

void pools_open(struct pools *pools)
{
    *pools = (struct pools){
        .terms = { POOL_LEASE_MS, POOL_TICKET_MS },
        .patience_ms = POOLS_PATIENCE_MS,
    };
}

/* Whose it is can be read in Redis. */
static void make_id(const struct pools *pools, char id[POOL_LEASE_ID_BYTES])
{
    uint32_t random;

    ids_random(&random, sizeof(random));
    snprintf(id, POOL_LEASE_ID_BYTES, "%.40s/%ld/%08x", pools->instance != NULL ? pools->instance : "",
             (long)getpid(), random);
}

/* Whether what is told now will be sent. Nobody connects to a Redis that rests. */
static bool is_connected(struct pools *pools)
{
    return pools->redis != NULL && redis_rest_is_over(&pools->shared->redis_rest) &&
           redis_client_connect(pools->redis);
}

static bool is_limited(const struct pool_lease *lease)
{
    return lease->is_taken && lease->asked[lease->place].capacity > 0;
}

/* --- taking --- */

/* False: Redis does not answer. It may have heard the question all the same, and the next one of this lease
 * takes back what it took; one of another lease does not, since this one is in hand. */
static bool take_in_redis(struct pools *pools, bool waits, struct pool_lease *lease, size_t *place,
                          struct pool_state *states)
{
    uint64_t until_us = clock_monotonic_us() + pools->patience_ms * US_PER_MS;
    uint32_t held[POOLS_MAX] = { 0 }, saturated_ms[POOLS_MAX];
    const struct pool_question question = {
        .lease = lease->id,
        .doubtful = lease->is_doubtful ? lease->id : pools->doubtful,
        .terms = &pools->terms,
        .asked = lease->asked,
        .n = lease->n,
        .held = held,
        .saturated_ms = saturated_ms,
        .ticket = lease->ticket,
        .waits = waits,
    };

    pool_owners_count(&pools->owners, &pools->own->holds[lease->hold], &pools->terms, lease->asked, lease->n,
                      held);
    pool_slots_read_saturated(&pools->shared->slots, lease->asked, lease->n, saturated_ms);
    lease->is_in_redis = shared_pools_take(pools->redis, &question, until_us, place, &lease->ticket, states);
    lease->redis = redis_rest_note(&pools->shared->redis_rest, lease->is_in_redis);
    lease->is_told = true;
    if (!lease->is_in_redis) {
        lease->is_doubtful = true;
        return false;
    }
    if (!lease->is_doubtful)
        pools->doubtful[0] = '\0';
    lease->is_doubtful = false;
    if (*place < lease->n && lease->asked[*place].capacity > 0)
        pool_owner_hold(pools->own, lease->hold, lease->asked[*place].hash);
    else
        pool_owner_leave(pools->own, lease->hold);
    return true;
}

static void begin_question(struct pools *pools, const struct slot_pool *asked, size_t n,
                           struct pool_lease *lease)
{
    if (lease->is_taken || (lease->asked != NULL && (lease->asked != asked || lease->n != n)))
        pools_leave(pools, lease);
    if (lease->id[0] == '\0')
        make_id(pools, lease->id);
    lease->asked = asked;
    lease->n = n;
    lease->redis = REDIS_AS_BEFORE;
    lease->is_in_redis = false;
}

static uint64_t next_renewal_us(const struct pools *pools)
{
    return clock_monotonic_us() + pools->terms.lease_ms * US_PER_MS * POOL_RENEW_MS / POOL_LEASE_MS;
}

static enum pool_answer name_failure(const struct pool_state *states, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (states[i].saturated_ms == 0)
            return POOL_FULL;
    }
    return POOL_SATURATED;
}

enum pool_answer pools_take(struct pools *pools, const struct slot_pool *asked, size_t n, bool waits,
                            struct pool_lease *lease, struct pool_state *states)
{
    size_t place = n;

    begin_question(pools, asked, n, lease);
    bool is_asking = pools->redis != NULL && redis_rest_may_ask(&pools->shared->redis_rest);
    if (!is_asking || !take_in_redis(pools, waits, lease, &place, states)) {
        if (pools->redis != NULL && pools->refuses_alone) {
            memset(states, 0, n * sizeof(*states));
            return POOL_AWAY;
        }
        place = pool_slots_take(&pools->shared->slots, &pools->owners, pools->own, lease->hold, &pools->terms,
                                asked, n, waits, states);
    }
    if (place == n)
        return name_failure(states, n);
    lease->place = place;
    lease->is_taken = true;
    lease->renew_at_us = next_renewal_us(pools);
    return POOL_TAKEN;
}

/* --- what follows --- */

void pools_renew(struct pools *pools, struct pool_lease *lease)
{
    if (!is_limited(lease) || clock_monotonic_us() < lease->renew_at_us)
        return;
    const struct slot_pool *pool = &lease->asked[lease->place];
    lease->renew_at_us = next_renewal_us(pools);
    pool_owner_hold(pools->own, lease->hold, pool->hash);
    if (is_connected(pools)) {
        shared_pool_hold(pools->redis, lease->id, &pools->terms, pool);
        lease->is_told = true;
    } else if (pools->redis != NULL) {
        lease->renew_at_us = clock_monotonic_us() + RETRY_MS * US_PER_MS;
    }
}

static void leave_in_redis(struct pools *pools, const struct pool_lease *lease)
{
    if (!is_limited(lease) && lease->ticket == 0 && !lease->is_doubtful)
        return;
    if (!is_connected(pools))
        memcpy(pools->doubtful, lease->id, sizeof(pools->doubtful));
    else if (is_limited(lease) && !lease->is_doubtful)
        shared_pool_give_back(pools->redis, lease->id, &lease->asked[lease->place]);
    else
        shared_pools_leave(pools->redis, lease->id, lease->asked, lease->n);
}

void pools_leave(struct pools *pools, struct pool_lease *lease)
{
    if (lease->asked == NULL)
        return;
    pool_owner_leave(pools->own, lease->hold);
    if (lease->is_told)
        leave_in_redis(pools, lease);
    *lease = (struct pool_lease){
        .hold = lease->hold,
        .place = lease->place,
        .is_in_redis = lease->is_in_redis,
        .redis = lease->redis,
    };
}

void pools_mark_saturated(struct pools *pools, const struct slot_pool *pool, uint32_t ms)
{
    pool_slots_mark_saturated(&pools->shared->slots, pool->hash, ms);
    if (is_connected(pools))
        shared_pool_mark_saturated(pools->redis, pool, ms);
}

bool pools_count(struct pools *pools, const struct slot_pool *asked, size_t n, uint32_t *held)
{
    uint64_t until_us = clock_monotonic_us() + pools->patience_ms * US_PER_MS;

    memset(held, 0, n * sizeof(*held));
    if (pools->redis == NULL)
        pool_owners_count(&pools->owners, NULL, &pools->terms, asked, n, held);
    for (size_t i = 0; pools->redis != NULL && i < n; i += POOLS_MAX) {
        size_t some = n - i < POOLS_MAX ? n - i : POOLS_MAX;
        if (!shared_pools_count(pools->redis, &pools->terms, &asked[i], some, until_us, &held[i]))
            return false;
    }
    return true;
}
