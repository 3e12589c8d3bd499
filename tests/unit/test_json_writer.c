#include <check.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/json/scan.h"
#include "core/json/writer.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TEXT(literal)                \
    {                                \
        literal, sizeof(literal) - 1 \
    }
#define REPLACED "\xEF\xBF\xBD"

static struct buf out;
static struct json_writer w;

static void set_up(void)
{
    buf_init(&out, 1 << 20);
    jw_init(&w, &out);
}

static void tear_down(void)
{
    buf_free(&out);
}

static void assert_written(const char *expected)
{
    ck_assert_msg(span_is(buf_span(&out), expected), "wrote %.*s\nnot   %s", (int)out.len, out.data,
                  expected);
    ck_assert_int_eq(json_scan(buf_span(&out), NULL, 0, 0, NULL, NULL, NULL), 0);
}

START_TEST(separates_members_and_elements_at_every_level)
{
    jw_begin_object(&w);
    jw_key(&w, "empty");
    jw_begin_object(&w);
    jw_end_object(&w);
    jw_key(&w, "list");
    jw_begin_array(&w);
    jw_int(&w, 1);
    jw_begin_array(&w);
    jw_end_array(&w);
    jw_begin_object(&w);
    jw_member_bool(&w, "a", true);
    jw_member_bool(&w, "b", false);
    jw_end_object(&w);
    jw_null(&w);
    jw_end_array(&w);
    jw_key_span(&w, span_of("tailXX", 4));
    jw_raw(&w, span_cstr("{\"x\": 1}"));
    jw_key(&w, "z");
    jw_string(&w, span_cstr("end"));
    jw_end_object(&w);
    assert_written(
        "{\"empty\":{},\"list\":[1,[],{\"a\":true,\"b\":false},null],\"tail\":{\"x\": 1},\"z\":\"end\"}");
}
END_TEST

START_TEST(writes_the_extreme_numbers)
{
    jw_begin_array(&w);
    jw_int(&w, INT64_MIN);
    jw_int(&w, INT64_MAX);
    jw_uint(&w, UINT64_MAX);
    jw_int(&w, 0);
    jw_end_array(&w);
    assert_written("[-9223372036854775808,9223372036854775807,18446744073709551615,0]");
}
END_TEST

START_TEST(writes_a_member_in_one_call)
{
    jw_begin_object(&w);
    jw_member_cstr(&w, "cstr", "a\"b");
    jw_member_cstr(&w, "none", NULL);
    jw_member_span(&w, "span", span_of("xyz", 2));
    jw_member_int(&w, "int", -1);
    jw_member_uint(&w, "uint", 1);
    jw_member_bool(&w, "na\"me\n", true);
    jw_end_object(&w);
    assert_written(
        "{\"cstr\":\"a\\\"b\",\"none\":null,\"span\":\"xy\",\"int\":-1,\"uint\":1,\"na\\\"me\\n\":true}");
}
END_TEST

static const struct {
    struct span text;
    const char *escaped;
} ESCAPES[] = {
    { TEXT(""), "" },
    { TEXT("plain <&> /"), "plain <&> /" },
    { TEXT("\"\\\b\f\n\r\t"), "\\\"\\\\\\b\\f\\n\\r\\t" },
    { TEXT("\0\x01\x1f\x7f"), "\\u0000\\u0001\\u001f\x7f" },
    { TEXT("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80" },
    { TEXT("a\xE2\x80\xA8"
           "b\xE2\x80\xA9"
           "c\xE2\x80\xAA"),
      "a\\u2028b\\u2029c\xE2\x80\xAA" },
    { TEXT("\xFF"), REPLACED },
    { TEXT("a\x80z"), "a" REPLACED "z" },
    { TEXT("\xC3"), REPLACED },
    { TEXT("\xC3\""), REPLACED "\\\"" },
    { TEXT("\xE2\x82x"), REPLACED "x" },
    { TEXT("\xE2\x80\""), REPLACED "\\\"" },
    { TEXT("\xED\xA0\x80"), REPLACED REPLACED REPLACED },
    { TEXT("\xC0\xAF"), REPLACED REPLACED },
    { TEXT("\xF4\x90\x80\x80"), REPLACED REPLACED REPLACED REPLACED },
    { TEXT("\xF0\x9F\x98"), REPLACED },
};

START_TEST(escapes_what_must_be_and_repairs_what_is_no_utf8)
{
    struct span text = ESCAPES[_i].text;
    json_escape(&out, text);
    ck_assert_msg(span_is(buf_span(&out), ESCAPES[_i].escaped), "row %d: wrote %.*s", _i, (int)out.len,
                  out.data);
}
END_TEST

/* Whatever stands around it: runs of plain characters are written at once. */
START_TEST(escapes_alike_wherever_it_stands)
{
    static const char *const around[] = { "a", "\xC3\xA9", "\xE5\xAD\x97", "\xE2\x80\xAA",
                                          "\xF0\x9F\x98\x80" };
    for (size_t i = 0; i < COUNT(around); i++) {
        for (size_t n = 0; n < 10; n++) {
            char text[128] = "", expected[192] = "";
            size_t len = n * strlen(around[i]);
            for (size_t k = 0; k < n; k++)
                strcat(text, around[i]);
            snprintf(expected, sizeof(expected), "%s%s%s", text, ESCAPES[_i].escaped, around[i]);
            memcpy(text + len, ESCAPES[_i].text.ptr, ESCAPES[_i].text.len);
            len += ESCAPES[_i].text.len;
            memcpy(text + len, around[i], strlen(around[i]));
            buf_clear(&out);
            json_escape(&out, span_of(text, len + strlen(around[i])));
            ck_assert_msg(span_is(buf_span(&out), expected), "row %d behind %zu times %s: wrote %.*s", _i, n,
                          around[i], (int)out.len, out.data);
        }
    }
}
END_TEST

START_TEST(writes_valid_json_for_any_two_bytes)
{
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            const char text[] = { (char)first, (char)second, 'x' };
            for (size_t len = 1; len <= sizeof(text); len++) {
                buf_clear(&out);
                jw_init(&w, &out);
                jw_string(&w, span_of(text, len));
                if (json_scan(buf_span(&out), NULL, 0, 0, NULL, NULL, NULL) != 0)
                    ck_abort_msg("%02x %02x, %zu bytes: %.*s", first, second, len, (int)out.len, out.data);
            }
        }
    }
}
END_TEST

