/* The azure adapter: the SSML it writes, what it refuses to, and what it makes of replies. */
#include "adapters/azure_formats.h"
#include "tests/unit/adapter_driver.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define XMLNS "<speak version=\"1.0\" xmlns=\"http://www.w3.org/2001/10/synthesis\""
#define AVA XMLNS " xml:lang=\"en-US\"><voice name=\"en-US-AvaNeural\">"
#define END "</voice></speak>"
#define ASK(more) "{\"input\":\"Hi\",\"voice\":\"en-US-AvaNeural\"" more "}"
#define MP3 "audio-24khz-96kbitrate-mono-mp3"

static const struct {
    const char *body, *params, *ssml, *format;
} requests[] = {
    { ASK(""), "", AVA "Hi" END, MP3 },
    { ASK(",\"response_format\":\"opus\""), "", AVA "Hi" END, "ogg-24khz-16bit-mono-opus" },
    { ASK(",\"response_format\":\"wav\""), "", AVA "Hi" END, "riff-24khz-16bit-mono-pcm" },
    { ASK(",\"response_format\":\"pcm\""), "", AVA "Hi" END, "raw-24khz-16bit-mono-pcm" },
    { ASK(",\"response_format\":\"webm-24khz-16bit-mono-opus\""), "", AVA "Hi" END,
      "webm-24khz-16bit-mono-opus" },
    /* an operator's format is one of its kind */
    { ASK(""), "{\"outputFormat\":\"audio-48khz-192kbitrate-mono-mp3\"}", AVA "Hi" END,
      "audio-48khz-192kbitrate-mono-mp3" },
    { ASK(",\"response_format\":\"mp3\""), "{\"outputFormat\":\"audio-48khz-192kbitrate-mono-mp3\"}",
      AVA "Hi" END, "audio-48khz-192kbitrate-mono-mp3" },
    { ASK(",\"response_format\":\"wav\""), "{\"outputFormat\":\"audio-48khz-192kbitrate-mono-mp3\"}",
      AVA "Hi" END, "riff-24khz-16bit-mono-pcm" },
    { ASK(",\"response_format\":\"" MP3 "\""), "{\"outputFormat\":\"audio-48khz-192kbitrate-mono-mp3\"}",
      AVA "Hi" END, MP3 },
    /* speed, clamped as the service would */
    { ASK(",\"speed\":1"), "", AVA "Hi" END, MP3 },
    { ASK(",\"speed\":1.2"), "", AVA "<prosody rate=\"+20%\">Hi</prosody>" END, MP3 },
    { ASK(",\"speed\":0.25"), "", AVA "<prosody rate=\"-50%\">Hi</prosody>" END, MP3 },
    { ASK(",\"speed\":4"), "", AVA "<prosody rate=\"+100%\">Hi</prosody>" END, MP3 },
    { ASK(",\"speed\":2"), "{\"rate\":\"slow\"}", AVA "<prosody rate=\"+100%\">Hi</prosody>" END, MP3 },
    { ASK(""), "{\"rate\":\"slow\",\"pitch\":\"low\",\"volume\":\"80\"}",
      AVA "<prosody rate=\"slow\" pitch=\"low\" volume=\"80\">Hi</prosody>" END, MP3 },
    { ASK(",\"extra_body\":{\"pitch\":\"+2st\",\"volume\":\"-10.5%\"}"), "{\"pitch\":\"low\"}",
      AVA "<prosody pitch=\"+2st\" volume=\"-10.5%\">Hi</prosody>" END, MP3 },
    { ASK(",\"extra_body\":{\"style\":\"cheerful\",\"styleDegree\":1.5,\"role\":\"Girl\"}"), "",
      XMLNS
      " xmlns:mstts=\"https://www.w3.org/2001/mstts\" xml:lang=\"en-US\"><voice name=\"en-US-AvaNeural\">"
      "<mstts:express-as style=\"cheerful\" styledegree=\"1.5\" role=\"Girl\">Hi</mstts:express-as>" END,
      MP3 },
    /* an operator's degree without a style says nothing */
    { ASK(""), "{\"styleDegree\":0.5}", AVA "Hi" END, MP3 },
    /* the language */
    { "{\"input\":\"Hi\",\"voice\":\"zh-CN-liaoning-XiaobeiNeural\"}", "",
      XMLNS " xml:lang=\"zh-CN-liaoning\"><voice name=\"zh-CN-liaoning-XiaobeiNeural\">Hi" END, MP3 },
    { "{\"input\":\"Hi\",\"voice\":\"en-US-Ava:DragonHDLatestNeural\"}", "",
      XMLNS " xml:lang=\"en-US\"><voice name=\"en-US-Ava:DragonHDLatestNeural\">Hi" END, MP3 },
    { "{\"input\":\"Hi\",\"voice\":\"OurVoice\"}", "",
      XMLNS " xml:lang=\"en-US\"><voice name=\"OurVoice\">Hi" END, MP3 },
    { ASK(",\"extra_body\":{\"locale\":\"fr-FR\"}"), "{\"locale\":\"de-DE\"}",
      XMLNS " xml:lang=\"fr-FR\"><voice name=\"en-US-AvaNeural\">Hi" END, MP3 },
    { "{\"input\":\"Hi\"}", "{\"defaultVoice\":\"en-US-AvaNeural\"}", AVA "Hi" END, MP3 },
    /* texts */
    { "{\"voice\":\"en-US-AvaNeural\",\"input\":\"a<b>&\\\"'</voice>\"}", "",
      AVA "a&lt;b&gt;&amp;&quot;&apos;&lt;/voice&gt;" END, MP3 },
    { "{\"voice\":\"en-US-AvaNeural\",\"input\":\"\\u0000x\\u0008\\ufffe\\ud83d \\ud83d\\ude00\"}", "",
      AVA "x\uFFFD \U0001F600" END, MP3 },
    /* SSML that the caller wrote */
    { "{\"voice\":\"v\",\"input\":\"<speak>&amp;</speak>\",\"extra_body\":{\"disableSsml\":true}}", "",
      "<speak>&amp;</speak>", MP3 },
    { "{\"voice\":\"v\",\"input\":\"<speak/>\"}", "{\"disableSsml\":true,\"rate\":\"slow\"}", "<speak/>",
      MP3 },
    { ASK(",\"extra_body\":{\"disableSsml\":false}"), "{\"disableSsml\":true}", AVA "Hi" END, MP3 },
};

