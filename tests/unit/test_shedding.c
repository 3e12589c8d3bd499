/*
 * The decision is compared with a model that knows when each connection came: a
 * queue of arrival times, from which acceptors take the oldest.
 */
#include <check.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "fcgi/engine/shedding.h"

enum { QUEUE_MAX = 100000, HISTORY_MAX = 100000 };

static struct shedding shedding;
static uint64_t accepted;

/* --- the model: every connection's age, in ticks --------------------------------- */

static struct model {
    uint64_t now;             /* ticks so far */
    uint64_t came[QUEUE_MAX]; /* each waiting connection's tick, the oldest at `head` */
    size_t head, tail;
    uint64_t standing; /* ticks at which somebody waited, in a row */
} * model;

static void set_up(void)
{
    model = xcalloc(1, sizeof(*model));
    accepted = 0;
}

static void tear_down(void)
{
    shedding_free(&shedding);
    free(model);
}

static uint32_t waiting(void)
{
    return (uint32_t)(model->tail - model->head);
}

static void arrive(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        ck_assert_uint_lt(model->tail, QUEUE_MAX);
        model->came[model->tail++] = model->now;
    }
}

/* An acceptor takes up to n. */
static void take(unsigned n)
{
    for (; n > 0 && waiting() > 0; n--) {
        model->head++;
        accepted++;
    }
}

/* `ticks` pass; what came since the last one is noted at the last of them. */
static void tick(uint64_t ticks)
{
    model->now += ticks;
    model->standing = waiting() > 0 ? model->standing + 1 : 0;
    shedding_tick(&shedding, ticks, accepted, waiting());
}

/* Counted from the first tick that saw it. */
static bool is_head_older(uint64_t ticks)
{
    return waiting() > 0 && model->now - model->came[model->head] > ticks;
}

static bool is_due_by_age(void)
{
    return is_head_older(shedding.n_ticks) ||
           (model->standing > shedding.n_ticks && is_head_older(shedding.n_young_ticks));
}

static void expect(bool is_due, const char *when)
{
    ck_assert_msg(shedding_is_due(&shedding, accepted) == is_due, "tick %llu, %s: %u wait, %s expected",
                  (unsigned long long)model->now, when, waiting(), is_due ? "shedding" : "none");
}

/* --- bounds ----------------------------------------------------------------------- */

static const struct bound_row {
    uint64_t timeout_ms;
    size_t n_ticks, n_young_ticks;
} bound_rows[] = {
    { 0, 1, 1 },    { 1, 1, 1 },    { 20, 1, 1 },    { 39, 1, 1 },         { 200, 10, 1 },
    { 399, 19, 1 }, { 400, 20, 2 }, { 1000, 50, 5 }, { 60000, 3000, 300 },
};

START_TEST(a_timeout_has_whole_ticks_and_at_least_one)
{
    const struct bound_row *row = &bound_rows[_i];
    shedding_init(&shedding, row->timeout_ms);
    ck_assert_msg(shedding.n_ticks == row->n_ticks && shedding.n_young_ticks == row->n_young_ticks,
                  "%llu ms: %zu and %zu ticks, expected %zu and %zu", (unsigned long long)row->timeout_ms,
                  shedding.n_ticks, shedding.n_young_ticks, row->n_ticks, row->n_young_ticks);
}
END_TEST

/* --- what is shed ----------------------------------------------------------------- */

START_TEST(an_empty_queue_sheds_nothing)
{
    shedding_init(&shedding, 100);
    expect(false, "before the first tick");
    for (int i = 0; i < 100; i++) {
        tick(1);
        expect(false, "nobody waits");
        arrive(3);
        take(3);
    }
}
END_TEST

START_TEST(the_head_is_shed_when_it_is_older_than_the_timeout)
{
    shedding_init(&shedding, 1000);
    tick(1);
    arrive(2);
    for (int i = 0; i < 51; i++) {
        expect(false, "it is not old yet");
        tick(1);
    }
    expect(true, "51 ticks after it came");
    take(1);
    expect(true, "the second one is as old");
    take(1);
    expect(false, "nobody is left");
}
END_TEST

