/* The sinks that export over OTLP/HTTP. After fork, before the process has threads. */
#ifndef CORE_TELEMETRY_OTLP_SINK_H
#define CORE_TELEMETRY_OTLP_SINK_H

#include "core/telemetry/otlp_send.h"
#include "core/telemetry/otlp_settings.h"
#include "core/telemetry/sink.h"

/* What the sinks of a process share; it outlives them. */
struct otlp_sinks {
    const struct otlp_settings *settings;
    struct telemetry *telemetry;
    const char *instance; /* an id of this run */
    /* Brings the cells up to date, and says what labels say besides them; in a sink's thread. */
    const struct series_facts *(*read_gauges)(void *ctx);
    void *ctx;
};

/* Spans of the requests' events in the spool. ERR_SYSTEM. */
int otlp_open_traces(const struct otlp_sinks *sinks, struct sink *out, struct error *e);

/* The administrators' writes in the spool, as log records. ERR_SYSTEM. */
int otlp_open_logs(const struct otlp_sinks *sinks, struct sink *out, struct error *e);

/* All metrics, every OTEL_METRIC_EXPORT_INTERVAL. ERR_SYSTEM. */
int otlp_open_metrics(const struct otlp_sinks *sinks, struct sink *out, struct error *e);

#endif
