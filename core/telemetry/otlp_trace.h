/*
 * Spans of a request's event: a SERVER span for the request, and below it a CLIENT span
 * for each attempt, with the names of the semantic conventions 1.41.1 (HTTP, GenAI) and the
 * gateway's own, airi.gen_ai.gateway.*. A request whose worker died has its SERVER span,
 * with an error.
 */
#ifndef CORE_TELEMETRY_OTLP_TRACE_H
#define CORE_TELEMETRY_OTLP_TRACE_H

#include "core/base/arena.h"
#include "core/base/span.h"
#include "core/telemetry/otlp.pb-c.h"
#include "core/telemetry/otlp_settings.h"

/* The request that exports these lines' spans, in the arena; NULL: none of them is a request's
 * that was sampled. */
Otlp__TraceRequest *otlp_trace_request(const struct otlp_settings *settings, const char *instance,
                                       const struct span *lines, size_t n, struct arena *arena);

#endif
