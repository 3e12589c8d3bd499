/*
 * What the OTEL_* variables of the environment say about exporting over OTLP/HTTP:
 * one table names every variable of OpenTelemetry's specification that concerns
 * traces, metrics and logs, and says what becomes of it.
 *
 * We are a server and no SDK: nothing is exported unless an endpoint is set, or an
 * exporter is asked for by name. A value that cannot be honoured is reported, by the
 * variable's name only, and the rest is as if it were not set; so is every OTEL_*
 * variable that is not in the table.
 */
#ifndef CORE_TELEMETRY_OTLP_SETTINGS_H
#define CORE_TELEMETRY_OTLP_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/telemetry/metric.h"

/* traces, metrics and logs: those of metric_signal that OpenTelemetry knows */
enum { OTLP_SIGNALS = METRIC_SIGNAL_LOGS + 1 };

enum { OTLP_NO_LIMIT = -1 };

/* Where a signal goes, and how. */
struct otlp_receiver {
    bool is_on;
    const char *url;         /* whole; may hold credentials: not for logs */
    const char *place;       /* the same without credentials and query */
    const char *certificate; /* a file of authorities, in PEM; NULL: the system's */
    const char *client_certificate, *client_key;
    struct span headers; /* secret: "name=value,…", checked; empty: none */
    bool has_gzip, is_json;
    int64_t timeout_ms; /* of one export */
};

struct otlp_attribute {
    const char *name, *value;
};

struct otlp_settings {
    struct arena *arena; /* in which all of it lies */
    struct otlp_receiver receivers[OTLP_SIGNALS];
    const struct otlp_attribute *resource; /* the service's name among them */
    size_t n_resource;
    int64_t span_delay_ms, span_batch;
    int64_t log_delay_ms, log_batch;
    int64_t metric_interval_ms;
    bool is_delta;                              /* counters and histograms */
    int64_t span_value_limit, span_count_limit; /* characters of an attribute's text, attributes */
    int64_t log_value_limit, log_count_limit;
};

/*
 * Reads the environment. Before fork, once. The headers' and addresses' variables are overwritten and
 * removed (core/base/environment.h: NAME_FILE works for them too). Everything lies in the
 * arena. `report` hears of each variable that is not honoured, or not as it is written.
 * ERR_SYSTEM, ERR_FORMAT: a secret cannot be taken.
 */
int otlp_settings_read(const char *program, struct arena *arena,
                       void (*report)(const char *variable, const char *problem), struct otlp_settings *out,
                       struct error *e);

/* Overwrites the secrets, in processes that do not export. */
void otlp_settings_wipe(struct otlp_settings *settings);

/* One header of the list, percent-decoded into the arena; false at the end. */
bool otlp_next_header(struct span *rest, struct arena *arena, const char **name, const char **value);

/* The table, for the manual's test: the name at `i`, and whether it is honoured; NULL behind
 * the last one. */
const char *otlp_variable(size_t i, bool *is_honoured);

#endif
