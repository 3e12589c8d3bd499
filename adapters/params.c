/* Parameters: adapterParams of an upstream, extra_body of a request, read by one table. */
#include "adapters/params_internal.h"

/* What every provider has besides its own table; both are the operator's. */
static const struct adapter_param common[ADAPTER_COMMON_COUNT] = {
    [ADAPTER_COMMON_MODEL] = { "model", PARAM_TEXT, PARAM_BY_OPERATOR, 1, 200, NULL,
                               "The provider's own name of the model." },
    [ADAPTER_COMMON_VOICE] = { "defaultVoice", PARAM_TEXT, PARAM_BY_OPERATOR, 1, SPEECH_VOICE_BYTES, NULL,
                               "The voice of requests that name none." },
};

const struct adapter_param *adapter_param(const struct adapter *adapter, size_t i)
{
    if (i < ADAPTER_COMMON_COUNT)
        return &common[i];
    return i - ADAPTER_COMMON_COUNT < adapter->n_params ? &adapter->params[i - ADAPTER_COMMON_COUNT] : NULL;
}

static const char *expect_choice(const struct adapter_param *param, struct arena *arena)
{
    const char *text = arena_printf(arena, "\"%s\"", param->choices[0]);
    for (size_t i = 1; param->choices[i] != NULL; i++)
        text = arena_printf(arena, "%s or \"%s\"", text, param->choices[i]);
    return text;
}

const char *adapter_param_expectation(const struct adapter_param *param, struct arena *arena)
{
    switch (param->kind) {
    case PARAM_TEXT:
        return arena_printf(arena, "a text of %.0f to %.0f bytes without control characters", param->min,
                            param->max);
    case PARAM_NAME:
        return arena_printf(arena, "a text of %.0f to %.0f visible ASCII characters", param->min, param->max);
    case PARAM_CHOICE:
        return expect_choice(param, arena);
    case PARAM_WHOLE:
        return arena_printf(arena, "a whole number from %.0f to %.0f", param->min, param->max);
    case PARAM_NUMBER:
        return arena_printf(arena, "a number from %g to %g", param->min, param->max);
    case PARAM_BOOL:
        return "true or false";
    case PARAM_JSON:
        break;
    }
    return arena_printf(arena, "an object or a list of at most %.0f bytes", param->max);
}

/* A control character of ASCII, or of C1 in UTF-8 (U+0080 to U+009F). */
static bool is_control(struct span text, size_t i)
{
    unsigned char c = (unsigned char)text.ptr[i];
    return c < ' ' || c == 0x7f || (c == 0xc2 && i + 1 < text.len && (unsigned char)text.ptr[i + 1] < 0xa0);
}

static bool text_fits(const struct adapter_param *param, struct span text)
{
    if ((double)text.len < param->min || (double)text.len > param->max)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (is_control(text, i) || (param->kind == PARAM_NAME && (c == ' ' || c > 0x7e)))
            return false;
    }
    return true;
}

static bool is_choice(const struct adapter_param *param, struct span text)
{
    for (size_t i = 0; param->choices[i] != NULL; i++)
        if (span_is(text, param->choices[i]))
            return true;
    return false;
}

static bool number_fits(const struct adapter_param *param, struct span raw, double *out)
{
    long long whole;
    if (param->kind == PARAM_WHOLE && !json_int(raw, &whole))
        return false;
    return json_number(raw, out) && *out >= param->min && *out <= param->max;
}