START_TEST(who_waits_at_the_start_is_given_the_whole_timeout)
{
    shedding_init(&shedding, 200);
    arrive(5); /* long ago, for all that is known */
    accepted = 12345;
    for (int i = 0; i < 10; i++) {
        tick(1);
        expect(false, "it was not watched for so long");
    }
    tick(1);
    expect(true, "it was watched for the timeout");
}
END_TEST

/* Behind one worker that takes each connection just as the next one comes. */
START_TEST(nothing_is_shed_at_full_capacity)
{
    shedding_init(&shedding, 200);
    arrive(1);
    for (int i = 0; i < 1000; i++) {
        tick(1);
        take(1);
        expect(false, "each waits for a tick at most");
        arrive(1);
    }
}
END_TEST

START_TEST(a_burst_that_workers_take_in_time_is_not_shed)
{
    shedding_init(&shedding, 1000);
    for (int round = 0; round < 5; round++) {
        arrive(49);
        for (int i = 0; i < 49; i++) {
            tick(1);
            take(1);
            expect(false, "one a tick");
        }
        tick(1);
        expect(false, "the burst is over");
    }
}
END_TEST

START_TEST(a_queue_that_stands_is_shed_at_a_tenth_of_the_timeout)
{
    shedding_init(&shedding, 1000);
    /* Two come and one is taken at each tick; shedding keeps the queue short. */
    for (int i = 0; i < 200; i++) {
        arrive(2);
        tick(1);
        take(1);
        while (shedding_is_due(&shedding, accepted))
            take(1);
        if (model->standing > 50 && waiting() > 0)
            ck_assert_msg(model->now - model->came[model->head] <= 6, "tick %d: the head is %llu ticks old",
                          i, (unsigned long long)(model->now - model->came[model->head]));
    }
    ck_assert_uint_gt(model->standing, 50);
    ck_assert_uint_le(waiting(), 12);
}
END_TEST

START_TEST(one_empty_tick_ends_a_standing_queue)
{
    shedding_init(&shedding, 200);
    for (int i = 0; i < 20; i++) {
        arrive(1);
        tick(1);
        take(1);
        arrive(1);
    }
    take(waiting());
    tick(1);
    arrive(1);
    for (int i = 0; i < 10; i++) {
        tick(1);
        expect(false, "the whole timeout counts again");
    }
    tick(1);
    expect(true, "the whole timeout is over");
}
END_TEST

/* --- missed ticks ------------------------------------------------------------------- */

START_TEST(missed_ticks_make_nobody_older_than_they_are)
{
    shedding_init(&shedding, 1000);
    tick(1);
    arrive(1); /* at once after a tick, and then we sleep */
    tick(1000);
    expect(false, "it may have come just now");
    for (int i = 0; i < 50; i++) {
        expect(false, "it is not known to be old");
        tick(1);
    }
    expect(true, "it has been watched for the timeout");
}
END_TEST

START_TEST(missed_ticks_count_for_who_was_seen_before_them)
{
    shedding_init(&shedding, 1000);
    arrive(1);
    tick(1);
    arrive(1);
    tick(50);
    expect(true, "the first was seen 50 ticks ago");
    take(1);
    expect(false, "the second was not");
}
END_TEST

static const struct random_row {
    unsigned seed;
    uint64_t timeout_ms;
    unsigned come_max, take_max; /* at a tick */
    bool sheds;                  /* what is due is taken */
} random_rows[] = {
    { 1, 20, 3, 3, false },   { 2, 40, 3, 2, false },   { 3, 100, 5, 5, false },
    { 4, 1000, 5, 4, false }, { 5, 1000, 3, 3, true },  { 6, 1000, 8, 3, true },
    { 7, 200, 8, 3, true },   { 8, 8000, 2, 0, false }, { 9, 500, 1, 1, true },
};

enum { N_RANDOM = sizeof(random_rows) / sizeof(random_rows[0]) };

