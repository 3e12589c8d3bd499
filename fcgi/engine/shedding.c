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

void shedding_account(const struct shedding *s, uint64_t from, uint64_t to,
                      void (*note_waiting)(void *ctx, uint64_t ticks, uint64_t n), void *ctx)
{
    for (uint64_t back = s->tick < s->n_ticks + 1 ? s->tick : s->n_ticks + 1; back > 0 && from < to; back--) {
        uint64_t seen = s->arrivals[(s->tick - back) % (s->n_ticks + 1)];
        uint64_t until = seen < to ? seen : to;
        if (until > from) {
            note_waiting(ctx, back, until - from);
            from = until;
        }
    }
    if (from < to)
        note_waiting(ctx, 0, to - from);
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
