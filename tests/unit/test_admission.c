/* Admission of a request by all meters of its caller: all or none, settled once, freed by death. */
#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/admit/admit.h"
#include "tests/unit/stopped_process.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { ALICE = 7, BOB = ALICE + WINDOW_SETS, CAROL = ALICE + 1, WORKERS = 16 };

struct record {
    char before[40];
    _Atomic uint64_t lease;
    char behind[16];
};

static struct shared {
    struct admit_shared admit;
    struct record records[WORKERS];
    _Atomic uint32_t held, most_held, admitted, done;
} * shared;

static struct admit workers[WORKERS];

static void set_up(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    admit_init(&shared->admit);
    for (unsigned i = 0; i < WORKERS; i++)
        workers[i] = (struct admit){
            .shared = &shared->admit,
            .leases = { &shared->records[0].lease, sizeof(shared->records[0]), WORKERS },
            .lease = &shared->records[i].lease,
        };
}

static void tear_down(void)
{
    munmap(shared, sizeof(*shared));
}

static struct admission admissions[WORKERS];

static bool ask(unsigned worker, uint64_t caller, uint64_t concurrency, uint64_t requests, uint64_t tokens,
                uint64_t estimate)
{
    const uint64_t limits[METERS] = { concurrency, requests, tokens };
    return admit_request(&workers[worker], caller, limits, estimate, &admissions[worker]);
}

static void assert_used(uint64_t caller, uint64_t concurrency, uint64_t requests, uint64_t tokens)
{
    const uint64_t limits[METERS] = { 1, 1, 1 };
    struct admission now;

    admit_look(&workers[0], caller, limits, &now);
    ck_assert_msg(now.used[METER_CONCURRENCY] == concurrency && now.used[METER_REQUESTS] == requests &&
                      now.used[METER_TOKENS] == tokens,
                  "%llu in hand, %llu requests, %llu tokens; expected %llu, %llu, %llu",
                  (unsigned long long)now.used[METER_CONCURRENCY],
                  (unsigned long long)now.used[METER_REQUESTS], (unsigned long long)now.used[METER_TOKENS],
                  (unsigned long long)concurrency, (unsigned long long)requests, (unsigned long long)tokens);
}

START_TEST(what_one_meter_refuses_takes_nothing_of_the_others)
{
    ck_assert(ask(0, ALICE, 2, 2, 100, 60));
    assert_used(ALICE, 1, 1, 60);
    ck_assert(!ask(1, ALICE, 2, 2, 100, 50));
    ck_assert_int_eq(admissions[1].refused, METER_TOKENS);
    assert_used(ALICE, 1, 1, 60);
    ck_assert(ask(1, ALICE, 2, 2, 100, 40));
    ck_assert(!ask(2, ALICE, 2, 3, 0, 1));
    ck_assert_int_eq(admissions[2].refused, METER_CONCURRENCY);
    assert_used(ALICE, 2, 2, 100);
    ck_assert(!ask(2, ALICE, 3, 2, 0, 1));
    ck_assert_int_eq(admissions[2].refused, METER_REQUESTS);
    assert_used(ALICE, 2, 2, 100);
    assert_used(BOB, 0, 0, 0);
}
END_TEST

START_TEST(who_is_refused_is_told_what_is_left_and_when_to_come_again)
{
    ck_assert(ask(0, ALICE, 1, 5, 100, 60));
    ck_assert(!ask(1, ALICE, 1, 5, 100, 60));
    ck_assert_uint_eq(admission_retry_after_s(&admissions[1]), 1);
    ck_assert_uint_eq(admission_remaining(&admissions[1], METER_CONCURRENCY), 0);
    ck_assert_uint_eq(admission_remaining(&admissions[1], METER_REQUESTS), 4);
    ck_assert_uint_eq(admission_remaining(&admissions[1], METER_TOKENS), 40);
    ck_assert(!ask(1, ALICE, 9, 5, 100, 60));
    unsigned wait_s = admission_retry_after_s(&admissions[1]);
    ck_assert_msg(wait_s >= 1 && wait_s <= 60, "%u s", wait_s);
    ck_assert_uint_eq(admissions[1].used[METER_CONCURRENCY], 1);
}
END_TEST

