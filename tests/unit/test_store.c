/* What the store promises, whichever it is: each test runs on the state directory and
 * on Postgres. What only one of them has is in test_store_directory.c and
 * test_store_postgres.c. */
#include <check.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/store/store.h"
#include "tests/unit/postgres_server.h"

static struct postgres_server server;
static struct arena *arena;
static char dir[64];
static struct store_place place;
static struct store *store;
static struct store_outcome outcome;
static struct error e;

static void set_up(void)
{
    ck_assert_msg(store_open(&place, &store, &e) == 0, "%s", e.text);
}

static void set_up_directory(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_store.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    place = (struct store_place){ .state_dir = dir };
    set_up();
}

static void tear_down_directory(void)
{
    store_close(store);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static void set_up_postgres(void)
{
    arena = arena_new();
    place = (struct store_place){ .database_url = postgres_server_add_database(&server, arena) };
    set_up();
}

static void tear_down_postgres(void)
{
    store_close(store);
    arena_free(arena);
}

static int put_told(const char *key, struct span raw, const char *expected, const struct store_audit *told)
{
    const struct store_change change = { .key = key, .raw = raw, .expected = expected, .audit = *told };
    return store_put(store, &change, &outcome, &e);
}

static int put_to(const char *key, const char *value, const char *expected)
{
    return put_told(key, span_cstr(value), expected,
                    &(struct store_audit){ .actor = "tester", .action = "put", .object = key });
}

static int put(const char *value, const char *expected)
{
    return put_to("K", value, expected);
}

static void must_put(const char *value)
{
    ck_assert_msg(put(value, "*") == 0, "%s", e.text);
}

static void expect_value(const char *text)
{
    struct store_value value;
    ck_assert_msg(store_get(store, "K", arena, &value, &e) == 0, "%s", e.text);
    ck_assert_msg(span_is(value.raw, text), "\"%.*s\", expected \"%s\"", (int)value.raw.len, value.raw.ptr,
                  text);
}

static uint64_t stamp(void)
{
    uint64_t s = 0;
    ck_assert_msg(store_stamp(store, &s, &e) == 0, "%s", e.text);
    return s;
}

static size_t list_versions(size_t max, struct store_version *out, size_t *total)
{
    size_t n = 0;
    ck_assert_msg(store_versions(store, "K", max, arena, out, &n, total, &e) == 0, "%s", e.text);
    return n;
}

static struct span audit_log(size_t max)
{
    struct span json;
    ck_assert_msg(store_audit_log(store, max, arena, &json, &e) == 0, "%s", e.text);
    return json;
}

/* Whether all of `text` is of this form. */
static bool is_like(const char *text, const char *form)
{
    regex_t pattern;
    ck_assert_int_eq(regcomp(&pattern, arena_printf(arena, "^(%s)$", form), REG_EXTENDED | REG_NOSUB), 0);
    bool is = regexec(&pattern, text, 0, NULL, 0) == 0;
    regfree(&pattern);
    return is;
}

#define TIME_FORM "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z"
#define VERSION_FORM "[A-Za-z0-9_-]{21,32}"

static const char *const values[] = {
    "",
    "1",
    "{\n\t\"a\" : 1.50e+01 }\r\n",
    "\"\\u0000 \\\"quoted\\\" \xe5\xaf\x86\xe9\x92\xa5 \xf0\x9f\x94\x91 '; DROP TABLE config_kv; --\"",
    "  blanks around  ",
};

START_TEST(a_value_comes_back_byte_for_byte)
{
    struct store_value value;
    ck_assert_msg(put(values[_i], NULL) == 0, "%s", e.text);
    ck_assert(is_like(outcome.version, VERSION_FORM));
    ck_assert(!outcome.is_same);
    expect_value(values[_i]);
    ck_assert_int_eq(store_get(store, "K", arena, &value, &e), 0);
    ck_assert_str_eq(value.version, outcome.version);
}
END_TEST

START_TEST(a_value_of_megabytes_comes_back)
{
    size_t len = 5 * 1024 * 1024;
    struct store_value value;
    char *bytes = arena_alloc(arena, len);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)('a' + (i * 7 + i / 1000) % 26);
    ck_assert_msg(put_told("K", span_of(bytes, len), NULL, &(struct store_audit){ .actor = "t" }) == 0, "%s",
                  e.text);
    ck_assert_int_eq(store_get(store, "K", arena, &value, &e), 0);
    ck_assert(span_eq(value.raw, span_of(bytes, len)));
}
END_TEST

