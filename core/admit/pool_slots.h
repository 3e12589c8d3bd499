/*
 * Slots of pools in fixed memory that the workers of an instance share. Each worker has
 * a record that says what it holds and what it waits for: what is held are the records
 * that say so, and there is no counter that a worker's death could falsify. The master
 * frees the record of one that has died.
 */
#ifndef CORE_ADMIT_POOL_SLOTS_H
#define CORE_ADMIT_POOL_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/shared_mutex.h"
#include "core/base/span.h"

enum { POOLS_MAX = 100, /* that one request may ask for */ POOL_MARKS = 256, POOL_CAPACITY_MAX = 1 << 24 };

/* A pool as a request asks for it. */
struct slot_pool {
    struct span id;    /* "tts:pool:123": of the same pool the same for all models and instances */
    uint64_t hash;     /* of the id; never 0 */
    uint32_t capacity; /* slots, at most POOL_CAPACITY_MAX; 0: without limit, but it may be saturated */
};

/* How a pool stands for one who asks. Of one without limit nothing is counted. */
struct pool_state {
    uint32_t held;         /* by others */
    uint32_t ahead;        /* of others in its queue, those before this one */
    uint32_t saturated_ms; /* for so long still; 0: it is not */
};

/* Slots that the one who asks may have: free ones that nobody before it waits for; none of a
 * saturated pool; of one without limit UINT32_MAX. Pure, as the next one. */
uint32_t pool_room(const struct slot_pool *pool, const struct pool_state *state);

/*
 * Of pools in the order in which they are wanted, which to take a slot of; n: none has room. The
 * places of those with a capacity belong to the one of them that has the largest part of it as
 * room, then the next (of equals the one that is wanted first); one without limit stands where it
 * stands. The first in this order that has room is it.
 */
size_t pools_choose(const struct slot_pool *asked, const struct pool_state *states, size_t n);

/* A slot. */
struct pool_hold {
    _Atomic uint64_t pool;       /* its hash; 0: none */
    _Atomic uint64_t renewed_us; /* monotonic; of the lease */
};

/* That of an attempt, which may wait in queues, and that of another beside it, which never does. */
enum { POOL_HOLDS = 2 };

/* What a worker has, in its record. Only the worker writes it; the master when it is dead. */
struct pool_owner {
    struct pool_hold holds[POOL_HOLDS];
    _Atomic uint64_t ticket; /* its place in the queues; 0: it waits for nothing */
    uint64_t asked_us;       /* monotonic: it asked last */
    uint32_t n_waits;
    uint64_t waits[POOLS_MAX]; /* hashes of the pools in whose queues it is */
};

/* The master, of a worker that has died. */
void pool_owner_clear(struct pool_owner *owner);

/* The records of all workers, one in each of n of so many bytes. */
struct pool_owners {
    struct pool_owner *first;
    size_t record_bytes;
    unsigned n;
};

/* A mark that a pool is saturated. */
struct pool_mark {
    uint64_t pool; /* its hash; 0: free */
    uint64_t until_us;
};

/* Shared by all workers. With the lock, tickets are given out, records looked through and slots
 * taken: of two who ask for the last one, one gets it. One who dies with it leaves a mark half
 * written, at worst. Where there is no room for a mark, the one that ends first goes.
 *
 * Nobody waits for long for one who is stopped with the lock (core/base/shared_mutex.h). Without it slots
 * are given out as the records count them, which needs none: of two who ask for the last one, both may
 * get it. Marks are neither set nor heeded, and nobody joins the queues or is ahead in them. */
struct pool_slots {
    struct shared_mutex mutex;
    uint64_t last_ticket;
    struct pool_mark marks[POOL_MARKS];
};

/* Before fork, on zeroed memory. */
void pool_slots_init(struct pool_slots *slots);

/* How long what nobody renews, or asks for again, lasts. */
struct pool_terms {
    uint32_t lease_ms, ticket_ms;
};

/* Takes what pools_choose says, as the hold of this place in `own`, and returns it, or n. With
 * `waits`, who gets nothing joins the queues of all that have a capacity, or stays in them; else it
 * leaves them. */
size_t pool_slots_take(struct pool_slots *slots, const struct pool_owners *owners, struct pool_owner *own,
                       unsigned hold, const struct pool_terms *terms, const struct slot_pool *asked, size_t n,
                       bool waits, struct pool_state *states);

/* It holds a slot of this pool, whoever gave it, and leaves all queues. Again, it renews that. */
void pool_owner_hold(struct pool_owner *own, unsigned hold, uint64_t hash);

/* It holds nothing there, and waits for nothing. */
void pool_owner_leave(struct pool_owner *own, unsigned hold);

/* A mark that would end later stays. */
void pool_slots_mark_saturated(struct pool_slots *slots, uint64_t hash, uint32_t ms);

/* For how long each of n pools is marked still, in out_ms[n]; 0: it is not. */
void pool_slots_read_saturated(struct pool_slots *slots, const struct slot_pool *asked, size_t n,
                               uint32_t *out_ms);

/* Adds to held[n] what the records say, but for this one hold (which may be NULL). Takes no lock. */
void pool_owners_count(const struct pool_owners *owners, const struct pool_hold *but,
                       const struct pool_terms *terms, const struct slot_pool *asked, size_t n,
                       uint32_t *held);

#endif
