#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/version.h"
#include "fcgi/engine/settings.h"

/* An object of its own kind for each test, also where a row has no default. */
struct program_settings {
    const char *text;
    const char *plain; /* no environment, no default */
    int64_t number;
    int64_t signed_number;
};

#define PLACE(member) offsetof(struct program_settings, member)

static const struct setting rows[] = {
    { "text", "TEST_TEXT", SETTING_TEXT, "fallback", 0, 0, "WORD", "a word", PLACE(text) },
    { "text-plain", NULL, SETTING_TEXT, NULL, 0, 0, "PATH", "a path without a default", PLACE(plain) },
    { "number", "TEST_NUMBER", SETTING_NUMBER, "16", 1, 4096, "N", "a number", PLACE(number) },
    { "signed", NULL, SETTING_NUMBER, "0", -5, INT64_MAX, "N", "may be negative", PLACE(signed_number) },
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]), ARGS_MAX = 8, SAID_BYTES = 8192 };

static struct program_settings got;
static char said_out[SAID_BYTES], said_err[SAID_BYTES];

static int capture(int fd, FILE *into)
{
    int kept = dup(fd);
    ck_assert_int_ge(kept, 0);
    ck_assert_int_ge(dup2(fileno(into), fd), 0);
    return kept;
}

static void release(int fd, int kept, FILE *from, char said[SAID_BYTES])
{
    ck_assert_int_ge(dup2(kept, fd), 0);
    close(kept);
    rewind(from);
    said[fread(said, 1, SAID_BYTES - 1, from)] = '\0';
    fclose(from);
}

/* Reads the given flags; what is said goes to said_out and said_err. */
static enum settings_result read_with(const char *const *args)
{
    char *argv[ARGS_MAX + 1] = { (char *)(uintptr_t) "test-program" };
    int argc = 1;
    FILE *out = tmpfile(), *err = tmpfile();

    while (args[argc - 1] != NULL && argc < ARGS_MAX) {
        argv[argc] = (char *)(uintptr_t)args[argc - 1];
        argc++;
    }
    got = (struct program_settings){ .number = -1 };
    int kept_out = capture(STDOUT_FILENO, out), kept_err = capture(STDERR_FILENO, err);
    enum settings_result r = settings_read(rows, N_ROWS, "test-program", "tests settings", argc, argv, &got);
    fflush(stdout);
    release(STDOUT_FILENO, kept_out, out, said_out);
    release(STDERR_FILENO, kept_err, err, said_err);
    return r;
}

static void set_up(void)
{
    unsetenv("TEST_TEXT");
    unsetenv("TEST_NUMBER");
}

static const struct good_row {
    const char *environment_text, *environment_number; /* NULL: not set */
    const char *args[ARGS_MAX];
    const char *text, *plain;
    int64_t number, signed_number;
} good_rows[] = {
    { NULL, NULL, { NULL }, "fallback", NULL, 16, 0 },
    { "from environment", "7", { NULL }, "from environment", NULL, 7, 0 },
    { "", "", { NULL }, "fallback", NULL, 16, 0 }, /* empty is not set */
    { "from environment", "7", { "--text", "flag", "--number", "9" }, "flag", NULL, 9, 0 },
    { "from environment", "7", { "--text=flag", "--number=9" }, "flag", NULL, 9, 0 },
    { NULL, NULL, { "--text=", "--text-plain=a=b" }, "", "a=b", 16, 0 },
    { NULL, NULL, { "--text-plain", "--text" }, "fallback", "--text", 16, 0 }, /* a value may look like a flag
                                                                                */
    { NULL, NULL, { "--text", "first", "--text", "second" }, "second", NULL, 16, 0 },
    { NULL, NULL, { "--number", "1", "--signed", "-5" }, "fallback", NULL, 1, -5 },
    { NULL, NULL, { "--number", "4096", "--signed=9223372036854775807" }, "fallback", NULL, 4096, INT64_MAX },
};

START_TEST(flags_override_the_environment_which_overrides_the_default)
{
    const struct good_row *row = &good_rows[_i];
    if (row->environment_text != NULL)
        setenv("TEST_TEXT", row->environment_text, 1);
    if (row->environment_number != NULL)
        setenv("TEST_NUMBER", row->environment_number, 1);
    ck_assert_msg(read_with(row->args) == SETTINGS_RUN, "%s", said_err);
    ck_assert_str_eq(got.text, row->text);
    ck_assert_pstr_eq(got.plain, row->plain);
    ck_assert_int_eq(got.number, row->number);
    ck_assert_int_eq(got.signed_number, row->signed_number);
    ck_assert_str_eq(said_err, "");
    ck_assert_str_eq(said_out, "");
}
END_TEST

