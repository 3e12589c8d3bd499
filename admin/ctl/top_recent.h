/*
 * What the events of the last minute say, for top: how requests ended, how each
 * upstream did, and how long first bytes took. Bounded: where more requests end
 * within a minute than are kept, less than a minute is told of, and how much.
 */
#ifndef ADMIN_CTL_TOP_RECENT_H
#define ADMIN_CTL_TOP_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/ctl/event_line.h"
#include "core/base/arena.h"

enum {
    RECENT_SECONDS = 60,
    RECENT_SAMPLES = 1 << 16,   /* attempts and requests, each */
    RECENT_UPSTREAMS_MAX = 256, /* the last one stands for all further ones */
    RECENT_NAME_BYTES = 132,
};

/* Of a request. */
enum recent_ending { RECENT_DONE, RECENT_REFUSED, RECENT_FAILED, RECENT_LEFT, RECENT_ENDINGS };

/* What an attempt says of its upstream. A caller's mistake or departure says nothing. */
enum recent_finding {
    RECENT_NOTHING,
    RECENT_FAILURE,
    RECENT_BEATEN, /* the other of two side by side answered (hedgeAfterMs) */
};

struct recent_sample {
    uint64_t end_us;        /* wall clock */
    uint32_t first_byte_us; /* 0: none came; at most a bit over an hour */
    uint16_t upstream;      /* of an attempt */
    uint8_t ending;         /* of an attempt, its finding */
};

struct recent_ring {
    struct recent_sample *samples; /* RECENT_SAMPLES */
    size_t n, next;
};

struct recent {
    struct recent_ring requests, attempts;
    char upstreams[RECENT_UPSTREAMS_MAX][RECENT_NAME_BYTES];
    size_t n_upstreams;
    uint64_t known_from_us; /* wall clock: what ended later is known; 0: all */
};

/* 0 where there was none. */
struct recent_times {
    uint32_t median_us, p95_us;
};

struct recent_upstream {
    const char *name; /* lives as long as the recent */
    size_t attempts, failures, beaten;
    struct recent_times first_byte;
};

struct recent_view {
    unsigned seconds; /* that it tells of */
    size_t endings[RECENT_ENDINGS];
    struct recent_times first_byte;
    struct recent_upstream *upstreams; /* those with attempts, the busiest first */
    size_t n_upstreams;
};

/* All memory is the arena's, which outlives it. */
void recent_init(struct recent *recent, struct arena *arena);

/* Forgets everything; what ended before `known_from_us` (0: nothing) will not be told. */
void recent_clear(struct recent *recent, uint64_t known_from_us);

void recent_add(struct recent *recent, const struct event_line *event);

/* The view's upstreams are in the arena. */
void recent_look(const struct recent *recent, uint64_t now_us, struct arena *arena, struct recent_view *out);

#endif
