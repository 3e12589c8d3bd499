/* What the OTEL_* variables mean, and what is said of those that cannot be honoured. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/telemetry/otlp_settings.h"

#define BASE "OTEL_EXPORTER_OTLP_"

enum { VARIABLES_MAX = 6 };

static struct arena *arena;
static struct otlp_settings settings;
static char reports[4096];

static void set_up(void)
{
    clearenv();
    arena = arena_new();
}

static void tear_down(void)
{
    arena_free(arena);
}

static void report(const char *variable, const char *problem)
{
    size_t len = strlen(reports);
    snprintf(reports + len, sizeof(reports) - len, "%s: %s\n", variable, problem);
}

static void read_settings(void)
{
    struct error e = { 0 };
    reports[0] = '\0';
    ck_assert_int_eq(otlp_settings_read("llm-router", arena, report, &settings, &e), 0);
}

static void set(const char *const variables[VARIABLES_MAX][2])
{
    for (int i = 0; i < VARIABLES_MAX && variables[i][0] != NULL; i++)
        setenv(variables[i][0], variables[i][1], 1);
}

/* --- where signals go --- */

static const struct place_row {
    const char *const variables[VARIABLES_MAX][2];
    const char *urls[OTLP_SIGNALS]; /* NULL: nothing of it is exported */
    const char *reported;           /* NULL: nothing is */
} places[] = {
    { { { NULL } }, { NULL }, NULL },
    { { { BASE "ENDPOINT", "" } }, { NULL }, NULL },
    { { { BASE "ENDPOINT", "http://c:4318" } },
      { "http://c:4318/v1/traces", "http://c:4318/v1/metrics", "http://c:4318/v1/logs" },
      NULL },
    { { { BASE "ENDPOINT", "https://c/base/" } },
      { "https://c/base/v1/traces", "https://c/base/v1/metrics", "https://c/base/v1/logs" },
      NULL },
    { { { BASE "ENDPOINT", "http://c/base?key=1" } },
      { "http://c/base/v1/traces?key=1", "http://c/base/v1/metrics?key=1", "http://c/base/v1/logs?key=1" },
      NULL },
    { { { BASE "TRACES_ENDPOINT", "http://t:1/own/path/" } }, { "http://t:1/own/path/" }, NULL },
    { { { BASE "TRACES_ENDPOINT", "http://t:1" } }, { "http://t:1/" }, NULL },
    { { { BASE "ENDPOINT", "http://c" }, { BASE "METRICS_ENDPOINT", "http://m/x" } },
      { "http://c/v1/traces", "http://m/x", "http://c/v1/logs" },
      NULL },
    { { { BASE "ENDPOINT", "http://c" },
        { "OTEL_TRACES_EXPORTER", "none" },
        { "OTEL_LOGS_EXPORTER", "none" } },
      { NULL, "http://c/v1/metrics", NULL },
      NULL },
    { { { "OTEL_TRACES_EXPORTER", "otlp" } }, { "http://localhost:4318/v1/traces" }, NULL },
    { { { BASE "ENDPOINT", "http://c" }, { "OTEL_METRICS_EXPORTER", "prometheus" } },
      { "http://c/v1/traces", NULL, "http://c/v1/logs" },
      NULL },
    { { { BASE "ENDPOINT", "http://c" }, { "OTEL_METRICS_EXPORTER", "prometheus, otlp" } },
      { "http://c/v1/traces", "http://c/v1/metrics", "http://c/v1/logs" },
      NULL },
    { { { BASE "ENDPOINT", "http://c" }, { "OTEL_TRACES_EXPORTER", "console" } },
      { NULL, "http://c/v1/metrics", "http://c/v1/logs" },
      "OTEL_TRACES_EXPORTER" },
    { { { BASE "ENDPOINT", "http://c" }, { "OTEL_SDK_DISABLED", "TRUE" } }, { NULL }, NULL },
    { { { BASE "ENDPOINT", "http://c" }, { "OTEL_SDK_DISABLED", "yes" } },
      { "http://c/v1/traces", "http://c/v1/metrics", "http://c/v1/logs" },
      "OTEL_SDK_DISABLED" },
    { { { BASE "ENDPOINT", "collector:4317" },
        { "OTEL_METRICS_EXPORTER", "none" },
        { "OTEL_LOGS_EXPORTER", "none" } },
      { NULL },
      BASE "ENDPOINT" },
    { { { BASE "TRACES_ENDPOINT", "ftp://c" } }, { NULL }, BASE "TRACES_ENDPOINT" },
    { { { BASE "TRACES_ENDPOINT", "http://" } }, { NULL }, BASE "TRACES_ENDPOINT" },
};

