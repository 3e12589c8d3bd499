/*
 * Log records of the events in a spool that are no requests: lines with a member `event`,
 * which becomes the record's event_name, and `time` (µs since 1970). Every other member with a
 * text, a whole number or a boolean becomes an attribute of its name; `v` does not.
 */
#ifndef CORE_TELEMETRY_OTLP_LOG_H
#define CORE_TELEMETRY_OTLP_LOG_H

#include "core/base/arena.h"
#include "core/base/span.h"
#include "core/telemetry/otlp.pb-c.h"
#include "core/telemetry/otlp_settings.h"

/* The request that exports them, in the arena; NULL: there is none among these lines. */
Otlp__LogsRequest *otlp_logs_request(const struct otlp_settings *settings, const char *instance,
                                     const struct span *lines, size_t n, struct arena *arena);

#endif
