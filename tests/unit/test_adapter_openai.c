/* The openai adapter: what it sends, and what it makes of every kind of reply. */
#include "tests/unit/adapter_driver.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ASK "{\"model\":\"asked\",\"input\":\"Hi\",\"voice\":\"alloy\"}"

/* ---- requests ---- */

static const struct {
    const char *body, *params, *sent;
} requests[] = {
    { ASK, "", ASK },
    { ASK, "{\"model\":\"tts-1\"}", "{\"model\":\"tts-1\",\"input\":\"Hi\",\"voice\":\"alloy\"}" },
    /* key order, number spelling, escapes and unknown members stay */
    { "{ \"speed\" : 1.50, \"input\":\"\\u0048i\\ud83d\", \"seed\":7,\"voice\":{\"id\":\"v_1\"} , "
      "\"model\":\"asked\" }",
      "",
      "{ \"speed\" : 1.50, \"input\":\"\\u0048i\\ud83d\", \"seed\":7,\"voice\":{\"id\":\"v_1\"} , "
      "\"model\":\"asked\" }" },
    { "{\"input\":\"Hi\",\"voice\":\"a\"}", "", "{\"model\":\"asked\",\"input\":\"Hi\",\"voice\":\"a\"}" },
    { "{\"model\":null,\"input\":\"Hi\",\"voice\":\"a\"}", "",
      "{\"model\":\"asked\",\"input\":\"Hi\",\"voice\":\"a\"}" },
    /* a default voice fills a gap, and replaces nothing */
    { "{\"model\":\"asked\",\"input\":\"Hi\"}", "{\"defaultVoice\":\"nova\"}",
      "{\"voice\":\"nova\",\"model\":\"asked\",\"input\":\"Hi\"}" },
    { "{\"input\":\"Hi\",\"voice\":null}", "{\"defaultVoice\":\"nova\"}",
      "{\"model\":\"asked\",\"input\":\"Hi\",\"voice\":\"nova\"}" },
    { ASK, "{\"defaultVoice\":\"nova\"}", ASK },
    /* extra_body is said to us */
    { "{\"extra_body\":{\"a\":[1,{}]},\"input\":\"Hi\",\"voice\":\"a\"}", "",
      "{\"model\":\"asked\",\"input\":\"Hi\",\"voice\":\"a\"}" },
    { "{\"input\":\"Hi\",\"voice\":\"a\" , \"extra_body\":null }", "",
      "{\"model\":\"asked\",\"input\":\"Hi\",\"voice\":\"a\"  }" },
    { "{\"input\":\"Hi\", \"extra_body\" : {} ,\"voice\":\"a\"}", "",
      "{\"model\":\"asked\",\"input\":\"Hi\", \"voice\":\"a\"}" },
};

START_TEST(the_callers_body_goes_on_as_it_was_written)
{
    struct driver d;
    driver_open(&d, "openai", requests[_i].body, requests[_i].params);
    ck_assert(d.call != NULL);
    ck_assert_str_eq(driver_body(&d), requests[_i].sent);
    ck_assert_str_eq(d.exchange.url, "https://upstream.test/speech");
    ck_assert_str_eq(d.exchange.key_header, "Authorization: Bearer {KEY}");
    ck_assert_str_eq(driver_header(&d, "content-type"), "application/json");
    ck_assert(!d.exchange.is_get);
    driver_close(&d);
}
END_TEST

START_TEST(events_are_asked_for_where_the_caller_wants_them)
{
    struct driver d;
    driver_open(&d, "openai", "{\"input\":\"Hi\",\"voice\":\"a\",\"stream_format\":\"sse\"}", "");
    ck_assert_str_eq(driver_header(&d, "accept"), "text/event-stream");
    driver_close(&d);
    driver_open(&d, "openai", ASK, "");
    ck_assert_str_eq(driver_header(&d, "accept"), "application/octet-stream");
    driver_close(&d);
}
END_TEST

