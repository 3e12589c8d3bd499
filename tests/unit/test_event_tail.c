#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/ctl/event_tail.h"
#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/record/event.h"

enum { ALL_BYTES = 1 << 30 };

static struct arena *arena;
static char dir[64];
static struct event_tail tail;
static struct error e;

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_event_tail.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    tail = (struct event_tail){ .fd = -1 };
}

static void tear_down(void)
{
    event_tail_close(&tail);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static const char *path_of(const char *name)
{
    return arena_printf(arena, "%s/spool/%s", dir, name);
}

static void append_to(const char *name, const char *text)
{
    ck_assert_int_eq(file_make_dirs(arena_printf(arena, "%s/spool", dir), 0700, &e), 0);
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(file_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void append(unsigned segment, const char *text)
{
    append_to(arena_printf(arena, "llm-router.%08u.jsonl", segment), text);
}

static void follow(uint64_t back_bytes)
{
    int r = event_tail_open(dir, back_bytes, arena, &tail, &e);
    ck_assert_msg(r == 0, "%s", e.text);
}

static void expect(const char *text)
{
    struct span line;
    ck_assert_msg(event_tail_next(&tail, &line) == 0, "there is no \"%s\"", text);
    ck_assert_msg(span_is(line, text), "\"%.*s\" instead of \"%s\"", (int)line.len, line.ptr, text);
}

static void expect_none(void)
{
    struct span line;
    ck_assert_int_eq(event_tail_next(&tail, &line), ERR_NOT_FOUND);
}

START_TEST(what_comes_after_the_beginning_is_followed_over_segments)
{
    append(7, "\nold\n");
    follow(0);
    expect_none();
    append(7, "\na\n\nb\n");
    append(8, "\nc\n");
    append(10, "\nd\n");
    expect("a");
    expect("b");
    expect("c");
    expect("d");
    expect_none();
    append(10, "\ne\n");
    expect("e");
}
END_TEST

START_TEST(a_line_is_told_when_its_end_has_come)
{
    append(1, "\n");
    follow(0);
    append(1, "\nhal");
    expect_none();
    append(1, "f\n");
    expect("half");
    append(1, "\ntorn");
    append(2, "\nnext\n");
    expect("next");
}
END_TEST

START_TEST(so_much_of_what_is_there_already_is_told)
{
    append(1, "\nfirst\n");
    append(2, "\nsecond\n");
    append(3, "\nthird\n");
    follow(ALL_BYTES);
    ck_assert(tail.is_whole);
    expect("first");
    expect("second");
    expect("third");
    expect_none();
    event_tail_close(&tail);
    follow(strlen("\nthird\n") + strlen("cond\n"));
    ck_assert(!tail.is_whole);
    expect("cond"); /* the rest of a line, which is no event */
    expect("third");
    expect_none();
}
END_TEST

START_TEST(a_spool_that_comes_later_is_followed)
{
    follow(0);
    expect_none();
    append(1, "\nfirst\n");
    expect("first");
}
END_TEST

START_TEST(other_files_are_not_read)
{
    append_to("llm-router-admin.00000009.jsonl", "\nno\n");
    append_to("llm-router.00000009.jsonl.new", "\nno\n");
    append_to("llm-router.9.jsonl", "\nno\n");
    append_to("llm-router.metrics.cursor", "\nno\n");
    append(1, "\nyes\n");
    follow(ALL_BYTES);
    expect("yes");
    expect_none();
}
END_TEST

START_TEST(a_segment_that_is_removed_is_no_obstacle)
{
    append(1, "\na\n");
    follow(0);
    ck_assert_int_eq(unlink(path_of("llm-router.00000001.jsonl")), 0);
    expect_none();
    append(2, "\nb\n");
    append(3, "\nc\n");
    expect("b");
    ck_assert_int_eq(unlink(path_of("llm-router.00000003.jsonl")), 0);
    append(4, "\nd\n");
    expect("d");
}
END_TEST

START_TEST(what_is_longer_than_any_event_is_passed_over)
{
    char *text = xmalloc(4 * EVENT_LIMIT_BYTES + 1);
    memset(text, 'x', 4 * EVENT_LIMIT_BYTES);
    text[4 * EVENT_LIMIT_BYTES] = '\0';
    append(1, "\n");
    follow(0);
    append(1, text);
    append(1, "\nshort\n");
    struct span line;
    ck_assert_int_eq(event_tail_next(&tail, &line), 0);
    if (!span_is(line, "short")) { /* an end of it, which is no event */
        ck_assert_uint_lt(line.len, 4 * EVENT_LIMIT_BYTES);
        expect("short");
    }
    /* The longest event there may be. */
    text[EVENT_LIMIT_BYTES] = '\0';
    append(1, "\n");
    append(1, text);
    append(1, "\n");
    expect(text);
    free(text);
}
END_TEST

START_TEST(a_spool_that_may_not_be_read_is_told_of)
{
    struct event_tail none;
    int fd = open(arena_printf(arena, "%s/spool", dir), O_WRONLY | O_CREAT, 0600); /* no folder */
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(event_tail_open(dir, 0, arena, &none, &e), ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(e.text, dir));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_tail");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_comes_after_the_beginning_is_followed_over_segments);
    tcase_add_test(tcase, a_line_is_told_when_its_end_has_come);
    tcase_add_test(tcase, so_much_of_what_is_there_already_is_told);
    tcase_add_test(tcase, a_spool_that_comes_later_is_followed);
    tcase_add_test(tcase, other_files_are_not_read);
    tcase_add_test(tcase, a_segment_that_is_removed_is_no_obstacle);
    tcase_add_test(tcase, what_is_longer_than_any_event_is_passed_over);
    tcase_add_test(tcase, a_spool_that_may_not_be_read_is_told_of);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
