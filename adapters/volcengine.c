/*
 * Volcengine's openspeech: one provider, two protocols. v1 answers a request of at
 * most 1,024 bytes of text with one JSON object that holds all of the audio; v3
 * streams objects, each with a part of it, by themselves or as events. An upstream
 * is configured for one.
 */
#include "adapters/providers.h"

#include "adapters/samples.h"
#include "adapters/volcengine.h"
#include "core/json/scan.h"

enum { DEFAULT_RATE_HZ = 24000, OBJECT_BYTES = 16 * 1024 };

static const char *const apis[] = { "v1", "v3", NULL };
static const char *const text_types[] = { "plain", "ssml", NULL };

static const struct adapter_param params[VOLCENGINE_PARAMS_COUNT] = {
    [VOLCENGINE_API] = { "api", PARAM_CHOICE, PARAM_BY_OPERATOR, 0, 0, apis,
                         "The protocol: \"v1\" (the default) or \"v3\"." },
    [VOLCENGINE_APPID] = { "appid", PARAM_NAME, PARAM_BY_OPERATOR, 1, 64, NULL,
                           "The application's number: needed for v1; for v3 with keys of the old console." },
    [VOLCENGINE_CLUSTER] = { "cluster", PARAM_NAME, PARAM_BY_OPERATOR, 1, 64, NULL,
                             "v1: \"volcano_tts\" (the default), or that of cloned voices." },
    [VOLCENGINE_RESOURCE_ID] = { "resourceId", PARAM_NAME, PARAM_BY_OPERATOR, 1, 64, NULL,
                                 "v3: what was bought: \"seed-tts-2.0\"; else told by the voice's name." },
    [VOLCENGINE_SAMPLE_RATE] = { "sample_rate", PARAM_WHOLE, PARAM_BY_BOTH, 8000, 48000, NULL,
                                 "In Hz: 8000, 16000 or 24000 (the default); v3 also 22050, 32000, 44100, "
                                 "48000." },
    [VOLCENGINE_BIT_RATE] = { "bit_rate", PARAM_WHOLE, PARAM_BY_BOTH, 16, 320, NULL, "In kbit/s, of mp3." },
    [VOLCENGINE_EMOTION] = { "emotion", PARAM_NAME, PARAM_BY_BOTH, 1, 64, NULL,
                             "An emotion of the voice: \"happy\"." },
    [VOLCENGINE_EMOTION_SCALE] = { "emotion_scale", PARAM_NUMBER, PARAM_BY_BOTH, 1, 5, NULL,
                                   "How much of the emotion; 4 is usual." },
    [VOLCENGINE_ENABLE_EMOTION] = { "enable_emotion", PARAM_BOOL, PARAM_BY_BOTH, 0, 0, NULL,
                                    "v1: whether the emotion counts." },
    [VOLCENGINE_LANGUAGE] = { "language", PARAM_NAME, PARAM_BY_BOTH, 1, 32, NULL,
                              "v1: the language of a voice that speaks several: \"en\"." },
    [VOLCENGINE_EXPLICIT_LANGUAGE] = { "explicit_language", PARAM_NAME, PARAM_BY_BOTH, 1, 32, NULL,
                                       "v1: the one language to read." },
    [VOLCENGINE_CONTEXT_LANGUAGE] = { "context_language", PARAM_NAME, PARAM_BY_BOTH, 1, 32, NULL,
                                      "v1: the language of the whole." },
    [VOLCENGINE_LOUDNESS_RATIO] = { "loudness_ratio", PARAM_NUMBER, PARAM_BY_BOTH, 0.5, 2, NULL,
                                    "v1: how loud; 1 is usual." },
    [VOLCENGINE_VOLUME_RATIO] = { "volume_ratio", PARAM_NUMBER, PARAM_BY_BOTH, 0.1, 3, NULL,
                                  "v1: how loud, of BV voices; 1 is usual." },
    [VOLCENGINE_PITCH_RATIO] = { "pitch_ratio", PARAM_NUMBER, PARAM_BY_BOTH, 0.1, 3, NULL,
                                 "v1: how high, of BV voices; 1 is usual." },
    [VOLCENGINE_SILENCE_DURATION] = { "silence_duration", PARAM_WHOLE, PARAM_BY_BOTH, 0, 30000, NULL,
                                      "v1: silence at the end, in ms." },
    [VOLCENGINE_TEXT_TYPE] = { "text_type", PARAM_CHOICE, PARAM_BY_BOTH, 0, 0, text_types,
                               "v1: \"plain\" (the default) or \"ssml\"." },
    [VOLCENGINE_EXTRA_PARAM] = { "extra_param", PARAM_JSON, PARAM_BY_BOTH, 2, OBJECT_BYTES, NULL,
                                 "v1: further options, as an object." },
    [VOLCENGINE_LOUDNESS_RATE] = { "loudness_rate", PARAM_WHOLE, PARAM_BY_BOTH, -50, 100, NULL,
                                   "v3: how loud; 0 is usual, 100 twice as loud." },
    [VOLCENGINE_PITCH] = { "pitch", PARAM_WHOLE, PARAM_BY_BOTH, -12, 12, NULL,
                           "v3: how high, in semitones." },
    [VOLCENGINE_ADDITIONS] = { "additions", PARAM_JSON, PARAM_BY_BOTH, 2, OBJECT_BYTES, NULL,
                               "v3: further options, as an object." },
};

