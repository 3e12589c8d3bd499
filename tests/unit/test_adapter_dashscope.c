/* The dashscope-cosyvoice adapter: both families of models, events and finished files. */
#include "tests/unit/adapter_driver.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ASK(more) "{\"input\":\"Hi\",\"voice\":\"longanyang\"" more "}"
#define COSY "{\"model\":\"cosyvoice-v3-flash\"}"
#define COSY_AND(more) "{\"model\":\"cosyvoice-v3-flash\"," more "}"
#define QWEN "{\"model\":\"qwen3-tts-flash\"}"
#define BODY(model, options) \
    "{\"model\":\"" model "\",\"input\":{\"text\":\"Hi\",\"voice\":\"longanyang\"" options "}}"

static const struct {
    const char *body, *params, *sent;
    bool is_stream;
} requests[] = {
    { ASK(""), COSY, BODY("cosyvoice-v3-flash", ",\"format\":\"mp3\",\"sample_rate\":24000"), true },
    { ASK(""), "", BODY("asked", ",\"format\":\"mp3\",\"sample_rate\":24000"), true },
    { ASK(",\"response_format\":\"opus\""), COSY,
      BODY("cosyvoice-v3-flash", ",\"format\":\"opus\",\"sample_rate\":24000"), true },
    { ASK(",\"response_format\":\"pcm\""), COSY,
      BODY("cosyvoice-v3-flash", ",\"format\":\"pcm\",\"sample_rate\":24000"), true },
    /* WAV is made of samples where it streams */
    { ASK(",\"response_format\":\"wav\""), COSY,
      BODY("cosyvoice-v3-flash", ",\"format\":\"pcm\",\"sample_rate\":24000"), true },
    { ASK(",\"response_format\":\"wav\""), COSY_AND("\"stream\":false"),
      BODY("cosyvoice-v3-flash", ",\"format\":\"wav\",\"sample_rate\":24000"), false },
    { ASK(",\"speed\":1.25"), COSY,
      BODY("cosyvoice-v3-flash", ",\"format\":\"mp3\",\"sample_rate\":24000,\"rate\":1.25"), true },
    { ASK(",\"speed\":4"), COSY,
      BODY("cosyvoice-v3-flash", ",\"format\":\"mp3\",\"sample_rate\":24000,\"rate\":2"), true },
    { ASK(",\"speed\":0.25"), COSY,
      BODY("cosyvoice-v3-flash", ",\"format\":\"mp3\",\"sample_rate\":24000,\"rate\":0.5"), true },
    { ASK(",\"instructions\":\"softly\""), COSY,
      BODY("cosyvoice-v3-flash", ",\"format\":\"mp3\",\"sample_rate\":24000,\"instruction\":\"softly\""),
      true },
    { ASK(",\"extra_body\":{\"volume\":80,\"pitch\":1.5,\"sample_rate\":48000,\"seed\":7,\"language_hints\":["
          "\"en\"],"
          "\"hot_fix\":{\"replace\":[]},\"enable_ssml\":true,\"enable_markdown_filter\":false}"),
      COSY,
      BODY("cosyvoice-v3-flash",
           ",\"format\":\"mp3\",\"sample_rate\":48000,\"volume\":80,\"pitch\":1.5,\"enable_ssml\":true,"
           "\"seed\":7,"
           "\"language_hints\":[\"en\"],\"hot_fix\":{\"replace\":[]},\"enable_markdown_filter\":false"),
      true },
    { ASK(",\"response_format\":\"opus\",\"extra_body\":{\"bit_rate\":64}"), COSY,
      BODY("cosyvoice-v3-flash", ",\"format\":\"opus\",\"sample_rate\":24000,\"bit_rate\":64"), true },
    /* an operator's bit rate is for opus, and for nothing else */
    { ASK(""), COSY_AND("\"bit_rate\":64,\"aigc_propagator\":\"a\\\"b\""),
      BODY("cosyvoice-v3-flash", ",\"format\":\"mp3\",\"sample_rate\":24000,\"aigc_propagator\":\"a\\\"b\""),
      true },
    /* Qwen has no formats and no sliders */
    { ASK(""), QWEN, BODY("qwen3-tts-flash", ""), true },
    { ASK(",\"response_format\":\"pcm\""), QWEN, BODY("qwen3-tts-flash", ""), true },
    { ASK(",\"response_format\":\"pcm\""), "{\"model\":\"qwen3-tts-flash\",\"stream\":false}",
      BODY("qwen3-tts-flash", ""), true },
    { ASK(",\"response_format\":\"wav\""), "{\"model\":\"qwen3-tts-flash\",\"stream\":false}",
      BODY("qwen3-tts-flash", ""), false },
    { ASK(",\"extra_body\":{\"language_type\":\"Chinese\"}"), "{\"model\":\"qwen3-tts-flash\",\"volume\":10}",
      BODY("qwen3-tts-flash", ",\"language_type\":\"Chinese\""), true },
    { ASK(",\"instructions\":\"softly\",\"extra_body\":{\"optimize_instructions\":true}"),
      "{\"model\":\"qwen3-tts-instruct-flash\"}",
      BODY("qwen3-tts-instruct-flash", ",\"instructions\":\"softly\",\"optimize_instructions\":true"), true },
    /* texts that would like to be JSON */
    { "{\"voice\":\"a\\\",\\\"b\\\":\\\"\",\"input\":\"\\\"},\\\"model\\\":\\\"x\\u0000\\ud83d\\n\"}", COSY,
      "{\"model\":\"cosyvoice-v3-flash\",\"input\":{\"text\":\"\\\"},\\\"model\\\":\\\"x\\u0000\uFFFD\\n\","
      "\"voice\":"
      "\"a\\\",\\\"b\\\":\\\"\",\"format\":\"mp3\",\"sample_rate\":24000}}",
      true },
};

