/*
 * Volcengine's v3: one exchange, whose reply is a row of JSON objects, each with a
 * part of the audio, and one that says that it is over. Its second endpoint, ".../sse",
 * sends the same objects as events; we follow what came.
 */
#include "adapters/volcengine.h"

#include "adapters/body.h"
#include "adapters/event_reader.h"
#include "adapters/json_audio.h"
#include "adapters/samples.h"
#include "core/base/err.h"
#include "core/json/scan.h"
#include "core/json/writer.h"

#include <stdlib.h>

enum { CODE_AUDIO = 0, CODE_END = 20000000, ADDITIONS_BYTES = 64 * 1024 };

struct state {
    struct adapter_call *call;
    bool is_events;
    bool takes_samples; /* their WAV repeats its head with every part: samples are asked for instead */
    bool is_refused;    /* the object's code says failure: what it calls audio is none */
    bool is_begun;      /* some audio of the object has come */
    enum adapter_step step;
    struct event_reader events;
    struct json_audio audio;
};

static const char *const audio_path[] = { "data", NULL };

/* The pitch is a member of the additions, as they are sent. */
int volcengine_v3_check(const struct adapter_value *values, const char *place, struct arena *arena,
                        struct adapter_fault *fault)
{
    static const struct json_want want = { "post_process", false };
    const struct adapter_value *additions = &values[VOLCENGINE_ADDITIONS];
    const char *param = arena_printf(arena, "%s.additions", place);
    struct json_value found;

    if (!additions->is_set)
        return 0;
    if (additions->text.ptr[0] != '{')
        return adapter_refuse(fault, arena, param, "`%s` has to be an object.", param);
    if (values[VOLCENGINE_PITCH].is_set && json_find(additions->text, &want, 1, 0, &found, NULL) == 0 &&
        found.kind != JSON_KIND_ABSENT)
        return adapter_refuse(fault, arena, param, "`%s.post_process` and `pitch` are the same: give one.",
                              param);
    return 0;
}

/* ---- the request ---- */

/* What a voice needs to have been bought; the first that fits. */
static const struct {
    const char *begin, *end, *resource;
} resources[] = {
    { "", "_uranus_bigtts", "seed-tts-2.0" },
    { "saturn_", "", "seed-tts-2.0" },
    { "S_", "", "seed-icl-1.0" },
    { "", "", "seed-tts-1.0" },
};

static struct span resource_of(const struct adapter_call *call)
{
    const struct adapter_value *value = &call->values[VOLCENGINE_RESOURCE_ID];
    struct span voice = call->voice;
    size_t i = 0;
    if (value->is_set)
        return value->text;
    for (;; i++) {
        size_t end = strlen(resources[i].end);
        if (span_starts(voice, resources[i].begin) && voice.len >= end &&
            span_is(span_of(voice.ptr + voice.len - end, end), resources[i].end))
            return span_cstr(resources[i].resource);
    }
}

static void write_value(struct json_writer *w, const struct adapter_call *call, enum volcengine_param param,
                        const char *name)
{
    const struct adapter_value *value = &call->values[param];
    if (!value->is_set)
        return;
    jw_key(w, name);
    if (call->order->adapter->params[param].kind == PARAM_NAME)
        jw_string(w, value->text);
    else
        jw_raw(w, value->text);
}

/* 100 is twice as fast, -50 half. */
static long speech_rate(double speed)
{
    long rate = (long)((speed - 1) * 100 + (speed < 1 ? -0.5 : 0.5));
    return rate < -50 ? -50 : rate > 100 ? 100 : rate;
}

/* The semitone that is nearest to a factor. */
static int semitone_of(double factor)
{
    static const double semitone = 1.0594630943592953, quarter = 1.0293022366434921;
    int n = 0;
    for (; factor > quarter && n < 12; n++)
        factor /= semitone;
    for (; factor < 1 / quarter && n > -12; n--)
        factor *= semitone;
    return n;
}

/* A loudness and a speed of which 0 is usual, in whole percent, and whole semitones: less than a half would
 * be none. */
