/* Texts in pieces, and the characters they are cut between. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/characters.h"
#include "adapters/split.h"
#include "core/base/buf.h"
#include "tests/unit/count_characters.h"
#include "tests/unit/utf8.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    const char *text;
    size_t max_bytes;
    const char *pieces; /* a "|" at each cut */
} TEXTS[] = {
    { "", 16, "" },
    { "It all fits.", 16, "It all fits." },
    { "One. Two. Three. Four.", 16, "One. Two. |Three. Four." },
    { "One! Two? Three. Four.", 16, "One! Two? |Three. Four." },
    /* A full stop inside a number or a name ends nothing. */
    { "It costs 3.14159 euros", 16, "It costs |3.14159 euros" },
    { "see example.com or www.example.com", 17, "see example.com |or |www.example.com" },
    { "He said \"no.\" She left then.", 20, "He said \"no.\" |She left then." },
    { "(Really.) Then she left.", 16, "(Really.) |Then she left." },
    { "first, second, third", 16, "first, second, |third" },
    { "first line\nsecond line", 16, "first line\n|second line" },
    { "words without any end", 16, "words without |any end" },
    { "abcdefghijklmnopqrstuvwxyz", 16, "abcdefghijklmnop|qrstuvwxyz" },
    { "Wait... what? No...", 16, "Wait... what? |No..." },
    /* Scripts without spaces. */
    { "你好。再见。", 16, "你好。|再见。" },
    { "他说：「好。」然后走", 24, "他说：「好。」|然后走" },
    { "什么？！真的吗", 16, "什么？！|真的吗" },
    { "第一，第二，第三", 20, "第一，第二，|第三" },
    { "一二三四五六七八", 16, "一二三四五|六七八" },
    { "はい。そうです。", 16, "はい。|そうです。" },
    { "यह है। वह है।", 24, "यह है। |वह है।" },
    /* What is one character to a reader stays one: an accent, a skin tone, a family, two flags. */
    { "abcdefghijklmn\u00e9xy", 16, "abcdefghijklmn\u00e9|xy" },
    { "abcdefghijklmne\u0301xy", 16, "abcdefghijklmn|e\u0301xy" },
    { "abcdefghijkl\U0001F44D\U0001F3FDxy", 16, "abcdefghijkl|\U0001F44D\U0001F3FDxy" },
    { "ab\U0001F469\u200D\U0001F467cd\U0001F469\u200D\U0001F467", 16,
      "ab\U0001F469\u200D\U0001F467cd|\U0001F469\u200D\U0001F467" },
    { "\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7\U0001F1EE\U0001F1F9", 20,
      "\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7|\U0001F1EE\U0001F1F9" },
    /* Unless it is longer than a piece may be. */
    { "e\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301", 16,
      "e\u0301\u0301\u0301\u0301\u0301\u0301\u0301|\u0301" },
};

START_TEST(a_text_is_cut_where_a_reader_would_pause)
{
    struct span rest = span_cstr(TEXTS[_i].text);
    struct buf pieces;
    buf_init(&pieces, 4096);
    while (rest.len > 0) {
        buf_append_span(&pieces, split_take(&rest, TEXTS[_i].max_bytes));
        if (rest.len > 0)
            buf_append_char(&pieces, '|');
    }
    ck_assert_msg(span_is(buf_span(&pieces), TEXTS[_i].pieces),
                  "\"%s\" in %zu bytes: expected\n%s, found\n%.*s", TEXTS[_i].text, TEXTS[_i].max_bytes,
                  TEXTS[_i].pieces, (int)pieces.len, pieces.data == NULL ? "" : pieces.data);
    buf_free(&pieces);
}
END_TEST

/* Text that repeats a phrase up to 4,096 characters. */
static struct span make_long(const char *phrase, struct buf *out)
{
    size_t per_phrase = count_characters(span_cstr(phrase));
    buf_init(out, 65536);
    for (size_t n = 0; n + per_phrase <= 4096; n += per_phrase)
        buf_append_cstr(out, phrase);
    return buf_span(out);
}

static const char *const PHRASES[] = {
    "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。",
    "字",
    "The quick brown fox jumps over the lazy dog. ",
    "x",
    " ",
    "。",
    "\U0001F600",
    "\U0001F469\u200D\U0001F467",
    "e\u0301",
    "\u0301",
};

