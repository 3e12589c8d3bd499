/* multipart/form-data: the boundary that a header names, and the parts of a body. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/dialect/multipart.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { OUT_BYTES = 64 * 1024 };

/* --- the boundary ----------------------------------------------------------------- */

#define SEVENTY "0123456789012345678901234567890123456789012345678901234567890123456789"

static const struct {
    const char *type;
    const char *boundary; /* NULL: refused */
    const char *what;
} boundaries[] = {
    { "multipart/form-data; boundary=x", "x", NULL },
    { "multipart/form-data;boundary=x", "x", NULL },
    { "multipart/form-data ; boundary=x", "x", NULL },
    { "multipart/form-data;\tBOUNDARY=x ", "x", NULL },
    { "multipart/form-data; boundary=\"x\"", "x", NULL },
    { "multipart/form-data; boundary=\"a b\"", "a b", NULL },
    { "multipart/form-data; charset=utf-8; boundary=x", "x", NULL },
    { "multipart/form-data; boundary=x; charset=\"utf-8\"", "x", NULL },
    { "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
      "----WebKitFormBoundary7MA4YWxkTrZu0gW", NULL },
    { "multipart/form-data; boundary=a'()+_,-./:=?z", "a'()+_,-./:=?z", NULL },
    { "multipart/form-data; boundary=" SEVENTY, SEVENTY, NULL },
    { "multipart/form-data; boundary=" SEVENTY "0", NULL, "a value that no boundary may have" },
    { "multipart/form-data; boundary=\"x \"", NULL, "a value that no boundary may have" },
    { "multipart/form-data; boundary=\"\"", NULL, "a value that no boundary may have" },
    { "multipart/form-data; boundary=a@b", NULL, "a value that no boundary may have" },
    { "multipart/form-data; boundary=\xC3\xA4", NULL, "a value that no boundary may have" },
    { "multipart/form-data; boundary=\"a\\b\"", NULL, "a value that no boundary may have" },
    { "multipart/form-data", NULL, "no boundary" },
    { "", NULL, "no boundary" },
    { "multipart/form-data; charset=utf-8", NULL, "no boundary" },
    { "multipart/form-data; bound=x", NULL, "no boundary" },
    { "multipart/form-data; boundary=x; boundary=x", NULL, "a second boundary" },
    { "multipart/form-data; boundary=x; Boundary=y", NULL, "a second boundary" },
    { "multipart/form-data; boundary=", NULL, "no parameter" },
    { "multipart/form-data; boundary", NULL, "no parameter" },
    { "multipart/form-data; boundary =x", NULL, "no parameter" },
    { "multipart/form-data; boundary= x", NULL, "no parameter" },
    { "multipart/form-data; boundary=\"x", NULL, "no parameter" },
    { "multipart/form-data; boundary=\"x\\\"", NULL, "no parameter" },
    { "multipart/form-data; boundary=x y", NULL, "no parameter" },
    { "multipart/form-data; boundary=x\"y\"", NULL, "no parameter" },
    { "multipart/form-data; ; boundary=x", NULL, "no parameter" },
    { "multipart/form-data; boundary=x;", NULL, "no parameter" },
    { "multipart/form-data; boundary=x\r\nX-Other: y", NULL, "a control character" },
};

START_TEST(a_boundary_is_read_from_the_header_or_the_header_is_refused)
{
    const char *type = boundaries[_i].type, *expected = boundaries[_i].boundary;
    struct multipart_fault fault = { 0, NULL };
    struct span boundary = { NULL, 0 };
    int r = multipart_boundary(span_cstr(type), &boundary, &fault);

    if (expected != NULL) {
        ck_assert_msg(r == 0 && span_is(boundary, expected), "%s: %d, \"%.*s\"", type, r, (int)boundary.len,
                      boundary.ptr);
        return;
    }
    ck_assert_msg(r == ERR_FORMAT && boundary.ptr == NULL, "%s: was read", type);
    ck_assert_msg(strcmp(fault.what, boundaries[_i].what) == 0, "%s: \"%s\"", type, fault.what);
    ck_assert_uint_le(fault.offset, strlen(type));
}
END_TEST

