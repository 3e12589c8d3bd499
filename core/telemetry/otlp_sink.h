/* The sinks that export over OTLP/HTTP. After fork, before the process has threads. */
#ifndef CORE_TELEMETRY_OTLP_SINK_H
#define CORE_TELEMETRY_OTLP_SINK_H

#include "core/telemetry/otlp_send.h"
#include "core/telemetry/otlp_settings.h"
#include "core/telemetry/sink.h"

/* What the sinks of a process share; it outlives them. */
struct otlp_sinks {
    const struct otlp_settings *settings;
    const char *instance; /* an id of this run */
    /* Hears what became of items, in the sink's thread. NULL: nobody asks. */
    void (*count)(void *ctx, enum otlp_signal signal, enum otlp_fate fate, uint64_t n);
    void *ctx;
};

/* Spans of the requests' events in the spool. ERR_SYSTEM. */
int otlp_open_traces(const struct otlp_sinks *sinks, struct sink *out, struct error *e);

/* The administrators' writes in the spool, as log records. ERR_SYSTEM. */
int otlp_open_logs(const struct otlp_sinks *sinks, struct sink *out, struct error *e);

#endif
