/*
 * The metric cells as OTLP's metrics: every series there is. Values are cumulative since the cells
 * began, or deltas (OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE).
 *
 * Deltas count from the last export that arrived, which this process remembers: a value is
 * exported once. When the process begins, so does an interval: what was counted between
 * the last export of a process that was killed and that moment is in no delta. Series that did
 * not move are left out of an interval.
 */
#ifndef CORE_TELEMETRY_OTLP_METRIC_H
#define CORE_TELEMETRY_OTLP_METRIC_H

#include "core/base/arena.h"
#include "core/telemetry/cells.h"
#include "core/telemetry/otlp.pb-c.h"
#include "core/telemetry/otlp_settings.h"

struct otlp_meter;

/* All three outlive the meter. */
struct otlp_meter *otlp_meter_new(const struct otlp_settings *settings, const struct telemetry *telemetry,
                                  const char *instance);
void otlp_meter_free(struct otlp_meter *meter);

/* The request that exports all values of now, in the arena; *n_points: of it. NULL: nothing moved. */
Otlp__MetricsRequest *otlp_metrics_request(struct otlp_meter *meter, const struct series_facts *facts,
                                           struct arena *arena, size_t *n_points);

/* The last request has arrived, or was refused for good: the next interval begins where it ended. */
void otlp_meter_advance(struct otlp_meter *meter);

#endif
