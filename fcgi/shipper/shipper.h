/*
 * The telemetry shipper: an auxiliary process of a program. It runs the program's sinks, each in
 * a thread, removes the spool's segments that all of them have passed, and measures the spool.
 */
#ifndef FCGI_SHIPPER_SHIPPER_H
#define FCGI_SHIPPER_SHIPPER_H

#include <stddef.h>

#include "core/record/spool.h"
#include "core/telemetry/otlp_settings.h"
#include "core/telemetry/sink.h"
#include "fcgi/engine/engine.h"

enum { SHIPPER_SINKS_MAX = 8 };

struct shipper {
    struct spool_plan plan; /* of the program's spool; `mine` is not used */
    struct sink sinks[SHIPPER_SINKS_MAX];
    size_t n_sinks;
};

/* Reads the OTEL_* variables; what is not honoured is logged. Before fork; the settings live as long
 * as the process. ERR_SYSTEM, ERR_FORMAT. */
int shipper_read_settings(const char *program, struct otlp_settings *out, struct error *e);

/* Runs until engine_is_stopping(), and a little longer: each sink has one more chance, of at most
 * 3 s and the drain timeout. Closes the sinks. The exit code. */
int shipper_run(struct engine_process *process, struct shipper *shipper);

#endif
