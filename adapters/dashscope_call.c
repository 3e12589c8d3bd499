/*
 * One call of dashscope's: the request, and audio out of events, a document, or a
 * file that lies elsewhere.
 */
#include "adapters/dashscope.h"

#include "adapters/body.h"
#include "adapters/download_url.h"
#include "adapters/event_reader.h"
#include "adapters/json_audio.h"
#include "adapters/samples.h"
#include "core/base/err.h"
#include "core/json/scan.h"
#include "core/json/writer.h"

enum { CLIP_BYTES = 128 * 1024 * 1024 };

enum mode { MODE_EVENTS, MODE_DOCUMENT, MODE_CLIP };

struct state {
    struct adapter_call *call;
    const struct dashscope_model *model;
    enum mode mode;
    bool takes_samples; /* to make WAV of: theirs may have a head in each event */
    bool is_stopped;    /* the provider said that it finished */
    enum adapter_step step;
    struct event_reader events;
    struct json_audio audio;
    struct span url; /* of the finished clip; empty: none was named */
};

/* Qwen's finished files are WAV; its samples come in events only. */
static bool is_streamed(const struct adapter_call *call, const struct dashscope_model *model)
{
    const struct adapter_value *stream = &call->values[DASHSCOPE_STREAM];
    return !stream->is_set || stream->truth ||
           (model->family == DASHSCOPE_QWEN && call->format == &dashscope_formats[DASHSCOPE_PCM]);
}

/* ---- the request ---- */

static void write_value(struct json_writer *w, const struct adapter_param *param,
                        const struct adapter_value *value)
{
    jw_key(w, param->name);
    if (param->kind == PARAM_TEXT || param->kind == PARAM_NAME || param->kind == PARAM_CHOICE)
        jw_string(w, value->text);
    else
        jw_raw(w, value->text);
}

static void write_cosyvoice(struct json_writer *w, const struct adapter_call *call, const char *format)
{
    const struct speech_facts *speech = call->order->speech;
    double rate = speech->speed < 0.5 ? 0.5 : speech->speed > 2 ? 2 : speech->speed;

    jw_member_cstr(w, "format", format);
    jw_member_uint(w, "sample_rate", dashscope_rate_hz(call));
    if (speech->speed != 1) {
        jw_key(w, "rate");
        jw_raw(w, span_cstr(arena_printf(call->arena, "%g", rate)));
    }
    if (speech->instructions.len > 0)
        jw_member_span(w, "instruction", speech->instructions);
}

static void write_body(struct adapter_call *call, const struct state *state, struct buf *text)
{
    struct json_writer w;
    const struct speech_facts *speech = call->order->speech;
    bool is_opus = strcmp(call->format->name, "opus") == 0;

    jw_init(&w, text);
    jw_begin_object(&w);
    jw_member_span(&w, "model", dashscope_real_model(call));
    jw_key(&w, "input");
    jw_begin_object(&w);
    jw_member_span(&w, "text", speech->input);
    jw_member_span(&w, "voice", call->voice);
    if (state->model->family == DASHSCOPE_COSYVOICE)
        write_cosyvoice(&w, call, state->takes_samples ? "pcm" : call->format->wire);
    else if (speech->instructions.len > 0)
        jw_member_span(&w, "instructions", speech->instructions);
    for (unsigned i = DASHSCOPE_VOLUME; i < DASHSCOPE_PARAMS_COUNT; i++)
        if (call->values[i].is_set && dashscope_has_param(i, state->model) &&
            (i != DASHSCOPE_BIT_RATE || is_opus))
            write_value(&w, &dashscope_params[i], &call->values[i]);
    jw_end_object(&w);
    jw_end_object(&w);
}

static const char *const audio_path[] = { "output", "audio", "data", NULL };

static void free_audio(void *audio)
{
    json_audio_free(audio);
}

