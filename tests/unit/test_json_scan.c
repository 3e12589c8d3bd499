#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/json/scan.h"
#include "tests/unit/utf8.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TEXT(literal)                \
    {                                \
        literal, sizeof(literal) - 1 \
    }

/* A copy that ends where its memory ends, so that AddressSanitizer sees a read beyond it. */
static struct span exact_copy(struct span text)
{
    char *copy = malloc(text.len + (text.len == 0));
    ck_assert_ptr_nonnull(copy);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    return span_of(copy, text.len);
}

static void free_copy(struct span copy)
{
    free((char *)(uintptr_t)copy.ptr);
}

static int scan_plain(struct span text, unsigned flags, struct json_fault *fault)
{
    struct span copy = exact_copy(text);
    int r = json_scan(copy, NULL, 0, flags, NULL, NULL, fault);
    free_copy(copy);
    return r;
}

static const struct span GOOD[] = {
    TEXT("null"),
    TEXT("true"),
    TEXT(" false "),
    TEXT("0"),
    TEXT("-0"),
    TEXT("-0.0e-0"),
    TEXT("1234567890"),
    TEXT("0.1E+99999999999999999999"),
    TEXT("\"\""),
    TEXT("\"a\x7f\""),
    TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\""),
    TEXT("\"\\uD800\""),
    TEXT("\"\\u0000\""),
    TEXT("\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"
         "\""),
    TEXT("[]"),
    TEXT("{}"),
    TEXT("\t[ 1 ,\r\n 2 ]\n"),
    TEXT("[[],{},[[]]]"),
    TEXT("{ \"a\" : { \"b\" : [ null , { } ] } , \"\" : 0 }"),
    TEXT("{\"a\":1,\"a\":2}"),
};

START_TEST(accepts_every_form_of_rfc_8259)
{
    struct json_fault fault = { 0, "none" };
    int r = scan_plain(GOOD[_i], 0, &fault);
    ck_assert_msg(r == 0, "%s: %s, %s at %zu", GOOD[_i].ptr, err_name(r), fault.what, fault.offset);
}
END_TEST

START_TEST(refuses_every_beginning_of_a_text_and_accepts_it_as_a_cut_one)
{
    struct span text = GOOD[_i];
    size_t whole = span_trim(text).len + (size_t)(span_trim(text).ptr - text.ptr);
    bool is_number = strchr("-0123456789", span_trim(text).ptr[0]) != NULL;
    for (size_t n = 0; n < whole; n++) {
        struct json_fault fault = { 0, "none" };
        int r = scan_plain(span_of(text.ptr, n), JSON_SCAN_CUT, &fault);
        ck_assert_msg(r == 0, "cut %.*s: %s at %zu", (int)n, text.ptr, fault.what, fault.offset);
        if (is_number)
            continue;
        r = scan_plain(span_of(text.ptr, n), 0, &fault);
        ck_assert_msg(r == ERR_FORMAT && fault.offset == n, "%.*s: %s at %zu", (int)n, text.ptr, err_name(r),
                      fault.offset);
    }
}
END_TEST

