/* Token counts in the shapes that providers write them. */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/record/usage.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { NONE = -1 };

static void expect(const char *object, const struct usage *u, const struct usage *expected)
{
    ck_assert_msg(u->present == expected->present && u->input == expected->input &&
                      u->output == expected->output && u->cached_read == expected->cached_read &&
                      u->cached_write == expected->cached_write && u->reasoning == expected->reasoning &&
                      u->audio_in == expected->audio_in && u->audio_out == expected->audio_out &&
                      u->audio_ms == expected->audio_ms,
                  "%s: present %d input %" PRId64 " output %" PRId64 " cached %" PRId64 "/%" PRId64
                  " reasoning %" PRId64 " audio %" PRId64 "/%" PRId64 " audio_ms %" PRId64,
                  object, u->present, u->input, u->output, u->cached_read, u->cached_write, u->reasoning,
                  u->audio_in, u->audio_out, u->audio_ms);
}

static const struct {
    const char *object;
    struct usage usage;
} objects[] = {
    { "{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3}",
      { true, 1, 2, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"input_tokens\":1,\"output_tokens\":2}", { true, 1, 2, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":0,\"completion_tokens\":0}", { true, 0, 0, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":5}", { true, 5, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":9000000000000,\"completion_tokens\":2}",
      { true, 9000000000000, 2, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":9223372036854775807,\"completion_tokens\":2}",
      { true, NONE, 2, NONE, NONE, NONE, NONE, NONE, NONE } },
    /* cached: one place per provider; where both stand, OpenAI's */
    { "{\"cached_tokens\":3}", { true, NONE, NONE, 3, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_cache_hit_tokens\":3,\"prompt_cache_miss_tokens\":9}",
      { true, NONE, NONE, 3, NONE, NONE, NONE, NONE, NONE } },
    { "{\"cache_read_input_tokens\":3,\"cache_creation_input_tokens\":4}",
      { true, NONE, NONE, 3, 4, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens_details\":{\"cached_tokens\":3,\"audio_tokens\":6}}",
      { true, NONE, NONE, 3, NONE, NONE, 6, NONE, NONE } },
    { "{\"prompt_tokens_details\":{\"cached_tokens\":3},\"prompt_cache_hit_tokens\":2,\"cached_tokens\":1}",
      { true, NONE, NONE, 3, NONE, NONE, NONE, NONE, NONE } },
    { "{\"completion_tokens_details\":{\"reasoning_tokens\":7,\"audio_tokens\":8}}",
      { true, NONE, NONE, NONE, NONE, 7, NONE, 8, NONE } },
    { "{\"prompt_tokens\":1,\"prompt_tokens_details\":null,\"completion_tokens_details\":null}",
      { true, 1, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"type\":\"tokens\",\"input_tokens\":14,\"input_token_details\":{\"text_tokens\":4,\"audio_tokens\":"
      "10},"
      "\"output_tokens\":45,\"total_tokens\":59}",
      { true, 14, 45, NONE, NONE, NONE, 10, NONE, NONE } },
    /* cached, written to a cache, and reasoning, where others have them */
    { "{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":3},\"output_tokens\":8,"
      "\"output_tokens_details\":{\"reasoning_tokens\":7}}",
      { true, 9, 8, 3, NONE, 7, NONE, NONE, NONE } },
    { "{\"prompt_tokens_details\":{\"cached_tokens\":3,\"cache_write_tokens\":4}}",
      { true, NONE, NONE, 3, 4, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens_details\":{\"cached_tokens\":0,\"cache_creation_input_tokens\":4}}",
      { true, NONE, NONE, 0, 4, NONE, NONE, NONE, NONE } },
    { "{\"reasoning_tokens\":7}", { true, NONE, NONE, NONE, NONE, 7, NONE, NONE, NONE } },
    { "{\"reasoning_tokens\":6,\"completion_tokens_details\":{\"reasoning_tokens\":7}}",
      { true, NONE, NONE, NONE, NONE, 7, NONE, NONE, NONE } },
    /* a length of audio, rounded to milliseconds */
    { "{\"type\":\"duration\",\"seconds\":9}", { true, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 9000 } },
    { "{\"seconds\":3.1416}", { true, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 3142 } },
    { "{\"seconds\":0}", { true, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 0 } },
    { "{\"seconds\":2e2}", { true, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 200000 } },
    { "{\"seconds\":-1}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"seconds\":1e300}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"seconds\":\"9\"}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    /* no counts */
    { "{}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"total_tokens\":3,\"cost\":0.1}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":null}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":\"1\"}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":-1}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":1.0}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":99999999999999999999}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"details\":{\"prompt_tokens\":1}}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":1", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "7", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
};

START_TEST(counts_are_read_from_every_shape_and_from_nothing_else)
{
    struct usage usage;
    usage_init(&usage);
    usage_read(span_cstr(objects[_i].object), &usage);
    expect(objects[_i].object, &usage, &objects[_i].usage);
}
END_TEST

START_TEST(later_counts_replace_earlier_ones_and_leave_the_others)
{
    static const struct usage expected = { true, 10, 7, 4, NONE, NONE, NONE, NONE, NONE };
    struct usage usage;
    usage_init(&usage);
    usage_read(span_cstr("{\"prompt_tokens\":10,\"completion_tokens\":1,\"cached_tokens\":4}"), &usage);
    usage_read(span_cstr("{\"completion_tokens\":7}"), &usage);
    usage_read(span_cstr("{}"), &usage);
    expect("three objects", &usage, &expected);
}
END_TEST

/* --- estimates --- */

static const struct {
    const char *text; /* of a JSON string */
    unsigned quarters;
} texts[] = {
    { "", 0 },
    { "a", 1 },
    { "Hello, world", 12 },
    { "0123456789abcdef", 16 },
    { "0123456\\n89abcdef\\n", 17 },
    { "01234567\xC3\xA9"
      "89abcdef",
      17 },
    { "\x7F~}|{zyx", 8 },
    { "\xC3\xA9", 1 },         /* e with an acute */
    { "\xD0\x96", 1 },         /* Cyrillic */
    { "\xE2\x82\xAC", 1 },     /* the euro sign, U+20AC */
    { "\xE2\xB9\xBF", 1 },     /* U+2E7F */
    { "\xE2\xBA\x80", 3 },     /* U+2E80 */
    { "\xE4\xBD\xA0", 3 },     /* U+4F60 */
    { "\xED\x95\x9C", 3 },     /* Hangul */
    { "\xF0\x9F\x98\x80", 3 }, /* an emoji */
    { "a\xE4\xBD\xA0"
      "b",
      5 },
    /* escapes are what they stand for */
    { "\\n", 1 },
    { "\\\"\\\\", 2 },
    { "\\u0041", 1 },
    { "\\u4f60\\u597D", 6 },
    { "\\u2e7f\\u2e80", 4 },
    { "\\ud83d\\ude00", 3 },
    { "\\\\u4f60", 6 }, /* a backslash, and five letters */
};

START_TEST(a_text_is_estimated_by_its_characters)
{
    uint64_t quarters = usage_estimate_text(span_cstr(texts[_i].text));
    ck_assert_msg(quarters == texts[_i].quarters, "%s: %" PRIu64 ", expected %u", texts[_i].text, quarters,
                  texts[_i].quarters);
}
END_TEST

START_TEST(an_estimate_looks_at_nothing_beyond_its_text)
{
    static const char *const cut[] = { "\\", "\\u", "\\u4f6", "\xE4", "\xF0\x9F", "\xE4\xBD" };
    for (size_t i = 0; i < COUNT(cut); i++) {
        char *copy = malloc(strlen(cut[i])); /* its end is the sanitizer's to watch */
        memcpy(copy, cut[i], strlen(cut[i]));
        ck_assert_uint_le(usage_estimate_text(span_of(copy, strlen(cut[i]))), 6);
        free(copy);
    }
}
END_TEST

/* Article 1 of the Universal Declaration of Human Rights, and how many tokens it is to o200k_base. */
static const struct {
    const char *text;
    long long tokens;
} articles[] = {
    { "All human beings are born free and equal in dignity and rights. They are endowed with reason and "
      "conscience and should act towards one another in a spirit of brotherhood.",
      33 },
    { "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen "
      "begabt und sollen einander im Geiste der Brüderlichkeit begegnen.",
      39 },
    { "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью "
      "и должны поступать в отношении друг друга в духе братства.",
      41 },
    { "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。", 35 },
    { "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心"
      "とを授けられており、互いに同胞の精神をもって行動しなければならない。",
      72 },
    { "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 "
      "부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
      51 },
};

START_TEST(an_estimate_is_within_a_third_of_what_a_tokenizer_says)
{
    struct usage usage;
    usage_init(&usage);
    usage_fill(&usage, 0, usage_estimate_text(span_cstr(articles[_i].text)));
    ck_assert_msg(llabs(usage.output - articles[_i].tokens) * 3 <= articles[_i].tokens,
                  "%s: %" PRId64 ", expected %lld", articles[_i].text, usage.output, articles[_i].tokens);
}
END_TEST

static const struct {
    struct usage had;
    unsigned input_quarters, output_quarters;
    bool is_filled;
    struct usage has;
} fills[] = {
    { { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE },
      5,
      8,
      true,
      { true, 2, 2, NONE, NONE, NONE, NONE, NONE, NONE } },
    { { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE },
      1,
      0,
      true,
      { true, 1, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE },
      0,
      0,
      false,
      { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    /* what the provider counted stays */
    { { true, 100, 50, 4, NONE, NONE, NONE, NONE, NONE },
      5,
      8,
      false,
      { true, 100, 50, 4, NONE, NONE, NONE, NONE, NONE } },
    { { true, 100, 0, NONE, NONE, NONE, NONE, NONE, NONE },
      5,
      8,
      false,
      { true, 100, 0, NONE, NONE, NONE, NONE, NONE, NONE } },
    { { true, 100, NONE, NONE, NONE, NONE, NONE, NONE, NONE },
      5,
      8,
      true,
      { true, 100, 2, NONE, NONE, NONE, NONE, NONE, NONE } },
    { { true, NONE, 50, NONE, NONE, NONE, NONE, NONE, NONE },
      5,
      8,
      true,
      { true, 2, 50, NONE, NONE, NONE, NONE, NONE, NONE } },
};

START_TEST(an_estimate_stands_where_the_provider_counted_nothing)
{
    struct usage usage = fills[_i].had;
    ck_assert_int_eq(usage_fill(&usage, fills[_i].input_quarters, fills[_i].output_quarters),
                     fills[_i].is_filled);
    expect("filled", &usage, &fills[_i].has);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("usage");
    TCase *tcase = tcase_create("counts");
    tcase_add_loop_test(tcase, counts_are_read_from_every_shape_and_from_nothing_else, 0,
                        (int)COUNT(objects));
    tcase_add_test(tcase, later_counts_replace_earlier_ones_and_leave_the_others);
    tcase_add_loop_test(tcase, a_text_is_estimated_by_its_characters, 0, (int)COUNT(texts));
    tcase_add_test(tcase, an_estimate_looks_at_nothing_beyond_its_text);
    tcase_add_loop_test(tcase, an_estimate_is_within_a_third_of_what_a_tokenizer_says, 0,
                        (int)COUNT(articles));
    tcase_add_loop_test(tcase, an_estimate_stands_where_the_provider_counted_nothing, 0, (int)COUNT(fills));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