START_TEST(gives_back_what_was_written)
{
    static const char text[] = "\x01\"\\\b\f\n\r\t/\x7f\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80 end";
    struct arena *arena = arena_new();
    jw_cstr(&w, text);
    ck_assert(json_string_is(buf_span(&out), text));
    ck_assert(span_is(json_decode(arena, buf_span(&out)), text));
    arena_free(arena);
}
END_TEST

/* A hole in the middle could read as another text; a beginning cannot. */
START_TEST(writes_nothing_after_what_did_not_fit)
{
    static const char whole[] = "{\"first\":\"a\\nb\",\"n\":12345,\"list\":[true,null]}";
    for (size_t limit = 0; limit <= sizeof(whole); limit++) {
        buf_free(&out);
        buf_init(&out, limit);
        jw_init(&w, &out);
        jw_begin_object(&w);
        jw_member_cstr(&w, "first", "a\nb");
        jw_member_int(&w, "n", 12345);
        jw_key(&w, "list");
        jw_begin_array(&w);
        jw_bool(&w, true);
        jw_null(&w);
        jw_end_array(&w);
        jw_end_object(&w);
        ck_assert_msg(out.len <= limit && strncmp(whole, out.data == NULL ? "" : out.data, out.len) == 0,
                      "limit %zu: %.*s", limit, (int)out.len, out.data);
        ck_assert_msg(out.overflowed == (limit < sizeof(whole) - 1), "limit %zu", limit);
    }
}
END_TEST

/* Where eight bytes are looked at together, each of them counts as it does alone. */
START_TEST(a_byte_is_escaped_the_same_wherever_it_stands)
{
    enum { LEN = 19, PLACES = 256 * LEN };
    struct buf whole, pieces;
    buf_init(&whole, 1024);
    buf_init(&pieces, 1024);
    for (int place = 0; place < PLACES; place++) {
        char text[LEN];
        memset(text, 'a', sizeof(text));
        text[place % LEN] = (char)(place / LEN);
        buf_clear(&whole);
        buf_clear(&pieces);
        json_escape(&whole, span_of(text, sizeof(text)));
        for (int i = 0; i < LEN; i++)
            json_escape(&pieces, span_of(text + i, 1));
        ck_assert_msg(span_eq(buf_span(&whole), buf_span(&pieces)), "byte %d at %d: %.*s, alone %.*s",
                      place / LEN, place % LEN, (int)whole.len, whole.data, (int)pieces.len, pieces.data);
    }
    buf_free(&pieces);
    buf_free(&whole);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_writer");
    TCase *tests = tcase_create("writer");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, separates_members_and_elements_at_every_level);
    tcase_add_test(tests, writes_the_extreme_numbers);
    tcase_add_test(tests, writes_a_member_in_one_call);
    tcase_add_loop_test(tests, escapes_what_must_be_and_repairs_what_is_no_utf8, 0, (int)COUNT(ESCAPES));
    tcase_add_loop_test(tests, escapes_alike_wherever_it_stands, 0, (int)COUNT(ESCAPES));
    tcase_add_test(tests, writes_valid_json_for_any_two_bytes);
    tcase_add_test(tests, gives_back_what_was_written);
    tcase_add_test(tests, writes_nothing_after_what_did_not_fit);
    tcase_add_test(tests, a_byte_is_escaped_the_same_wherever_it_stands);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