START_TEST(the_decision_is_that_of_every_connections_age)
{
    const struct random_row *row = &random_rows[_i];
    unsigned due = 0, not_due = 0;

    srandom(row->seed);
    shedding_init(&shedding, row->timeout_ms);
    for (int i = 0; i < 20000; i++) {
        tick(1);
        bool is_calm = i / 500 % 2 == 0; /* the queue grows, and is worked off */
        for (;;) {
            bool is_due = is_due_by_age();
            expect(is_due, "as the model has it");
            due += is_due ? 1 : 0;
            not_due += is_due ? 0 : 1;
            if (!row->sheds || !is_due)
                break;
            take(1);
        }
        arrive((unsigned)random() % (row->come_max + 1));
        take((unsigned)random() % (row->take_max + 1) + (is_calm ? 2 : 0));
    }
    ck_assert_msg(due > 0 && not_due > 0, "it was due %u times and not due %u times: nothing was shown", due,
                  not_due);
}
END_TEST

START_TEST(with_missed_ticks_nobody_is_shed_before_their_time)
{
    unsigned due = 0;

    srandom((unsigned)_i);
    shedding_init(&shedding, 400);
    for (int i = 0; i < 20000; i++) {
        tick(random() % 10 == 0 ? 1 + (uint64_t)random() % 60 : 1);
        if (shedding_is_due(&shedding, accepted)) {
            due++;
            ck_assert_msg(is_due_by_age(), "tick %llu: the head is younger than that",
                          (unsigned long long)model->now);
        }
        arrive((unsigned)random() % 4);
        take((unsigned)random() % 4 + (i / 100 % 2 == 0 ? 1 : 0));
    }
    ck_assert_uint_gt(due, 0);
}
END_TEST

/* --- how long those waited who were accepted ---------------------------------------- */

static struct account {
    uint64_t from;  /* the count at the last account */
    uint64_t noted; /* connections told of */
    uint64_t longest;
    bool is_exact; /* no tick was missed */
} account;

/* Each of the `n` oldest that are not yet told of waited so long, or longer. */
static void note_waiting(void *ctx, uint64_t ticks, uint64_t n)
{
    struct account *a = ctx;
    for (; n > 0; n--, a->noted++) {
        uint64_t age = model->now - model->came[a->noted];
        uint64_t seen = age < shedding.n_ticks + 1 ? age : shedding.n_ticks + 1;
        bool is_as_expected = a->is_exact ? ticks == seen : ticks <= seen;
        ck_assert_msg(is_as_expected, "tick %llu: connection %llu waited %llu ticks, told are %llu",
                      (unsigned long long)model->now, (unsigned long long)a->noted, (unsigned long long)seen,
                      (unsigned long long)ticks);
    }
    a->longest = ticks > a->longest ? ticks : a->longest;
}

/* As the overflow process does it: those accepted since the last tick, then the tick. */
static void account_and_tick(uint64_t ticks)
{
    shedding_account(&shedding, account.from, accepted, note_waiting, &account);
    ck_assert_uint_eq(account.noted, accepted);
    account.from = accepted;
    tick(ticks);
}

static void begin_account(uint64_t timeout_ms, bool is_exact)
{
    shedding_init(&shedding, timeout_ms);
    account = (struct account){ .is_exact = is_exact };
}

START_TEST(who_comes_and_is_taken_between_two_ticks_has_not_waited)
{
    begin_account(1000, true);
    for (int i = 0; i < 200; i++) {
        arrive(5);
        take(5);
        account_and_tick(1);
    }
    ck_assert_uint_eq(account.noted, 1000);
    ck_assert_uint_eq(account.longest, 0);
}
END_TEST

START_TEST(each_tick_that_saw_a_connection_counts)
{
    begin_account(1000, true);
    account_and_tick(1);
    arrive(3);
    for (int i = 0; i < 7; i++)
        account_and_tick(1);
    take(2);
    account_and_tick(1);
    ck_assert_uint_eq(account.longest, 7);
    take(1);
    account_and_tick(1);
    ck_assert_uint_eq(account.longest, 8);
    ck_assert_uint_eq(account.noted, 3);
}
END_TEST

