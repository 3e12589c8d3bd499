/* Transcriptions: what is read of a form, the body that an upstream gets, and what
 * its replies and events are. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/dialect/transcription.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define TYPE "multipart/form-data; boundary=b"
#define FIELD(name, value) "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define SOUND                                                                                             \
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav" \
    "\r\n\r\nRIFF\r\n--\r\n\r\n"
#define MODEL(value) FIELD("model", value)
#define END "--b--\r\n"

enum { BODY_BYTES = 64 * 1024 };

static struct arena *arena;

static void set_up(void)
{
    arena = arena_new();
}

static void tear_down(void)
{
    arena_free(arena);
}

/* --- requests --------------------------------------------------------------------- */

static const struct {
    const char *body, *model;
    bool is_stream, wants_text;
} accepted[] = {
    { SOUND MODEL("whisper-1") END, "whisper-1", false, false },
    { MODEL("whisper-1") SOUND END, "whisper-1", false, false },
    { MODEL("m") END, "m", false, false }, /* that there is no file is the upstream's to say */
    { SOUND END, "", false, false },
    { SOUND MODEL("") END, "", false, false },
    { SOUND MODEL("auto") END, "auto", false, false },
    { SOUND MODEL("a \"b\"\\c") END, "a \"b\"\\c", false, false },
    { SOUND MODEL("m") FIELD("stream", "true") END, "m", true, false },
    { SOUND MODEL("m") FIELD("stream", "True") END, "m", true, false },
    { SOUND MODEL("m") FIELD("stream", "1") END, "m", true, false },
    { SOUND MODEL("m") FIELD("stream", "false") END, "m", false, false },
    { SOUND MODEL("m") FIELD("stream", "0") END, "m", false, false },
    { SOUND MODEL("m") FIELD("stream", "") END, "m", false, false },
    { SOUND MODEL("m") FIELD("response_format", "json") END, "m", false, false },
    { SOUND MODEL("m") FIELD("response_format", "verbose_json") END, "m", false, false },
    { SOUND MODEL("m") FIELD("response_format", "diarized_json") END, "m", false, false },
    { SOUND MODEL("m") FIELD("response_format", "") END, "m", false, false },
    { SOUND MODEL("m") FIELD("response_format", "text") END, "m", false, true },
    { SOUND MODEL("m") FIELD("response_format", "srt") END, "m", false, true },
    { SOUND MODEL("m") FIELD("response_format", "vtt") FIELD("stream", "true") END, "m", true, true },
    /* What only looks like ours. */
    { SOUND MODEL("m") FIELD("model[]", "x") FIELD("models", "x") FIELD("Stream", "true") END, "m", false,
      false },
    { SOUND MODEL("m") FIELD("prompt", "model=x") FIELD("prompt", "stream=true") END, "m", false, false },
};

START_TEST(a_form_says_its_model_and_how_it_wants_the_text)
{
    struct request_facts facts;
    struct request_fault fault = { .message = NULL };
    const char *body = accepted[_i].body;
    int r = transcription_read_request(span_cstr(body), span_cstr(TYPE), arena, &facts, &fault);

    ck_assert_msg(r == 0, "%s: %s", body, fault.message);
    ck_assert_msg(span_is(facts.model, accepted[_i].model), "%s: model \"%.*s\"", body, (int)facts.model.len,
                  facts.model.ptr);
    ck_assert_msg(facts.is_stream == accepted[_i].is_stream, "%s: is_stream %d", body, facts.is_stream);
    ck_assert_msg(facts.wants_text == accepted[_i].wants_text, "%s: wants_text %d", body, facts.wants_text);
    ck_assert(facts.wants_usage); /* it comes unasked */
    ck_assert_str_eq(facts.content_type, TYPE);
}
END_TEST

