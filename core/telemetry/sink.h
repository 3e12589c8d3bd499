/*
 * A sink: where the shipper brings a program's spooled events, or what its metric
 * cells hold. Each has a thread of its own in the shipper's process, and does there
 * straight, blocking work; none holds up another.
 *
 * A sink that reads the spool has a durable cursor, STATE_DIR/spool/PROGRAM.NAME.cursor,
 * which moves on when a batch is passed: lines come at least once, in the order in which
 * they were written, and again after a crash. Each line is one JSON object without
 * newlines. A sink that is new begins with the oldest line there is.
 */
#ifndef CORE_TELEMETRY_SINK_H
#define CORE_TELEMETRY_SINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"
#include "core/telemetry/metric.h"

enum { SINK_BATCH_MAX = 2048 }; /* lines */

/* One batch on its way. */
struct sink_turn {
    const struct span *lines; /* valid JSON objects; they live for the call */
    size_t n;                 /* 0 for a sink that does not read the spool */
    /* Monotonic µs at which the call has to be over; the process's end may bring it
     * nearer at any time, so blocking work looks at it at least every second. */
    const _Atomic uint64_t *end_us;
    /* Out, with a failure: how long the receiver wants to be left alone; 0: it did not say. */
    uint64_t retry_after_ms;
    struct error why;
};

/* "traces", "metrics", "logs", "rows" */
const char *sink_name(enum metric_signal signal);

struct sink {
    enum metric_signal signal; /* what it carries: in the cursor's name, in logs, as a label */
    bool reads_spool;          /* else it is called every linger_ms, without lines */
    size_t batch_max;          /* lines, at most SINK_BATCH_MAX */
    uint32_t linger_ms;        /* between two calls while there is less than a batch */
    void *ctx;
    /* 0: the batch is passed: it has arrived, or what of it never can was set aside and
     * counted. Else it comes again, after a while that doubles from 1 s to 60 s. */
    int (*deliver)(void *ctx, struct sink_turn *turn);
    /* What it does besides, or NULL: called after each batch, and every linger_ms while there is
     * none; how often that is something to do is its own business. */
    void (*tend)(void *ctx, struct sink_turn *turn);
    /* Frees ctx, after the last call. */
    void (*close)(void *ctx);
};

#endif
