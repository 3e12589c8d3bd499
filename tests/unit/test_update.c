/* Changing an entry by compare-and-swap, on a state directory. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/config/update.h"

static char folder[64];
static struct store *store;
static struct arena *arena;

static void set_up(void)
{
    struct error e;
    strcpy(folder, "/tmp/test_update.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    const struct store_place place = { .state_dir = folder };
    ck_assert_msg(store_open(&place, &store, &e) == 0, "%s", e.text);
    arena = arena_new();
}

static void tear_down(void)
{
    char command[96];
    store_close(store);
    arena_free(arena);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Writes the entry behind an update's back. */
static void write_value(const char *text)
{
    const struct store_change change = {
        .key = "DEFAULT_CHAT_MODEL",
        .raw = span_cstr(text),
        .expected = "*",
        .audit = { .actor = "other", .action = "put", .object = "x" },
    };
    struct store_outcome outcome;
    ck_assert_int_eq(store_put(store, &change, &outcome, NULL), 0);
}

static struct store_value value(void)
{
    struct store_value value = { .version = "" };
    ck_assert_int_eq(store_get(store, "DEFAULT_CHAT_MODEL", arena, &value, NULL), 0);
    return value;
}

/* A change that appends to what is there, while others write as often as they are asked to. */
struct appending {
    unsigned rivals, calls;
    int answer;
};

static int append(void *ctx, const struct store_value *current, struct arena *scratch, struct span *next,
                  struct store_audit *audit)
{
    struct appending *appending = ctx;
    appending->calls++;
    if (appending->answer != 0)
        return appending->answer;
    if (appending->rivals > 0) {
        appending->rivals--;
        write_value(arena_printf(scratch, "\"rival-%u\"", appending->rivals));
    }
    const char *old = current->raw.ptr == NULL ? "" : arena_span(scratch, current->raw);
    *next = span_cstr(arena_printf(scratch, "%s+", old));
    audit->changes = span_cstr("[{\"field\":\"\",\"after\":\"+\"}]");
    return 0;
}

static int update(struct appending *appending, const char *expected, struct store_outcome *out,
                  struct error *e)
{
    const struct entry_update update = {
        .entry = ENTRY_DEFAULT_CHAT_MODEL,
        .expected = expected,
        .audit = { .actor = "me", .action = "append", .object = "DEFAULT_CHAT_MODEL" },
        .change = append,
        .ctx = appending,
    };
    return entry_update(store, &update, out, e);
}

START_TEST(a_value_is_made_of_nothing_and_then_of_itself)
{
    struct appending appending = { 0 };
    struct store_outcome outcome;
    struct error e;
    ck_assert_msg(update(&appending, NULL, &outcome, &e) == 0, "%s", e.text);
    ck_assert_str_eq(outcome.version, value().version);
    ck_assert_msg(update(&appending, outcome.version, &outcome, &e) == 0, "%s", e.text);
    ck_assert(span_is(value().raw, "++"));
    ck_assert_uint_eq(appending.calls, 2);
}
END_TEST

START_TEST(the_audit_log_is_told_what_the_change_said)
{
    struct appending appending = { 0 };
    struct store_outcome outcome;
    struct span log;
    ck_assert_int_eq(update(&appending, NULL, &outcome, NULL), 0);
    ck_assert_int_eq(store_audit_log(store, 1, arena, &log, NULL), 0);
    const char *text = arena_span(arena, log);
    ck_assert_ptr_nonnull(strstr(text, "\"changes\":[{\"field\":\"\",\"after\":\"+\"}]"));
    ck_assert_ptr_nonnull(strstr(text, "\"actor\":\"me\""));
}
END_TEST

START_TEST(who_was_slower_is_asked_again_with_what_is_there_by_then)
{
    struct appending appending = { .rivals = 3 };
    struct store_outcome outcome;
    struct error e;
    write_value("\"start\"");
    ck_assert_msg(update(&appending, NULL, &outcome, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(appending.calls, 4);
    ck_assert(span_is(value().raw, "\"rival-0\"+"));
}
END_TEST

START_TEST(who_asked_for_a_version_is_told_of_another_one)
{
    struct appending appending = { .rivals = 1 };
    struct store_outcome outcome;
    write_value("\"start\"");
    ck_assert_int_eq(update(&appending, value().version, &outcome, NULL), ERR_CONFLICT);
    ck_assert_str_eq(outcome.version, value().version);
    ck_assert(span_is(value().raw, "\"rival-0\""));
    ck_assert_int_eq(update(&appending, "stale", &outcome, NULL), ERR_CONFLICT);
    ck_assert_str_eq(outcome.version, value().version);
    ck_assert_uint_eq(appending.calls, 1);
}
END_TEST

START_TEST(a_version_of_nothing_is_a_conflict)
{
    struct appending appending = { 0 };
    struct store_outcome outcome;
    ck_assert_int_eq(update(&appending, "stale", &outcome, NULL), ERR_CONFLICT);
    ck_assert_str_eq(outcome.version, "");
    ck_assert_uint_eq(appending.calls, 0);
}
END_TEST

START_TEST(who_never_wins_is_told_so_in_the_end)
{
    struct appending appending = { .rivals = 1000 };
    struct store_outcome outcome;
    write_value("\"start\"");
    ck_assert_int_eq(update(&appending, NULL, &outcome, NULL), ERR_CONFLICT);
    ck_assert_uint_gt(appending.calls, 10);
    ck_assert_uint_lt(appending.calls, 1000);
}
END_TEST

static const int answers[] = { ERR_UNSUPPORTED, ERR_CONFLICT, ERR_NOT_FOUND };

START_TEST(a_change_that_declines_ends_the_update)
{
    struct appending appending = { .answer = answers[_i] };
    struct store_outcome outcome;
    write_value("\"start\"");
    ck_assert_int_eq(update(&appending, NULL, &outcome, NULL), answers[_i]);
    ck_assert_uint_eq(appending.calls, 1);
    ck_assert(span_is(value().raw, "\"start\""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("update");
    TCase *tests = tcase_create("update");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_value_is_made_of_nothing_and_then_of_itself);
    tcase_add_test(tests, the_audit_log_is_told_what_the_change_said);
    tcase_add_test(tests, who_was_slower_is_asked_again_with_what_is_there_by_then);
    tcase_add_test(tests, who_asked_for_a_version_is_told_of_another_one);
    tcase_add_test(tests, a_version_of_nothing_is_a_conflict);
    tcase_add_test(tests, who_never_wins_is_told_so_in_the_end);
    tcase_add_loop_test(tests, a_change_that_declines_ends_the_update, 0,
                        sizeof(answers) / sizeof(answers[0]));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