static const struct {
    struct span text;
    size_t offset;
} BAD[] = {
    { TEXT(""), 0 },
    { TEXT("  "), 2 },
    { TEXT("\xEF\xBB\xBF{}"), 0 },
    { TEXT("nul"), 3 },
    { TEXT("nulL"), 3 },
    { TEXT("True"), 0 },
    { TEXT("NaN"), 0 },
    { TEXT("Infinity"), 0 },
    { TEXT("-Infinity"), 1 },
    { TEXT("truefalse"), 4 },
    { TEXT("01"), 1 },
    { TEXT("-"), 1 },
    { TEXT("+1"), 0 },
    { TEXT(".5"), 0 },
    { TEXT("1."), 2 },
    { TEXT("1.e5"), 2 },
    { TEXT("1e"), 2 },
    { TEXT("1e+"), 3 },
    { TEXT("1e+-2"), 3 },
    { TEXT("0x10"), 1 },
    { TEXT("1_000"), 1 },
    { TEXT("'a'"), 0 },
    { TEXT("\"a"), 2 },
    { TEXT("\"a\nb\""), 2 },
    { TEXT("\"a\0b\""), 2 },
    { TEXT("\"\\"), 2 },
    { TEXT("\"\\x41\""), 2 },
    { TEXT("\"\\\0\""), 2 },
    { TEXT("\"\\U0041\""), 2 },
    { TEXT("\"\\u"), 3 },
    { TEXT("\"\\u12\""), 5 },
    { TEXT("\"\\u12g4\""), 5 },
    { TEXT("[1,]"), 3 },
    { TEXT("[,1]"), 1 },
    { TEXT("[1 2]"), 3 },
    { TEXT("[1,,2]"), 3 },
    { TEXT("[1}"), 2 },
    { TEXT("{\"a\":1]"), 6 },
    { TEXT("{\"a\":1,}"), 7 },
    { TEXT("{,}"), 1 },
    { TEXT("{\"a\"}"), 4 },
    { TEXT("{\"a\" 1}"), 5 },
    { TEXT("{\"a\":}"), 5 },
    { TEXT("{\"a\"::1}"), 5 },
    { TEXT("{a:1}"), 1 },
    { TEXT("{1:1}"), 1 },
    { TEXT("{\"a\":1 \"b\":2}"), 7 },
    { TEXT("{} {}"), 3 },
    { TEXT("{}\0"), 2 },
    { TEXT("[1]//"), 3 },
    { TEXT("[1/**/]"), 2 },
    { TEXT("\v1"), 0 },
    { TEXT("\xC2\xA0"
           "1"),
      0 },
    { TEXT("\0"), 0 },
};

START_TEST(refuses_what_is_not_json_and_says_where)
{
    struct json_fault fault = { 9999, NULL };
    int r = scan_plain(BAD[_i].text, 0, &fault);
    ck_assert_msg(r == ERR_FORMAT, "accepted: %s", BAD[_i].text.ptr);
    ck_assert_msg(fault.offset == BAD[_i].offset && fault.what != NULL, "%s: fault at %zu, not %zu",
                  BAD[_i].text.ptr, fault.offset, BAD[_i].offset);
}
END_TEST

/* Each with the number of its bytes that could begin a character. */
static const struct {
    struct span bytes;
    size_t good;
} BAD_UTF8[] = {
    { TEXT("\x80"), 0 },
    { TEXT("\xBF"), 0 },
    { TEXT("\xC0\x80"), 0 },
    { TEXT("\xC1\xBF"), 0 },
    { TEXT("\xC3"), 1 },
    { TEXT("\xC3\x28"), 1 },
    { TEXT("\xE0\x80\x80"), 1 },
    { TEXT("\xE0\x9F\xBF"), 1 },
    { TEXT("\xE2\x82"), 2 },
    { TEXT("\xE2\x28\xA1"), 1 },
    { TEXT("\xED\xA0\x80"), 1 },
    { TEXT("\xED\xBF\xBF"), 1 },
    { TEXT("\xF0\x80\x80\x80"), 1 },
    { TEXT("\xF0\x8F\xBF\xBF"), 1 },
    { TEXT("\xF0\x9F\x98"), 3 },
    { TEXT("\xF4\x90\x80\x80"), 1 },
    { TEXT("\xF5\x80\x80\x80"), 0 },
    { TEXT("\xFE"), 0 },
    { TEXT("\xFF"), 0 },
};

/* The fast loop reads eight bytes at a time: the fault must be seen at each of their places. */
START_TEST(refuses_broken_utf8_at_every_position)
{
    struct span bad = BAD_UTF8[_i].bytes;
    for (size_t before = 0; before < 20; before++) {
        char text[64];
        int len = snprintf(text, sizeof(text), "\"%.*s%.*s%s\"", (int)before, "abcdefghijklmnopqrst",
                           (int)bad.len, bad.ptr, "uvwxyz");
        struct json_fault fault = { 0, NULL };
        int r = scan_plain(span_of(text, (size_t)len), 0, &fault);
        ck_assert_msg(r == ERR_FORMAT && fault.offset == 1 + before + BAD_UTF8[_i].good,
                      "row %d after %zu bytes: %s at %zu", _i, before, err_name(r), fault.offset);
    }
}
END_TEST