/* --- the parts -------------------------------------------------------------------- */

#define LINE "\r\n"
#define NAMED(name) "Content-Disposition: form-data; name=" name LINE LINE
#define FIRST "--b" LINE
#define NEXT LINE "--b" LINE
#define LAST LINE "--b--" LINE

/* Each part as "name=value;", a file's name with "@", a length in brackets. */
static int write_part(void *ctx, const struct multipart_part *part)
{
    buf_append_span(ctx, part->name);
    buf_append_cstr(ctx, part->is_file ? "@" : "");
    buf_append_cstr(ctx, "=");
    buf_append_span(ctx, part->value);
    if (part->length.len > 0) {
        buf_append_cstr(ctx, "[");
        buf_append_span(ctx, part->length);
        buf_append_cstr(ctx, "]");
    }
    return buf_append_cstr(ctx, ";");
}

static const struct {
    const char *body;
    const char *parts;
} accepted[] = {
    { FIRST NAMED("\"model\"") "m" LAST, "model=m;" },
    { FIRST NAMED("\"model\"") "m" LINE "--b--", "model=m;" },
    { FIRST NAMED("model") "m" LAST, "model=m;" },
    { FIRST NAMED("\"model\"") LAST, "model=;" },
    { FIRST NAMED("\"a\"") "1" NEXT NAMED("\"b\"") "2" NEXT NAMED("\"a\"") "3" LAST, "a=1;b=2;a=3;" },
    { "--b--" LINE, "" },
    /* what stands before the first boundary and after the last one */
    { "This is a preamble." LINE FIRST NAMED("\"a\"") "1" LAST, "a=1;" },
    { LINE FIRST NAMED("\"a\"") "1" LAST, "a=1;" },
    { FIRST NAMED("\"a\"") "1" LAST "and an epilogue --b" LINE, "a=1;" },
    { " --b" LINE NAMED("\"a\"") "1" LAST, "" }, /* the first line that begins so is the closing one */
    { "--b \t" LINE NAMED("\"a\"") "1" LINE "--b-- " LINE, "a=1;" },
    /* names and file names */
    { FIRST NAMED("\"a b\"") "1" LAST, "a b=1;" },
    { FIRST NAMED("\"\"") "1" LAST, "=1;" },
    { FIRST NAMED("\"a;name=b\"") "1" LAST, "a;name=b=1;" },
    { FIRST "content-disposition:form-data;NAME=\"a\"" LINE LINE "1" LAST, "a=1;" },
    { FIRST "CONTENT-DISPOSITION: Form-Data; name=\"a\"" LINE LINE "1" LAST, "a=1;" },
    { FIRST NAMED("\"file\"; filename=\"x.wav\"") "1" LAST, "file@=1;" },
    { FIRST NAMED("\"file\"; filename=\"C:\\x\\y.wav\"") "1" LAST, "file@=1;" },
    { FIRST NAMED("\"file\"; filename=\"\"") "1" LAST, "file@=1;" },
    { FIRST NAMED("\"file\"; filename=x.wav; filename*=utf-8''x.wav") "1" LAST, "file@=1;" },
    { FIRST NAMED("\"file\"; filename*=utf-8''x.wav") "1" LAST, "file@=1;" },
    { FIRST "Content-Type: audio/wav" LINE NAMED("\"file\"; filename=\"\xE4\xBD\xA0.wav\"") "1" LAST,
      "file@=1;" },
    /* other fields of a head */
    { FIRST "Content-Length: 1" LINE NAMED("\"a\"") "1" LAST, "a=1[1];" },
    { FIRST "Content-Transfer-Encoding: binary" LINE NAMED("\"a\"") "1" LAST, "a=1;" },
    { FIRST "X-Other:" LINE NAMED("\"a\"") "1" LAST, "a=1;" },
    /* what only looks like a boundary */
    { FIRST NAMED("\"a\"") "--" LAST, "a=--;" },
    { FIRST NAMED("\"a\"") "x--b" LINE "x--b--" LAST, "a=x--b\r\nx--b--;" },
    { FIRST NAMED("\"a\"") LINE "--" LINE "-b" LAST, "a=\r\n--\r\n-b;" },
    { FIRST NAMED("\"a\"") LINE "--B" LINE LAST, "a=\r\n--B\r\n;" },
    { FIRST NAMED("\"a\"") LINE LAST, "a=\r\n;" },
    { FIRST NAMED("\"a\"") "\r" LAST, "a=\r;" },
    { FIRST NAMED("\"a\"") "\n" LAST, "a=\n;" },
    { FIRST NAMED("\"a\"") NAMED("\"b\"") LAST, "a=Content-Disposition: form-data; name=\"b\"\r\n\r\n;" },
};

