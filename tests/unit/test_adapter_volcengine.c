/* The volcengine adapter, in both of its protocols. */
#include "tests/unit/adapter_driver.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ASK(more) "{\"input\":\"Hi\",\"voice\":\"BV001_streaming\"" more "}"
#define ASK_BIG(more) "{\"input\":\"Hi\",\"voice\":\"zh_female_x_moon_bigtts\"" more "}"
#define V1 "{\"appid\":\"42\"}"
#define V1_AND(more) "{\"appid\":\"42\"," more "}"
#define V3 "{\"api\":\"v3\"}"
#define V3_AND(more) "{\"api\":\"v3\"," more "}"
#define ID "0123456789abcdef0123456789abcdef"

/* ---- v1: requests ---- */

#define APP(cluster)                                                                \
    "{\"app\":{\"appid\":\"42\",\"token\":\"in-the-header\",\"cluster\":\"" cluster \
    "\"},\"user\":{\"uid\":\"llm-router\"},"
#define AUDIO(voice, encoding, more) \
    "\"audio\":{\"voice_type\":\"" voice "\",\"encoding\":\"" encoding "\",\"rate\":" more "},"
#define REQUEST(text, more) \
    "\"request\":{\"reqid\":\"" ID "-0\",\"text\":\"" text "\",\"operation\":\"query\"" more "}}"
#define BV "BV001_streaming"

static const struct {
    const char *body, *params, *sent;
} v1_requests[] = {
    { ASK(""), V1, APP("volcano_tts") AUDIO(BV, "mp3", "24000") REQUEST("Hi", "") },
    { ASK(",\"response_format\":\"opus\""), V1,
      APP("volcano_tts") AUDIO(BV, "ogg_opus", "24000") REQUEST("Hi", "") },
    { ASK(",\"response_format\":\"wav\""), V1,
      APP("volcano_tts") AUDIO(BV, "wav", "24000") REQUEST("Hi", "") },
    { ASK(",\"response_format\":\"pcm\""), V1,
      APP("volcano_tts") AUDIO(BV, "pcm", "24000") REQUEST("Hi", "") },
    { ASK(""), V1_AND("\"cluster\":\"volcano_icl\",\"api\":\"v1\""),
      APP("volcano_icl") AUDIO(BV, "mp3", "24000") REQUEST("Hi", "") },
    /* how fast, of old voices and of new ones */
    { ASK(",\"speed\":0.25"), V1,
      APP("volcano_tts") AUDIO(BV, "mp3", "24000,\"speed_ratio\":0.25") REQUEST("Hi", "") },
    { ASK(",\"speed\":4"), V1,
      APP("volcano_tts") AUDIO(BV, "mp3", "24000,\"speed_ratio\":3") REQUEST("Hi", "") },
    { ASK_BIG(",\"speed\":0.25"), V1,
      APP("volcano_tts") AUDIO("zh_female_x_moon_bigtts", "mp3", "24000,\"speed_ratio\":0.8")
          REQUEST("Hi", "") },
    { ASK_BIG(",\"speed\":4"), V1,
      APP("volcano_tts") AUDIO("zh_female_x_moon_bigtts", "mp3", "24000,\"speed_ratio\":2")
          REQUEST("Hi", "") },
    { ASK(",\"extra_body\":{\"sample_rate\":16000,\"bit_rate\":128,\"emotion\":\"happy\",\"emotion_scale\":4,"
          "\"enable_emotion\":true,\"language\":\"cn\",\"explicit_language\":\"zh\",\"context_language\":"
          "\"id\","
          "\"loudness_ratio\":1.5,\"volume_ratio\":2,\"pitch_ratio\":0.5,\"silence_duration\":100,"
          "\"text_type\":\"ssml\",\"extra_param\":{\"cache_config\":{\"text_type\":1}}}"),
      V1,
      APP("volcano_tts") AUDIO(
          BV, "mp3",
          "16000,\"bitrate\":128,\"emotion\":\"happy\",\"emotion_scale\":4,\"enable_emotion\":true,"
          "\"language\":\"cn\","
          "\"explicit_language\":\"zh\",\"context_language\":\"id\",\"loudness_ratio\":1.5,\"volume_ratio\":"
          "2,"
          "\"pitch_ratio\":0.5") "\"request\":{\"reqid\":\"" ID "-0\",\"text\":\"Hi\",\"text_type\":\"ssml\","
                                 "\"operation\":\"query\",\"silence_duration\":100,"
                                 "\"extra_param\":\"{\\\"cache_config\\\":{\\\"text_type\\\":1}}\"}}" },
    /* an operator's bit rate is for mp3 only */
    { ASK(",\"response_format\":\"pcm\""), V1_AND("\"bit_rate\":64"),
      APP("volcano_tts") AUDIO(BV, "pcm", "24000") REQUEST("Hi", "") },
    /* a text that would like to be JSON */
    { "{\"voice\":\"BV001_streaming\",\"input\":\"\\\"},\\\"app\\\":{\\u0000\\ud83d\\n\"}", V1,
      APP("volcano_tts") AUDIO(BV, "mp3", "24000") REQUEST("\\\"},\\\"app\\\":{\\u0000\uFFFD\\n", "") },
    /* nothing to read: for the provider to refuse */
    { "{\"voice\":\"BV001_streaming\",\"input\":\"?!\"}", V1,
      APP("volcano_tts") AUDIO(BV, "mp3", "24000") REQUEST("?!", "") },
};

