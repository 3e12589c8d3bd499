/*
 * Azure's speech service, over REST: SSML in, audio as it is out. Its failures
 * have no body mostly; what they mean stands in the reason phrase.
 */
#include "adapters/providers.h"

#include <stdio.h>

#include "adapters/azure_formats.h"
#include "adapters/body.h"
#include "adapters/failure.h"
#include "adapters/ssml.h"
#include "core/base/err.h"

enum {
    PARAM_OUTPUT_FORMAT,
    PARAM_DISABLE_SSML,
    PARAM_LOCALE,
    PARAM_RATE,
    PARAM_PITCH,
    PARAM_VOLUME,
    PARAM_STYLE,
    PARAM_STYLE_DEGREE,
    PARAM_ROLE,
    PARAM_DEPLOYMENT,
    N_PARAMS,
};

static const char *const roles[] = { "Girl",
                                     "Boy",
                                     "YoungAdultFemale",
                                     "YoungAdultMale",
                                     "OlderAdultFemale",
                                     "OlderAdultMale",
                                     "SeniorFemale",
                                     "SeniorMale",
                                     NULL };

static const struct adapter_param params[N_PARAMS] = {
    [PARAM_OUTPUT_FORMAT] = { "outputFormat", PARAM_CHOICE, PARAM_BY_OPERATOR, 0, 0, azure_format_names,
                              "What to ask for where a caller wants this kind of audio, or names no "
                              "format." },
    [PARAM_DISABLE_SSML] = { "disableSsml", PARAM_BOOL, PARAM_BY_BOTH, 0, 0, NULL,
                             "The input is SSML already and goes on as it is." },
    [PARAM_LOCALE] = { "locale", PARAM_NAME, PARAM_BY_BOTH, 2, 35, NULL,
                       "The language of the text, \"zh-CN\"; else that of the voice." },
    [PARAM_RATE] = { "rate", PARAM_TEXT, PARAM_BY_BOTH, 1, 16, NULL,
                     "How fast: \"+20%\", \"1.2\" or a word like \"slow\"; `speed` of a request counts "
                     "more." },
    [PARAM_PITCH] = { "pitch", PARAM_TEXT, PARAM_BY_BOTH, 1, 16, NULL,
                      "How high: \"+2st\", \"-10%\", \"200Hz\" or a word like \"low\"." },
    [PARAM_VOLUME] = { "volume", PARAM_TEXT, PARAM_BY_BOTH, 1, 16, NULL,
                       "How loud: \"80\", \"-10%\" or a word like \"soft\"." },
    [PARAM_STYLE] = { "style", PARAM_NAME, PARAM_BY_BOTH, 1, 64, NULL,
                      "A style of the voice: \"cheerful\"." },
    [PARAM_STYLE_DEGREE] = { "styleDegree", PARAM_NUMBER, PARAM_BY_BOTH, 0.01, 2, NULL,
                             "How much of the style; 1 is as it is." },
    [PARAM_ROLE] = { "role", PARAM_CHOICE, PARAM_BY_BOTH, 0, 0, roles, "Whom the voice plays." },
    [PARAM_DEPLOYMENT] = { "deploymentId", PARAM_NAME, PARAM_BY_OPERATOR, 1, 64, NULL,
                           "A custom voice's deployment, for the URL that is built from the region." },
};

/* ---- how to speak ---- */

/* SSML's own spellings of how to speak. */
static const struct {
    unsigned param;
    const char *words[7];
    const char *units[4];
} prosody[] = {
    { PARAM_RATE, { "x-slow", "slow", "medium", "fast", "x-fast", "default" }, { "", "%" } },
    { PARAM_PITCH, { "x-low", "low", "medium", "high", "x-high", "default" }, { "Hz", "st", "%" } },
    { PARAM_VOLUME, { "silent", "x-soft", "soft", "medium", "loud", "x-loud", "default" }, { "", "%" } },
};

static bool is_one_of(struct span text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n && list[i] != NULL; i++)
        if (span_is(text, list[i]))
            return true;
    return false;
}

static size_t count_digits(struct span text)
{
    size_t n = 0;
    while (n < text.len && text.ptr[n] >= '0' && text.ptr[n] <= '9')
        n++;
    return n;
}

