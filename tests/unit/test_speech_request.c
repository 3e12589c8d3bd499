/* Requests of the speech dialect: what is read, what is refused, what is passed on; and its events. */
#include <check.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/dialect/speech.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct arena *arena;
static struct request_facts facts;
static struct request_fault fault;

static void set_up(void)
{
    arena = arena_new();
    facts = (struct request_facts){ 0 };
    fault = (struct request_fault){ 0 };
}

static void tear_down(void)
{
    arena_free(arena);
}

/* A body whose input is `count` times `unit`. */
static const char *long_input(const char *unit, size_t count)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    buf_append_cstr(&text, "{\"voice\":\"v\",\"input\":\"");
    for (size_t i = 0; i < count; i++)
        buf_append_cstr(&text, unit);
    buf_append_cstr(&text, "\"}");
    const char *copy = arena_span(arena, buf_span(&text));
    buf_free(&text);
    return copy;
}

static const struct {
    const char *body, *input;
    size_t characters;
    const char *model, *voice, *format, *instructions, *extra;
    double speed;
    bool wants_events;
} accepted[] = {
    { "{\"input\":\"Hi\"}", "Hi", 2, "", "", "", "", "", 1, false },
    { "{\"model\":\"m\",\"input\":\"Hi\",\"voice\":\"v\",\"response_format\":\"wav\",\"speed\":0.25,"
      "\"instructions\":"
      "\"slowly\",\"stream_format\":\"sse\",\"extra_body\":{\"a\": 1}}",
      "Hi", 2, "m", "v", "wav", "slowly", "{\"a\": 1}", 0.25, true },
    { "{\"model\":null,\"input\":\"Hi\",\"voice\":null,\"response_format\":null,\"speed\":null,"
      "\"instructions\":null,"
      "\"stream_format\":null,\"extra_body\":null}",
      "Hi", 2, "", "", "", "", "", 1, false },
    { "{\"input\":\"Hi\",\"voice\":{\"id\":\"v_1\"},\"speed\":4}", "Hi", 2, "", "v_1", "", "", "", 4, false },
    { "{\"input\":\"Hi\",\"voice\":{\"i\\u0064\":\"v_1\"},\"stream_format\":\"\\u0061udio\"}", "Hi", 2, "",
      "v_1", "", "", "", 1, false },
    /* Unicode, however it is written */
    { "{\"input\":\"\\u4f60\xe5\xa5\xbd\xf0\x9f\x98\x80\"}", "\xe4\xbd\xa0\xe5\xa5\xbd\xf0\x9f\x98\x80", 3,
      "", "", "", "", "", 1, false },
    { "{\"input\":\"\\ud83d\\ude00\"}", "\xf0\x9f\x98\x80", 1, "", "", "", "", "", 1, false },
    { "{\"input\":\"a\\ud83d\"}", "a\xef\xbf\xbd", 2, "", "", "", "", "", 1, false },
};

/* As JavaScript counts, and bills that are made by it. */
static const struct {
    const char *input;
    size_t units;
} counted[] = {
    { "Hi", 2 },
    { "\xe4\xbd\xa0\xe5\xa5\xbd", 2 },
    { "\xf0\x9f\x98\x80!", 3 },
    { "\\ud83d\\ude00", 2 },
    { "\\ud83d", 1 },
    { "\xf4\x8f\xbf\xbf\xef\xbf\xbf", 3 },
};

START_TEST(the_text_is_also_counted_in_utf_16)
{
    const char *body = arena_printf(arena, "{\"input\":\"%s\",\"voice\":\"v\"}", counted[_i].input);
    ck_assert_int_eq(
        speech_read_request(span_cstr(body), span_cstr(dialect_speech.media_type), arena, &facts, &fault), 0);
    ck_assert_msg(facts.speech->input_utf16 == counted[_i].units, "%s: %zu units, expected %zu", body,
                  facts.speech->input_utf16, counted[_i].units);
}
END_TEST

START_TEST(a_request_says_what_it_says)
{
    int r = speech_read_request(span_cstr(accepted[_i].body), span_cstr(dialect_speech.media_type), arena,
                                &facts, &fault);
    ck_assert_msg(r == 0, "%s: %s", accepted[_i].body, fault.message);
    const struct speech_facts *s = facts.speech;
    ck_assert_msg(span_is(s->input, accepted[_i].input) && s->input_characters == accepted[_i].characters,
                  "%s: \"%.*s\" of %zu characters", accepted[_i].body, (int)s->input.len, s->input.ptr,
                  s->input_characters);
    ck_assert_msg(span_is(facts.model, accepted[_i].model) && span_is(s->voice, accepted[_i].voice) &&
                      span_is(s->format, accepted[_i].format) &&
                      span_is(s->instructions, accepted[_i].instructions) &&
                      span_is(s->extra_body, accepted[_i].extra),
                  "%s", accepted[_i].body);
    ck_assert_double_eq(s->speed, accepted[_i].speed);
    ck_assert(s->wants_events == accepted[_i].wants_events && facts.is_stream == s->wants_events);
}
END_TEST