static const struct {
    const char *type, *body, *param, *message;
} refused[] = {
    { "multipart/form-data", SOUND MODEL("m") END, NULL,
      "The Content-Type is not valid multipart/form-data: no boundary at byte 19." },
    { TYPE, "", NULL, "The body is not valid multipart/form-data: no boundary at byte 0." },
    { TYPE, SOUND MODEL("m"), NULL,
      "The body is not valid multipart/form-data: no closing boundary at byte " },
    { "multipart/form-data; boundary=c", SOUND MODEL("m") END, NULL, "no boundary" },
    { TYPE, SOUND MODEL("m") MODEL("m") END, "model", "`model` stands there twice." },
    { TYPE, SOUND MODEL("") MODEL("m") END, "model", "`model` stands there twice." },
    { TYPE, SOUND MODEL("m") FIELD("Model", "x") END, "model", "differs from `model` in its case only" },
    { TYPE, SOUND FIELD("model\"; filename=\"x", "m") END, "model", "`model` must not be a file." },
    { TYPE, SOUND MODEL("m") FIELD("stream", "true") FIELD("stream", "false") END, "stream", "twice" },
    { TYPE, SOUND MODEL("m") FIELD("response_format", "text") FIELD("response_format", "json") END,
      "response_format", "twice" },
    { TYPE, SOUND MODEL("m") FIELD("stream", "yes") END, "stream", "`stream` must be true or false." },
    { TYPE, SOUND MODEL("m") FIELD("stream", " true") END, "stream", "`stream` must be true or false." },
    { TYPE, SOUND MODEL("m") FIELD("stream", "null") END, "stream", "`stream` must be true or false." },
};

START_TEST(a_form_that_cannot_be_meant_is_refused_with_its_reason)
{
    struct request_facts facts = { .content_type = NULL };
    struct request_fault fault = { .message = NULL };
    const char *body = refused[_i].body;
    int r = transcription_read_request(span_cstr(body), span_cstr(refused[_i].type), arena, &facts, &fault);

    ck_assert_msg(r == ERR_FORMAT, "%s: %d", body, r);
    ck_assert_msg(strstr(fault.message, refused[_i].message) != NULL, "%s: \"%s\"", body, fault.message);
    ck_assert_pstr_eq(fault.param, refused[_i].param);
    ck_assert(!fault.is_syntax); /* it would be called JSON */
    ck_assert_ptr_null(facts.content_type);
}
END_TEST

static const struct {
    const char *body, *model, *expected;
} splices[] = {
    { SOUND MODEL("m") FIELD("language", "de") END, "whisper-1",
      SOUND MODEL("whisper-1") FIELD("language", "de") END },
    { "pre\r\n" MODEL("m") SOUND END "epilogue", "w", "pre\r\n" MODEL("w") SOUND END "epilogue" },
    { MODEL("m") SOUND END, "m", MODEL("m") SOUND END },
    { MODEL("") SOUND END, "w", MODEL("w") SOUND END },
    { MODEL("long-name") SOUND END, "w", MODEL("w") SOUND END },
    /* Some clients say how long each part is. */
    { "--b\r\nContent-Length:  1 \r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n" SOUND END,
      "whisper-1",
      "--b\r\nContent-Length:  9 \r\nContent-Disposition: form-data; name=model\r\n\r\nwhisper-1\r\n" SOUND
          END },
    { "--b\r\nContent-Disposition: form-data; name=model\r\ncontent-length: 9\r\n\r\nwhisper-1\r\n" SOUND END,
      "a-model-of-20-bytes.",
      "--b\r\nContent-Disposition: form-data; name=model\r\ncontent-length: 20\r\n\r\na-model-of-20-bytes."
      "\r\n" SOUND END },
};