START_TEST(a_value_that_is_too_large_is_refused)
{
    size_t len = STORE_VALUE_LIMIT_BYTES + 1;
    struct span raw = span_of(memset(arena_alloc(arena, len), ' ', len), len);
    ck_assert_int_eq(put_told("K", raw, NULL, &(struct store_audit){ .actor = "t" }), ERR_LIMIT);
}
END_TEST

START_TEST(a_value_that_is_not_there_is_not_found)
{
    struct store_value value = { .version = "untouched" };
    ck_assert_int_eq(store_get(store, "K", arena, &value, &e), ERR_NOT_FOUND);
    ck_assert_str_eq(value.version, "untouched");
}
END_TEST

START_TEST(a_put_needs_the_version_in_force)
{
    char first[STORE_VERSION_BYTES], second[STORE_VERSION_BYTES];
    ck_assert_int_eq(put("1", "0123"), ERR_CONFLICT);
    ck_assert_str_eq(outcome.version, "");
    ck_assert_int_eq(put("1", NULL), 0);
    strcpy(first, outcome.version);
    ck_assert_int_eq(put("2", NULL), ERR_CONFLICT);
    ck_assert_str_eq(outcome.version, first);
    ck_assert_int_eq(put("2", "0123"), ERR_CONFLICT);
    expect_value("1");
    ck_assert_int_eq(put("2", first), 0);
    strcpy(second, outcome.version);
    ck_assert_str_ne(second, first);
    expect_value("2");
    ck_assert_int_eq(put("3", first), ERR_CONFLICT);
    ck_assert_str_eq(outcome.version, second);
    ck_assert_int_eq(put("3", "*"), 0);
    expect_value("3");
}
END_TEST

START_TEST(a_star_also_puts_what_was_not_there)
{
    must_put("1");
    expect_value("1");
}
END_TEST

START_TEST(a_refused_put_leaves_no_trace)
{
    size_t total;
    must_put("1");
    ck_assert_int_eq(put("2", "0123"), ERR_CONFLICT);
    list_versions(0, NULL, &total);
    ck_assert_uint_eq(total, 1);
    ck_assert_ptr_null(strstr(audit_log(10).ptr, "},{"));
}
END_TEST

START_TEST(the_value_in_force_again_changes_nothing)
{
    char first[STORE_VERSION_BYTES];
    size_t total;
    must_put("1");
    strcpy(first, outcome.version);
    uint64_t before = stamp();
    must_put("1");
    ck_assert(outcome.is_same && !outcome.is_published);
    ck_assert_str_eq(outcome.version, first);
    ck_assert_uint_eq(stamp(), before);
    list_versions(0, NULL, &total);
    ck_assert_uint_eq(total, 1);
    ck_assert_ptr_null(strstr(audit_log(10).ptr, "},{"));
    ck_assert_int_eq(put("1", "0123"), ERR_CONFLICT);
}
END_TEST

START_TEST(several_values_are_read_at_once_with_gaps_for_those_that_are_not_there)
{
    const char *const keys[] = { "C", "NONE", "A", "B_2" };
    struct store_value found[4];
    ck_assert_int_eq(put_to("A", "a", NULL), 0);
    ck_assert_int_eq(put_to("B_2", "", NULL), 0);
    ck_assert_int_eq(put_to("C", "c", NULL), 0);
    memset(found, 0xff, sizeof(found));
    ck_assert_msg(store_get_all(store, keys, 4, arena, found, &e) == 0, "%s", e.text);
    ck_assert(span_is(found[0].raw, "c"));
    ck_assert_ptr_null(found[1].raw.ptr);
    ck_assert_str_eq(found[1].version, "");
    ck_assert(span_is(found[2].raw, "a"));
    ck_assert(found[3].raw.ptr != NULL && found[3].raw.len == 0);
    ck_assert(is_like(found[3].version, VERSION_FORM));
}
END_TEST

/* A writer keeps two values equal, by turns; a reader that looked at two moments would
 * see the second ahead of the first by more than one. */
