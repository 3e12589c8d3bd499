#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/ctl/top_recent.h"
#include "core/base/clock.h"

static const uint64_t now_us = UINT64_C(1796010544) * US_PER_S;

static struct arena *arena;
static struct recent *recent;
static struct recent_view view;

static void set_up(void)
{
    arena = arena_new();
    recent = arena_new_of(arena, struct recent);
    recent_init(recent, arena);
}

static void tear_down(void)
{
    arena_free(arena);
}

/* A request that ended so long ago, with one attempt. */
static void add_for(const char *reason, uint64_t ago_us, const char *end, const char *upstream,
                    const char *verdict, uint64_t first_byte_us)
{
    struct event_line event = {
        .end = end,
        .time_us = now_us - ago_us - 5,
        .total_us = 5,
        .ttft_us = first_byte_us,
        .attempts = { { .upstream = upstream,
                        .verdict = verdict,
                        .reason = reason,
                        .first_byte_us = first_byte_us } },
        .n_attempts = 1,
    };
    recent_add(recent, &event);
}

static void add(uint64_t ago_us, const char *end, const char *upstream, const char *verdict,
                uint64_t first_byte_us)
{
    add_for("", ago_us, end, upstream, verdict, first_byte_us);
}

static void look(void)
{
    recent_look(recent, now_us, arena, &view);
}

static const struct row {
    const char *end, *verdict, *reason;
    enum recent_ending ending;
    enum recent_finding finding; /* about the upstream */
} rows[] = {
    { "done", "ok", "", RECENT_DONE, RECENT_NOTHING },
    { "refused", "client", "", RECENT_REFUSED, RECENT_NOTHING },
    { "client_gone", "cancelled", "caller_left", RECENT_LEFT, RECENT_NOTHING },
    { "done", "cancelled", "hedge_lost", RECENT_DONE, RECENT_BEATEN },
    { "error_before", "cancelled", "chain_ended", RECENT_FAILED, RECENT_NOTHING },
    { "error_before", "auth", "", RECENT_FAILED, RECENT_FAILURE },
    { "error_mid", "server", "", RECENT_FAILED, RECENT_FAILURE },
    { "cut", "timeout", "timeout_idle", RECENT_FAILED, RECENT_FAILURE },
    { "overflow", "rate", "", RECENT_FAILED, RECENT_FAILURE },
    { "worker_died", "connect", "", RECENT_FAILED, RECENT_FAILURE },
    { "throttled", "ok", "", RECENT_REFUSED, RECENT_NOTHING },
};

START_TEST(an_ending_counts_as_what_it_is_to_an_operator)
{
    const struct row *row = &rows[_i];
    add_for(row->reason, 1, row->end, "u", row->verdict, 10);
    look();
    for (int i = 0; i < RECENT_ENDINGS; i++)
        ck_assert_msg(view.endings[i] == (i == (int)row->ending), "%s: %zu of ending %d", row->end,
                      view.endings[i], i);
    ck_assert_uint_eq(view.n_upstreams, 1);
    ck_assert_msg(view.upstreams[0].failures == (row->finding == RECENT_FAILURE) &&
                      view.upstreams[0].beaten == (row->finding == RECENT_BEATEN),
                  "%s (%s): %zu failures, %zu beaten", row->verdict, row->reason, view.upstreams[0].failures,
                  view.upstreams[0].beaten);
}
END_TEST

START_TEST(what_ended_more_than_a_minute_ago_is_not_told)
{
    add(61 * US_PER_S, "done", "old", "ok", 10);
    add(59 * US_PER_S, "done", "new", "ok", 20);
    look();
    ck_assert_uint_eq(view.endings[RECENT_DONE], 1);
    ck_assert_uint_eq(view.n_upstreams, 1);
    ck_assert_str_eq(view.upstreams[0].name, "new");
    ck_assert_uint_eq(view.seconds, 60);
}
END_TEST

static const struct times_row {
    unsigned n; /* times of 1, 2, …, n ms */
    uint32_t median_ms, p95_ms;
} times_rows[] = {
    { 0, 0, 0 }, { 1, 1, 1 }, { 2, 1, 2 }, { 3, 2, 3 }, { 20, 10, 19 }, { 21, 11, 20 }, { 100, 50, 95 },
};

