/* Trace context: what of a caller's header counts, which traces are sampled, and what goes on. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/ids.h"
#include "core/record/trace_context.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
#define HEADER "00-" TRACE "-" PARENT "-01"
#define TEN(text) text text text text text text text text text text
#define EIGHT(x) x "a=1," x "b=1," x "c=1," x "d=1," x "e=1," x "f=1," x "g=1," x "h=1"
#define THIRTY_TWO EIGHT("a") "," EIGHT("b") "," EIGHT("c") "," EIGHT("d")

static char reported[512];

static void report(const char *variable, const char *problem)
{
    size_t len = strlen(reported);
    snprintf(reported + len, sizeof(reported) - len, "%s: %s\n", variable, problem);
}

/* The policy of these variables; NULL: not set. What it has to say is in `reported`. */
static struct trace_policy policy_of(const char *sampler, const char *ratio, const char *propagators)
{
    const struct {
        const char *name, *value;
    } variables[] = {
        { "OTEL_TRACES_SAMPLER", sampler },
        { "OTEL_TRACES_SAMPLER_ARG", ratio },
        { "OTEL_PROPAGATORS", propagators },
    };
    struct trace_policy policy;

    for (size_t i = 0; i < COUNT(variables); i++) {
        if (variables[i].value == NULL)
            unsetenv(variables[i].name);
        else
            setenv(variables[i].name, variables[i].value, 1);
    }
    reported[0] = '\0';
    trace_policy_read(&policy, report);
    return policy;
}

static struct trace_context begin(const struct trace_policy *policy, const char *traceparent)
{
    struct trace_context trace;
    trace_begin(policy, span_cstr(traceparent), &trace);
    return trace;
}

static void expect_id(const char *id, size_t digits)
{
    ck_assert_msg(strlen(id) == digits && strspn(id, "0123456789abcdef") == digits &&
                      strspn(id, "0") < digits,
                  "\"%s\" is no id of %zu digits", id, digits);
}

/* --- a caller's header --- */

static const struct {
    const char *header;
    bool is_sampled, is_random;
} good[] = {
    { HEADER, true, false },
    { "00-" TRACE "-" PARENT "-00", false, false },
    { "00-" TRACE "-" PARENT "-02", false, true },
    { "00-" TRACE "-" PARENT "-03", true, true },
    { "00-" TRACE "-" PARENT "-ff", true, true },
    { "00-" TRACE "-" PARENT "-f8", false, false },
    { " \t" HEADER "  ", true, false },
    /* versions that are not known yet */
    { "01-" TRACE "-" PARENT "-01", true, false },
    { "cc-" TRACE "-" PARENT "-00", false, false },
    { "fe-" TRACE "-" PARENT "-01-what-the-future-will-be-like", true, false },
    { "01-" TRACE "-" PARENT "-01-", true, false },
};

START_TEST(a_callers_trace_is_continued)
{
    const struct trace_policy policy = policy_of(NULL, NULL, NULL);
    struct trace_context trace = begin(&policy, good[_i].header);
    ck_assert_str_eq(trace.trace_id, TRACE);
    ck_assert_str_eq(trace.parent_span_id, PARENT);
    expect_id(trace.span_id, 16);
    ck_assert_str_ne(trace.span_id, PARENT);
    ck_assert_msg(trace.is_sampled == good[_i].is_sampled && trace.is_random == good[_i].is_random,
                  "%s: sampled %d random %d", good[_i].header, trace.is_sampled, trace.is_random);
}
END_TEST

static const char *const bad[] = {
    NULL,
    "",
    "x",
    "00",
    /* length */
    "00-" TRACE "-" PARENT "-0",
    HEADER "1",
    HEADER "-",
    HEADER "-01",
    "00-" TRACE "-" PARENT,
    "00-" TRACE "-" PARENT "-",
    "00-4bf92f3577b34da6a3ce929d0e0e473-" PARENT "-01",
    "00-4bf92f3577b34da6a3ce929d0e0e47360-" PARENT "-01",
    "00-" TRACE "-00f067aa0ba902b-01",
    "00-" TRACE "-00f067aa0ba902b70-01",
    "0-" TRACE "-" PARENT "-01",
    "000-" TRACE "-" PARENT "-01",
    "01-" TRACE "-" PARENT "-01x",
    "01-" TRACE "-" PARENT "-011",
    /* versions */
    "ff-" TRACE "-" PARENT "-01",
    "FF-" TRACE "-" PARENT "-01",
    "0A-" TRACE "-" PARENT "-01",
    "zz-" TRACE "-" PARENT "-01",
    "..-" TRACE "-" PARENT "-01",
    /* zeroes */
    "00-00000000000000000000000000000000-" PARENT "-01",
    "00-" TRACE "-0000000000000000-01",
    /* no hex of lower case */
    "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
    "00-" TRACE "-00F067AA0BA902B7-01",
    "00-" TRACE "-" PARENT "-0A",
    "00-" TRACE "-" PARENT "-0g",
    "00-4bf92f3577b34da6a3ce929d0e0e473g-" PARENT "-01",
    "00-" TRACE "-00f067aa0ba902b.-01",
    /* other marks */
    "00_" TRACE "-" PARENT "-01",
    "00-" TRACE "_" PARENT "-01",
    "00-" TRACE "-" PARENT "_01",
    "00 " TRACE " " PARENT " 01",
    /* two headers, as a web server joins them */
    HEADER "," HEADER,
    HEADER ", " HEADER,
};

