#include "admin/ctl/top_frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"

enum {
    HISTORY_BYTES = 8 * 1024 * 1024, /* of the spool, read at the start */
};

void top_init(struct top *top, const char *run_dir, const char *state_dir, struct arena *arena)
{
    *top = (struct top){ .run_dir = run_dir, .state_dir = state_dir, .arena = arena };
    recent_init(&top->recent, arena);
}

void top_close(struct top *top)
{
    if (top->has_tail)
        event_tail_close(&top->tail);
    top->has_tail = false;
    snapshot_unmap(&top->snapshot);
}

/* --- events --- */

static void begin_events(struct top *top)
{
    struct error e;

    if (top->has_tail)
        event_tail_close(&top->tail);
    top->has_tail = event_tail_open(top->state_dir, HISTORY_BYTES, top->arena, &top->tail, &e) == 0;
    top->tail_problem = top->has_tail ? NULL : arena_strdup(top->arena, e.text);
    recent_clear(&top->recent, top->has_tail && top->tail.is_whole ? 0 : UINT64_MAX);
}

static void read_events(struct top *top)
{
    struct arena *line_arena = arena_new();
    struct span line;

    while (top->has_tail && event_tail_next(&top->tail, &line) == 0) {
        struct event_line event;
        if (event_line_read(line, line_arena, &event) == 0) {
            if (top->recent.known_from_us == UINT64_MAX) /* what ended before it was not read */
                top->recent.known_from_us = event.time_us + event.total_us;
            recent_add(&top->recent, &event);
        }
        arena_reset(line_arena);
    }
    arena_free(line_arena);
}

/* --- requests in hand --- */

/* The snapshot of this generation; NULL if it is gone. */
static const struct snap_root *snapshot_of(struct top *top, uint64_t generation)
{
    char path[4096];

    if (generation == 0)
        return NULL;
    if (top->snapshot.root != NULL && top->snapshot.root->generation == generation)
        return top->snapshot.root;
    snapshot_unmap(&top->snapshot);
    if (snapshot_path(top->run_dir, generation, path, sizeof(path)) != 0 ||
        snapshot_map(path, &top->snapshot, NULL) != 0)
        return NULL;
    return top->snapshot.root;
}

static uint64_t since(uint64_t now_us, uint64_t then_us)
{
    return now_us > then_us ? now_us - then_us : 0;
}

static void take_request(struct top *top, const struct scoreboard_record *record, struct arena *arena,
                         uint64_t now_us, struct frame *out)
{
    enum stage stage = (enum stage)atomic_load_explicit(&record->stage, memory_order_acquire);
    uint64_t since_us = atomic_load_explicit(&record->since_us, memory_order_relaxed);
    const struct snap_root *root = NULL;
    struct scoreboard_request request;

    if (stage == STAGE_FREE || stage == STAGE_IDLE || !scoreboard_copy_request(record, &request))
        return;
    if (request.upstream != 0)
        root = snapshot_of(top, atomic_load_explicit(&record->generation, memory_order_relaxed));
    struct frame_request *row = &out->requests[out->n_requests++];
    *row = (struct frame_request){
        .pid = atomic_load_explicit(&record->pid, memory_order_relaxed),
        .stage = stage,
        .stage_us = since(now_us, since_us),
        .age_us = since(now_us, request.started_us),
        .first_byte_us = stage == STAGE_STREAMING ? since(since_us, request.started_us) : 0,
        .model = arena_strdup(arena, request.model),
        .endpoint = arena_strdup(arena, request.endpoint),
        .request_id = arena_strdup(arena, request.request_id),
        .upstream = root == NULL ? "" : arena_span(arena, snapshot_upstream_id(root, request.upstream)),
    };
}

static int compare_ages(const void *a, const void *b)
{
    const struct frame_request *x = a, *y = b;
    return (x->age_us < y->age_us) - (x->age_us > y->age_us);
}

/* --- the whole --- */

static void take_workers(struct top *top, const struct mapping *mapping, struct arena *arena,
                         struct frame *out)
{
    uint64_t now_us = clock_monotonic_us();

    out->requests = arena_array_of(arena, struct frame_request, mapping->n_records);
    for (unsigned i = 0; i < mapping->n_records; i++) {
        const struct scoreboard_record *record = &mapping->workers[i];
        uint32_t stage = atomic_load_explicit(&record->stage, memory_order_relaxed);
        if (atomic_load_explicit(&record->pid, memory_order_relaxed) == 0)
            continue;
        out->n_alive++;
        if (stage < STAGE_COUNT)
            out->stages[stage]++;
        take_request(top, record, arena, now_us, out);
    }
    qsort(out->requests, out->n_requests, sizeof(out->requests[0]), compare_ages);
}

static void take_rate(struct top *top, uint64_t accepted, uint64_t now_us, struct frame *out)
{
    out->requests_per_s = -1;
    if (strcmp(top->instance, out->instance) == 0 && now_us > top->looked_us)
        out->requests_per_s =
            (double)(accepted - top->accepted) * (double)US_PER_S / (double)(now_us - top->looked_us);
    top->accepted = accepted;
    top->looked_us = now_us;
}

int top_look(struct top *top, struct arena *arena, struct frame *out, struct error *e)
{
    struct tree_in_force tree;
    const struct mapping *mapping;

    int r = mapping_view(top->run_dir, "llm-router", &mapping, e);
    if (r != 0)
        return r;
    *out = (struct frame){
        .instance = arena_printf(arena, "%.*s", (int)sizeof(mapping->instance) - 1, mapping->instance),
        .now_us = clock_wall_us(),
        .generation = mapping_in_force(mapping, &tree),
        .n_queued = atomic_load_explicit(&mapping->waiting, memory_order_relaxed),
        .n_shed = telemetry_get(&mapping->telemetry, METRIC_OVERFLOW, 0),
        .n_deaths = telemetry_get(&mapping->telemetry, METRIC_WORKER_DEATHS, 0),
    };
    out->version = out->generation == 0 ? "" : arena_strdup(arena, tree.version);
    out->up_us = since(out->now_us, mapping->started_wall_us);
    take_rate(top, atomic_load_explicit(&mapping->accepted, memory_order_relaxed), clock_monotonic_us(), out);
    take_workers(top, mapping, arena, out);
    mapping_close(mapping);
    if (strcmp(top->instance, out->instance) != 0) { /* another one: its spool may be, too */
        snapshot_unmap(&top->snapshot);
        begin_events(top);
        snprintf(top->instance, sizeof(top->instance), "%s", out->instance);
    }
    read_events(top);
    out->events_problem = top->tail_problem;
    recent_look(&top->recent, out->now_us, arena, &out->recent);
    return 0;
}
