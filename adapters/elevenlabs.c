/*
 * ElevenLabs: the voice stands in the path and the format in the query; audio as
 * it is comes back.
 */
#include "adapters/providers.h"

#include "adapters/body.h"
#include "adapters/failure.h"
#include "adapters/samples.h"
#include "core/json/writer.h"

enum {
    PARAM_STABILITY,
    PARAM_SIMILARITY,
    PARAM_STYLE,
    PARAM_SPEAKER_BOOST,
    PARAM_LANGUAGE,
    PARAM_SEED,
    N_PARAMS,
};

enum { RATE_HZ = 24000 };

static const struct adapter_param params[N_PARAMS] = {
    [PARAM_STABILITY] = { "stability", PARAM_NUMBER, PARAM_BY_BOTH, 0, 1, NULL, "How even the voice is." },
    [PARAM_SIMILARITY] = { "similarity_boost", PARAM_NUMBER, PARAM_BY_BOTH, 0, 1, NULL,
                           "How close to the original voice." },
    [PARAM_STYLE] = { "style", PARAM_NUMBER, PARAM_BY_BOTH, 0, 1, NULL, "How much of the voice's manner." },
    [PARAM_SPEAKER_BOOST] = { "use_speaker_boost", PARAM_BOOL, PARAM_BY_BOTH, 0, 0, NULL,
                              "Closer to the speaker, and slower to come." },
    [PARAM_LANGUAGE] = { "language_code", PARAM_NAME, PARAM_BY_BOTH, 2, 8, NULL, "The language: \"en\"." },
    [PARAM_SEED] = { "seed", PARAM_WHOLE, PARAM_BY_BOTH, 0, 4294967295.0, NULL,
                     "For the same result again." },
};

/* There is no WAV of OpenAI's rate on all plans: samples get a head here. */
static const struct adapter_format formats[] = {
    { "mp3", "mp3_44100_128", "audio/mpeg" },
    { "opus", "opus_48000_64", "audio/ogg" },
    { "wav", "pcm_24000", "audio/wav" },
    { "pcm", "pcm_24000", "audio/pcm" },
};

static const char *find_endpoint(const struct adapter_site *site, struct arena *arena,
                                 struct adapter_fault *fault)
{
    if (site->region.len > 0) {
        adapter_refuse(fault, arena, "region", "elevenlabs has no regions; \"baseURL\" says where it is");
        return NULL;
    }
    return site->base_url.len > 0 ? arena_span(arena, site->base_url)
                                  : "https://api.elevenlabs.io/v1/text-to-speech";
}

/* ---- the request ---- */

static bool is_id(struct span voice)
{
    for (size_t i = 0; i < voice.len; i++) {
        char c = voice.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
              c == '-'))
            return false;
    }
    return voice.len > 0;
}

static int check(struct adapter_call *call, struct adapter_fault *fault)
{
    if (!is_id(call->voice))
        return adapter_refuse(fault, call->arena, "voice",
                              "`voice` is no id of a voice of this model: \"21m00Tcm4TlvDq8ikWAM\".");
    return 0;
}

/* What `speed` may be there; of a request's it is the nearest. */
static const double slowest = 0.7, fastest = 1.2;

static bool express(const struct adapter_call *call, enum voice_pack_param param, double value,
                    struct adapter_expression *out)
{
    (void)call;
    (void)out;
    return param == VOICE_PACK_RATE && value >= slowest && value <= fastest;
}

static void write_params(struct json_writer *w, const struct adapter_call *call, unsigned first,
                         unsigned last)
{
    for (unsigned i = first; i <= last; i++) {
        if (!call->values[i].is_set)
            continue;
        jw_key(w, params[i].name);
        if (params[i].kind == PARAM_NAME)
            jw_string(w, call->values[i].text);
        else
            jw_raw(w, call->values[i].text);
    }
}

static void write_settings(struct json_writer *w, const struct adapter_call *call)
{
    double speed = call->order->speech->speed;
    bool is_set = speed != 1;
    for (unsigned i = PARAM_STABILITY; i <= PARAM_SPEAKER_BOOST; i++)
        is_set |= call->values[i].is_set;
    if (!is_set)
        return;
    jw_key(w, "voice_settings");
    jw_begin_object(w);
    write_params(w, call, PARAM_STABILITY, PARAM_SPEAKER_BOOST);
    if (speed != 1) {
        speed = speed < slowest ? slowest : speed > fastest ? fastest : speed;
        jw_key(w, "speed");
        jw_raw(w, span_cstr(arena_printf(call->arena, "%g", speed)));
    }
    jw_end_object(w);
}