START_TEST(pieces_are_within_the_bound_whole_characters_and_all_of_the_text)
{
    struct buf made, joined;
    struct span text = make_long(PHRASES[_i], &made), rest = text;
    size_t n_pieces = 0;
    buf_init(&joined, text.len);
    for (; rest.len > 0; n_pieces++) {
        struct span piece = split_take(&rest, 1024);
        ck_assert_msg(piece.len > 0 && piece.len <= 1024, "\"%s\": a piece of %zu bytes", PHRASES[_i],
                      piece.len);
        ck_assert_msg(is_utf8(piece), "\"%s\": a piece begins or ends inside a character", PHRASES[_i]);
        buf_append_span(&joined, piece);
    }
    ck_assert_msg(span_eq(buf_span(&joined), text), "\"%s\": the pieces are not the text", PHRASES[_i]);
    ck_assert_msg(n_pieces <= 2 * (text.len / 1024) + 1, "\"%s\": %zu bytes became %zu pieces", PHRASES[_i],
                  text.len, n_pieces);
    buf_free(&made);
    buf_free(&joined);
}
END_TEST

static const struct {
    const char *text;
    bool is_readable;
} READABLE[] = {
    { "a", true },
    { "7", true },
    { "你", true },
    { "é", true },
    { "Ω!", true },
    { "あ", true },
    { "한", true },
    { "½", true },
    { "", false },
    { " \t\r\n", false },
    { "...?!", false },
    { "。，、！", false },
    { "「」", false },
    { "“—”…", false },
    { "\U0001F600", false },
    { "\u2764\uFE0F", false },
    { "\u200B\uFEFF", false },
    { "*** --- ###", false },
    { "\x01\x7F", false },
    { "\xFF\xFE", false },
};

START_TEST(what_nobody_can_read_out_is_told_from_what_can)
{
    bool found = character_any_readable(span_cstr(READABLE[_i].text));
    ck_assert_msg(found == READABLE[_i].is_readable, "\"%s\": expected %d, found %d", READABLE[_i].text,
                  READABLE[_i].is_readable, found);
}
END_TEST

static const struct {
    const char *text;
    size_t len, count;
    uint32_t first;
} CHARACTERS[] = {
    { "a", 1, 1, 'a' },
    { "\0b", 2, 2, 0 },
    { "\xC3\xA9", 2, 1, 0xE9 },
    { "\xE2\x82\xAC", 3, 1, 0x20AC },
    { "\xF0\x9F\x98\x80!", 5, 2, 0x1F600 },
    { "\xC3", 1, 1, 0xFFFD },
    { "\xC0\xAF", 2, 2, 0xFFFD },
    { "\xE0\x80\xAF", 3, 3, 0xFFFD },
    { "\xED\xA0\x80", 3, 3, 0xFFFD },
    { "\xF4\x90\x80\x80", 4, 4, 0xFFFD },
    { "\x80\x80", 2, 2, 0xFFFD },
    { "\xE2\x82x", 3, 3, 0xFFFD },
};

START_TEST(characters_are_taken_one_by_one_and_broken_bytes_are_replaced)
{
    struct span text = span_of(CHARACTERS[_i].text, CHARACTERS[_i].len), rest = text;
    size_t count = count_characters(text);
    uint32_t first = character_take(&rest);
    ck_assert_msg(count == CHARACTERS[_i].count && first == CHARACTERS[_i].first,
                  "row %d: expected %zu beginning with U+%04X, found %zu and U+%04X", _i,
                  CHARACTERS[_i].count, CHARACTERS[_i].first, count, first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("split");
    TCase *tests = tcase_create("split");
    tcase_add_loop_test(tests, a_text_is_cut_where_a_reader_would_pause, 0, (int)COUNT(TEXTS));
    tcase_add_loop_test(tests, pieces_are_within_the_bound_whole_characters_and_all_of_the_text, 0,
                        (int)COUNT(PHRASES));
    tcase_add_loop_test(tests, what_nobody_can_read_out_is_told_from_what_can, 0, (int)COUNT(READABLE));
    tcase_add_loop_test(tests, characters_are_taken_one_by_one_and_broken_bytes_are_replaced, 0,
                        (int)COUNT(CHARACTERS));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