START_TEST(the_upstream_gets_every_byte_but_the_models_name)
{
    struct request_facts facts;
    struct request_fault fault;
    struct splice splice;
    struct splice_cursor cursor = { 0, 0 };
    char out[BODY_BYTES];

    ck_assert_int_eq(
        transcription_read_request(span_cstr(splices[_i].body), span_cstr(TYPE), arena, &facts, &fault), 0);
    ck_assert_int_eq(
        transcription_splice_request(&facts, span_cstr(splices[_i].model), false, arena, &splice), 0);
    size_t len = splice_read(&splice, &cursor, out, sizeof(out));
    ck_assert_uint_eq(len, splice_size(&splice));
    ck_assert_msg(span_is(span_of(out, len), splices[_i].expected), "%s\nbecame\n%.*s", splices[_i].body,
                  (int)len, out);
}
END_TEST

/* --- replies ---------------------------------------------------------------------- */

static const struct {
    const char *body;
    const char *why; /* NULL: usable */
    bool is_error;
    int64_t input, audio_in, audio_ms;
} plains[] = {
    { "{\"text\":\"Hello.\"}", NULL, false, -1, -1, -1 },
    { "{\"text\":\"\"}", NULL, false, -1, -1, -1 }, /* silence */
    { " {\"text\":\"a\",\"error\":null}\n", NULL, false, -1, -1, -1 },
    { "{\"text\":\"a\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":14,\"input_token_details\":"
      "{\"text_tokens\":0,\"audio_tokens\":14},\"output_tokens\":45,\"total_tokens\":59}}",
      NULL, false, 14, 14, -1 },
    { "{\"text\":\"a\",\"usage\":{\"type\":\"duration\",\"seconds\":9}}", NULL, false, -1, -1, 9000 },
    { "{\"task\":\"transcribe\",\"language\":\"english\",\"duration\":8.47,\"text\":\"a\",\"segments\":[]}",
      NULL, false, -1, -1, 8470 },
    { "{\"duration\":8.47,\"text\":\"a\",\"usage\":{\"type\":\"duration\",\"seconds\":9}}", NULL, false, -1,
      -1, 9000 },
    { "{\"segments\":[{\"text\":\"a\"}]}", NULL, false, -1, -1, -1 },
    { "", "empty_reply", false, -1, -1, -1 },
    { " \n", "empty_reply", false, -1, -1, -1 },
    { "Hello.", "not_json", false, -1, -1, -1 },
    { "{\"text\":\"a\"", "not_json", false, -1, -1, -1 },
    { "<html></html>", "not_json", false, -1, -1, -1 },
    { "{}", "no_text", false, -1, -1, -1 },
    { "[]", "no_text", false, -1, -1, -1 },
    { "{\"text\":null}", "no_text", false, -1, -1, -1 },
    { "{\"text\":{\"a\":1}}", "no_text", false, -1, -1, -1 },
    { "{\"choices\":[]}", "no_text", false, -1, -1, -1 },
    { "{\"error\":{\"message\":\"no\"}}", "error_in_reply", true, -1, -1, -1 },
    { "{\"text\":\"\",\"error\":\"no\"}", "error_in_reply", true, -1, -1, -1 },
    { "{\"object\":\"error\",\"message\":\"no\"}", "error_in_reply", true, -1, -1, -1 },
    { "{\"code\":50603,\"message\":\"System is too busy\",\"data\":null}", "error_in_reply", true, -1, -1,
      -1 },
};

START_TEST(a_plain_reply_is_json_with_a_text)
{
    struct plain_facts facts;
    const char *body = plains[_i].body;

    transcription_judge_plain(span_cstr(body), &facts);
    ck_assert_msg(facts.is_usable == (plains[_i].why == NULL), "%s: is_usable %d", body, facts.is_usable);
    ck_assert_pstr_eq(facts.why, plains[_i].why);
    ck_assert_msg(facts.is_error == plains[_i].is_error, "%s: is_error %d", body, facts.is_error);
    ck_assert_int_eq(facts.usage.input, plains[_i].input);
    ck_assert_int_eq(facts.usage.audio_in, plains[_i].audio_in);
    ck_assert_int_eq(facts.usage.audio_ms, plains[_i].audio_ms);
}
END_TEST