START_TEST(v1_has_its_own_names_for_everything)
{
    struct driver d;
    driver_open(&d, "volcengine", v1_requests[_i].body, v1_requests[_i].params);
    ck_assert_msg(d.call != NULL, "%s: refused: %s", v1_requests[_i].body, d.fault.message);
    ck_assert_str_eq(driver_body(&d), v1_requests[_i].sent);
    ck_assert_str_eq(d.exchange.key_header, "Authorization: Bearer;{KEY}");
    driver_close(&d);
}
END_TEST

/* ---- v3: requests ---- */

#define V3_BODY(speaker, format, more, additions)                                               \
    "{\"user\":{\"uid\":\"llm-router\"},\"req_params\":{\"text\":\"Hi\",\"speaker\":\"" speaker \
    "\",\"audio_params\":{\"format\":\"" format "\",\"sample_rate\":" more "}" additions "}}"

static const struct {
    const char *body, *params, *sent, *resource;
} v3_requests[] = {
    { ASK(""), V3, V3_BODY(BV, "mp3", "24000", ""), "seed-tts-1.0" },
    { ASK(",\"response_format\":\"opus\""), V3, V3_BODY(BV, "ogg_opus", "24000", ""), "seed-tts-1.0" },
    { ASK(",\"response_format\":\"pcm\""), V3, V3_BODY(BV, "pcm", "24000", ""), "seed-tts-1.0" },
    { ASK(",\"response_format\":\"wav\""), V3, V3_BODY(BV, "pcm", "24000", ""), "seed-tts-1.0" },
    { ASK(",\"speed\":4"), V3, V3_BODY(BV, "mp3", "24000,\"speech_rate\":100", ""), "seed-tts-1.0" },
    { ASK(",\"speed\":0.25"), V3, V3_BODY(BV, "mp3", "24000,\"speech_rate\":-50", ""), "seed-tts-1.0" },
    { ASK(",\"speed\":1.155"), V3, V3_BODY(BV, "mp3", "24000,\"speech_rate\":16", ""), "seed-tts-1.0" },
    { ASK(",\"speed\":0.845"), V3, V3_BODY(BV, "mp3", "24000,\"speech_rate\":-16", ""), "seed-tts-1.0" },
    { ASK(",\"extra_body\":{\"sample_rate\":48000,\"bit_rate\":96,\"loudness_rate\":-20,\"emotion\":\"sad\","
          "\"emotion_scale\":2}"),
      V3,
      V3_BODY(BV, "mp3",
              "48000,\"bit_rate\":96,\"loudness_rate\":-20,\"emotion\":\"sad\",\"emotion_scale\":2", ""),
      "seed-tts-1.0" },
    { ASK(",\"extra_body\":{\"pitch\":-3,\"additions\":{\"a\\\"b\":[1,{\"c\":\"\\u0041\"}]}}"), V3,
      V3_BODY(BV, "mp3", "24000",
              ",\"additions\":\"{\\\"a\\\\\\\"b\\\":[1,{\\\"c\\\":\\\"\\\\u0041\\\"}],\\\"post_process\\\":{"
              "\\\"pitch\\\":-3}}\""),
      "seed-tts-1.0" },
    { ASK(""), V3_AND("\"resourceId\":\"seed-icl-2.0\""), V3_BODY(BV, "mp3", "24000", ""), "seed-icl-2.0" },
    { "{\"input\":\"Hi\",\"voice\":\"zh_female_vv_uranus_bigtts\"}", V3,
      V3_BODY("zh_female_vv_uranus_bigtts", "mp3", "24000", ""), "seed-tts-2.0" },
    { "{\"input\":\"Hi\",\"voice\":\"saturn_zh_female_x\"}", V3,
      V3_BODY("saturn_zh_female_x", "mp3", "24000", ""), "seed-tts-2.0" },
    { "{\"input\":\"Hi\",\"voice\":\"S_abc\"}", V3, V3_BODY("S_abc", "mp3", "24000", ""), "seed-icl-1.0" },
};

