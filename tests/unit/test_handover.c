/* What a master hands to its successor: descriptors and children, and secrets. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/environment.h"
#include "core/base/file.h"
#include "fcgi/engine/handover.h"

static struct arena *arena;
static struct error e;

static void set_up(void)
{
    arena = arena_new();
}

static void tear_down(void)
{
    environment_close_kept();
    arena_free(arena);
}

/* --- the handover --- */

static struct handover_worker workers[] = {
    { .pid = 100, .slot = 0, .started_us = 1, .leave_by_us = 0 },
    { .pid = 101, .slot = 8191, .started_us = UINT64_MAX, .leave_by_us = UINT64_MAX },
    { .pid = 2147483647, .slot = -1, .started_us = 5, .leave_by_us = 6 },
};

static struct handover example(void)
{
    return (struct handover){
        .master = 42,
        .pidfile = 3,
        .log_read = 4,
        .log_write = 5,
        .secrets = 6,
        .listener = { .fd = 7, .inode = 123456789, .path = "/a path\nof two lines" },
        .health = { .fd = 8, .is_tcp = true, .is_own_tcp = true },
        .workers = workers,
        .n_workers = sizeof(workers) / sizeof(workers[0]),
    };
}

static void expect_same_listener(const struct listener *a, const struct listener *b)
{
    ck_assert_int_eq(a->fd, b->fd);
    ck_assert_int_eq(a->is_tcp, b->is_tcp);
    ck_assert_int_eq(a->is_own_tcp, b->is_own_tcp);
    ck_assert_uint_eq(a->inode, b->inode);
    ck_assert_str_eq(a->path, b->path);
}