START_TEST(a_request_becomes_the_families_own)
{
    struct driver d;
    driver_open(&d, "dashscope-cosyvoice", requests[_i].body, requests[_i].params);
    ck_assert_msg(d.call != NULL, "%s %s: refused: %s", requests[_i].body, requests[_i].params,
                  d.fault.message);
    ck_assert_str_eq(driver_body(&d), requests[_i].sent);
    ck_assert_pstr_eq(driver_header(&d, "x-dashscope-sse"), requests[_i].is_stream ? "enable" : NULL);
    ck_assert_ptr_null(driver_header(&d, "x-dashscope-workspace"));
    ck_assert_str_eq(d.exchange.key_header, "Authorization: Bearer {KEY}");
    driver_close(&d);
}
END_TEST

START_TEST(a_workspace_is_named_in_a_header)
{
    struct driver d;
    driver_open(&d, "dashscope-cosyvoice", ASK(""), COSY_AND("\"workspaceId\":\"ws-1\""));
    ck_assert_pstr_eq(driver_header(&d, "x-dashscope-workspace"), "ws-1");
    driver_close(&d);
}
END_TEST

static const struct {
    const char *body, *params, *param;
} refusals[] = {
    { ASK(",\"response_format\":\"aac\""), COSY, "response_format" },
    { ASK(",\"response_format\":\"flac\""), COSY, "response_format" },
    { ASK(",\"response_format\":\"mp3\""), QWEN, "response_format" },
    { ASK(",\"speed\":1.5"), QWEN, "speed" },
    { ASK(",\"instructions\":\"x\""), QWEN, "instructions" },
    { ASK(",\"instructions\":\"x\""), "{\"model\":\"cosyvoice-v2\"}", "instructions" },
    { ASK(",\"extra_body\":{\"pitch\":1}"), QWEN, "extra_body.pitch" },
    { ASK(",\"extra_body\":{\"language_type\":\"Auto\"}"), COSY, "extra_body.language_type" },
    { ASK(",\"extra_body\":{\"language_type\":\"Klingon\"}"), QWEN, "extra_body.language_type" },
    { ASK(",\"extra_body\":{\"pitch\":3}"), COSY, "extra_body.pitch" },
    { ASK(",\"extra_body\":{\"pitch\":\"1\"}"), COSY, "extra_body.pitch" },
    { ASK(",\"extra_body\":{\"volume\":101}"), COSY, "extra_body.volume" },
    { ASK(",\"extra_body\":{\"volume\":1.5}"), COSY, "extra_body.volume" },
    { ASK(",\"extra_body\":{\"seed\":65536}"), COSY, "extra_body.seed" },
    { ASK(",\"extra_body\":{\"sample_rate\":11025}"), COSY, "extra_body.sample_rate" },
    { ASK(",\"response_format\":\"opus\",\"extra_body\":{\"sample_rate\":44100}"), COSY,
      "extra_body.sample_rate" },
    { ASK(",\"extra_body\":{\"bit_rate\":64}"), COSY, "extra_body.bit_rate" },
    { ASK(",\"extra_body\":{\"language_hints\":\"en\"}"), COSY, "extra_body.language_hints" },
    { ASK(",\"extra_body\":{\"style\":\"sad\"}"), COSY, "extra_body.style" }, /* another provider's */
    { ASK(",\"extra_body\":{\"hot_fix\":{}}"), "{\"model\":\"cosyvoice-v2\"}", "extra_body.hot_fix" },
    { ASK(",\"extra_body\":{\"hot_fix\":{}}"), QWEN, "extra_body.hot_fix" },
    { ASK(",\"extra_body\":{\"optimize_instructions\":true}"), QWEN, "extra_body.optimize_instructions" },
    { ASK(",\"extra_body\":{\"stream\":false}"), COSY, "extra_body.stream" }, /* the operator's */
    { "{\"input\":\"Hi\"}", COSY, "voice" },
};