START_TEST(refuses_control_characters_and_ends_strings_at_every_position)
{
    for (int before = 0; before < 20; before++) {
        char text[64];
        struct json_fault fault = { 0, NULL };
        for (int c = 0; c < 0x20; c++) {
            int len = snprintf(text, sizeof(text), "\"%.*s%c%s\"", before, "abcdefghijklmnopqrst", c,
                               "uvwxyzuvwxyz");
            int r = scan_plain(span_of(text, (size_t)len), 0, &fault);
            ck_assert_msg(r == ERR_FORMAT && fault.offset == (size_t)before + 1,
                          "byte %d after %d bytes: %s at %zu", c, before, err_name(r), fault.offset);
        }
        int len = snprintf(text, sizeof(text), "\"%.*s\"uvwxyzuvwxyz", before, "abcdefghijklmnopqrst");
        ck_assert_int_eq(scan_plain(span_of(text, (size_t)len), 0, &fault), ERR_FORMAT);
        ck_assert_uint_eq(fault.offset, (size_t)before + 2);
    }
}
END_TEST

/* Whether a byte stands for itself in a string of JSON, as far as it is ASCII. */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

START_TEST(judges_every_sequence_of_bytes_as_rfc_3629_does)
{
    static const unsigned char edges[] = { 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF };
    size_t len = (size_t)_i;
    char text[6] = "\"";

    text[len + 1] = '"';
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < (len > 1 ? 256 : 1); second++) {
            for (size_t third = 0; third < (len > 2 ? COUNT(edges) : 1); third++) {
                for (size_t fourth = 0; fourth < (len > 3 ? COUNT(edges) : 1); fourth++) {
                    const unsigned char p[] = { (unsigned char)first, (unsigned char)second, edges[third],
                                                edges[fourth] };
                    if (!is_plain(p[0]) || (len > 1 && !is_plain(p[1])))
                        continue;
                    memcpy(text + 1, p, len);
                    bool is = json_scan(span_of(text, len + 2), NULL, 0, 0, NULL, NULL, NULL) == 0;
                    if (is != is_utf8(span_of((const char *)p, len)))
                        ck_abort_msg("%02x %02x %02x %02x, %zu bytes: judged %d", p[0], p[1], p[2], p[3], len,
                                     is);
                }
            }
        }
    }
}
END_TEST

START_TEST(refuses_nesting_beyond_the_bound_however_deep)
{
    static const size_t depths[] = { 1, JSON_DEPTH_MAX, JSON_DEPTH_MAX + 1, 1000000 };
    for (size_t i = 0; i < COUNT(depths); i++) {
        for (int is_object = 0; is_object < 2; is_object++) {
            struct buf text;
            struct json_fault fault = { 0, NULL };
            const char *open = is_object ? "{\"a\":" : "[";
            buf_init(&text, 16 << 20);
            for (size_t k = 0; k < depths[i]; k++)
                buf_append_cstr(&text, open);
            buf_append_cstr(&text, "1");
            for (size_t k = 0; k < depths[i]; k++)
                buf_append_cstr(&text, is_object ? "}" : "]");
            int r = json_scan(buf_span(&text), NULL, 0, 0, NULL, NULL, &fault);
            ck_assert_int_eq(r, depths[i] > JSON_DEPTH_MAX ? ERR_LIMIT : 0);
            if (r != 0)
                ck_assert_uint_eq(fault.offset, JSON_DEPTH_MAX * strlen(open));
            buf_free(&text);
        }
    }
}
END_TEST

/* Every value reported, as "path:kind:key:raw@element " in the order of the reports. */
static int write_report(void *ctx, const struct json_value *value)
{
    static const char kinds[] = "-nft#\"[{";
    return buf_printf(ctx, "%u:%c:%.*s:%.*s@%zu ", value->path, kinds[value->kind], (int)value->key.len,
                      value->key.len > 0 ? value->key.ptr : "", (int)value->raw.len, value->raw.ptr,
                      value->element);
}

