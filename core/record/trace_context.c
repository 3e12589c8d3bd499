#include "core/record/trace_context.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/ids.h"
#include "core/crypto/digest.h"

/* VERSION-TRACE_ID-PARENT_ID-FLAGS */
enum {
    TRACE_ID_AT = 3,
    PARENT_ID_AT = TRACE_ID_AT + TRACE_ID_TEXT_BYTES,
    FLAGS_AT = PARENT_ID_AT + SPAN_ID_TEXT_BYTES,
    PARENT_LEN = TRACEPARENT_TEXT_BYTES - 1,
};

enum { FLAG_SAMPLED = 1, FLAG_RANDOM = 2 };

#define ALL_IDS (UINT64_C(1) << 63)

/* --- the environment --- */

static const struct sampler {
    const char *name;
    bool is_parent_based;
    bool has_ratio; /* in OTEL_TRACES_SAMPLER_ARG */
    uint64_t bound;
} samplers[] = {
    { "parentbased_always_on", true, false, ALL_IDS }, /* the default */
    { "parentbased_always_off", true, false, 0 },
    { "parentbased_traceidratio", true, true, ALL_IDS },
    { "always_on", false, false, ALL_IDS },
    { "always_off", false, false, 0 },
    { "traceidratio", false, true, ALL_IDS },
};

/* Empty: not set. */
static struct span variable(const char *name)
{
    return span_trim(span_cstr(getenv(name)));
}

static void read_ratio(struct trace_policy *out, void (*report)(const char *variable, const char *problem))
{
    struct span text = variable("OTEL_TRACES_SAMPLER_ARG");
    char *end;

    if (text.len == 0)
        return;
    double ratio = strtod(text.ptr, &end);
    if (end == text.ptr + text.len && ratio >= 0 && ratio <= 1)
        out->bound = (uint64_t)(ratio * (double)ALL_IDS);
    else
        report("OTEL_TRACES_SAMPLER_ARG", "it is no number from 0 to 1; all new traces are sampled");
}

static void read_sampler(struct trace_policy *out, void (*report)(const char *variable, const char *problem))
{
    struct span name = variable("OTEL_TRACES_SAMPLER");
    const struct sampler *sampler = NULL;

    for (size_t i = 0; i < sizeof(samplers) / sizeof(samplers[0]) && sampler == NULL; i++)
        if (span_is_nocase(name, samplers[i].name))
            sampler = &samplers[i];
    if (sampler == NULL) {
        if (name.len > 0)
            report("OTEL_TRACES_SAMPLER", "there is no such sampler here; parentbased_always_on is used");
        sampler = &samplers[0];
    }
    out->is_parent_based = sampler->is_parent_based;
    out->bound = sampler->bound;
    if (sampler->has_ratio)
        read_ratio(out, report);
}

/* Takes the text up to the next comma from the front of *list. */
static struct span take_member(struct span *list)
{
    const char *comma = list->len == 0 ? NULL : memchr(list->ptr, ',', list->len);
    size_t len = comma == NULL ? list->len : (size_t)(comma - list->ptr);
    struct span member = span_of(list->ptr, len);
    size_t taken = len + (comma != NULL);
    *list = span_of(list->ptr + taken, list->len - taken);
    return span_trim(member);
}

static void read_propagators(struct trace_policy *out,
                             void (*report)(const char *variable, const char *problem))
{
    struct span list = variable("OTEL_PROPAGATORS");
    bool has_other = false, has_baggage = false;

    out->is_tracecontext = list.len == 0;
    while (list.len > 0) {
        struct span name = take_member(&list);
        if (span_is_nocase(name, "tracecontext"))
            out->is_tracecontext = true;
        else if (span_is_nocase(name, "baggage"))
            has_baggage = true;
        else if (name.len > 0 && !span_is_nocase(name, "none"))
            has_other = true;
    }
    if (has_baggage)
        report("OTEL_PROPAGATORS", "baggage is neither read nor passed on");
    if (has_other)
        report("OTEL_PROPAGATORS", "only tracecontext and none are known; what else it names is ignored");
}

void trace_policy_read(struct trace_policy *out, void (*report)(const char *variable, const char *problem))
{
    read_sampler(out, report);
    read_propagators(out, report);
}

/* --- a caller's traceparent --- */

/* Its value, or -1: upper case is refused. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_hex(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (hex_value(text[i]) < 0)
            return false;
    return true;
}

/* An id of zeros is none. */
static bool is_id(const char *text, size_t len)
{
    return is_hex(text, len) && strspn(text, "0") < len;
}

