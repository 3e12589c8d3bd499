/*
 * Alibaba's DashScope over HTTP: CosyVoice and Qwen-TTS, which differ in path and
 * options, and share key, reply and errors. Audio comes as base64 in events, or
 * lies at a URL that a second exchange gets.
 */
#include "adapters/dashscope.h"

#include "adapters/providers.h"
#include "core/base/err.h"

enum {
    DEFAULT_RATE_HZ = 24000,  /* OpenAI's pcm has it, and all of Qwen's audio */
    OBJECT_BYTES = 16 * 1024, /* of a parameter that is one */
};

/* ---- parameters ---- */

static const char *const languages[] = { "Auto",    "Chinese",  "English", "German", "Italian", "Portuguese",
                                         "Spanish", "Japanese", "Korean",  "French", "Russian", NULL };

const struct adapter_param dashscope_params[DASHSCOPE_PARAMS_COUNT] = {
    [DASHSCOPE_STREAM] = { "stream", PARAM_BOOL, PARAM_BY_OPERATOR, 0, 0, NULL,
                           "Ask for audio as it is made (the default); false: for a finished file." },
    [DASHSCOPE_WORKSPACE] = { "workspaceId", PARAM_NAME, PARAM_BY_OPERATOR, 1, 64, NULL,
                              "The workspace that the key belongs to, where it is not the default one." },
    [DASHSCOPE_SAMPLE_RATE] = { "sample_rate", PARAM_WHOLE, PARAM_BY_BOTH, 8000, 48000, NULL,
                                "CosyVoice: in Hz; 8000, 16000, 22050, 24000 (the default here), 44100 or "
                                "48000." },
    [DASHSCOPE_VOLUME] = { "volume", PARAM_WHOLE, PARAM_BY_BOTH, 0, 100, NULL,
                           "CosyVoice: how loud; 50 is usual." },
    [DASHSCOPE_PITCH] = { "pitch", PARAM_NUMBER, PARAM_BY_BOTH, 0.5, 2, NULL,
                          "CosyVoice: how high; 1 is usual." },
    [DASHSCOPE_BIT_RATE] = { "bit_rate", PARAM_WHOLE, PARAM_BY_BOTH, 6, 510, NULL,
                             "CosyVoice: in kbit/s, of opus." },
    [DASHSCOPE_ENABLE_SSML] = { "enable_ssml", PARAM_BOOL, PARAM_BY_BOTH, 0, 0, NULL,
                                "CosyVoice: the input is SSML." },
    [DASHSCOPE_SEED] = { "seed", PARAM_WHOLE, PARAM_BY_BOTH, 0, 65535, NULL,
                         "CosyVoice: for the same result again." },
    [DASHSCOPE_LANGUAGE_HINTS] = { "language_hints", PARAM_JSON, PARAM_BY_BOTH, 0, OBJECT_BYTES, NULL,
                                   "CosyVoice: a list of one language, [\"en\"]." },
    [DASHSCOPE_HOT_FIX] = { "hot_fix", PARAM_JSON, PARAM_BY_BOTH, 0, OBJECT_BYTES, NULL,
                            "CosyVoice from v3: pronunciations and replacements." },
    [DASHSCOPE_MARKDOWN_FILTER] = { "enable_markdown_filter", PARAM_BOOL, PARAM_BY_BOTH, 0, 0, NULL,
                                    "CosyVoice: do not read out the marks of Markdown." },
    [DASHSCOPE_AIGC_TAG] = { "enable_aigc_tag", PARAM_BOOL, PARAM_BY_OPERATOR, 0, 0, NULL,
                             "CosyVoice: mark the audio as made by a machine." },
    [DASHSCOPE_AIGC_PROPAGATOR] = { "aigc_propagator", PARAM_TEXT, PARAM_BY_OPERATOR, 1, 256, NULL,
                                    "CosyVoice: who spreads it, for that mark." },
    [DASHSCOPE_AIGC_PROPAGATE_ID] = { "aigc_propagate_id", PARAM_TEXT, PARAM_BY_OPERATOR, 1, 256, NULL,
                                      "CosyVoice: the mark's number." },
    [DASHSCOPE_LANGUAGE_TYPE] = { "language_type", PARAM_CHOICE, PARAM_BY_BOTH, 0, 0, languages,
                                  "Qwen-TTS: the language of the text." },
    [DASHSCOPE_OPTIMIZE_INSTRUCTIONS] = { "optimize_instructions", PARAM_BOOL, PARAM_BY_BOTH, 0, 0, NULL,
                                          "Qwen-TTS, instruct: let the model improve the instructions." },
};