/* By what callers ask for; v3 makes WAV of samples. */
static const struct adapter_format formats[] = {
    { "mp3", "mp3", "audio/mpeg" },
    { "opus", "ogg_opus", "audio/ogg" },
    { "wav", "wav", "audio/wav" },
    { "pcm", "pcm", "audio/pcm" },
};

bool volcengine_is_v3(const struct adapter_value *values)
{
    return span_is(values[VOLCENGINE_API].text, "v3");
}

unsigned volcengine_rate_hz(const struct adapter_call *call)
{
    const struct adapter_value *rate = &call->values[VOLCENGINE_SAMPLE_RATE];
    return rate->is_set ? (unsigned)rate->number : DEFAULT_RATE_HZ;
}

static bool find_code(struct span text, unsigned flags, long long *code)
{
    static const struct json_want want = { "code", false };
    struct json_value found;
    return json_find(text, &want, 1, flags, &found, NULL) == 0 && found.kind == JSON_KIND_NUMBER &&
           json_int(found.raw, code);
}

bool volcengine_read_code(struct span text, long long *code)
{
    return find_code(text, 0, code);
}

bool volcengine_says_failure(struct span text, long long success)
{
    long long code;
    return find_code(text, JSON_SCAN_CUT, &code) && code != success;
}

/* Which parameters belong to one protocol only. */
static bool is_foreign(enum volcengine_param param, bool is_v3)
{
    bool is_v1s = param == VOLCENGINE_CLUSTER ||
                  (param >= VOLCENGINE_ENABLE_EMOTION && param <= VOLCENGINE_EXTRA_PARAM);
    bool is_v3s = param == VOLCENGINE_RESOURCE_ID || param >= VOLCENGINE_LOUDNESS_RATE;
    return is_v3 ? is_v1s : is_v3s;
}

/* Which rates each protocol offers. */
static bool is_rate_offered(unsigned rate_hz, bool is_v3)
{
    static const struct {
        unsigned rate_hz;
        bool is_v3s; /* only */
    } rates[] = {
        { 8000, false }, { 16000, false }, { 24000, false }, { 22050, true },
        { 32000, true }, { 44100, true },  { 48000, true },
    };
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        if (rates[i].rate_hz == rate_hz)
            return is_v3 || !rates[i].is_v3s;
    return false;
}

/* What of an operator's parameters does not fit together. */
static int check_site(const struct adapter_site *site, struct arena *arena, struct adapter_fault *fault)
{
    const struct adapter_value *values = site->values, *rate = &values[VOLCENGINE_SAMPLE_RATE];
    bool is_v3 = volcengine_is_v3(values);

    if (site->region.len > 0)
        return adapter_refuse(fault, arena, "region",
                              "volcengine has no regions; \"baseURL\" says where it is");
    if (!is_v3 && !values[VOLCENGINE_APPID].is_set)
        return adapter_refuse(fault, arena, "adapterParams.appid", "it is missing");
    if (rate->is_set && !is_rate_offered((unsigned)rate->number, is_v3))
        return adapter_refuse(fault, arena, "adapterParams.sample_rate", "%s does not offer it",
                              is_v3 ? "v3" : "v1");
    for (unsigned i = 0; i < VOLCENGINE_PARAMS_COUNT; i++)
        if (values[i].is_set && is_foreign(i, is_v3))
            return adapter_refuse(fault, arena, arena_printf(arena, "adapterParams.%s", params[i].name),
                                  "%s has no such parameter", is_v3 ? "v3" : "v1");
    return is_v3 ? volcengine_v3_check(values, "adapterParams", arena, fault) : 0;
}

