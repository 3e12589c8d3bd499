/*
 * Volcengine's v1: a text beyond the bound of one request is cut where a reader
 * would pause, each piece is an exchange, and the clips become one file.
 */
#include "adapters/volcengine.h"

#include "adapters/body.h"
#include "adapters/characters.h"
#include "adapters/json_audio.h"
#include "adapters/join.h"
#include "adapters/split.h"
#include "core/base/err.h"
#include "core/json/writer.h"

enum { TEXT_BYTES_MAX = 1024, CODE_SUCCESS = 3000 };

struct state {
    struct adapter_call *call;
    struct span rest; /* of the text, behind the piece that is being spoken */
    unsigned n_piece; /* the number of that piece */
    bool is_joined;   /* the text takes more than one */
    bool has_object;  /* the reply's one object has come */
    bool is_refused;  /* its code says failure: what it calls audio is none */
    bool is_begun;    /* some of its audio has come */
    enum adapter_step step;
    struct json_audio audio;
    struct join join;
};

static const char *const audio_path[] = { "data", NULL };

/* ---- the text ---- */

/* The next piece that can be read out: the provider refuses any other. Of a text
 * in which nothing can be, the beginning, for the provider to refuse. */
static struct span take_piece(struct span *rest)
{
    struct span piece = split_take(rest, TEXT_BYTES_MAX);
    while (!character_any_readable(piece) && character_any_readable(*rest))
        piece = split_take(rest, TEXT_BYTES_MAX);
    if (!character_any_readable(*rest))
        rest->len = 0;
    return piece;
}

int volcengine_v1_check(struct adapter_call *call, struct adapter_fault *fault)
{
    const struct adapter_value *values = call->values;

    if (span_is(values[VOLCENGINE_TEXT_TYPE].text, "ssml") && call->order->speech->input.len > TEXT_BYTES_MAX)
        return adapter_refuse(fault, call->arena, "input",
                              "`input` is SSML of %zu bytes; this model takes at most %d, and no part of a "
                              "document is one.",
                              call->order->speech->input.len, TEXT_BYTES_MAX);
    return 0;
}

/* ---- the request ---- */

static void write_number(struct json_writer *w, const struct adapter_call *call, const char *name,
                         double number)
{
    jw_key(w, name);
    jw_raw(w, span_cstr(arena_printf(call->scratch, "%g", number)));
}

/* A parameter under its name at the provider, if it is set. */
static void write_param(struct json_writer *w, const struct adapter_call *call, enum volcengine_param param,
                        const char *name)
{
    const struct adapter_value *value = &call->values[param];
    const struct adapter_param *row = &call->order->adapter->params[param];
    if (!value->is_set)
        return;
    jw_key(w, name);
    if (row->kind == PARAM_NAME || row->kind == PARAM_CHOICE || row->kind == PARAM_JSON)
        jw_string(w, value->text); /* an object goes in a string here */
    else
        jw_raw(w, value->text);
}

/* How fast a voice can speak. */
struct pace {
    double low, high;
};

static struct pace pace_of(struct span voice)
{
    return volcengine_is_old_voice(voice) ? (struct pace){ 0.2, 3 } : (struct pace){ 0.8, 2 };
}

static double speed_ratio(const struct adapter_call *call)
{
    struct pace pace = pace_of(call->voice);
    double speed = call->order->speech->speed;
    return speed < pace.low ? pace.low : speed > pace.high ? pace.high : speed;
}

/* Factors, by other names for the older voices; the pitch of the newer ones is what it is. */
bool volcengine_v1_express(const struct adapter_call *call, enum voice_pack_param param, double value,
                           struct adapter_expression *out)
{
    bool is_old = volcengine_is_old_voice(call->voice);
    struct pace pace = pace_of(call->voice);
    if (param == VOICE_PACK_RATE)
        return value >= pace.low && value <= pace.high;
    if (param == VOICE_PACK_PITCH)
        out->param = VOLCENGINE_PITCH_RATIO;
    else
        out->param = is_old ? VOLCENGINE_VOLUME_RATIO : VOLCENGINE_LOUDNESS_RATIO;
    out->text = arena_printf(call->arena, "%g", 1 + value / 100);
    return param == VOICE_PACK_PITCH ? is_old : value >= (is_old ? -90 : -50);
}