START_TEST(the_parts_of_a_body_are_found_where_they_stand)
{
    const char *body = accepted[_i].body;
    struct multipart_fault fault = { 0, NULL };
    struct buf parts;

    buf_init(&parts, OUT_BYTES);
    int r = multipart_scan(span_cstr(body), span_cstr("b"), write_part, &parts, &fault);
    ck_assert_msg(r == 0, "%s: %s at %zu", body, fault.what, fault.offset);
    ck_assert_msg(span_is(buf_span(&parts), accepted[_i].parts), "%s: \"%.*s\"", body, (int)parts.len,
                  parts.data);
    buf_free(&parts);
}
END_TEST

static const struct {
    const char *body;
    const char *what;
} refused[] = {
    { "", "no boundary" },
    { "{\"model\":\"m\"}", "no boundary" },
    { "--c" LINE NAMED("\"a\"") "1" LINE "--c--", "no boundary" },
    { "--b", "bytes behind a boundary" },
    { "--bb" LINE NAMED("\"a\"") "1" LAST, "bytes behind a boundary" },
    { "--b-" LINE NAMED("\"a\"") "1" LAST, "bytes behind a boundary" },
    { FIRST NAMED("\"a\"") "1" LINE "--bc" LINE "2" LAST, "bytes behind a boundary" },
    { FIRST NAMED("\"a\"") "1" LINE "--b--x", "bytes behind a boundary" },
    { FIRST NAMED("\"a\"") "1" LINE "--b--\n", "bytes behind a boundary" },
    { FIRST NAMED("\"a\"") "1" LINE "--b\n" NAMED("\"c\"") LAST, "bytes behind a boundary" },
    /* it ends too early */
    { FIRST, "no end of a part's head" },
    { FIRST "Content-Disposition: form-data; name=\"a\"", "no end of a part's head" },
    { FIRST "Content-Disposition: form-data; name=\"a\"" LINE, "no end of a part's head" },
    { FIRST NAMED("\"a\""), "no closing boundary" },
    { FIRST NAMED("\"a\"") "1", "no closing boundary" },
    { FIRST NAMED("\"a\"") "1" LINE "--", "no closing boundary" },
    { FIRST NAMED("\"a\"") "1" NEXT NAMED("\"c\"") "2", "no closing boundary" },
    /* one reader's boundary is not the other's */
    { FIRST NAMED("\"a\"") "1\n--b" LINE NAMED("\"c\"") "2" LAST, "a boundary after a LF alone" },
    { FIRST NAMED("\"a\"") "\n--b" LINE NAMED("\"c\"") "2" LAST, "a boundary after a LF alone" },
    { "x\n" FIRST NAMED("\"a\"") "1" LAST, "a boundary after a LF alone" },
    { "\n" FIRST NAMED("\"a\"") "1" LAST, "a boundary after a LF alone" },
    { FIRST NAMED("\"a\"") "1\r--b" LINE NAMED("\"c\"") "2" LAST, "a boundary after a CR alone" },
    { FIRST NAMED("\"a\"") "1" LAST "\r--b\r", "a boundary after a CR alone" },
    { FIRST NAMED("\"a\"") "--b" LINE NAMED("\"c\"") "2" LAST, "a boundary right behind a part's head" },
    { FIRST NAMED("\"a\"") "--b--" LINE, "a boundary right behind a part's head" },
    { FIRST NAMED("\"a\"") "1" LAST FIRST NAMED("\"c\"") "2" LAST, "a boundary behind the closing one" },
    { FIRST NAMED("\"a\"") "1" LAST "x" NEXT NAMED("\"c\"") "2" LAST, "a boundary behind the closing one" },
    { FIRST NAMED("\"a\"") "1" LAST "x\n--b", "a boundary behind the closing one" },
    /* heads */
    { FIRST LINE "1" LAST, "a part without Content-Disposition" },
    { FIRST "Content-Type: text/plain" LINE LINE "1" LAST, "a part without Content-Disposition" },
    { FIRST "Content-Disposition: form-data" LINE LINE "1" LAST, "a part without a name" },
    { FIRST "Content-Disposition: form-data; filename=\"x\"" LINE LINE "1" LAST, "a part without a name" },
    { FIRST "Content-Disposition: attachment; name=\"a\"" LINE LINE "1" LAST,
      "a Content-Disposition other than form-data" },
    { FIRST "Content-Disposition: form-datax; name=\"a\"" LINE LINE "1" LAST,
      "a Content-Disposition other than form-data" },
    { FIRST "Content-Disposition:" LINE LINE "1" LAST, "a Content-Disposition other than form-data" },
    { FIRST "Content-Disposition: form-data; name=\"a\"" LINE NAMED("\"b\"") "1" LAST,
      "a second Content-Disposition" },
    { FIRST NAMED("\"a\"; name=\"b\"") "1" LAST, "a second name" },
    { FIRST NAMED("\"a\"; Name=b") "1" LAST, "a second name" },
    { FIRST NAMED("\"a\"; name*=utf-8''model") "1" LAST, "a name in the extended form" },
    { FIRST NAMED("\"mo\\del\"") "1" LAST, "a backslash in a name" },
    { FIRST NAMED("mo\\del") "1" LAST, "a backslash in a name" },
    { FIRST NAMED("\"a\"; filename=x; filename=y") "1" LAST, "a second file name" },
    { FIRST NAMED("\"a\"; filename=\"x\\\"; name=model; y=\\\"\"") "1" LAST,
      "a Content-Disposition that cannot be read" },
    { FIRST NAMED("\"a") "1" LAST, "a Content-Disposition that cannot be read" },
    { FIRST NAMED("\"a\"b") "1" LAST, "a Content-Disposition that cannot be read" },
    { FIRST NAMED("\"a\";") "1" LAST, "a Content-Disposition that cannot be read" },
    { FIRST NAMED("") "1" LAST, "a Content-Disposition that cannot be read" },
    { FIRST NAMED(" \"a\"") "1" LAST, "a Content-Disposition that cannot be read" },
    { FIRST "Content-Disposition: form-data, name=\"a\"" LINE LINE "1" LAST,
      "a Content-Disposition that cannot be read" },
    { FIRST "Content-Disposition: form-data;" LINE " name=\"a\"" LINE LINE "1" LAST,
      "a Content-Disposition that cannot be read" }, /* folded */
    { FIRST "X-Other: x" LINE "\tfolded" LINE NAMED("\"a\"") "1" LAST,
      "a line of a part's head that is no field" },
    { FIRST "Content-Disposition : form-data; name=\"a\"" LINE LINE "1" LAST,
      "a line of a part's head that is no field" },
    { FIRST "no field" LINE NAMED("\"a\"") "1" LAST, "a line of a part's head that is no field" },
    { FIRST ": x" LINE NAMED("\"a\"") "1" LAST, "a line of a part's head that is no field" },
    { FIRST "--b" LINE NAMED("\"a\"") "1" LAST, "a boundary in a part's head" },
    { FIRST NAMED("\"a\"") "1" NEXT "--bc: x" LINE NAMED("\"a\"") "1" LAST, "a boundary in a part's head" },
    { FIRST "--b" LAST, "a boundary in a part's head" },
    { FIRST "Content-Disposition: form-data; name=\"a\"\n\n1" LAST, "a LF alone in a part's head" },
    { FIRST "\n" NAMED("\"a\"") "1" LAST, "a LF alone in a part's head" },
    { FIRST "X-Other: a\rb" LINE NAMED("\"a\"") "1" LAST, "a control character in a part's head" },
    { FIRST "X-Other: a\x01" LINE NAMED("\"a\"") "1" LAST, "a control character in a part's head" },
    { FIRST "Content-Transfer-Encoding: base64" LINE NAMED("\"a\"") "1" LAST,
      "a Content-Transfer-Encoding that changes bytes" },
    { FIRST "Content-Transfer-Encoding: quoted-printable" LINE NAMED("\"a\"") "1" LAST,
      "a Content-Transfer-Encoding that changes bytes" },
    { FIRST "Content-Transfer-Encoding: 8bit" LINE "Content-Transfer-Encoding: 8bit" LINE NAMED("\"a\"") LAST,
      "a second Content-Transfer-Encoding" },
    { FIRST "Content-Length: 1" LINE "Content-Length: 2" LINE NAMED("\"a\"") "1" LAST,
      "a second Content-Length" },
    { FIRST "Content-Length: " LINE NAMED("\"a\"") "1" LAST, "an empty Content-Length" },
};