START_TEST(what_the_family_cannot_do_is_said)
{
    struct driver d;
    driver_open(&d, "dashscope-cosyvoice", refusals[_i].body, refusals[_i].params);
    ck_assert_msg(d.call == NULL, "%s was accepted", refusals[_i].body);
    ck_assert_str_eq(d.fault.param, refusals[_i].param);
    driver_close(&d);
}
END_TEST

START_TEST(a_text_beyond_the_models_bound_is_refused)
{
    static const struct {
        const char *params, *character;
        size_t count;
        const char *message; /* NULL: it is accepted */
    } rows[] = {
        { QWEN, "a", 600, NULL },
        { QWEN, "\u5b57", 600, NULL },
        { QWEN, "a", 601, "`input` has 601 characters; this model takes at most 600." },
        { QWEN, "\u5b57", 4096, "`input` has 4096 characters; this model takes at most 600." },
        { "{\"model\":\"qwen3-tts-instruct-flash\"}", "a", 601,
          "`input` has 601 characters; this model takes at most 600." },
        /* counted in tokens, by themselves */
        { "{\"model\":\"qwen-tts\"}", "a", 4096, NULL },
        { COSY, "\u5b57", 4096, NULL },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct driver d;
        struct buf body;
        buf_init(&body, 64 * 1024);
        buf_append_cstr(&body, "{\"voice\":\"Cherry\",\"input\":\"");
        for (size_t n = 0; n < rows[i].count; n++)
            buf_append_cstr(&body, rows[i].character);
        buf_append(&body, "\"}", 3);
        driver_open(&d, "dashscope-cosyvoice", body.data, rows[i].params);
        ck_assert_pstr_eq(d.fault.message, rows[i].message);
        ck_assert_pstr_eq(d.fault.param, rows[i].message == NULL ? NULL : "input");
        driver_close(&d);
        buf_free(&body);
    }
}
END_TEST

/* ---- replies ---- */

#define EVENT(json) "id:1\nevent:result\n:HTTP_STATUS/200\ndata:" json "\n\n"
#define AUDIO(base64)                                                                                    \
    EVENT("{\"output\":{\"type\":\"sentence-synthesis\",\"finish_reason\":\"null\",\"audio\":{\"data\":" \
          "\"" base64 "\"}}}")
#define URL "http://dashscope-result-bj.oss-cn-beijing.aliyuncs.com/a.mp3?Expires=1"
#define STOP                                                                                \
    EVENT("{\"output\":{\"finish_reason\":\"stop\",\"audio\":{\"data\":\"\",\"url\":\"" URL \
          "\",\"id\":\"a\"}},"                                                              \
          "\"usage\":{\"characters\":15},\"request_id\":\"r\"}")
