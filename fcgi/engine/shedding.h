/*
 * When to shed: the decision of the overflow process, as a pure function of what
 * it sees at each tick.
 *
 * Every acceptor adds to one count, `accepted`; arrivals are that count plus the
 * queue's length. So the connection at the head of the queue has waited longer
 * than D exactly when accepted < arrivals(now - D). One is shed while the head is
 * older than the queue timeout, and, once the queue has been non-empty at every
 * tick for that long, while it is older than a tenth of it: a queue that stands
 * only makes everybody wait.
 */
#ifndef FCGI_ENGINE_SHEDDING_H
#define FCGI_ENGINE_SHEDDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHEDDING_TICK_MS = 20 };

struct shedding {
    uint64_t *arrivals;   /* a ring, one per tick */
    size_t n_ticks;       /* that the queue timeout has, at least 1; the ring has one more */
    size_t n_young_ticks; /* that a tenth of it has, at least 1 */
    uint64_t tick;        /* ticks so far */
    uint64_t standing;    /* ticks at which the queue was not empty, in a row */
};

void shedding_init(struct shedding *shedding, uint64_t queue_timeout_ms);
void shedding_free(struct shedding *shedding);

/* Once per SHEDDING_TICK_MS. `ticks` >= 1: how many have passed since the last
 * call; those that were missed are taken for having brought nothing. `accepted`
 * is read before `waiting`, so that their sum is never too large. */
void shedding_tick(struct shedding *shedding, uint64_t ticks, uint64_t accepted, uint32_t waiting);

/* Says how long the connections waited that were accepted since the count was
 * `from`, now that it is `to`: `ticks` for `n` of them, the oldest first, 0 for those
 * that came and were accepted between two ticks. It is never more than they did: a
 * connection counts from the first tick that saw it, at most as far back as the ring
 * goes. Before the tick itself. */
void shedding_account(const struct shedding *shedding, uint64_t from, uint64_t to,
                      void (*note)(void *ctx, uint64_t ticks, uint64_t n), void *ctx);

/* Whether the connection at the head is to be shed, given the count as it is now. */
bool shedding_is_due(const struct shedding *shedding, uint64_t accepted);

#endif
