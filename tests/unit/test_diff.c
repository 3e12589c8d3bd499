/* What differs between two documents. */
#include <check.h>
#include <stdlib.h>

#include "core/config/diff.h"
#include "core/json/scan.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define KEY(id, print) "{\"id\":\"" id "\",\"ciphertextFingerprint\":\"" print "\",\"keyFingerprint\":\"00\"}"

static struct arena *arena;

static void set_up(void)
{
    arena = arena_new();
}

static void tear_down(void)
{
    arena_free(arena);
}

static const struct {
    const char *before, *after, *changes;
} rows[] = {
    { "{\"a\":1}", "{\"a\":1}", "[]" },
    { "{\"a\":1,\"b\":[1,{\"c\":\"x\"}]}", "{ \"b\" : [ 1, { \"c\" : \"\\u0078\" } ],\n\"a\":1 }", "[]" },
    { "{\"a\":1}", "{\"a\":2}", "[{\"path\":\"/a\",\"before\":1,\"after\":2}]" },
    { "{\"a\":1}", "{\"a\":1.0}", "[{\"path\":\"/a\",\"before\":1,\"after\":1.0}]" },
    { "{\"a\":1}", "{}", "[{\"path\":\"/a\",\"before\":1}]" },
    { "{}", "{\"a\":{\"b\":1}}", "[{\"path\":\"/a\",\"after\":{\"b\":1}}]" },
    { "{\"a\":null}", "{}", "[{\"path\":\"/a\",\"before\":null}]" },
    { "{\"a\":{\"b\":1}}", "{\"a\":[1]}", "[{\"path\":\"/a\",\"before\":{\"b\":1},\"after\":[1]}]" },
    { "{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":3,\"d\":4}}",
      "[{\"path\":\"/a/b\",\"before\":1,\"after\":3},{\"path\":\"/a/c\",\"before\":2},"
      "{\"path\":\"/a/d\",\"after\":4}]" },
    { "{\"a/b~c\":1}", "{\"a/b~c\":2}", "[{\"path\":\"/a~1b~0c\",\"before\":1,\"after\":2}]" },
    { "", "{\"a\":1}", "[{\"path\":\"\",\"after\":{\"a\":1}}]" },
    { "\"a\"", "\"b\"", "[{\"path\":\"\",\"before\":\"a\",\"after\":\"b\"}]" },
    { "{}", "{\"a\": [ \"x y\\\" \\\\\" ,\n\t{ \"b\" : 1 } ] }",
      "[{\"path\":\"/a\",\"after\":[\"x y\\\" \\\\\",{\"b\":1}]}]" },
    /* lists: equal ends are passed over */
    { "[1,2,3]", "[1,2,3,4]", "[{\"path\":\"/3\",\"after\":4}]" },
    { "[1,2,3]", "[0,1,2,3]", "[{\"path\":\"/0\",\"after\":0}]" },
    { "[1,2,3]", "[1,3]", "[{\"path\":\"/1\",\"before\":2}]" },
    { "[1,1]", "[1]", "[{\"path\":\"/1\",\"before\":1}]" },
    { "[1,2,3]", "[1,5,3]", "[{\"path\":\"/1\",\"before\":2,\"after\":5}]" },
    { "[{\"a\":1,\"b\":1}]", "[{\"a\":1,\"b\":2}]", "[{\"path\":\"/0/b\",\"before\":1,\"after\":2}]" },
    /* a key is told as a whole, with its id */
    { "{\"keys\":[" KEY("k1", "aa") "," KEY("k2", "bb") "]}",
      "{\"keys\":[" KEY("k1", "aa") "," KEY("k2", "cc") "]}",
      "[{\"path\":\"/keys/1\",\"before\":" KEY("k2", "bb") ",\"after\":" KEY("k2", "cc") "}]" },
    { "{\"keys\":[" KEY("k1", "aa") "]}", "{\"keys\":[{\"id\":\"k1\",\"credential\":\"c\"}]}",
      "[{\"path\":\"/keys/0\",\"before\":" KEY("k1",
                                               "aa") ",\"after\":{\"id\":\"k1\",\"credential\":\"c\"}}]" },
};