static void write_audio(struct json_writer *w, const struct adapter_call *call)
{
    jw_key(w, "audio");
    jw_begin_object(w);
    jw_member_span(w, "voice_type", call->voice);
    jw_member_cstr(w, "encoding", call->format->wire);
    jw_member_uint(w, "rate", volcengine_rate_hz(call));
    if (call->order->speech->speed != 1)
        write_number(w, call, "speed_ratio", speed_ratio(call));
    if (strcmp(call->format->name, "mp3") == 0)
        write_param(w, call, VOLCENGINE_BIT_RATE, "bitrate");
    write_param(w, call, VOLCENGINE_EMOTION, "emotion");
    write_param(w, call, VOLCENGINE_EMOTION_SCALE, "emotion_scale");
    write_param(w, call, VOLCENGINE_ENABLE_EMOTION, "enable_emotion");
    write_param(w, call, VOLCENGINE_LANGUAGE, "language");
    write_param(w, call, VOLCENGINE_EXPLICIT_LANGUAGE, "explicit_language");
    write_param(w, call, VOLCENGINE_CONTEXT_LANGUAGE, "context_language");
    write_param(w, call, VOLCENGINE_LOUDNESS_RATIO, "loudness_ratio");
    write_param(w, call, VOLCENGINE_VOLUME_RATIO, "volume_ratio");
    write_param(w, call, VOLCENGINE_PITCH_RATIO, "pitch_ratio");
    jw_end_object(w);
}

static void write_request(struct json_writer *w, const struct adapter_call *call, struct span piece,
                          bool is_last)
{
    const struct state *state = call->state;
    jw_key(w, "request");
    jw_begin_object(w);
    jw_member_cstr(w, "reqid", arena_printf(call->scratch, "%s-%u", call->order->id, state->n_piece));
    jw_member_span(w, "text", piece);
    write_param(w, call, VOLCENGINE_TEXT_TYPE, "text_type");
    jw_member_cstr(w, "operation", "query");
    if (is_last) /* the silence is one at the end */
        write_param(w, call, VOLCENGINE_SILENCE_DURATION, "silence_duration");
    write_param(w, call, VOLCENGINE_EXTRA_PARAM, "extra_param");
    jw_end_object(w);
}

static void write_exchange(struct adapter_call *call, struct span piece, struct adapter_exchange *out)
{
    static const char *const headers[] = { "Content-Type: application/json", NULL };
    const struct state *state = call->state;
    const struct adapter_value *values = call->values;
    struct span cluster = values[VOLCENGINE_CLUSTER].text;
    struct json_writer w;
    struct buf text;

    out->url = call->order->endpoint;
    out->key_header = "Authorization: Bearer;{KEY}"; /* a semicolon: their own form */
    out->headers = headers;
    body_begin(&text);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_key(&w, "app");
    jw_begin_object(&w);
    jw_member_span(&w, "appid", values[VOLCENGINE_APPID].text);
    jw_member_cstr(&w, "token", "in-the-header"); /* required, and not what is checked */
    jw_member_span(&w, "cluster", cluster.len > 0 ? cluster : span_cstr("volcano_tts"));
    jw_end_object(&w);
    jw_key(&w, "user");
    jw_begin_object(&w);
    jw_member_cstr(&w, "uid", "llm-router");
    jw_end_object(&w);
    write_audio(&w, call);
    write_request(&w, call, piece, state->rest.len == 0);
    jw_end_object(&w);
    body_end(&text, call, out);
}