static const struct bad_row {
    const char *environment_number;
    const char *args[ARGS_MAX];
    const char *said[3]; /* parts of the message */
} bad_rows[] = {
    { NULL, { "--unknown", "1" }, { "--unknown" } },
    { NULL, { "--unknown=1" }, { "--unknown=1" } },
    { NULL, { "--numb", "1" }, { "--numb", "is unknown" } },
    { NULL, { "--numberr=1" }, { "--numberr=1" } },
    { NULL, { "--number" }, { "--number", "needs a value" } },
    { NULL, { "--text", "x", "--text" }, { "--text" } },
    { NULL, { "number", "1" }, { "number" } },
    { NULL, { "-number", "1" }, { "-number" } },
    { NULL, { "--number", "3", "4" }, { "\"4\"" } },
    { NULL, { "--" }, { "--" } },
    { NULL, { "--number", "" }, { "--number", "1", "4096" } },
    { NULL, { "--number=" }, { "--number", "1", "4096" } },
    { NULL, { "--number", "x" }, { "\"x\"", "1", "4096" } },
    { NULL, { "--number", "1x" }, { "\"1x\"", "1", "4096" } },
    { NULL, { "--number", "1.5" }, { "\"1.5\"", "1", "4096" } },
    { NULL, { "--number", "0x10" }, { "\"0x10\"", "1", "4096" } },
    { NULL, { "--number", "0" }, { "\"0\"", "1", "4096" } },
    { NULL, { "--number", "-1" }, { "\"-1\"", "1", "4096" } },
    { NULL, { "--number", "4097" }, { "\"4097\"", "1", "4096" } },
    { NULL, { "--signed", "-6" }, { "\"-6\"", "-5" } },
    { NULL, { "--signed", "9223372036854775808" }, { "--signed", "9223372036854775808" } },
    { "many", { NULL }, { "TEST_NUMBER", "\"many\"", "4096" } },
    { "5000", { NULL }, { "TEST_NUMBER", "\"5000\"", "4096" } },
};

START_TEST(a_flag_or_value_that_means_nothing_is_refused_and_named)
{
    const struct bad_row *row = &bad_rows[_i];
    if (row->environment_number != NULL)
        setenv("TEST_NUMBER", row->environment_number, 1);
    ck_assert_msg(read_with(row->args) == SETTINGS_EXIT_USAGE, "%s %s was taken", row->args[0], row->args[1]);
    for (size_t i = 0; i < 3 && row->said[i] != NULL; i++)
        ck_assert_msg(strstr(said_err, row->said[i]) != NULL, "\"%s\" is not in: %s", row->said[i], said_err);
    ck_assert_msg(strncmp(said_err, "test-program: ", 14) == 0, "%s", said_err);
    ck_assert_msg(strchr(said_err, '\n') == said_err + strlen(said_err) - 1, "not one line: %s", said_err);
    ck_assert_str_eq(said_out, "");
}
END_TEST

static const char *const help_args[][ARGS_MAX] = { { "--help" },
                                                   { "--number", "x", "--help" },
                                                   { "--help", "--version" } };

START_TEST(help_lists_every_setting_with_its_default_and_its_variable)
{
    struct arena *arena = arena_new();

    ck_assert_int_eq(read_with(help_args[_i]), SETTINGS_EXIT_OK);
    ck_assert_ptr_nonnull(strstr(said_out, "test-program"));
    ck_assert_ptr_nonnull(strstr(said_out, "tests settings"));
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct setting *row = &rows[i];
        const char *line = strstr(said_out, arena_printf(arena, "--%s %s ", row->flag, row->value_name));
        ck_assert_msg(line != NULL, "--%s is not in:\n%s", row->flag, said_out);
        ck_assert_msg(strstr(line, row->help) != NULL, "no text for --%s", row->flag);
        if (row->fallback != NULL)
            ck_assert_msg(strstr(line, arena_printf(arena, "(%s)\n", row->fallback)) != NULL, "--%s",
                          row->flag);
        if (row->environment != NULL)
            ck_assert_msg(strstr(line, row->environment) != NULL, "--%s", row->flag);
    }
    ck_assert_ptr_nonnull(strstr(said_out, "--help"));
    ck_assert_ptr_nonnull(strstr(said_out, "--version"));
    ck_assert_str_eq(said_err, "");
    arena_free(arena);
}
END_TEST

START_TEST(version_names_program_and_version)
{
    static const char *const args[] = { "--version", NULL };
    ck_assert_int_eq(read_with(args), SETTINGS_EXIT_OK);
    ck_assert_str_eq(said_out, "test-program " LLM_ROUTER_VERSION "\n");
}
END_TEST

static const struct check_row {
    const char *args[ARGS_MAX];
    enum settings_result result;
} check_rows[] = {
    { { "--check" }, SETTINGS_CHECK },
    { { "--number", "3", "--check" }, SETTINGS_CHECK },
    { { "--check", "--number", "3" }, SETTINGS_CHECK },
    { { "--text", "--check" }, SETTINGS_RUN }, /* a value */
    { { "--check", "--number", "x" }, SETTINGS_EXIT_USAGE },
    { { "--check", "--unknown" }, SETTINGS_EXIT_USAGE },
};

START_TEST(a_check_reads_the_settings_like_a_start)
{
    const struct check_row *row = &check_rows[_i];
    enum settings_result r = read_with(row->args);
    ck_assert_msg(r == row->result, "%s %s: %d", row->args[0], row->args[1], (int)r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("settings");
    TCase *tcase = tcase_create("settings");

    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_loop_test(tcase, flags_override_the_environment_which_overrides_the_default, 0,
                        sizeof(good_rows) / sizeof(good_rows[0]));
    tcase_add_loop_test(tcase, a_flag_or_value_that_means_nothing_is_refused_and_named, 0,
                        sizeof(bad_rows) / sizeof(bad_rows[0]));
    tcase_add_loop_test(tcase, help_lists_every_setting_with_its_default_and_its_variable, 0,
                        sizeof(help_args) / sizeof(help_args[0]));
    tcase_add_loop_test(tcase, a_check_reads_the_settings_like_a_start, 0,
                        sizeof(check_rows) / sizeof(check_rows[0]));
    tcase_add_test(tcase, version_names_program_and_version);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
