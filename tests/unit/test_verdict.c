#include <check.h>
#include <stdlib.h>

#include "core/route/verdict.h"

static const struct {
    enum verdict verdict;
    struct verdict_row expected;
} cases[] = {
    { VERDICT_OK, { "ok", NEXT_NONE, "none", true } },
    { VERDICT_AUTH, { "auth", NEXT_CANDIDATE, "config", false } },
    { VERDICT_QUOTA, { "quota", NEXT_CANDIDATE, "config", false } },
    { VERDICT_RATE, { "rate", NEXT_CANDIDATE, "upstream", true } },
    { VERDICT_SERVER, { "server", NEXT_CANDIDATE, "upstream", true } },
    { VERDICT_TIMEOUT, { "timeout", NEXT_CANDIDATE, "upstream", true } },
    { VERDICT_CONNECT, { "connect", NEXT_CANDIDATE, "upstream", true } },
    { VERDICT_CONFIG, { "config", NEXT_UPSTREAM, "config", false } },
    { VERDICT_CLIENT, { "client", NEXT_NONE, "client", false } },
    { VERDICT_OTHER, { "other", NEXT_NONE, "upstream", false } },
    { VERDICT_CANCELLED, { "cancelled", NEXT_NONE, "none", false } },
};

START_TEST(a_verdict_leads_to_its_next_step_fault_and_health)
{
    const struct verdict_row *row = verdict_row(cases[_i].verdict), *expected = &cases[_i].expected;
    ck_assert_str_eq(row->name, expected->name);
    ck_assert_msg(row->next == expected->next, "%s: next step %d, expected %d", row->name, row->next,
                  expected->next);
    ck_assert_msg(row->counts_for_health == expected->counts_for_health, "%s: counts_for_health", row->name);
    ck_assert_str_eq(row->fault, expected->fault);
}
END_TEST

START_TEST(every_verdict_has_a_row)
{
    ck_assert_uint_eq(sizeof(cases) / sizeof(cases[0]), VERDICT_COUNT);
    for (enum verdict v = 0; v < VERDICT_COUNT; v++)
        ck_assert_msg(verdict_row(v)->name != NULL && verdict_row(v)->fault != NULL, "verdict %d has no row",
                      v);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verdict");
    TCase *tcase = tcase_create("table");
    tcase_add_loop_test(tcase, a_verdict_leads_to_its_next_step_fault_and_health, 0,
                        (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_test(tcase, every_verdict_has_a_row);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