bool volcengine_v3_express(const struct adapter_call *call, enum voice_pack_param param, double value,
                           struct adapter_expression *out)
{
    bool is_usual = voice_pack_is_usual(param, value);
    if (param == VOICE_PACK_RATE)
        return value >= 0.5 && value <= 2 && (speech_rate(value) != 0 || is_usual);
    if (param == VOICE_PACK_VOLUME) {
        *out =
            (struct adapter_expression){ VOLCENGINE_LOUDNESS_RATE, arena_printf(call->arena, "%.0f", value) };
        return value >= -50 && (strtol(out->text, NULL, 10) != 0 || is_usual);
    }
    int semitones = semitone_of(1 + value / 100);
    *out = (struct adapter_expression){ VOLCENGINE_PITCH, arena_printf(call->arena, "%d", semitones) };
    return semitones != 0 || is_usual;
}

static void write_audio(struct json_writer *w, const struct adapter_call *call)
{
    const struct state *state = call->state;
    jw_key(w, "audio_params");
    jw_begin_object(w);
    jw_member_cstr(w, "format", state->takes_samples ? "pcm" : call->format->wire);
    jw_member_uint(w, "sample_rate", volcengine_rate_hz(call));
    if (call->order->speech->speed != 1)
        jw_member_int(w, "speech_rate", speech_rate(call->order->speech->speed));
    if (strcmp(call->format->name, "mp3") == 0)
        write_value(w, call, VOLCENGINE_BIT_RATE, "bit_rate");
    write_value(w, call, VOLCENGINE_LOUDNESS_RATE, "loudness_rate");
    write_value(w, call, VOLCENGINE_EMOTION, "emotion");
    write_value(w, call, VOLCENGINE_EMOTION_SCALE, "emotion_scale");
    jw_end_object(w);
}

static int copy_member(void *ctx, const struct json_value *value)
{
    struct json_writer *w = ctx;
    /* A name is written as it was: it is JSON already. */
    jw_raw(w, span_of(value->key.ptr - 1, value->key.len + 2));
    buf_append_char(w->out, ':');
    w->need_comma = false;
    jw_raw(w, value->raw);
    return 0;
}

/* An object in a string; the pitch is a member of it. */
static void write_additions(struct json_writer *w, const struct adapter_call *call)
{
    static const struct json_want members = { "*", false };
    const struct adapter_value *additions = &call->values[VOLCENGINE_ADDITIONS];
    const struct adapter_value *pitch = &call->values[VOLCENGINE_PITCH];
    struct json_writer inner;
    struct buf text;

    if (!additions->is_set && !pitch->is_set)
        return;
    buf_init(&text, ADDITIONS_BYTES);
    jw_init(&inner, &text);
    jw_begin_object(&inner);
    if (additions->is_set)
        (void)json_scan(additions->text, &members, 1, 0, copy_member, &inner, NULL);
    if (pitch->is_set) {
        jw_key(&inner, "post_process");
        jw_begin_object(&inner);
        jw_key(&inner, "pitch");
        jw_raw(&inner, pitch->text);
        jw_end_object(&inner);
    }
    jw_end_object(&inner);
    jw_member_span(w, "additions", buf_span(&text));
    buf_free(&text);
}

static void write_body(const struct adapter_call *call, struct buf *text)
{
    struct json_writer w;
    jw_init(&w, text);
    jw_begin_object(&w);
    jw_key(&w, "user");
    jw_begin_object(&w);
    jw_member_cstr(&w, "uid", "llm-router");
    jw_end_object(&w);
    jw_key(&w, "req_params");
    jw_begin_object(&w);
    jw_member_span(&w, "text", call->order->speech->input);
    jw_member_span(&w, "speaker", call->voice);
    write_audio(&w, call);
    write_additions(&w, call);
    jw_end_object(&w);
    jw_end_object(&w);
}

static void free_audio(void *audio)
{
    json_audio_free(audio);
}

/* Keys of the old console come with an application's number; the two schemes do not mix. */
static void write_headers(struct adapter_call *call, struct adapter_exchange *out)
{
    const char **headers = arena_array_of(call->arena, const char *, 6);
    const struct adapter_value *appid = &call->values[VOLCENGINE_APPID];
    struct span resource = resource_of(call);
    const char *id = call->order->id;
    size_t n = 0;

    headers[n++] = "Content-Type: application/json";
    headers[n++] = arena_printf(call->arena, "X-Api-Resource-Id: %.*s", (int)resource.len, resource.ptr);
    headers[n++] = arena_printf(call->arena, "X-Api-Request-Id: %.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8,
                                id + 12, id + 16, id + 20);
    headers[n++] = "X-Control-Require-Usage-Tokens-Return: *";
    if (appid->is_set)
        headers[n++] = arena_printf(call->arena, "X-Api-App-Id: %.*s", (int)appid->text.len, appid->text.ptr);
    out->headers = headers;
    out->key_header = appid->is_set ? "X-Api-Access-Key: {KEY}" : "X-Api-Key: {KEY}";
}

