#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "admin/ctl/printable.h"

static struct buf out;

static void set_up(void)
{
    buf_init(&out, 4096);
}

static void tear_down(void)
{
    buf_free(&out);
}

static const struct row {
    const char *text, *shown;
} rows[] = {
    { "", "" },
    { "gpt-4.1-mini", "gpt-4.1-mini" },
    { "模型 é ✓ 😀", "模型 é ✓ 😀" },
    { "\x1b[31mred\x1b[0m", "?[31mred?[0m" },
    { "a\nb\tc\rd\x7f", "a?b?c?d?" },
    { "\xc2\x9b"
      "31m",
      "?31m" },                                   /* C1's control sequence introducer */
    { "\xc2\x80\xc2\x9f\xc2\xa0", "??\xc2\xa0" }, /* C1, and what follows it */
    { "a\xe2\x80\xae"
      "b\xe2\x81\xa9\xef\xbb\xbf",
      "a?b??" },                                             /* direction, isolates, a byte order mark */
    { "\xe2\x80\xa8\xe2\x80\xa9", "??" },                    /* separators of lines and paragraphs */
    { "\xf3\xa0\x81\x81tag", "?tag" },                       /* invisible tags */
    { "\xff\xfe\x80", "???" },                               /* no UTF-8 at all */
    { "\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf", "?????????" }, /* written too long */
    { "\xed\xa0\x80\xf4\x90\x80\x80", "???????" },           /* a surrogate; above the last character */
    { "cut \xe6\xa8", "cut ??" },                            /* in the middle of a character */
    { "\xe6\xa8"
      "a",
      "??a" },
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

START_TEST(nothing_that_a_terminal_would_obey_is_left)
{
    size_t n = printable_append(&out, span_cstr(rows[_i].text), 4096);
    struct span shown = buf_span(&out);
    ck_assert_msg(span_is(shown, rows[_i].shown), "row %d: \"%.*s\" instead of \"%s\"", _i, (int)shown.len,
                  shown.ptr, rows[_i].shown);
    size_t expected = 0;
    for (const char *c = rows[_i].shown; *c != '\0'; c++)
        expected += (*c & 0xC0) != 0x80;
    ck_assert_msg(n == expected, "row %d: %zu characters instead of %zu", _i, n, expected);
}
END_TEST

START_TEST(every_byte_alone_leaves_something_printable)
{
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        buf_clear(&out);
        ck_assert_uint_eq(printable_append(&out, span_of(&text, 1), 10), 1);
        ck_assert_msg(out.len == 1 && out.data[0] >= ' ' && out.data[0] < 0x7F, "byte %d", byte);
    }
}
END_TEST

static const struct cut_row {
    const char *text;
    size_t columns;
    const char *shown, *padded;
} cut_rows[] = {
    { "abc", 3, "abc", "abc" },   { "abcd", 3, "ab…", "ab…" },
    { "abc", 5, "abc", "abc  " }, { "模型模型", 3, "模型…", "模型…" },
    { "abc", 1, "…", "…" },       { "abc", 0, "", "" },
    { "", 2, "", "  " },          { "\n\n\n", 2, "?…", "?…" },
};

START_TEST(a_text_is_cut_between_characters_or_filled_up)
{
    const struct cut_row *row = &cut_rows[_i];
    printable_append(&out, span_cstr(row->text), row->columns);
    ck_assert_msg(span_is(buf_span(&out), row->shown), "\"%s\" at %zu", row->text, row->columns);
    buf_clear(&out);
    buf_append_cstr(&out, "|");
    printable_pad(&out, span_cstr(row->text), row->columns);
    ck_assert_msg(span_is(span_of(out.data + 1, out.len - 1), row->padded), "\"%s\" at %zu: \"%.*s\"",
                  row->text, row->columns, (int)out.len, out.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("printable");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, nothing_that_a_terminal_would_obey_is_left, 0, N_ROWS);
    tcase_add_test(tcase, every_byte_alone_leaves_something_printable);
    tcase_add_loop_test(tcase, a_text_is_cut_between_characters_or_filled_up, 0,
                        sizeof(cut_rows) / sizeof(cut_rows[0]));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
