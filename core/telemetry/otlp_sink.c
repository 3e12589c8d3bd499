#include "core/telemetry/otlp_sink.h"

#include <stdlib.h>

#include "core/base/arena.h"
#include "core/telemetry/otlp_log.h"
#include "core/telemetry/otlp_metric.h"
#include "core/telemetry/otlp_trace.h"

struct otlp_sink {
    const struct otlp_sinks *sinks;
    struct otlp_sender *sender;
    struct arena *arena;      /* of the request on its way */
    struct otlp_meter *meter; /* of metrics */
};

static int open_sink(const struct otlp_sinks *sinks, enum metric_signal signal, struct otlp_sink **out,
                     struct error *e)
{
    struct otlp_sink *sink = xcalloc(1, sizeof(*sink));

    int r = otlp_sender_open(sinks->settings, signal, sinks->telemetry, &sink->sender, e);
    if (r != 0) {
        free(sink);
        return r;
    }
    sink->sinks = sinks;
    sink->arena = arena_new();
    *out = sink;
    return 0;
}

static void close_sink(void *ctx)
{
    struct otlp_sink *sink = ctx;
    otlp_sender_close(sink->sender);
    arena_free(sink->arena);
    if (sink->meter != NULL)
        otlp_meter_free(sink->meter);
    free(sink);
}

static size_t batch_of(int64_t wanted)
{
    return wanted < SINK_BATCH_MAX ? (size_t)wanted : SINK_BATCH_MAX;
}

/* --- traces --- */

static int deliver_traces(void *ctx, struct sink_turn *turn)
{
    struct otlp_sink *sink = ctx;
    Otlp__TraceRequest *request =
        otlp_trace_request(sink->sinks->settings, sink->sinks->instance, turn->lines, turn->n, sink->arena);
    int r = 0;
    if (request != NULL)
        r = otlp_send(sink->sender, &request->base, request->resource_spans[0]->scope_spans[0]->n_spans,
                      turn);
    arena_reset(sink->arena);
    return r;
}

int otlp_open_traces(const struct otlp_sinks *sinks, struct sink *out, struct error *e)
{
    struct otlp_sink *sink;
    int r = open_sink(sinks, METRIC_SIGNAL_TRACES, &sink, e);
    if (r != 0)
        return r;
    *out = (struct sink){
        .signal = METRIC_SIGNAL_TRACES,
        .reads_spool = true,
        .batch_max = batch_of(sinks->settings->span_batch),
        .linger_ms = (uint32_t)sinks->settings->span_delay_ms,
        .ctx = sink,
        .deliver = deliver_traces,
        .close = close_sink,
    };
    return 0;
}

/* --- logs --- */

static int deliver_logs(void *ctx, struct sink_turn *turn)
{
    struct otlp_sink *sink = ctx;
    Otlp__LogsRequest *request =
        otlp_logs_request(sink->sinks->settings, sink->sinks->instance, turn->lines, turn->n, sink->arena);
    int r = 0;
    if (request != NULL)
        r = otlp_send(sink->sender, &request->base, request->resource_logs[0]->scope_logs[0]->n_log_records,
                      turn);
    arena_reset(sink->arena);
    return r;
}

int otlp_open_logs(const struct otlp_sinks *sinks, struct sink *out, struct error *e)
{
    struct otlp_sink *sink;
    int r = open_sink(sinks, METRIC_SIGNAL_LOGS, &sink, e);
    if (r != 0)
        return r;
    *out = (struct sink){
        .signal = METRIC_SIGNAL_LOGS,
        .reads_spool = true,
        .batch_max = batch_of(sinks->settings->log_batch),
        .linger_ms = (uint32_t)sinks->settings->log_delay_ms,
        .ctx = sink,
        .deliver = deliver_logs,
        .close = close_sink,
    };
    return 0;
}

/* --- metrics --- */

static int deliver_metrics(void *ctx, struct sink_turn *turn)
{
    struct otlp_sink *sink = ctx;
    size_t n_points = 0;
    Otlp__MetricsRequest *request =
        otlp_metrics_request(sink->meter, sink->sinks->read_gauges(sink->sinks->ctx), sink->arena, &n_points);
    int r = 0;
    if (request != NULL)
        r = otlp_send(sink->sender, &request->base, n_points, turn);
    if (request != NULL && r == 0)
        otlp_meter_advance(sink->meter);
    arena_reset(sink->arena);
    return r;
}

int otlp_open_metrics(const struct otlp_sinks *sinks, struct sink *out, struct error *e)
{
    struct otlp_sink *sink;
    int r = open_sink(sinks, METRIC_SIGNAL_METRICS, &sink, e);
    if (r != 0)
        return r;
    sink->meter = otlp_meter_new(sinks->settings, sinks->telemetry, sinks->instance);
    *out = (struct sink){
        .signal = METRIC_SIGNAL_METRICS,
        .linger_ms = (uint32_t)sinks->settings->metric_interval_ms,
        .ctx = sink,
        .deliver = deliver_metrics,
        .close = close_sink,
    };
    return 0;
}
