/* JSON Merge Patch: RFC 7396's own table, and that what is not named stays as it was written. */
#include <check.h>
#include <stdlib.h>

#include "core/config/patch.h"
#include "core/store/store.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

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
    const char *target, *patch, *result;
} rows[] = {
    /* RFC 7396, appendix A */
    { "{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}" },
    { "{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}" },
    { "{\"a\":\"b\"}", "{\"a\":null}", "{}" },
    { "{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}" },
    { "{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}" },
    { "{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}" },
    { "{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}" },
    { "{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}" },
    { "[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]" },
    { "{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]" },
    { "{\"a\":\"foo\"}", "null", "null" },
    { "{\"a\":\"foo\"}", "\"bar\"", "\"bar\"" },
    { "{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}" },
    { "[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}" },
    { "{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}" },
    /* its section 3, without the blanks */
    { "{\"title\":\"Goodbye!\",\"author\":{\"givenName\":\"John\",\"familyName\":\"Doe\"},"
      "\"tags\":[\"example\",\"sample\"],\"content\":\"This will be unchanged\"}",
      "{\"title\":\"Hello!\",\"phoneNumber\":\"+01-123-456-7890\",\"author\":{\"familyName\":null},"
      "\"tags\":[\"example\"]}",
      "{\"title\":\"Hello!\",\"author\":{\"givenName\":\"John\"},\"tags\":[\"example\"],"
      "\"content\":\"This will be unchanged\",\"phoneNumber\":\"+01-123-456-7890\"}" },
    /* the spelling of a name is no other name */
    { "{\"\\u0061\":1,\"b\":2}", "{\"a\":3,\"\\u0062\":null}", "{\"\\u0061\":3}" },
    { "{\"\":1}", "{\"\":2}", "{\"\":2}" },
    { "{\"a\":1,\"ab\":2}", "{\"ab\":null}", "{\"a\":1}" },
    /* a null inside a list is a value */
    { "{\"a\":1}", "{\"a\":[null,{\"b\":null}]}", "{\"a\":[null,{\"b\":null}]}" },
    /* blanks and order stay; what is new is indented as its neighbours are */
    { "{\n  \"a\" : 1.0,\n  \"b\": [ 1,2 ]\n}\n", "{\"b\":{}, \"c\" : \"x\"}",
      "{\n  \"a\" : 1.0,\n  \"b\": {},\n  \"c\" : \"x\"\n}" },
    { "{\n  \"a\": {\n    \"b\": 1\n  },\n  \"z\": 0\n}", "{\"a\":{\"c\":2},\"z\":null}",
      "{\n  \"a\": {\n    \"b\": 1,\n    \"c\":2\n  }\n}" },
    { "{ \"a\":1 ,\"b\":2\t, \"c\":3 }", "{\"b\":4,\"c\":null,\"d\":5}", "{ \"a\":1 ,\"b\":4\t, \"d\":5 }" },
    { "{ \"a\":1 , \"b\":2 }", "{\"a\":null}", "{ \"b\":2 }" },
    { " {\"a\":1} ", " { } ", "{\"a\":1}" },
};

START_TEST(a_patch_gives_what_rfc_7396_says)
{
    struct span out;
    ck_assert_int_eq(config_patch(span_cstr(rows[_i].target), span_cstr(rows[_i].patch), arena, &out), 0);
    ck_assert_msg(span_is(out, rows[_i].result), "%s\npatched with\n%s\nis\n%.*s\nexpected\n%s",
                  rows[_i].target, rows[_i].patch, (int)out.len, out.ptr, rows[_i].result);
    ck_assert_int_eq(out.ptr[out.len], '\0');
}
END_TEST

START_TEST(a_result_over_the_limit_is_refused)
{
    size_t half = STORE_VALUE_LIMIT_BYTES / 2;
    char *text = arena_alloc(arena, half + 16);
    struct span out = { NULL, 0 };
    memset(text, 'x', half + 16);
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + half + 14, "\"}", 2);
    char *patch = arena_span(arena, span_of(text, half + 16));
    ck_assert_int_eq(config_patch(span_of(text, half + 16), span_of(patch, half + 16), arena, &out), 0);
    patch[2] = 'b';
    ck_assert_int_eq(config_patch(span_of(text, half + 16), span_of(patch, half + 16), arena, &out),
                     ERR_LIMIT);
}
END_TEST

/* What the arena handed out is looked at by allocating it again. */
START_TEST(a_value_of_the_patch_is_in_the_result_alone)
{
    static const char target[] = "{\"a\":{\"b\":1},\"keys\":[]}";
    static const char patch[] =
        "{\"keys\":[{\"id\":\"k\",\"key\":\"sk-live-0123456789\"}],\"a\":{\"c\":\"sk-live\"}}";
    struct span out;
    ck_assert_int_eq(config_patch(span_cstr(target), span_cstr(patch), arena, &out), 0);
    ck_assert_ptr_nonnull(memmem(out.ptr, out.len, "sk-live-0123456789", 18));
    explicit_bzero((char *)(uintptr_t)out.ptr, out.len);
    arena_reset(arena);
    size_t size = 15 * 1024;
    const char *memory = arena_alloc(arena, size);
    ck_assert_ptr_null(memmem(memory, size, "sk-live", 7));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("patch");
    TCase *tests = tcase_create("patch");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_patch_gives_what_rfc_7396_says, 0, COUNT(rows));
    tcase_add_test(tests, a_result_over_the_limit_is_refused);
    tcase_add_test(tests, a_value_of_the_patch_is_in_the_result_alone);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
