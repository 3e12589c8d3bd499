#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/json/scan.h"
#include "core/telemetry/prometheus.h"
#include "fcgi/edge/health.h"
#include "fcgi/edge/status_page.h"
#include "fcgi/engine/gauges.h"

enum { N_WORKERS = 4, TEXT_BYTES = 1024 * 1024 };

static struct arena *arena;
static struct mapping *mapping;
static struct buf out;
static struct in_hand_upstreams upstreams;

static void set_up(void)
{
    arena = arena_new();
    buf_init(&out, TEXT_BYTES);
    mapping = mapping_alone("llm-router", N_WORKERS);
    strcpy(mapping->instance, "0193-instance");
    mapping->started_wall_us = UINT64_C(1764450000000000);
}

static void tear_down(void)
{
    buf_free(&out);
    mapping_close(mapping);
    arena_free(arena);
}

static void start_worker(unsigned slot, int pid, enum stage stage)
{
    mapping->workers[slot].pid = pid;
    scoreboard_enter(&mapping->workers[slot], stage);
}

/* The keeper's last look, so many milliseconds ago; none: it has not looked. */
static void look(bool is_ok, int64_t ago_ms)
{
    mapping->keeper.is_store_ok = is_ok;
    mapping->keeper.checked_us = ago_ms < 0 ? 0 : clock_monotonic_us() - (uint64_t)ago_ms * US_PER_MS;
}

static const char *text(void)
{
    return arena_span(arena, buf_span(&out));
}

START_TEST(who_answers_is_live)
{
    health_write_live(&out);
    ck_assert_str_eq(text(), "{\"status\":\"live\"}");
}
END_TEST

/* --- ready ------------------------------------------------------------------------ */

/* Of a server: absent, away, or there. */
enum server { NO, AWAY, THERE };

static const struct ready_row {
    const char *what;
    bool has_worker;
    bool is_store_ok;
    int64_t ago_ms; /* -1: the keeper has not looked yet */
    enum server database, redis;
    uint64_t generation;
    bool is_strict, is_serving; /* ready in that mode */
    const char *checks;
} ready_rows[] = {
    { "all is well", true, true, 10, NO, NO, 3, true, true, "'store':'ok','workers':'ok'" },
    { "nothing is configured", true, true, 10, NO, NO, 0, true, false, "'store':'ok','workers':'ok'" },
    { "the store is down", true, false, 10, NO, NO, 3, false, true, "'store':'fail','workers':'ok'" },
    { "the store was down from the start", true, false, 10, NO, NO, 0, false, false,
      "'store':'fail','workers':'ok'" },
    { "the keeper has just begun", true, false, -1, NO, NO, 0, false, false,
      "'store':'fail','workers':'ok'" },
    { "the keeper hangs", true, true, 5100, NO, NO, 3, false, true, "'store':'fail','workers':'ok'" },
    { "the keeper is slow", true, true, 4000, NO, NO, 3, true, true, "'store':'ok','workers':'ok'" },
    { "no worker lives", false, true, 10, NO, NO, 3, false, false, "'store':'ok','workers':'fail'" },
    { "nothing is there", false, false, -1, NO, NO, 0, false, false, "'store':'fail','workers':'fail'" },
    { "both servers are there", true, true, 10, THERE, THERE, 3, true, true,
      "'store':'ok','db':'ok','redis':'ok','workers':'ok'" },
    { "Redis is away", true, true, 10, THERE, AWAY, 3, false, true,
      "'store':'ok','db':'ok','redis':'fail','workers':'ok'" },
    { "Postgres is away", true, false, 10, AWAY, THERE, 3, false, true,
      "'store':'fail','db':'fail','redis':'ok','workers':'ok'" },
    { "Postgres is there, and its values cannot be read", true, false, 10, THERE, THERE, 3, false, true,
      "'store':'fail','db':'ok','redis':'ok','workers':'ok'" },
    { "the servers are there, and the keeper hangs", true, true, 5100, THERE, THERE, 3, false, true,
      "'store':'fail','db':'fail','redis':'fail','workers':'ok'" },
    { "nothing is configured, and the servers are there", true, true, 10, THERE, THERE, 0, true, false,
      "'store':'ok','db':'ok','redis':'ok','workers':'ok'" },
};