#define SSE "text/event-stream;charset=UTF-8"
#define JSON "application/json"
#define NAMED(url)                                                                    \
    "{\"output\":{\"finish_reason\":\"stop\",\"audio\":{\"data\":\"\",\"url\":\"" url \
    "\"}},\"usage\":{\"characters\":15}}"

static const struct {
    const char *what, *type, *body;
    enum adapter_step said;
    const char *audio, *why;
    long long characters;
    const char *get; /* of ADAPTER_AGAIN */
} replies[] = {
    { "events, and a file that is not got", SSE,
      EVENT("{\"output\":{\"type\":\"sentence-begin\",\"finish_reason\":\"null\"}}") AUDIO("SUQz")
          AUDIO("c291bmQ=") STOP,
      ADAPTER_DONE, "ID3sound", NULL, 15, NULL },
    { "data in several lines", SSE, "id:1\ndata:{\"output\":{\"audio\":\ndata:{\"data\":\"SUQz\"}}}\n\n" STOP,
      ADAPTER_DONE, "ID3", NULL, 15, NULL },
    { "audio in the last event", SSE,
      EVENT("{\"output\":{\"finish_reason\":\"stop\",\"audio\":{\"data\":\"SUQz\"}}}"), ADAPTER_DONE, "ID3",
      NULL, -1, NULL },
    { "a last event without a blank line", SSE,
      AUDIO("SUQz") "data:{\"output\":{\"finish_reason\":\"stop\"}}", ADAPTER_DONE, "ID3", NULL, -1, NULL },
    { "no end", SSE, AUDIO("SUQz"), ADAPTER_FAILED, "ID3", "no_end", -1, NULL },
    { "a cut event", SSE, AUDIO("SUQz") "data:{\"output\":{", ADAPTER_FAILED, "ID3", "not_json", -1, NULL },
    { "nothing", SSE, "", ADAPTER_FAILED, "", "no_end", -1, NULL },
    { "an end without audio or file", SSE, EVENT("{\"output\":{\"finish_reason\":\"stop\"}}"), ADAPTER_FAILED,
      "", "no_audio", -1, NULL },
    { "an end without audio, but with a file", SSE, STOP, ADAPTER_AGAIN, "", NULL, 15,
      "https://dashscope-result-bj.oss-cn-beijing.aliyuncs.com/a.mp3?Expires=1" },
    { "an error event", SSE,
      "id:1\nevent:error\n:HTTP_STATUS/"
      "429\ndata:{\"code\":\"Throttling\",\"message\":\"m\",\"request_id\":\"r\"}\n\n",
      ADAPTER_FAILED, "", "error_event", -1, NULL },
    { "an error event without a code", SSE, "event:error\ndata:{}\n\n", ADAPTER_FAILED, "", "error_event", -1,
      NULL },
    { "a failed status without a code", SSE, ":HTTP_STATUS/500\ndata:{}\n\n", ADAPTER_FAILED, "",
      "error_event", -1, NULL },
    { "an error in a result, after audio", SSE,
      AUDIO("SUQz") EVENT("{\"code\":\"InternalError\",\"message\":\"m\"}"), ADAPTER_FAILED, "ID3",
      "error_event", -1, NULL },
    { "an empty code is none", SSE, EVENT("{\"code\":\"\",\"message\":\"\"}") AUDIO("SUQz") STOP,
      ADAPTER_DONE, "ID3", NULL, 15, NULL },
    { "audio that is no base64", SSE, AUDIO("SU*z"), ADAPTER_FAILED, "I", "not_json", -1, NULL },
    { "data that is no JSON", SSE, "data:sorry\n\n", ADAPTER_FAILED, "", "not_json", -1, NULL },
    { "a finished file", JSON, NAMED(URL), ADAPTER_AGAIN, "", NULL, 15,
      "https://dashscope-result-bj.oss-cn-beijing.aliyuncs.com/a.mp3?Expires=1" },
    { "a file at our endpoint", JSON, NAMED("https://upstream.test/clips/1"), ADAPTER_AGAIN, "", NULL, 15,
      "https://upstream.test/clips/1" },
    { "a file elsewhere", JSON, NAMED("http://169.254.169.254/latest/meta-data"), ADAPTER_FAILED, "",
      "url_not_allowed", 15, NULL },
    { "a file at a host that looks alike", JSON, NAMED("https://oss.aliyuncs.com.evil.test/"), ADAPTER_FAILED,
      "", "url_not_allowed", 15, NULL },
    { "audio in the document", JSON, "{\"output\":{\"audio\":{\"data\":\"SUQz\"}}}", ADAPTER_DONE, "ID3",
      NULL, -1, NULL },
    { "an error in a document", JSON, "{\"code\":\"InvalidApiKey\",\"message\":\"m\",\"request_id\":\"r\"}",
      ADAPTER_FAILED, "", "error_event", -1, NULL },
    { "a document without anything", JSON, "{\"request_id\":\"r\"}", ADAPTER_FAILED, "", "no_audio", -1,
      NULL },
    { "no document", JSON, "", ADAPTER_FAILED, "", "no_audio", -1, NULL },
    { "a cut document", JSON, "{\"output\":", ADAPTER_FAILED, "", "not_json", -1, NULL },
    { "a page", "text/html", "<html>", ADAPTER_FAILED, "", "not_json", -1, NULL },
};