/* A version that is not known yet is read as 00, and may have more behind it. */
static bool is_parent(struct span text)
{
    const char *p = text.ptr;

    if (text.len < PARENT_LEN || p[TRACE_ID_AT - 1] != '-' || p[PARENT_ID_AT - 1] != '-' ||
        p[FLAGS_AT - 1] != '-' || !is_hex(p, 2) || !is_hex(p + FLAGS_AT, 2) || memcmp(p, "ff", 2) == 0)
        return false;
    if (text.len > PARENT_LEN && (memcmp(p, "00", 2) == 0 || p[PARENT_LEN] != '-'))
        return false;
    return is_id(p + TRACE_ID_AT, TRACE_ID_TEXT_BYTES - 1) && is_id(p + PARENT_ID_AT, SPAN_ID_TEXT_BYTES - 1);
}

static void copy_id(char *out, const char *from, size_t size)
{
    memcpy(out, from, size - 1);
    out[size - 1] = '\0';
}

/* Never zero. */
static void new_id(char *out, size_t size)
{
    char random[REQUEST_ID_TEXT_BYTES];

    do {
        ids_request_id(random);
        copy_id(out, random, size);
    } while (!is_id(out, size - 1));
}

/* By the right half of the trace id, as the SDKs of Go and Python decide: services that
 * sample at one ratio keep the same traces. */
static bool is_in_ratio(const char *trace_id, uint64_t bound)
{
    return strtoull(trace_id + TRACE_ID_TEXT_BYTES / 2, NULL, 16) >> 1 < bound;
}

void trace_begin(const struct trace_policy *policy, struct span traceparent, struct trace_context *out)
{
    struct span parent = span_trim(traceparent);
    bool is_continued = policy->is_tracecontext && is_parent(parent);

    *out = (struct trace_context){ .is_sampled = false };
    new_id(out->span_id, sizeof(out->span_id));
    if (is_continued) {
        int flags = hex_value(parent.ptr[FLAGS_AT + 1]);
        copy_id(out->trace_id, parent.ptr + TRACE_ID_AT, sizeof(out->trace_id));
        copy_id(out->parent_span_id, parent.ptr + PARENT_ID_AT, sizeof(out->parent_span_id));
        out->is_sampled = (flags & FLAG_SAMPLED) != 0;
        out->is_random = (flags & FLAG_RANDOM) != 0;
    } else {
        /* Its id is random, but to say so is optional, and receivers of level 1 refuse the flag. */
        new_id(out->trace_id, sizeof(out->trace_id));
    }
    if (!is_continued || !policy->is_parent_based)
        out->is_sampled = is_in_ratio(out->trace_id, policy->bound);
}

/* --- tracestate --- */

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c != '\0' && strchr("_-*/@", c) != NULL);
}

/* KEY=VALUE, each of at most 256 characters: the grammar of level 2, which holds that of
 * level 1. */
static bool read_state_member(struct span member, struct span *key)
{
    const char *equals = member.len == 0 ? NULL : memchr(member.ptr, '=', member.len);
    if (equals == NULL)
        return false;
    *key = span_of(member.ptr, (size_t)(equals - member.ptr));
    struct span value = span_of(equals + 1, member.len - key->len - 1);
    if (key->len == 0 || key->len > 256 || value.len == 0 || value.len > 256 ||
        strchr("_-*/@", key->ptr[0]) != NULL)
        return false;
    for (size_t i = 0; i < key->len; i++)
        if (!is_key_char(key->ptr[i]))
            return false;
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] < ' ' || value.ptr[i] > '~' || value.ptr[i] == '=')
            return false;
    return true;
}

bool trace_is_state(struct span tracestate)
{
    struct span keys[TRACESTATE_MEMBERS_MAX], list = tracestate;
    size_t n = 0;

    if (list.len > 0 &&
        (memchr(list.ptr, '\r', list.len) != NULL || memchr(list.ptr, '\n', list.len) != NULL))
        return false; /* it would end the header, and begin another */
    while (list.len > 0) {
        struct span member = take_member(&list);
        if (member.len == 0)
            continue;
        if (n == TRACESTATE_MEMBERS_MAX || !read_state_member(member, &keys[n]))
            return false;
        for (size_t i = 0; i < n; i++)
            if (span_eq(keys[i], keys[n]))
                return false;
        n++;
    }
    return n > 0;
}

/* --- what goes on --- */

void trace_attempt_span_id(const char *span_id, unsigned n, char out[SPAN_ID_TEXT_BYTES])
{
    char text[64];

    snprintf(text, sizeof(text), "%s/%u", span_id, n);
    fingerprint(span_cstr(text), SPAN_ID_TEXT_BYTES - 1, out);
    if (!is_id(out, SPAN_ID_TEXT_BYTES - 1))
        out[SPAN_ID_TEXT_BYTES - 2] = '1';
}

void trace_write_parent(const struct trace_context *trace, const char *span_id,
                        char out[TRACEPARENT_TEXT_BYTES])
{
    int flags = (trace->is_sampled ? FLAG_SAMPLED : 0) | (trace->is_random ? FLAG_RANDOM : 0);
    snprintf(out, TRACEPARENT_TEXT_BYTES, "00-%s-%s-%02x", trace->trace_id, span_id, (unsigned)flags);
}
