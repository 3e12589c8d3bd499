/* One call: what holds for every provider, around its functions. */
#include "adapters/adapter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "adapters/params_internal.h"
#include "core/base/err.h"
#include "core/crypto/digest.h"

enum { MESSAGE_BYTES = 512 };

int adapter_refuse(struct adapter_fault *fault, struct arena *arena, const char *param, const char *format,
                   ...)
{
    char message[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    *fault = (struct adapter_fault){ .param = param, .message = arena_strdup(arena, message) };
    return ERR_UNSUPPORTED;
}

/* ---- what is asked, and whether it can be done ---- */

struct preparing {
    struct adapter_call *call;
    struct adapter_fault *fault;
    int result;
};

/* The first of a caller's faults is the one that is told. */
static void on_callers_fault(void *ctx, struct span member, const char *clause)
{
    struct preparing *p = ctx;
    struct arena *arena = p->call->arena;
    if (p->result == 0)
        p->result = adapter_refuse(p->fault, arena,
                                   arena_printf(arena, "extra_body.%.*s", (int)member.len, member.ptr),
                                   "`extra_body.%.*s`: %s.", (int)member.len, member.ptr, clause);
}

/* Configuration has been told of these; a snapshot has none. */
static void ignore_fault(void *ctx, struct span member, const char *clause)
{
    (void)ctx;
    (void)member;
    (void)clause;
}

static int read_params(struct preparing *p)
{
    struct adapter_call *call = p->call;
    const struct adapter_order *order = call->order;
    struct adapter_value commons[ADAPTER_COMMON_COUNT] = { 0 };

    adapter_params_read(order->adapter, order->params, PARAM_BY_OPERATOR, call->arena, call->values, commons,
                        ignore_fault, NULL);
    adapter_params_read(order->adapter, order->speech->extra_body, PARAM_BY_CALLER, call->arena, call->values,
                        NULL, on_callers_fault, p);
    call->model = commons[ADAPTER_COMMON_MODEL].text;
    call->voice = order->speech->voice.len > 0 ? order->speech->voice : commons[ADAPTER_COMMON_VOICE].text;
    return p->result;
}

static const char *list_formats(const struct adapter *adapter, struct arena *arena)
{
    size_t n = adapter->n_common_formats == 0 ? adapter->n_formats : adapter->n_common_formats;
    const char *text = "";
    for (size_t i = 0; i < n; i++)
        text = arena_printf(arena, "%s%s%s", text, i == 0 ? "" : ", ", adapter->formats[i].name);
    return text;
}

static int choose_format(struct preparing *p)
{
    struct adapter_call *call = p->call;
    const struct adapter *adapter = call->order->adapter;
    struct span asked = call->order->speech->format;

    for (size_t i = 0; i < adapter->n_formats; i++) {
        if (asked.len == 0 || span_is(asked, adapter->formats[i].name)) {
            call->format = &adapter->formats[i];
            return 0;
        }
    }
    return adapter_refuse(p->fault, call->arena, "response_format",
                          "`response_format`: this model offers %s.", list_formats(adapter, call->arena));
}

static bool express(const struct adapter_call *call, enum voice_pack_param param, double value,
                    struct adapter_expression *out)
{
    const struct adapter *adapter = call->order->adapter;
    *out = (struct adapter_expression){ .param = -1 };
    if (adapter->express != NULL)
        return adapter->express(call, param, value, out);
    return param == VOICE_PACK_RATE && (adapter->skills & ADAPTER_SPEED) != 0;
}

static int apply_param(struct preparing *p, enum voice_pack_param param, double value)
{
    struct adapter_call *call = p->call;
    struct arena *arena = call->arena;
    struct adapter_expression how;

    if (!express(call, param, value, &how)) {
        const char *place = arena_printf(arena, "voice_pack.params.%s", voice_pack_param_names[param]);
        return voice_pack_is_usual(param, value)
                   ? 0
                   : adapter_refuse(p->fault, arena, place,
                                    "`%s` is %g: this model's provider cannot speak so.", place, value);
    }
    if (how.param < 0)
        return 0;
    struct adapter_value *own = &call->values[how.param];
    const char *name = call->order->adapter->params[how.param].name;
    if (own->is_callers)
        return adapter_refuse(p->fault, arena, arena_printf(arena, "extra_body.%s", name),
                              "`extra_body.%s` cannot be set: the voice pack says it.", name);
    *own = (struct adapter_value){ .is_set = true,
                                   .text = span_cstr(how.text),
                                   .number = strtod(how.text, NULL) };
    return 0;
}

/* Before the provider's own check, which then sees what the pack has made of its parameters. */
static int apply_pack(struct preparing *p)
{
    const struct voice_pack_snapshot *pack = p->call->order->speech->pack;
    int r = 0;

    if (pack == NULL)
        return 0;
    if (!span_is(pack->provider, p->call->order->adapter->name))
        return adapter_refuse(p->fault, p->call->arena, "voice_pack.provider",
                              "`voice_pack.provider`: the voice is another provider's than the model's.");
    for (unsigned i = 0; i < VOICE_PACK_PARAMS && r == 0; i++)
        if (pack->params[i].is_set)
            r = apply_param(p, (enum voice_pack_param)i, pack->params[i].value);
    return r;
}

static int check_skills(struct preparing *p)
{
    const struct speech_facts *speech = p->call->order->speech;
    const struct {
        enum adapter_skill skill;
        bool is_wanted;
        const char *param, *message;
    } rows[] = {
        { ADAPTER_SPEED, speech->speed != 1, "speed", "`speed`: this model speaks at one speed only." },
        { ADAPTER_INSTRUCTIONS, speech->instructions.len > 0, "instructions",
          "`instructions`: this model takes none." },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].is_wanted && (p->call->order->adapter->skills & rows[i].skill) == 0)
            return adapter_refuse(p->fault, p->call->arena, rows[i].param, "%s", rows[i].message);
    return 0;
}