static const struct {
    const char *body;
    const char *why;
    bool is_error;
} texts[] = {
    { "Hello.\n", NULL, false },
    { "\n", NULL, false },
    { "1\n00:00:00,000 --> 00:00:01,000\nHello.\n\n", NULL, false },
    { "WEBVTT\n\n", NULL, false },
    { "{not json", NULL, false },
    { "{\"text\":\"a\"}", NULL, false },
    { "<i>Hello.</i>", NULL, false },
    { "", "empty_reply", false },
    { "<!DOCTYPE html><title>502</title>", "not_text", false },
    { "\n<HTML>502", "not_text", false },
    { "{\"error\":{\"message\":\"no\"}}", "error_in_reply", true },
};

START_TEST(a_reply_in_text_is_any_text_that_is_no_error)
{
    struct plain_facts facts;
    const char *body = texts[_i].body;

    transcription_judge_text(span_cstr(body), &facts);
    ck_assert_msg(facts.is_usable == (texts[_i].why == NULL), "%s: is_usable %d", body, facts.is_usable);
    ck_assert_pstr_eq(facts.why, texts[_i].why);
    ck_assert_msg(facts.is_error == texts[_i].is_error, "%s: is_error %d", body, facts.is_error);
    ck_assert(!facts.usage.present);
}
END_TEST

/* --- events ----------------------------------------------------------------------- */

static const struct {
    const char *name, *data;
    enum event_class class;
    bool is_done;
} events[] = {
    { "", "{\"type\":\"transcript.text.delta\",\"delta\":\"a\"}", EVENT_CONTENT, false },
    { "", "{\"type\":\"transcript.text.delta\",\"delta\":\" \"}", EVENT_CONTENT, false },
    { "", "{\"type\":\"transcript.text.delta\",\"delta\":\"\"}", EVENT_NOTHING, false },
    { "", "{\"type\":\"transcript.text.delta\",\"delta\":\"\",\"logprobs\":[]}", EVENT_NOTHING, false },
    { "", "{\"type\":\"transcript.text.segment\",\"text\":\"a\"}", EVENT_CONTENT, false },
    { "", "{\"type\":\"transcript.text.done\",\"text\":\"a\"}", EVENT_CONTENT, true },
    { "", "{\"type\":\"transcript.text.done\",\"text\":\"\"}", EVENT_CONTENT, true }, /* silence */
    { "transcript.text.done", "{\"type\":\"transcript.text.done\",\"text\":\"a\"}", EVENT_CONTENT, true },
    { "", "[DONE]", EVENT_TERMINAL, false },
    { "", " [DONE]", EVENT_TERMINAL, false },
    { "", "", EVENT_NOTHING, false },
    { "", "{\"object\":\"transcription.chunk\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}", EVENT_CONTENT,
      false }, /* vLLM */
    { "", "{\"type\":\"something.new\"}", EVENT_CONTENT, false },
    { "", "{\"type\":\"error\",\"error\":{\"message\":\"no\"}}", EVENT_ERROR, false },
    { "", "{\"type\":\"error\"}", EVENT_ERROR, false },
    { "", "{\"error\":\"no\"}", EVENT_ERROR, false },
    { "", "{\"code\":\"busy\",\"message\":\"no\"}", EVENT_ERROR, false },
    { "error", "{\"message\":\"no\"}", EVENT_ERROR, false },
    { "error", "", EVENT_ERROR, false },
    { "", "not json", EVENT_ERROR, false },
};

START_TEST(an_event_is_content_or_nothing_or_an_end)
{
    struct stream_state state = { 0 };
    const struct sse_event event = { .data = span_cstr(events[_i].data),
                                     .name = span_cstr(events[_i].name),
                                     .has_data = true };

    usage_init(&state.usage);
    enum event_class class = transcription_judge_event(&event, &state);
    ck_assert_msg(class == events[_i].class, "%s: %d", events[_i].data, class);
    ck_assert_msg(transcription_is_finished(&state) == events[_i].is_done, "%s: is_finished %d",
                  events[_i].data, state.is_done);
}
END_TEST