static const struct {
    const char *body, *params, *param, *message;
} refusals[] = {
    { "{\"input\":\"Hi\"}", "", "voice", "`voice` is missing, and this model has no default." },
    { "{\"input\":\"Hi\",\"voice\":\"a\",\"response_format\":\"amr\"}", "", "response_format",
      "`response_format`: this model offers mp3, opus, aac, flac, wav, pcm." },
};

START_TEST(what_it_cannot_do_is_said_before_anything_is_sent)
{
    struct driver d;
    driver_open(&d, "openai", refusals[_i].body, refusals[_i].params);
    ck_assert_msg(d.call == NULL, "%s was accepted", refusals[_i].body);
    ck_assert_str_eq(d.fault.param, refusals[_i].param);
    ck_assert_str_eq(d.fault.message, refusals[_i].message);
    driver_close(&d);
}
END_TEST

/* ---- replies ---- */

#define DELTA(base64) "data: {\"type\":\"speech.audio.delta\",\"audio\":\"" base64 "\"}\n\n"
#define STREAM_DONE                                                                             \
    "data: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":3,\"output_tokens\":40," \
    "\"total_tokens\":43}}\n\n"
#define EVENTS "text/event-stream; charset=utf-8"

static const struct {
    const char *what, *type, *body;
    enum adapter_step said;
    const char *audio, *why;
    long long output; /* tokens */
} replies[] = {
    { "audio as it is", "audio/mpeg", "ID3\x04sound", ADAPTER_DONE, "ID3\x04sound", NULL, -1 },
    { "audio without a type", "", "OggSsound", ADAPTER_DONE, "OggSsound", NULL, -1 },
    { "audio of no type", "application/octet-stream", "sound", ADAPTER_DONE, "sound", NULL, -1 },
    { "nothing", "audio/mpeg", "", ADAPTER_FAILED, "", "no_audio", -1 },
    { "nothing at all", "application/json", "", ADAPTER_FAILED, "", "no_audio", -1 },
    { "an error with a 200", "application/json", "{\"error\":{\"message\":\"no\"}}", ADAPTER_FAILED, "",
      "not_audio", -1 },
    { "an error that says it is audio", "audio/mpeg", "{\"error\":\"no\"}", ADAPTER_FAILED, "", "not_audio",
      -1 },
    { "a page", "text/html", "<html>", ADAPTER_FAILED, "", "not_audio", -1 },
    { "events", EVENTS, DELTA("SUQz") DELTA("c291bmQ=") STREAM_DONE, ADAPTER_DONE, "ID3sound", NULL, 40 },
    { "events with an escaped slash", EVENTS, DELTA("Pz8\\/") STREAM_DONE, ADAPTER_DONE, "???", NULL, 40 },
    { "events with comments and names", EVENTS,
      ": hi\r\n\r\nevent: speech.audio.delta\r\n" DELTA("SUQz") STREAM_DONE, ADAPTER_DONE, "ID3", NULL, 40 },
    { "events and a mark", EVENTS, DELTA("SUQz") "data: [DONE]\n\n", ADAPTER_DONE, "ID3", NULL, -1 },
    { "events that nobody knows", EVENTS, "data: {\"type\":\"speech.begin\"}\n\n" DELTA("SUQz") STREAM_DONE,
      ADAPTER_DONE, "ID3", NULL, 40 },
    { "events after the end", EVENTS, DELTA("SUQz") STREAM_DONE DELTA("SUQz"), ADAPTER_DONE, "ID3", NULL,
      40 },
    { "an end and no audio", EVENTS, STREAM_DONE, ADAPTER_FAILED, "", "no_audio", 40 },
    { "events without an end", EVENTS, DELTA("SUQz"), ADAPTER_FAILED, "ID3", "no_end", -1 },
    { "a last event without its blank line", EVENTS, DELTA("SUQz") "data: {\"type\":\"speech.audio.done\"}",
      ADAPTER_DONE, "ID3", NULL, -1 },
    { "an error event", EVENTS, DELTA("SUQz") "data: {\"type\":\"error\",\"error\":{\"message\":\"m\"}}\n\n",
      ADAPTER_FAILED, "ID3", "error_event", -1 },
    { "an error without a type", EVENTS, "data: {\"error\":{\"message\":\"m\"}}\n\n", ADAPTER_FAILED, "",
      "error_event", -1 },
    { "an event named error", EVENTS, "event: error\ndata: {\"message\":\"m\"}\n\n", ADAPTER_FAILED, "",
      "error_event", -1 },
    { "an event that is no JSON", EVENTS, "data: sorry\n\n", ADAPTER_FAILED, "", "error_event", -1 },
    { "bare JSON between events", EVENTS, "{\"error\":{\"message\":\"m\"}}\n\n", ADAPTER_FAILED, "",
      "error_event", -1 },
    { "audio that is no base64", EVENTS, DELTA("****"), ADAPTER_FAILED, "", "no_base64", -1 },
    { "audio that is no text", EVENTS, "data: {\"type\":\"speech.audio.delta\",\"audio\":7}\n\n",
      ADAPTER_FAILED, "", "no_base64", -1 },
};