START_TEST(a_reply_is_read_however_it_is_cut)
{
    struct span body = span_cstr(replies[_i].body);
    for (size_t step = 0; step <= body.len; step++) {
        struct driver d;
        driver_open(&d, "dashscope-cosyvoice", ASK(""), COSY);
        enum adapter_step said = driver_reply(&d, replies[_i].type, body, step);
        ck_assert_msg(said == replies[_i].said && span_is(buf_span(&d.audio), replies[_i].audio),
                      "%s, %zu bytes at a time: %d, audio \"%.*s\"", replies[_i].what, step, said,
                      (int)d.audio.len, d.audio.len > 0 ? d.audio.data : "");
        ck_assert_pstr_eq(d.call->why, replies[_i].why);
        ck_assert_msg(d.call->characters == replies[_i].characters, "%s: %lld characters", replies[_i].what,
                      (long long)d.call->characters);
        if (said == ADAPTER_AGAIN) {
            ck_assert_str_eq(d.exchange.url, replies[_i].get);
            ck_assert(d.exchange.is_get);
            ck_assert_ptr_null(d.exchange.key_header); /* the key stays at home */
        }
        driver_close(&d);
    }
}
END_TEST

START_TEST(a_finished_file_is_given_as_it_is)
{
    static const struct {
        const char *params, *format;
        bool has_head;
    } rows[] = {
        { COSY_AND("\"stream\":false"), "mp3", false },
        { COSY_AND("\"stream\":false"), "wav", false },
        { "{\"model\":\"qwen-tts\",\"stream\":false}", "wav", false },
        /* asked for samples in events, and got a file of them */
        { COSY, "wav", true },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct arena *arena = arena_new();
        struct driver d;
        driver_open(&d, "dashscope-cosyvoice",
                    arena_printf(arena, ASK(",\"response_format\":\"%s\""), rows[i].format), rows[i].params);
        ck_assert_int_eq(driver_reply(&d, JSON, span_cstr(NAMED(URL)), 0), ADAPTER_AGAIN);
        ck_assert_int_eq(driver_reply(&d, "audio/mpeg", span_cstr("file bytes"), 3), ADAPTER_DONE);
        size_t head = rows[i].has_head ? 44 : 0;
        ck_assert_msg(d.audio.len == head + 10 && memcmp(d.audio.data + head, "file bytes", 10) == 0,
                      "row %zu", i);
        driver_close(&d);
        arena_free(arena);
    }
}
END_TEST