/* Whether the value fits, and if so what it is. */
static bool read_value(const struct adapter_param *param, const struct json_value *json, struct arena *arena,
                       struct adapter_value *out)
{
    *out = (struct adapter_value){ .is_set = true, .text = json->raw };
    switch (param->kind) {
    case PARAM_TEXT:
    case PARAM_NAME:
    case PARAM_CHOICE:
        if (json->kind != JSON_KIND_STRING)
            return false;
        out->text = json_decode(arena, json->raw);
        return param->kind == PARAM_CHOICE ? is_choice(param, out->text) : text_fits(param, out->text);
    case PARAM_WHOLE:
    case PARAM_NUMBER:
        return json->kind == JSON_KIND_NUMBER && number_fits(param, json->raw, &out->number);
    case PARAM_BOOL:
        out->truth = json->kind == JSON_KIND_TRUE;
        return json->kind == JSON_KIND_TRUE || json->kind == JSON_KIND_FALSE;
    case PARAM_JSON:
        break;
    }
    return (json->kind == JSON_KIND_OBJECT || json->kind == JSON_KIND_ARRAY) &&
           (double)json->raw.len <= param->max;
}

static const struct adapter_param *find_in(const struct adapter_param *params, size_t n, struct span name)
{
    for (size_t i = 0; i < n; i++)
        if (span_is(name, params[i].name))
            return &params[i];
    return NULL;
}

struct reading {
    const struct adapter *adapter;
    enum param_right right;
    struct arena *arena;
    struct adapter_value *values; /* may be NULL */
    struct adapter_value *commons;
    void (*on_fault)(void *ctx, struct span member, const char *message);
    void *ctx;
    size_t n_faults;
};

static void fault(struct reading *r, struct span name, const char *message)
{
    r->n_faults++;
    r->on_fault(r->ctx, name, message);
}

/* A caller's word to somebody else than us is none of our business, but one that
 * another provider would have followed must not be dropped in silence. */
static void read_unknown(struct reading *r, struct span name)
{
    if (r->right == PARAM_BY_OPERATOR)
        fault(r, name, arena_printf(r->arena, "%s has no such parameter", r->adapter->name));
    else if (adapter_any_takes(name))
        fault(r, name, "the provider of this model has no such parameter");
}

/* To obey it would give callers what is the operator's, and to drop it would leave them in the dark. */
static void read_others(struct reading *r, struct span name)
{
    fault(r, name,
          r->right == PARAM_BY_CALLER ? "only the operator of this model may set it"
                                      : "only callers may set it");
}

static int on_member(void *ctx, const struct json_value *json)
{
    struct reading *r = ctx;
    struct adapter_value value;
    struct span name = json_decode(r->arena, span_of(json->key.ptr - 1, json->key.len + 2));
    const struct adapter_param *own = find_in(r->adapter->params, r->adapter->n_params, name);
    const struct adapter_param *shared = find_in(common, ADAPTER_COMMON_COUNT, name);
    const struct adapter_param *param = own != NULL ? own : shared;

    if (json->kind == JSON_KIND_NULL && r->right == PARAM_BY_CALLER) {
        return 0; /* as if it did not stand there */
    } else if (param == NULL) {
        read_unknown(r, name);
    } else if ((param->right & r->right) == 0) {
        read_others(r, name);
    } else if (!read_value(param, json, r->arena, &value)) {
        fault(r, name, arena_printf(r->arena, "expected %s", adapter_param_expectation(param, r->arena)));
    } else {
        value.is_callers = r->right == PARAM_BY_CALLER;
        if (own != NULL && r->values != NULL)
            r->values[own - r->adapter->params] = value;
        else if (own == NULL && r->commons != NULL)
            r->commons[shared - common] = value;
    }
    return 0;
}

size_t adapter_params_read(const struct adapter *adapter, struct span object, enum param_right right,
                           struct arena *arena, struct adapter_value *values, struct adapter_value *commons,
                           void (*on_fault)(void *ctx, struct span member, const char *message), void *ctx)
{
    static const struct json_want members = { "*", false };
    struct reading r = {
        .adapter = adapter,
        .right = right,
        .arena = arena,
        .values = values,
        .commons = commons,
        .on_fault = on_fault,
        .ctx = ctx,
    };
    if (object.len > 0 &&
        (!span_starts(span_trim(object), "{") || json_scan(object, &members, 1, 0, on_member, &r, NULL) != 0))
        fault(&r, span_of("", 0), "it is no JSON object");
    return r.n_faults;
}