START_TEST(each_signal_goes_where_the_variables_say_or_nowhere)
{
    const struct place_row *row = &places[_i];
    set(row->variables);
    read_settings();
    for (int i = 0; i < OTLP_SIGNALS; i++) {
        const struct otlp_receiver *receiver = &settings.receivers[i];
        ck_assert_msg(receiver->is_on == (row->urls[i] != NULL), "row %d: signal %d is %s", _i, i,
                      receiver->is_on ? "on" : "off");
        if (receiver->is_on)
            ck_assert_str_eq(receiver->url, row->urls[i]);
    }
    if (row->reported == NULL)
        ck_assert_str_eq(reports, "");
    else
        ck_assert_msg(strncmp(reports, row->reported, strlen(row->reported)) == 0, "row %d: reported: %s", _i,
                      reports);
}
END_TEST

START_TEST(what_is_logged_of_a_place_holds_no_credentials_and_no_query)
{
    setenv(BASE "ENDPOINT", "https://user:pass@c:1/p?token=secret#f", 1);
    read_settings();
    ck_assert_str_eq(settings.receivers[METRIC_SIGNAL_TRACES].place, "https://c:1/p/v1/traces");
    ck_assert_ptr_nonnull(strstr(settings.receivers[METRIC_SIGNAL_TRACES].url, "user:pass@"));
}
END_TEST

/* --- how --- */

START_TEST(a_signals_own_variable_comes_over_that_of_all)
{
    static const char *const variables[VARIABLES_MAX][2] = {
        { BASE "TIMEOUT", "2000" },       { BASE "LOGS_TIMEOUT", "3000" },
        { BASE "COMPRESSION", "gzip" },   { BASE "METRICS_COMPRESSION", "none" },
        { BASE "PROTOCOL", "http/json" }, { BASE "TRACES_PROTOCOL", "http/protobuf" },
    };
    set(variables);
    read_settings();
    const struct otlp_receiver *r = settings.receivers;
    ck_assert_int_eq(r[METRIC_SIGNAL_TRACES].timeout_ms, 2000);
    ck_assert_int_eq(r[METRIC_SIGNAL_LOGS].timeout_ms, 3000);
    ck_assert(r[METRIC_SIGNAL_TRACES].has_gzip && !r[METRIC_SIGNAL_METRICS].has_gzip);
    ck_assert(!r[METRIC_SIGNAL_TRACES].is_json && r[METRIC_SIGNAL_METRICS].is_json);
    ck_assert_str_eq(reports, "");
}
END_TEST

START_TEST(unset_the_specifications_defaults_hold)
{
    read_settings();
    ck_assert_int_eq(settings.receivers[METRIC_SIGNAL_LOGS].timeout_ms, 10000);
    ck_assert_int_eq(settings.span_delay_ms, 5000);
    ck_assert_int_eq(settings.span_batch, 512);
    ck_assert_int_eq(settings.log_delay_ms, 1000);
    ck_assert_int_eq(settings.metric_interval_ms, 60000);
    ck_assert_int_eq(settings.span_count_limit, 128);
    ck_assert_int_eq(settings.span_value_limit, OTLP_NO_LIMIT);
    ck_assert(!settings.is_delta);
}
END_TEST