/* A number with or without sign and fraction; *unit is what follows it. */
static bool read_amount(struct span text, struct span *unit)
{
    size_t sign = text.len > 0 && (text.ptr[0] == '+' || text.ptr[0] == '-');
    text = span_of(text.ptr + sign, text.len - sign);
    size_t digits = count_digits(text);
    text = span_of(text.ptr + digits, text.len - digits);
    if (digits == 0)
        return false;
    if (text.len > 0 && text.ptr[0] == '.') {
        text = span_of(text.ptr + 1, text.len - 1);
        digits = count_digits(text);
        text = span_of(text.ptr + digits, text.len - digits);
    }
    *unit = text;
    return digits > 0;
}

/* How to speak, as callers or operators wrote it. */
static int check_prosody(const struct adapter_value *values, bool is_callers, struct arena *arena,
                         struct adapter_fault *fault)
{
    const char *place = is_callers ? "extra_body" : "adapterParams";
    for (size_t i = 0; i < sizeof(prosody) / sizeof(prosody[0]); i++) {
        const struct adapter_value *value = &values[prosody[i].param];
        const char *name = params[prosody[i].param].name;
        struct span unit;
        if (!value->is_set || value->is_callers != is_callers || is_one_of(value->text, prosody[i].words, 7))
            continue;
        if (!read_amount(value->text, &unit) || !is_one_of(unit, prosody[i].units, 4) ||
            (unit.len == 0 && prosody[i].units[0][0] != '\0'))
            return adapter_refuse(fault, arena, arena_printf(arena, "%s.%s", place, name),
                                  "`%s.%s` is no %s of SSML: a number with its unit, or a word like \"%s\".",
                                  place, name, name, prosody[i].words[1]);
    }
    return 0;
}

/* ---- where it is ---- */

/* The first that the region begins with. */
static const struct {
    const char *prefix, *domain;
} clouds[] = {
    { "china", "tts.speech.azure.cn" },
    { "usgov", "tts.speech.azure.us" },
    { "", "tts.speech.microsoft.com" },
};

/* Letters, digits and hyphens: what may stand in a host name or a query as it is. */
static bool is_plain(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return text.len > 0 && text.len <= 64;
}

static int check_site(const struct adapter_site *site, struct arena *arena, struct adapter_fault *fault)
{
    const struct adapter_value *deployment = &site->values[PARAM_DEPLOYMENT];

    if (site->base_url.len > 0 && deployment->is_set)
        return adapter_refuse(fault, arena, "adapterParams.deploymentId",
                              "with \"baseURL\" it stands in the query of that");
    if (site->base_url.len == 0 && !is_plain(site->region))
        return adapter_refuse(fault, arena, "region",
                              "azure needs a region of letters and digits (\"eastus\"), or a \"baseURL\"");
    if (deployment->is_set && !is_plain(deployment->text))
        return adapter_refuse(fault, arena, "adapterParams.deploymentId",
                              "it has letters, digits and hyphens only");
    return check_prosody(site->values, false, arena, fault);
}

static const char *find_endpoint(const struct adapter_site *site, struct arena *arena,
                                 struct adapter_fault *fault)
{
    const struct adapter_value *deployment = &site->values[PARAM_DEPLOYMENT];
    struct span region = site->region;
    size_t cloud = 0;

    if (check_site(site, arena, fault) != 0)
        return NULL;
    if (site->base_url.len > 0)
        return arena_span(arena, site->base_url);
    while (!span_starts(region, clouds[cloud].prefix))
        cloud++;
    const char *url = arena_printf(arena, "https://%.*s.%s/cognitiveservices/v1", (int)region.len, region.ptr,
                                   clouds[cloud].domain);
    return deployment->is_set ? arena_printf(arena, "%s?deploymentId=%.*s", url, (int)deployment->text.len,
                                             deployment->text.ptr)
                              : url;
}

/* ---- what it can do ---- */

