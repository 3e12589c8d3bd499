/*
 * Pools: how many requests an upstream has in hand at once, over all workers and
 * instances. A slot is a lease: it has an owner, is renewed while its request lives, and
 * lapses by itself POOL_LEASE_MS after its owner has died. There is no counter that could
 * drift: what is held are the leases that there are.
 *
 * Where there is Redis, the leases of all instances are there, by Redis' clock: nothing
 * depends on the instances'. Where there is none, those of this instance are in its
 * workers' records (core/admit/pool_slots.h), and go with the worker. Redis that does not
 * answer costs its users that others' leases are not seen, or, where the operator has said
 * so, every slot; when it answers again, renewals tell it what is held.
 *
 * Slots are given out first come, first served: who has to wait stands in the queue of
 * every pool that would do, and nobody who comes later gets a slot that is needed for
 * those before.
 */
#ifndef CORE_ADMIT_POOLS_H
#define CORE_ADMIT_POOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/admit/pool_slots.h"
#include "core/admit/redis_rest.h"
#include "core/store/redis_client.h"

enum {
    POOL_LEASE_MS = 10000,
    POOL_RENEW_MS = 3000,      /* how often a lease is renewed, where it lasts POOL_LEASE_MS */
    POOL_TICKET_MS = 2000,     /* after which one who waits and does not ask again has left */
    POOL_SATURATED_MS = 15000, /* unless the provider says more */
    POOLS_PATIENCE_MS = 200,   /* for an answer of Redis */
    POOL_LEASE_ID_BYTES = 64,  /* with a NUL */
};

enum pool_answer {
    POOL_TAKEN,     /* lease->place says of which */
    POOL_FULL,      /* none has room, and not each is saturated */
    POOL_SATURATED, /* each is */
    POOL_AWAY,      /* Redis does not answer, and without it nothing is given out */
};

/* In the mapping. */
struct pools_shared {
    struct pool_slots slots;
    struct redis_rest redis_rest;
};

/* Before fork, on zeroed memory. */
void pools_init(struct pools_shared *shared);

/* One process' way to all pools. Made by pools_open; what it points to outlives it. */
struct pools {
    struct pools_shared *shared;
    struct pool_owners owners;  /* of this instance's workers */
    struct pool_owner *own;     /* NULL: of one who only counts */
    struct redis_client *redis; /* NULL: there is none */
    bool refuses_alone;         /* nothing is given out while Redis does not answer */
    const char *instance;       /* stands in Redis, for who looks there; at most 40 characters */
    struct pool_terms terms;
    uint32_t patience_ms; /* for an answer of Redis */

    /* private */
    char doubtful[POOL_LEASE_ID_BYTES]; /* a lease that was left, and Redis may have; "": none */
};

/* Zeroed but for the terms, POOL_LEASE_MS and POOL_TICKET_MS, and the patience, POOLS_PATIENCE_MS.
 * Others are for tests. */
void pools_open(struct pools *pools);

/* One attempt's slot, or its place in queues. Zero: neither. A process has POOL_HOLDS at a time, each
 * with a `hold` of its own; only the first may wait. */
struct pool_lease {
    unsigned hold;           /* which of them this is; as it was made */
    size_t place;            /* of the pool that was taken, among those asked for */
    bool is_taken;           /* until pools_leave */
    bool is_in_redis;        /* the last question was answered there */
    enum redis_change redis; /* with the last question */

    /* private */
    const struct slot_pool *asked; /* of the last question; NULL: neither a slot nor a queue */
    size_t n;
    uint64_t renew_at_us;         /* monotonic */
    int64_t ticket;               /* of Redis; 0: none */
    bool is_told;                 /* Redis may know of it */
    bool is_doubtful;             /* and of more than it has: a question was not answered */
    char id[POOL_LEASE_ID_BYTES]; /* "": none yet */
};

/*
 * Takes a slot of one of n pools (1 to POOLS_MAX) as pools_choose has it; of one without limit
 * there is nothing to take, and it is taken. `asked` and the ids in it stay where they are until
 * the lease is left. With `waits`, one who gets none joins the queues, or keeps its place in them
 * if it asks with the same `asked` again: at the latest after POOL_TICKET_MS. Without, it leaves
 * them. A slot that the lease has is given back first.
 *
 * states[n] says how all of them stood for it: pools_choose of them is what was taken. They are
 * zero with POOL_AWAY. May wait for Redis at most POOLS_PATIENCE_MS, and once a second while it
 * does not answer.
 */
enum pool_answer pools_take(struct pools *pools, const struct slot_pool *asked, size_t n, bool waits,
                            struct pool_lease *lease, struct pool_state *states);

/* To be called often, and at least every POOL_RENEW_MS, while the lease is taken. Waits for nothing,
 * and does nothing before it is due. A lease that was lost is there again. */
void pools_renew(struct pools *pools, struct pool_lease *lease);

/* Gives the slot back, or leaves the queues; the lease is zero but for `hold`, `place` and what is said
 * of the last question. Again, it does nothing. Waits for nothing. */
void pools_leave(struct pools *pools, struct pool_lease *lease);

/* The provider says that the pool is full, whatever we count: for so long nobody is sent there, on
 * any instance. Longer if that was said before. Waits for nothing. */
void pools_mark_saturated(struct pools *pools, const struct slot_pool *pool, uint32_t ms);

/* For the gauges: leases of each of any number of pools, of all instances; of those without limit 0.
 * False: Redis, where there is one, did not say within POOLS_PATIENCE_MS. */
bool pools_count(struct pools *pools, const struct slot_pool *asked, size_t n, uint32_t *held);

#endif