enum { N_READY = sizeof(ready_rows) / sizeof(ready_rows[0]) };

/* A text that is easier to write with other quotes. */
static const char *quoted(const char *in)
{
    char *copy = arena_strdup(arena, in);
    for (char *c = copy; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    return copy;
}

START_TEST(readiness_is_what_the_mode_asks_for)
{
    const struct ready_row *row = &ready_rows[_i / 2];
    bool is_strict = _i % 2 == 0;
    bool expected = is_strict ? row->is_strict : row->is_serving;

    if (row->has_worker) {
        start_worker(2, 100, STAGE_STREAMING);
        mapping->workers[2].generation = row->generation > 0 ? 2 : 0; /* another one has come since */
    }
    look(row->is_store_ok, row->ago_ms);
    mapping->keeper.has_database = row->database != NO;
    mapping->keeper.is_database_ok = row->database == THERE;
    mapping->keeper.has_redis = row->redis != NO;
    mapping->keeper.is_redis_ok = row->redis == THERE;
    mapping->generation = row->generation;
    bool is_ready = health_write_ready(mapping, is_strict, &out);
    ck_assert_msg(is_ready == expected, "%s, %s: %s", row->what, is_strict ? "strict" : "serving",
                  is_ready ? "ready" : "not ready");
    ck_assert_str_eq(text(), quoted(arena_printf(arena, "{'status':'%s','checks':{%s}}",
                                                 expected ? "ready" : "not_ready", row->checks)));
}
END_TEST

/* As when it could not map what is in force. */
START_TEST(workers_without_any_configuration_do_not_make_it_ready)
{
    mapping->generation = 3;
    start_worker(2, 100, STAGE_IDLE);
    look(true, 10);
    ck_assert(!health_write_ready(mapping, false, &out));
    ck_assert(!health_write_ready(mapping, true, &out));
    mapping->is_resting = 1; /* none is there, and the next one will have it */
    ck_assert(health_write_ready(mapping, false, &out));
}
END_TEST

/* --- metrics ------------------------------------------------------------------------ */

/* The value of a series by its whole name; fails if it is not there once. */
static uint64_t value_of(const char *series)
{
    const char *line = arena_printf(arena, "\n%s ", series);
    const char *found = strstr(text(), line);
    uint64_t value;

    ck_assert_msg(found != NULL, "%s is not in:\n%s", series, text());
    ck_assert_msg(strstr(found + 1, line) == NULL, "%s is there twice", series);
    ck_assert_int_eq(sscanf(found + strlen(line), "%" SCNu64 "\n", &value), 1);
    return value;
}

/* What /metrics has. */
static void write_metrics(void)
{
    struct gauges gauges;
    gauges_read(mapping, METRIC_OF_ROUTER, &gauges);
    prometheus_write(&mapping->telemetry, &gauges.facts, PROMETHEUS_TEXT, &out);
}

START_TEST(what_the_mapping_counts_is_in_the_metrics)
{
    mapping->accepted = 11;
    mapping->waiting = 12;
    mapping->generation = 13;
    telemetry_add(&mapping->telemetry, METRIC_CONFIG_RELOAD, RELOAD_PUBSUB, 14);
    telemetry_add(&mapping->telemetry, METRIC_WORKER_DEATHS, 0, 15);
    write_metrics();
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_connections_accepted_total"), 11);
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_queue_length"), 12);
    ck_assert_uint_eq(
        value_of("airi_gen_ai_gateway_config_generation{service_instance_id=\"0193-instance\"}"), 13);
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_config_reload_total{source=\"pubsub\","
                               "service_instance_id=\"0193-instance\"}"),
                      14);
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_worker_deaths_total"), 15);
}
END_TEST

