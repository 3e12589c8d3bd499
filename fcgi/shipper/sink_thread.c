#include "fcgi/shipper/sink_thread.h"

#include <poll.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/json/scan.h"
#include "core/log/log.h"

enum { BACKOFF_FIRST_MS = 1000, BACKOFF_MAX_MS = 60 * 1000 };

static bool is_ending(const struct sink_thread *t)
{
    return atomic_load(&t->end->end_us) != UINT64_MAX;
}

static void wait_ms(const struct sink_thread *t, uint64_t ms)
{
    struct pollfd p = { .fd = t->end->wake_fd, .events = POLLIN };
    poll(&p, 1, ms < INT32_MAX ? (int)ms : INT32_MAX);
}

/* From half of it to the whole: those that failed together do not come back together. */
static uint64_t jitter(uint64_t ms)
{
    uint32_t random;
    ids_random(&random, sizeof(random));
    return ms / 2 + random % (ms / 2 + 1);
}

/* When an event was written: a request's, at its end. */
static uint64_t written_us(struct span line)
{
    static const struct json_want wants[] = { { "time", false }, { "total_us", false } };
    struct json_value found[2];
    long long us[2] = { 0, 0 };

    if (json_find(line, wants, 2, 0, found, NULL) != 0)
        return 0;
    for (int i = 0; i < 2; i++)
        if (found[i].kind == JSON_KIND_NUMBER)
            (void)json_int(found[i].raw, &us[i]);
    return us[0] > 0 && us[1] >= 0 ? (uint64_t)us[0] + (uint64_t)us[1] : 0;
}

/* False: it is not passed, and the process ends. */
static bool deliver(struct sink_thread *t)
{
    uint64_t backoff_ms = BACKOFF_FIRST_MS;

    for (;;) {
        bool is_last = is_ending(t);
        t->turn.retry_after_ms = 0;
        t->turn.why.text[0] = '\0';
        if (t->sink->deliver(t->sink->ctx, &t->turn) == 0)
            return true;
        if (is_last)
            return false;
        uint64_t ms = jitter(backoff_ms);
        wait_ms(t, ms > t->turn.retry_after_ms ? ms : t->turn.retry_after_ms);
        backoff_ms = backoff_ms * 2 < BACKOFF_MAX_MS ? backoff_ms * 2 : BACKOFF_MAX_MS;
    }
}

static void report_losses(const struct sink_thread *t, uint64_t unreadable_before, uint64_t lost_before)
{
    const struct spool_reader *reader = &t->reader;
    const char *name = sink_name(t->sink->signal);

    if (reader->n_unreadable > unreadable_before)
        log_line(LOG_WARN, "spool_unreadable", "the sink of %s skipped %llu pieces that are no events", name,
                 (unsigned long long)(reader->n_unreadable - unreadable_before));
    if (reader->n_lost_segments > lost_before)
        log_line(LOG_ERROR, "spool_segments_lost",
                 "the sink of %s found %llu segments gone before they were read", name,
                 (unsigned long long)(reader->n_lost_segments - lost_before));
}

static void take_lines(struct sink_thread *t)
{
    uint64_t unreadable = t->reader.n_unreadable, lost = t->reader.n_lost_segments;

    t->turn.n = spool_reader_take(&t->reader, t->lines, t->sink->batch_max);
    t->turn.lines = t->lines;
    report_losses(t, unreadable, lost);
    atomic_store(&t->waiting_us, t->turn.n > 0 ? written_us(t->lines[0]) : 0);
}

static void store_cursor(struct sink_thread *t)
{
    struct error e;
    int r = spool_reader_store(&t->reader, &e);
    if (r != 0)
        log_line(LOG_ERROR, "spool_cursor_unwritable", "%s; what is delivered now may come twice", e.text);
    atomic_store(&t->passed_segment, t->reader.passed.segment);
    atomic_store(&t->waiting_us, 0);
}

/* One batch, or the values of one moment. False: the process ends, and nothing is left to do. */
static bool work(struct sink_thread *t)
{
    if (t->sink->reads_spool)
        take_lines(t);
    bool has_work = !t->sink->reads_spool || t->turn.n > 0;
    if (has_work && !deliver(t))
        return false;
    if (t->sink->reads_spool)
        store_cursor(t);
    return has_work;
}

static void *run(void *arg)
{
    struct sink_thread *t = arg;

    while (!is_ending(t)) {
        uint64_t due_us = clock_monotonic_us() + t->sink->linger_ms * US_PER_MS;
        work(t);
        if (t->sink->tend != NULL && !is_ending(t))
            t->sink->tend(t->sink->ctx, &t->turn);
        uint64_t now = clock_monotonic_us();
        bool has_more = t->sink->reads_spool && t->turn.n == t->sink->batch_max;
        if (!has_more && now < due_us)
            wait_ms(t, (due_us - now + US_PER_MS - 1) / US_PER_MS);
    }
    /* The last chance: all that is in the spool, or the values at the end. */
    while (clock_monotonic_us() < atomic_load(&t->end->end_us) && work(t) && t->sink->reads_spool)
        ;
    return NULL;
}

int sink_thread_start(struct sink_thread *t, const struct sink *sink, const struct spool_plan *plan,
                      const struct sink_end *end, struct error *e)
{
    memset(t, 0, sizeof(*t));
    t->sink = sink;
    t->end = end;
    t->turn.end_us = &end->end_us;
    if (sink->reads_spool) {
        int r = spool_reader_open(plan, sink_name(sink->signal), &t->reader, e);
        if (r != 0)
            return r;
        if (e->text[0] != '\0')
            log_line(LOG_WARN, "spool_cursor_unreadable", "%s", e->text);
        atomic_store(&t->passed_segment, t->reader.passed.segment);
    }
    int cause = pthread_create(&t->thread, NULL, run, t);
    if (cause != 0)
        return error_set(e, ERR_SYSTEM, "no thread for the sink of %s: %s", sink_name(sink->signal),
                         strerror(cause));
    pthread_setname_np(t->thread, sink_name(sink->signal));
    return 0;
}

bool sink_thread_join(struct sink_thread *t, uint64_t until_us)
{
    struct timespec until = { .tv_sec = (time_t)(until_us / US_PER_S),
                              .tv_nsec = (long)(until_us % US_PER_S) * 1000 };

    /* Not pthread_timedjoin_np: its clock may be set back meanwhile. */
    if (pthread_clockjoin_np(t->thread, NULL, CLOCK_MONOTONIC, &until) != 0)
        return false;
    if (t->sink->reads_spool)
        spool_reader_close(&t->reader);
    return true;
}
