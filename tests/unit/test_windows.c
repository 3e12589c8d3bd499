/* What callers have used in their minute: edges, clocks, corrections, and many who ask at once. */
#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/admit/windows.h"
#include "tests/unit/stopped_process.h"

enum { ALICE = 7, BOB = 8, START = 5 * WINDOW_US };

static struct windows *windows;

static void set_up(void)
{
    windows = mmap(NULL, sizeof(*windows), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(windows != MAP_FAILED);
    windows_init(windows);
}

static void tear_down(void)
{
    munmap(windows, sizeof(*windows));
}

/* A machine that is too busy is not what these tests are about. */
static struct window_set *lock_set(uint64_t caller)
{
    struct window_set *set;
    while ((set = windows_lock(windows, caller)) == NULL)
        usleep(1000);
    return set;
}

static struct window last; /* as it was after the last call */

static enum window_refusal take(uint64_t caller, uint64_t now_us, uint64_t most_requests,
                                uint64_t most_tokens, uint64_t tokens)
{
    const struct window_amounts limits = { most_requests, most_tokens }, wanted = { 1, tokens };
    struct window_set *set = lock_set(caller);
    enum window_refusal refusal = window_take(set, caller, now_us, &limits, &wanted, &last);
    windows_unlock(set);
    return refusal;
}

static void correct(uint64_t caller, uint64_t now_us, uint64_t id, uint64_t taken, uint64_t requests,
                    uint64_t tokens)
{
    const struct window_amounts had = { 1, taken }, instead = { requests, tokens };
    struct window_set *set = lock_set(caller);
    window_correct(set, caller, now_us, id, &had, &instead);
    windows_unlock(set);
}

static void look(uint64_t caller, uint64_t now_us)
{
    struct window_set *set = lock_set(caller);
    window_read(set, caller, now_us, &last);
    windows_unlock(set);
}

static void assert_used(uint64_t requests, uint64_t tokens)
{
    ck_assert_msg(last.requests == requests && last.tokens == tokens,
                  "%llu requests and %llu tokens, expected %llu and %llu", (unsigned long long)last.requests,
                  (unsigned long long)last.tokens, (unsigned long long)requests, (unsigned long long)tokens);
}

START_TEST(a_limit_is_reached_exactly_and_what_is_refused_is_not_counted)
{
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(take(ALICE, START, 3, 0, 1), WINDOW_TAKEN);
    ck_assert_int_eq(take(ALICE, START, 3, 0, 1), WINDOW_NO_REQUESTS);
    assert_used(3, 3);
    ck_assert_int_eq(take(BOB, START, 3, 0, 1), WINDOW_TAKEN);
    ck_assert_int_eq(take(ALICE, START, 4, 0, 1), WINDOW_TAKEN); /* its limit was raised */
}
END_TEST

START_TEST(a_refusal_of_one_amount_takes_nothing_of_the_other)
{
    ck_assert_int_eq(take(ALICE, START, 10, 100, 60), WINDOW_TAKEN);
    ck_assert_int_eq(take(ALICE, START, 10, 100, 41), WINDOW_NO_TOKENS);
    assert_used(1, 60);
    ck_assert_int_eq(take(ALICE, START, 10, 100, 40), WINDOW_TAKEN);
    assert_used(2, 100);
}
END_TEST

/* The window begins with the request at START; its limit is one request. */
static const struct {
    int64_t later_us;
    enum window_refusal refusal;
    uint64_t left_us; /* afterwards */
} edges[] = {
    { 0, WINDOW_NO_REQUESTS, WINDOW_US },
    { 1, WINDOW_NO_REQUESTS, WINDOW_US - 1 },
    { WINDOW_US - 1, WINDOW_NO_REQUESTS, 1 },
    { WINDOW_US, WINDOW_TAKEN, WINDOW_US },
    { 2 * (int64_t)WINDOW_US + 1, WINDOW_TAKEN, WINDOW_US },
    /* another process has read its clock a moment earlier */
    { -1, WINDOW_NO_REQUESTS, WINDOW_US },
    { -1000 * 1000, WINDOW_NO_REQUESTS, WINDOW_US },
    /* this is another clock: nobody waits longer than a minute for it */
    { -(int64_t)WINDOW_US, WINDOW_TAKEN, WINDOW_US },
    { -4 * (int64_t)WINDOW_US, WINDOW_TAKEN, WINDOW_US },
};

START_TEST(a_window_lasts_a_minute_from_its_first_request_and_never_longer)
{
    uint64_t now_us = (uint64_t)(START + edges[_i].later_us);
    ck_assert_int_eq(take(ALICE, START, 1, 0, 1), WINDOW_TAKEN);
    enum window_refusal refusal = take(ALICE, now_us, 1, 0, 1);
    uint64_t left_us = window_left_us(&last, now_us);
    ck_assert_msg(refusal == edges[_i].refusal && left_us == edges[_i].left_us,
                  "%lld us later: %d, %llu us left", (long long)edges[_i].later_us, refusal,
                  (unsigned long long)left_us);
}
END_TEST

START_TEST(looking_begins_nothing)
{
    look(ALICE, START);
    assert_used(0, 0);
    ck_assert_uint_eq(window_left_us(&last, START), WINDOW_US);
    take(ALICE, START + 10, 1, 0, 1);
    look(ALICE, START + 20);
    assert_used(1, 1);
    ck_assert_uint_eq(window_left_us(&last, START + 20), WINDOW_US - 10);
    look(ALICE, START + 10 + WINDOW_US);
    assert_used(0, 0);
}
END_TEST

/* 30 tokens were taken at START; corrected so much later. */
static const struct {
    uint64_t later_us, requests, tokens, used_requests, used_tokens;
} corrections[] = {
    { 5, 1, 30, 1, 30 },         { 5, 1, 10, 1, 10 },
    { 5, 1, 5000, 1, 5000 },     { 5, 0, 0, 0, 0 }, /* cancelled */
    { WINDOW_US, 1, 10, 0, 10 },                    /* what was taken has lapsed; what was used is used now */
    { WINDOW_US, 0, 0, 0, 0 },
};

START_TEST(what_was_taken_is_corrected_or_lapses_with_its_window)
{
    uint64_t now_us = START + corrections[_i].later_us;
    take(ALICE, START, 0, 0, 30);
    correct(ALICE, now_us, last.id, 30, corrections[_i].requests, corrections[_i].tokens);
    look(ALICE, now_us);
    assert_used(corrections[_i].used_requests, corrections[_i].used_tokens);
}
END_TEST

START_TEST(a_correction_does_not_lower_the_next_window)
{
    take(ALICE, START, 0, 0, 30);
    uint64_t id = last.id;
    take(ALICE, START + WINDOW_US, 0, 0, 7);
    correct(ALICE, START + WINDOW_US + 1, id, 30, 1, 2);
    look(ALICE, START + WINDOW_US + 1);
    assert_used(1, 9);
}
END_TEST

START_TEST(who_finds_no_room_takes_it_from_the_one_that_ends_next)
{
    for (uint64_t i = 0; i < WINDOW_WAYS; i++)
        take(1 + i * WINDOW_SETS, START + i, 0, 0, 1);
    take(1 + WINDOW_WAYS * WINDOW_SETS, START + 100, 0, 0, 1);
    look(1, START + 100);
    assert_used(0, 0);
    for (uint64_t i = 1; i <= WINDOW_WAYS; i++) {
        look(1 + i * WINDOW_SETS, START + 100);
        assert_used(1, 1);
    }
}
END_TEST

START_TEST(what_somebody_else_counts_is_put_and_keeps_its_end)
{
    const struct window told = { ALICE, 99, START + 500, 4, 40 }, later = { ALICE, 99, START + 700, 5, 50 };
    struct window_set *set = lock_set(ALICE);
    window_put(set, &told);
    window_put(set, &later);
    windows_unlock(set);
    look(ALICE, START);
    assert_used(5, 50);
    ck_assert_uint_eq(last.ends_us, START + 500);
    ck_assert_int_eq(take(ALICE, START, 5, 0, 1), WINDOW_NO_REQUESTS); /* it goes on from there */
}
END_TEST

enum { PROCESSES = 16, TRIES = 500, LIMIT = 1000 };

/* Each counts what it was given, where the parent sees it also when the child is killed. */
static void run_processes(void (*work)(_Atomic uint64_t *count), _Atomic uint64_t *count,
                          pid_t pids[PROCESSES])
{
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            work(count);
            _exit(0);
        }
    }
}