static void begin(struct adapter_call *call, struct adapter_exchange *out)
{
    static const char *const headers[] = { "Content-Type: application/json", NULL };
    const struct adapter_order *order = call->order;
    struct json_writer w;
    struct buf text;

    out->url = arena_printf(call->arena, "%s/%.*s/stream?output_format=%s", order->endpoint,
                            (int)call->voice.len, call->voice.ptr, call->format->wire);
    out->key_header = "xi-api-key: {KEY}";
    out->headers = headers;
    body_begin(&text);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_member_span(&w, "text", order->speech->input);
    jw_member_span(&w, "model_id", call->model.len > 0 ? call->model : order->asked_model);
    write_settings(&w, call);
    write_params(&w, call, PARAM_LANGUAGE, PARAM_SEED);
    jw_end_object(&w);
    body_end(&text, call, out);
}

/* ---- the reply ---- */

static enum adapter_step head(struct adapter_call *call, const struct adapter_reply *reply)
{
    struct span type = reply->content_type;
    bool is_text = type.len >= 5 && strncasecmp(type.ptr, "text/", 5) == 0;
    bool is_json = type.len >= 16 && strncasecmp(type.ptr, "application/json", 16) == 0;
    return is_text || is_json ? adapter_fail(call, "not_audio", type) : ADAPTER_MORE;
}

static enum adapter_step feed(struct adapter_call *call, struct span piece)
{
    bool is_bare = strcmp(call->format->wire, "pcm_24000") == 0;
    return is_bare ? samples_give(call, piece, RATE_HZ) : adapter_give(call, piece);
}

static enum adapter_step finish(struct adapter_call *call, struct adapter_exchange *next)
{
    (void)call;
    (void)next;
    return ADAPTER_DONE;
}

/* ---- failures ---- */

/* An empty account and a dead key come under one status. */
static const struct failure_rule rules[] = {
    { .code = "quota_exceeded", .class = ADAPTER_QUOTA },
    { .code = "invalid_api_key", .class = ADAPTER_AUTH },
    { .code = "missing_permissions", .class = ADAPTER_CONFIG },
    { .code = "too_many_concurrent_requests", .class = ADAPTER_RATE },
    { .code = "system_busy", .class = ADAPTER_RATE },
    { .code = "voice_not_found", .class = ADAPTER_CLIENT, .param = "voice" },
    { .code = "max_character_limit_exceeded", .class = ADAPTER_CLIENT, .param = "input" },
    { .code = "model_not_found", .class = ADAPTER_CONFIG },
    { .status = 200, .last_status = 299, .class = ADAPTER_SERVER },
    { .status = 400, .class = ADAPTER_CLIENT },
    { .status = 401, .class = ADAPTER_AUTH },
    { .status = 402, .class = ADAPTER_QUOTA },
    { .status = 403, .class = ADAPTER_CONFIG },
    { .status = 422, .class = ADAPTER_CLIENT },
    { .status = 429, .class = ADAPTER_RATE },
    { .status = 500, .last_status = 599, .class = ADAPTER_SERVER },
};

static void classify(const struct adapter_failure *failure, struct arena *arena, struct adapter_opinion *out)
{
    static const char *const paths[] = { "detail.status", "detail.message", "detail" };
    struct span texts[3];

    (void)failure_read(failure->body, paths, 3, arena, texts);
    const struct failure_facts facts = { failure->status, texts[0], texts[1].len > 0 ? texts[1] : texts[2] };
    failure_judge(rules, sizeof(rules) / sizeof(rules[0]), &facts, arena, out);
}

const struct adapter adapter_elevenlabs = {
    .name = "elevenlabs",
    .system = "elevenlabs",
    .trace_header = "request-id",
    .params = params,
    .n_params = N_PARAMS,
    .formats = formats,
    .n_formats = sizeof(formats) / sizeof(formats[0]),
    .skills = ADAPTER_SPEED,
    .endpoint = find_endpoint,
    .express = express,
    .check = check,
    .begin = begin,
    .head = head,
    .feed = feed,
    .finish = finish,
    .classify = classify,
};
