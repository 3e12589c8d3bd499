#include "core/admit/pool_slots.h"

#include <stdlib.h>

#include "core/base/clock.h"

/* --- which pool --- */

uint32_t pool_room(const struct slot_pool *pool, const struct pool_state *state)
{
    uint64_t wanted = (uint64_t)state->held + state->ahead;

    if (state->saturated_ms > 0)
        return 0;
    if (pool->capacity == 0)
        return UINT32_MAX;
    return wanted < pool->capacity ? (uint32_t)(pool->capacity - wanted) : 0;
}

/* As fractions of the capacities, without dividing. */
static bool has_more_room(const struct slot_pool *a, uint32_t room_a, const struct slot_pool *b,
                          uint32_t room_b)
{
    return (uint64_t)room_a * b->capacity > (uint64_t)room_b * a->capacity;
}

/* The roomiest stands at the first place of one with a capacity, so that it is enough to know
 * which one that is, and whether one without limit stands before that place. */
size_t pools_choose(const struct slot_pool *asked, const struct pool_state *states, size_t n)
{
    size_t first_limited = n, unlimited = n, best = n;
    uint32_t best_room = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t room = pool_room(&asked[i], &states[i]);
        if (asked[i].capacity == 0) {
            if (unlimited == n && room > 0)
                unlimited = i;
            continue;
        }
        if (first_limited == n)
            first_limited = i;
        if (room > 0 && (best == n || has_more_room(&asked[i], room, &asked[best], best_room))) {
            best = i;
            best_room = room;
        }
    }
    return best == n || unlimited < first_limited ? unlimited : best;
}

/* --- records --- */

void pool_owner_clear(struct pool_owner *owner)
{
    for (unsigned i = 0; i < POOL_HOLDS; i++)
        pool_owner_leave(owner, i);
}

void pool_owner_leave(struct pool_owner *own, unsigned hold)
{
    atomic_store(&own->holds[hold].pool, 0);
    atomic_store(&own->ticket, 0);
}

void pool_owner_hold(struct pool_owner *own, unsigned hold, uint64_t hash)
{
    atomic_store(&own->holds[hold].renewed_us, clock_monotonic_us()); /* who finds the one finds the other */
    atomic_store(&own->holds[hold].pool, hash);
    atomic_store(&own->ticket, 0);
}

static struct pool_owner *owner_at(const struct pool_owners *owners, unsigned i)
{
    return (struct pool_owner *)(void *)((char *)owners->first + i * owners->record_bytes);
}

/* Two processes read the clock in one order and come here in another: what happened a moment
 * after now has just happened. */
static bool is_recent(uint64_t then_us, uint64_t now_us, uint32_t lasts_ms)
{
    return then_us + lasts_ms * US_PER_MS > now_us;
}

void pool_owners_count(const struct pool_owners *owners, const struct pool_hold *but,
                       const struct pool_terms *terms, const struct slot_pool *asked, size_t n,
                       uint32_t *held)
{
    uint64_t now_us = clock_monotonic_us();

    for (unsigned i = 0; i < owners->n * POOL_HOLDS; i++) {
        const struct pool_hold *hold = &owner_at(owners, i / POOL_HOLDS)->holds[i % POOL_HOLDS];
        uint64_t hash = atomic_load(&hold->pool);
        if (hash == 0 || hold == but || !is_recent(atomic_load(&hold->renewed_us), now_us, terms->lease_ms))
            continue;
        for (size_t k = 0; k < n; k++)
            held[k] += asked[k].hash == hash && asked[k].capacity > 0 ? 1 : 0;
    }
}

static bool waits_for(const struct pool_owner *owner, uint64_t hash)
{
    for (uint32_t i = 0; i < owner->n_waits; i++) {
        if (owner->waits[i] == hash)
            return true;
    }
    return false;
}

/* --- with the lock --- */

static bool lock(struct pool_slots *slots)
{
    return shared_mutex_lock(&slots->mutex) != SHARED_MUTEX_BUSY;
}

static void unlock(struct pool_slots *slots)
{
    shared_mutex_unlock(&slots->mutex);
}

void pool_slots_init(struct pool_slots *slots)
{
    if (shared_mutex_init(&slots->mutex) != 0)
        abort();
}