static const struct {
    const char *body, *param, *message;
} refused[] = {
    { "{", NULL, "is not valid JSON" },
    { "[]", NULL, "must be a JSON object" },
    { "{\"input\":\"a\",\"input\":\"b\"}", NULL, "cannot be used" },
    { "{\"input\":\"a\",\"voice\":{\"id\":\"a\",\"id\":\"b\"}}", NULL, "cannot be used" },
    { "{\"input\":\"a\",\"Model\":\"b\"}", "model", "differs from `model` in its case" },
    { "{\"input\":\"a\",\"model\":[]}", "model", "must be a string" },
    { "{}", "input", "is missing" },
    { "{\"input\":null}", "input", "must be a string" },
    { "{\"input\":[\"a\"]}", "input", "must be a string" },
    { "{\"input\":\"\"}", "input", "is empty" },
    { "{\"input\":\"a\",\"voice\":\"\"}", "voice", "is empty" },
    { "{\"input\":\"a\",\"voice\":7}", "voice", "a string or an object" },
    { "{\"input\":\"a\",\"voice\":[]}", "voice", "a string or an object" },
    { "{\"input\":\"a\",\"voice\":{}}", "voice", "a string or an object" },
    { "{\"input\":\"a\",\"voice\":{\"id\":null}}", "voice", "a string or an object" },
    { "{\"input\":\"a\",\"voice\":{\"id\":\"v\",\"x\":1}}", "voice", "a string or an object" },
    { "{\"input\":\"a\",\"voice\":{\"name\":\"v\"}}", "voice", "a string or an object" },
    { "{\"input\":\"a\",\"voice\":\"a\\u0000b\"}", "voice", "control character" },
    { "{\"input\":\"a\",\"voice\":\"a\\nb\"}", "voice", "control character" },
    { "{\"input\":\"a\",\"response_format\":\"\"}", "response_format", "no format" },
    { "{\"input\":\"a\",\"response_format\":{}}", "response_format", "must be a string" },
    { "{\"input\":\"a\",\"speed\":\"1\"}", "speed", "from 0.25 to 4" },
    { "{\"input\":\"a\",\"speed\":0.2499}", "speed", "from 0.25 to 4" },
    { "{\"input\":\"a\",\"speed\":4.0001}", "speed", "from 0.25 to 4" },
    { "{\"input\":\"a\",\"speed\":1e999}", "speed", "from 0.25 to 4" },
    { "{\"input\":\"a\",\"speed\":-1}", "speed", "from 0.25 to 4" },
    { "{\"input\":\"a\",\"instructions\":1}", "instructions", "must be a string" },
    { "{\"input\":\"a\",\"stream_format\":true}", "stream_format", "\"audio\" or \"sse\"" },
    { "{\"input\":\"a\",\"stream_format\":\"SSE\"}", "stream_format", "\"audio\" or \"sse\"" },
    { "{\"input\":\"a\",\"extra_body\":\"x\"}", "extra_body", "must be an object" },
    { "{\"input\":\"a\",\"extra_body\":{\"voice_pack\":{}}}", "extra_body.voice_pack", "stands beside" },
    { "{\"input\":\"a\",\"voice_pack\":\"p\"}", "voice_pack", "must be an object" },
    { "{\"input\":\"a\",\"voice_pack\":{},\"voice_pack\":{}}", NULL, "cannot be used" },
};

START_TEST(what_is_wrong_is_named_with_its_member)
{
    int r = speech_read_request(span_cstr(refused[_i].body), span_cstr(dialect_speech.media_type), arena,
                                &facts, &fault);
    ck_assert_msg(r != 0, "%s was accepted", refused[_i].body);
    ck_assert_pstr_eq(fault.param, refused[_i].param);
    ck_assert_msg(strstr(fault.message, refused[_i].message) != NULL, "%s: %s", refused[_i].body,
                  fault.message);
}
END_TEST