START_TEST(v3_has_other_names)
{
    struct driver d;
    driver_open(&d, "volcengine", v3_requests[_i].body, v3_requests[_i].params);
    ck_assert_msg(d.call != NULL, "%s: refused: %s", v3_requests[_i].body, d.fault.message);
    ck_assert_str_eq(driver_body(&d), v3_requests[_i].sent);
    ck_assert_pstr_eq(driver_header(&d, "x-api-resource-id"), v3_requests[_i].resource);
    ck_assert_pstr_eq(driver_header(&d, "x-api-request-id"), "01234567-89ab-cdef-0123-456789abcdef");
    ck_assert_str_eq(d.exchange.key_header, "X-Api-Key: {KEY}");
    ck_assert_ptr_null(driver_header(&d, "x-api-app-id"));
    driver_close(&d);
}
END_TEST

START_TEST(v3_keys_of_the_old_console_come_with_an_application)
{
    struct driver d;
    driver_open(&d, "volcengine", ASK(""), V3_AND("\"appid\":\"42\""));
    ck_assert_str_eq(d.exchange.key_header, "X-Api-Access-Key: {KEY}");
    ck_assert_pstr_eq(driver_header(&d, "x-api-app-id"), "42");
    driver_close(&d);
}
END_TEST

static const struct {
    const char *body, *params, *param;
} refusals[] = {
    { ASK(",\"response_format\":\"aac\""), V1, "response_format" },
    { ASK(",\"response_format\":\"flac\""), V3, "response_format" },
    { ASK(",\"instructions\":\"x\""), V1, "instructions" },
    { "{\"input\":\"Hi\"}", V1, "voice" },
    { "{\"input\":\"Hi\",\"voice\":\"access denied\"}", V1, "voice" },
    { "{\"input\":\"Hi\",\"voice\":\"a\\\",\\\"b\"}", V3, "voice" },
    { ASK(",\"extra_body\":{\"pitch\":1}"), V1, "extra_body.pitch" },
    { ASK(",\"extra_body\":{\"additions\":{}}"), V1, "extra_body.additions" },
    { ASK(",\"extra_body\":{\"pitch_ratio\":1}"), V3, "extra_body.pitch_ratio" },
    { ASK(",\"extra_body\":{\"silence_duration\":1}"), V3, "extra_body.silence_duration" },
    { ASK(",\"extra_body\":{\"pitch\":13}"), V3, "extra_body.pitch" },
    { ASK(",\"extra_body\":{\"additions\":[]}"), V3, "extra_body.additions" },
    { ASK(",\"extra_body\":{\"additions\":{\"post_process\":{}},\"pitch\":1}"), V3, "extra_body.additions" },
    { ASK(",\"extra_body\":{\"sample_rate\":44100}"), V1, "extra_body.sample_rate" },
    { ASK(",\"extra_body\":{\"sample_rate\":11025}"), V3, "extra_body.sample_rate" },
    { ASK(",\"response_format\":\"pcm\",\"extra_body\":{\"bit_rate\":64}"), V1, "extra_body.bit_rate" },
    { ASK(",\"extra_body\":{\"loudness_ratio\":3}"), V1, "extra_body.loudness_ratio" },
    { ASK(",\"extra_body\":{\"emotion\":\"a b\"}"), V1, "extra_body.emotion" },
};

START_TEST(what_it_cannot_do_is_said)
{
    struct driver d;
    driver_open(&d, "volcengine", refusals[_i].body, refusals[_i].params);
    ck_assert_msg(d.call == NULL, "%s was accepted", refusals[_i].body);
    ck_assert_str_eq(d.fault.param, refusals[_i].param);
    driver_close(&d);
}
END_TEST

