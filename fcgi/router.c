#include "fcgi/router.h"

#include "core/log/log.h"

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
