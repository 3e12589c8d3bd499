/*
 * What children write on stderr, and what the master's stderr becomes of it: the
 * test's own stderr is a file for that time.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/json/scan.h"
#include "fcgi/engine/child_log.h"

enum { OUTPUT_BYTES = 8 * 1024 * 1024 };

static struct arena *arena;
static char path[64];
static int real_stderr;
static struct child_log child_log;
static bool has_ended;
static struct error e;

static void set_up(void)
{
    arena = arena_new();
    strcpy(path, "/tmp/test_child_log.XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    real_stderr = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
    log_init("prog");
    has_ended = false;
    ck_assert_int_eq(child_log_open(&child_log, &e), 0);
}

static void tear_down(void)
{
    if (!has_ended)
        child_log_end(&child_log);
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    unlink(path);
    arena_free(arena);
}

static void say(const void *bytes, size_t len)
{
    ck_assert_int_eq(file_write_all(child_log.write_fd, bytes, len), 0);
}

static void say_text(const char *text)
{
    say(text, strlen(text));
}

/* What the master wrote so far. */
static const char *output(void)
{
    struct span raw;
    ck_assert_int_eq(file_read(path, OUTPUT_BYTES, arena, &raw, &e), 0);
    return raw.ptr;
}

static void expect_output(const char *text)
{
    child_log_take(&child_log);
    const char *written = output();
    ck_assert_msg(strcmp(written, text) == 0, "\"%s\", expected \"%s\"", written, text);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n' ? 1 : 0;
    return n;
}

/* Each line is JSON and has no more than a line may have. */
static void expect_lines(size_t n)
{
    child_log_take(&child_log);
    const char *line = output();
    ck_assert_msg(count_lines(line) == n, "%zu lines, expected %zu: %s", count_lines(line), n, line);
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        struct span text = span_of(line, (size_t)(end - line));
        ck_assert_uint_lt(text.len, LOG_LINE_BYTES);
        int r = json_scan(text, NULL, 0, 0, NULL, NULL, NULL);
        ck_assert_msg(r == 0, "this is not JSON: %.*s", (int)text.len, text.ptr);
    }
    ck_assert_str_eq(line, "");
}

static void expect_member(const char *member)
{
    ck_assert_msg(strstr(output(), member) != NULL, "%s is not in: %s", member, output());
}

/* --- our own lines ------------------------------------------------------------- */

START_TEST(a_line_of_json_passes_as_it_is)
{
    say_text("{\"event\":\"a\", \"x\" : 1.50}\n");
    expect_output("{\"event\":\"a\", \"x\" : 1.50}\n");
}
END_TEST

START_TEST(lines_keep_their_order)
{
    say_text("{\"n\":1}\n{\"n\":2}\n");
    say_text("{\"n\":3}\n");
    expect_output("{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
}
END_TEST

START_TEST(a_line_in_pieces_waits_for_its_end)
{
    say_text("{\"n\"");
    expect_output("");
    say_text(":1}");
    expect_output("");
    say_text("\n{\"n\":");
    expect_output("{\"n\":1}\n");
    say_text("2}\n");
    expect_output("{\"n\":1}\n{\"n\":2}\n");
}
END_TEST

/* With its end, of as many bytes as given. */
static char *json_line(size_t len)
{
    char *line = arena_alloc(arena, len + 1);
    memset(line, 'x', len);
    memcpy(line, "{\"a\":\"", 6);
    memcpy(line + len - 3, "\"}\n", 3);
    line[len] = '\0';
    return line;
}

START_TEST(a_line_of_the_largest_size_passes_as_it_is)
{
    const char *line = json_line(LOG_LINE_BYTES);
    say_text(line);
    say_text("{\"n\":2}\n");
    expect_output(arena_printf(arena, "%s{\"n\":2}\n", line));
}
END_TEST

START_TEST(many_lines_at_once_all_pass)
{
    struct buf expected;
    buf_init(&expected, OUTPUT_BYTES);
    for (int i = 0; i < 2000; i++) {
        const char *line =
            arena_printf(arena, "{\"n\":%d,\"pad\":\"%.*s\"}\n", i, i % 90,
                         "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
                         "yyyyyyyyyyyyyyyyyyyyyy");
        say_text(line);
        buf_append_cstr(&expected, line);
        if (i % 300 == 0)
            child_log_take(&child_log); /* in the middle of some line, or not */
    }
    buf_append_char(&expected, '\0');
    expect_output(expected.data);
    buf_free(&expected);
}
END_TEST

/* --- other people's words ------------------------------------------------------------- */

START_TEST(other_text_becomes_a_line_of_the_log)
{
    say_text("free(): invalid pointer\n");
    expect_lines(1);
    expect_member("\"level\":\"warn\"");
    expect_member("\"program\":\"prog\"");
    expect_member("\"event\":\"child_stderr\"");
    expect_member("\"text\":\"free(): invalid pointer\"");
}
END_TEST

static const char *const blanks[] = { "\n", "\n\n\n", " \t\r\n", "\r\n" };

START_TEST(blank_lines_are_nothing)
{
    say_text(blanks[_i]);
    expect_output("");
}
END_TEST

static const char *const nearly_json[] = {
    "{\"a\":1} x\n", "x {\"a\":1}\n", "{\n", "}\n", "[1]\n",
};

START_TEST(what_only_resembles_our_lines_becomes_one)
{
    say_text(nearly_json[_i]);
    expect_lines(1);
    expect_member("child_stderr");
}
END_TEST

START_TEST(binary_becomes_valid_json)
{
    char bytes[257];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)(i == '\n' ? 0 : 255 - i);
    bytes[256 - 11] = 'n'; /* its LF */
    bytes[256] = '\n';
    say(bytes, sizeof(bytes));
    say("\0\0\n", 3);
    expect_lines(2);
}
END_TEST