START_TEST(a_finished_file_that_is_empty_is_a_failure)
{
    struct driver d;
    driver_open(&d, "dashscope-cosyvoice", ASK(""), COSY_AND("\"stream\":false"));
    ck_assert_int_eq(driver_reply(&d, JSON, span_cstr(NAMED(URL)), 0), ADAPTER_AGAIN);
    ck_assert_int_eq(driver_reply(&d, "audio/mpeg", span_cstr(""), 0), ADAPTER_FAILED);
    ck_assert_str_eq(d.call->why, "no_audio");
    driver_close(&d);
}
END_TEST

START_TEST(a_finished_file_has_a_bound)
{
    enum { PIECE_BYTES = 1024 * 1024, PIECES = 128 };
    const struct adapter_reply head = { .status = 200, .content_type = span_cstr("audio/mpeg") };
    char *piece = xcalloc(1, PIECE_BYTES);
    struct driver d;
    driver_open(&d, "dashscope-cosyvoice", ASK(""), COSY_AND("\"stream\":false"));
    ck_assert_int_eq(driver_reply(&d, JSON, span_cstr(NAMED(URL)), 0), ADAPTER_AGAIN);
    ck_assert_int_eq(adapter_call_head(d.call, &head), ADAPTER_MORE);
    for (int i = 0; i < PIECES; i++)
        ck_assert_int_eq(adapter_call_feed(d.call, span_of(piece, PIECE_BYTES)), ADAPTER_MORE);
    ck_assert_int_eq(adapter_call_feed(d.call, span_of(piece, 1)), ADAPTER_FAILED);
    ck_assert_str_eq(d.call->why, "clip_too_large");
    driver_close(&d);
    free(piece);
}
END_TEST

START_TEST(wav_is_made_of_streamed_samples_of_the_asked_rate)
{
    static const struct {
        const char *extra, *params;
        unsigned rate_hz;
    } rows[] = { { "", COSY, 24000 },
                 { ",\"extra_body\":{\"sample_rate\":8000}", COSY, 8000 },
                 { "", "{\"model\":\"qwen3-tts-flash\",\"sample_rate\":8000}", 24000 } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct arena *arena = arena_new();
        struct driver d;
        driver_open(&d, "dashscope-cosyvoice",
                    arena_printf(arena, ASK(",\"response_format\":\"wav\"%s"), rows[i].extra),
                    rows[i].params);
        ck_assert_int_eq(driver_reply(&d, SSE, span_cstr(AUDIO("c2Ft") AUDIO("cGxl") STOP), 0), ADAPTER_DONE);
        const unsigned char *p = (const unsigned char *)d.audio.data;
        ck_assert(d.audio.len == 50 && memcmp(p, "RIFF", 4) == 0 && memcmp(p + 44, "sample", 6) == 0);
        ck_assert_uint_eq(p[24] | p[25] << 8, rows[i].rate_hz);
        driver_close(&d);
        arena_free(arena);
    }
}
END_TEST

START_TEST(samples_of_another_rate_say_so)
{
    struct driver d;
    driver_open(&d, "dashscope-cosyvoice",
                ASK(",\"response_format\":\"pcm\",\"extra_body\":{\"sample_rate\":8000}"), COSY);
    ck_assert_str_eq(adapter_call_type(d.call, span_cstr("ab")), "audio/pcm;rate=8000");
    driver_close(&d);
    driver_open(&d, "dashscope-cosyvoice", ASK(",\"response_format\":\"pcm\""), COSY);
    ck_assert_str_eq(adapter_call_type(d.call, span_cstr("ab")), "audio/pcm");
    driver_close(&d);
}
END_TEST

START_TEST(a_sink_that_fails_ends_the_call)
{
    struct driver d;
    driver_open(&d, "dashscope-cosyvoice", ASK(",\"response_format\":\"wav\""), COSY);
    d.sink_result = -1;
    ck_assert_int_eq(driver_reply(&d, SSE, span_cstr(AUDIO("SUQz") AUDIO("SUQz") STOP), 1), ADAPTER_LEFT);
    ck_assert_uint_eq(d.writes, 1);
    driver_close(&d);
}
END_TEST

#define SYNTHESIZER "/api/v1/services/audio/tts/SpeechSynthesizer"
#define GENERATION "/api/v1/services/aigc/multimodal-generation/generation"

