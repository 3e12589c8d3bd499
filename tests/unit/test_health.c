#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "fcgi/edge/health.h"

enum { N_WORKERS = 4, TEXT_BYTES = 1024 * 1024 };

static struct arena *arena;
static struct mapping *mapping;
static struct buf out;

static void set_up(void)
{
    arena = arena_new();
    buf_init(&out, TEXT_BYTES);
    mapping = aligned_alloc(_Alignof(struct mapping),
                            sizeof(*mapping) + N_WORKERS * sizeof(struct scoreboard_record));
    ck_assert_ptr_nonnull(mapping);
    memset(mapping, 0, sizeof(*mapping) + N_WORKERS * sizeof(struct scoreboard_record));
    mapping->n_workers = N_WORKERS;
    strcpy(mapping->program, "llm-router");
    strcpy(mapping->instance, "0193-instance");
    mapping->started_wall_us = UINT64_C(1764450000000000);
}

static void tear_down(void)
{
    buf_free(&out);
    free(mapping);
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

static const struct ready_row {
    const char *what;
    bool has_worker;
    bool is_store_ok;
    int64_t ago_ms; /* -1: the keeper has not looked yet */
    uint64_t generation;
    bool is_strict, is_serving; /* ready in that mode */
    const char *store, *workers;
} ready_rows[] = {
    { "all is well", true, true, 10, 3, true, true, "ok", "ok" },
    { "nothing is configured", true, true, 10, 0, true, false, "ok", "ok" },
    { "the store is down", true, false, 10, 3, false, true, "fail", "ok" },
    { "the store was down from the start", true, false, 10, 0, false, false, "fail", "ok" },
    { "the keeper has just begun", true, false, -1, 0, false, false, "fail", "ok" },
    { "the keeper hangs", true, true, 5100, 3, false, true, "fail", "ok" },
    { "the keeper is slow", true, true, 4000, 3, true, true, "ok", "ok" },
    { "no worker lives", false, true, 10, 3, false, false, "ok", "fail" },
    { "nothing is there", false, false, -1, 0, false, false, "fail", "fail" },
};

enum { N_READY = sizeof(ready_rows) / sizeof(ready_rows[0]) };

START_TEST(readiness_is_what_the_mode_asks_for)
{
    const struct ready_row *row = &ready_rows[_i / 2];
    bool is_strict = _i % 2 == 0;
    bool expected = is_strict ? row->is_strict : row->is_serving;

    if (row->has_worker)
        start_worker(2, 100, STAGE_STREAMING);
    look(row->is_store_ok, row->ago_ms);
    mapping->generation = row->generation;
    bool is_ready = health_write_ready(mapping, is_strict, &out);
    ck_assert_msg(is_ready == expected, "%s, %s: %s", row->what, is_strict ? "strict" : "serving",
                  is_ready ? "ready" : "not ready");
    ck_assert_str_eq(
        text(), arena_printf(arena, "{\"status\":\"%s\",\"checks\":{\"store\":\"%s\",\"workers\":\"%s\"}}",
                             expected ? "ready" : "not_ready", row->store, row->workers));
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

START_TEST(each_metric_has_the_value_of_its_cell)
{
    const struct cell {
        const char *series;
        _Atomic uint64_t *cell;
    } cells[] = {
        { "llm_router_connections_accepted_total", &mapping->accepted },
        { "llm_router_requests_total", &mapping->requests },
        { "llm_router_overflow_total", &mapping->shed },
        { "llm_router_queue_length", &mapping->waiting },
        { "llm_router_worker_deaths_total", &mapping->worker_deaths },
        { "llm_router_lost_wakeups_total", &mapping->nudges },
        { "llm_router_config_generation", &mapping->generation },
        { "llm_router_config_reloads_total", &mapping->keeper.reloads },
        { "llm_router_config_refusals_total", &mapping->keeper.refusals },
    };
    enum { N_CELLS = sizeof(cells) / sizeof(cells[0]) };

    for (uint64_t i = 0; i < N_CELLS; i++)
        *cells[i].cell = UINT64_MAX - i;
    health_write_metrics(mapping, &out);
    for (uint64_t i = 0; i < N_CELLS; i++) {
        ck_assert_msg(value_of(cells[i].series) == UINT64_MAX - i, "%s is %" PRIu64, cells[i].series,
                      value_of(cells[i].series));
    }
}
END_TEST

START_TEST(workers_are_counted_by_stage)
{
    start_worker(0, 100, STAGE_IDLE);
    start_worker(1, 101, STAGE_STREAMING);
    start_worker(2, 102, STAGE_STREAMING);
    mapping->workers[3].stage = STAGE_WAITING; /* of one that has died: it has no pid */
    health_write_metrics(mapping, &out);
    ck_assert_uint_eq(value_of("llm_router_workers{stage=\"free\"}"), 1);
    ck_assert_uint_eq(value_of("llm_router_workers{stage=\"idle\"}"), 1);
    ck_assert_uint_eq(value_of("llm_router_workers{stage=\"reading\"}"), 0);
    ck_assert_uint_eq(value_of("llm_router_workers{stage=\"waiting\"}"), 0);
    ck_assert_uint_eq(value_of("llm_router_workers{stage=\"streaming\"}"), 2);
    ck_assert_uint_eq(value_of("llm_router_workers{stage=\"finishing\"}"), 0);
}
END_TEST

START_TEST(a_stage_that_nobody_knows_is_counted_as_none)
{
    start_worker(0, 100, (enum stage)STAGE_COUNT);
    start_worker(1, 101, (enum stage)4000000000U);
    health_write_metrics(mapping, &out);
    ck_assert_uint_eq(value_of("llm_router_workers{stage=\"free\"}"), N_WORKERS);
}
END_TEST

START_TEST(the_store_is_up_while_the_keeper_says_so)
{
    look(true, 10);
    health_write_metrics(mapping, &out);
    ck_assert_uint_eq(value_of("llm_router_store_up"), 1);
    buf_clear(&out);
    look(true, 6000);
    health_write_metrics(mapping, &out);
    ck_assert_uint_eq(value_of("llm_router_store_up"), 0);
}
END_TEST

/* Prometheus text format 0.0.4: of each family, HELP, TYPE, then its samples. */
START_TEST(metrics_are_in_the_format_that_is_announced)
{
    char family[128] = "", help[256], type[32], name[128];

    start_worker(0, 100, STAGE_IDLE);
    health_write_metrics(mapping, &out);
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
            ck_assert_msg(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0, "%s", copy);
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

/* --- the page for people --------------------------------------------------------------- */

static void expect_line(const char *line)
{
    ck_assert_msg(strstr(text(), line) != NULL, "\"%s\" is not in:\n%s", line, text());
}

START_TEST(the_status_page_has_a_line_for_each_worker)
{
    start_worker(0, 100, STAGE_IDLE);
    start_worker(3, 4000000, STAGE_STREAMING);
    mapping->workers[3].since_us = clock_monotonic_us() - 61 * US_PER_S;
    mapping->workers[3].requests = 77;
    mapping->workers[3].generation = 5;
    mapping->accepted = 12345;
    health_write_status(mapping, &out);
    ck_assert_msg(strncmp(text(), "llm-router ", 11) == 0, "it begins: %.40s", text());
    expect_line("instance 0193-instance, since 2025-11-29T21:00:00.000000Z\n");
    expect_line("12345        Connections taken by workers and overflow.\n");
    expect_line("\n   0      100  idle              0.0          0          0\n");
    expect_line("\n   3  4000000  streaming        61.0         77          5\n");
    ck_assert_msg(strstr(text(), "\n   1") == NULL && strstr(text(), "free") == NULL, "dead workers: %s",
                  text());
}
END_TEST

START_TEST(a_stage_that_began_a_moment_later_has_lasted_no_time)
{
    start_worker(0, 100, STAGE_IDLE);
    mapping->workers[0].since_us = clock_monotonic_us() + US_PER_S;
    health_write_status(mapping, &out);
    expect_line("  idle              0.0 ");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("health");
    TCase *tcase = tcase_create("health");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, who_answers_is_live);
    tcase_add_loop_test(tcase, readiness_is_what_the_mode_asks_for, 0, 2 * N_READY);
    tcase_add_test(tcase, each_metric_has_the_value_of_its_cell);
    tcase_add_test(tcase, workers_are_counted_by_stage);
    tcase_add_test(tcase, a_stage_that_nobody_knows_is_counted_as_none);
    tcase_add_test(tcase, the_store_is_up_while_the_keeper_says_so);
    tcase_add_test(tcase, metrics_are_in_the_format_that_is_announced);
    tcase_add_test(tcase, the_status_page_has_a_line_for_each_worker);
    tcase_add_test(tcase, a_stage_that_began_a_moment_later_has_lasted_no_time);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
