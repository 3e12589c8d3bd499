/* How the OTEL_* variables are read: otlp_variables.c has the table, otlp_pairs.c the lists in their
 * values, otlp_settings.c puts together what belongs together. */
#ifndef CORE_TELEMETRY_OTLP_SETTINGS_INTERNAL_H
#define CORE_TELEMETRY_OTLP_SETTINGS_INTERNAL_H

#include "core/telemetry/otlp_settings.h"

#define OTLP_EXPORTER "OTEL_EXPORTER_OTLP_"

/* What is read, before what belongs together is put together. */
struct otlp_values {
    bool is_disabled;
    const char *exporters[OTLP_SIGNALS];
    const char *service_name, *resource;
    const char *base; /* the address of all signals, or NULL; that of a signal without one of its own */
    struct otlp_receiver receivers[OTLP_SIGNALS];
    int64_t attribute_value_limit, attribute_count_limit;
    int64_t span_timeout_ms, log_timeout_ms, metric_timeout_ms;
    const char *temporality;
    struct otlp_settings settings;
};

struct otlp_reading {
    struct arena *arena;
    void (*report)(const char *variable, const char *problem);
    struct otlp_values *values;
    struct error *e;
};

/* Reads all of the table's variables into reading->values, which hold the defaults; reports those that
 * are not honoured, and those that are not known. ERR_SYSTEM, ERR_FORMAT: a secret cannot be taken. */
int otlp_read_variables(const struct otlp_reading *reading);

/* Cuts the next "name=value" off a list, trimmed; empty pieces are skipped. False: the list is at its
 * end (*rest is empty), or breaks its form. */
bool otlp_next_pair(struct span *rest, struct span *name, struct span *value);

/* NULL: a broken escape, or a control character. */
const char *otlp_percent_decode(struct span text, struct arena *arena);

#endif