START_TEST(a_body_that_two_readers_could_read_in_two_ways_is_refused)
{
    const char *body = refused[_i].body;
    struct multipart_fault fault = { 0, NULL };
    struct buf parts;

    buf_init(&parts, OUT_BYTES);
    int r = multipart_scan(span_cstr(body), span_cstr("b"), write_part, &parts, &fault);
    ck_assert_msg(r == ERR_FORMAT, "%s: %d, \"%.*s\"", body, r, (int)parts.len, parts.data);
    ck_assert_msg(strcmp(fault.what, refused[_i].what) == 0, "%s: \"%s\"", body, fault.what);
    ck_assert_uint_le(fault.offset, strlen(body));
    buf_free(&parts);
}
END_TEST

START_TEST(a_value_may_hold_any_byte)
{
    char body[1024], values[256];
    struct multipart_fault fault;
    struct buf parts;

    for (size_t i = 0; i < sizeof(values); i++)
        values[i] = (char)i;
    int head = snprintf(body, sizeof(body), "%s", FIRST NAMED("\"file\"; filename=x"));
    memcpy(body + head, values, sizeof(values));
    memcpy(body + head + sizeof(values), LAST, sizeof(LAST) - 1);
    buf_init(&parts, OUT_BYTES);
    ck_assert_int_eq(multipart_scan(span_of(body, (size_t)head + sizeof(values) + sizeof(LAST) - 1),
                                    span_cstr("b"), write_part, &parts, &fault),
                     0);
    ck_assert_uint_eq(parts.len, strlen("file@=;") + sizeof(values));
    ck_assert_mem_eq(parts.data + strlen("file@="), values, sizeof(values));
    buf_free(&parts);
}
END_TEST