START_TEST(a_line_without_an_end_becomes_several)
{
    char *text = arena_alloc(arena, 3 * LOG_LINE_BYTES);
    memset(text, 'z', 3 * LOG_LINE_BYTES);
    say(text, 3 * LOG_LINE_BYTES);
    expect_lines(3);
    say_text("the end of it\n");
    expect_lines(4);
    expect_member("\"text\":\"the end of it\"");
    say_text("{\"n\":1}\n");
    expect_lines(5);
    expect_member("\n{\"n\":1}\n");
}
END_TEST

START_TEST(json_that_is_too_long_for_a_line_is_no_line)
{
    say_text(json_line(LOG_LINE_BYTES + 1));
    say_text("{\"n\":1}\n");
    expect_lines(2);
    expect_member("child_stderr");
    expect_member("\n{\"n\":1}\n");
}
END_TEST

START_TEST(what_looks_like_a_credential_is_redacted)
{
    say_text("Authorization: Bearer sk-live-0123456789abcdef\n");
    expect_lines(1);
    ck_assert_msg(strstr(output(), "0123456789abcdef") == NULL, "%s", output());
    expect_member("[redacted]");
}
END_TEST

START_TEST(the_last_words_need_no_end)
{
    say_text("{\"n\":1}\n{\"n\":2}");
    has_ended = true;
    child_log_end(&child_log);
    const char *text = output();
    ck_assert_msg(count_lines(text) == 2, "not two lines: %s", text);
    ck_assert_int_eq(strncmp(text, "{\"n\":1}\n", 8), 0);
    expect_member("child_stderr");
    ck_assert_int_eq(fcntl(child_log.write_fd, F_GETFD), -1);
}
END_TEST

/* --- the pipe ----------------------------------------------------------------------- */

START_TEST(taking_does_not_wait)
{
    expect_output("");
    say_text("{\"half");
    expect_output("");
}
END_TEST

START_TEST(the_pipe_is_not_passed_to_other_programs)
{
    ck_assert_int_ne(fcntl(child_log.read_fd, F_GETFD) & FD_CLOEXEC, 0);
    ck_assert_int_ne(fcntl(child_log.write_fd, F_GETFD) & FD_CLOEXEC, 0);
}
END_TEST

START_TEST(a_childs_stderr_goes_to_the_master)
{
    pid_t pid = fork();
    if (pid == 0) {
        child_log_attach(&child_log);
        fputs("from stdio\n", stderr);
        log_line(LOG_INFO, "begun", "as child");
        _exit(fcntl(child_log.write_fd, F_GETFD) == -1 && fcntl(child_log.read_fd, F_GETFD) == -1 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the pipe's other descriptors are open");
    expect_lines(2);
    expect_member("\"text\":\"from stdio\"");
    expect_member("\"event\":\"begun\"");
    expect_member(arena_printf(arena, "\"pid\":%d", (int)pid));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("child_log");
    TCase *tcase = tcase_create("child_log");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_line_of_json_passes_as_it_is);
    tcase_add_test(tcase, lines_keep_their_order);
    tcase_add_test(tcase, a_line_in_pieces_waits_for_its_end);
    tcase_add_test(tcase, a_line_of_the_largest_size_passes_as_it_is);
    tcase_add_test(tcase, many_lines_at_once_all_pass);
    tcase_add_test(tcase, other_text_becomes_a_line_of_the_log);
    tcase_add_loop_test(tcase, blank_lines_are_nothing, 0, sizeof(blanks) / sizeof(blanks[0]));
    tcase_add_loop_test(tcase, what_only_resembles_our_lines_becomes_one, 0,
                        sizeof(nearly_json) / sizeof(nearly_json[0]));
    tcase_add_test(tcase, binary_becomes_valid_json);
    tcase_add_test(tcase, a_line_without_an_end_becomes_several);
    tcase_add_test(tcase, json_that_is_too_long_for_a_line_is_no_line);
    tcase_add_test(tcase, what_looks_like_a_credential_is_redacted);
    tcase_add_test(tcase, the_last_words_need_no_end);
    tcase_add_test(tcase, taking_does_not_wait);
    tcase_add_test(tcase, the_pipe_is_not_passed_to_other_programs);
    tcase_add_test(tcase, a_childs_stderr_goes_to_the_master);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