START_TEST(a_reply_is_read_for_what_it_is_however_it_is_cut)
{
    struct span body = span_cstr(replies[_i].body);
    struct driver d;

    for (size_t step = 0; step <= body.len; step++) {
        driver_open(&d, "openai", ASK, "");
        enum adapter_step said = driver_reply(&d, replies[_i].type, body, step);
        ck_assert_msg(said == replies[_i].said && span_is(buf_span(&d.audio), replies[_i].audio),
                      "%s, %zu bytes at a time: %d, audio \"%.*s\"", replies[_i].what, step, said,
                      (int)d.audio.len, d.audio.len > 0 ? d.audio.data : "");
        if (replies[_i].why != NULL)
            ck_assert_msg(strcmp(d.call->why, replies[_i].why) == 0, "%s: %s", replies[_i].what, d.call->why);
        ck_assert_msg(d.call->usage.output == replies[_i].output, "%s: %lld tokens", replies[_i].what,
                      (long long)d.call->usage.output);
        driver_close(&d);
    }
}
END_TEST

START_TEST(samples_may_begin_like_json)
{
    struct driver d;
    driver_open(&d, "openai", "{\"input\":\"Hi\",\"voice\":\"a\",\"response_format\":\"pcm\"}", "");
    ck_assert_int_eq(driver_reply(&d, "audio/pcm", span_cstr("{samples"), 0), ADAPTER_DONE);
    ck_assert(span_is(buf_span(&d.audio), "{samples"));
    driver_close(&d);
}
END_TEST

START_TEST(a_sink_that_fails_ends_the_call)
{
    struct driver d;
    driver_open(&d, "openai", ASK, "");
    d.sink_result = -1;
    ck_assert_int_eq(driver_reply(&d, "audio/mpeg", span_cstr("sound"), 1), ADAPTER_LEFT);
    ck_assert_uint_eq(d.writes, 1);
    driver_close(&d);
}
END_TEST

START_TEST(what_says_a_failure_is_kept)
{
    static const char error[] = "{\"error\":{\"message\":\"no\",\"code\":\"insufficient_quota\"}}";
    struct driver d;
    driver_open(&d, "openai", ASK, "");
    driver_reply(&d, "application/json", span_cstr(error), 7);
    ck_assert(span_is(buf_span(&d.call->failure), error));
    driver_close(&d);
}
END_TEST

/* ---- failures ---- */

