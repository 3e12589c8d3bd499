/*
 * A sink at work, in a thread of its own: takes a batch from the spool, brings it to the sink
 * until it is passed, moves the cursor. What fails comes again after a while that doubles from
 * 1 s to 60 s, less a random part of it, and is not shorter than the receiver asked for.
 *
 * Threads share nothing but the atomics here and the log. When the process is told to end,
 * each has one more try, until `end_us`; its cursor tells the next process where to go on.
 */
#ifndef FCGI_SHIPPER_SINK_THREAD_H
#define FCGI_SHIPPER_SINK_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/record/spool_reader.h"
#include "core/telemetry/sink.h"

/* What all threads of the process look at. */
struct sink_end {
    _Atomic uint64_t end_us; /* monotonic; UINT64_MAX until the process is told to end */
    int wake_fd;             /* readable from then on */
};

struct sink_thread {
    const struct sink *sink;
    const struct sink_end *end;
    struct spool_reader reader; /* of a sink that reads the spool */
    pthread_t thread;
    struct sink_turn turn;
    struct span lines[SINK_BATCH_MAX];

    /* For the main thread. */
    _Atomic uint64_t passed_segment; /* of the stored cursor; 0: not known yet */
    _Atomic uint64_t
        waiting_us; /* wall clock: since when the oldest event in hand is there; 0: none is in hand */
};

/* Starts it; `sink`, `plan` and `end` outlive it. The signals that the process waits for are
 * blocked in the caller. ERR_SYSTEM, ERR_LIMIT. */
int sink_thread_start(struct sink_thread *thread, const struct sink *sink, const struct spool_plan *plan,
                      const struct sink_end *end, struct error *e);

/* Waits for its end, at most until `until_us` (monotonic): false if it goes on, and what it uses
 * must stay. */
bool sink_thread_join(struct sink_thread *thread, uint64_t until_us);

#endif