/* Han ideographs: the blocks of Unicode's Unified_Ideograph, roughly. */
static bool is_han(uint32_t code)
{
    return (code >= 0x3400 && code <= 0x9fff) || (code >= 0xf900 && code <= 0xfaff) ||
           (code >= 0x20000 && code <= 0x3ffff);
}

/* Code points of well-formed UTF-8, an ideograph twice. */
static size_t count_han_twice(struct span text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len;) {
        unsigned char c = (unsigned char)text.ptr[i];
        size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        uint32_t code = len == 1 ? c : c & (0x7fU >> len);
        for (size_t k = 1; k < len && i + k < text.len; k++)
            code = code << 6 | ((unsigned char)text.ptr[i + k] & 0x3f);
        count += is_han(code) ? 2 : 1;
        i += len;
    }
    return count;
}

static size_t size_in(enum text_unit unit, const struct speech_facts *speech)
{
    if (unit == TEXT_BYTES)
        return speech->input.len;
    return unit == TEXT_HAN_TWICE ? count_han_twice(speech->input) : speech->input_characters;
}

static int check_length(struct preparing *p)
{
    const struct adapter *adapter = p->call->order->adapter;
    static const char *const words[] = {
        [TEXT_CHARACTERS] = "characters",
        [TEXT_BYTES] = "bytes of UTF-8",
        [TEXT_HAN_TWICE] = "characters, of which an ideograph counts two",
    };
    if (adapter->text_max == 0)
        return 0;
    size_t size = size_in(adapter->text_unit, p->call->order->speech);
    if (size <= adapter->text_max)
        return 0;
    return adapter_refuse(p->fault, p->call->arena, "input",
                          "`input` has %zu; this model takes at most %zu %s.", size, adapter->text_max,
                          words[adapter->text_unit]);
}

static int check_voice(struct preparing *p)
{
    if (p->call->voice.len > 0)
        return 0;
    return adapter_refuse(p->fault, p->call->arena, "voice",
                          "`voice` is missing, and this model has no default.");
}

static int check_rest(struct preparing *p)
{
    const struct adapter *adapter = p->call->order->adapter;
    return adapter->check == NULL ? 0 : adapter->check(p->call, p->fault);
}

static void free_failure(void *failure)
{
    buf_free(failure);
}

struct adapter_call *adapter_call_new(const struct adapter_order *order, struct arena *arena,
                                      struct arena *scratch, struct adapter_fault *fault)
{
    static int (*const steps[])(struct preparing * p) = {
        read_params, check_voice, choose_format, apply_pack, check_skills, check_length, check_rest,
    };
    struct adapter_call *call = arena_new_of(arena, struct adapter_call);
    struct preparing p = { .call = call, .fault = fault };