bool dashscope_has_param(enum dashscope_param param, const struct dashscope_model *model)
{
    if (param <= DASHSCOPE_WORKSPACE)
        return false; /* ours */
    if ((param == DASHSCOPE_HOT_FIX || param == DASHSCOPE_OPTIMIZE_INSTRUCTIONS) &&
        !model->takes_instructions)
        return false;
    return (param >= DASHSCOPE_LANGUAGE_TYPE) == (model->family == DASHSCOPE_QWEN);
}

const struct adapter_format dashscope_formats[] = {
    [DASHSCOPE_MP3] = { "mp3", "mp3", "audio/mpeg" },
    [DASHSCOPE_OPUS] = { "opus", "opus", "audio/ogg" },
    [DASHSCOPE_WAV] = { "wav", "wav", "audio/wav" },
    [DASHSCOPE_PCM] = { "pcm", "pcm", "audio/pcm" },
};

struct span dashscope_real_model(const struct adapter_call *call)
{
    return call->model.len > 0 ? call->model : call->order->asked_model;
}

unsigned dashscope_rate_hz(const struct adapter_call *call)
{
    const struct adapter_value *rate = &call->values[DASHSCOPE_SAMPLE_RATE];
    bool is_ours = dashscope_model_of(dashscope_real_model(call))->family == DASHSCOPE_COSYVOICE;
    return is_ours && rate->is_set ? (unsigned)rate->number : DEFAULT_RATE_HZ;
}

static bool is_rate_offered(unsigned hz, bool is_opus)
{
    static const struct {
        unsigned hz;
        bool has_opus;
    } rates[] = {
        { 8000, true }, { 16000, true }, { 22050, false }, { 24000, true }, { 44100, false }, { 48000, true },
    };
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        if (rates[i].hz == hz)
            return rates[i].has_opus || !is_opus;
    return false;
}

/* ---- where it is ---- */

static const struct {
    const char *region, *host;
} regions[] = {
    { "", "dashscope.aliyuncs.com" },
    { "cn-beijing", "dashscope.aliyuncs.com" },
    { "ap-southeast-1", "dashscope-intl.aliyuncs.com" },
};

static bool is_label(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return text.len > 0 && text.len <= 63;
}

/* Each workspace has a host of its own in its region. */
static const char *workspace_host(struct span region, struct span workspace, struct arena *arena)
{
    struct span place = region.len > 0 ? region : span_cstr("cn-beijing");
    return arena_printf(arena, "%.*s.%.*s.maas.aliyuncs.com", (int)workspace.len, workspace.ptr,
                        (int)place.len, place.ptr);
}

static const char *find_host(const struct adapter_site *site, struct arena *arena)
{
    const struct adapter_value *workspace = &site->values[DASHSCOPE_WORKSPACE];
    for (size_t i = 0; i < sizeof(regions) / sizeof(regions[0]); i++)
        if (span_is(site->region, regions[i].region))
            return workspace->is_set ? workspace_host(site->region, workspace->text, arena) : regions[i].host;
    return NULL;
}

/* What of an operator's parameters the model does not have, if it is known. */
static int check_params(const struct adapter_site *site, struct arena *arena, struct adapter_fault *fault)
{
    const struct adapter_value *rate = &site->values[DASHSCOPE_SAMPLE_RATE];
    const struct dashscope_model *model = dashscope_model_of(site->model);

    if (rate->is_set && !is_rate_offered((unsigned)rate->number, false))
        return adapter_refuse(fault, arena, "adapterParams.sample_rate", "it is not offered");
    for (unsigned i = DASHSCOPE_SAMPLE_RATE; i < DASHSCOPE_PARAMS_COUNT && site->model.len > 0; i++)
        if (site->values[i].is_set && !dashscope_has_param(i, model))
            return adapter_refuse(fault, arena,
                                  arena_printf(arena, "adapterParams.%s", dashscope_params[i].name),
                                  "\"%.*s\" has no such parameter", (int)site->model.len, site->model.ptr);
    return 0;
}

static const char *find_endpoint(const struct adapter_site *site, struct arena *arena,
                                 struct adapter_fault *fault)
{
    const struct adapter_value *workspace = &site->values[DASHSCOPE_WORKSPACE];
    const struct dashscope_model *model = dashscope_model_of(site->model);

    if (check_params(site, arena, fault) != 0)
        return NULL;
    if (site->base_url.len > 0)
        return arena_span(arena, site->base_url);
    const char *host = find_host(site, arena);
    if (host == NULL)
        adapter_refuse(
            fault, arena, "region",
            "dashscope-cosyvoice knows \"cn-beijing\" and \"ap-southeast-1\"; \"baseURL\" is for others");
    else if (site->model.len == 0)
        adapter_refuse(fault, arena, "adapterParams.model",
                       "it is missing, and the URL depends on it; or a \"baseURL\" is");
    else if (model->path == NULL)
        adapter_refuse(fault, arena, "adapterParams.model", "\"%.*s\" speaks over WebSocket only",
                       (int)site->model.len, site->model.ptr);
    else if (workspace->is_set && !is_label(workspace->text))
        adapter_refuse(fault, arena, "adapterParams.workspaceId", "it has letters, digits and hyphens only");
    else
        return arena_printf(arena, "https://%s%s", host, model->path);
    return NULL;
}