START_TEST(a_header_that_breaks_a_rule_is_as_good_as_none)
{
    const struct trace_policy policy = policy_of(NULL, NULL, NULL);
    struct trace_context trace = begin(&policy, bad[_i]);
    expect_id(trace.trace_id, 32);
    expect_id(trace.span_id, 16);
    ck_assert_msg(strcmp(trace.trace_id, TRACE) != 0, "%s was continued", bad[_i]);
    ck_assert_str_eq(trace.parent_span_id, "");
    ck_assert(trace.is_sampled && !trace.is_random);
}
END_TEST

START_TEST(no_two_requests_have_the_same_ids)
{
    const struct trace_policy policy = policy_of(NULL, NULL, NULL);
    struct trace_context one = begin(&policy, HEADER), two = begin(&policy, HEADER);
    struct trace_context three = begin(&policy, NULL), four = begin(&policy, NULL);
    ck_assert_str_ne(one.span_id, two.span_id);
    ck_assert_str_ne(three.span_id, four.span_id);
    ck_assert_str_ne(three.trace_id, four.trace_id);
}
END_TEST

/* --- samplers --- */

#define SAMPLED "00-" TRACE "-" PARENT "-01"
#define UNSAMPLED "00-" TRACE "-" PARENT "-00"

static const struct {
    const char *sampler, *ratio;
    bool root, sampled_parent, unsampled_parent; /* what becomes of each */
    const char *reported;
} samplers[] = {
    { NULL, NULL, true, true, false, "" },
    { "", "", true, true, false, "" },
    { "always_on", NULL, true, true, true, "" },
    { "always_off", NULL, false, false, false, "" },
    { "traceidratio", "0", false, false, false, "" },
    { "traceidratio", "1", true, true, true, "" },
    { "traceidratio", " 1.0 ", true, true, true, "" },
    { "traceidratio", NULL, true, true, true, "" },
    { "parentbased_always_on", NULL, true, true, false, "" },
    { "parentbased_always_off", NULL, false, true, false, "" },
    { "parentbased_traceidratio", "0", false, true, false, "" },
    { "parentbased_traceidratio", "1", true, true, false, "" },
    { "Parentbased_Always_Off", NULL, false, true, false, "" },
    /* a ratio beside a sampler that has none says nothing */
    { "always_off", "1", false, false, false, "" },
    { "always_on", "nonsense", true, true, true, "" },
    /* what is not known, or cannot be, is as if it were not set */
    { "xray", NULL, true, true, false, "OTEL_TRACES_SAMPLER:" },
    { "jaeger_remote", "0", true, true, false, "OTEL_TRACES_SAMPLER:" },
    { "always", NULL, true, true, false, "OTEL_TRACES_SAMPLER:" },
    { "traceidratio", "1.1", true, true, true, "OTEL_TRACES_SAMPLER_ARG:" },
    { "traceidratio", "-0.1", true, true, true, "OTEL_TRACES_SAMPLER_ARG:" },
    { "traceidratio", "nan", true, true, true, "OTEL_TRACES_SAMPLER_ARG:" },
    { "traceidratio", "half", true, true, true, "OTEL_TRACES_SAMPLER_ARG:" },
    { "traceidratio", "0.5%", true, true, true, "OTEL_TRACES_SAMPLER_ARG:" },
    { "traceidratio", "0,5", true, true, true, "OTEL_TRACES_SAMPLER_ARG:" },
    { "parentbased_traceidratio", "2", true, true, false, "OTEL_TRACES_SAMPLER_ARG:" },
};