static void free_state(void *ctx)
{
    struct state *state = ctx;
    json_audio_free(&state->audio);
    join_free(&state->join);
}

static enum join_format join_format_of(const struct adapter_format *format)
{
    static const struct {
        const char *wire;
        enum join_format join;
    } rows[] = {
        { "mp3", JOIN_MP3 },
        { "ogg_opus", JOIN_OGG_OPUS },
        { "wav", JOIN_WAV },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].wire, format->wire) == 0)
            return rows[i].join;
    return JOIN_PCM16;
}

void volcengine_v1_begin(struct adapter_call *call, struct adapter_exchange *out)
{
    struct state *state = arena_new_of(call->arena, struct state);

    state->call = call;
    state->rest = call->order->speech->input;
    json_audio_init(&state->audio, audio_path);
    join_init(&state->join, join_format_of(call->format));
    arena_on_reset(call->arena, free_state, state);
    call->state = state;
    struct span piece = take_piece(&state->rest);
    state->is_joined = state->rest.len > 0;
    write_exchange(call, piece, out);
}

/* ---- the reply ---- */

static int keep_step(struct state *state, enum adapter_step step)
{
    state->step = step;
    return step == ADAPTER_MORE ? 0 : ERR_STOPPED;
}

static int give_joined(void *ctx, struct span bytes)
{
    struct state *state = ctx;
    return keep_step(state, adapter_give(state->call, bytes));
}

static int join_step(struct state *state, int result)
{
    if (result != 0 && state->step == ADAPTER_MORE)
        state->step = adapter_fail(state->call, "not_joinable", (struct span){ NULL, 0 });
    return result;
}

static int on_audio(void *ctx, struct span bytes)
{
    struct state *state = ctx;
    const struct join_sink sink = { .ctx = state, .give = give_joined };

    if (!state->is_begun)
        state->is_refused = volcengine_says_failure(buf_span(&state->audio.text), CODE_SUCCESS);
    state->is_begun = true;
    if (state->is_refused)
        return 0;
    return state->is_joined ? join_step(state, join_feed(&state->join, bytes, &sink))
                            : give_joined(state, bytes);
}

static int on_object(void *ctx, struct span text, uint64_t audio_bytes)
{
    struct state *state = ctx;
    long long code;

    if (!volcengine_read_code(text, &code) || state->has_object)
        return keep_step(state, adapter_fail(state->call, "not_json", text));
    if (code != CODE_SUCCESS)
        return keep_step(state, adapter_fail(state->call, "error_code", text));
    if (audio_bytes == 0)
        return keep_step(state, adapter_fail(state->call, "no_audio", text));
    state->has_object = true;
    return 0;
}

enum adapter_step volcengine_v1_feed(struct adapter_call *call, struct span piece)
{
    struct state *state = call->state;
    const struct json_audio_sink sink = { .ctx = state, .on_audio = on_audio, .on_object = on_object };

    if (state->step == ADAPTER_MORE && json_audio_feed(&state->audio, piece, &sink) != 0 &&
        state->step == ADAPTER_MORE)
        state->step = adapter_fail(call, "not_json", buf_span(&state->audio.text));
    return state->step;
}

enum adapter_step volcengine_v1_finish(struct adapter_call *call, struct adapter_exchange *next)
{
    struct state *state = call->state;
    const struct join_sink sink = { .ctx = state, .give = give_joined };

    if (state->step == ADAPTER_MORE && !state->has_object)
        return adapter_fail(call, "not_json", buf_span(&state->audio.text));
    if (state->step == ADAPTER_MORE && state->is_joined)
        (void)join_step(state, join_end_clip(&state->join, state->rest.len == 0, &sink));
    if (state->step != ADAPTER_MORE)
        return state->step;
    if (state->rest.len == 0)
        return ADAPTER_DONE;
    state->n_piece++;
    state->has_object = state->is_begun = false;
    write_exchange(call, take_piece(&state->rest), next);
    return ADAPTER_AGAIN;
}
