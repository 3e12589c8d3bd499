/*
 * Where a request stands in its trace: W3C Trace Context, levels 1 and 2, and the
 * samplers of OpenTelemetry. A caller's trace is continued; without one, or with one
 * that breaks a rule, a new trace begins.
 *
 * Ids are lower-case hex with a NUL behind it.
 */
#ifndef CORE_RECORD_TRACE_CONTEXT_H
#define CORE_RECORD_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/span.h"

enum {
    TRACE_ID_TEXT_BYTES = 33,
    SPAN_ID_TEXT_BYTES = 17,
    TRACEPARENT_TEXT_BYTES = 56,
    TRACESTATE_MEMBERS_MAX = 32,
};

struct trace_context {
    char trace_id[TRACE_ID_TEXT_BYTES];      /* "": not known */
    char span_id[SPAN_ID_TEXT_BYTES];        /* of the request's own span */
    char parent_span_id[SPAN_ID_TEXT_BYTES]; /* of the caller's; "": the trace begins here */
    bool is_sampled;
    bool is_random; /* level 2's flag, which goes on as it came */
};

/* What the process's environment says of traces. */
struct trace_policy {
    bool
        is_tracecontext; /* trace context is read of callers, and written for upstreams that are to have it */
    bool is_parent_based; /* a caller's decision counts, where there is one */
    uint64_t bound;       /* else: sampled below this, of 2^63 */
};

/*
 * Reads OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG and OTEL_PROPAGATORS; one that is
 * empty counts as not set. What cannot be honoured is reported, with a sentence that
 * holds nothing of the value, and the rest is as if it were not set. Before fork.
 */
void trace_policy_read(struct trace_policy *out, void (*report)(const char *variable, const char *problem));

/* A request begins, with a new span. `traceparent` is the caller's header, or empty. */
void trace_begin(const struct trace_policy *policy, struct span traceparent, struct trace_context *out);

/* Whether the header may go on: a list of at most TRACESTATE_MEMBERS_MAX well-formed
 * members, of which at least one, and no key twice. It means nothing beside a
 * traceparent that was not continued. */
bool trace_is_state(struct span tracestate);

/* The span of the n-th attempt, from 1 on, of the request whose own span this is. Whoever
 * has the event can tell it again: the first 8 bytes of SHA-256("SPAN_ID/N"), and
 * 0000000000000001 for a zero, which is no id. */
void trace_attempt_span_id(const char *span_id, unsigned n, char out[SPAN_ID_TEXT_BYTES]);

/* The traceparent of a request that this span sends. */
void trace_write_parent(const struct trace_context *trace, const char *span_id,
                        char out[TRACEPARENT_TEXT_BYTES]);

#endif