START_TEST(stages_and_sources_are_called_as_in_the_metrics)
{
    ck_assert_uint_eq(metric_stages.count, STAGE_COUNT);
    ck_assert_uint_eq(metric_reload_sources.count, RELOAD_SOURCES);
    for (unsigned i = 0; i < STAGE_COUNT; i++)
        ck_assert_str_eq(metric_stages.values[i], stage_name((enum stage)i));
    for (unsigned i = 0; i < RELOAD_SOURCES; i++)
        ck_assert_str_eq(metric_reload_sources.values[i], reload_source_name(i));
}
END_TEST

START_TEST(workers_are_counted_by_stage)
{
    start_worker(0, 100, STAGE_IDLE);
    start_worker(1, 101, STAGE_STREAMING);
    start_worker(2, 102, STAGE_STREAMING);
    mapping->workers[3].stage = STAGE_WAITING; /* of one that has died: it has no pid */
    write_metrics();
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_workers{state=\"free\"}"), 1);
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_workers{state=\"idle\"}"), 1);
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_workers{state=\"reading\"}"), 0);
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_workers{state=\"waiting\"}"), 0);
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_workers{state=\"streaming\"}"), 2);
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_workers{state=\"finishing\"}"), 0);
}
END_TEST

START_TEST(a_stage_that_nobody_knows_is_counted_as_none)
{
    start_worker(0, 100, (enum stage)STAGE_COUNT);
    start_worker(1, 101, (enum stage)4000000000U);
    write_metrics();
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_workers{state=\"free\"}"), N_WORKERS);
}
END_TEST

START_TEST(the_store_is_up_while_the_keeper_says_so)
{
    look(true, 10);
    write_metrics();
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_store_up"), 1);
    buf_clear(&out);
    look(true, 6000);
    write_metrics();
    ck_assert_uint_eq(value_of("airi_gen_ai_gateway_store_up"), 0);
}
END_TEST

/* Prometheus text format 0.0.4: of each family, HELP, TYPE, then its samples. */
START_TEST(metrics_are_in_the_format_that_is_announced)
{
    char family[128] = "", help[256], type[32], name[128];

    start_worker(0, 100, STAGE_IDLE);
    write_metrics();
    const char *line = text();
    ck_assert(line[0] != '\0');
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const char *copy = arena_span(arena, span_of(line, (size_t)(end - line)));
        int used = 0;
        if (sscanf(copy, "# HELP %127s %255[^\n]%n", name, help, &used) == 2) {
            ck_assert_msg(strcmp(family, name) != 0, "%s has two helps", name);
            strcpy(family, name);
        } else if (sscanf(copy, "# TYPE %127s %31s%n", name, type, &used) == 2) {
            ck_assert_str_eq(name, family);
            ck_assert_msg(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0 ||
                              strcmp(type, "histogram") == 0,
                          "%s", copy);
            bool is_total = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
            ck_assert_msg(is_total == (strcmp(type, "counter") == 0), "%s is a %s", name, type);
        } else {
            ck_assert_msg(strncmp(copy, family, strlen(family)) == 0 && strrchr(copy, ' ') != NULL,
                          "a sample of another family: %s", copy);
            used = (int)strlen(copy);
        }
        ck_assert_int_eq(used, (int)strlen(copy));
    }
    ck_assert_msg(*line == '\0', "the last line has no end: %s", line);
}
END_TEST

/* --- status --------------------------------------------------------------------------- */

static void expect(const char *part)
{
    ck_assert_msg(strstr(text(), quoted(part)) != NULL, "%s is not in:\n%s", quoted(part), text());
}

static void expect_json(void)
{
    struct json_fault fault;
    ck_assert_msg(json_scan(buf_span(&out), NULL, 0, JSON_SCAN_UNIQUE, NULL, NULL, &fault) == 0, "%s: %s",
                  fault.what, text());
}