START_TEST(a_request_is_settled_once_and_with_the_true_amount)
{
    ck_assert(ask(0, ALICE, 1, 5, 100, 60));
    admit_settle(&workers[0], &admissions[0], 7);
    assert_used(ALICE, 0, 1, 7);
    admit_settle(&workers[0], &admissions[0], 7);
    admit_cancel(&workers[0], &admissions[0]);
    assert_used(ALICE, 0, 1, 7);
    ck_assert(ask(0, ALICE, 1, 5, 100, 60));
    admit_settle(&workers[0], &admissions[0], 5000); /* it took more than it was let in with */
    assert_used(ALICE, 0, 2, 5007);
    ck_assert(!ask(0, ALICE, 1, 5, 100, 1));
    ck_assert_uint_eq(admission_remaining(&admissions[0], METER_TOKENS), 0);
}
END_TEST

START_TEST(a_cancelled_request_has_taken_nothing)
{
    ck_assert(ask(0, ALICE, 1, 1, 100, 60));
    admit_cancel(&workers[0], &admissions[0]);
    assert_used(ALICE, 0, 0, 0);
    ck_assert(ask(0, ALICE, 1, 1, 100, 60));
}
END_TEST

START_TEST(settling_one_that_was_refused_leaves_the_others_their_places)
{
    ck_assert(ask(0, ALICE, 1, 5, 100, 60));
    ck_assert(!ask(1, ALICE, 1, 5, 100, 60));
    admit_settle(&workers[1], &admissions[1], 10);
    assert_used(ALICE, 1, 1, 60);
}
END_TEST

START_TEST(an_estimate_beyond_the_limit_is_let_in_with_all_of_it)
{
    ck_assert(ask(0, ALICE, 0, 0, 100, 1000000));
    assert_used(ALICE, 1, 1, 100);
    ck_assert(!ask(1, ALICE, 0, 0, 100, 1));
    admit_settle(&workers[0], &admissions[0], 20);
    ck_assert(!ask(1, ALICE, 0, 0, 100, 1000000)); /* not beside others */
    ck_assert(ask(1, ALICE, 0, 0, 100, 0));        /* one without an estimate takes one */
    assert_used(ALICE, 1, 1 + 1, 21);
}
END_TEST

START_TEST(the_place_of_a_worker_whose_record_is_freed_is_free)
{
    ck_assert(ask(0, ALICE, 1, 0, 0, 0));
    ck_assert(!ask(1, ALICE, 1, 0, 0, 0));
    atomic_store(&shared->records[0].lease, 0); /* what the master does */
    ck_assert(ask(1, ALICE, 1, 0, 0, 0));
}
END_TEST

static const struct {
    uint64_t limits[METERS];
    bool is_limited;
} limited[] = {
    { { 0, 0, 0 }, false },
    { { 1, 0, 0 }, true },
    { { 0, 1, 0 }, true },
    { { 0, 0, 1 }, true },
};

START_TEST(a_caller_is_limited_if_any_meter_is)
{
    ck_assert_int_eq(admit_is_limited(limited[_i].limits), limited[_i].is_limited);
}
END_TEST

START_TEST(callers_differ_by_their_keys_digest_and_are_never_nobody)
{
    static const uint8_t zeros[32], one[32] = { 1 }, two[32] = { 2 };
    ck_assert_uint_ne(admit_caller(zeros), 0);
    ck_assert_uint_ne(admit_caller(one), admit_caller(two));
}
END_TEST

/* --- many at once --- */

enum { PLACES = 10, ROUNDS = 300 };

static void note_most(uint32_t held)
{
    uint32_t most = atomic_load(&shared->most_held);
    while (held > most && !atomic_compare_exchange_weak(&shared->most_held, &most, held))
        ;
}

static void hold_and_leave(unsigned worker)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (!ask(worker, ALICE, PLACES, 0, 0, 0))
            continue;
        note_most(atomic_fetch_add(&shared->held, 1) + 1);
        atomic_fetch_add(&shared->admitted, 1);
        if (i % 16 == 0)
            usleep(100);
        atomic_fetch_sub(&shared->held, 1);
        admit_settle(&workers[worker], &admissions[worker], 0);
    }
}

static void hold(unsigned worker)
{
    if (ask(worker, ALICE, PLACES, 0, 0, 0))
        atomic_fetch_add(&shared->admitted, 1);
    atomic_fetch_add(&shared->done, 1);
    for (;;)
        pause();
}

static void start(void (*work)(unsigned worker), pid_t pids[WORKERS])
{
    for (unsigned i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            work(i);
            _exit(0);
        }
    }
}

static void await_done(uint32_t n)
{
    while (atomic_load(&shared->done) < n)
        usleep(1000);
}