static const char *find_endpoint(const struct adapter_site *site, struct arena *arena,
                                 struct adapter_fault *fault)
{
    if (check_site(site, arena, fault) != 0)
        return NULL;
    if (site->base_url.len > 0)
        return arena_span(arena, site->base_url);
    return volcengine_is_v3(site->values) ? "https://openspeech.bytedance.com/api/v3/tts/unidirectional"
                                          : "https://openspeech.bytedance.com/api/v1/tts";
}

/* Their names of voices; what else stands in a request's voice is none, and might be quoted in a failure. */
static bool is_voice(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
              c == '-' || c == '.'))
            return false;
    }
    return text.len > 0;
}

static int check(struct adapter_call *call, struct adapter_fault *fault)
{
    bool is_v3 = volcengine_is_v3(call->values);

    if (!is_voice(call->voice))
        return adapter_refuse(fault, call->arena, "voice",
                              "`voice` is no name of a voice of this model: \"BV001_streaming\".");
    for (unsigned i = 0; i < VOLCENGINE_PARAMS_COUNT; i++)
        if (call->values[i].is_callers && is_foreign(i, is_v3))
            return adapter_refuse(fault, call->arena,
                                  arena_printf(call->arena, "extra_body.%s", params[i].name),
                                  "`extra_body.%s`: this model has no such parameter.", params[i].name);
    if (call->values[VOLCENGINE_BIT_RATE].is_callers && strcmp(call->format->name, "mp3") != 0)
        return adapter_refuse(fault, call->arena, "extra_body.bit_rate",
                              "`extra_body.bit_rate` is for mp3 only.");
    if (strcmp(call->format->name, "pcm") == 0)
        call->type = samples_type(volcengine_rate_hz(call));
    if (!is_rate_offered(volcengine_rate_hz(call), is_v3))
        return adapter_refuse(fault, call->arena, "extra_body.sample_rate",
                              "`extra_body.sample_rate` of %u Hz is not offered by this model.",
                              volcengine_rate_hz(call));
    return is_v3 ? volcengine_v3_check(call->values, "extra_body", call->arena, fault)
                 : volcengine_v1_check(call, fault);
}

static bool express(const struct adapter_call *call, enum voice_pack_param param, double value,
                    struct adapter_expression *out)
{
    return volcengine_is_v3(call->values) ? volcengine_v3_express(call, param, value, out)
                                          : volcengine_v1_express(call, param, value, out);
}

static void begin(struct adapter_call *call, struct adapter_exchange *out)
{
    if (volcengine_is_v3(call->values))
        volcengine_v3_begin(call, out);
    else
        volcengine_v1_begin(call, out);
}

static enum adapter_step head(struct adapter_call *call, const struct adapter_reply *reply)
{
    return volcengine_is_v3(call->values) ? volcengine_v3_head(call, reply) : ADAPTER_MORE;
}

static enum adapter_step feed(struct adapter_call *call, struct span piece)
{
    return volcengine_is_v3(call->values) ? volcengine_v3_feed(call, piece) : volcengine_v1_feed(call, piece);
}

static enum adapter_step finish(struct adapter_call *call, struct adapter_exchange *next)
{
    return volcengine_is_v3(call->values) ? volcengine_v3_finish(call, next)
                                          : volcengine_v1_finish(call, next);
}

/* What was bought, under its other names too; not said, the voice's name decides. */
static struct span catalog_model(struct span model, const struct adapter_value *values)
{
    static const struct {
        const char *resource, *name;
    } others[] = {
        { "", "seed-tts-1.0;seed-tts-2.0" },
        { "seed-tts-1.0-concurr", "seed-tts-1.0" },
        { "volc.service_type.10029", "seed-tts-1.0" },
        { "volc.service_type.10048", "seed-tts-1.0" },
    };
    struct span resource = values[VOLCENGINE_RESOURCE_ID].text;

    (void)model;
    if (!volcengine_is_v3(values))
        return span_cstr("v1");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (span_is(resource, others[i].resource))
            return span_cstr(others[i].name);
    return resource;
}

const struct adapter adapter_volcengine = {
    .name = "volcengine",
    .system = "volcengine.tts",
    .catalog = "volcengine",
    .catalog_model = catalog_model,
    .trace_header = "x-tt-logid",
    .params = params,
    .n_params = VOLCENGINE_PARAMS_COUNT,
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
    .classify = volcengine_classify,
};