static const struct {
    int status;
    const char *body;
    enum adapter_class class;
    bool is_doubtful;
    const char *rule, *code, *param;
} failures[] = {
    { 401, "", ADAPTER_AUTH, false, "status", "", NULL },
    { 401, "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"code\":\"invalid_api_key\"}}",
      ADAPTER_AUTH, false, "code:invalid_api_key", "invalid_api_key", NULL },
    { 429, "{\"error\":{\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}", ADAPTER_QUOTA,
      false, "code:insufficient_quota", "insufficient_quota", NULL },
    { 429, "{\"error\":{\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}", ADAPTER_RATE, false,
      "code:rate_limit_exceeded", "rate_limit_exceeded", NULL },
    { 429, "busy", ADAPTER_RATE, false, "status", "", NULL },
    { 400, "{\"error\":{\"type\":\"invalid_request_error\",\"param\":\"voice\",\"code\":null}}",
      ADAPTER_CLIENT, false, "status", "invalid_request_error", "voice" },
    { 400, "{\"error\":{\"code\":\"invalid_api_key\"}}", ADAPTER_AUTH, false, "code:invalid_api_key",
      "invalid_api_key", NULL },
    { 422, "{\"detail\":\"no\"}", ADAPTER_CLIENT, false, "status", "", NULL },
    { 404, "{\"error\":{\"code\":\"model_not_found\"}}", ADAPTER_CLIENT, true, "status", "model_not_found",
      NULL },
    { 408, "", ADAPTER_SERVER, false, "status", "", NULL },
    { 409, "", ADAPTER_SERVER, false, "status", "", NULL },
    { 500, "{\"error\":{\"type\":\"server_error\"}}", ADAPTER_SERVER, false, "code:server_error",
      "server_error", NULL },
    { 503, "", ADAPTER_UNKNOWN, false, NULL, "", NULL },
    { 403, "", ADAPTER_UNKNOWN, false, NULL, "", NULL },
    { 200, "{\"error\":{\"param\":\"n\",\"code\":\"insufficient_quota\"}}", ADAPTER_QUOTA, false,
      "code:insufficient_quota", "insufficient_quota", NULL },
    { 400, "{\"error\":{\"code\":\"invalid_api_key\",\"message\":\"cut of", ADAPTER_AUTH, false,
      "code:invalid_api_key", "invalid_api_key", NULL },
};

START_TEST(a_failure_is_classified_by_its_token_and_then_by_its_status)
{
    struct arena *arena = arena_new();
    const struct adapter_failure failure = { .status = failures[_i].status,
                                             .body = span_cstr(failures[_i].body) };
    struct adapter_opinion o;

    adapter_classify(adapter_find(span_cstr("openai")), &failure, arena, &o);
    ck_assert_msg(o.class == failures[_i].class && o.is_doubtful == failures[_i].is_doubtful,
                  "%d %s: class %d, doubtful %d", failures[_i].status, failures[_i].body, o.class,
                  o.is_doubtful);
    ck_assert_pstr_eq(o.rule, failures[_i].rule);
    ck_assert_msg(span_is(o.code, failures[_i].code), "%s: %.*s", failures[_i].body, (int)o.code.len,
                  o.code.ptr);
    ck_assert_pstr_eq(o.param, failures[_i].param);
    arena_free(arena);
}
END_TEST

START_TEST(without_base_url_it_is_openai_itself_and_has_no_region)
{
    struct arena *arena = arena_new();
    const struct adapter *openai = adapter_find(span_cstr("openai"));
    struct adapter_fault fault;

    ck_assert_str_eq(adapter_endpoint(openai, span_of("", 0), span_of("", 0), span_of("", 0), arena, &fault),
                     "https://api.openai.com/v1/audio/speech");
    ck_assert_ptr_null(
        adapter_endpoint(openai, span_of("", 0), span_cstr("eu"), span_of("", 0), arena, &fault));
    ck_assert_str_eq(fault.param, "region");
    arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adapter openai");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, the_callers_body_goes_on_as_it_was_written, 0, (int)COUNT(requests));
    tcase_add_test(tcase, events_are_asked_for_where_the_caller_wants_them);
    tcase_add_loop_test(tcase, what_it_cannot_do_is_said_before_anything_is_sent, 0, (int)COUNT(refusals));
    tcase_add_loop_test(tcase, a_reply_is_read_for_what_it_is_however_it_is_cut, 0, (int)COUNT(replies));
    tcase_add_test(tcase, samples_may_begin_like_json);
    tcase_add_test(tcase, a_sink_that_fails_ends_the_call);
    tcase_add_test(tcase, what_says_a_failure_is_kept);
    tcase_add_loop_test(tcase, a_failure_is_classified_by_its_token_and_then_by_its_status, 0,
                        (int)COUNT(failures));
    tcase_add_test(tcase, without_base_url_it_is_openai_itself_and_has_no_region);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