static const struct {
    const char *text;
    const char *paths[4];
    unsigned flags;
    const char *report;
} MATCHES[] = {
    { "{\"model\":\"gpt\",\"n\":1}", { "model" }, 0, "0:\":model:\"gpt\"@0 " },
    { "{\"mod\\u0065l\":null}", { "model" }, 0, "0:n:mod\\u0065l:null@0 " },
    { "{\"Model\":1,\"mode\":1,\"models\":1,\"\":1}", { "model" }, 0, "" },
    { "{\"a\":{\"model\":1}}", { "model" }, 0, "" },
    { "[{\"model\":1}]", { "model" }, 0, "" },
    { "{\"a\":{\"b\":true,\"c\":{\"b\":1}},\"b\":2}", { "a.b" }, 0, "0:t:b:true@0 " },
    { "{\"a\":{\"b\":{\"x\":[]}}}",
      { "a", "a.b", "a.b.x" },
      0,
      "2:[:x:[]@0 1:{:b:{\"x\":[]}@0 0:{:a:{\"b\":{\"x\":[]}}@0 " },
    { "{\"a\":1,\"a\":2}", { "a" }, 0, "0:#:a:1@0 0:#:a:2@0 " },
    { " [1] ", { "" }, 0, "0:[::[1]@0 " },
    { "-1.5e3", { "" }, 0, "0:#::-1.5e3@0 " },
    { "{\"a\":[1,\"x\",{},[]]}", { "a.*" }, 0, "0:#::1@0 0:\"::\"x\"@1 0:{::{}@2 0:[::[]@3 " },
    { "{\"c\":[{\"d\":{\"x\":1,\"y\":2}},{\"d\":{\"z\":3}}]}",
      { "c.*.d.*" },
      0,
      "0:#:x:1@0 0:#:y:2@0 0:#:z:3@1 " },
    { "{\"c\":[{\"t\":[1,2]},{\"t\":[3]}]}", { "c.*.t.*" }, 0, "0:#::1@0 0:#::2@0 0:#::3@1 " },
    { "{\"m\":{\"a\":{\"k\":[7,8]},\"b\":{\"k\":[9]}}}", { "m.*.k.*" }, 0, "0:#::7@0 0:#::8@1 0:#::9@0 " },
    { "[[1,2],[3]]", { "*.*" }, 0, "0:#::1@0 0:#::2@0 0:#::3@1 " },
    { "{\"a\":1}", { "a", "a", "*" }, 0, "0:#:a:1@0 1:#:a:1@0 2:#:a:1@0 " },
    { "{\"a\":1}", { "a.*", "a.b" }, 0, "" },
    { "{\"a.b\":1,\"*\":2}", { "a.b" }, 0, "" },
    { "[[[[[[[[[1]]]]]]]]]", { "*.*.*.*.*.*.*.*" }, 0, "0:[::[1]@0 " },
    { "{\"a\":12", { "a", "" }, JSON_SCAN_CUT, "" },
    { "{\"a\":12,", { "a", "" }, JSON_SCAN_CUT, "0:#:a:12@0 " },
    { "{\"a\":tru", { "a", "" }, JSON_SCAN_CUT, "" },
    { "{\"a\":true", { "a", "" }, JSON_SCAN_CUT, "0:t:a:true@0 " },
    { "{\"a\":\"x\",\"b\":\"y", { "a", "b", "" }, JSON_SCAN_CUT, "0:\":a:\"x\"@0 " },
    { "{\"a\":[1,2", { "a.*" }, JSON_SCAN_CUT, "0:#::1@0 " },
};

START_TEST(reports_the_values_at_wanted_paths_in_post_order)
{
    struct json_want wants[4] = { { NULL, false } };
    size_t n = 0;
    struct buf report;
    for (; n < 4 && MATCHES[_i].paths[n] != NULL; n++)
        wants[n].path = MATCHES[_i].paths[n];
    buf_init(&report, 4096);
    struct span copy = exact_copy(span_cstr(MATCHES[_i].text));
    int r = json_scan(copy, wants, n, MATCHES[_i].flags, write_report, &report, NULL);
    ck_assert_msg(r == 0 && span_is(buf_span(&report), MATCHES[_i].report),
                  "%s: %s\nreported %.*s\nexpected %s", MATCHES[_i].text, err_name(r), (int)report.len,
                  report.data, MATCHES[_i].report);
    free_copy(copy);
    buf_free(&report);
}
END_TEST

static int check_offsets(void *ctx, const struct json_value *value)
{
    const char *text = ctx;
    ck_assert_ptr_eq(value->raw.ptr, text + value->offset);
    ck_assert_int_eq(text[value->key_offset], '"');
    ck_assert_ptr_eq(value->key.ptr, text + value->key_offset + 1);
    return 0;
}

