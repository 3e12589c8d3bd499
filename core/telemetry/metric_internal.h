/* The registry's data, private to core/telemetry. */
#ifndef CORE_TELEMETRY_METRIC_INTERNAL_H
#define CORE_TELEMETRY_METRIC_INTERNAL_H

#include "core/telemetry/metric.h"

extern const struct metric metric_rows[METRIC_COUNT];
extern const struct closed_list metric_statuses, metric_reasons, metric_meters;

#endif