START_TEST(a_request_becomes_ssml)
{
    struct driver d;
    driver_open(&d, "azure", requests[_i].body, requests[_i].params);
    ck_assert_msg(d.call != NULL, "%s %s: refused: %s", requests[_i].body, requests[_i].params,
                  d.fault.message);
    ck_assert_str_eq(driver_body(&d), requests[_i].ssml);
    ck_assert_str_eq(driver_header(&d, "x-microsoft-outputformat"), requests[_i].format);
    ck_assert_str_eq(driver_header(&d, "content-type"), "application/ssml+xml");
    ck_assert_str_eq(d.exchange.key_header, "Ocp-Apim-Subscription-Key: {KEY}");
    ck_assert_str_eq(d.exchange.url, "https://upstream.test/speech");
    driver_close(&d);
}
END_TEST

static const struct {
    const char *body, *params, *param;
} refusals[] = {
    { ASK(",\"response_format\":\"aac\""), "", "response_format" },
    { ASK(",\"response_format\":\"flac\""), "", "response_format" },
    { ASK(",\"response_format\":\"audio-24khz-97kbitrate-mono-mp3\""), "", "response_format" },
    { ASK(",\"instructions\":\"whisper\""), "", "instructions" },
    { "{\"input\":\"Hi\"}", "", "voice" },
    { "{\"input\":\"Hi\",\"voice\":{\"id\":\"a&b\"}}", "", "voice" },
    { "{\"input\":\"Hi\",\"voice\":\"a\\\"/><audio src='x\"}", "", "voice" },
    { "{\"input\":\"Hi\",\"voice\":\"a&b\"}", "", "voice" },
    { "{\"input\":\"Hi\",\"voice\":\"\\u6653\\u6653\"}", "", "voice" },
    { "{\"input\":\" \\n\\t \",\"voice\":\"v\"}", "", "input" },
    { "{\"input\":\"\\u0001\\u0000\\uffff\",\"voice\":\"v\"}", "", "input" },
    { ASK(",\"speed\":2,\"extra_body\":{\"rate\":\"slow\"}"), "", "extra_body.rate" },
    { ASK(",\"extra_body\":{\"rate\":\"quick\"}"), "", "extra_body.rate" },
    { ASK(",\"extra_body\":{\"rate\":\"+20%\\\"/>\"}"), "", "extra_body.rate" },
    { ASK(",\"extra_body\":{\"rate\":\"20Hz\"}"), "", "extra_body.rate" },
    { ASK(",\"extra_body\":{\"rate\":\"+\"}"), "", "extra_body.rate" },
    { ASK(",\"extra_body\":{\"rate\":\"1.\"}"), "", "extra_body.rate" },
    { ASK(",\"extra_body\":{\"rate\":1.5}"), "", "extra_body.rate" },
    { ASK(",\"extra_body\":{\"pitch\":\"20\"}"), "", "extra_body.pitch" },
    { ASK(",\"extra_body\":{\"pitch\":\"loud\"}"), "", "extra_body.pitch" },
    { ASK(",\"extra_body\":{\"volume\":\"2st\"}"), "", "extra_body.volume" },
    { ASK(",\"extra_body\":{\"style\":\"a\\\" b=\\\"\"}"), "", "extra_body.style" },
    { ASK(",\"extra_body\":{\"styleDegree\":1}"), "", "extra_body.styleDegree" },
    { ASK(",\"extra_body\":{\"style\":\"sad\",\"styleDegree\":2.1}"), "", "extra_body.styleDegree" },
    { ASK(",\"extra_body\":{\"role\":\"King\"}"), "", "extra_body.role" },
    { ASK(",\"extra_body\":{\"outputFormat\":\"" MP3 "\"}"), "", "extra_body.outputFormat" },
    { ASK(",\"extra_body\":{\"disableSsml\":true}"), "", "input" },
    { "{\"input\":\"<speak/>\",\"voice\":\"v\",\"speed\":2,\"extra_body\":{\"disableSsml\":true}}", "",
      "speed" },
    { "{\"input\":\"<speak/>\",\"voice\":\"v\",\"extra_body\":{\"disableSsml\":true,\"role\":\"Boy\"}}", "",
      "extra_body.role" },
    { ASK(",\"extra_body\":{\"bit_rate\":32}"), "", "extra_body.bit_rate" }, /* another provider's */
};