START_TEST(what_was_heard_is_counted_as_it_comes)
{
    struct stream_state state = { 0 };
    static const char *const data[] = {
        "{\"type\":\"transcript.text.delta\",\"delta\":\"ab\"}",
        "{\"type\":\"transcript.text.delta\",\"delta\":\"\\u4f60\"}",
        "{\"type\":\"transcript.text.delta\",\"delta\":7}",
        "{\"type\":\"transcript.text.done\",\"text\":\"ab\\u4f60\"}",
    };
    for (size_t i = 0; i < COUNT(data); i++) {
        const struct sse_event event = { .data = span_cstr(data[i]), .has_data = true };
        transcription_judge_event(&event, &state);
    }
    ck_assert_uint_eq(state.said_quarters, 5);
}
END_TEST

START_TEST(the_last_event_has_the_usage)
{
    struct stream_state state = { 0 };
    const struct sse_event event = {
        .data = span_cstr("{\"type\":\"transcript.text.done\",\"text\":\"a\",\"usage\":{\"type\":\"tokens\","
                          "\"input_tokens\":14,\"output_tokens\":45}}"),
        .has_data = true,
    };

    usage_init(&state.usage);
    transcription_judge_event(&event, &state);
    ck_assert(state.usage.present);
    ck_assert_int_eq(state.usage.input, 14);
    ck_assert_int_eq(state.usage.output, 45);
}
END_TEST

START_TEST(what_is_no_event_is_an_error_and_what_is_too_large_is_content)
{
    struct stream_state state = { 0 };
    const struct sse_event foreign = { .raw = span_cstr("{\"a\":1}\n\n"), .is_foreign = true };
    const struct sse_event part = { .raw = span_cstr("data: x"), .is_part = true };
    const struct sse_event comment = { .raw = span_cstr(": x\n\n"), .is_comment = true };

    ck_assert_int_eq(transcription_judge_event(&foreign, &state), EVENT_ERROR);
    ck_assert_int_eq(transcription_judge_event(&part, &state), EVENT_CONTENT);
    ck_assert_int_eq(transcription_judge_event(&comment, &state), EVENT_NOTHING);
}
END_TEST

START_TEST(the_endpoint_leads_to_the_row)
{
    ck_assert_ptr_eq(dialect_by_endpoint(span_cstr("audio/transcriptions")), &dialect_transcription);
    ck_assert_ptr_null(dialect_by_endpoint(span_cstr("audio/translations")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transcription");
    TCase *requests = tcase_create("requests"), *replies = tcase_create("replies");
    tcase_add_checked_fixture(requests, set_up, tear_down);
    tcase_add_loop_test(requests, a_form_says_its_model_and_how_it_wants_the_text, 0, (int)COUNT(accepted));
    tcase_add_loop_test(requests, a_form_that_cannot_be_meant_is_refused_with_its_reason, 0,
                        (int)COUNT(refused));
    tcase_add_loop_test(requests, the_upstream_gets_every_byte_but_the_models_name, 0, (int)COUNT(splices));
    tcase_add_loop_test(replies, a_plain_reply_is_json_with_a_text, 0, (int)COUNT(plains));
    tcase_add_loop_test(replies, a_reply_in_text_is_any_text_that_is_no_error, 0, (int)COUNT(texts));
    tcase_add_loop_test(replies, an_event_is_content_or_nothing_or_an_end, 0, (int)COUNT(events));
    tcase_add_test(replies, what_was_heard_is_counted_as_it_comes);
    tcase_add_test(replies, the_last_event_has_the_usage);
    tcase_add_test(replies, what_is_no_event_is_an_error_and_what_is_too_large_is_content);
    tcase_add_test(replies, the_endpoint_leads_to_the_row);
    suite_add_tcase(suite, requests);
    suite_add_tcase(suite, replies);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