START_TEST(gives_offsets_that_point_into_the_text)
{
    static char text[] = " { \"a\" : [ 1 ] , \"b\\n\" : { \"c\" : \"x\" } } ";
    static const struct json_want wants[] = { { "a", false }, { "*", false }, { "*.c", false } };
    ck_assert_int_eq(json_scan(span_cstr(text), wants, COUNT(wants), 0, check_offsets, text, NULL), 0);
}
END_TEST

static int stop_at_second(void *ctx, const struct json_value *value)
{
    int *calls = ctx;
    (void)value;
    return ++*calls == 2 ? ERR_STOPPED : 0;
}

START_TEST(ends_when_the_caller_says_so)
{
    static const struct json_want wants[] = { { "*", false } };
    struct json_fault fault = { 5, "untouched" };
    int calls = 0;
    ck_assert_int_eq(json_scan(span_cstr("[1,[2],3,"), wants, 1, 0, stop_at_second, &calls, &fault),
                     ERR_STOPPED);
    ck_assert_int_eq(calls, 2);
    ck_assert_str_eq(fault.what, "untouched");
}
END_TEST

static const struct {
    const char *text;
    const char *unique; /* a wanted path, or NULL: every name */
    int result;
    size_t offset;
} REPEATS[] = {
    { "{\"a\":1,\"b\":2,\"a\":3}", "a", ERR_CONFLICT, 13 },
    { "{\"a\":1,\"\\u0061\":3}", "a", ERR_CONFLICT, 7 },
    { "{\"b\":1,\"b\":2,\"a\":3}", "a", 0, 0 },
    { "{\"x\":{\"a\":1},\"a\":2}", "a", 0, 0 },
    { "{\"s\":{\"u\":1},\"s\":{}}", "s.u", ERR_CONFLICT, 13 },
    { "{\"s\":{\"u\":1,\"u\":2}}", "s.u", ERR_CONFLICT, 12 },
    { "{\"c\":[{\"u\":1},{\"u\":2}]}", "c.*.u", 0, 0 },
    { "{\"c\":[{\"u\":1},{\"u\":2,\"u\":3}]}", "c.*.u", ERR_CONFLICT, 21 },
    { "{\"a\":1,\"a\":2}", "*", 0, 0 },
    { "{\"a\":1,\"a\":2}", NULL, ERR_CONFLICT, 7 },
    { "{\"\":1,\"\":2}", NULL, ERR_CONFLICT, 6 },
    { "{\"a\":{\"a\":{\"a\":1}}}", NULL, 0, 0 },
    { "[{\"a\":1},{\"a\":1}]", NULL, 0, 0 },
    { "{\"a\":{\"x\":1},\"b\":{\"x\":1},\"a\":0}", NULL, ERR_CONFLICT, 25 },
    { "{\"\\uD83D\\uDE00\":1,\"\xF0\x9F\x98\x80\":2}", NULL, ERR_CONFLICT, 18 },
    { "{\"a\\u0000\":1,\"a\":2}", NULL, 0, 0 },
    { "{\"a\\/b\":1,\"a/b\":2}", NULL, ERR_CONFLICT, 10 },
};

START_TEST(refuses_repeated_members_where_asked_to)
{
    struct json_want want = { REPEATS[_i].unique == NULL ? "" : REPEATS[_i].unique,
                              REPEATS[_i].unique != NULL };
    struct json_fault fault = { 0, NULL };
    unsigned flags = REPEATS[_i].unique == NULL ? JSON_SCAN_UNIQUE : 0;
    int r = json_scan(span_cstr(REPEATS[_i].text), &want, 1, flags, NULL, NULL, &fault);
    ck_assert_msg(r == REPEATS[_i].result && fault.offset == REPEATS[_i].offset, "%s: %s at %zu",
                  REPEATS[_i].text, err_name(r), fault.offset);
}
END_TEST

START_TEST(finds_a_repeated_name_among_very_many)
{
    struct buf text;
    struct json_fault fault = { 0, NULL };
    buf_init(&text, 8 << 20);
    buf_append_cstr(&text, "{");
    for (int i = 0; i < 100000; i++)
        buf_printf(&text, "\"name%d\":{\"x\":1},", i);
    size_t last = text.len;
    buf_append_cstr(&text, "\"nam\\u006512345\":1}");
    ck_assert_int_eq(json_scan(buf_span(&text), NULL, 0, JSON_SCAN_UNIQUE, NULL, NULL, &fault), ERR_CONFLICT);
    ck_assert_uint_eq(fault.offset, last);
    buf_free(&text);
}
END_TEST