START_TEST(characters_are_counted_and_not_bytes)
{
    static const char *const units[] = { "a",       "\xc3\xa9",       "\xe5\xad\x97", "\xf0\x9f\x98\x80",
                                         "\\u5b57", "\\ud83d\\ude00", "\\n" };
    for (size_t i = 0; i < COUNT(units); i++) {
        ck_assert_msg(speech_read_request(span_cstr(long_input(units[i], SPEECH_INPUT_CHARACTERS)),
                                          span_cstr(dialect_speech.media_type), arena, &facts, &fault) == 0,
                      "4096 times %s: %s", units[i], fault.message);
        ck_assert_uint_eq(facts.speech->input_characters, SPEECH_INPUT_CHARACTERS);
        ck_assert_msg(speech_read_request(span_cstr(long_input(units[i], SPEECH_INPUT_CHARACTERS + 1)),
                                          span_cstr(dialect_speech.media_type), arena, &facts, &fault) != 0,
                      "4097 times %s", units[i]);
        ck_assert_str_eq(fault.param, "input");
        ck_assert_ptr_nonnull(strstr(fault.message, "4097"));
    }
}
END_TEST

/* ---- events ---- */

static const char *text_of(struct buf *buf)
{
    const char *text = arena_span(arena, buf_span(buf));
    buf_free(buf);
    return text;
}

START_TEST(a_delta_holds_audio_in_base64_whatever_its_length)
{
    static const char expected[] = "data: {\"type\":\"speech.audio.delta\",\"audio\":\"%s\"}\n\n";
    static const struct {
        size_t len;
        const char *base64;
    } rows[] = { { 1, "AA==" }, { 2, "AAA=" }, { 3, "AAAA" }, { 4, "AAAAAA==" } };
    char zeros[4] = { 0 };
    struct buf out;

    for (size_t i = 0; i < COUNT(rows); i++) {
        buf_init(&out, 1024);
        speech_write_delta_event(&out, span_of(zeros, rows[i].len));
        ck_assert_str_eq(text_of(&out), arena_printf(arena, expected, rows[i].base64));
    }
}
END_TEST

START_TEST(a_long_delta_has_padding_at_its_end_only)
{
    static const size_t lengths[] = { 3071, 3072, 3073, 6144, 10000 };
    struct buf out;

    for (size_t i = 0; i < COUNT(lengths); i++) {
        char *audio = arena_calloc(arena, lengths[i], 1);
        buf_init(&out, 64 * 1024);
        speech_write_delta_event(&out, span_of(audio, lengths[i]));
        const char *text = text_of(&out);
        const char *pad = strchr(text + sizeof("data: {\"type\":\"speech.audio.delta\",\"audio\":\""), '=');
        size_t digits = (lengths[i] + 2) / 3 * 4;
        ck_assert_uint_eq(strlen(text),
                          sizeof("data: {\"type\":\"speech.audio.delta\",\"audio\":\"\"}\n\n") - 1 + digits);
        ck_assert_msg(pad == NULL || strlen(pad) <= strlen("==\"}\n\n"), "%zu bytes", lengths[i]);
    }
}
END_TEST

START_TEST(the_end_tells_the_tokens_that_are_known)
{
    struct usage usage;
    struct buf out;

    usage_init(&usage);
    buf_init(&out, 1024);
    speech_write_done_event(&out, &usage);
    ck_assert_str_eq(text_of(&out), "data: {\"type\":\"speech.audio.done\"}\n\n");
    usage_read(span_cstr("{\"input_tokens\":3,\"output_tokens\":40}"), &usage);
    buf_init(&out, 1024);
    speech_write_done_event(&out, &usage);
    ck_assert_str_eq(text_of(&out), "data: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":3,"
                                    "\"output_tokens\":40,\"total_tokens\":43}}\n\n");
}
END_TEST

START_TEST(an_error_stands_where_clients_look_for_it)
{
    const struct stream_error error = { .message = "It \"broke\".\n", .type = "server_error", .code = "c" };
    struct buf out;

    buf_init(&out, 1024);
    speech_write_error_event(&out, &error);
    ck_assert_str_eq(text_of(&out),
                     "data: {\"type\":\"error\",\"error\":{\"message\":\"It \\\"broke\\\".\\n\",\"type\":"
                     "\"server_error\",\"param\":null,\"code\":\"c\"}}\n\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("speech request");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, the_text_is_also_counted_in_utf_16, 0, (int)COUNT(counted));
    tcase_add_loop_test(tests, a_request_says_what_it_says, 0, (int)COUNT(accepted));
    tcase_add_loop_test(tests, what_is_wrong_is_named_with_its_member, 0, (int)COUNT(refused));
    tcase_add_test(tests, characters_are_counted_and_not_bytes);
    tcase_add_test(tests, a_delta_holds_audio_in_base64_whatever_its_length);
    tcase_add_test(tests, a_long_delta_has_padding_at_its_end_only);
    tcase_add_test(tests, the_end_tells_the_tokens_that_are_known);
    tcase_add_test(tests, an_error_stands_where_clients_look_for_it);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