START_TEST(what_is_read_at_once_is_of_one_moment)
{
    const char *const keys[] = { "B", "A" };
    struct store_value found[2];
    ck_assert_int_eq(put_to("A", "0", NULL), 0);
    ck_assert_int_eq(put_to("B", "0", NULL), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct store *own;
        if (store_open(&place, &own, &e) != 0)
            _exit(1);
        store = own;
        for (int i = 1; i <= 50; i++) {
            const char *text = arena_printf(arena, "%d", i);
            if (put_to("A", text, "*") != 0 || put_to("B", text, "*") != 0)
                _exit(2);
        }
        _exit(0);
    }
    int status = 0, a = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        ck_assert_msg(store_get_all(store, keys, 2, arena, found, &e) == 0, "%s", e.text);
        a = atoi(found[1].raw.ptr);
        int b = atoi(found[0].raw.ptr);
        ck_assert_msg(a == b || a == b + 1, "A is %d and B is %d", a, b);
    }
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(the_versions_are_listed_newest_first_with_author_and_time)
{
    struct store_version listed[3];
    size_t total = 0;
    ck_assert_uint_eq(list_versions(3, listed, &total), 0);
    ck_assert_uint_eq(total, 0);
    for (int i = 1; i <= 4; i++) {
        const char *author = arena_printf(arena, "author \"%d\"\n", i);
        ck_assert_int_eq(put_told("K", span_cstr(arena_printf(arena, "%d", i)), "*",
                                  &(struct store_audit){ .actor = author }),
                         0);
    }
    ck_assert_uint_eq(list_versions(3, listed, &total), 3);
    ck_assert_uint_eq(total, 4);
    ck_assert_str_eq(listed[0].version, outcome.version);
    ck_assert_str_eq(listed[0].author, "author \"4\"\n");
    ck_assert_str_eq(listed[2].author, "author \"2\"\n");
    ck_assert_msg(is_like(listed[0].time, TIME_FORM), "%s", listed[0].time);
    ck_assert(strcmp(listed[0].time, listed[1].time) >= 0);
    ck_assert(listed[0].is_in_force && !listed[1].is_in_force && !listed[2].is_in_force);
    list_versions(0, NULL, &total);
    ck_assert_uint_eq(total, 4);
}
END_TEST

START_TEST(a_value_that_came_back_is_in_force_once)
{
    struct store_version listed[10];
    size_t total, in_force = 0;
    must_put("1");
    must_put("2");
    must_put("1");
    size_t n = list_versions(10, listed, &total);
    ck_assert_uint_eq(n, 3);
    for (size_t i = 0; i < n; i++)
        in_force += listed[i].is_in_force;
    ck_assert_uint_eq(in_force, 1);
    ck_assert(listed[0].is_in_force);
}
END_TEST

START_TEST(each_version_can_be_read_as_it_was)
{
    struct store_version listed[3];
    struct store_value value;
    size_t total;
    must_put("1");
    must_put("2\n");
    must_put("3");
    list_versions(3, listed, &total);
    for (int i = 0; i < 3; i++) {
        static const char *const expected[] = { "3", "2\n", "1" };
        ck_assert_msg(store_get_version(store, "K", listed[i].version, arena, &value, &e) == 0, "%s", e.text);
        ck_assert_msg(span_is(value.raw, expected[i]), "\"%.*s\", expected \"%s\"", (int)value.raw.len,
                      value.raw.ptr, expected[i]);
        ck_assert_str_eq(value.version, listed[i].version);
    }
    ck_assert_int_eq(put_to("L", "1", NULL), 0);
    ck_assert_int_eq(store_get_version(store, "L", listed[0].version, arena, &value, &e), ERR_NOT_FOUND);
}
END_TEST

static const char *const no_versions[] = { "",     "*",
                                           "..",   "log",
                                           "../K", "0123456789abcdef0123456789abcdef",
                                           "%",    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };

START_TEST(a_version_that_never_was_is_not_found)
{
    struct store_value value;
    must_put("1");
    ck_assert_int_eq(store_get_version(store, "K", no_versions[_i], arena, &value, &e), ERR_NOT_FOUND);
}
END_TEST

/* The array without its times. */
static const char *without_times(struct span json)
{
    char *copy = arena_span(arena, json), *at = copy;
    while ((at = strstr(at, "\"time\":\"")) != NULL) {
        at += strlen("\"time\":\"");
        char *end = strchr(at, '"');
        *end = '\0';
        ck_assert_msg(is_like(at, TIME_FORM), "%s", at);
        *end = '"';
        memmove(at, end, strlen(end) + 1);
    }
    return copy;
}