void volcengine_v3_begin(struct adapter_call *call, struct adapter_exchange *out)
{
    struct state *state = arena_new_of(call->arena, struct state);
    struct buf text;

    state->call = call;
    state->takes_samples = strcmp(call->format->name, "wav") == 0;
    json_audio_init(&state->audio, audio_path);
    arena_on_reset(call->arena, free_audio, &state->audio);
    call->state = state;
    out->url = call->order->endpoint;
    write_headers(call, out);
    body_begin(&text);
    write_body(call, &text);
    body_end(&text, call, out);
}

/* ---- the reply ---- */

static int keep_step(struct state *state, enum adapter_step step)
{
    state->step = step;
    return step == ADAPTER_MORE ? 0 : ERR_STOPPED;
}

static int on_audio(void *ctx, struct span bytes)
{
    struct state *state = ctx;
    struct adapter_call *call = state->call;

    if (!state->is_begun)
        state->is_refused = volcengine_says_failure(buf_span(&state->audio.text), CODE_AUDIO);
    state->is_begun = true;
    if (state->is_refused)
        return 0;
    return keep_step(state, state->takes_samples ? samples_give(call, bytes, volcengine_rate_hz(call))
                                                 : adapter_give(call, bytes));
}

static void read_usage(struct adapter_call *call, struct span text)
{
    static const struct json_want want = { "usage.text_words", false };
    struct json_value found;
    long long words;
    if (json_find(text, &want, 1, 0, &found, NULL) == 0 && found.kind == JSON_KIND_NUMBER &&
        json_int(found.raw, &words))
        call->characters = words;
}

static int on_object(void *ctx, struct span text, uint64_t audio_bytes)
{
    struct state *state = ctx;
    struct adapter_call *call = state->call;
    long long code;

    (void)audio_bytes;
    state->is_begun = false;
    if (!volcengine_read_code(text, &code) || (code != CODE_AUDIO && code != CODE_END))
        return keep_step(state, adapter_fail(call, "error_code", text));
    if (code == CODE_AUDIO)
        return 0;
    read_usage(call, text);
    /* They say so for a text that the voice cannot read. */
    return keep_step(state, call->audio_bytes > 0 ? ADAPTER_DONE : adapter_fail(call, "no_audio", text));
}

enum adapter_step volcengine_v3_head(struct adapter_call *call, const struct adapter_reply *reply)
{
    static const char events[] = "text/event-stream";
    struct state *state = call->state;
    struct span type = reply->content_type;
    state->is_events = type.len >= strlen(events) && strncasecmp(type.ptr, events, strlen(events)) == 0;
    return ADAPTER_MORE;
}

static int feed_objects(void *ctx, struct span bytes)
{
    struct state *state = ctx;
    const struct json_audio_sink sink = { .ctx = state, .on_audio = on_audio, .on_object = on_object };
    if (json_audio_feed(&state->audio, bytes, &sink) != 0 && state->step == ADAPTER_MORE)
        state->step = adapter_fail(state->call, "not_json", buf_span(&state->audio.text));
    return state->step == ADAPTER_MORE ? 0 : ERR_STOPPED;
}

/* Its number says what the object's code says. */
static int on_event(void *ctx, const struct event_head *event)
{
    struct state *state = ctx;
    (void)event;
    if (json_audio_is_between(&state->audio))
        return 0;
    return keep_step(state, adapter_fail(state->call, "not_json", buf_span(&state->audio.text)));
}

enum adapter_step volcengine_v3_feed(struct adapter_call *call, struct span piece)
{
    struct state *state = call->state;
    const struct event_sink sink = { .ctx = state, .on_data = feed_objects, .on_event = on_event };

    if (state->step != ADAPTER_MORE)
        return state->step;
    if (state->is_events)
        (void)event_reader_feed(&state->events, piece, &sink);
    else
        (void)feed_objects(state, piece);
    return state->step;
}

enum adapter_step volcengine_v3_finish(struct adapter_call *call, struct adapter_exchange *next)
{
    struct state *state = call->state;
    (void)next;
    return state->step == ADAPTER_MORE ? adapter_fail(call, "no_end", buf_span(&state->audio.text))
                                       : state->step;
}
