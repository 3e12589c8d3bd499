#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/ssml.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BYTES(literal)               \
    {                                \
        literal, sizeof(literal) - 1 \
    }
#define SPEAK "<speak version=\"1.0\" xmlns=\"http://www.w3.org/2001/10/synthesis\""

static struct buf out;

static void set_up(void)
{
    buf_init(&out, 1 << 20);
}

static void tear_down(void)
{
    buf_free(&out);
}

static const struct {
    struct span text;
    const char *escaped;
} ESCAPES[] = {
    { BYTES("plain, 你好"), "plain, 你好" },
    { BYTES("a < b && c > \"d\" 'e'"), "a &lt; b &amp;&amp; c &gt; &quot;d&quot; &apos;e&apos;" },
    { BYTES("</voice></speak>"), "&lt;/voice&gt;&lt;/speak&gt;" },
    { BYTES("]]>&#0;&lt;<!--"), "]]&gt;&amp;#0;&amp;lt;&lt;!--" },
    { BYTES("tab\tline\nfeed\r"), "tab\tline\nfeed&#13;" },
    { BYTES("\0a\x01"
            "b\x08\x0B\x0C\x1F"
            "c"),
      "abc" },
    { BYTES("\x7F\xC2\x85"), "\x7F\xC2\x85" },
    { BYTES("a\xEF\xBF\xBE"
            "b\xEF\xBF\xBF"
            "c"),
      "abc" },
    { BYTES("\xED\xA0\xBD"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" },
    { BYTES("\xFF"), "\xEF\xBF\xBD" },
    { BYTES("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80" },
};

START_TEST(a_text_is_escaped_and_loses_what_xml_forbids)
{
    ssml_escape(&out, ESCAPES[_i].text);
    ck_assert_msg(span_is(buf_span(&out), ESCAPES[_i].escaped), "row %d: expected %s, found %.*s", _i,
                  ESCAPES[_i].escaped, (int)out.len, out.data);
}
END_TEST

/* How many times `mark` stands in what was written. */
static size_t count_of(const char *mark)
{
    size_t n = 0;
    buf_append_char(&out, '\0');
    for (const char *p = out.data; (p = strstr(p, mark)) != NULL; p += strlen(mark))
        n++;
    out.len--;
    return n;
}

START_TEST(a_document_has_only_what_was_asked_for)
{
    struct ssml_speech speech = { .locale = span_cstr("en-US"),
                                  .voice = span_cstr("en-US-Ava:DragonHDLatestNeural"),
                                  .text = span_cstr("Tom & Jerry") };
    ssml_write(&out, &speech);
    ck_assert_str_eq(span_is(buf_span(&out), SPEAK " xml:lang=\"en-US\"><voice "
                                                   "name=\"en-US-Ava:DragonHDLatestNeural\">Tom &amp; "
                                                   "Jerry</voice></speak>")
                         ? "as expected"
                         : out.data,
                     "as expected");
}
END_TEST

START_TEST(prosody_stands_inside_the_expression)
{
    struct ssml_speech speech = { .locale = span_cstr("zh-CN"),
                                  .voice = span_cstr("zh-CN-XiaoxiaoNeural"),
                                  .text = span_cstr("好"),
                                  .rate = span_cstr("+20%"),
                                  .pitch = span_cstr("-2st"),
                                  .volume = span_cstr("80"),
                                  .style = span_cstr("cheerful"),
                                  .style_degree = span_cstr("1.5"),
                                  .role = span_cstr("Girl") };
    ssml_write(&out, &speech);
    static const char expected[] =
        SPEAK " xmlns:mstts=\"https://www.w3.org/2001/mstts\" xml:lang=\"zh-CN\"><voice "
              "name=\"zh-CN-XiaoxiaoNeural\"><mstts:express-as style=\"cheerful\" styledegree=\"1.5\" "
              "role=\"Girl\"><prosody rate=\"+20%\" pitch=\"-2st\" volume=\"80\">好</prosody>"
              "</mstts:express-as></voice></speak>";
    ck_assert_msg(span_is(buf_span(&out), expected), "expected\n%s, found\n%.*s", expected, (int)out.len,
                  out.data);
}
END_TEST

START_TEST(nothing_in_any_member_becomes_an_element_or_an_attribute)
{
    static const char hostile[] = "\"/><audio src='http://x/'/>&bomb;<!--\n]]> x=\"";
    for (size_t i = 0; i < 9; i++) {
        struct ssml_speech speech = { .locale = span_cstr("en-US"),
                                      .voice = span_cstr("v"),
                                      .text = span_cstr("t"),
                                      .rate = span_cstr("1"),
                                      .pitch = span_cstr("1"),
                                      .volume = span_cstr("1"),
                                      .style = span_cstr("s"),
                                      .style_degree = span_cstr("1"),
                                      .role = span_cstr("r") };
        struct span *members[] = { &speech.locale, &speech.voice,        &speech.text,
                                   &speech.rate,   &speech.pitch,        &speech.volume,
                                   &speech.style,  &speech.style_degree, &speech.role };
        *members[i] = span_cstr(hostile);
        buf_clear(&out);
        ssml_write(&out, &speech);
        size_t tags = count_of("<"), quotes = count_of("\""), bare = count_of("&bomb;");
        ck_assert_msg(tags == 8 && quotes == 22 && bare == 0, "member %zu: %zu tags, %zu quotes in %.*s", i,
                      tags, quotes, (int)out.len, out.data);
    }
}
END_TEST

static const struct {
    const char *voice, *locale;
} LOCALES[] = {
    { "zh-CN-XiaoxiaoNeural", "zh-CN" },
    { "zh-CN-liaoning-XiaobeiNeural", "zh-CN-liaoning" },
    { "sr-Latn-RS-NicholasNeural", "sr-Latn-RS" },
    { "iu-Cans-CA-SiqiniqNeural", "iu-Cans-CA" },
    { "fil-PH-BlessicaNeural", "fil-PH" },
    { "es-419-AnyNeural", "es-419" },
    { "en-US-Ava:DragonHDLatestNeural", "en-US" },
    { "en-US-MultiTalker-Ava-Andrew:DragonHDLatestNeural", "en-US" },
    { "en-US", "" },
    { "en", "" },
    { "Ava", "" },
    { "EN-US-Ava", "" },
    { "english-US-Ava", "" },
    { "en-Latn-Ava", "" },
    { "-US-Ava", "" },
    { "", "" },
};

START_TEST(the_locale_of_a_voice_is_how_its_name_begins)
{
    struct span found = ssml_locale(span_cstr(LOCALES[_i].voice));
    ck_assert_msg(span_is(found, LOCALES[_i].locale), "%s: expected \"%s\", found \"%.*s\"",
                  LOCALES[_i].voice, LOCALES[_i].locale, (int)found.len, found.ptr);
}
END_TEST

static const struct {
    struct span text;
    bool is_voice;
} VOICES[] = {
    { BYTES("zh-CN-XiaoxiaoNeural"), true },
    { BYTES("en-US-Ava:DragonHDLatestNeural"), true },
    { BYTES("My Voice_2 (v1.0)"), true },
    { BYTES(""), false },
    { BYTES(" en-US"), false },
    { BYTES("a\"b"), false },
    { BYTES("a<b"), false },
    { BYTES("a&b"), false },
    { BYTES("a'b"), false },
    { BYTES("a\0b"), false },
    { BYTES("a\nb"), false },
    { BYTES("晓晓"), false },
};

START_TEST(a_voice_has_an_alphabet)
{
    ck_assert_msg(ssml_is_voice(VOICES[_i].text) == VOICES[_i].is_voice, "\"%.*s\"", (int)VOICES[_i].text.len,
                  VOICES[_i].text.ptr);
}
END_TEST

START_TEST(a_voice_is_at_most_128_bytes)
{
    char name[129];
    memset(name, 'a', sizeof(name));
    ck_assert(ssml_is_voice(span_of(name, 128)));
    ck_assert(!ssml_is_voice(span_of(name, 129)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ssml");
    TCase *tests = tcase_create("ssml");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_text_is_escaped_and_loses_what_xml_forbids, 0, (int)COUNT(ESCAPES));
    tcase_add_test(tests, a_document_has_only_what_was_asked_for);
    tcase_add_test(tests, prosody_stands_inside_the_expression);
    tcase_add_test(tests, nothing_in_any_member_becomes_an_element_or_an_attribute);
    tcase_add_loop_test(tests, the_locale_of_a_voice_is_how_its_name_begins, 0, (int)COUNT(LOCALES));
    tcase_add_loop_test(tests, a_voice_has_an_alphabet, 0, (int)COUNT(VOICES));
    tcase_add_test(tests, a_voice_is_at_most_128_bytes);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