static const char *changes_of(const struct config_diff *diff)
{
    struct json_writer w;
    struct buf text;
    buf_init(&text, 1 << 20);
    jw_init(&w, &text);
    config_diff_write(diff, "path", &w);
    const char *copy = arena_span(arena, buf_span(&text));
    buf_free(&text);
    return copy;
}

START_TEST(each_difference_is_told_with_its_place)
{
    struct config_diff diff;
    config_diff(span_cstr(rows[_i].before), span_cstr(rows[_i].after), arena, &diff);
    const char *changes = changes_of(&diff);
    ck_assert_msg(strcmp(changes, rows[_i].changes) == 0, "%s\nand\n%s\ndiffer in\n%s\nexpected\n%s",
                  rows[_i].before, rows[_i].after, changes, rows[_i].changes);
    ck_assert_uint_eq(diff.dropped, 0);
}
END_TEST

/* {"m":{"0":0,"1":1,…}} */
static const char *wide(unsigned n)
{
    struct json_writer w;
    struct buf text;
    buf_init(&text, 1 << 20);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_key(&w, "m");
    jw_begin_object(&w);
    for (unsigned i = 0; i < n; i++)
        jw_member_uint(&w, arena_printf(arena, "%u", i), i);
    jw_end_object(&w);
    jw_end_object(&w);
    const char *copy = arena_span(arena, buf_span(&text));
    buf_free(&text);
    return copy;
}

START_TEST(what_is_long_and_new_is_told_member_by_member)
{
    struct config_diff diff;
    config_diff(span_cstr("{}"), span_cstr(wide(200)), arena, &diff);
    ck_assert_uint_eq(diff.count, 200);
    ck_assert_str_eq(diff.items[17].path, "/m/17");
    config_diff(span_cstr(wide(200)), span_of("", 0), arena, &diff);
    ck_assert_uint_eq(diff.count, 200);
    ck_assert_ptr_null(diff.items[0].after.ptr);
}
END_TEST

START_TEST(differences_beyond_the_bound_are_counted)
{
    struct config_diff diff;
    config_diff(span_cstr("{}"), span_cstr(wide(DIFF_CHANGES_MAX + 5)), arena, &diff);
    ck_assert_uint_eq(diff.count, DIFF_CHANGES_MAX);
    ck_assert_uint_eq(diff.dropped, 5);
}
END_TEST

START_TEST(the_audit_log_is_told_what_it_has_room_for_and_how_much_more_there_was)
{
    struct config_diff diff;
    config_diff(span_cstr("{\"a\":1}"), span_cstr("{\"a\":2}"), arena, &diff);
    struct span changes = config_diff_audit(&diff, arena);
    ck_assert(span_is(changes, "[{\"field\":\"/a\",\"before\":1,\"after\":2}]"));
    config_diff(span_cstr("{}"), span_cstr(wide(DIFF_CHANGES_MAX + 5)), arena, &diff);
    changes = config_diff_audit(&diff, arena);
    ck_assert_uint_le(changes.len, DIFF_AUDIT_BYTES);
    struct json_want wants[] = { { "*", false }, { "*.field", false }, { "*.further", false } };
    struct json_value found[COUNT(wants)];
    long long further = 0;
    ck_assert_int_eq(json_find(changes, wants, COUNT(wants), 0, found, NULL), 0);
    ck_assert(json_int(found[2].raw, &further));
    ck_assert_int_eq((long long)found[1].element + 1 + further, DIFF_CHANGES_MAX + 5);
    ck_assert_uint_eq(found[2].element, found[1].element + 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diff");
    TCase *tests = tcase_create("diff");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, each_difference_is_told_with_its_place, 0, COUNT(rows));
    tcase_add_test(tests, what_is_long_and_new_is_told_member_by_member);
    tcase_add_test(tests, differences_beyond_the_bound_are_counted);
    tcase_add_test(tests, the_audit_log_is_told_what_it_has_room_for_and_how_much_more_there_was);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