START_TEST(median_and_95th_percentile_are_of_nearest_rank)
{
    const struct times_row *row = &times_rows[_i];
    for (unsigned i = row->n; i > 0; i--)
        add(1, "done", "u", "ok", i * US_PER_MS);
    add(1, "error_before", "u", "connect", 0); /* no byte came: no time */
    look();
    ck_assert_msg(view.first_byte.median_us == row->median_ms * US_PER_MS &&
                      view.first_byte.p95_us == row->p95_ms * US_PER_MS,
                  "of %u: %u and %u", row->n, view.first_byte.median_us, view.first_byte.p95_us);
    ck_assert_uint_eq(view.upstreams[0].first_byte.median_us, row->median_ms * US_PER_MS);
    ck_assert_uint_eq(view.upstreams[0].attempts, row->n + 1);
}
END_TEST

START_TEST(upstreams_stand_by_the_number_of_their_attempts)
{
    for (unsigned i = 0; i < 9; i++)
        add(1, "done", i < 2 ? "two" : i < 5 ? "three" : "four", "ok", 1);
    look();
    ck_assert_uint_eq(view.n_upstreams, 3);
    ck_assert_str_eq(view.upstreams[0].name, "four");
    ck_assert_str_eq(view.upstreams[1].name, "three");
    ck_assert_str_eq(view.upstreams[2].name, "two");
}
END_TEST

START_TEST(more_requests_than_are_kept_tell_of_less_than_a_minute)
{
    for (unsigned i = 0; i < RECENT_SAMPLES; i++)
        add(50 * US_PER_S, "done", "u", "ok", 1);
    add(20 * US_PER_S, "done", "u", "ok", 1);
    look();
    ck_assert_uint_eq(view.seconds, 50);
    ck_assert_uint_eq(view.endings[RECENT_DONE], RECENT_SAMPLES);
    for (unsigned i = 0; i < RECENT_SAMPLES; i++)
        add(10 * US_PER_S, "done", "u", "ok", 1);
    look();
    ck_assert_uint_eq(view.seconds, 20);
    ck_assert_uint_eq(view.endings[RECENT_DONE], RECENT_SAMPLES);
}
END_TEST

START_TEST(what_was_not_read_is_not_claimed_to_be_known)
{
    recent_clear(recent, now_us - 15 * US_PER_S);
    add(30 * US_PER_S, "done", "u", "ok", 1);
    add(5 * US_PER_S, "done", "u", "ok", 1);
    look();
    ck_assert_uint_eq(view.seconds, 15);
    ck_assert_uint_eq(view.endings[RECENT_DONE], 1);
    recent_clear(recent, UINT64_MAX); /* nothing at all */
    look();
    ck_assert_uint_eq(view.seconds, 0);
    ck_assert_uint_eq(view.n_upstreams, 0);
}
END_TEST

START_TEST(upstreams_beyond_the_bound_share_a_row)
{
    char name[RECENT_NAME_BYTES + 100];
    for (unsigned i = 0; i < RECENT_UPSTREAMS_MAX + 10; i++) {
        snprintf(name, sizeof(name), "upstream-%u-%0200d", i, 0);
        add(1, "done", name, "ok", 1);
    }
    look();
    ck_assert_uint_eq(view.n_upstreams, RECENT_UPSTREAMS_MAX);
    ck_assert_str_eq(view.upstreams[0].name, "_other");
    ck_assert_uint_eq(view.upstreams[0].attempts, 11);
    ck_assert_uint_eq(strlen(view.upstreams[1].name), RECENT_NAME_BYTES - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("top_recent");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, an_ending_counts_as_what_it_is_to_an_operator, 0,
                        sizeof(rows) / sizeof(rows[0]));
    tcase_add_test(tcase, what_ended_more_than_a_minute_ago_is_not_told);
    tcase_add_loop_test(tcase, median_and_95th_percentile_are_of_nearest_rank, 0,
                        sizeof(times_rows) / sizeof(times_rows[0]));
    tcase_add_test(tcase, upstreams_stand_by_the_number_of_their_attempts);
    tcase_add_test(tcase, more_requests_than_are_kept_tell_of_less_than_a_minute);
    tcase_add_test(tcase, what_was_not_read_is_not_claimed_to_be_known);
    tcase_add_test(tcase, upstreams_beyond_the_bound_share_a_row);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