/* ---- long texts ---- */

/* A request whose input is `phrase`, `count` times. */
static char *long_request(struct arena *arena, const char *phrase, size_t count, const char *more)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_append_cstr(&text, "{\"voice\":\"BV001_streaming\",\"input\":\"");
    for (size_t i = 0; i < count; i++)
        buf_append_cstr(&text, phrase);
    buf_printf(&text, "\"%s}", more);
    char *copy = arena_span(arena, buf_span(&text));
    buf_free(&text);
    return copy;
}

/* The string behind "name":" in a body, without escapes. */
static struct span string_in(const char *body, const char *name)
{
    const char *at = strstr(body, name);
    ck_assert_msg(at != NULL, "%s has no %s", body, name);
    at += strlen(name);
    return span_of(at, (size_t)(strchr(at, '"') - at));
}

#define REPLY(base64)                                                                                 \
    "{\"reqid\":\"q\",\"code\":3000,\"operation\":\"query\",\"message\":\"Success\",\"sequence\":-1," \
    "\"data\":\"" base64 "\",\"addition\":{\"duration\":\"1960\"}}"

START_TEST(v1_text_beyond_the_bound_is_spoken_in_pieces)
{
    static const struct {
        const char *phrase;
        size_t count, exchanges;
    } rows[] = {
        { "字", 341, 1 },
        { "字", 342, 2 },
        { "字", 4096, 13 },
        { "春眠不觉晓，处处闻啼鸟。", 341, 13 },
        { "\U0001F600字", 2048, 15 },
        /* what nobody can read is passed over */
        { "。", 4096, 1 },
        { "\\n", 4000, 1 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct arena *arena = arena_new();
        struct buf said;
        struct driver d;
        enum adapter_step step = ADAPTER_AGAIN;
        size_t n = 0;
        buf_init(&said, 1 << 20);
        driver_open(&d, "volcengine",
                    long_request(arena, rows[i].phrase, rows[i].count, ",\"response_format\":\"pcm\""), V1);
        while (step == ADAPTER_AGAIN) {
            const char *body = driver_body(&d);
            struct span text = string_in(body, "\"text\":\"");
            ck_assert_msg(text.len <= 1024 || strstr(body, "\\n") != NULL, "a piece of %zu bytes", text.len);
            buf_append_span(&said, text);
            ck_assert(span_is(string_in(body, "\"reqid\":\""), arena_printf(arena, ID "-%zu", n)));
            n++;
            step = driver_reply(&d, "application/json", span_cstr(REPLY("YWFi")), 0);
        }
        ck_assert_int_eq(step, ADAPTER_DONE);
        ck_assert_msg(n == rows[i].exchanges, "%s: %zu exchanges", rows[i].phrase, n);
        /* Three bytes each: half a sample is no sound, where there is more than one clip. */
        ck_assert_uint_eq(d.audio.len, n == 1 ? 3 : 2 * n);
        if (n > 1)
            ck_assert(said.len == d.facts.speech->input.len);
        driver_close(&d);
        buf_free(&said);
        arena_free(arena);
    }
}
END_TEST

START_TEST(v1_silence_comes_once_at_the_end)
{
    struct arena *arena = arena_new();
    struct driver d;
    driver_open(&d, "volcengine", long_request(arena, "字", 400, ",\"extra_body\":{\"silence_duration\":9}"),
                V1);
    ck_assert_ptr_null(strstr(driver_body(&d), "silence_duration"));
    ck_assert_int_eq(driver_reply(&d, "application/json", span_cstr(REPLY("//NkwAAAAAAAAAAAAAAA")), 0),
                     ADAPTER_FAILED);
    ck_assert_str_eq(d.call->why, "not_joinable"); /* no whole frame */
    driver_close(&d);
    driver_open(&d, "volcengine",
                long_request(arena, "字", 400,
                             ",\"response_format\":\"pcm\",\"extra_body\":{\"silence_duration\":9}"),
                V1);
    ck_assert_int_eq(driver_reply(&d, "application/json", span_cstr(REPLY("YWFi")), 0), ADAPTER_AGAIN);
    ck_assert_ptr_nonnull(strstr(driver_body(&d), "\"silence_duration\":9"));
    driver_close(&d);
    arena_free(arena);
}
END_TEST

START_TEST(v1_ssml_is_not_cut)
{
    struct arena *arena = arena_new();
    struct driver d;
    driver_open(&d, "volcengine", long_request(arena, "x", 1024, ",\"extra_body\":{\"text_type\":\"ssml\"}"),
                V1);
    ck_assert(d.call != NULL);
    driver_close(&d);
    driver_open(&d, "volcengine", long_request(arena, "x", 1025, ",\"extra_body\":{\"text_type\":\"ssml\"}"),
                V1);
    ck_assert(d.call == NULL);
    ck_assert_str_eq(d.fault.param, "input");
    driver_close(&d);
    arena_free(arena);
}
END_TEST

START_TEST(a_piece_that_fails_ends_the_call_after_the_audio_before_it)
{
    struct arena *arena = arena_new();
    struct driver d;
    driver_open(&d, "volcengine", long_request(arena, "字", 400, ",\"response_format\":\"pcm\""), V1);
    ck_assert_int_eq(driver_reply(&d, "application/json", span_cstr(REPLY("YWFi")), 0), ADAPTER_AGAIN);
    ck_assert_int_eq(
        driver_reply(&d, "application/json", span_cstr("{\"code\":3005,\"message\":\"busy\"}"), 0),
        ADAPTER_FAILED);
    ck_assert_uint_eq(d.audio.len, 2);
    ck_assert(span_is(buf_span(&d.call->failure), "{\"code\":3005,\"message\":\"busy\"}"));
    driver_close(&d);
    arena_free(arena);
}
END_TEST

/* ---- replies ---- */

#define PART(base64) "{\"code\":0,\"message\":\"\",\"data\":\"" base64 "\"}\n"
#define OVER "{\"code\":20000000,\"message\":\"ok\",\"data\":null,\"usage\":{\"text_words\":7}}\n"

/* The same objects as events, as their second endpoint of v3 sends them. */
#define EVENT(number, object) "event: " number "\ndata: " object "\n\n"
#define PART_EVENT(base64) EVENT("352", "{\"code\":0,\"message\":\"\",\"data\":\"" base64 "\"}")
#define OVER_EVENT \
    EVENT("152", "{\"code\":20000000,\"message\":\"ok\",\"data\":null,\"usage\":{\"text_words\":7}}")

static const struct {
    const char *what, *params, *body;
    enum adapter_step said;
    const char *audio, *why;
    long long characters;
} replies[] = {
    { "v1", V1, REPLY("SUQzc291bmQ="), ADAPTER_DONE, "ID3sound", NULL, -1 },
    { "v1 without data", V1, "{\"code\":3000,\"message\":\"Success\"}", ADAPTER_FAILED, "", "no_audio", -1 },
    { "v1 with empty data", V1, REPLY(""), ADAPTER_FAILED, "", "no_audio", -1 },
    { "v1 with null data", V1, "{\"code\":3000,\"data\":null}", ADAPTER_FAILED, "", "no_audio", -1 },
    { "v1 failed, with a 200", V1, "{\"reqid\":\"q\",\"code\":3001,\"message\":\"m\",\"addition\":{}}",
      ADAPTER_FAILED, "", "error_code", -1 },
    { "v1 failed, and has data", V1, "{\"code\":3031,\"data\":\"SUQz\"}", ADAPTER_FAILED, "", "error_code",
      -1 },
    { "v1 without a code", V1, "{\"data\":\"SUQz\"}", ADAPTER_FAILED, "ID3", "not_json", -1 },
    { "v1 twice", V1, REPLY("SUQz") REPLY("SUQz"), ADAPTER_FAILED, "ID3ID3", "not_json", -1 },
    { "v1 cut", V1, "{\"code\":3000,\"data\":\"SUQz", ADAPTER_FAILED, "ID3", "not_json", -1 },
    { "v1 nothing", V1, "", ADAPTER_FAILED, "", "not_json", -1 },
    { "v1 a page", V1, "<html>", ADAPTER_FAILED, "", "not_json", -1 },
    { "v3", V3,
      PART("SUQz") "{\"code\":0,\"data\":null,\"sentence\":{\"text\":\"Hi\"}}\n" PART("c291bmQ=") OVER,
      ADAPTER_DONE, "ID3sound", NULL, 7 },
    { "v3 without line ends", V3, "{\"code\":0,\"data\":\"SUQz\"}{\"code\":20000000}", ADAPTER_DONE, "ID3",
      NULL, -1 },
    { "v3 and something after the end", V3, PART("SUQz") OVER "<html>", ADAPTER_DONE, "ID3", NULL, 7 },
    { "v3 without an end", V3, PART("SUQz"), ADAPTER_FAILED, "ID3", "no_end", -1 },
    { "v3 cut", V3, PART("SUQz") "{\"code\":200", ADAPTER_FAILED, "ID3", "no_end", -1 },
    { "v3 an end without audio", V3, OVER, ADAPTER_FAILED, "", "no_audio", 7 },
    { "v3 failed", V3, PART("SUQz") "{\"code\":55000000,\"message\":\"m\"}\n", ADAPTER_FAILED, "ID3",
      "error_code", -1 },
    { "v3 failed, in a header", V3, "{\"header\":{\"code\":45000030,\"message\":\"m\"}}", ADAPTER_FAILED, "",
      "error_code", -1 },
    { "v3 failed, and has data", V3, "{\"code\":55000000,\"data\":\"SUQz\"}", ADAPTER_FAILED, "",
      "error_code", -1 },
    { "v3 a page", V3, "<html>", ADAPTER_FAILED, "", "not_json", -1 },
    { "v3 events", V3,
      PART_EVENT("SUQz") EVENT("351", "{\"code\":0,\"data\":null,\"sentence\":{\"text\":\"Hi\"}}")
          PART_EVENT("c291bmQ=") OVER_EVENT,
      ADAPTER_DONE, "ID3sound", NULL, 7 },
    { "v3 events, of several lines", V3,
      "event:352\r\n: comment\r\ndata:{\"code\":0,\r\ndata:\"data\":\"SUQz\"}\r\n\r\n" OVER_EVENT,
      ADAPTER_DONE, "ID3", NULL, 7 },
    { "v3 events, the last without its blank line", V3, PART_EVENT("SUQz") "data: {\"code\":20000000}\n",
      ADAPTER_DONE, "ID3", NULL, -1 },
    { "v3 events without an end", V3, PART_EVENT("SUQz"), ADAPTER_FAILED, "ID3", "no_end", -1 },
    { "v3 events, an end without audio", V3, OVER_EVENT, ADAPTER_FAILED, "", "no_audio", 7 },
    { "v3 an event that failed", V3, PART_EVENT("SUQz") EVENT("153", "{\"code\":55000000,\"message\":\"m\"}"),
      ADAPTER_FAILED, "ID3", "error_code", -1 },
    { "v3 an event of half an object", V3, PART_EVENT("SUQz") EVENT("352", "{\"code\":0"), ADAPTER_FAILED,
      "ID3", "not_json", -1 },
    { "v3 an event of words", V3, EVENT("352", "busy"), ADAPTER_FAILED, "", "not_json", -1 },
    { "v3 data that is no base64", V3, PART("SUQz") PART("*"), ADAPTER_FAILED, "ID3", "not_json", -1 },
};

START_TEST(a_reply_is_read_however_it_is_cut)
{
    struct span body = span_cstr(replies[_i].body);
    for (size_t step = 0; step <= body.len; step++) {
        struct driver d;
        driver_open(&d, "volcengine", ASK(""), replies[_i].params);
        bool is_events = strncmp(replies[_i].body, "event:", 6) == 0;
        enum adapter_step said =
            driver_reply(&d, is_events ? "text/event-stream" : "application/json", body, step);
        ck_assert_msg(said == replies[_i].said && span_is(buf_span(&d.audio), replies[_i].audio),
                      "%s, %zu bytes at a time: %d, audio \"%.*s\"", replies[_i].what, step, said,
                      (int)d.audio.len, d.audio.len > 0 ? d.audio.data : "");
        ck_assert_pstr_eq(d.call->why, replies[_i].why);
        ck_assert_msg(d.call->characters == replies[_i].characters, "%s: %lld characters", replies[_i].what,
                      (long long)d.call->characters);
        driver_close(&d);
    }
}
END_TEST

START_TEST(v3_wav_is_made_of_samples)
{
    struct driver d;
    driver_open(&d, "volcengine", ASK(",\"response_format\":\"wav\",\"extra_body\":{\"sample_rate\":16000}"),
                V3);
    ck_assert_int_eq(driver_reply(&d, "application/json", span_cstr(PART("c2Ft") PART("cGxl") OVER), 0),
                     ADAPTER_DONE);
    const unsigned char *p = (const unsigned char *)d.audio.data;
    ck_assert(d.audio.len == 50 && memcmp(p, "RIFF", 4) == 0 && memcmp(p + 44, "sample", 6) == 0);
    ck_assert_uint_eq(p[24] | p[25] << 8, 16000);
    driver_close(&d);
}
END_TEST

START_TEST(a_sink_that_fails_ends_the_call)
{
    static const char *const params[] = { V1, V3 };
    struct driver d;
    driver_open(&d, "volcengine", ASK(",\"response_format\":\"wav\""), params[_i]);
    d.sink_result = -1;
    ck_assert_int_eq(
        driver_reply(&d, "application/json", span_cstr(_i == 0 ? REPLY("SUQz") : PART("SUQz") OVER), 1),
        ADAPTER_LEFT);
    ck_assert_uint_eq(d.writes, 1);
    driver_close(&d);
}
END_TEST

static const struct {
    const char *base_url, *region, *params, *url, *param;
} sites[] = {
    { "", "", V1, "https://openspeech.bytedance.com/api/v1/tts", NULL },
    { "", "", V3, "https://openspeech.bytedance.com/api/v3/tts/unidirectional", NULL },
    { "https://h/x", "", V1, "https://h/x", NULL },
    { "https://h/x", "", V3, "https://h/x", NULL },
    { "", "", "", NULL, "adapterParams.appid" },
    { "https://h/x", "", "", NULL, "adapterParams.appid" },
    { "", "cn", V3, NULL, "region" },
    { "", "", V1_AND("\"sample_rate\":44100"), NULL, "adapterParams.sample_rate" },
    { "", "", V3_AND("\"sample_rate\":11025"), NULL, "adapterParams.sample_rate" },
    { "", "", V1_AND("\"pitch\":1"), NULL, "adapterParams.pitch" },
    { "", "", V1_AND("\"resourceId\":\"r\""), NULL, "adapterParams.resourceId" },
    { "", "", V3_AND("\"cluster\":\"c\""), NULL, "adapterParams.cluster" },
    { "", "", V3_AND("\"text_type\":\"ssml\""), NULL, "adapterParams.text_type" },
    { "", "", V3_AND("\"additions\":[]"), NULL, "adapterParams.additions" },
    { "", "", V3_AND("\"additions\":{\"post_process\":1},\"pitch\":1"), NULL, "adapterParams.additions" },
};

START_TEST(the_protocol_says_where_it_is)
{
    struct arena *arena = arena_new();
    struct adapter_fault fault = { NULL, NULL };
    const char *url =
        adapter_endpoint(adapter_find(span_cstr("volcengine")), span_cstr(sites[_i].base_url),
                         span_cstr(sites[_i].region), span_cstr(sites[_i].params), arena, &fault);
    ck_assert_pstr_eq(url, sites[_i].url);
    ck_assert_pstr_eq(fault.param, sites[_i].param);
    arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adapter volcengine");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, v1_has_its_own_names_for_everything, 0, (int)COUNT(v1_requests));
    tcase_add_loop_test(tcase, v3_has_other_names, 0, (int)COUNT(v3_requests));
    tcase_add_test(tcase, v3_keys_of_the_old_console_come_with_an_application);
    tcase_add_loop_test(tcase, what_it_cannot_do_is_said, 0, (int)COUNT(refusals));
    tcase_add_test(tcase, v1_text_beyond_the_bound_is_spoken_in_pieces);
    tcase_add_test(tcase, v1_silence_comes_once_at_the_end);
    tcase_add_test(tcase, v1_ssml_is_not_cut);
    tcase_add_test(tcase, a_piece_that_fails_ends_the_call_after_the_audio_before_it);
    tcase_add_loop_test(tcase, a_reply_is_read_however_it_is_cut, 0, (int)COUNT(replies));
    tcase_add_test(tcase, v3_wav_is_made_of_samples);
    tcase_add_loop_test(tcase, a_sink_that_fails_ends_the_call, 0, 2);
    tcase_add_loop_test(tcase, the_protocol_says_where_it_is, 0, (int)COUNT(sites));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
