#include <check.h>
#include <stdlib.h>

#include "fcgi/engine/pool.h"

enum { MS = 1000, S = 1000 * 1000 };

static const struct pool_policy fixed = { .mode = POOL_STATIC, .max = 16 };
static const struct pool_policy dynamic = {
    .mode = POOL_DYNAMIC, .max = 100, .min_spare = 2, .max_spare = 4
};
static const struct pool_policy on_demand = { .mode = POOL_ONDEMAND, .max = 8, .idle_timeout_us = 10 * S };

/* One look of a pool that has decided nothing before. */
static const struct look_row {
    const char *what;
    const struct pool_policy *policy;
    struct pool_facts facts;
    unsigned wanted;
} looks[] = {
    { "static: always as many", &fixed, { .running = 0 }, 16 },
    { "static: whatever waits", &fixed, { .running = 16, .waiting = 1000 }, 16 },
    { "static: whoever is idle", &fixed, { .running = 16, .idle = 16, .longest_idle_us = 1000 * S }, 16 },
    { "dynamic: the spare ones at first", &dynamic, { .running = 0 }, 2 },
    { "dynamic: those that start are spare", &dynamic, { .running = 2, .starting = 2 }, 2 },
    { "dynamic: all are busy", &dynamic, { .running = 10 }, 12 },
    { "dynamic: one is idle", &dynamic, { .running = 10, .idle = 1 }, 11 },
    { "dynamic: as many as may be", &dynamic, { .running = 10, .idle = 4 }, 10 },
    { "dynamic: more than may be", &dynamic, { .running = 10, .idle = 5 }, 9 },
    { "dynamic: many more, one leaves", &dynamic, { .running = 90, .idle = 90 }, 89 },
    { "dynamic: nobody leaves a queue", &dynamic, { .running = 10, .idle = 5, .waiting = 1 }, 10 },
    { "dynamic: not above the maximum", &dynamic, { .running = 99, .waiting = 50 }, 100 },
    { "dynamic: at the maximum", &dynamic, { .running = 100, .waiting = 50 }, 100 },
    { "ondemand: nobody is there for nobody", &on_demand, { .running = 0 }, 0 },
    { "ondemand: one for one", &on_demand, { .waiting = 1 }, 1 },
    { "ondemand: who starts takes who waits", &on_demand, { .running = 1, .starting = 1, .waiting = 1 }, 1 },
    { "ondemand: who is idle takes who waits", &on_demand, { .running = 1, .idle = 1, .waiting = 1 }, 1 },
    { "ondemand: one more than those that start",
      &on_demand,
      { .running = 1, .starting = 1, .waiting = 2 },
      2 },
    { "ondemand: idle, not for long", &on_demand, { .running = 3, .idle = 3, .longest_idle_us = 9 * S }, 3 },
    { "ondemand: idle for long", &on_demand, { .running = 3, .idle = 3, .longest_idle_us = 10 * S }, 2 },
    { "ondemand: all are busy", &on_demand, { .running = 3 }, 3 },
};

START_TEST(a_look_decides_from_what_there_is)
{
    const struct look_row *row = &looks[_i];
    struct pool pool = { 0 };
    unsigned wanted = pool_decide(&pool, row->policy, &row->facts);
    ck_assert_msg(wanted == row->wanted, "%s: %u, expected %u", row->what, wanted, row->wanted);
}
END_TEST

START_TEST(a_queue_that_stays_makes_it_rise_by_doubling_steps)
{
    static const unsigned expected[] = { 1, 3, 7, 15, 31, 63, 95, 100, 100 };
    const struct pool_policy policy = { .mode = POOL_ONDEMAND, .max = 100, .idle_timeout_us = S };
    struct pool_facts facts = { .now_us = S, .waiting = 1000 };
    struct pool pool = { 0 };

    for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        facts.running = pool_decide(&pool, &policy, &facts);
        ck_assert_msg(facts.running == expected[i], "step %u: %u, expected %u", i, facts.running,
                      expected[i]);
        facts.now_us += POOL_RISE_US;
    }
}
END_TEST

START_TEST(looks_between_two_steps_change_nothing)
{
    struct pool_facts facts = { .now_us = S, .waiting = 1000 };
    struct pool pool = { 0 };

    facts.running = pool_decide(&pool, &on_demand, &facts);
    facts.now_us += POOL_RISE_US - 1;
    ck_assert_uint_eq(pool_decide(&pool, &on_demand, &facts), 1);
    facts.now_us += 1;
    ck_assert_uint_eq(pool_decide(&pool, &on_demand, &facts), 3);
}
END_TEST

START_TEST(a_queue_that_was_empty_begins_with_one_again)
{
    struct pool_facts facts = { .now_us = S, .waiting = 1000 };
    struct pool pool = { 0 };

    for (int i = 0; i < 3; i++) {
        facts.running = pool_decide(&pool, &on_demand, &facts);
        facts.now_us += POOL_RISE_US;
    }
    facts.waiting = 0;
    ck_assert_uint_eq(pool_decide(&pool, &on_demand, &facts), 7);
    facts.waiting = 1000;
    ck_assert_uint_eq(pool_decide(&pool, &on_demand, &facts), 8);
}
END_TEST

START_TEST(one_leaves_a_second)
{
    struct pool_facts facts = { .now_us = S, .running = 20, .idle = 20 };
    struct pool pool = { 0 };

    for (unsigned i = 0; i < 100; i++) { /* ten seconds, ten looks each */
        unsigned wanted = pool_decide(&pool, &dynamic, &facts);
        ck_assert_uint_eq(wanted, i % 10 == 0 ? facts.running - 1 : facts.running);
        facts.running = facts.idle = wanted;
        facts.now_us += 100 * MS;
    }
    ck_assert_uint_eq(facts.running, 10);
}
END_TEST