static const struct {
    const char *base_url, *region, *params, *url, *param;
} sites[] = {
    { "", "", COSY, "https://dashscope.aliyuncs.com" SYNTHESIZER, NULL },
    { "", "cn-beijing", "{\"model\":\"cosyvoice-v2\"}", "https://dashscope.aliyuncs.com" SYNTHESIZER, NULL },
    { "", "", "{\"model\":\"qwen-audio-3.0-tts-plus\"}", "https://dashscope.aliyuncs.com" SYNTHESIZER, NULL },
    { "", "", QWEN, "https://dashscope.aliyuncs.com" GENERATION, NULL },
    { "", "ap-southeast-1", "{\"model\":\"qwen-tts-latest\"}",
      "https://dashscope-intl.aliyuncs.com" GENERATION, NULL },
    { "", "", COSY_AND("\"workspaceId\":\"ws-1\""), "https://ws-1.cn-beijing.maas.aliyuncs.com" SYNTHESIZER,
      NULL },
    { "", "ap-southeast-1", COSY_AND("\"workspaceId\":\"ws-1\""),
      "https://ws-1.ap-southeast-1.maas.aliyuncs.com" SYNTHESIZER, NULL },
    { "https://h" GENERATION, "", COSY, "https://h" GENERATION, NULL },
    { "https://h/x", "", "", "https://h/x", NULL },
    { "", "mars", COSY, NULL, "region" },
    { "", "", "{\"model\":\"qwen-tts\",\"volume\":10}", NULL, "adapterParams.volume" },
    { "", "", COSY_AND("\"language_type\":\"Auto\""), NULL, "adapterParams.language_type" },
    { "", "", COSY_AND("\"sample_rate\":11025"), NULL, "adapterParams.sample_rate" },
    { "https://h/x", "", COSY_AND("\"sample_rate\":11025"), NULL, "adapterParams.sample_rate" },
    { "", "", "", NULL, "adapterParams.model" },
    { "", "", "{\"model\":\"cosyvoice-v1\"}", NULL, "adapterParams.model" },
    { "", "", "{\"model\":\"sambert-zhichu-v1\"}", NULL, "adapterParams.model" },
    { "", "", "{\"model\":\"qwen3-tts-flash-realtime\"}", NULL, "adapterParams.model" },
    { "", "", COSY_AND("\"workspaceId\":\"evil.test/\""), NULL, "adapterParams.workspaceId" },
};

START_TEST(the_models_family_and_the_region_say_where_it_is)
{
    struct arena *arena = arena_new();
    struct adapter_fault fault = { NULL, NULL };
    const char *url =
        adapter_endpoint(adapter_find(span_cstr("dashscope-cosyvoice")), span_cstr(sites[_i].base_url),
                         span_cstr(sites[_i].region), span_cstr(sites[_i].params), arena, &fault);
    ck_assert_pstr_eq(url, sites[_i].url);
    ck_assert_pstr_eq(fault.param, sites[_i].param);
    arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adapter dashscope");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, a_request_becomes_the_families_own, 0, (int)COUNT(requests));
    tcase_add_test(tcase, a_workspace_is_named_in_a_header);
    tcase_add_loop_test(tcase, what_the_family_cannot_do_is_said, 0, (int)COUNT(refusals));
    tcase_add_test(tcase, a_text_beyond_the_models_bound_is_refused);
    tcase_add_loop_test(tcase, a_reply_is_read_however_it_is_cut, 0, (int)COUNT(replies));
    tcase_add_test(tcase, a_finished_file_is_given_as_it_is);
    tcase_add_test(tcase, a_finished_file_that_is_empty_is_a_failure);
    tcase_add_test(tcase, a_finished_file_has_a_bound);
    tcase_add_test(tcase, wav_is_made_of_streamed_samples_of_the_asked_rate);
    tcase_add_test(tcase, samples_of_another_rate_say_so);
    tcase_add_test(tcase, a_sink_that_fails_ends_the_call);
    tcase_add_loop_test(tcase, the_models_family_and_the_region_say_where_it_is, 0, (int)COUNT(sites));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