START_TEST(what_it_cannot_do_is_said_and_nothing_is_dropped)
{
    struct driver d;
    driver_open(&d, "azure", refusals[_i].body, refusals[_i].params);
    ck_assert_msg(d.call == NULL, "%s was accepted", refusals[_i].body);
    ck_assert_str_eq(d.fault.param, refusals[_i].param);
    driver_close(&d);
}
END_TEST

START_TEST(a_refused_format_names_the_common_ones)
{
    struct driver d;
    driver_open(&d, "azure", ASK(",\"response_format\":\"aac\""), "");
    ck_assert_str_eq(d.fault.message, "`response_format`: this model offers mp3, opus, wav, pcm.");
    driver_close(&d);
}
END_TEST

START_TEST(every_documented_format_is_asked_for_by_its_name)
{
    const char *name = azure_format_names[_i];
    struct arena *arena = arena_new();
    struct driver d;
    driver_open(&d, "azure", arena_printf(arena, ASK(",\"response_format\":\"%s\""), name), "");
    ck_assert_msg(d.call != NULL, "%s was refused", name);
    ck_assert_str_eq(driver_header(&d, "x-microsoft-outputformat"), name);
    /* Bytes that might be anything do not change what bare samples are. */
    const char *type = adapter_call_type(d.call, span_cstr("\xFF\xFB\x01\x02"));
    bool is_bare = strncmp(name, "raw-", 4) == 0 && strstr(name, "silk") == NULL;
    ck_assert_msg(is_bare ? strcmp(type, "audio/mpeg") != 0 : strncmp(type, "audio/", 6) == 0, "%s: %s", name,
                  type);
    driver_close(&d);
    arena_free(arena);
}
END_TEST

START_TEST(a_text_of_the_greatest_length_is_one_document)
{
    struct buf body;
    struct driver d;
    buf_init(&body, 1 << 20);
    buf_append_cstr(&body, "{\"voice\":\"zh-CN-XiaoxiaoNeural\",\"input\":\"");
    for (int i = 0; i < 4096; i++)
        buf_append_cstr(&body, _i == 0 ? "字" : _i == 1 ? "\U0001F600" : "\\u0026");
    buf_append(&body, "\"}", 3);
    driver_open(&d, "azure", body.data, "");
    ck_assert(d.call != NULL);
    const char *ssml = driver_body(&d);
    size_t per_character = _i == 0 ? 3 : _i == 1 ? 4 : 5;
    ck_assert_uint_eq(strlen(ssml),
                      strlen(XMLNS " xml:lang=\"zh-CN\"><voice name=\"zh-CN-XiaoxiaoNeural\">" END) +
                          4096 * per_character);
    driver_close(&d);
    buf_free(&body);
}
END_TEST