void dashscope_begin(struct adapter_call *call, struct adapter_exchange *out)
{
    const char **headers = arena_array_of(call->arena, const char *, 4);
    struct state *state = arena_new_of(call->arena, struct state);
    const struct adapter_value *workspace = &call->values[DASHSCOPE_WORKSPACE];
    struct buf text;
    size_t n = 0;

    state->call = call;
    state->model = dashscope_model_of(dashscope_real_model(call));
    bool is_stream = is_streamed(call, state->model);
    state->takes_samples = is_stream && call->format == &dashscope_formats[DASHSCOPE_WAV];
    json_audio_init(&state->audio, audio_path);
    arena_on_reset(call->arena, free_audio, &state->audio);
    call->state = state;
    if (call->format == &dashscope_formats[DASHSCOPE_PCM])
        call->type = samples_type(dashscope_rate_hz(call));

    headers[n++] = "Content-Type: application/json";
    if (is_stream)
        headers[n++] = "X-DashScope-SSE: enable";
    if (workspace->is_set)
        headers[n++] = arena_printf(call->arena, "X-DashScope-WorkSpace: %.*s", (int)workspace->text.len,
                                    workspace->text.ptr);
    out->url = call->order->endpoint;
    out->key_header = "Authorization: Bearer {KEY}";
    out->headers = headers;
    body_begin(&text);
    write_body(call, state, &text);
    body_end(&text, call, out);
}

/* ---- the reply ---- */

static bool is_type(struct span type, const char *name)
{
    size_t len = strlen(name);
    return type.len >= len && strncasecmp(type.ptr, name, len) == 0;
}

enum adapter_step dashscope_head(struct adapter_call *call, const struct adapter_reply *reply)
{
    struct state *state = call->state;
    if (state->mode != MODE_CLIP)
        state->mode = is_type(reply->content_type, "text/event-stream") ? MODE_EVENTS : MODE_DOCUMENT;
    return ADAPTER_MORE;
}

static int keep_step(struct state *state, enum adapter_step step)
{
    state->step = step;
    return step == ADAPTER_MORE ? 0 : ERR_STOPPED;
}

static int on_audio(void *ctx, struct span bytes)
{
    struct state *state = ctx;
    struct adapter_call *call = state->call;
    return keep_step(state, state->takes_samples ? samples_give(call, bytes, dashscope_rate_hz(call))
                                                 : adapter_give(call, bytes));
}

enum { FOUND_CODE, FOUND_FINISH, FOUND_URL, FOUND_USAGE, FOUND_CHARACTERS, N_FOUND };

static const struct json_want wants[N_FOUND] = {
    [FOUND_CODE] = { "code", false },
    [FOUND_FINISH] = { "output.finish_reason", false },
    [FOUND_URL] = { "output.audio.url", false },
    [FOUND_USAGE] = { "usage", false },
    [FOUND_CHARACTERS] = { "usage.characters", false },
};

static bool is_filled(const struct json_value *value)
{
    return value->kind == JSON_KIND_STRING && value->raw.len > 2;
}

/* An object of a stream, or the whole of a document. An error has a code at its
 * top, whatever the status says. */
static int on_object(void *ctx, struct span text, uint64_t audio_bytes)
{
    struct state *state = ctx;
    struct adapter_call *call = state->call;
    struct json_value found[N_FOUND];
    long long characters;

    (void)audio_bytes;
    if (json_find(text, wants, N_FOUND, 0, found, NULL) != 0)
        return keep_step(state, adapter_fail(call, "not_json", text));
    if (is_filled(&found[FOUND_CODE]) || found[FOUND_CODE].kind == JSON_KIND_NUMBER)
        return keep_step(state, adapter_fail(call, "error_event", text));
    if (found[FOUND_USAGE].kind == JSON_KIND_OBJECT)
        usage_read(found[FOUND_USAGE].raw, &call->usage);
    if (found[FOUND_CHARACTERS].kind == JSON_KIND_NUMBER &&
        json_int(found[FOUND_CHARACTERS].raw, &characters))
        call->characters = characters;
    if (is_filled(&found[FOUND_URL]))
        state->url = json_decode(call->arena, found[FOUND_URL].raw);
    state->is_stopped |=
        found[FOUND_FINISH].kind == JSON_KIND_STRING && json_string_is(found[FOUND_FINISH].raw, "stop");
    return 0;
}