START_TEST(the_status_says_what_is_in_force_since_when_and_how_it_came)
{
    struct tree_in_force tree = { .version = "V1StGXR8_Z5jdHi6B-myT",
                                  .since_us = UINT64_C(1764450001000000),
                                  .source = RELOAD_PUBSUB };
    look(true, 10);
    mapping->keeper.has_redis = 1;
    telemetry_add(&mapping->telemetry, METRIC_CONFIG_RELOAD, RELOAD_PUBSUB, 7);
    mapping->accepted = 12345;
    mapping_put_in_force(mapping, 5, &tree);
    health_write_status(mapping, &upstreams, &out);
    expect_json();
    expect("{'program':'llm-router',");
    expect("'instance':'0193-instance','startedAt':'2025-11-29T21:00:00.000000Z','generation':5,"
           "'version':'V1StGXR8_Z5jdHi6B-myT','since':'2025-11-29T21:00:01.000000Z','source':'pubsub',"
           "'isRefused':false");
    expect("'checks':{'store':'ok','redis':'fail','workers':'fail'}");
    expect("'reloads':{'ttl':0,'file':0,'pubsub':7,'reconnect':0,'signal':0}");
}
END_TEST

START_TEST(without_a_configuration_the_status_names_no_version)
{
    health_write_status(mapping, &upstreams, &out);
    expect_json();
    expect("'generation':0,'version':null,'since':null,'source':null,");
    expect("'poolsAlone':false,'workersAlive':0,'workersCurrent':0,'workers':[]}");
}
END_TEST

START_TEST(that_redis_does_not_count_slots_is_said_to_programs_and_to_people)
{
    ck_assert_int_eq(redis_rest_note(&mapping->pools.redis_rest, false), REDIS_LOST);
    health_write_status(mapping, &upstreams, &out);
    expect_json();
    expect("'poolsAlone':true,");
    buf_clear(&out);
    status_page_write(mapping, &upstreams, &out);
    ck_assert_ptr_nonnull(strstr(text(), "Redis does not count slots of pools."));
    ck_assert_int_eq(redis_rest_note(&mapping->pools.redis_rest, true), REDIS_BACK);
    buf_clear(&out);
    status_page_write(mapping, &upstreams, &out);
    ck_assert_ptr_null(strstr(text(), "Redis"));
}
END_TEST

START_TEST(the_status_has_each_living_worker_with_its_generation)
{
    mapping->generation = 5;
    start_worker(0, 100, STAGE_IDLE);
    mapping->workers[0].generation = 4;
    mapping->workers[1].generation = 5; /* of one that has died */
    start_worker(3, 4000000, STAGE_STREAMING);
    mapping->workers[3].requests = 77;
    mapping->workers[3].generation = 5;
    mapping->workers[0].since_us = mapping->workers[3].since_us =
        clock_monotonic_us() + US_PER_S; /* 0 ms ago */
    health_write_status(mapping, &upstreams, &out);
    expect_json();
    expect("'workersAlive':2,'workersCurrent':1,'workers':["
           "{'slot':0,'pid':100,'stage':'idle','stageMs':0,'requests':0,'generation':4},"
           "{'slot':3,'pid':4000000,'stage':'streaming','stageMs':0,'requests':77,'generation':5}]}");
}
END_TEST

static void take_request(unsigned slot, const char *model)
{
    struct scoreboard_record *record = &mapping->workers[slot];

    scoreboard_begin_request(record);
    snprintf(record->request.model, sizeof(record->request.model), "%s", model);
    strcpy(record->request.endpoint, "chat/completions");
    strcpy(record->request.request_id, "r-1");
}

START_TEST(the_status_says_what_a_worker_has_in_hand)
{
    start_worker(0, 100, STAGE_WAITING);
    take_request(0, "gpt \"4\"");
    mapping->workers[0].request.started_us = clock_monotonic_us() + US_PER_S; /* 0 ms ago */
    health_write_status(mapping, &upstreams, &out);
    expect_json();
    expect("'inHand':{'ageMs':0,'requestId':'r-1','endpoint':'chat/completions','model':'gpt \\'4\\'',"
           "'upstream':''}}");
}
END_TEST

