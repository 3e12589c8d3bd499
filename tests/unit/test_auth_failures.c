/* Failed authentications: counted by source, for a minute, without keeping anybody else out. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/auth_failures.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { LIMIT = 5 };

static struct auth_failures failures;

static void set_up(void)
{
    memset(&failures, 0, sizeof(failures));
}

static unsigned note(const char *address, uint64_t now_s)
{
    return auth_failures_note(&failures, address, now_s, LIMIT);
}

static void use_up(const char *address, uint64_t now_s)
{
    for (int i = 0; i < LIMIT; i++)
        ck_assert_uint_eq(note(address, now_s), 0);
}

START_TEST(who_fails_too_often_waits_for_the_rest_of_the_minute)
{
    use_up("192.0.2.1", 1000);
    ck_assert_uint_eq(note("192.0.2.1", 1000), 60);
    ck_assert_uint_eq(note("192.0.2.1", 1045), 15);
    ck_assert_uint_eq(note("192.0.2.1", 1059), 1);
    use_up("192.0.2.1", 1060);
    ck_assert_uint_eq(note("192.0.2.1", 1061), 59);
}
END_TEST

static const struct {
    const char *one, *other;
    bool is_same;
} sources[] = {
    { "192.0.2.1", "192.0.2.2", false },
    { "2001:db8::1", "2001:db8::ffff:2", true },
    { "2001:db8:0:1::1", "2001:db8:0:2::1", false },
    { "::ffff:192.0.2.1", "192.0.2.1", true },
    { "::ffff:192.0.2.1", "::ffff:192.0.2.2", false },
    { NULL, "", true },
    { "nonsense", NULL, true },
    { NULL, "0.0.0.0", false },
};

START_TEST(an_address_is_a_source_and_of_ipv6_a_network)
{
    use_up(sources[_i].one, 1000);
    bool is_counted = note(sources[_i].other, 1000) > 0;
    ck_assert_msg(is_counted == sources[_i].is_same, "%s and %s", sources[_i].one, sources[_i].other);
}
END_TEST

START_TEST(many_sources_make_nobody_wait_who_has_not_failed)
{
    char address[32];
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(address, sizeof(address), "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        ck_assert_uint_eq(note(address, 1000 + i / 1000), 0);
    }
    use_up("192.0.2.1", 1030);
    ck_assert_uint_eq(note("192.0.2.1", 1030), 60);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("auth_failures");
    TCase *tests = tcase_create("auth_failures");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, who_fails_too_often_waits_for_the_rest_of_the_minute);
    tcase_add_loop_test(tests, an_address_is_a_source_and_of_ipv6_a_network, 0, COUNT(sources));
    tcase_add_test(tests, many_sources_make_nobody_wait_who_has_not_failed);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