/* After an upgrade, from `old` workers that serve, of which so many are idle, and long since. */
static const struct upgrade_row {
    const char *what;
    const struct pool_policy *policy;
    unsigned old, idle;
    bool can_begin; /* the new ones */
} upgrades[] = {
    { "static", &fixed, 16, 16, true },
    { "static, new ones fail", &fixed, 16, 16, false },
    { "dynamic, all are idle", &dynamic, 15, 15, true },
    { "dynamic, most are busy", &dynamic, 15, 2, true },
    { "dynamic, new ones fail", &dynamic, 15, 15, false },
    { "dynamic, one", &dynamic, 1, 1, true },
    { "ondemand, all are idle", &on_demand, 8, 8, true },
    { "ondemand, all are busy", &on_demand, 8, 0, true },
    { "ondemand, new ones fail", &on_demand, 8, 8, false },
};

START_TEST(an_upgrade_leaves_no_fewer_to_serve_and_those_that_fail_relieve_nobody)
{
    const struct upgrade_row *row = &upgrades[_i];
    struct pool pool = { .wanted = row->old };
    unsigned mine = 0, ready = 0, old = row->old, n_looks = 0;
    uint64_t now_us = 1000 * S;

    for (; old > 0 && n_looks < 1000; n_looks++, now_us += 20 * MS) {
        unsigned old_idle = old < row->idle ? old : row->idle;
        const struct pool_facts facts = {
            .now_us = now_us,
            .running = mine,
            .starting = mine - ready,
            .old = old,
            .idle = old_idle + ready,
            .longest_idle_us = 100 * S,
        };
        unsigned wanted = pool_decide(&pool, row->policy, &facts);
        ck_assert_msg(wanted >= row->old && wanted <= row->policy->max, "%s: look %u wants %u", row->what,
                      n_looks, wanted);
        if (mine < wanted)
            mine = wanted;
        else if (row->can_begin && ready < mine)
            ready++;
        while (old > 0 && ready + old > wanted)
            old--;
        ck_assert_msg(ready + old >= row->old, "%s: look %u leaves %u + %u", row->what, n_looks, ready, old);
    }
    ck_assert_msg(old == (row->can_begin ? 0 : row->old), "%s: %u old ones are left", row->what, old);
}
END_TEST

START_TEST(during_an_upgrade_it_rises_for_those_who_wait_and_falls_after_it)
{
    struct pool pool = { .wanted = 3 };
    struct pool_facts facts = { .now_us = S, .running = 3, .old = 3, .waiting = 2 };

    ck_assert_uint_eq(pool_decide(&pool, &on_demand, &facts), 4);
    facts =
        (struct pool_facts){ .now_us = 2 * S, .running = 4, .old = 1, .idle = 4, .longest_idle_us = 60 * S };
    ck_assert_uint_eq(pool_decide(&pool, &on_demand, &facts), 4);
    facts.old = 0;
    ck_assert_uint_eq(pool_decide(&pool, &on_demand, &facts), 3);
}
END_TEST

/* Whatever it sees, it stays within its bounds. */
START_TEST(no_facts_lead_out_of_the_bounds)
{
    static const struct pool_policy *const policies[] = { &fixed, &dynamic, &on_demand };
    struct pool pool = { 0 };
    struct pool_facts facts = { .now_us = S };

    srandom(4711);
    for (int i = 0; i < 100000; i++) {
        const struct pool_policy *policy = policies[random() % 3];
        facts.now_us += (uint64_t)random() % (2 * S);
        facts.running = (unsigned)random() % (policy->max + 1);
        facts.old = random() % 2 == 0 ? 0 : (unsigned)random() % (policy->max + 1);
        facts.idle = (unsigned)random() % (facts.running + 1);
        facts.starting = (unsigned)random() % (facts.running - facts.idle + 1);
        facts.waiting = (uint64_t)random() % 3 * (uint64_t)(random() % 200);
        facts.longest_idle_us = (uint64_t)random() % (20 * S);
        unsigned wanted = pool_decide(&pool, policy, &facts);
        ck_assert_uint_le(wanted, policy->max);
        if (policy->mode != POOL_STATIC && facts.old == 0)
            ck_assert_uint_ge(wanted + 1, facts.running);
    }
}
END_TEST

START_TEST(only_what_can_fall_or_lack_spare_ones_is_looked_at)
{
    ck_assert(!pool_needs_looks(&fixed, 16));
    ck_assert(pool_needs_looks(&dynamic, 0));
    ck_assert(!pool_needs_looks(&on_demand, 0)); /* a queue wakes the master */
    ck_assert(pool_needs_looks(&on_demand, 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("pool");

    tcase_add_loop_test(tcase, a_look_decides_from_what_there_is, 0, sizeof(looks) / sizeof(looks[0]));
    tcase_add_test(tcase, a_queue_that_stays_makes_it_rise_by_doubling_steps);
    tcase_add_test(tcase, looks_between_two_steps_change_nothing);
    tcase_add_test(tcase, a_queue_that_was_empty_begins_with_one_again);
    tcase_add_test(tcase, one_leaves_a_second);
    tcase_add_loop_test(tcase, an_upgrade_leaves_no_fewer_to_serve_and_those_that_fail_relieve_nobody, 0,
                        sizeof(upgrades) / sizeof(upgrades[0]));
    tcase_add_test(tcase, during_an_upgrade_it_rises_for_those_who_wait_and_falls_after_it);
    tcase_add_test(tcase, no_facts_lead_out_of_the_bounds);
    tcase_add_test(tcase, only_what_can_fall_or_lack_spare_ones_is_looked_at);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