/* What shapes the speech of a text says nothing where the caller wrote the whole document. */
static int check_document(struct adapter_call *call, struct adapter_fault *fault)
{
    static const unsigned shapes[] = { PARAM_LOCALE, PARAM_RATE,         PARAM_PITCH, PARAM_VOLUME,
                                       PARAM_STYLE,  PARAM_STYLE_DEGREE, PARAM_ROLE };
    static const char why[] = "%s cannot be set beside `extra_body.disableSsml`: the SSML says it.";
    struct arena *arena = call->arena;

    if (call->order->speech->speed != 1)
        return adapter_refuse(fault, arena, "speed", why, "`speed`");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const char *param = arena_printf(arena, "extra_body.%s", params[shapes[i]].name);
        if (call->values[shapes[i]].is_callers)
            return adapter_refuse(fault, arena, param, why, arena_printf(arena, "`%s`", param));
    }
    if (!span_starts(span_trim(call->order->speech->input), "<"))
        return adapter_refuse(fault, arena, "input",
                              "`input` is no SSML, which `extra_body.disableSsml` says it is.");
    return 0;
}

/* The operator's choice counts where the caller asked for its kind, or for none. */
static void choose_format(struct adapter_call *call)
{
    const struct adapter_value *preferred = &call->values[PARAM_OUTPUT_FORMAT];
    bool is_native = strchr(call->format->name, '-') != NULL;
    if (!preferred->is_set || is_native)
        return;
    const struct adapter_format *format = azure_format_find(preferred->text);
    if (call->order->speech->format.len == 0 || strcmp(format->type, call->format->type) == 0)
        call->format = format;
}

static int check(struct adapter_call *call, struct adapter_fault *fault)
{
    const struct adapter_value *values = call->values;

    choose_format(call);
    if (values[PARAM_DISABLE_SSML].truth)
        return check_document(call, fault);
    if (!ssml_is_voice(call->voice))
        return adapter_refuse(fault, call->arena, "voice",
                              "`voice` is no name of a voice of this model: \"en-US-AvaNeural\".");
    if (!ssml_has_text(call->order->speech->input))
        return adapter_refuse(fault, call->arena, "input", "`input` has nothing in it that can be spoken.");
    if (values[PARAM_RATE].is_callers && call->order->speech->speed != 1)
        return adapter_refuse(fault, call->arena, "extra_body.rate",
                              "`extra_body.rate` and `speed` say the same: give one of them.");
    if (values[PARAM_STYLE_DEGREE].is_callers && !values[PARAM_STYLE].is_set)
        return adapter_refuse(fault, call->arena, "extra_body.styleDegree",
                              "`extra_body.styleDegree` needs a `style`.");
    return check_prosody(values, true, call->arena, fault);
}

/* ---- the request ---- */

/* In percent of what is usual, as SSML has it: half to twice as fast, half an octave down or up, and any
 * volume. */
static bool express(const struct adapter_call *call, enum voice_pack_param param, double value,
                    struct adapter_expression *out)
{
    static const struct {
        unsigned param;
        double low, high;
    } rows[VOICE_PACK_PARAMS] = {
        [VOICE_PACK_PITCH] = { PARAM_PITCH, -50, 50 },
        [VOICE_PACK_VOLUME] = { PARAM_VOLUME, -100, 100 },
        [VOICE_PACK_RATE] = { PARAM_RATE, 0.5, 2 },
    };
    double percent = param == VOICE_PACK_RATE ? (value - 1) * 100 : value;

    if (call->values[PARAM_DISABLE_SSML].truth || value < rows[param].low || value > rows[param].high)
        return false;
    *out = (struct adapter_expression){ (int)rows[param].param, arena_printf(call->arena, "%+g%%", percent) };
    return true;
}

/* The service takes half to twice as fast, and clamps what is beyond. */
static struct span speed_rate(const struct adapter_call *call)
{
    double speed = call->order->speech->speed;
    speed = speed < 0.5 ? 0.5 : speed > 2 ? 2 : speed;
    return span_cstr(arena_printf(call->arena, "%+g%%", (speed - 1) * 100));
}