START_TEST(no_more_than_the_limit_are_ever_in_hand)
{
    pid_t pids[WORKERS];
    start(hold_and_leave, pids);
    for (int i = 0; i < WORKERS; i++)
        waitpid(pids[i], NULL, 0);
    ck_assert_uint_ge(atomic_load(&shared->admitted), ROUNDS);
    ck_assert_uint_le(atomic_load(&shared->most_held), PLACES);
    assert_used(ALICE, 0, 0, 0);
}
END_TEST

START_TEST(of_many_who_ask_at_once_exactly_the_limit_get_a_place_and_the_dead_leave_theirs)
{
    pid_t pids[WORKERS];

    start(hold, pids);
    await_done(WORKERS);
    ck_assert_uint_eq(atomic_load(&shared->admitted), PLACES);
    for (unsigned i = 0; i < WORKERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
        atomic_store(&shared->records[i].lease, 0);
    }
    atomic_store(&shared->admitted, 0);
    atomic_store(&shared->done, 0);
    start(hold, pids);
    await_done(WORKERS);
    ck_assert_uint_eq(atomic_load(&shared->admitted), PLACES);
    for (unsigned i = 0; i < WORKERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}
END_TEST

/* --- one that is stopped at work --- */

static struct window_set *set;

static void lock_alice(void)
{
    set = windows_lock(&shared->admit.windows, ALICE);
}

static void unlock_alice(void)
{
    windows_unlock(set);
}

START_TEST(callers_whose_minutes_a_stopped_process_keeps_are_let_in_by_their_places)
{
    ck_assert(ask(0, ALICE, 3, 1, 100, 60));
    pid_t stopped = stop_with(lock_alice, unlock_alice);
    ck_assert(ask(1, ALICE, 3, 1, 100, 60));
    ck_assert(ask(2, ALICE, 3, 1, 100, 60));
    ck_assert(!admissions[0].is_uncounted && admissions[1].is_uncounted && admissions[2].is_uncounted);
    ck_assert_uint_eq(admission_remaining(&admissions[2], METER_CONCURRENCY), 0);
    ck_assert_uint_eq(admission_remaining(&admissions[2], METER_TOKENS), 100);
    ck_assert(!ask(3, ALICE, 3, 1, 100, 60));
    ck_assert_int_eq(admissions[3].refused, METER_CONCURRENCY);
    ck_assert(ask(4, CAROL, 1, 1, 100, 60));
    ck_assert(!admissions[4].is_uncounted);
    ck_assert(!ask(5, CAROL, 9, 1, 100, 60));
    ck_assert_int_eq(admissions[5].refused, METER_REQUESTS);
    admit_settle(&workers[1], &admissions[1], 7);
    assert_used(ALICE, 2, 0, 0); /* as far as is known */

    let_go_on(stopped);
    assert_used(ALICE, 2, 1, 60);
    ck_assert(!ask(1, ALICE, 3, 1, 0, 1));
    ck_assert_int_eq(admissions[1].refused, METER_REQUESTS);
    admit_settle(&workers[0], &admissions[0], 20);
    admit_settle(&workers[2], &admissions[2], 5); /* its tokens were used now */
    assert_used(ALICE, 0, 1, 25);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admission");
    TCase *tc = tcase_create("admission");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, what_one_meter_refuses_takes_nothing_of_the_others);
    tcase_add_test(tc, who_is_refused_is_told_what_is_left_and_when_to_come_again);
    tcase_add_test(tc, a_request_is_settled_once_and_with_the_true_amount);
    tcase_add_test(tc, a_cancelled_request_has_taken_nothing);
    tcase_add_test(tc, settling_one_that_was_refused_leaves_the_others_their_places);
    tcase_add_test(tc, an_estimate_beyond_the_limit_is_let_in_with_all_of_it);
    tcase_add_test(tc, the_place_of_a_worker_whose_record_is_freed_is_free);
    tcase_add_loop_test(tc, a_caller_is_limited_if_any_meter_is, 0, COUNT(limited));
    tcase_add_test(tc, callers_differ_by_their_keys_digest_and_are_never_nobody);
    tcase_add_test(tc, no_more_than_the_limit_are_ever_in_hand);
    tcase_add_test(tc, of_many_who_ask_at_once_exactly_the_limit_get_a_place_and_the_dead_leave_theirs);
    tcase_add_test(tc, callers_whose_minutes_a_stopped_process_keeps_are_let_in_by_their_places);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