START_TEST(a_body_that_is_cut_anywhere_is_refused)
{
    static const char body[] =
        "preamble" LINE FIRST NAMED("\"a\"") "1" NEXT NAMED("\"c\"; filename=\"x\"") "2" LINE "--b--";
    struct multipart_fault fault;
    struct buf parts;

    buf_init(&parts, OUT_BYTES);
    for (size_t len = 0; len < sizeof(body) - 1; len++) {
        char *copy = xmalloc(len + 1); /* so that a read beyond its end is seen */
        memcpy(copy, body, len);
        int r = multipart_scan(span_of(copy, len), span_cstr("b"), write_part, &parts, &fault);
        ck_assert_msg(r == ERR_FORMAT, "%zu bytes were accepted", len);
        free(copy);
    }
    buf_free(&parts);
}
END_TEST

/* A part whose head has this many bytes. */
static int scan_head_of(size_t bytes, struct multipart_fault *fault)
{
    static const char around[] = "X: " LINE NAMED("\"a\"");
    struct buf body, parts;

    buf_init(&body, OUT_BYTES);
    buf_init(&parts, OUT_BYTES);
    buf_append_cstr(&body, FIRST "X: ");
    for (size_t i = sizeof(around) - 1; i < bytes; i++)
        buf_append_char(&body, 'x');
    buf_append_cstr(&body, LINE NAMED("\"a\"") "1" LAST);
    int r = multipart_scan(buf_span(&body), span_cstr("b"), write_part, &parts, fault);
    buf_free(&parts);
    buf_free(&body);
    return r;
}