static const struct {
    const char *what, *type, *body;
    enum adapter_step said;
    const char *why;
} replies[] = {
    { "audio", "audio/mpeg", "ID3\x04sound", ADAPTER_DONE, NULL },
    { "audio of no type", "", "sound", ADAPTER_DONE, NULL },
    { "nothing", "audio/mpeg", "", ADAPTER_FAILED, "no_audio" },
    { "JSON", "application/json; charset=utf-8", "{\"error\":{}}", ADAPTER_FAILED, "not_audio" },
    { "a page", "text/html", "<html>", ADAPTER_FAILED, "not_audio" },
};

START_TEST(audio_passes_as_it_comes_and_nothing_else_does)
{
    struct span body = span_cstr(replies[_i].body);
    for (size_t step = 0; step <= body.len; step++) {
        struct driver d;
        driver_open(&d, "azure", ASK(""), "");
        enum adapter_step said = driver_reply(&d, replies[_i].type, body, step);
        ck_assert_msg(said == replies[_i].said, "%s: %d", replies[_i].what, said);
        ck_assert_pstr_eq(d.call->why, replies[_i].why);
        ck_assert(span_eq(buf_span(&d.audio), said == ADAPTER_DONE ? body : span_of(NULL, 0)));
        driver_close(&d);
    }
}
END_TEST

static const struct {
    const char *base_url, *region, *params, *url, *param;
} sites[] = {
    { "", "eastus", "", "https://eastus.tts.speech.microsoft.com/cognitiveservices/v1", NULL },
    { "", "chinaeast2", "", "https://chinaeast2.tts.speech.azure.cn/cognitiveservices/v1", NULL },
    { "", "usgovvirginia", "", "https://usgovvirginia.tts.speech.azure.us/cognitiveservices/v1", NULL },
    { "", "eastus", "{\"deploymentId\":\"a1-B2\"}",
      "https://eastus.tts.speech.microsoft.com/cognitiveservices/v1?deploymentId=a1-B2", NULL },
    { "https://h/x?y", "", "", "https://h/x?y", NULL },
    { "", "", "", NULL, "region" },
    { "", "evil.test/", "", NULL, "region" },
    { "", "a@b", "", NULL, "region" },
    { "", "eastus", "{\"deploymentId\":\"a&b\"}", NULL, "adapterParams.deploymentId" },
    { "https://h/x", "", "{\"deploymentId\":\"a\"}", NULL, "adapterParams.deploymentId" },
    { "", "eastus", "{\"pitch\":\"+2st\"}", "https://eastus.tts.speech.microsoft.com/cognitiveservices/v1",
      NULL },
    { "", "eastus", "{\"pitch\":\"deep\"}", NULL, "adapterParams.pitch" },
    { "https://h/x", "", "{\"rate\":\"20Hz\"}", NULL, "adapterParams.rate" },
};

START_TEST(a_region_says_where_it_is)
{
    struct arena *arena = arena_new();
    struct adapter_fault fault = { NULL, NULL };
    const char *url =
        adapter_endpoint(adapter_find(span_cstr("azure")), span_cstr(sites[_i].base_url),
                         span_cstr(sites[_i].region), span_cstr(sites[_i].params), arena, &fault);
    ck_assert_pstr_eq(url, sites[_i].url);
    ck_assert_pstr_eq(fault.param, sites[_i].param);
    arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adapter azure");
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, a_request_becomes_ssml, 0, (int)COUNT(requests));
    tcase_add_loop_test(tcase, what_it_cannot_do_is_said_and_nothing_is_dropped, 0, (int)COUNT(refusals));
    tcase_add_test(tcase, a_refused_format_names_the_common_ones);
    tcase_add_loop_test(tcase, every_documented_format_is_asked_for_by_its_name, 0,
                        AZURE_FORMATS_COUNT - AZURE_COMMON_FORMATS_COUNT);
    tcase_add_loop_test(tcase, a_text_of_the_greatest_length_is_one_document, 0, 3);
    tcase_add_loop_test(tcase, audio_passes_as_it_comes_and_nothing_else_does, 0, (int)COUNT(replies));
    tcase_add_loop_test(tcase, a_region_says_where_it_is, 0, (int)COUNT(sites));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