START_TEST(a_sampler_decides_over_roots_and_what_a_callers_decision_counts)
{
    const struct trace_policy policy = policy_of(samplers[_i].sampler, samplers[_i].ratio, NULL);
    bool root = begin(&policy, NULL).is_sampled, sampled = begin(&policy, SAMPLED).is_sampled,
         unsampled = begin(&policy, UNSAMPLED).is_sampled;
    ck_assert_msg(root == samplers[_i].root && sampled == samplers[_i].sampled_parent &&
                      unsampled == samplers[_i].unsampled_parent,
                  "%s %s: a root %d, of a sampled parent %d, of another %d", samplers[_i].sampler,
                  samplers[_i].ratio, root, sampled, unsampled);
    if (samplers[_i].reported[0] == '\0')
        ck_assert_str_eq(reported, "");
    else
        ck_assert_msg(strncmp(reported, samplers[_i].reported, strlen(samplers[_i].reported)) == 0,
                      "%s %s: %s", samplers[_i].sampler, samplers[_i].ratio, reported);
}
END_TEST

static const char *const ratios[] = { "0.001", "0.1", "0.25", "0.5", "0.9" };

/* Within five deviations of a binomial's: once in a million runs it is not. */
START_TEST(a_ratio_is_kept_over_many_traces)
{
    enum { TRACES = 20000 };
    const struct trace_policy policy = policy_of("traceidratio", ratios[_i], NULL);
    double p = atof(ratios[_i]), expected = p * TRACES, variance = expected * (1 - p);
    int n = 0;
    for (int i = 0; i < TRACES; i++)
        n += begin(&policy, NULL).is_sampled;
    ck_assert_msg((n - expected) * (n - expected) <= 25 * variance, "%s of %d: %d", ratios[_i], TRACES, n);
}
END_TEST

START_TEST(the_same_traces_are_sampled_everywhere_and_at_a_higher_ratio_too)
{
    const struct trace_policy low = policy_of("traceidratio", "0.2", NULL),
                              high = policy_of("traceidratio", "0.7", NULL);
    for (int i = 0; i < 1000; i++) {
        char id[REQUEST_ID_TEXT_BYTES], header[80];
        ids_request_id(id);
        snprintf(header, sizeof(header), "00-%s-" PARENT "-00", id);
        bool is_low = begin(&low, header).is_sampled;
        ck_assert_msg(is_low == begin(&low, header).is_sampled, "%s is sampled at times", id);
        ck_assert_msg(!is_low || begin(&high, header).is_sampled, "%s is sampled at 0.2, but not at 0.7", id);
    }
}
END_TEST

START_TEST(the_right_half_of_the_trace_id_decides)
{
    const struct trace_policy half = policy_of("traceidratio", "0.5", NULL);
    ck_assert(begin(&half, "00-ffffffffffffffff7fffffffffffffff-" PARENT "-00").is_sampled);
    ck_assert(!begin(&half, "00-00000000000000008000000000000000-" PARENT "-00").is_sampled);
}
END_TEST

/* --- propagators --- */

static const struct {
    const char *propagators;
    bool is_tracecontext;
    const char *reported;
} propagators[] = {
    { NULL, true, "" },
    { "", true, "" },
    { "tracecontext", true, "" },
    { " TraceContext ", true, "" },
    { "tracecontext,tracecontext", true, "" },
    { "none", false, "" },
    { "tracecontext,baggage", true, "OTEL_PROPAGATORS: baggage is neither read nor passed on\n" },
    { "baggage", false, "OTEL_PROPAGATORS: baggage is neither read nor passed on\n" },
    { "b3", false,
      "OTEL_PROPAGATORS: only tracecontext and none are known; what else it names is ignored\n" },
    { "b3multi,tracecontext,jaeger", true,
      "OTEL_PROPAGATORS: only tracecontext and none are known; what else it names is ignored\n" },
    { ",", false, "" },
};

START_TEST(a_propagator_that_is_not_named_is_not_used)
{
    const struct trace_policy policy = policy_of(NULL, NULL, propagators[_i].propagators);
    ck_assert_int_eq(policy.is_tracecontext, propagators[_i].is_tracecontext);
    ck_assert_str_eq(reported, propagators[_i].reported);
    struct trace_context trace = begin(&policy, HEADER);
    ck_assert_int_eq(strcmp(trace.trace_id, TRACE) == 0, propagators[_i].is_tracecontext);
}
END_TEST

/* --- tracestate --- */

static const char *const states[] = {
    "a=1",
    "congo=t61rcWkgMzE",
    "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
    " a=1 \t,\t b=2 ",
    "a=1,,b=2,",
    "tenant@system=1",
    "0a@b=1",
    "a_-*/0=!\"#$%&'()*+-./:;<>?@[]^_`{|}~",
    "a=x y",
    "a=" TEN("0123456789") TEN("0123456789"),
    THIRTY_TWO,
};

START_TEST(a_state_of_well_formed_members_goes_on)
{
    ck_assert_msg(trace_is_state(span_cstr(states[_i])), "%s", states[_i]);
}
END_TEST

