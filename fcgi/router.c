#include "fcgi/router.h"

#include <errno.h>
#include <string.h>

#include "core/log/log.h"

static bool is_segment_named(const void *ctx, uint64_t segment)
{
    return scoreboard_names_segment(ctx, segment);
}

struct spool_plan router_spool_plan(const struct router_settings *settings, struct mapping *mapping,
                                    _Atomic uint64_t *mine)
{
    return (struct spool_plan){
        .state_dir = settings->state_dir,
        .program = mapping->program,
        .max_bytes = (uint64_t)settings->spool_max_bytes,
        .current = &mapping->spool_segment,
        .mine = mine,
        .is_named = is_segment_named,
        .ctx = mapping,
    };
}

void router_append_event(struct spool *spool, const struct request_event *event)
{
    uint64_t before = spool->dropped;
    struct buf line;

    buf_init(&line, EVENT_LIMIT_BYTES);
    event_write(event, &line);
    /* Of those dropped, the 1st, 2nd, 4th, 8th … */
    if (spool_append(spool, buf_span(&line)) != 0 && (before & (before + 1)) == 0)
        log_line(LOG_ERROR, "event_dropped", "the spool takes no events: %s; %llu dropped by this process",
                 strerror(errno), (unsigned long long)before + 1);
    buf_free(&line);
}

void router_refresh(struct router_worker *worker)
{
    struct mapping *mapping = worker->process->mapping;
    uint64_t generation = atomic_load_explicit(&mapping->generation, memory_order_acquire);
    struct snapshot next;
    char path[4096];
    struct error e;

    if (generation == worker->generation)
        return;
    int r = snapshot_path(worker->process->settings->run_dir, generation, path, sizeof(path));
    if (r == 0)
        r = snapshot_map(path, &next, &e);
    if (r != 0) {
        /* Already replaced by a newer one: the next request will see that. */
        if (r != ERR_NOT_FOUND)
            log_line(LOG_ERROR, "snapshot_unusable", "generation %llu: %s", (unsigned long long)generation,
                     e.text);
        return;
    }
    snapshot_unmap(&worker->snapshot);
    worker->snapshot = next;
    worker->generation = generation;
    atomic_store_explicit(&worker->process->record->generation, generation, memory_order_relaxed);
}
