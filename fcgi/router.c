#include "fcgi/router.h"

#include <errno.h>
#include <string.h>

#include "core/log/log.h"

enum { LINE_BYTES = 4096 }; /* of an event's line; usually a quarter of it */

/* Of those dropped, the 1st, 2nd, 4th, 8th … */
static void report_drop(const struct spool *spool)
{
    uint64_t before = spool->dropped - 1;
    if ((before & (before + 1)) == 0)
        log_line(LOG_ERROR, "event_dropped", "the spool takes no events: %s; %llu dropped by this process",
                 strerror(errno), (unsigned long long)before + 1);
}

static void append_line(struct spool *spool, struct mapping *mapping, struct span line)
{
    if (spool_append(spool, line) == 0)
        return;
    telemetry_add(&mapping->telemetry, METRIC_SPOOL_DROPPED, 0, 1);
    report_drop(spool);
}

void router_append_event(struct spool *spool, struct mapping *mapping, const struct request_event *event)
{
    char memory[LINE_BYTES];
    struct buf line;

    buf_init_in(&line, memory, sizeof(memory), EVENT_LIMIT_BYTES);
    event_write(event, &line);
    append_line(spool, mapping, buf_span(&line));
    buf_free(&line);
}

/* What takes time comes before the counting and the writing, so that a process
 * which is killed is hardly ever between the two. */
void router_record(struct spool *spool, struct mapping *mapping, struct scoreboard_record *record,
                   const struct request_event *event)
{
    char memory[LINE_BYTES];
    struct buf line;

    buf_init_in(&line, memory, sizeof(memory), EVENT_LIMIT_BYTES);
    event_write(event, &line);
    if (record != NULL) {
        record->request.status = event->status;
        atomic_store_explicit(&record->request.is_counted, 1, memory_order_release);
    }
    telemetry_count(&mapping->telemetry, event);
    append_line(spool, mapping, buf_span(&line));
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
        /* If it was replaced by a newer one, the next request will see that. */
        if (r != ERR_NOT_FOUND ||
            generation == atomic_load_explicit(&mapping->generation, memory_order_acquire))
            log_line(LOG_ERROR, "snapshot_unusable", "generation %llu: %s", (unsigned long long)generation,
                     e.text);
        return;
    }
    snapshot_unmap(&worker->snapshot);
    worker->snapshot = next;
    worker->generation = generation;
    atomic_store_explicit(&worker->process->record->generation, generation, memory_order_relaxed);
}