static void wait_all(const pid_t pids[PROCESSES])
{
    for (int i = 0; i < PROCESSES; i++)
        waitpid(pids[i], NULL, 0);
}

static _Atomic uint64_t *shared_counter(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(page != MAP_FAILED);
    return page;
}

static void try_often(_Atomic uint64_t *count)
{
    for (int i = 0; i < TRIES; i++) {
        if (take(ALICE, START, LIMIT, 0, 1) == WINDOW_TAKEN)
            atomic_fetch_add(count, 1);
    }
}

START_TEST(sixteen_processes_that_ask_at_once_get_exactly_the_limit)
{
    _Atomic uint64_t *count = shared_counter();
    pid_t pids[PROCESSES];

    run_processes(try_often, count, pids);
    wait_all(pids);
    ck_assert_uint_eq(atomic_load(count), LIMIT);
    look(ALICE, START);
    assert_used(LIMIT, LIMIT);
}
END_TEST

static void try_for_ever(_Atomic uint64_t *count)
{
    for (;;) {
        take(ALICE, START, 0, 0, 1);
        atomic_fetch_add(count, 1);
    }
}

START_TEST(processes_that_are_killed_at_any_point_lock_nobody_out)
{
    for (int round = 0; round < 10; round++) {
        _Atomic uint64_t *count = shared_counter();
        pid_t pids[PROCESSES];
        run_processes(try_for_ever, count, pids);
        while (atomic_load(count) < PROCESSES)
            usleep(1000);
        for (int i = 0; i < PROCESSES; i++)
            kill(pids[i], SIGKILL);
        wait_all(pids);
        uint64_t counted = atomic_load(count);
        look(ALICE, START); /* would wait for ever */
        uint64_t taken = last.requests;
        /* One that dies has taken one at most that it could not count. */
        ck_assert_msg(taken >= counted && taken <= counted + PROCESSES, "%llu taken, %llu counted",
                      (unsigned long long)taken, (unsigned long long)counted);
        memset(windows->sets[ALICE % WINDOW_SETS].windows, 0, sizeof(windows->sets[0].windows));
        munmap(count, 4096);
    }
}
END_TEST

