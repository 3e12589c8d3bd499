/*
 * The headers of a caller's trace: what is continued is in the header, and is continued
 * again from what is sent on; a state that goes on is a list of keys and values.
 *
 * Input: a traceparent up to a newline, a tracestate.
 */
#include "core/record/trace_context.h"
#include "tests/fuzz/fuzz.h"

static const struct trace_policy policy = { .is_tracecontext = true, .is_parent_based = true, .bound = 0 };

static void check_id(const char *id, size_t digits)
{
    fuzz_check(strlen(id) == digits && strspn(id, "0123456789abcdef") == digits && strspn(id, "0") < digits,
               "an id is hex of lower case, and not all zeroes");
}

static void check_sent_on(const struct trace_context *trace)
{
    char span_id[SPAN_ID_TEXT_BYTES], header[TRACEPARENT_TEXT_BYTES];
    struct trace_context next;

    trace_attempt_span_id(trace->span_id, 1, span_id);
    check_id(span_id, sizeof(span_id) - 1);
    trace_write_parent(trace, span_id, header);
    trace_begin(&policy, span_cstr(header), &next);
    fuzz_check(strcmp(next.trace_id, trace->trace_id) == 0 && strcmp(next.parent_span_id, span_id) == 0,
               "what is sent on is continued");
    fuzz_check(next.is_sampled == trace->is_sampled && next.is_random == trace->is_random,
               "flags go on as they came");
}

static void check_parent(struct span header)
{
    struct trace_context trace;

    trace_begin(&policy, header, &trace);
    check_id(trace.trace_id, sizeof(trace.trace_id) - 1);
    check_id(trace.span_id, sizeof(trace.span_id) - 1);
    check_sent_on(&trace);
    if (trace.parent_span_id[0] == '\0') {
        fuzz_check(!trace.is_sampled && !trace.is_random, "of a header that cannot be read nothing counts");
        return;
    }
    struct span text = span_trim(header);
    fuzz_check(text.len >= TRACEPARENT_TEXT_BYTES - 1 && memcmp(text.ptr + 3, trace.trace_id, 32) == 0 &&
                   memcmp(text.ptr + 36, trace.parent_span_id, 16) == 0,
               "ids are the header's");
    check_id(trace.parent_span_id, sizeof(trace.parent_span_id) - 1);
}

static void check_state(struct span state)
{
    size_t n_members = 0, n_commas = 0;

    if (!trace_is_state(state))
        return;
    for (size_t i = 0; i < state.len; i++) {
        unsigned char c = (unsigned char)state.ptr[i];
        fuzz_check(c < 0x7F && (c >= ' ' || c == '\t'), "a state is one line of ASCII");
        n_members += c == '=';
        n_commas += c == ',';
    }
    fuzz_check(n_members >= 1 && n_members <= TRACESTATE_MEMBERS_MAX && n_members <= n_commas + 1,
               "a state has members, each with one value");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);

    check_parent(fuzz_take_line(&in));
    check_state(fuzz_rest(&in));
    return 0;
}
