/*
 * The telemetry shipper: an auxiliary process of a program. It runs the program's sinks, each in
 * a thread, removes the spool's segments that all of them have passed, and measures the spool.
 *
 * Before fork, shipper_read_settings; in the process, shipper_init, then the sinks, then
 * shipper_run. Other processes wipe the settings.
 */
#ifndef FCGI_SHIPPER_SHIPPER_H
#define FCGI_SHIPPER_SHIPPER_H

#include <stddef.h>

#include "core/record/spool.h"
#include "core/telemetry/otlp_settings.h"
#include "core/telemetry/otlp_sink.h"
#include "core/telemetry/sink.h"
#include "fcgi/engine/engine.h"
#include "fcgi/engine/gauges.h"

enum { SHIPPER_SINKS_MAX = 4 }; /* one for each signal */

struct shipper {
    struct engine_process *process;
    const struct spool_plan *plan; /* of the program's spool */
    unsigned program;              /* METRIC_OF_ROUTER or METRIC_OF_ADMIN */
    struct sink sinks[SHIPPER_SINKS_MAX];
    size_t n_sinks;
    struct otlp_sinks otlp;
    struct gauges gauges;       /* of the thread that exports metrics */
    void (*on_tick)(void *ctx); /* every second, in no sink's thread; NULL: nothing */
    void *tick_ctx;
};

/* Reads the OTEL_* variables; what is not honoured is logged. Before fork; the settings live as long
 * as the process. ERR_SYSTEM, ERR_FORMAT. */
int shipper_read_settings(const char *program, struct otlp_settings *out, struct error *e);

/* A shipper without sinks. It stays where it is. */
void shipper_init(struct shipper *shipper, struct engine_process *process, unsigned program,
                  const struct spool_plan *plan, const struct otlp_settings *otlp);

/* Adds a sink, which it closes. */
void shipper_add(struct shipper *shipper, const struct sink *sink);

/* Adds the sink of one of OpenTelemetry's signals, if the settings want it. ERR_SYSTEM. */
int shipper_add_otlp(struct shipper *shipper, enum metric_signal signal, struct error *e);

/* Runs until engine_is_stopping(), and a little longer: each sink has one more chance, of at most
 * 3 s and the drain timeout. Closes the sinks. The exit code. */
int shipper_run(struct shipper *shipper);

#endif