START_TEST(who_waits_longer_than_the_ring_counts_with_all_of_it)
{
    begin_account(200, true); /* 10 ticks, and one more in the ring */
    arrive(4);
    for (int i = 0; i < 500; i++)
        account_and_tick(1);
    take(4);
    account_and_tick(1);
    ck_assert_uint_eq(account.noted, 4);
    ck_assert_uint_eq(account.longest, 11);
}
END_TEST

START_TEST(missed_ticks_lose_nobody_and_make_nobodys_waiting_longer)
{
    begin_account(1000, false);
    account_and_tick(1);
    arrive(2);
    account_and_tick(40); /* 39 were missed: it is not known when they came */
    take(1);
    account_and_tick(1);
    ck_assert_uint_eq(account.longest, 1);
    take(1);
    account_and_tick(1000);
    ck_assert_uint_eq(account.longest, 2);
    ck_assert_uint_eq(account.noted, 2);
}
END_TEST

START_TEST(a_successor_goes_on_from_the_count_of_its_predecessor)
{
    begin_account(1000, false);
    for (int i = 0; i < 50; i++) {
        arrive(3);
        take(2);
        account_and_tick(1);
    }
    shedding_free(&shedding); /* it dies, and nobody watches for a while */
    arrive(7);
    take(20);
    shedding_init(&shedding, 1000);
    account_and_tick(1);
    ck_assert_uint_eq(account.noted, 120);
}
END_TEST

/* In long queues and short ones, with each connection's age. */
START_TEST(the_accounts_are_those_of_every_connection)
{
    const struct random_row *row = &random_rows[_i % N_RANDOM];
    bool is_exact = _i < N_RANDOM;

    srandom((unsigned)_i);
    begin_account(row->timeout_ms, is_exact);
    for (int i = 0; i < 20000; i++) {
        bool is_calm = i / 500 % 2 == 0;
        account_and_tick(is_exact || random() % 10 != 0 ? 1 : 1 + (uint64_t)random() % 60);
        arrive((unsigned)random() % (row->come_max + 1));
        take((unsigned)random() % (row->take_max + 1) + (is_calm ? 2 : 0));
    }
    ck_assert_uint_gt(account.noted, 1000);
    ck_assert_uint_gt(account.longest, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shedding");
    TCase *tcase = tcase_create("shedding");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_timeout_has_whole_ticks_and_at_least_one, 0,
                        sizeof(bound_rows) / sizeof(bound_rows[0]));
    tcase_add_test(tcase, an_empty_queue_sheds_nothing);
    tcase_add_test(tcase, the_head_is_shed_when_it_is_older_than_the_timeout);
    tcase_add_test(tcase, who_waits_at_the_start_is_given_the_whole_timeout);
    tcase_add_test(tcase, nothing_is_shed_at_full_capacity);
    tcase_add_test(tcase, a_burst_that_workers_take_in_time_is_not_shed);
    tcase_add_test(tcase, a_queue_that_stands_is_shed_at_a_tenth_of_the_timeout);
    tcase_add_test(tcase, one_empty_tick_ends_a_standing_queue);
    tcase_add_test(tcase, missed_ticks_make_nobody_older_than_they_are);
    tcase_add_test(tcase, missed_ticks_count_for_who_was_seen_before_them);
    tcase_add_loop_test(tcase, the_decision_is_that_of_every_connections_age, 0, N_RANDOM);
    tcase_add_loop_test(tcase, with_missed_ticks_nobody_is_shed_before_their_time, 0, 5);
    tcase_add_test(tcase, who_comes_and_is_taken_between_two_ticks_has_not_waited);
    tcase_add_test(tcase, each_tick_that_saw_a_connection_counts);
    tcase_add_test(tcase, who_waits_longer_than_the_ring_counts_with_all_of_it);
    tcase_add_test(tcase, missed_ticks_lose_nobody_and_make_nobodys_waiting_longer);
    tcase_add_test(tcase, a_successor_goes_on_from_the_count_of_its_predecessor);
    tcase_add_loop_test(tcase, the_accounts_are_those_of_every_connection, 0, 2 * N_RANDOM);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