START_TEST(keeps_the_last_value_of_each_path)
{
    static const struct json_want wants[] = { { "a", false }, { "b.c", false }, { "x", false } };
    struct json_value found[3];
    ck_assert_int_eq(
        json_find(span_cstr("{\"a\":1,\"b\":{\"c\":\"y\"},\"a\":[2]}"), wants, 3, 0, found, NULL), 0);
    ck_assert(found[0].kind == JSON_KIND_ARRAY && span_is(found[0].raw, "[2]"));
    ck_assert(found[1].kind == JSON_KIND_STRING && span_is(found[1].raw, "\"y\""));
    ck_assert(found[2].kind == JSON_KIND_ABSENT && found[2].path == 2);
}
END_TEST

START_TEST(leaves_the_results_alone_when_the_text_is_refused)
{
    static const struct json_want wants[] = { { "a", false } };
    struct json_value found = { .kind = JSON_KIND_TRUE, .offset = 42 };
    ck_assert_int_eq(json_find(span_cstr("{\"a\":1,}"), wants, 1, 0, &found, NULL), ERR_FORMAT);
    ck_assert(found.kind == JSON_KIND_TRUE && found.offset == 42);
}
END_TEST

static const struct {
    const char *raw;
    struct span text;
} DECODED[] = {
    { "\"\"", TEXT("") },
    { "\"plain \xC3\xA9\"", TEXT("plain \xC3\xA9") },
    { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", TEXT("\"\\/\b\f\n\r\t") },
    { "\"a\\u0000b\"", TEXT("a\0b") },
    { "\"\\u0041\\u00e9\\u20AC\"", TEXT("A\xC3\xA9\xE2\x82\xAC") },
    { "\"\\uD83D\\uDE00\"", TEXT("\xF0\x9F\x98\x80") },
    { "\"\\uDBFF\\uDFFF\"", TEXT("\xF4\x8F\xBF\xBF") },
    { "\"\\uD83D\"", TEXT("\xEF\xBF\xBD") },
    { "\"\\uDE00\"", TEXT("\xEF\xBF\xBD") },
    { "\"\\uDE00\\uD83D\"", TEXT("\xEF\xBF\xBD\xEF\xBF\xBD") },
    { "\"\\uD83D\\uD83D\\uDE00\"", TEXT("\xEF\xBF\xBD\xF0\x9F\x98\x80") },
    { "\"\\uD83D\\u0041\"", TEXT("\xEF\xBF\xBD"
                                 "A") },
    { "\"\\uD83D\\nx\"", TEXT("\xEF\xBF\xBD\nx") },
    { "\"\\uD83Dude00\"", TEXT("\xEF\xBF\xBDude00") },
};

START_TEST(decodes_strings)
{
    struct arena *arena = arena_new();
    struct span text = json_decode(arena, span_cstr(DECODED[_i].raw));
    ck_assert_msg(span_eq(text, DECODED[_i].text), "%s became %.*s", DECODED[_i].raw, (int)text.len,
                  text.ptr);
    ck_assert_int_eq(text.ptr[text.len], '\0');
    arena_free(arena);
}
END_TEST

/* Which code point the first character is, by arithmetic. */
static unsigned code_of(struct span text)
{
    const unsigned char *p = (const unsigned char *)text.ptr;
    unsigned code = text.len == 1 ? p[0] : p[0] & (0xFFu >> (text.len + 1));
    for (size_t i = 1; i < text.len; i++)
        code = code << 6 | (p[i] & 0x3F);
    return code;
}

START_TEST(decodes_every_escaped_code_point)
{
    struct arena *arena = arena_new();
    for (unsigned code = 0; code <= 0x10FFFF; code += code < 0x10000 ? 1 : 61) {
        char raw[16];
        unsigned high = 0xD800 + (code >> 10) - 0x40, low = 0xDC00 + (code & 0x3FF);
        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        if (code >= 0x10000)
            snprintf(raw, sizeof(raw), "\"\\u%04x\\u%04X\"", high, low);
        else
            snprintf(raw, sizeof(raw), code % 2 == 0 ? "\"\\u%04x\"" : "\"\\u%04X\"", code);
        struct span text = json_decode(arena, span_cstr(raw));
        ck_assert_msg(is_utf8(text) && code_of(text) == code, "%s became U+%04X", raw, code_of(text));
        ck_assert_msg(scan_plain(span_cstr(raw), 0, NULL) == 0, "%s is refused", raw);
        arena_reset(arena);
    }
    arena_free(arena);
}
END_TEST