/* ---- what it can do ---- */

static int check_rate(struct adapter_call *call, struct adapter_fault *fault)
{
    bool is_opus = strcmp(call->format->name, "opus") == 0;
    if (is_rate_offered(dashscope_rate_hz(call), is_opus))
        return 0;
    return adapter_refuse(fault, call->arena, "extra_body.sample_rate",
                          "`extra_body.sample_rate` of %u Hz is not offered for %s.", dashscope_rate_hz(call),
                          call->format->name);
}

/* Qwen's voices speak as they do: no speed, no formats but samples with or without a head. */
static int check_qwen(struct adapter_call *call, struct adapter_fault *fault)
{
    if (call->order->speech->format.len == 0)
        call->format = &dashscope_formats[DASHSCOPE_WAV];
    if (call->format != &dashscope_formats[DASHSCOPE_WAV] &&
        call->format != &dashscope_formats[DASHSCOPE_PCM])
        return adapter_refuse(fault, call->arena, "response_format",
                              "`response_format`: this model offers wav, pcm.");
    if (call->order->speech->speed != 1)
        return adapter_refuse(fault, call->arena, "speed", "`speed`: this model speaks at one speed only.");
    return 0;
}

static int check_length(struct adapter_call *call, const struct dashscope_model *model,
                        struct adapter_fault *fault)
{
    size_t size = call->order->speech->input_characters;
    if (model->characters_max == 0 || size <= model->characters_max)
        return 0;
    return adapter_refuse(fault, call->arena, "input",
                          "`input` has %zu characters; this model takes at most %zu.", size,
                          model->characters_max);
}

/* CosyVoice takes factors, and a volume of which half is usual, in whole numbers: what rounds to that half
 * would be none. Qwen's voices speak as they do. */
static bool express(const struct adapter_call *call, enum voice_pack_param param, double value,
                    struct adapter_expression *out)
{
    if (dashscope_model_of(dashscope_real_model(call))->family == DASHSCOPE_QWEN)
        return false;
    if (param == VOICE_PACK_RATE)
        return value >= 0.5 && value <= 2;
    bool is_pitch = param == VOICE_PACK_PITCH;
    out->param = is_pitch ? DASHSCOPE_PITCH : DASHSCOPE_VOLUME;
    out->text = is_pitch ? arena_printf(call->arena, "%g", 1 + value / 100)
                         : arena_printf(call->arena, "%.0f", 50 + value / 2);
    return strcmp(out->text, is_pitch ? "1" : "50") != 0 || voice_pack_is_usual(param, value);
}

static int check(struct adapter_call *call, struct adapter_fault *fault)
{
    const struct dashscope_model *model = dashscope_model_of(dashscope_real_model(call));

    for (unsigned i = DASHSCOPE_SAMPLE_RATE; i < DASHSCOPE_PARAMS_COUNT; i++)
        if (call->values[i].is_callers && !dashscope_has_param(i, model))
            return adapter_refuse(
                fault, call->arena, arena_printf(call->arena, "extra_body.%s", dashscope_params[i].name),
                "`extra_body.%s`: this model has no such parameter.", dashscope_params[i].name);
    if (call->order->speech->instructions.len > 0 && !model->takes_instructions)
        return adapter_refuse(fault, call->arena, "instructions", "`instructions`: this model takes none.");
    if (call->values[DASHSCOPE_BIT_RATE].is_callers && strcmp(call->format->name, "opus") != 0)
        return adapter_refuse(fault, call->arena, "extra_body.bit_rate",
                              "`extra_body.bit_rate` is for opus only.");
    if (check_length(call, model, fault) != 0)
        return ERR_UNSUPPORTED;
    return model->family == DASHSCOPE_QWEN ? check_qwen(call, fault) : check_rate(call, fault);
}

const struct adapter adapter_dashscope = {
    .name = "dashscope-cosyvoice",
    .system = "dashscope.cosyvoice",
    .catalog = "dashscope-cosyvoice",
    .trace_header = "x-request-id",
    .params = dashscope_params,
    .n_params = DASHSCOPE_PARAMS_COUNT,
    .formats = dashscope_formats,
    .n_formats = sizeof(dashscope_formats) / sizeof(dashscope_formats[0]),
    .skills = ADAPTER_SPEED | ADAPTER_INSTRUCTIONS,
    .endpoint = find_endpoint,
    .express = express,
    .check = check,
    .begin = dashscope_begin,
    .head = dashscope_head,
    .feed = dashscope_feed,
    .finish = dashscope_finish,
    .classify = dashscope_classify,
};
