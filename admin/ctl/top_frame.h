/* What top shows: one look at a running instance's scoreboard and at its events. */
#ifndef ADMIN_CTL_TOP_FRAME_H
#define ADMIN_CTL_TOP_FRAME_H

#include <sys/types.h>

#include "admin/ctl/event_tail.h"
#include "admin/ctl/top_recent.h"
#include "core/config/snapshot.h"
#include "fcgi/engine/mapping.h"

/* What one look leaves to the next. */
struct top {
    const char *run_dir, *state_dir;
    struct arena *arena;          /* lives as long as this */
    char instance[40];            /* that the last look found; "": none yet */
    uint64_t accepted, looked_us; /* connections by then */
    struct event_tail tail;
    bool has_tail;
    const char *tail_problem; /* NULL: events can be read */
    struct recent recent;
    struct snapshot snapshot; /* for the names of upstreams */
};

/* A worker's request. */
struct frame_request {
    pid_t pid;
    enum stage stage;
    uint64_t stage_us, age_us, first_byte_us;             /* the last is 0 before content */
    const char *model, *upstream, *endpoint, *request_id; /* "": not known (yet) */
};

struct frame {
    const char *instance, *version; /* of the tree; "": there is none */
    uint64_t now_us, up_us, generation;
    unsigned n_alive, stages[STAGE_COUNT]; /* workers, and how many are in each stage */
    uint64_t n_queued, n_shed, n_deaths;
    double requests_per_s;          /* since the last look at this instance; negative: there was none */
    struct frame_request *requests; /* in hand, the oldest first */
    size_t n_requests;
    const char *events_problem; /* NULL: `recent` is told */
    struct recent_view recent;
};

void top_init(struct top *top, const char *run_dir, const char *state_dir, struct arena *arena);
void top_close(struct top *top);

/* Looks. The frame is in `arena`, but for what the recent holds. ERR_NOT_FOUND: no instance
 * runs there. ERR_FORMAT: one of another version does. ERR_SYSTEM: it may not be read. */
int top_look(struct top *top, struct arena *arena, struct frame *out, struct error *e);

#endif