static int feed_json(struct state *state, struct span bytes)
{
    const struct json_audio_sink sink = { .ctx = state, .on_audio = on_audio, .on_object = on_object };
    int r = json_audio_feed(&state->audio, bytes, &sink);
    if (r != 0 && state->step == ADAPTER_MORE)
        state->step = adapter_fail(state->call, "not_json", buf_span(&state->audio.text));
    return state->step == ADAPTER_MORE ? 0 : ERR_STOPPED;
}

static int on_event_data(void *ctx, struct span bytes)
{
    return feed_json(ctx, bytes);
}

static int on_event(void *ctx, const struct event_head *event)
{
    struct state *state = ctx;
    if (!json_audio_is_between(&state->audio))
        return keep_step(state, adapter_fail(state->call, "not_json", buf_span(&state->audio.text)));
    if (span_is(event->name, "error") || event->status >= 400)
        return keep_step(state, adapter_fail(state->call, "error_event", (struct span){ NULL, 0 }));
    return 0;
}

/* The finished file: a WAV of Qwen's, or of the format that was asked for. */
static enum adapter_step feed_clip(struct adapter_call *call, struct span piece)
{
    struct state *state = call->state;
    if (call->audio_bytes + piece.len > CLIP_BYTES)
        return adapter_fail(call, "clip_too_large", (struct span){ NULL, 0 });
    if (state->model->family == DASHSCOPE_QWEN)
        return adapter_give(call, piece);
    (void)on_audio(state, piece);
    return state->step;
}

enum adapter_step dashscope_feed(struct adapter_call *call, struct span piece)
{
    struct state *state = call->state;
    const struct event_sink sink = { .ctx = state, .on_data = on_event_data, .on_event = on_event };

    if (state->step != ADAPTER_MORE)
        return state->step;
    if (state->mode == MODE_CLIP)
        return feed_clip(call, piece);
    if (state->mode == MODE_EVENTS)
        (void)event_reader_feed(&state->events, piece, &sink);
    else
        (void)feed_json(state, piece);
    return state->step;
}

static enum adapter_step get_clip(struct adapter_call *call, struct adapter_exchange *next)
{
    struct state *state = call->state;
    const char *url = download_url_check(state->url, "aliyuncs.com", call->order->endpoint, call->arena);

    if (url == NULL)
        return adapter_fail(call, "url_not_allowed", state->url);
    state->mode = MODE_CLIP;
    next->url = url;
    next->is_get = true;
    return ADAPTER_AGAIN;
}

enum adapter_step dashscope_finish(struct adapter_call *call, struct adapter_exchange *next)
{
    struct state *state = call->state;
    const struct event_sink sink = { .ctx = state, .on_data = on_event_data, .on_event = on_event };

    if (state->mode == MODE_CLIP)
        return ADAPTER_DONE;
    if (state->mode == MODE_EVENTS)
        (void)event_reader_finish(&state->events, &sink);
    if (state->step != ADAPTER_MORE)
        return state->step;
    if (!json_audio_is_between(&state->audio))
        return adapter_fail(call, "not_json", buf_span(&state->audio.text));
    if (state->mode == MODE_EVENTS && !state->is_stopped)
        return adapter_fail(call, "no_end", (struct span){ NULL, 0 });
    /* The last event names the file of all that came already. */
    return call->audio_bytes > 0 || state->url.len == 0 ? ADAPTER_DONE : get_clip(call, next);
}