static struct window_set *taken;

static void lock_alice(void)
{
    taken = lock_set(ALICE);
}

static void unlock_alice(void)
{
    windows_unlock(taken);
}

START_TEST(one_that_is_stopped_at_work_keeps_its_set_to_itself_and_no_other)
{
    take(ALICE, START, 3, 0, 1);
    pid_t stopped = stop_with(lock_alice, unlock_alice);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(windows_lock(windows, ALICE)); /* would wait for ever */
    windows_unlock(NULL);
    ck_assert_int_eq(take(BOB, START, 3, 0, 1), WINDOW_TAKEN);
    let_go_on(stopped);
    ck_assert_int_eq(take(ALICE, START, 3, 0, 1), WINDOW_TAKEN);
    assert_used(2, 2);
}
END_TEST

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

int main(void)
{
    Suite *suite = suite_create("windows");
    TCase *tc = tcase_create("windows");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_limit_is_reached_exactly_and_what_is_refused_is_not_counted);
    tcase_add_test(tc, a_refusal_of_one_amount_takes_nothing_of_the_other);
    tcase_add_loop_test(tc, a_window_lasts_a_minute_from_its_first_request_and_never_longer, 0, COUNT(edges));
    tcase_add_test(tc, looking_begins_nothing);
    tcase_add_loop_test(tc, what_was_taken_is_corrected_or_lapses_with_its_window, 0, COUNT(corrections));
    tcase_add_test(tc, a_correction_does_not_lower_the_next_window);
    tcase_add_test(tc, who_finds_no_room_takes_it_from_the_one_that_ends_next);
    tcase_add_test(tc, what_somebody_else_counts_is_put_and_keeps_its_end);
    tcase_add_test(tc, sixteen_processes_that_ask_at_once_get_exactly_the_limit);
    tcase_add_test(tc, processes_that_are_killed_at_any_point_lock_nobody_out);
    tcase_add_test(tc, one_that_is_stopped_at_work_keeps_its_set_to_itself_and_no_other);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