START_TEST(the_audit_log_tells_who_did_what_newest_first)
{
    char first[STORE_VERSION_BYTES];
    ck_assert(span_is(audit_log(10), "[]"));
    must_put("1");
    strcpy(first, outcome.version);
    const struct store_audit told = {
        .actor = "ann@example.org",
        .action = "patch",
        .object = "CALLER_KEYS/ci \"1\"",
        .source_address = "192.0.2.1",
        .request_id = "r-1",
        .changes = span_cstr("[{\"field\":\"/a\",\"before\":1,\"after\":[2]}]"),
    };
    ck_assert_int_eq(put_told("K", span_cstr("2"), first, &told), 0);
    const char *newest = arena_printf(
        arena,
        "{\"time\":\"\",\"actor\":\"ann@example.org\",\"action\":\"patch\",\"object\":\"CALLER_KEYS/ci "
        "\\\"1\\\"\","
        "\"key\":\"K\",\"versionBefore\":\"%s\",\"versionAfter\":\"%s\",\"sourceAddress\":\"192.0.2.1\","
        "\"requestId\":\"r-1\",\"changes\":[{\"field\":\"/a\",\"before\":1,\"after\":[2]}]}",
        first, outcome.version);
    const char *oldest =
        arena_printf(arena,
                     "{\"time\":\"\",\"actor\":\"tester\",\"action\":\"put\",\"object\":\"K\",\"key\":\"K\","
                     "\"versionBefore\":null,\"versionAfter\":\"%s\",\"sourceAddress\":null,\"requestId\":"
                     "null,\"changes\":[]}",
                     first);
    ck_assert_str_eq(without_times(audit_log(10)), arena_printf(arena, "[%s,%s]", newest, oldest));
    ck_assert_str_eq(without_times(audit_log(1)), arena_printf(arena, "[%s]", newest));
    ck_assert_str_eq(without_times(audit_log(0)), "[]");
}
END_TEST

/* What an administrator changed cannot keep its line out of the log: not by what it holds, */
static const char *const no_changes[] = { "[canary", "[]]", "[{\"field\":\"/a\",\"after\":}]", "[\"\xff\"]" };

START_TEST(changes_that_are_no_json_are_refused_and_change_nothing)
{
    must_put("1");
    const struct store_audit told = { .actor = "tester", .changes = span_cstr(no_changes[_i]) };
    int r = put_told("K", span_cstr("2"), "*", &told);
    ck_assert_msg(r == ERR_FORMAT, "%s: %s", no_changes[_i], err_name(r));
    ck_assert_ptr_null(strstr(e.text, "canary"));
    expect_value("1");
    ck_assert_ptr_null(strstr(audit_log(10).ptr, "},{"));
}
END_TEST

/* and not by its size. */
START_TEST(of_a_long_audit_log_the_newest_lines_are_told)
{
    enum { PUTS = 20 };
    char *changes = arena_alloc(arena, STORE_CHANGES_LIMIT_BYTES + 1), value[16];
    struct store_audit told = { .actor = "tester", .changes = span_of(changes, STORE_CHANGES_LIMIT_BYTES) };
    memset(changes, 'x', STORE_CHANGES_LIMIT_BYTES);
    memcpy(changes, "[\"", 2);
    memcpy(changes + STORE_CHANGES_LIMIT_BYTES - 2, "\"]", 2);
    for (int i = 0; i < PUTS; i++) {
        snprintf(value, sizeof(value), "%d", i);
        ck_assert_msg(put_told("K", span_cstr(value), "*", &told) == 0, "%s", e.text);
    }
    struct span log = audit_log(PUTS);
    ck_assert_ptr_nonnull(strstr(log.ptr, outcome.version));
    ck_assert_uint_gt(log.len, STORE_AUDIT_LIMIT_BYTES / 2);
    ck_assert_uint_lt(log.len, STORE_AUDIT_LIMIT_BYTES + STORE_CHANGES_LIMIT_BYTES);
    told.changes.len++;
    ck_assert_int_eq(put_told("K", span_cstr("x"), "*", &told), ERR_LIMIT);
    expect_value(value);
}
END_TEST

START_TEST(the_stamp_changes_with_each_put_of_any_value)
{
    uint64_t before = stamp(), after;
    ck_assert_uint_eq(stamp(), before);
    must_put("1");
    ck_assert_uint_ne(after = stamp(), before);
    ck_assert_int_eq(put_to("L", "1", NULL), 0);
    ck_assert_uint_ne(before = stamp(), after);
    must_put("2");
    ck_assert_uint_ne(after = stamp(), before);
    ck_assert_uint_eq(stamp(), after);
}
END_TEST

static const char *const bad_keys[] = {
    "",    "a",    "A/B", "..",
    "A.B", "../X", "A,B", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
};

START_TEST(a_key_of_another_alphabet_is_refused)
{
    struct store_value value;
    size_t n, total;
    const char *key = bad_keys[_i];
    ck_assert_int_eq(store_get(store, key, arena, &value, &e), ERR_FORMAT);
    ck_assert_int_eq(put_to(key, "1", "*"), ERR_FORMAT);
    ck_assert_int_eq(store_versions(store, key, 0, arena, NULL, &n, &total, &e), ERR_FORMAT);
    ck_assert_int_eq(store_get_version(store, key, "0123", arena, &value, &e), ERR_FORMAT);
}
END_TEST