START_TEST(compares_strings_decoded)
{
    bool has_nul = memchr(DECODED[_i].text.ptr, '\0', DECODED[_i].text.len) != NULL;
    struct span raw = span_cstr(DECODED[_i].raw);
    char other[64];
    /* A string with a NUL in it equals no C string, above all not the one before the NUL. */
    ck_assert_msg(json_string_is(raw, DECODED[_i].text.ptr) == !has_nul, "%s", DECODED[_i].raw);
    snprintf(other, sizeof(other), "%sx", DECODED[_i].text.ptr);
    ck_assert_msg(!json_string_is(raw, other), "%s", DECODED[_i].raw);
    ck_assert_msg(!json_string_is(raw, "x"), "%s", DECODED[_i].raw);
}
END_TEST

static const struct {
    const char *raw;
    bool is_int;
    long long value;
} INTEGERS[] = {
    { "0", true, 0 },
    { "-0", true, 0 },
    { "42", true, 42 },
    { "-42", true, -42 },
    { "9223372036854775807", true, 9223372036854775807LL },
    { "-9223372036854775808", true, -9223372036854775807LL - 1 },
    { "9223372036854775808", false, 0 },
    { "-9223372036854775809", false, 0 },
    { "99999999999999999999999999", false, 0 },
    { "1.0", false, 0 },
    { "1e2", false, 0 },
    { "-", false, 0 },
    { "", false, 0 },
    { "\"1\"", false, 0 },
};

START_TEST(reads_integers_that_fit)
{
    long long value = 77;
    bool is_int = json_int(span_cstr(INTEGERS[_i].raw), &value);
    ck_assert_msg(is_int == INTEGERS[_i].is_int && value == (is_int ? INTEGERS[_i].value : 77),
                  "%s: %d, %lld", INTEGERS[_i].raw, is_int, value);
}
END_TEST

static const struct {
    const char *raw;
    bool fits;
    double value;
} NUMBERS[] = {
    { "0", true, 0 },
    { "-1.5", true, -1.5 },
    { "25e-2", true, 0.25 },
    { "1E2", true, 100 },
    { "1e308", true, 1e308 },
    { "1e309", false, 0 },
    { "-1e309", false, 0 },
    { "1e-400", true, 0 },
    { "0.00000000000000000000000000000000000000000000000000000000000001", false, 0 }, /* 64 bytes */
    { "0.0000000000000000000000000000000000000000000000000000000000000", true, 0 },
    { "", false, 0 },
};

START_TEST(reads_numbers_as_doubles)
{
    double value = 7;
    bool fits = json_number(span_cstr(NUMBERS[_i].raw), &value);
    ck_assert_msg(fits == NUMBERS[_i].fits, "%s", NUMBERS[_i].raw);
    ck_assert_double_eq(value, fits ? NUMBERS[_i].value : 7);
}
END_TEST

/* Whatever one byte is changed to: the scan ends, reads nothing beyond, and what a cut scan
 * accepts as a beginning a whole scan refuses at the end only. */
START_TEST(survives_every_change_of_one_byte)
{
    static const char text[] = "{\"a\":[1,-2.5e1,\"\\u00e9\xC3\xA9\"],\"b\":{\"c\":null}}";
    static const struct json_want wants[] = { { "a.*", false }, { "b.c", true }, { "*", false } };
    for (size_t at = 0; at + 1 < sizeof(text); at++) {
        for (int c = 0; c < 256; c++) {
            struct buf report;
            struct json_fault whole = { 0, NULL }, cut = { 0, NULL };
            struct span copy = exact_copy(span_of(text, sizeof(text) - 1));
            buf_init(&report, 4096);
            ((char *)(uintptr_t)copy.ptr)[at] = (char)c;
            int r = json_scan(copy, wants, 3, JSON_SCAN_UNIQUE, write_report, &report, &whole);
            int r_cut = json_scan(copy, wants, 3, JSON_SCAN_UNIQUE | JSON_SCAN_CUT, NULL, NULL, &cut);
            ck_assert(whole.offset <= copy.len);
            ck_assert_msg(r == r_cut || (r == ERR_FORMAT && r_cut == 0 && whole.offset == copy.len),
                          "byte %d at %zu: %d at %zu, cut %d", c, at, r, whole.offset, r_cut);
            free_copy(copy);
            buf_free(&report);
        }
    }
}
END_TEST

