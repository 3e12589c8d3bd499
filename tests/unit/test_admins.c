/* Who is an administrator. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/admit/admins.h"

#define COUNT(rows) ((int)(sizeof(rows) / sizeof((rows)[0])))

static char path[] = "/tmp/test_admins.XXXXXX";
static struct admins admins;
static struct error e;

static void write_token(const char *content)
{
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, content, strlen(content)), (int)strlen(content));
    close(fd);
}

static void set_up(void)
{
    admins = (struct admins){ .emails = NULL };
}

static void tear_down(void)
{
    unlink(path);
}

static const struct {
    const char *content, *token;
    bool is_it;
} tokens[] = {
    { "0123456789abcdef", "0123456789abcdef", true },
    { "0123456789abcdef\n", "0123456789abcdef", true },
    { "  0123456789abcdef \r\n", "0123456789abcdef", true },
    { "0123456789abcdef", "0123456789abcdeF", false },
    { "0123456789abcdef", "0123456789abcdef0", false },
    { "0123456789abcdef", "0123456789abcde", false },
    { "0123456789abcdef", "", false },
};

START_TEST(the_token_is_the_files_content_without_space_around_it)
{
    write_token(tokens[_i].content);
    ck_assert_int_eq(admins_read(path, NULL, &admins, &e), 0);
    ck_assert_msg(admins_have_token(&admins, span_cstr(tokens[_i].token)) == tokens[_i].is_it,
                  "\"%s\", \"%s\"", tokens[_i].content, tokens[_i].token);
    ck_assert(!admins_have_user(&admins, "ada@example.org"));
}
END_TEST

START_TEST(a_token_that_is_short_or_cannot_be_read_is_refused)
{
    char expected[128];

    write_token(" 0123456789abcde\n");
    snprintf(expected, sizeof(expected), "%s holds 15 bytes; a token has at least 16", path);
    ck_assert_int_eq(admins_read(path, "ada@example.org", &admins, &e), ERR_FORMAT);
    ck_assert_str_eq(e.text, expected);
    ck_assert(!admins_have_user(&admins, "ada@example.org"));
    ck_assert_int_eq(admins_read("/no/such/file", NULL, &admins, &e), ERR_NOT_FOUND);
    ck_assert_msg(strstr(e.text, "/no/such/file") != NULL, "%s", e.text);
    ck_assert(!admins_have_token(&admins, span_cstr("")));
}
END_TEST

static const struct {
    const char *emails, *user;
    bool is_listed;
} users[] = {
    { "ada@example.org", "ada@example.org", true },
    { "ada@example.org", "ADA@Example.Org", true },
    { "ada@example.org", "da@example.org", false },
    { "ada@example.org", "ada@example.org2", false },
    { "eve@example.org, ada@example.org ,x", "ada@example.org", true },
    { "eve@example.org,,ada@example.org,", "ada@example.org", true },
    { "eve@example.org,,ada@example.org,", "", false },
    { "eve@example.org,ada@example.org", "eve@example.org,ada@example.org", false },
    { "", "ada@example.org", false },
    { NULL, "ada@example.org", false },
    { "ada@example.org", NULL, false },
};

START_TEST(a_user_is_one_whom_the_list_names)
{
    ck_assert_int_eq(admins_read(NULL, users[_i].emails, &admins, &e), 0);
    ck_assert_msg(admins_have_user(&admins, users[_i].user) == users[_i].is_listed, "\"%s\" in \"%s\"",
                  users[_i].user, users[_i].emails);
    ck_assert(!admins_have_token(&admins, span_cstr("0123456789abcdef")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admins");
    TCase *tcase = tcase_create("admins");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, the_token_is_the_files_content_without_space_around_it, 0, COUNT(tokens));
    tcase_add_test(tcase, a_token_that_is_short_or_cannot_be_read_is_refused);
    tcase_add_loop_test(tcase, a_user_is_one_whom_the_list_names, 0, COUNT(users));
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
