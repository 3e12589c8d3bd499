/* Hedging in the attempt loop: when a second attempt is begun beside the first, whose outcome decides, and
 * what the chain does after them. */
#include "tests/unit/loop_script.h"

enum { HEDGE_MS = 1, CHAIN_US = 100 * 1000 };

/* The model, which hedges. */
static struct plan_facts hedged(const char *name, const char *triggers)
{
    struct plan_facts facts = facts_of(name, triggers);
    struct snap_model *model = arena_new_of(arena, struct snap_model);
    *model = *facts.model;
    model->hedge_after_ms = HEDGE_MS;
    facts.model = model;
    return facts;
}

static const struct {
    const char *model, *triggers, *script, *tried;
    enum loop_end end;
    const char *refusal; /* whose is passed through; LOOP_REFUSED */
    unsigned tried_keys; /* LOOP_FAILED */
    const char *last_status;
    bool is_cancelled; /* an attempt that ran was ended by the loop */
} races[] = {
    /* nobody is late */
    { "three", NULL, "ok", "a1", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "server ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, false },
    /* one of two answers: the other, which has been ended, is left to cancel */
    { "three", NULL, "late ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, true },
    { "three", NULL, "late +ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, true },
    { "three", NULL, "late +cut", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, true },
    { "three", NULL, "late cut", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, true },
    /* the first fails: the other is the chain's next */
    { "three", NULL, "late server +ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "late server +server ok", "a1 a2 b1", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "late config404 +ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "late config404 +server ok", "a1 a2 b1", LOOP_ANSWERED, NULL, 0, NULL, false },
    /* the other fails: the first goes on, and who has failed is not tried again */
    { "three", NULL, "late +server ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "late +server server ok", "a1 a2 b1", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "late +auth auth auth config404 server", "a1 a2 b1 b2 c1", LOOP_FAILED, NULL, 5, "500",
      false },
    { "two", NULL, "late +server timeout", "t1 t2", LOOP_FAILED, NULL, 2, "500", false },
    { "two", NULL, "late timeout +server", "t1 t2", LOOP_FAILED, NULL, 2, "500", false },
    /* what would end the chain ends nothing that the first may answer */
    { "three", NULL, "late +client400 ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "late +lost_key ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "late +other418 ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "late +other418 server", "a1 a2", LOOP_FAILED, NULL, 2, "418", false },
    { "three", NULL, "late +client400 server", "a1 a2", LOOP_REFUSED, "a2", 0, NULL, false },
    /* what ends it after the first, ends the other */
    { "three", NULL, "late client400", "a1 a2", LOOP_REFUSED, "a1", 0, NULL, true },
    { "three", NULL, "late other418", "a1 a2", LOOP_FAILED, NULL, 1, "418", true },
    { "three", "{\"onTimeout\":false}", "late timeout", "a1 a2", LOOP_FAILED, NULL, 1, "timeout", true },
    { "three", "{\"onTimeout\":false}", "late +server timeout", "a1 a2", LOOP_FAILED, NULL, 1, "timeout",
      false },
    /* the other's is the second opinion on the first's refusal */
    { "three", NULL, "late unproven400 +ok", "a1 a2", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "three", NULL, "late unproven400 +unproven422", "a1 a2", LOOP_REFUSED, "a1", 0, NULL, false },
    { "three", NULL, "late +unproven422 unproven400", "a1 a2", LOOP_REFUSED, "a1", 0, NULL, false },
    { "three", NULL, "late unproven400 +server ok", "a1 a2 c1", LOOP_ANSWERED, NULL, 0, NULL, false },
    /* the caller leaves */
    { "three", NULL, "late cancelled", "a1 a2", LOOP_CANCELLED, NULL, 0, NULL, true },
    { "three", NULL, "late +cancelled", "a1 a2", LOOP_CANCELLED, NULL, 0, NULL, true },
    { "three", NULL, "late +server cancelled", "a1 a2", LOOP_CANCELLED, NULL, 0, NULL, false },
    { "three", NULL, "late server +left", "a1 a2", LOOP_CANCELLED, NULL, 0, NULL, false },
    /* there is nobody else */
    { "one", NULL, "late ok", "o1", LOOP_ANSWERED, NULL, 0, NULL, false },
    { "one", NULL, "late server", "o1", LOOP_FAILED, NULL, 1, "500", false },
};

START_TEST(who_answers_first_has_answered_and_failures_count_in_the_order_of_the_plan)
{
    struct plan_facts facts = hedged(races[_i].model, races[_i].triggers);
    struct script script = { .rest = races[_i].script, .deadline_us = CHAIN_US };
    struct loop_result result = run(&facts, &script);
    ck_assert_msg(strcmp(script.tried, races[_i].tried) == 0, "%s: tried %s, expected %s", races[_i].script,
                  script.tried, races[_i].tried);
    ck_assert_msg(result.end == races[_i].end, "%s: end %d", races[_i].script, result.end);
    ck_assert_str_eq(script.rest, "");
    ck_assert_msg(script.is_cancelled == races[_i].is_cancelled, "%s: %s", races[_i].script,
                  script.is_cancelled ? "one was cancelled" : "none was cancelled");
    if (result.end == LOOP_REFUSED)
        ck_assert_msg(span_is(result.refusal.refusal_body, races[_i].refusal), "%s: the refusal of %.*s",
                      races[_i].script, (int)result.refusal.refusal_body.len,
                      result.refusal.refusal_body.ptr);
    if (result.end == LOOP_FAILED) {
        ck_assert_msg(result.failure.tried_keys == races[_i].tried_keys, "%s: %u keys", races[_i].script,
                      result.failure.tried_keys);
        ck_assert_str_eq(result.failure.last_status, races[_i].last_status);
    }
}
END_TEST

START_TEST(it_is_begun_when_the_first_has_produced_nothing_for_so_long)
{
    struct plan_facts facts = hedged("three", NULL);
    struct script script = { .rest = "ok", .now_us = 77, .deadline_us = CHAIN_US };
    run(&facts, &script);
    ck_assert_uint_eq(script.hedge_us, 77 + HEDGE_MS * 1000);
    ck_assert_uint_eq(script.asked_beside, 0);
}
END_TEST

START_TEST(only_the_first_attempt_of_a_chain_gets_one_and_only_once)
{
    struct plan_facts facts = hedged("three", NULL);
    struct script script = { .rest = "server server ok", .deadline_us = CHAIN_US };
    run(&facts, &script);
    ck_assert_uint_lt(script.hedge_us, UINT64_MAX);
    ck_assert_uint_eq(script.last_until_us, UINT64_MAX);
    script = (struct script){ .rest = "late server +server ok", .deadline_us = CHAIN_US };
    run(&facts, &script);
    ck_assert_uint_eq(script.asked_beside, 1);
    ck_assert_uint_eq(script.last_until_us, UINT64_MAX);
}
END_TEST

START_TEST(without_the_member_nothing_is_waited_for_but_the_attempt)
{
    struct plan_facts facts = facts_of("three", NULL);
    struct script script = { .rest = "server ok", .deadline_us = CHAIN_US };
    run(&facts, &script);
    ck_assert_uint_eq(script.hedge_us, UINT64_MAX);
}
END_TEST

START_TEST(one_that_may_not_be_begun_is_left_for_its_turn)
{
    struct plan_facts facts = hedged("three", NULL);
    struct script script = { .rest = "late server ok", .refuses_beside = true, .deadline_us = CHAIN_US };
    struct loop_result result = run(&facts, &script);
    ck_assert_int_eq(result.end, LOOP_ANSWERED);
    ck_assert_str_eq(script.tried, "a1 a2");
    ck_assert_uint_eq(script.asked_beside, 1);
}
END_TEST

START_TEST(none_is_begun_when_the_chains_time_is_up)
{
    struct plan_facts facts = hedged("three", NULL);
    struct script script = { .rest = "late timeout", .deadline_us = HEDGE_MS * 1000 };
    struct loop_result result = run(&facts, &script);
    ck_assert_int_eq(result.end, LOOP_FAILED);
    ck_assert_uint_eq(script.asked_beside, 0);
}
END_TEST

START_TEST(the_first_that_has_a_slot_is_the_one_that_gets_it)
{
    struct plan_facts facts = hedged("three", NULL);
    struct script script = { .rest = "late +ok", .refused = "A", .deadline_us = CHAIN_US };
    struct loop_result result = run(&facts, &script);
    ck_assert_int_eq(result.end, LOOP_ANSWERED);
    ck_assert_str_eq(script.tried, "b1 b2");
    ck_assert_str_eq(script.asked, "AB"); /* for one beside another, it is admit_beside that is asked */
}
END_TEST

/* Failures after which the next candidate is the next in the order, and ends of the chain. */
static const char *const plain_failures[] = { "server",    "timeout",  "rate9",   "rate3",
                                              "auth",      "quota403", "reset",   "refused",
                                              "client400", "other418", "lost_key" };

/* Whichever of two attempts that answer nothing ends first, the chain goes as without hedging. */
START_TEST(failures_mean_what_they_mean_one_after_the_other)
{
    struct plan_facts alone = facts_of("three", NULL), both = hedged("three", NULL);

    for (size_t i = 0; i < COUNT(plain_failures) * COUNT(plain_failures); i++) {
        const char *first = plain_failures[i / COUNT(plain_failures)],
                   *second = plain_failures[i % COUNT(plain_failures)];
        const char *in_order = arena_printf(arena, "%s %s config404 ok", first, second);
        struct script in_turn = { .rest = in_order, .deadline_us = CHAIN_US };
        struct loop_result expected = run(&alone, &in_turn);
        const char *orders[] = { arena_printf(arena, "late %s +%s config404 ok", first, second),
                                 arena_printf(arena, "late +%s %s config404 ok", second, first) };
        for (size_t k = 0; k < COUNT(orders); k++) {
            struct script script = { .rest = orders[k], .deadline_us = CHAIN_US };
            struct loop_result result = run(&both, &script);
            ck_assert_msg(result.end == expected.end, "%s: end %d, expected %d", orders[k], result.end,
                          expected.end);
            ck_assert_msg(result.attempts == expected.attempts, "%s: %u attempts, expected %u", orders[k],
                          result.attempts, expected.attempts);
            ck_assert_int_eq(result.failure.kind, expected.failure.kind);
            ck_assert_str_eq(result.failure.last_status, expected.failure.last_status);
            ck_assert_uint_eq(result.failure.tried_keys, expected.failure.tried_keys);
            ck_assert_uint_eq(result.failure.tried_upstreams, expected.failure.tried_upstreams);
            ck_assert_uint_eq(result.failure.retry_after_s, expected.failure.retry_after_s);
            ck_assert_int_eq(result.failure.no_retry, expected.failure.no_retry);
            ck_assert(span_eq(result.refusal.refusal_body, expected.refusal.refusal_body));
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loop_hedge");
    TCase *tcase = tcase_create("races");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, who_answers_first_has_answered_and_failures_count_in_the_order_of_the_plan, 0,
                        (int)COUNT(races));
    tcase_add_test(tcase, it_is_begun_when_the_first_has_produced_nothing_for_so_long);
    tcase_add_test(tcase, only_the_first_attempt_of_a_chain_gets_one_and_only_once);
    tcase_add_test(tcase, without_the_member_nothing_is_waited_for_but_the_attempt);
    tcase_add_test(tcase, one_that_may_not_be_begun_is_left_for_its_turn);
    tcase_add_test(tcase, none_is_begun_when_the_chains_time_is_up);
    tcase_add_test(tcase, the_first_that_has_a_slot_is_the_one_that_gets_it);
    tcase_add_test(tcase, failures_mean_what_they_mean_one_after_the_other);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
