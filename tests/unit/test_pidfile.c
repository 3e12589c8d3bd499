#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "fcgi/engine/pidfile.h"

static struct arena *arena;
static char dir[64];
static struct error e;

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_pidfile.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static const char *path(void)
{
    return arena_printf(arena, "%s/prog.pid", dir);
}

static void expect_content(const char *text)
{
    struct span raw;
    ck_assert_int_eq(file_read(path(), 100, arena, &raw, &e), 0);
    ck_assert_msg(span_is(raw, text), "\"%.*s\", expected \"%s\"", (int)raw.len, raw.ptr, text);
}

static int take(void)
{
    int fd = -1;
    int r = pidfile_take(dir, "prog", &fd, &e);
    return r == 0 ? fd : r;
}

/* A process that takes the file and then waits; *out is its lifeline. */
static pid_t start_holder(int *out)
{
    int ready[2], lifeline[2];
    char byte = 'x';

    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(lifeline), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(lifeline[1]);
        if (take() < 0 || write(ready[1], &byte, 1) != 1)
            _exit(1);
        _exit(read(lifeline[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ready[1]);
    ck_assert_msg(read(ready[0], &byte, 1) == 1, "the holder could not take the file");
    close(ready[0]);
    close(lifeline[0]);
    *out = lifeline[1];
    return pid;
}

START_TEST(the_file_holds_the_id_of_its_master)
{
    int fd = take();
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    expect_content(arena_printf(arena, "%d\n", getpid()));
    pidfile_release(fd);
    expect_content("");
}
END_TEST

START_TEST(what_an_earlier_master_left_is_replaced_whole)
{
    ck_assert_int_eq(file_replace(path(), span_cstr("12345678901234567890\n"), 0600, &e), 0);
    int fd = take();
    ck_assert_int_ge(fd, 0);
    expect_content(arena_printf(arena, "%d\n", getpid()));
    pidfile_release(fd);
}
END_TEST

START_TEST(a_second_master_is_refused_and_changes_nothing)
{
    int lifeline, status;
    pid_t holder = start_holder(&lifeline);

    for (int i = 0; i < 2; i++) { /* a refusal does not loosen the lock */
        ck_assert_int_eq(take(), ERR_CONFLICT);
        ck_assert_ptr_nonnull(strstr(e.text, "prog"));
        ck_assert_ptr_nonnull(strstr(e.text, dir));
        expect_content(arena_printf(arena, "%d\n", holder));
    }
    close(lifeline);
    ck_assert_int_eq(waitpid(holder, &status, 0), holder);
    ck_assert_int_ge(take(), 0);
}
END_TEST

START_TEST(another_program_in_the_same_folder_has_a_file_of_its_own)
{
    int lifeline, status, fd;
    pid_t holder = start_holder(&lifeline);
    ck_assert_int_eq(pidfile_take(dir, "other", &fd, &e), 0);
    close(lifeline);
    waitpid(holder, &status, 0);
}
END_TEST

START_TEST(a_killed_master_leaves_no_lock)
{
    int lifeline, status;
    pid_t holder = start_holder(&lifeline);
    kill(holder, SIGKILL);
    ck_assert_int_eq(waitpid(holder, &status, 0), holder);
    ck_assert_int_ge(take(), 0);
    expect_content(arena_printf(arena, "%d\n", getpid()));
}
END_TEST

/* A worker may outlive its master, and must not keep the next one out. */
START_TEST(a_child_that_outlives_the_master_does_not_hold_the_lock)
{
    int until[2], status;
    char byte;

    ck_assert_int_eq(pipe(until), 0);
    pid_t master = fork();
    if (master == 0) {
        if (take() < 0)
            _exit(1);
        if (fork() == 0) {
            close(until[1]);
            _exit(read(until[0], &byte, 1) == 0 ? 0 : 1);
        }
        _exit(0);
    }
    ck_assert_int_eq(waitpid(master, &status, 0), master);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_int_ge(take(), 0);
    close(until[1]);
}
END_TEST

START_TEST(whether_a_master_runs_can_be_asked_without_a_trace)
{
    int lifeline, status;

    ck_assert(!pidfile_is_held(dir, "prog"));
    ck_assert_msg(access(path(), F_OK) != 0, "asking made the file");
    pid_t holder = start_holder(&lifeline);
    for (int i = 0; i < 3; i++)
        ck_assert(pidfile_is_held(dir, "prog"));
    ck_assert(!pidfile_is_held(dir, "other"));
    ck_assert(!pidfile_is_held("/nowhere/at/all", "prog"));
    ck_assert_int_eq(take(), ERR_CONFLICT); /* it still holds it */
    expect_content(arena_printf(arena, "%d\n", (int)holder));
    close(lifeline);
    ck_assert_int_eq(waitpid(holder, &status, 0), holder);
    ck_assert_msg(!pidfile_is_held(dir, "prog"), "its file is left, and nobody holds it");
}
END_TEST

START_TEST(a_link_in_its_place_is_not_followed)
{
    const char *victim = arena_printf(arena, "%s/victim", dir);
    struct span raw;
    ck_assert_int_eq(file_replace(victim, span_cstr("precious"), 0600, &e), 0);
    ck_assert_int_eq(symlink(victim, path()), 0);
    ck_assert_int_eq(take(), ERR_SYSTEM);
    ck_assert_int_eq(file_read(victim, 100, arena, &raw, &e), 0);
    ck_assert(span_is(raw, "precious"));
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_said)
{
    int fd = -1;
    ck_assert_int_eq(pidfile_take("/nowhere/at/all", "prog", &fd, &e), ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(e.text, "/nowhere/at/all/prog.pid"));
    ck_assert_int_eq(fd, -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pidfile");
    TCase *tcase = tcase_create("pidfile");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_file_holds_the_id_of_its_master);
    tcase_add_test(tcase, what_an_earlier_master_left_is_replaced_whole);
    tcase_add_test(tcase, a_second_master_is_refused_and_changes_nothing);
    tcase_add_test(tcase, another_program_in_the_same_folder_has_a_file_of_its_own);
    tcase_add_test(tcase, a_killed_master_leaves_no_lock);
    tcase_add_test(tcase, a_child_that_outlives_the_master_does_not_hold_the_lock);
    tcase_add_test(tcase, whether_a_master_runs_can_be_asked_without_a_trace);
    tcase_add_test(tcase, a_link_in_its_place_is_not_followed);
    tcase_add_test(tcase, a_folder_that_is_not_there_is_said);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
