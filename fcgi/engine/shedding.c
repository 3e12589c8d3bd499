#include "fcgi/engine/shedding.h"

#include <stdlib.h>

#include "core/base/arena.h"

void shedding_init(struct shedding *s, uint64_t queue_timeout_ms)
{
    size_t ticks = (size_t)(queue_timeout_ms / SHEDDING_TICK_MS);
    *s = (struct shedding){
        .n_ticks = ticks > 0 ? ticks : 1,
        .n_young_ticks = ticks / 10 > 0 ? ticks / 10 : 1,
    };
    s->arrivals = xcalloc(s->n_ticks + 1, sizeof(*s->arrivals));
}

void shedding_free(struct shedding *s)
{
    free(s->arrivals);
    *s = (struct shedding){ .arrivals = NULL };
}

static void note(struct shedding *s, uint64_t arrivals)
{
    s->arrivals[s->tick++ % (s->n_ticks + 1)] = arrivals;
}

void shedding_tick(struct shedding *s, uint64_t ticks, uint64_t accepted, uint32_t waiting)
{
    uint64_t last = s->tick > 0 ? s->arrivals[(s->tick - 1) % (s->n_ticks + 1)] : 0;

    /* Ticks that were missed: what is known of them is what came before. */
    for (uint64_t i = 1; i < ticks && i <= s->n_ticks; i++)
        note(s, last);
    note(s, accepted + waiting);
    s->standing = waiting > 0 ? s->standing + 1 : 0;
}

/* Whether the head came before the tick that lies `ticks` back. */
static bool is_head_older(const struct shedding *s, uint64_t ticks, uint64_t accepted)
{
    if (s->tick <= ticks)
        return false; /* it was not watched for so long */
    return accepted < s->arrivals[(s->tick - 1 - ticks) % (s->n_ticks + 1)];
}

bool shedding_is_due(const struct shedding *s, uint64_t accepted)
{
    if (is_head_older(s, s->n_ticks, accepted))
        return true;
    return s->standing > s->n_ticks && is_head_older(s, s->n_young_ticks, accepted);
}