static const char *const no_states[] = {
    NULL,
    "",
    " ",
    ",",
    "a",
    "a=",
    "=1",
    "a=1=2",
    "A=1",
    "a =1",
    "@a=1",
    "_a=1",
    "a.b=1",
    "a=\xC3\xA4",
    "a=\t1\x01",
    /* what would end a header, wherever it stands */
    "a=1\r\n",
    "\na=1",
    "a=1,\r\nb=2",
    "a=1\n,b=2",
    "a=\r1",
    "a=1,b",
    "a=1,b=2,a=3",
    "a=" TEN("0123456789") TEN("0123456789") TEN("012345"),
    TEN("0123456789") TEN("0123456789") TEN("012345") "=1",
    THIRTY_TWO ",z9=1",
};

START_TEST(a_state_that_breaks_a_rule_does_not)
{
    ck_assert_msg(!trace_is_state(span_cstr(no_states[_i])), "%s", no_states[_i]);
}
END_TEST

/* --- what goes on --- */

START_TEST(an_attempts_span_follows_from_its_request_and_its_number)
{
    char first[SPAN_ID_TEXT_BYTES], again[SPAN_ID_TEXT_BYTES], second[SPAN_ID_TEXT_BYTES],
        other[SPAN_ID_TEXT_BYTES];
    trace_attempt_span_id(PARENT, 1, first);
    trace_attempt_span_id(PARENT, 1, again);
    trace_attempt_span_id(PARENT, 2, second);
    trace_attempt_span_id("00f067aa0ba902b8", 1, other);
    expect_id(first, 16);
    ck_assert_str_eq(first, "b0e325e4093e1fba"); /* printf %s 00f067aa0ba902b7/1 | sha256sum */
    ck_assert_str_eq(first, again);
    ck_assert_str_ne(first, second);
    ck_assert_str_ne(first, other);
}
END_TEST

START_TEST(what_is_sent_on_is_a_header_that_is_continued)
{
    static const char *const headers[] = { SAMPLED, UNSAMPLED, "00-" TRACE "-" PARENT "-02",
                                           "00-" TRACE "-" PARENT "-03" };
    const struct trace_policy policy = policy_of(NULL, NULL, NULL);
    for (size_t i = 0; i < COUNT(headers); i++) {
        struct trace_context trace = begin(&policy, headers[i]);
        char sent[TRACEPARENT_TEXT_BYTES], span_id[SPAN_ID_TEXT_BYTES];
        trace_attempt_span_id(trace.span_id, 1, span_id);
        trace_write_parent(&trace, span_id, sent);
        ck_assert_uint_eq(strlen(sent), TRACEPARENT_TEXT_BYTES - 1);
        struct trace_context next = begin(&policy, sent);
        ck_assert_str_eq(next.trace_id, TRACE);
        ck_assert_str_eq(next.parent_span_id, span_id);
        ck_assert_msg(next.is_sampled == trace.is_sampled && next.is_random == trace.is_random, "%s: %s",
                      headers[i], sent);
    }
}
END_TEST

START_TEST(a_trace_that_begins_here_has_only_the_flag_that_every_receiver_knows)
{
    const struct trace_policy policy = policy_of(NULL, NULL, NULL);
    struct trace_context trace = begin(&policy, NULL);
    char sent[TRACEPARENT_TEXT_BYTES];
    trace_write_parent(&trace, trace.span_id, sent);
    ck_assert_str_eq(sent + strlen(sent) - 3, "-01");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_context");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, a_callers_trace_is_continued, 0, (int)COUNT(good));
    tcase_add_loop_test(tcase, a_header_that_breaks_a_rule_is_as_good_as_none, 0, (int)COUNT(bad));
    tcase_add_test(tcase, no_two_requests_have_the_same_ids);
    tcase_add_loop_test(tcase, a_sampler_decides_over_roots_and_what_a_callers_decision_counts, 0,
                        (int)COUNT(samplers));
    tcase_add_loop_test(tcase, a_ratio_is_kept_over_many_traces, 0, (int)COUNT(ratios));
    tcase_add_test(tcase, the_same_traces_are_sampled_everywhere_and_at_a_higher_ratio_too);
    tcase_add_test(tcase, the_right_half_of_the_trace_id_decides);
    tcase_add_loop_test(tcase, a_propagator_that_is_not_named_is_not_used, 0, (int)COUNT(propagators));
    tcase_add_loop_test(tcase, a_state_of_well_formed_members_goes_on, 0, (int)COUNT(states));
    tcase_add_loop_test(tcase, a_state_that_breaks_a_rule_does_not, 0, (int)COUNT(no_states));
    tcase_add_test(tcase, an_attempts_span_follows_from_its_request_and_its_number);
    tcase_add_test(tcase, what_is_sent_on_is_a_header_that_is_continued);
    tcase_add_test(tcase, a_trace_that_begins_here_has_only_the_flag_that_every_receiver_knows);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
