/*
 * The cells as text for Prometheus: exposition format 0.0.4, or OpenMetrics 1.0.
 *
 * Names are OpenTelemetry's as its compatibility page maps them: other characters
 * become "_", the unit's word is appended, and "_total" to a counter.
 */
#ifndef CORE_TELEMETRY_PROMETHEUS_H
#define CORE_TELEMETRY_PROMETHEUS_H

#include "core/base/buf.h"
#include "core/telemetry/cells.h"

enum prometheus_format { PROMETHEUS_TEXT, PROMETHEUS_OPENMETRICS };

/* Which one an Accept header asks for; NULL: there is none. */
enum prometheus_format prometheus_format(const char *accept);

const char *prometheus_media_type(enum prometheus_format format);

/* Writes all series. One that does not fit into `out` leaves it overflowed. */
void prometheus_write(const struct telemetry *t, const struct series_facts *facts,
                      enum prometheus_format format, struct buf *out);

/* A metric's name there, without "_total" and the like: at most METRIC_NAME_BYTES with its NUL. */
enum { METRIC_NAME_BYTES = 128 };
void prometheus_name(const struct metric *metric, char out[METRIC_NAME_BYTES]);

#endif