static const struct {
    const char *raw;
    size_t size;
    const char *copy;
} COPIES[] = {
    { "\"\"", 4, "" },
    { "\"abc\"", 4, "abc" },
    { "\"abcd\"", 4, "abc" },
    { "\"a\\/b\"", 4, "a/b" },
    { "\"abc\"", 1, "" },
    /* a character is whole or not there */
    { "\"ab\xC3\xA9\"", 5, "ab\xC3\xA9" },
    { "\"ab\xC3\xA9\"", 4, "ab" },
    { "\"ab\\u00e9\"", 4, "ab" },
    { "\"\xE4\xBD\xA0\"", 3, "" },
    { "\"a\xF0\x9F\x98\x80\"", 5, "a" },
    { "\"\xC3\xA9\xC3\xA9\"", 4, "\xC3\xA9" },
    { "\"a\\u0000b\"", 9, "a" },
};

START_TEST(copies_strings_into_a_bounded_place)
{
    char *place = malloc(COPIES[_i].size); /* its end is the sanitizer's to watch */
    struct span raw = exact_copy(span_cstr(COPIES[_i].raw));
    json_copy(raw, place, COPIES[_i].size);
    ck_assert_msg(strcmp(place, COPIES[_i].copy) == 0, "%s in %zu: %s", COPIES[_i].raw, COPIES[_i].size,
                  place);
    free_copy(raw);
    free(place);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_scan");
    TCase *grammar = tcase_create("grammar"), *paths = tcase_create("paths"),
          *values = tcase_create("values");
    tcase_set_timeout(grammar, 30);
    tcase_add_loop_test(grammar, accepts_every_form_of_rfc_8259, 0, (int)COUNT(GOOD));
    tcase_add_loop_test(grammar, refuses_every_beginning_of_a_text_and_accepts_it_as_a_cut_one, 0,
                        (int)COUNT(GOOD));
    tcase_add_loop_test(grammar, refuses_what_is_not_json_and_says_where, 0, (int)COUNT(BAD));
    tcase_add_loop_test(grammar, refuses_broken_utf8_at_every_position, 0, (int)COUNT(BAD_UTF8));
    tcase_add_test(grammar, refuses_control_characters_and_ends_strings_at_every_position);
    tcase_add_loop_test(grammar, judges_every_sequence_of_bytes_as_rfc_3629_does, 1, 5);
    tcase_add_test(grammar, refuses_nesting_beyond_the_bound_however_deep);
    tcase_add_test(grammar, survives_every_change_of_one_byte);
    tcase_add_loop_test(paths, reports_the_values_at_wanted_paths_in_post_order, 0, (int)COUNT(MATCHES));
    tcase_add_test(paths, gives_offsets_that_point_into_the_text);
    tcase_add_test(paths, ends_when_the_caller_says_so);
    tcase_add_loop_test(paths, refuses_repeated_members_where_asked_to, 0, (int)COUNT(REPEATS));
    tcase_add_test(paths, finds_a_repeated_name_among_very_many);
    tcase_add_test(paths, keeps_the_last_value_of_each_path);
    tcase_add_test(paths, leaves_the_results_alone_when_the_text_is_refused);
    tcase_add_loop_test(values, decodes_strings, 0, (int)COUNT(DECODED));
    tcase_add_loop_test(values, copies_strings_into_a_bounded_place, 0, (int)COUNT(COPIES));
    tcase_add_test(values, decodes_every_escaped_code_point);
    tcase_add_loop_test(values, compares_strings_decoded, 0, (int)COUNT(DECODED));
    tcase_add_loop_test(values, reads_integers_that_fit, 0, (int)COUNT(INTEGERS));
    tcase_add_loop_test(values, reads_numbers_as_doubles, 0, (int)(sizeof(NUMBERS) / sizeof(NUMBERS[0])));
    suite_add_tcase(suite, grammar);
    suite_add_tcase(suite, paths);
    suite_add_tcase(suite, values);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
