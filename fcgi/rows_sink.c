#include "fcgi/rows_sink.h"

#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/log/log.h"
#include "core/store/request_log.h"

enum {
    BATCH_LINES = 1000,
    LINGER_MS = 1000,
    UPKEEP_S = 3600,
    UPKEEP_RETRY_S = 60,
};

struct rows_sink {
    struct request_log *log;
    struct telemetry *telemetry;
    unsigned keep_days;
    bool is_failing, is_upkeep_failing; /* and the log has said so */
    uint64_t n_rejected;
    uint64_t upkeep_due_us; /* monotonic */
};

static void count(const struct rows_sink *sink, enum metric_id id, uint64_t n)
{
    telemetry_add(sink->telemetry, id, METRIC_SIGNAL_ROWS, n);
}

static struct json_writer *report(enum log_level level, const char *event)
{
    struct json_writer *w = log_begin(level, event);
    jw_member_cstr(w, "signal", sink_name(METRIC_SIGNAL_ROWS));
    return w;
}

/* --- rows --- */

static int fail(struct rows_sink *sink, struct sink_turn *turn)
{
    count(sink, METRIC_EXPORT_FAILURES, 1);
    if (!sink->is_failing) {
        log_field_text(report(LOG_WARN, "export_failed"), "cause", span_cstr(turn->why.text));
        log_end();
    }
    sink->is_failing = true;
    return ERR_SYSTEM;
}

/* Ever more rarely: whoever can make one such event can make many. */
static void report_rejected(struct rows_sink *sink, const struct request_log_outcome *outcome)
{
    uint64_t before = sink->n_rejected;
    sink->n_rejected += outcome->n_rejected;
    if ((before ^ sink->n_rejected) <= before)
        return; /* not twice as many as at the last line, give or take */
    struct json_writer *w = report(LOG_WARN, "export_partly_refused");
    jw_member_uint(w, "lost", sink->n_rejected);
    log_field_text(w, "receiver_message", span_cstr(outcome->reason));
    log_end();
}

static int deliver(void *ctx, struct sink_turn *turn)
{
    struct rows_sink *sink = ctx;
    struct request_log_outcome outcome;

    request_log_end_at(sink->log, turn->end_us);
    if (request_log_append(sink->log, turn->lines, turn->n, &outcome, &turn->why) != 0)
        return fail(sink, turn);
    count(sink, METRIC_EXPORT_DELIVERED, outcome.n_new);
    count(sink, METRIC_EXPORT_DROPPED, outcome.n_rejected);
    report_rejected(sink, &outcome);
    if (sink->is_failing)
        log_line(LOG_INFO, "export_resumed", "%s arrive again", sink_name(METRIC_SIGNAL_ROWS));
    sink->is_failing = false;
    return 0;
}

/* --- partitions --- */

static void report_upkeep(const struct request_log_upkeep *upkeep)
{
    struct json_writer *w = report(LOG_INFO, "request_log_kept_up");
    jw_member_uint(w, "months_made", upkeep->months_made);
    jw_member_uint(w, "months_dropped", upkeep->months_dropped);
    jw_member_uint(w, "rows_deleted", upkeep->rows_deleted);
    log_end();
}

static void tend(void *ctx, struct sink_turn *turn)
{
    struct rows_sink *sink = ctx;
    struct request_log_upkeep upkeep;
    uint64_t now_us = clock_monotonic_us();

    if (now_us < sink->upkeep_due_us)
        return;
    request_log_end_at(sink->log, turn->end_us);
    int r = request_log_keep_up(sink->log, sink->keep_days, &upkeep, &turn->why);
    sink->upkeep_due_us = now_us + (r == 0 ? UPKEEP_S : UPKEEP_RETRY_S) * US_PER_S;
    if (r != 0 && !sink->is_upkeep_failing) {
        log_field_text(report(LOG_WARN, "request_log_not_kept_up"), "cause", span_cstr(turn->why.text));
        log_end();
    }
    sink->is_upkeep_failing = r != 0;
    if (r == 0 && upkeep.months_made + upkeep.months_dropped + upkeep.rows_deleted > 0)
        report_upkeep(&upkeep);
}

static void close_sink(void *ctx)
{
    struct rows_sink *sink = ctx;
    request_log_free(sink->log);
    free(sink);
}

int rows_sink_open(const char *database_url, const char *state_dir, unsigned keep_days,
                   struct telemetry *telemetry, struct sink *out, struct error *e)
{
    struct rows_sink *sink = xcalloc(1, sizeof(*sink));
    struct arena *arena = arena_new();
    int r = request_log_new(database_url, arena_printf(arena, "%s/llm-router.rejected.jsonl", state_dir),
                            &sink->log, e);
    arena_free(arena);
    if (r != 0) {
        free(sink);
        return r;
    }
    sink->keep_days = keep_days;
    sink->telemetry = telemetry;
    *out = (struct sink){
        .signal = METRIC_SIGNAL_ROWS,
        .reads_spool = true,
        .batch_max = BATCH_LINES,
        .linger_ms = LINGER_MS,
        .ctx = sink,
        .deliver = deliver,
        .tend = tend,
        .close = close_sink,
    };
    return 0;
}
