/* A mutex of several processes, some of which die with it, or are stopped. */
#include <check.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/clock.h"
#include "core/base/shared_mutex.h"
#include "tests/unit/stopped_process.h"

enum {
    PROCESSES = 8,
    ROUNDS = 2000,
    MANY = 200,
    /* A busy machine may take so long for anything. */
    SLACK_MS = 5000,
};

static struct shared {
    struct shared_mutex mutex;
    uint64_t count; /* with the mutex */
} * shared;

static void set_up(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    ck_assert_int_eq(shared_mutex_init(&shared->mutex), 0);
}

static void tear_down(void)
{
    munmap(shared, sizeof(*shared));
}

static void take(void)
{
    if (shared_mutex_lock(&shared->mutex) == SHARED_MUTEX_BUSY)
        _exit(1);
}

static void give_back(void)
{
    shared_mutex_unlock(&shared->mutex);
}

static uint64_t lock_in_vain(unsigned times)
{
    uint64_t begin_us = clock_monotonic_us();

    for (unsigned i = 0; i < times; i++)
        ck_assert_int_eq(shared_mutex_lock(&shared->mutex), SHARED_MUTEX_BUSY);
    return (clock_monotonic_us() - begin_us) / US_PER_MS;
}

START_TEST(one_that_is_stopped_with_it_is_waited_for_once_and_not_for_long)
{
    pid_t stopped = stop_with(take, give_back);
    uint64_t ms = lock_in_vain(1);
    ck_assert_msg(ms >= SHARED_MUTEX_PATIENCE_MS && ms < SHARED_MUTEX_PATIENCE_MS + SLACK_MS, "%lu ms",
                  (unsigned long)ms);
    ms = lock_in_vain(MANY);
    ck_assert_msg(ms < MANY * SHARED_MUTEX_PATIENCE_MS / 4, "%d more took %lu ms", MANY, (unsigned long)ms);
    let_go_on(stopped);
    ck_assert_int_eq(shared_mutex_lock(&shared->mutex), SHARED_MUTEX_OURS);
    give_back();
}
END_TEST

START_TEST(when_it_was_had_again_the_next_one_is_waited_for_again)
{
    pid_t stopped = stop_with(take, give_back);
    lock_in_vain(1);
    let_go_on(stopped);
    ck_assert_int_eq(shared_mutex_lock(&shared->mutex), SHARED_MUTEX_OURS);
    give_back();
    stopped = stop_with(take, give_back);
    ck_assert_uint_ge(lock_in_vain(1), SHARED_MUTEX_PATIENCE_MS);
    let_go_on(stopped);
}
END_TEST

START_TEST(one_that_is_killed_while_it_is_stopped_hands_it_on)
{
    pid_t stopped = stop_with(take, give_back);
    lock_in_vain(1);
    kill(stopped, SIGKILL);
    waitpid(stopped, NULL, 0);
    ck_assert_int_eq(shared_mutex_lock(&shared->mutex), SHARED_MUTEX_ORPHANED);
    give_back();
    ck_assert_int_eq(shared_mutex_lock(&shared->mutex), SHARED_MUTEX_OURS);
    give_back();
}
END_TEST

START_TEST(trying_waits_for_nobody)
{
    pid_t stopped = stop_with(take, give_back);
    uint64_t begin_us = clock_monotonic_us();

    for (unsigned i = 0; i < MANY; i++)
        ck_assert_int_eq(shared_mutex_try(&shared->mutex), SHARED_MUTEX_BUSY);
    ck_assert_uint_lt(clock_monotonic_us() - begin_us, MANY * SHARED_MUTEX_PATIENCE_MS * US_PER_MS / 4);
    let_go_on(stopped);
    ck_assert_int_eq(shared_mutex_try(&shared->mutex), SHARED_MUTEX_OURS);
    give_back();
}
END_TEST

static pid_t start_counting(void)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned done = 0; done < ROUNDS;) {
        if (shared_mutex_lock(&shared->mutex) == SHARED_MUTEX_BUSY)
            continue;
        shared->count++;
        give_back();
        done++;
    }
    _exit(0);
}

START_TEST(of_many_processes_one_has_it_at_a_time)
{
    pid_t pids[PROCESSES];

    for (int i = 0; i < PROCESSES; i++)
        pids[i] = start_counting();
    for (int i = 0; i < PROCESSES; i++)
        waitpid(pids[i], NULL, 0);
    ck_assert_uint_eq(shared->count, PROCESSES * ROUNDS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared mutex");
    TCase *tc = tcase_create("shared mutex");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, one_that_is_stopped_with_it_is_waited_for_once_and_not_for_long);
    tcase_add_test(tc, when_it_was_had_again_the_next_one_is_waited_for_again);
    tcase_add_test(tc, one_that_is_killed_while_it_is_stopped_hands_it_on);
    tcase_add_test(tc, trying_waits_for_nobody);
    tcase_add_test(tc, of_many_processes_one_has_it_at_a_time);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
