#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/crypto/digest.h"
#include "core/json/scan.h"
#include "core/base/clock.h"
#include "core/store/store.h"
#include "tests/unit/stopped_process.h"

static struct arena *arena;
static char dir[64];
static struct store *store;
static struct error e;
static struct store_outcome outcome;

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_store.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    const struct store_place place = { .state_dir = arena_printf(arena, "%s/a/b", dir) };
    ck_assert_int_eq(store_open(&place, &store, &e), 0);
}

static void tear_down(void)
{
    store_close(store);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static const char *path_of(const char *name)
{
    return arena_printf(arena, "%s/a/b/configkv/%s", dir, name);
}

static int put_raw(const char *key, struct span raw, const char *expected)
{
    const struct store_change change = {
        .key = key, .raw = raw, .expected = expected, .audit = { .actor = "tester", .action = "put" }
    };
    return store_put(store, &change, &outcome, &e);
}

static int put(const char *value, const char *expected)
{
    return put_raw("K", span_cstr(value), expected);
}

static void expect_value(const char *text)
{
    struct store_value value;
    ck_assert_msg(store_get(store, "K", arena, &value, &e) == 0, "%s", e.text);
    ck_assert_msg(span_is(value.raw, text), "\"%.*s\", expected \"%s\"", (int)value.raw.len, value.raw.ptr,
                  text);
}

static void write_file(const char *name, const char *text)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void append_file(const char *name, const char *text)
{
    int fd = open(path_of(name), O_WRONLY | O_APPEND);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static uint64_t stamp(void)
{
    uint64_t s = 0;
    ck_assert_msg(store_stamp(store, &s, &e) == 0, "%s", e.text);
    return s;
}

/* How many values the history of K has, and whether one of them is `text`. */
static size_t history(const char *text, bool *has)
{
    size_t n = 0;
    *has = false;
    DIR *d = opendir(path_of("history/K"));
    for (struct dirent *entry = d == NULL ? NULL : readdir(d); entry != NULL; entry = readdir(d)) {
        struct span raw;
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "log") == 0)
            continue;
        n++;
        ck_assert_int_eq(
            file_read(path_of(arena_printf(arena, "history/K/%s", entry->d_name)), 1000, arena, &raw, &e), 0);
        *has = *has || span_is(raw, text);
    }
    if (d != NULL)
        closedir(d);
    return n;
}

START_TEST(the_version_is_the_beginning_of_the_values_digest)
{
    struct store_value value;
    char digest[SHA256_HEX_BYTES];
    struct span raw = span_of("{\n \"a\":\0 1 }\n", 13);
    ck_assert_int_eq(put_raw("K", raw, NULL), 0);
    ck_assert_int_eq(store_get(store, "K", arena, &value, &e), 0);
    ck_assert(span_eq(value.raw, raw));
    sha256_hex(raw, digest);
    ck_assert(strncmp(outcome.version, digest, 32) == 0 && strlen(outcome.version) == 32);
    ck_assert_str_eq(value.version, outcome.version);
}
END_TEST

START_TEST(the_history_has_every_value_and_its_author)
{
    bool has;
    struct span log;
    ck_assert_int_eq(put("1", NULL), 0);
    ck_assert_int_eq(put("2", "*"), 0);
    ck_assert_int_eq(put("2", "*"), 0); /* changes nothing */
    ck_assert_uint_eq(history("1", &has), 2);
    ck_assert(has);
    history("2", &has);
    ck_assert(has);
    ck_assert_int_eq(file_read(path_of("history/K/log"), 10000, arena, &log, &e), 0);
    ck_assert_ptr_nonnull(strstr(log.ptr, outcome.version));
    ck_assert_ptr_nonnull(strstr(log.ptr, "\"author\":\"tester\"}\n"));
}
END_TEST

START_TEST(a_value_edited_in_place_is_saved_before_it_is_replaced)
{
    bool has;
    ck_assert_int_eq(put("1", NULL), 0);
    write_file("K.json", "edited");
    ck_assert_int_eq(put("2", outcome.version), ERR_CONFLICT);
    ck_assert_int_eq(put("2", outcome.version), 0);
    ck_assert_uint_eq(history("edited", &has), 3);
    ck_assert(has);
}
END_TEST

