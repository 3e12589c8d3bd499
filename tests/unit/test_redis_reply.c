#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/store/redis_reply_internal.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

#define X8 "xxxxxxxx"
#define X64 X8 X8 X8 X8 X8 X8 X8 X8
#define X128 X64 X64
#define X1024 X128 X128 X128 X128 X128 X128 X128 X128

static struct redis_reader reader;
static struct buf seen; /* replies, as words */

static void set_up(void)
{
    redis_reader_init(&reader);
    buf_init(&seen, 65536);
}

static void tear_down(void)
{
    buf_free(&seen);
}

static void note_element(const struct redis_element *element)
{
    static const char *const names[] = {
        [REDIS_STATUS] = "+", [REDIS_ERROR] = "-",   [REDIS_INTEGER] = ":",
        [REDIS_TEXT] = "$",   [REDIS_NULL] = "null",
    };
    buf_append_cstr(&seen, names[element->kind]);
    if (element->kind == REDIS_INTEGER)
        buf_printf(&seen, "%lld", (long long)element->integer);
    if (element->is_too_long)
        buf_append_cstr(&seen, "too long");
    buf_append_span(&seen, element->text);
}

/* Reads pieces of `size` bytes; the code of the end. */
static int read_in_pieces(struct span wire, size_t size)
{
    while (wire.len > 0) {
        struct span piece = span_of(wire.ptr, wire.len < size ? wire.len : size);
        wire = span_of(wire.ptr + piece.len, wire.len - piece.len);
        while (piece.len > 0) {
            int r = redis_reader_take(&reader, &piece);
            if (r < 0)
                return r;
            if (r == 0)
                ck_assert_uint_eq(piece.len, 0);
            if (r == 0)
                continue;
            buf_append_cstr(&seen, reader.reply.is_array ? "[" : "(");
            for (size_t i = 0; i < reader.reply.n; i++) {
                buf_append_cstr(&seen, i > 0 ? " " : "");
                note_element(&reader.reply.element[i]);
            }
            buf_append_cstr(&seen, reader.reply.is_array ? "]" : ")");
        }
    }
    return 0;
}

static const struct wire_row {
    const char *wire, *seen;
    int result;
} wires[] = {
    { "+OK\r\n", "(+OK)", 0 },
    { "+\r\n", "(+)", 0 },
    { "-ERR no\r\n", "(-ERR no)", 0 },
    { ":42\r\n:-7\r\n", "(:42)(:-7)", 0 },
    { "$5\r\nhello\r\n", "($hello)", 0 },
    { "$0\r\n\r\n", "($)", 0 },
    { "$4\r\n\r\n\r\n\r\n", "($\r\n\r\n)", 0 },
    { "$-1\r\n", "(null)", 0 },
    { "+OK\r\n+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", "(+OK)(+OK)[$subscribe $c :1]", 0 },
    { "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "[$pong $]", 0 },
    { "*4\r\n+a\r\n-b\r\n:1\r\n$-1\r\n", "[+a -b :1 null]", 0 },
    { "+" X128 X8 "\r\n+OK\r\n", "(+" X64 X8 X8 X8 X8 X8 X8 X8 "xxxxxxx)(+OK)", 0 },
    { "$1024\r\n" X1024 "\r\n", "($" X1024 ")", 0 },
    { "$1025\r\n" X1024 "x\r\n+OK\r\n", "($too long)(+OK)", 0 },
    { "*2\r\n$1032\r\n" X1024 X8 "\r\n$2\r\nhi\r\n", "[$too long $hi]", 0 },
    { "*2\r\n$5\r\nhel", "", 0 }, /* not whole */
    { "\r\n", "", ERR_FORMAT },
    { "\n", "", 0 }, /* may become a line, and then is of no kind */
    { "\n\r\n", "", ERR_FORMAT },
    { "HTTP/1.1 400 Bad Request\r\n", "", ERR_FORMAT },
    { "+OK\rx", "", ERR_FORMAT },
    { "$5\r\nhelloX\r\n", "", ERR_FORMAT },
    { "$5\r\nhello\rX", "", ERR_FORMAT },
    { "$5\r\nhello\n", "", ERR_FORMAT },
    { "$\r\n", "", ERR_FORMAT },
    { "$-\r\n", "", ERR_FORMAT },
    { "$-2\r\n", "", ERR_FORMAT },
    { "$+5\r\n", "", ERR_FORMAT },
    { "$ 5\r\n", "", ERR_FORMAT },
    { "$5x\r\n", "", ERR_FORMAT },
    { "$9999999999999999999\r\n", "", ERR_FORMAT },
    { "$" X128 X8, "", ERR_FORMAT },
    { ":1.5\r\n", "", ERR_FORMAT },
    { ":\r\n", "", ERR_FORMAT },
    { "*0\r\n", "", ERR_FORMAT },
    { "*-1\r\n", "", ERR_FORMAT },
    { "*5\r\n", "", ERR_FORMAT },
    { "*2147483647\r\n", "", ERR_FORMAT },
    { "*999999999999999999\r\n", "", ERR_FORMAT },
    { "*1\r\n*1\r\n+OK\r\n", "", ERR_FORMAT },
    { "%1\r\n+a\r\n+b\r\n", "", ERR_FORMAT }, /* of RESP3 */
};

START_TEST(what_is_read_does_not_depend_on_the_pieces)
{
    const struct wire_row *row = &wires[_i];
    static const size_t sizes[] = { 1, 2, 3, 7, 65536 };

    for (size_t i = 0; i < COUNT(sizes); i++) {
        redis_reader_init(&reader);
        buf_clear(&seen);
        int r = read_in_pieces(span_cstr(row->wire), sizes[i]);
        ck_assert_msg(r == row->result && span_is(buf_span(&seen), row->seen),
                      "%.60s in pieces of %zu: %s, \"%.*s\"", row->wire, sizes[i], err_name(r), (int)seen.len,
                      seen.len > 0 ? seen.data : "");
    }
}
END_TEST

/* It is told of 500 MB, and would take them, byte by byte. */
START_TEST(a_text_that_is_too_long_is_passed_over_without_being_kept)
{
    static char bytes[65536];
    memset(bytes, 'x', sizeof(bytes));
    ck_assert_int_eq(read_in_pieces(span_cstr("$524288000\r\n"), 100), 0);
    for (size_t i = 0; i < 524288000 / sizeof(bytes); i++)
        ck_assert_int_eq(read_in_pieces(span_of(bytes, sizeof(bytes)), sizeof(bytes)), 0);
    ck_assert_int_eq(read_in_pieces(span_cstr("\r\n+OK\r\n"), 100), 0);
    ck_assert(span_is(buf_span(&seen), "($too long)(+OK)"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redis_reply");
    TCase *tests = tcase_create("reader");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, what_is_read_does_not_depend_on_the_pieces, 0, COUNT(wires));
    tcase_add_test(tests, a_text_that_is_too_long_is_passed_over_without_being_kept);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