START_TEST(the_head_of_a_part_has_a_bound)
{
    struct multipart_fault fault = { 0, NULL };
    ck_assert_int_eq(scan_head_of(MULTIPART_HEAD_BYTES, &fault), 0);
    ck_assert_int_eq(scan_head_of(MULTIPART_HEAD_BYTES + 1, &fault), ERR_LIMIT);
    ck_assert_str_eq(fault.what, "a part's head of more than 8192 bytes");
    ck_assert_int_eq(scan_head_of(3 * MULTIPART_HEAD_BYTES, &fault), ERR_LIMIT);
}
END_TEST

static int scan_parts(unsigned count, struct multipart_fault *fault)
{
    struct buf body, parts;

    buf_init(&body, 2 * OUT_BYTES);
    buf_init(&parts, OUT_BYTES);
    buf_append_cstr(&body, "--b");
    for (unsigned i = 0; i < count; i++)
        buf_append_cstr(&body, LINE NAMED("a") "1" LINE "--b");
    buf_append_cstr(&body, "--");
    int r = multipart_scan(buf_span(&body), span_cstr("b"), write_part, &parts, fault);
    buf_free(&parts);
    buf_free(&body);
    return r;
}

START_TEST(the_number_of_parts_has_a_bound)
{
    struct multipart_fault fault = { 0, NULL };
    ck_assert_int_eq(scan_parts(MULTIPART_PARTS, &fault), 0);
    ck_assert_int_eq(scan_parts(MULTIPART_PARTS + 1, &fault), ERR_LIMIT);
    ck_assert_str_eq(fault.what, "too many parts");
}
END_TEST

static int refuse_second(void *ctx, const struct multipart_part *part)
{
    (void)part;
    return ++*(int *)ctx == 2 ? ERR_CONFLICT : 0;
}

START_TEST(who_is_told_of_the_parts_can_end_the_scan)
{
    struct multipart_fault fault = { 0, NULL };
    int count = 0;
    int r = multipart_scan(span_cstr(FIRST NAMED("a") "1" NEXT NAMED("a") "2" NEXT NAMED("a") "3" LAST),
                           span_cstr("b"), refuse_second, &count, &fault);
    ck_assert_int_eq(r, ERR_CONFLICT);
    ck_assert_int_eq(count, 2);
    ck_assert_ptr_null(fault.what);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("multipart");
    TCase *boundary = tcase_create("boundary"), *parts = tcase_create("parts");
    tcase_add_loop_test(boundary, a_boundary_is_read_from_the_header_or_the_header_is_refused, 0,
                        (int)COUNT(boundaries));
    tcase_add_loop_test(parts, the_parts_of_a_body_are_found_where_they_stand, 0, (int)COUNT(accepted));
    tcase_add_loop_test(parts, a_body_that_two_readers_could_read_in_two_ways_is_refused, 0,
                        (int)COUNT(refused));
    tcase_add_test(parts, a_value_may_hold_any_byte);
    tcase_add_test(parts, a_body_that_is_cut_anywhere_is_refused);
    tcase_add_test(parts, the_head_of_a_part_has_a_bound);
    tcase_add_test(parts, the_number_of_parts_has_a_bound);
    tcase_add_test(parts, who_is_told_of_the_parts_can_end_the_scan);
    suite_add_tcase(suite, boundary);
    suite_add_tcase(suite, parts);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