    call->order = order;
    call->arena = arena;
    call->scratch = scratch;
    call->characters = -1;
    usage_init(&call->usage);
    buf_init(&call->failure, ADAPTER_FAILURE_BYTES);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (steps[i](&p) != 0)
            return NULL;
    arena_on_reset(arena, free_failure, &call->failure);
    return call;
}

/* ---- configuration ---- */

size_t adapter_read_params(const struct adapter *adapter, struct span params, struct arena *arena,
                           void (*on_fault)(void *ctx, struct span member, const char *message), void *ctx)
{
    return adapter_params_read(adapter, params, PARAM_BY_OPERATOR, arena, NULL, NULL, on_fault, ctx);
}

const char *adapter_endpoint(const struct adapter *adapter, struct span base_url, struct span region,
                             struct span params, struct arena *arena, struct adapter_fault *fault)
{
    struct adapter_value values[ADAPTER_PARAMS_MAX] = { 0 }, commons[ADAPTER_COMMON_COUNT] = { 0 };
    adapter_params_read(adapter, params, PARAM_BY_OPERATOR, arena, values, commons, ignore_fault, NULL);
    struct adapter_site *site = arena_new_of(arena, struct adapter_site);
    *site = (struct adapter_site){
        .base_url = base_url,
        .region = region,
        .model = commons[ADAPTER_COMMON_MODEL].text,
        .values = values,
    };
    return adapter->endpoint(site, arena, fault);
}

/* ---- the exchanges ---- */

void adapter_call_begin(struct adapter_call *call, struct adapter_exchange *out)
{
    *out = (struct adapter_exchange){ 0 };
    call->order->adapter->begin(call, out);
    arena_reset(call->scratch);
}

/* What holds for a step of each function. */
static enum adapter_step end_step(struct adapter_call *call, enum adapter_step step)
{
    if (step == ADAPTER_DONE && call->audio_bytes == 0)
        step = adapter_fail(call, "no_audio", (struct span){ NULL, 0 });
    arena_reset(call->scratch);
    return step;
}

enum adapter_step adapter_call_head(struct adapter_call *call, const struct adapter_reply *reply)
{
    const struct adapter *adapter = call->order->adapter;
    return end_step(call, adapter->head == NULL ? ADAPTER_MORE : adapter->head(call, reply));
}

enum adapter_step adapter_call_feed(struct adapter_call *call, struct span piece)
{
    return end_step(call, call->order->adapter->feed(call, piece));
}

enum adapter_step adapter_call_finish(struct adapter_call *call, struct adapter_exchange *next)
{
    *next = (struct adapter_exchange){ 0 };
    return end_step(call, call->order->adapter->finish(call, next));
}

void adapter_classify(const struct adapter *adapter, const struct adapter_failure *failure,
                      struct arena *arena, struct adapter_opinion *out)
{
    *out = (struct adapter_opinion){ .class = ADAPTER_UNKNOWN };
    adapter->classify(failure, arena, out);
}

/* ---- for adapters ---- */

enum adapter_step adapter_give(struct adapter_call *call, struct span audio)
{
    if (audio.len == 0)
        return ADAPTER_MORE;
    call->audio_bytes += audio.len;
    return call->sink->write(call->sink->ctx, audio) == 0 ? ADAPTER_MORE : ADAPTER_LEFT;
}

enum adapter_step adapter_give_base64(struct adapter_call *call, const struct json_value *value)
{
    if (value->kind != JSON_KIND_STRING)
        return adapter_fail(call, "no_base64", value->raw);
    struct span text = json_decode(call->scratch, value->raw);
    unsigned char *bytes = arena_alloc(call->scratch, text.len);
    long len = base64_decode(text, bytes);
    if (len < 0)
        return adapter_fail(call, "no_base64", (struct span){ NULL, 0 });
    return adapter_give(call, span_of((const char *)bytes, (size_t)len));
}

enum adapter_step adapter_fail(struct adapter_call *call, const char *why, struct span bytes)
{
    size_t room = call->failure.limit - call->failure.len;
    call->why = why;
    buf_append(&call->failure, bytes.ptr, bytes.len < room ? bytes.len : room);
    return ADAPTER_FAILED;
}