static const struct accept_row {
    const char *accept;
    bool is_page;
} accepts[] = {
    { NULL, false },
    { "*/*", false },
    { "application/json", false },
    { "text/html,application/json;q=0.9", false },
    { "text/html", true },
    { "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8", true },
};

START_TEST(browsers_get_a_page_and_programs_json)
{
    ck_assert_msg(status_page_is_wanted(accepts[_i].accept) == accepts[_i].is_page, "%s", accepts[_i].accept);
}
END_TEST

START_TEST(what_callers_name_is_escaped_on_the_page)
{
    start_worker(0, 100, STAGE_STREAMING);
    take_request(0, "<script>alert('x\x01\")&</script>");
    status_page_write(mapping, &upstreams, &out);
    ck_assert_ptr_null(strstr(text(), "<script"));
    ck_assert_ptr_nonnull(
        strstr(text(), "<td>&#60;script&#62;alert(&#39;x?&#34;)&#38;&#60;/script&#62;</td>"));
    ck_assert_ptr_nonnull(strstr(text(), "Requests in hand: 1"));
}
END_TEST

START_TEST(the_page_has_requests_by_age_and_says_what_is_wrong)
{
    start_worker(0, 100, STAGE_STREAMING);
    start_worker(1, 101, STAGE_IDLE);
    start_worker(2, 102, STAGE_WAITING);
    take_request(0, "younger");
    take_request(2, "older");
    mapping->workers[2].request.started_us -= 90500 * US_PER_MS;
    status_page_write(mapping, &upstreams, &out);
    const char *older = strstr(text(), "older"), *younger = strstr(text(), "younger");
    ck_assert_msg(older != NULL && younger != NULL && older < younger, "%s", text());
    ck_assert_ptr_nonnull(strstr(text(), "<td class=\"n\">90.5 s</td><td>waiting</td>"));
    ck_assert_ptr_nonnull(strstr(text(), "Workers: 3"));
    ck_assert_ptr_nonnull(strstr(text(), "No configuration is in force."));
    ck_assert_ptr_nonnull(strstr(text(), "The store cannot be read."));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("health");
    TCase *tcase = tcase_create("health");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, who_answers_is_live);
    tcase_add_loop_test(tcase, readiness_is_what_the_mode_asks_for, 0, 2 * N_READY);
    tcase_add_test(tcase, workers_without_any_configuration_do_not_make_it_ready);
    tcase_add_test(tcase, what_the_mapping_counts_is_in_the_metrics);
    tcase_add_test(tcase, stages_and_sources_are_called_as_in_the_metrics);
    tcase_add_test(tcase, workers_are_counted_by_stage);
    tcase_add_test(tcase, a_stage_that_nobody_knows_is_counted_as_none);
    tcase_add_test(tcase, the_store_is_up_while_the_keeper_says_so);
    tcase_add_test(tcase, metrics_are_in_the_format_that_is_announced);
    tcase_add_test(tcase, the_status_says_what_is_in_force_since_when_and_how_it_came);
    tcase_add_test(tcase, without_a_configuration_the_status_names_no_version);
    tcase_add_test(tcase, that_redis_does_not_count_slots_is_said_to_programs_and_to_people);
    tcase_add_test(tcase, the_status_has_each_living_worker_with_its_generation);
    tcase_add_test(tcase, the_status_says_what_a_worker_has_in_hand);
    tcase_add_loop_test(tcase, browsers_get_a_page_and_programs_json, 0,
                        sizeof(accepts) / sizeof(accepts[0]));
    tcase_add_test(tcase, what_callers_name_is_escaped_on_the_page);
    tcase_add_test(tcase, the_page_has_requests_by_age_and_says_what_is_wrong);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
