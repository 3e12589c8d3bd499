/*
 * Slots of pools in Redis, where several instances take them. Of each pool, by its id:
 *
 *   ID:leases     sorted set: who holds a slot, and until when
 *   ID:queue      sorted set: who waits, by number of its ticket
 *   ID:tickets    sorted set: the same, and until when it is waited for
 *   ID:saturated  for so many ms it is; the key lapses with it
 *
 * and pools:ticket, the number of the last ticket; all of them under PREFIX. Times are Redis' own, in
 * ms. What ends later than it could is of a clock that was set back, and not believed. Keys lapse when
 * nobody is left. An id of more than SHARED_POOL_ID_BYTES is cut there, and ends with "#" and its hash.
 */
#ifndef CORE_ADMIT_SHARED_POOLS_H
#define CORE_ADMIT_SHARED_POOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/admit/pool_slots.h"
#include "core/store/redis_client.h"

enum { SHARED_POOL_ID_BYTES = 160 };

/* What one asks for, and as whom. */
struct pool_question {
    const char *lease;    /* its id */
    const char *doubtful; /* a lease that may be there and is nobody's; "": none */
    const struct pool_terms *terms;
    const struct slot_pool *asked;
    size_t n;
    const uint32_t *held;         /* of each, what is known to be held: never less is counted */
    const uint32_t *saturated_ms; /* of each, for how long it is known to be saturated: never less */
    int64_t ticket;               /* that it has; 0: none */
    bool waits;
};

/* As pool_slots_take, by one script in one round trip: *place is n where there is nothing. *ticket is
 * the one that it has then. False: there was no answer at `until_us`, and nothing is known. */
bool shared_pools_take(struct redis_client *redis, const struct pool_question *question, uint64_t until_us,
                       size_t *place, int64_t *ticket, struct pool_state *states);

/* Nobody waits for these. The lease has its slot, from now on; it has it no longer; it has none of
 * these, and is in no queue; and so long the pool is saturated. */
void shared_pool_hold(struct redis_client *redis, const char *lease, const struct pool_terms *terms,
                      const struct slot_pool *pool);
void shared_pool_give_back(struct redis_client *redis, const char *lease, const struct slot_pool *pool);
void shared_pools_leave(struct redis_client *redis, const char *lease, const struct slot_pool *asked,
                        size_t n);
void shared_pool_mark_saturated(struct redis_client *redis, const struct slot_pool *pool, uint32_t ms);

/* The leases of each of at most POOLS_MAX pools. False: there was no answer. */
bool shared_pools_count(struct redis_client *redis, const struct pool_terms *terms,
                        const struct slot_pool *asked, size_t n, uint64_t until_us, uint32_t *held);

#endif