static void write_speech(struct adapter_call *call, struct buf *text)
{
    const struct adapter_value *values = call->values;
    struct span locale = values[PARAM_LOCALE].is_set ? values[PARAM_LOCALE].text : ssml_locale(call->voice);
    struct ssml_speech speech = {
        .locale = locale.len > 0 ? locale : span_cstr("en-US"), /* a custom voice's name says none */
        .voice = call->voice,
        .text = call->order->speech->input,
        .rate = call->order->speech->speed != 1 ? speed_rate(call) : values[PARAM_RATE].text,
        .pitch = values[PARAM_PITCH].text,
        .volume = values[PARAM_VOLUME].text,
        .style = values[PARAM_STYLE].text,
        .style_degree = values[PARAM_STYLE].is_set ? values[PARAM_STYLE_DEGREE].text : span_of(NULL, 0),
        .role = values[PARAM_ROLE].text,
    };
    ssml_write(text, &speech);
}

static void begin(struct adapter_call *call, struct adapter_exchange *out)
{
    const char **headers = arena_array_of(call->arena, const char *, 3);
    struct buf text;

    headers[0] = "Content-Type: application/ssml+xml";
    headers[1] = arena_printf(call->arena, "X-Microsoft-OutputFormat: %s", call->format->wire);
    out->url = call->order->endpoint;
    out->key_header = "Ocp-Apim-Subscription-Key: {KEY}";
    out->headers = headers;
    body_begin(&text);
    if (call->values[PARAM_DISABLE_SSML].truth)
        buf_append_span(&text, call->order->speech->input);
    else
        write_speech(call, &text);
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
    return adapter_give(call, piece);
}

static enum adapter_step finish(struct adapter_call *call, struct adapter_exchange *next)
{
    (void)call;
    (void)next;
    return ADAPTER_DONE;
}

/* ---- failures ---- */

static const struct failure_rule rules[] = {
    { .status = 200,
      .last_status = 299,
      .class = ADAPTER_SERVER }, /* a voice that cannot speak the language */
    { .status = 400, .phrase = "voice", .class = ADAPTER_CLIENT, .param = "voice" },
    { .status = 400, .class = ADAPTER_CLIENT },
    { .status = 401, .class = ADAPTER_AUTH },
    { .status = 403, .phrase = "quota", .class = ADAPTER_QUOTA },
    { .status = 403, .phrase = "call volume", .class = ADAPTER_QUOTA },
    { .status = 403, .class = ADAPTER_CONFIG },
    { .status = 404, .class = ADAPTER_CONFIG },
    { .status = 415, .class = ADAPTER_CONFIG }, /* of what we write ourselves: no caller's mistake */
    { .status = 429, .class = ADAPTER_RATE },
    { .status = 500, .last_status = 599, .class = ADAPTER_SERVER },
};

/* A phrase that only repeats the status explains nothing. */
static struct span explain(struct span reason)
{
    static const char *const usual[] = { "Bad Request",
                                         "Unauthorized",
                                         "Forbidden",
                                         "Not Found",
                                         "Too Many Requests",
                                         "Unsupported Media Type",
                                         "Internal Server Error",
                                         "Bad Gateway",
                                         "Service Unavailable",
                                         "Gateway Timeout",
                                         "OK" };
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (span_is_nocase(reason, usual[i]))
            return span_of(NULL, 0);
    return reason;
}

static void classify(const struct adapter_failure *failure, struct arena *arena, struct adapter_opinion *out)
{
    static const char *const paths[] = { "error.code", "error.message" };
    struct span texts[2];

    if (!failure_read(failure->body, paths, 2, arena, texts) || texts[1].len == 0)
        texts[1] = explain(failure->reason);
    const struct failure_facts facts = { failure->status, texts[0], texts[1] };
    failure_judge(rules, sizeof(rules) / sizeof(rules[0]), &facts, arena, out);
}

/* A deployment has the voice that was made for it, and no other. */
static struct span catalog_model(struct span model, const struct adapter_value *values)
{
    (void)model;
    return values[PARAM_DEPLOYMENT].is_set ? span_of("", 0) : span_cstr("v1");
}

const struct adapter adapter_azure = {
    .name = "azure",
    .system = "azure.speech",
    .catalog = "azure",
    .catalog_model = catalog_model,
    .trace_header = "x-requestid",
    .params = params,
    .n_params = N_PARAMS,
    .formats = azure_formats,
    .n_formats = AZURE_FORMATS_COUNT,
    .n_common_formats = AZURE_COMMON_FORMATS_COUNT,
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