static const struct number_row {
    const char *name, *text;
    size_t at;
    int64_t expected;
    bool is_reported;
} numbers[] = {
    { "OTEL_BSP_SCHEDULE_DELAY", "100", offsetof(struct otlp_settings, span_delay_ms), 100, false },
    { "OTEL_BSP_SCHEDULE_DELAY", "0", offsetof(struct otlp_settings, span_delay_ms), 5000, true },
    { "OTEL_BSP_SCHEDULE_DELAY", "5s", offsetof(struct otlp_settings, span_delay_ms), 5000, true },
    { "OTEL_BSP_SCHEDULE_DELAY", " 5", offsetof(struct otlp_settings, span_delay_ms), 5000, true },
    { "OTEL_BSP_SCHEDULE_DELAY", "-5", offsetof(struct otlp_settings, span_delay_ms), 5000, true },
    { "OTEL_BSP_SCHEDULE_DELAY", "99999999999999999999", offsetof(struct otlp_settings, span_delay_ms), 5000,
      true },
    { "OTEL_BSP_SCHEDULE_DELAY", "", offsetof(struct otlp_settings, span_delay_ms), 5000, false },
    { "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "7", offsetof(struct otlp_settings, span_batch), 7, false },
    { "OTEL_BLRP_SCHEDULE_DELAY", "7", offsetof(struct otlp_settings, log_delay_ms), 7, false },
    { "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "7", offsetof(struct otlp_settings, log_batch), 7, false },
    { "OTEL_METRIC_EXPORT_INTERVAL", "7", offsetof(struct otlp_settings, metric_interval_ms), 7, false },
    { "OTEL_ATTRIBUTE_COUNT_LIMIT", "7", offsetof(struct otlp_settings, span_count_limit), 7, false },
    { "OTEL_ATTRIBUTE_COUNT_LIMIT", "7", offsetof(struct otlp_settings, log_count_limit), 7, false },
    { "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "0", offsetof(struct otlp_settings, span_value_limit), 0, false },
    { "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "8", offsetof(struct otlp_settings, span_count_limit), 8, false },
    { "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "8", offsetof(struct otlp_settings, log_count_limit), 128, false },
    { "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", "8", offsetof(struct otlp_settings, log_value_limit), 8,
      false },
};

START_TEST(a_number_in_its_range_counts_and_any_other_is_reported)
{
    const struct number_row *row = &numbers[_i];
    setenv(row->name, row->text, 1);
    read_settings();
    int64_t found = *(const int64_t *)(const void *)((const char *)&settings + row->at);
    ck_assert_msg(found == row->expected, "%s=\"%s\": %lld", row->name, row->text, (long long)found);
    ck_assert_msg((strncmp(reports, row->name, strlen(row->name)) == 0) == row->is_reported,
                  "%s=\"%s\": reported: %s", row->name, row->text, reports);
}
END_TEST

START_TEST(the_shorter_of_two_timeouts_holds)
{
    setenv("OTEL_BSP_EXPORT_TIMEOUT", "4000", 1);
    setenv("OTEL_METRIC_EXPORT_TIMEOUT", "50000", 1);
    read_settings();
    ck_assert_int_eq(settings.receivers[METRIC_SIGNAL_TRACES].timeout_ms, 4000);
    ck_assert_int_eq(settings.receivers[METRIC_SIGNAL_METRICS].timeout_ms, 10000);
}
END_TEST

static const struct temporality_row {
    const char *text;
    bool is_delta, is_reported;
} temporalities[] = { { "cumulative", false, false }, { "delta", true, false }, { "DELTA", true, false },
                      { "lowmemory", true, false },   { "", false, false },     { "other", false, true } };

START_TEST(temporality_is_one_of_three_words)
{
    const struct temporality_row *row = &temporalities[_i];
    setenv(BASE "METRICS_TEMPORALITY_PREFERENCE", row->text, 1);
    read_settings();
    ck_assert_msg(settings.is_delta == row->is_delta, "\"%s\"", row->text);
    ck_assert_msg((reports[0] != '\0') == row->is_reported, "\"%s\": %s", row->text, reports);
}
END_TEST

START_TEST(grpc_is_not_offered_and_said_to_be_ignored)
{
    setenv(BASE "PROTOCOL", "grpc", 1);
    read_settings();
    ck_assert_ptr_nonnull(strstr(reports, BASE "PROTOCOL: "));
    ck_assert(!settings.receivers[METRIC_SIGNAL_TRACES].is_json);
}
END_TEST

/* --- lists --- */

static const struct resource_row {
    const char *service, *resource;
    const char *expected; /* "name=value;" of each, in order */
    bool is_reported;
} resources[] = {
    { NULL, NULL, "service.name=llm-router;", false },
    { "gw", NULL, "service.name=gw;", false },
    { NULL, "service.name=x,a=b", "service.name=x;a=b;", false },
    { "gw", "service.name=x,a=b", "service.name=gw;a=b;", false },
    { NULL, " a = b , c=d%2Ce ,, ", "service.name=llm-router;a=b;c=d,e;", false },
    { NULL, "a=", "service.name=llm-router;a=;", false },
    { NULL, "a=b,a=c", "service.name=llm-router;a=c;", false },
    { NULL, "a=b,c", "service.name=llm-router;", true },
    { NULL, "a=b,=c", "service.name=llm-router;", true },
    { NULL, "a=%4", "service.name=llm-router;", true },
    { NULL, "a=%zz", "service.name=llm-router;", true },
    { NULL, "a=b,c=%0A", "service.name=llm-router;", true },
};

START_TEST(the_resource_has_the_services_name_and_the_attributes_of_a_sound_list)
{
    const struct resource_row *row = &resources[_i];
    const char *found = "";
    if (row->service != NULL)
        setenv("OTEL_SERVICE_NAME", row->service, 1);
    if (row->resource != NULL)
        setenv("OTEL_RESOURCE_ATTRIBUTES", row->resource, 1);
    read_settings();
    for (size_t i = 0; i < settings.n_resource; i++)
        found = arena_printf(arena, "%s%s=%s;", found, settings.resource[i].name, settings.resource[i].value);
    ck_assert_msg(strcmp(found, row->expected) == 0, "\"%s\": %s, expected %s", row->resource, found,
                  row->expected);
    ck_assert_msg((reports[0] != '\0') == row->is_reported, "\"%s\": %s", row->resource, reports);
}
END_TEST

static const struct header_row {
    const char *text, *expected;
    bool is_reported;
} headers[] = {
    { "a=b", "a: b;", false },
    { "Authorization=Bearer%20abc, x-b = c=d ", "Authorization: Bearer abc;x-b: c=d;", false },
    { "a=", "a: ;", false },
    { "a", "", true },
    { "a=b,=c", "", true },
    { "a b=c", "", true },
    { "a=b%0D%0Ac:d", "", true },
    { "a=b%00", "", true },
    { "a:=b", "", true },
};

START_TEST(headers_are_those_of_a_sound_list)
{
    const struct header_row *row = &headers[_i];
    const char *found = "", *name, *value;
    setenv(BASE "HEADERS", row->text, 1);
    read_settings();
    struct span rest = settings.receivers[METRIC_SIGNAL_LOGS].headers;
    while (otlp_next_header(&rest, arena, &name, &value))
        found = arena_printf(arena, "%s%s: %s;", found, name, value);
    ck_assert_msg(strcmp(found, row->expected) == 0, "\"%s\": %s, expected %s", row->text, found,
                  row->expected);
    ck_assert_msg((reports[0] != '\0') == row->is_reported, "\"%s\": %s", row->text, reports);
    ck_assert_ptr_null(getenv(BASE "HEADERS"));
}
END_TEST

START_TEST(no_secret_is_reported_or_left_in_the_environment)
{
    char place[64] = BASE "TRACES_HEADERS=api-key=canary-of-a-key%";
    putenv(place);
    read_settings();
    ck_assert_ptr_nonnull(strstr(reports, BASE "TRACES_HEADERS: "));
    ck_assert_ptr_null(strstr(reports, "canary"));
    for (size_t i = 0; i + 6 < sizeof(place); i++)
        ck_assert_int_ne(memcmp(place + i, "canary", 6), 0);
}
END_TEST

START_TEST(headers_may_stand_in_a_file_and_are_wiped_where_nothing_is_exported)
{
    char path[] = "/tmp/headers.XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(file_write_all(fd, "api-key=canary\n", 15), 0);
    setenv(BASE "HEADERS_FILE", path, 1);
    read_settings();
    unlink(path);
    ck_assert_str_eq(reports, "");
    struct span kept = settings.receivers[METRIC_SIGNAL_TRACES].headers;
    ck_assert(span_is(kept, "api-key=canary"));
    otlp_settings_wipe(&settings);
    ck_assert_uint_eq(settings.receivers[METRIC_SIGNAL_LOGS].headers.len, 0);
    for (size_t i = 0; i < kept.len; i++)
        ck_assert_int_eq(kept.ptr[i], 0);
}
END_TEST

/* --- the table --- */

START_TEST(a_variable_that_is_not_honoured_is_reported_by_its_name)
{
    bool is_honoured;
    for (size_t i = 0; otlp_variable(i, &is_honoured) != NULL; i++) {
        const char *name = arena_strdup(arena, otlp_variable(i, &is_honoured));
        if (is_honoured)
            continue;
        clearenv();
        setenv(name, "anything", 1);
        read_settings();
        ck_assert_msg(strncmp(reports, name, strlen(name)) == 0, "%s: %s", name, reports);
    }
}
END_TEST

START_TEST(a_variable_that_is_not_known_is_reported_and_an_empty_one_is_not)
{
    setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPIONT", "http://c", 1);
    setenv("OTEL_SOMETHING_ELSE", "", 1);
    setenv("OTHER", "x", 1);
    read_settings();
    ck_assert_ptr_nonnull(strstr(reports, "OTEL_EXPORTER_OTLP_TRACES_ENDPIONT: "));
    ck_assert_ptr_null(strstr(reports, "OTEL_SOMETHING_ELSE"));
    ck_assert_ptr_null(strstr(reports, "OTHER"));
}
END_TEST

/* Whether the manual has the variable as a whole word. */
static bool has_name(const char *manual, const char *name)
{
    for (const char *p = strstr(manual, name); p != NULL; p = strstr(p + 1, name)) {
        char next = p[strlen(name)];
        if (p[-1] == ' ' && (next == ' ' || next == '\n'))
            return true;
    }
    return false;
}

START_TEST(the_manual_has_every_variable_where_it_belongs)
{
    struct span text;
    struct error e = { 0 };
    bool is_honoured;
    ck_assert_msg(file_read("man/llm-router-telemetry.7", 1 << 20, arena, &text, &e) == 0, "%s", e.text);
    char *honoured = strstr((char *)(uintptr_t)text.ptr, ".Sh ENVIRONMENT");
    ck_assert_ptr_nonnull(honoured);
    char *ignored = strstr(honoured, ".Ss Not honoured");
    ck_assert_ptr_nonnull(ignored);
    ignored[-1] = '\0';
    for (size_t i = 0; otlp_variable(i, &is_honoured) != NULL; i++) {
        const char *name = otlp_variable(i, &is_honoured);
        ck_assert_msg(has_name(honoured, name) == is_honoured, "%s is %s to be honoured", name,
                      is_honoured ? "not said" : "said");
        ck_assert_msg(has_name(ignored, name) != is_honoured, "%s is %s not to be honoured", name,
                      is_honoured ? "said" : "not said");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("otlp_settings");
    TCase *tcase = tcase_create("environment");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, each_signal_goes_where_the_variables_say_or_nowhere, 0,
                        sizeof(places) / sizeof(places[0]));
    tcase_add_test(tcase, what_is_logged_of_a_place_holds_no_credentials_and_no_query);
    tcase_add_test(tcase, a_signals_own_variable_comes_over_that_of_all);
    tcase_add_test(tcase, unset_the_specifications_defaults_hold);
    tcase_add_loop_test(tcase, a_number_in_its_range_counts_and_any_other_is_reported, 0,
                        sizeof(numbers) / sizeof(numbers[0]));
    tcase_add_test(tcase, the_shorter_of_two_timeouts_holds);
    tcase_add_loop_test(tcase, temporality_is_one_of_three_words, 0,
                        sizeof(temporalities) / sizeof(temporalities[0]));
    tcase_add_test(tcase, grpc_is_not_offered_and_said_to_be_ignored);
    tcase_add_loop_test(tcase, the_resource_has_the_services_name_and_the_attributes_of_a_sound_list, 0,
                        sizeof(resources) / sizeof(resources[0]));
    tcase_add_loop_test(tcase, headers_are_those_of_a_sound_list, 0, sizeof(headers) / sizeof(headers[0]));
    tcase_add_test(tcase, no_secret_is_reported_or_left_in_the_environment);
    tcase_add_test(tcase, headers_may_stand_in_a_file_and_are_wiped_where_nothing_is_exported);
    tcase_add_test(tcase, a_variable_that_is_not_honoured_is_reported_by_its_name);
    tcase_add_test(tcase, a_variable_that_is_not_known_is_reported_and_an_empty_one_is_not);
    tcase_add_test(tcase, the_manual_has_every_variable_where_it_belongs);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
