/* The elevenlabs adapter. */
#include "tests/unit/adapter_driver.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ASK(more) "{\"input\":\"Hi\",\"voice\":\"21m00Tcm\"" more "}"
#define MODEL "{\"model\":\"eleven_v3\"}"

static const struct {
    const char *body, *params, *sent, *format;
} requests[] = {
    { ASK(""), MODEL, "{\"text\":\"Hi\",\"model_id\":\"eleven_v3\"}", "mp3_44100_128" },
    { ASK(",\"response_format\":\"opus\""), "", "{\"text\":\"Hi\",\"model_id\":\"asked\"}", "opus_48000_64" },
    { ASK(",\"response_format\":\"pcm\""), MODEL, "{\"text\":\"Hi\",\"model_id\":\"eleven_v3\"}",
      "pcm_24000" },
    { ASK(",\"response_format\":\"wav\""), MODEL, "{\"text\":\"Hi\",\"model_id\":\"eleven_v3\"}",
      "pcm_24000" },
    { ASK(",\"speed\":1.1"), MODEL,
      "{\"text\":\"Hi\",\"model_id\":\"eleven_v3\",\"voice_settings\":{\"speed\":1.1}}", "mp3_44100_128" },
    { ASK(",\"speed\":4"), MODEL,
      "{\"text\":\"Hi\",\"model_id\":\"eleven_v3\",\"voice_settings\":{\"speed\":1.2}}", "mp3_44100_128" },
    { ASK(",\"speed\":0.25"), MODEL,
      "{\"text\":\"Hi\",\"model_id\":\"eleven_v3\",\"voice_settings\":{\"speed\":0.7}}", "mp3_44100_128" },
    { ASK(",\"extra_body\":{\"stability\":0.5,\"similarity_boost\":1,\"style\":0,\"use_speaker_boost\":false,"
          "\"language_code\":\"en\",\"seed\":4294967295}"),
      MODEL,
      "{\"text\":\"Hi\",\"model_id\":\"eleven_v3\",\"voice_settings\":{\"stability\":0.5,\"similarity_"
      "boost\":1,"
      "\"style\":0,\"use_speaker_boost\":false},\"language_code\":\"en\",\"seed\":4294967295}",
      "mp3_44100_128" },
    { "{\"voice\":\"21m00Tcm\",\"input\":\"\\\"},\\\"x\\\":{\\u0000\"}", MODEL,
      "{\"text\":\"\\\"},\\\"x\\\":{\\u0000\",\"model_id\":\"eleven_v3\"}", "mp3_44100_128" },
};

START_TEST(the_voice_stands_in_the_path_and_the_format_in_the_query)
{
    struct driver d;
    driver_open(&d, "elevenlabs", requests[_i].body, requests[_i].params);
    ck_assert_msg(d.call != NULL, "%s: refused: %s", requests[_i].body, d.fault.message);
    ck_assert_str_eq(driver_body(&d), requests[_i].sent);
    ck_assert_str_eq(d.exchange.url,
                     arena_printf(d.arena, "https://upstream.test/speech/21m00Tcm/stream?output_format=%s",
                                  requests[_i].format));
    ck_assert_str_eq(d.exchange.key_header, "xi-api-key: {KEY}");
    driver_close(&d);
}
END_TEST

static const struct {
    const char *body, *param;
} refusals[] = {
    { ASK(",\"response_format\":\"aac\""), "response_format" },
    { ASK(",\"instructions\":\"x\""), "instructions" },
    { "{\"input\":\"Hi\"}", "voice" },
    { "{\"input\":\"Hi\",\"voice\":\"../v1/models\"}", "voice" },
    { "{\"input\":\"Hi\",\"voice\":\"a?b\"}", "voice" },
    { "{\"input\":\"Hi\",\"voice\":\"a b\"}", "voice" },
    { ASK(",\"extra_body\":{\"stability\":1.1}"), "extra_body.stability" },
    { ASK(",\"extra_body\":{\"seed\":4294967296}"), "extra_body.seed" },
};

START_TEST(what_it_cannot_do_is_said)
{
    struct driver d;
    driver_open(&d, "elevenlabs", refusals[_i].body, MODEL);
    ck_assert_msg(d.call == NULL, "%s was accepted", refusals[_i].body);
    ck_assert_str_eq(d.fault.param, refusals[_i].param);
    driver_close(&d);
}
END_TEST

START_TEST(audio_passes_as_it_comes_and_nothing_else_does)
{
    static const struct {
        const char *type, *body, *why;
    } rows[] = { { "audio/mpeg", "sound", NULL },
                 { "audio/mpeg", "", "no_audio" },
                 { "application/json", "{}", "not_audio" },
                 { "text/html", "<html>", "not_audio" } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct driver d;
        driver_open(&d, "elevenlabs", ASK(""), MODEL);
        ck_assert_int_eq(driver_reply(&d, rows[i].type, span_cstr(rows[i].body), 1),
                         rows[i].why == NULL ? ADAPTER_DONE : ADAPTER_FAILED);
        ck_assert_pstr_eq(d.call->why, rows[i].why);
        ck_assert(span_is(buf_span(&d.audio), rows[i].why == NULL ? rows[i].body : ""));
        driver_close(&d);
    }
}
END_TEST

START_TEST(wav_is_made_of_samples)
{
    struct driver d;
    driver_open(&d, "elevenlabs", ASK(",\"response_format\":\"wav\""), MODEL);
    ck_assert_int_eq(driver_reply(&d, "audio/pcm", span_cstr("samples!"), 3), ADAPTER_DONE);
    ck_assert(d.audio.len == 52 && memcmp(d.audio.data, "RIFF", 4) == 0 &&
              memcmp(d.audio.data + 44, "samples!", 8) == 0);
    driver_close(&d);
}
END_TEST

START_TEST(it_has_one_place_and_no_regions)
{
    struct arena *arena = arena_new();
    const struct adapter *adapter = adapter_find(span_cstr("elevenlabs"));
    struct span none = span_of(NULL, 0);
    struct adapter_fault fault = { NULL, NULL };
    ck_assert_pstr_eq(adapter_endpoint(adapter, none, none, none, arena, &fault),
                      "https://api.elevenlabs.io/v1/text-to-speech");
    ck_assert_pstr_eq(adapter_endpoint(adapter, span_cstr("https://h/x"), none, none, arena, &fault),
                      "https://h/x");
    ck_assert_ptr_null(adapter_endpoint(adapter, none, span_cstr("eu"), none, arena, &fault));
    ck_assert_pstr_eq(fault.param, "region");
    arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adapter elevenlabs");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, the_voice_stands_in_the_path_and_the_format_in_the_query, 0,
                        (int)COUNT(requests));
    tcase_add_loop_test(tcase, what_it_cannot_do_is_said, 0, (int)COUNT(refusals));
    tcase_add_test(tcase, audio_passes_as_it_comes_and_nothing_else_does);
    tcase_add_test(tcase, wav_is_made_of_samples);
    tcase_add_test(tcase, it_has_one_place_and_no_regions);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