START_TEST(what_is_written_is_read)
{
    struct handover before = example(), after;
    int file = handover_write(&before, "prog", &e);

    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(fcntl(file, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(write(file, "x", 1), -1); /* sealed */
    ck_assert_msg(handover_read(file, "prog", &after, &e) == 0, "%s", e.text);
    ck_assert_int_eq(fcntl(file, F_GETFD), -1); /* read once, and closed */
    ck_assert_int_eq(after.master, 42);
    ck_assert_int_eq(after.pidfile, 3);
    ck_assert_int_eq(after.log_read, 4);
    ck_assert_int_eq(after.log_write, 5);
    ck_assert_int_eq(after.secrets, 6);
    expect_same_listener(&before.listener, &after.listener);
    expect_same_listener(&before.health, &after.health);
    ck_assert_uint_eq(after.n_workers, before.n_workers);
    for (size_t i = 0; i < after.n_workers; i++) {
        ck_assert_int_eq(after.workers[i].pid, workers[i].pid);
        ck_assert_int_eq(after.workers[i].slot, workers[i].slot);
        ck_assert_uint_eq(after.workers[i].started_us, workers[i].started_us);
        ck_assert_uint_eq(after.workers[i].leave_by_us, workers[i].leave_by_us);
    }
    handover_free(&after);
}
END_TEST

/* As a program of another version may have written it; "|" stands for the NUL of a line. */
static const struct foreign_row {
    const char *text;
    int result;
} foreigns[] = {
    { "handover 1 prog|pidfile 3|log 4 5|listener 7 0 0 0 |", 0 },
    { "handover 1 prog|news of 2030|pidfile 3|log 4 5|listener 7 0 0 0 /s|worker 1 2 3 4 5 6|", 0 },
    { "handover 2 prog|pidfile 3|log 4 5|listener 7 0 0 0 |", ERR_FORMAT },
    { "handover 1 other|pidfile 3|log 4 5|listener 7 0 0 0 |", ERR_FORMAT },
    { "handover 1 prog|log 4 5|listener 7 0 0 0 |", ERR_FORMAT },
    { "handover 1 prog|pidfile 3|log 4|listener 7 0 0 0 |", ERR_FORMAT },
    { "handover 1 prog|pidfile 3|log 4 5|listener 7 0 0 0|", ERR_FORMAT },
    { "handover 1 prog|pidfile 3|log 4 5|listener 7 0 0 0 /s", ERR_FORMAT },
    { "pidfile 3|log 4 5|listener 7 0 0 0 |", ERR_FORMAT },
    { "|", ERR_FORMAT },
    { "", ERR_FORMAT },
};

static int file_of(const char *text)
{
    int file = memfd_create("test", MFD_CLOEXEC);
    size_t len = strlen(text);
    char *bytes = arena_strdup(arena, text);

    for (size_t i = 0; i < len; i++)
        bytes[i] = bytes[i] == '|' ? '\0' : bytes[i];
    ck_assert_int_eq(file_write_all(file, bytes, len), 0);
    return file;
}

START_TEST(another_layout_is_refused_and_a_new_line_is_not)
{
    const struct foreign_row *row = &foreigns[_i];
    struct handover out;

    int file = file_of(row->text);
    int r = handover_read(file, "prog", &out, &e);
    ck_assert_msg(r == row->result, "\"%s\": %s, expected %s", row->text, err_name(r), err_name(row->result));
    ck_assert_int_eq(fcntl(file, F_GETFD), -1);
    handover_free(&out);
}
END_TEST

START_TEST(a_path_that_no_address_holds_is_refused)
{
    char path[200];
    struct handover out;

    memset(path, 'p', sizeof(path));
    path[108] = '\0';
    const char *text = arena_printf(arena, "handover 1 prog|pidfile 3|log 4 5|listener 7 0 0 0 %s|", path);
    ck_assert_int_eq(handover_read(file_of(text), "prog", &out, &e), ERR_FORMAT);
}
END_TEST

START_TEST(the_file_is_named_in_the_environment_and_taken_once)
{
    ck_assert_int_eq(handover_take(), -1);
    handover_announce(17);
    ck_assert_int_eq(handover_take(), 17);
    ck_assert_int_eq(handover_take(), -1);
}
END_TEST

START_TEST(a_name_of_no_such_file_is_refused)
{
    struct handover out;
    int fds[2];

    ck_assert_int_eq(handover_read(1000, "prog", &out, &e), ERR_FORMAT);
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(handover_read(fds[0], "prog", &out, &e), ERR_FORMAT);
    ck_assert_int_eq(fcntl(fds[0], F_GETFD), -1); /* closed, whatever it is */
    close(fds[1]);
}
END_TEST

START_TEST(descriptors_survive_an_exec_when_they_are_to)
{
    struct handover out = example();
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    out.pidfile = out.log_read = out.log_write = out.listener.fd = null;
    out.secrets = out.health.fd = -1;
    handover_pass(&out, -1, true);
    ck_assert_int_eq(fcntl(null, F_GETFD), 0);
    handover_pass(&out, -1, false);
    ck_assert_int_eq(fcntl(null, F_GETFD), FD_CLOEXEC);
    close(null);
}
END_TEST

/* --- secrets --- */

static const char *take(const char *name)
{
    struct span value = { NULL, 0 };
    ck_assert_msg(environment_take_secret(name, arena, &value, &e) == 0, "%s", e.text);
    return value.len > 0 ? value.ptr : NULL;
}

/* The successor's view of a kept file: as after an exec, with another descriptor. */
static void hand_on(void)
{
    int kept = environment_seal_kept();
    ck_assert_int_ge(kept, 0);
    ck_assert_int_eq(fcntl(kept, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(write(kept, "x", 1), -1);
    int passed = dup(kept);
    environment_close_kept();
    ck_assert_msg(environment_restore_secrets(passed, &e) == 0, "%s", e.text);
    ck_assert_int_eq(fcntl(passed, F_GETFD), -1);
}

START_TEST(secrets_are_handed_on_however_they_came_and_however_often)
{
    char path[] = "/tmp/test_handover.XXXXXX";
    int fd = mkstemp(path);

    ck_assert_int_eq(file_write_all(fd, "from a file\n", 12), 0);
    close(fd);
    ck_assert_int_eq(environment_keep_secrets(&e), 0);
    setenv("SECRET_A", "from a variable = and so on", 1);
    setenv("SECRET_B_FILE", path, 1);
    ck_assert_str_eq(take("SECRET_A"), "from a variable = and so on");
    ck_assert_str_eq(take("SECRET_B"), "from a file");
    ck_assert_ptr_null(take("SECRET_C"));
    unlink(path);
    for (int i = 0; i < 3; i++) {
        hand_on();
        ck_assert_str_eq(take("SECRET_A"), "from a variable = and so on");
        ck_assert_str_eq(take("SECRET_B"), "from a file");
        ck_assert_ptr_null(take("SECRET_C"));
        ck_assert_ptr_null(getenv("SECRET_A"));
        ck_assert_ptr_null(getenv("SECRET_B"));
    }
}
END_TEST

START_TEST(a_secret_that_one_program_does_not_know_reaches_the_next_one_that_does)
{
    ck_assert_int_eq(environment_keep_secrets(&e), 0);
    setenv("SECRET_A", "a", 1);
    setenv("SECRET_B", "b", 1);
    take("SECRET_A");
    take("SECRET_B");
    hand_on();
    take("SECRET_A"); /* and not the other */
    environment_seal_kept();
    ck_assert_ptr_null(getenv("SECRET_B")); /* nor does it stay in the environment */
    hand_on();
    ck_assert_str_eq(take("SECRET_B"), "b");
}
END_TEST

static const char *const not_secrets[] = { "SECRET=no end", "no name|", "=value|" };

START_TEST(what_holds_no_secrets_is_refused)
{
    ck_assert_int_eq(environment_restore_secrets(file_of(not_secrets[_i]), &e), ERR_FORMAT);
}
END_TEST

START_TEST(without_a_successor_nothing_is_kept)
{
    setenv("SECRET_A", "a", 1);
    ck_assert_str_eq(take("SECRET_A"), "a");
    ck_assert_int_eq(environment_seal_kept(), -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handover");
    TCase *tcase = tcase_create("handover");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_is_written_is_read);
    tcase_add_loop_test(tcase, another_layout_is_refused_and_a_new_line_is_not, 0,
                        sizeof(foreigns) / sizeof(foreigns[0]));
    tcase_add_test(tcase, a_path_that_no_address_holds_is_refused);
    tcase_add_test(tcase, the_file_is_named_in_the_environment_and_taken_once);
    tcase_add_test(tcase, a_name_of_no_such_file_is_refused);
    tcase_add_test(tcase, descriptors_survive_an_exec_when_they_are_to);
    tcase_add_test(tcase, secrets_are_handed_on_however_they_came_and_however_often);
    tcase_add_test(tcase, a_secret_that_one_program_does_not_know_reaches_the_next_one_that_does);
    tcase_add_loop_test(tcase, what_holds_no_secrets_is_refused, 0,
                        sizeof(not_secrets) / sizeof(not_secrets[0]));
    tcase_add_test(tcase, without_a_successor_nothing_is_kept);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