static uint32_t saturated_ms(const struct pool_slots *slots, uint64_t hash, uint64_t now_us)
{
    for (size_t i = 0; i < POOL_MARKS; i++) {
        const struct pool_mark *mark = &slots->marks[i];
        if (mark->pool == hash && mark->until_us > now_us)
            return (uint32_t)((mark->until_us - now_us + US_PER_MS - 1) / US_PER_MS);
    }
    return 0;
}

void pool_slots_mark_saturated(struct pool_slots *slots, uint64_t hash, uint32_t ms)
{
    uint64_t until_us = clock_monotonic_us() + ms * US_PER_MS;
    struct pool_mark *place = &slots->marks[0];

    if (!lock(slots))
        return;
    for (size_t i = 0; i < POOL_MARKS; i++) {
        struct pool_mark *mark = &slots->marks[i];
        if (mark->pool == hash) {
            place = mark;
            break;
        }
        if (mark->until_us < place->until_us)
            place = mark;
    }
    if (place->pool != hash || place->until_us < until_us)
        *place = (struct pool_mark){ hash, until_us };
    unlock(slots);
}

void pool_slots_read_saturated(struct pool_slots *slots, const struct slot_pool *asked, size_t n,
                               uint32_t *out_ms)
{
    bool is_locked = lock(slots);
    uint64_t now_us = clock_monotonic_us();
    for (size_t i = 0; i < n; i++)
        out_ms[i] = is_locked ? saturated_ms(slots, asked[i].hash, now_us) : 0;
    if (is_locked)
        unlock(slots);
}

static void count_ahead(const struct pool_owners *owners, const struct pool_owner *own,
                        const struct pool_terms *terms, const struct slot_pool *asked, size_t n,
                        struct pool_state *states)
{
    uint64_t now_us = clock_monotonic_us(), mine = atomic_load(&own->ticket);

    for (unsigned i = 0; i < owners->n; i++) {
        const struct pool_owner *owner = owner_at(owners, i);
        uint64_t ticket = atomic_load(&owner->ticket);
        if (ticket == 0 || owner == own || (mine > 0 && ticket > mine) ||
            !is_recent(owner->asked_us, now_us, terms->ticket_ms))
            continue;
        for (size_t k = 0; k < n; k++)
            states[k].ahead += asked[k].capacity > 0 && waits_for(owner, asked[k].hash) ? 1 : 0;
    }
}

/* What only the lock makes whole: marks, and who is ahead in the queues. */
static void look_around(const struct pool_slots *slots, const struct pool_owners *owners,
                        struct pool_owner *own, const struct pool_terms *terms, const struct slot_pool *asked,
                        size_t n, struct pool_state *states)
{
    uint64_t now_us = clock_monotonic_us();

    for (size_t i = 0; i < n; i++)
        states[i].saturated_ms = saturated_ms(slots, asked[i].hash, now_us);
    /* One who did not ask in time has lost its place. */
    if (!is_recent(own->asked_us, now_us, terms->ticket_ms))
        atomic_store(&own->ticket, 0);
    count_ahead(owners, own, terms, asked, n, states);
}

static void join_queues(struct pool_slots *slots, struct pool_owner *own, const struct slot_pool *asked,
                        size_t n)
{
    uint64_t ticket = atomic_load(&own->ticket);

    own->n_waits = 0;
    for (size_t i = 0; i < n; i++) {
        if (asked[i].capacity > 0)
            own->waits[own->n_waits++] = asked[i].hash;
    }
    own->asked_us = clock_monotonic_us();
    atomic_store(&own->ticket, ticket > 0 ? ticket : ++slots->last_ticket);
}

size_t pool_slots_take(struct pool_slots *slots, const struct pool_owners *owners, struct pool_owner *own,
                       unsigned hold, const struct pool_terms *terms, const struct slot_pool *asked, size_t n,
                       bool waits, struct pool_state *states)
{
    uint32_t held[POOLS_MAX] = { 0 };

    bool is_locked = lock(slots);
    pool_owners_count(owners, &own->holds[hold], terms, asked, n, held);
    for (size_t i = 0; i < n; i++)
        states[i] = (struct pool_state){ .held = held[i] };
    if (is_locked)
        look_around(slots, owners, own, terms, asked, n, states);
    size_t place = pools_choose(asked, states, n);
    if (place < n && asked[place].capacity > 0)
        pool_owner_hold(own, hold, asked[place].hash);
    else if (place < n || !waits)
        pool_owner_leave(own, hold);
    else if (is_locked)
        join_queues(slots, own, asked, n);
    if (is_locked)
        unlock(slots);
    return place;
}