/* Runs `body` in n processes with a store of their own each; the sum of what it returns. */
static int in_processes(int n, int (*body)(void))
{
    pid_t *pids = arena_array_of(arena, pid_t, (size_t)n);
    int sum = 0;
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] == 0)
            _exit(store_open(&place, &store, &e) == 0 ? body() : 100);
    }
    for (int i = 0; i < n; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) < 100, "a writer ended with %x",
                      (unsigned)status);
        sum += WEXITSTATUS(status);
    }
    return sum;
}

/* Increments a number many times, with retries. */
static int increment(void)
{
    for (int done = 0; done < 25;) {
        struct store_value value;
        if (store_get(store, "K", arena, &value, &e) != 0)
            return 101;
        int r = put(arena_printf(arena, "%d", atoi(value.raw.ptr) + 1), value.version);
        if (r != 0 && r != ERR_CONFLICT)
            return 102;
        done += r == 0;
    }
    return 0;
}

START_TEST(concurrent_writers_lose_no_change)
{
    size_t total;
    must_put("0");
    in_processes(4, increment);
    expect_value("100");
    list_versions(0, NULL, &total);
    ck_assert_uint_eq(total, 101);
}
END_TEST

static char contested[STORE_VERSION_BYTES];

/* 1: this one won. */
static int contend(void)
{
    int r = put(arena_printf(arena, "of %ld", (long)getpid()), contested[0] == '\0' ? NULL : contested);
    return r == 0 ? 1 : r == ERR_CONFLICT && strlen(outcome.version) >= 21 ? 0 : 103;
}

START_TEST(of_a_hundred_writers_at_once_exactly_one_wins)
{
    size_t total;
    ck_assert_int_eq(in_processes(100, contend), 1); /* makes the value */
    for (size_t round = 2; round <= 3; round++) {
        struct store_value value;
        ck_assert_int_eq(store_get(store, "K", arena, &value, &e), 0);
        strcpy(contested, value.version);
        ck_assert_int_eq(in_processes(100, contend), 1);
        list_versions(0, NULL, &total);
        ck_assert_uint_eq(total, round);
    }
}
END_TEST

#define COUNT(rows) (int)(sizeof(rows) / sizeof((rows)[0]))

static TCase *tests_of(const char *name, void (*up)(void), void (*down)(void))
{
    TCase *tests = tcase_create(name);
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, up, down);
    tcase_add_loop_test(tests, a_value_comes_back_byte_for_byte, 0, COUNT(values));
    tcase_add_test(tests, a_value_of_megabytes_comes_back);
    tcase_add_test(tests, a_value_that_is_too_large_is_refused);
    tcase_add_test(tests, a_value_that_is_not_there_is_not_found);
    tcase_add_test(tests, a_put_needs_the_version_in_force);
    tcase_add_test(tests, a_star_also_puts_what_was_not_there);
    tcase_add_test(tests, a_refused_put_leaves_no_trace);
    tcase_add_test(tests, the_value_in_force_again_changes_nothing);
    tcase_add_test(tests, several_values_are_read_at_once_with_gaps_for_those_that_are_not_there);
    tcase_add_test(tests, what_is_read_at_once_is_of_one_moment);
    tcase_add_test(tests, the_versions_are_listed_newest_first_with_author_and_time);
    tcase_add_test(tests, a_value_that_came_back_is_in_force_once);
    tcase_add_test(tests, each_version_can_be_read_as_it_was);
    tcase_add_loop_test(tests, a_version_that_never_was_is_not_found, 0, COUNT(no_versions));
    tcase_add_test(tests, the_audit_log_tells_who_did_what_newest_first);
    tcase_add_loop_test(tests, changes_that_are_no_json_are_refused_and_change_nothing, 0, COUNT(no_changes));
    tcase_add_test(tests, of_a_long_audit_log_the_newest_lines_are_told);
    tcase_add_test(tests, the_stamp_changes_with_each_put_of_any_value);
    tcase_add_loop_test(tests, a_key_of_another_alphabet_is_refused, 0, COUNT(bad_keys));
    tcase_add_test(tests, concurrent_writers_lose_no_change);
    tcase_add_test(tests, of_a_hundred_writers_at_once_exactly_one_wins);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("store");
    suite_add_tcase(suite, tests_of("the state directory", set_up_directory, tear_down_directory));
    suite_add_tcase(suite, tests_of("Postgres", set_up_postgres, tear_down_postgres));
    postgres_server_make(&server);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    postgres_server_remove(&server);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