START_TEST(files_are_for_the_owner_only)
{
    struct stat st;
    ck_assert_int_eq(put("1", NULL), 0);
    ck_assert_int_eq(stat(path_of("K.json"), &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(stat(path_of("../admin_audit_log.jsonl"), &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(stat(path_of("history"), &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0700);
}
END_TEST

START_TEST(a_failed_put_leaves_the_old_value_and_no_debris)
{
    struct dirent *entry;
    ck_assert_int_eq(put("1", NULL), 0);
    ck_assert_int_eq(rename(path_of("history"), path_of("elsewhere")), 0);
    write_file("history", "a file stands in the way");
    ck_assert_int_eq(put("2", "*"), ERR_SYSTEM);
    expect_value("1");
    DIR *d = opendir(path_of(""));
    while ((entry = readdir(d)) != NULL)
        ck_assert_msg(strstr(entry->d_name, ".new.") == NULL, "%s was left", entry->d_name);
    closedir(d);
}
END_TEST

START_TEST(a_file_that_is_too_large_or_no_file_is_an_error)
{
    struct store_value value;
    write_file("K.json", "1");
    ck_assert_int_eq(truncate(path_of("K.json"), STORE_VALUE_LIMIT_BYTES + 1), 0);
    ck_assert_int_eq(store_get(store, "K", arena, &value, &e), ERR_LIMIT);
    ck_assert_int_eq(unlink(path_of("K.json")), 0);
    ck_assert_int_eq(mkdir(path_of("K.json"), 0700), 0);
    ck_assert_int_eq(store_get(store, "K", arena, &value, &e), ERR_SYSTEM);
    ck_assert_int_eq(put("1", "*"), ERR_SYSTEM);
    ck_assert_int_eq(
        put_raw("L",
                span_of(arena_calloc(arena, 1, STORE_VALUE_LIMIT_BYTES + 1), STORE_VALUE_LIMIT_BYTES + 1),
                NULL),
        ERR_LIMIT);
}
END_TEST

START_TEST(the_stamp_changes_with_a_put_an_edit_a_replacement_and_a_removal)
{
    uint64_t before = stamp(), after;
    ck_assert_int_eq(put("1", NULL), 0);
    ck_assert_uint_ne(after = stamp(), before);
    before = after;
    ck_assert_uint_eq(stamp(), before);

    usleep(20000); /* the clock of file times ticks every 4 ms or so */
    write_file("K.json", "2");
    ck_assert_uint_ne(after = stamp(), before);
    before = after;

    write_file("other", "2");
    ck_assert_int_eq(rename(path_of("other"), path_of("K.json")), 0);
    ck_assert_uint_ne(after = stamp(), before);
    before = after;

    ck_assert_int_eq(unlink(path_of("K.json")), 0);
    ck_assert_uint_ne(stamp(), before);
}
END_TEST

START_TEST(the_stamp_ignores_hidden_and_other_files)
{
    uint64_t before = stamp();
    write_file(".K.json", "1");
    write_file("K.json.swp", "1");
    write_file("K.json.new.12", "1");
    ck_assert_uint_eq(stamp(), before);
}
END_TEST

static bool is_heard(int watch)
{
    struct pollfd p = { .fd = watch, .events = POLLIN };
    return poll(&p, 1, 0) > 0;
}

static void change_by_put(void)
{
    ck_assert_int_eq(put("2", "*"), 0);
}

static void change_by_edit(void)
{
    write_file("K.json", "3");
}

static void change_by_rename(void)
{
    write_file("other", "4");
    store_listen(store);
    ck_assert_int_eq(rename(path_of("other"), path_of("K.json")), 0);
}

static void change_by_removal(void)
{
    ck_assert_int_eq(unlink(path_of("K.json")), 0);
}

static void change_by_moving_away(void)
{
    ck_assert_int_eq(rename(path_of("K.json"), arena_printf(arena, "%s/K.json", dir)), 0);
}

static void change_by_removing_all(void)
{
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", path_of(""))), 0);
}

static const struct watch_row {
    const char *what;
    void (*change)(void);
} watch_rows[] = {
    { "a put", change_by_put },
    { "an edit", change_by_edit },
    { "a replacement", change_by_rename },
    { "a removal", change_by_removal },
    { "a move", change_by_moving_away },
    { "the directory's removal", change_by_removing_all },
};

START_TEST(a_change_is_heard_until_it_is_listened_to)
{
    const struct watch_row *row = &watch_rows[_i];
    ck_assert_int_eq(put("1", NULL), 0);
    int watch = store_watch_fd(store);
    ck_assert_int_ge(watch, 0);
    ck_assert_int_eq(store_watch_fd(store), watch);
    store_listen(store);
    ck_assert(!is_heard(watch));
    ck_assert_int_eq(store_listen(store), STORE_NEWS_NONE);
    row->change();
    ck_assert_msg(is_heard(watch), "%s is not heard", row->what);
    ck_assert_int_eq(store_listen(store), STORE_NEWS_FILE);
    ck_assert_msg(!is_heard(watch), "%s is heard for ever", row->what);
}
END_TEST

START_TEST(what_is_only_begun_or_read_is_not_heard)
{
    struct store_value value;
    ck_assert_int_eq(put("1", NULL), 0);
    int watch = store_watch_fd(store);
    store_listen(store);
    ck_assert_int_eq(store_get(store, "K", arena, &value, &e), 0);
    int fd = open(path_of("K.json"), O_WRONLY | O_TRUNC);
    ck_assert_int_eq(write(fd, "{", 1), 1);
    ck_assert(!is_heard(watch));
    close(fd);
    ck_assert(is_heard(watch));
}
END_TEST

/* As by an operator who prepares another one and moves it into place, and with
 * nothing there in between. */
START_TEST(a_directory_that_is_replaced_is_heard_and_the_new_one_watched)
{
    int watch = store_watch_fd(store);
    const char *now = path_of(""), *fresh = arena_printf(arena, "%s/fresh", dir);
    uint64_t ignored;
    for (int i = 0; i < 3; i++) {
        store_listen(store);
        ck_assert_int_eq(mkdir(fresh, 0700), 0);
        ck_assert_int_eq(rename(now, arena_printf(arena, "%s/old%d", dir, i)), 0);
        ck_assert(is_heard(watch));
        if (i == 1) {
            ck_assert_int_eq(store_stamp(store, &ignored, &e), ERR_SYSTEM);
            store_listen(store);
            ck_assert(!is_heard(watch));
        }
        ck_assert_int_eq(rename(fresh, now), 0);
        ck_assert(is_heard(watch));
        store_listen(store);
        ck_assert(!is_heard(watch));
        write_file("K.json", "1");
        ck_assert_msg(is_heard(watch), "a change in the new directory is not heard");
    }
}
END_TEST

START_TEST(the_store_is_down_without_its_directory)
{
    uint64_t s = 7;
    ck_assert_int_eq(rename(arena_printf(arena, "%s/a/b/configkv", dir), arena_printf(arena, "%s/gone", dir)),
                     0);
    ck_assert_int_eq(store_stamp(store, &s, &e), ERR_SYSTEM);
    ck_assert_uint_eq(s, 7);
}
END_TEST

START_TEST(a_value_edited_in_place_is_a_version_before_it_is_saved)
{
    struct store_version listed[3];
    struct store_value value;
    size_t n, total;
    ck_assert_int_eq(put("1", NULL), 0);
    write_file("K.json", "edited");
    ck_assert_int_eq(store_versions(store, "K", 3, arena, listed, &n, &total, &e), 0);
    ck_assert_uint_eq(total, 2);
    ck_assert_str_eq(listed[0].author, "(found in place)");
    ck_assert(listed[0].is_in_force && !listed[1].is_in_force);
    ck_assert_int_eq(store_get_version(store, "K", listed[0].version, arena, &value, &e), 0);
    ck_assert(span_is(value.raw, "edited"));

    ck_assert_int_eq(put("2", "*"), 0);
    ck_assert_int_eq(store_versions(store, "K", 3, arena, listed, &n, &total, &e), 0);
    ck_assert_uint_eq(total, 3);
    ck_assert_str_eq(listed[1].author, "(found in place)");
}
END_TEST

/* As a writer leaves it that died in the middle of its line. */
START_TEST(a_torn_line_spoils_no_other)
{
    struct store_version listed[3];
    struct span json;
    size_t n, total;
    ck_assert_int_eq(put("1", NULL), 0);
    append_file("history/K/log", "\n{\"time\":\"2026-");
    append_file("../admin_audit_log.jsonl", "\n{\"time\":");
    ck_assert_int_eq(put("2", "*"), 0);
    ck_assert_int_eq(store_versions(store, "K", 3, arena, listed, &n, &total, &e), 0);
    ck_assert_uint_eq(total, 2);
    ck_assert_int_eq(store_audit_log(store, 10, arena, &json, &e), 0);
    ck_assert_int_eq(json_scan(json, NULL, 0, 0, NULL, NULL, NULL), 0);
    ck_assert_ptr_nonnull(strstr(json.ptr, outcome.version));
    ck_assert_ptr_nonnull(strstr(json.ptr, "},{"));
}
END_TEST

START_TEST(what_changed_may_be_told_in_several_lines)
{
    struct span json;
    const struct store_change change = {
        .key = "K",
        .raw = span_cstr("1"),
        .audit = { .actor = "t", .changes = span_cstr("[\n  {\"field\": \"/a\"}\r\n]") },
    };
    ck_assert_int_eq(store_put(store, &change, &outcome, &e), 0);
    ck_assert_int_eq(store_audit_log(store, 10, arena, &json, &e), 0);
    ck_assert_ptr_nonnull(strstr(json.ptr, "\"field\": \"/a\""));
}
END_TEST

START_TEST(a_directory_has_no_instances)
{
    struct store_instance *list;
    struct store_health health;
    size_t n;
    ck_assert_int_eq(store_report(store, &(struct store_instance){ .id = "a" }, &e), ERR_UNSUPPORTED);
    ck_assert_int_eq(store_instances(store, arena, &list, &n, &e), ERR_UNSUPPORTED);
    store_health(store, &health);
    ck_assert(!health.has_database && !health.has_redis);
}
END_TEST

/* A writer is killed at any moment: what is in force has its line in the history and in
 * the audit log, and the next writer goes on. */
START_TEST(a_writer_that_is_killed_leaves_a_value_that_history_and_audit_log_have)
{
    ck_assert_int_eq(put("0", NULL), 0);
    for (int round = 0; round < 60; round++) {
        struct store_value value, old;
        struct span json;
        pid_t pid = fork();
        if (pid == 0) {
            for (int i = 0;; i++)
                put(arena_printf(arena, "%d.%d", round, i), "*");
        }
        usleep((useconds_t)(1000 + round * 331 % 9000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);

        ck_assert_msg(store_get(store, "K", arena, &value, &e) == 0, "%s", e.text);
        ck_assert_msg(store_get_version(store, "K", value.version, arena, &old, &e) == 0, "%s", e.text);
        ck_assert(span_eq(old.raw, value.raw));
        ck_assert_int_eq(store_audit_log(store, 2, arena, &json, &e), 0);
        ck_assert_msg(round == 0 || strstr(json.ptr, value.version) != NULL, "%.*s is not in %s",
                      (int)value.raw.len, value.raw.ptr, json.ptr);
        ck_assert_msg(put(arena_printf(arena, "after %d", round), value.version) == 0, "%s", e.text);
    }
}
END_TEST

static int lock_fd;

static void lock_as_a_writer(void)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    lock_fd = open(path_of("lock"), O_RDWR);
    if (lock_fd < 0 || fcntl(lock_fd, F_OFD_SETLK, &whole) != 0)
        _exit(1);
}

static void unlock_as_a_writer(void)
{
    close(lock_fd);
}

START_TEST(a_writer_that_is_stopped_keeps_others_waiting_for_a_while_only)
{
    ck_assert_int_eq(put("before", "*"), 0);
    pid_t stopped = stop_with(lock_as_a_writer, unlock_as_a_writer);
    uint64_t begin_us = clock_monotonic_us();
    ck_assert_int_eq(put("meanwhile", "*"), ERR_SYSTEM);
    uint64_t ms = (clock_monotonic_us() - begin_us) / US_PER_MS;
    ck_assert_msg(ms >= STORE_WRITERS_MS && ms < 4 * STORE_WRITERS_MS, "%lu ms", (unsigned long)ms);
    ck_assert_msg(strstr(e.text, "locked") != NULL, "%s", e.text);
    expect_value("before");
    let_go_on(stopped);
    ck_assert_msg(put("after", "*") == 0, "%s", e.text);
    expect_value("after");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store in a directory");
    TCase *tests = tcase_create("directory");
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_version_is_the_beginning_of_the_values_digest);
    tcase_add_test(tests, the_history_has_every_value_and_its_author);
    tcase_add_test(tests, a_value_edited_in_place_is_saved_before_it_is_replaced);
    tcase_add_test(tests, files_are_for_the_owner_only);
    tcase_add_test(tests, a_failed_put_leaves_the_old_value_and_no_debris);
    tcase_add_test(tests, a_file_that_is_too_large_or_no_file_is_an_error);
    tcase_add_test(tests, the_stamp_changes_with_a_put_an_edit_a_replacement_and_a_removal);
    tcase_add_test(tests, the_stamp_ignores_hidden_and_other_files);
    tcase_add_loop_test(tests, a_change_is_heard_until_it_is_listened_to, 0,
                        sizeof(watch_rows) / sizeof(watch_rows[0]));
    tcase_add_test(tests, what_is_only_begun_or_read_is_not_heard);
    tcase_add_test(tests, a_directory_that_is_replaced_is_heard_and_the_new_one_watched);
    tcase_add_test(tests, the_store_is_down_without_its_directory);
    tcase_add_test(tests, a_value_edited_in_place_is_a_version_before_it_is_saved);
    tcase_add_test(tests, a_torn_line_spoils_no_other);
    tcase_add_test(tests, what_changed_may_be_told_in_several_lines);
    tcase_add_test(tests, a_directory_has_no_instances);
    tcase_add_test(tests, a_writer_that_is_killed_leaves_a_value_that_history_and_audit_log_have);
    tcase_add_test(tests, a_writer_that_is_stopped_keeps_others_waiting_for_a_while_only);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
