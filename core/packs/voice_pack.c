#include "core/packs/voice_pack.h"

#include <stdio.h>

#include "core/base/buf.h"
#include "core/crypto/digest.h"
#include "core/json/scan.h"

enum {
    TEXT_BYTES_MAX = 1024,    /* of a member: more than any of ours has */
    SIGNED_BYTES = 64 * 1024, /* all of them, with escapes */
    NAME_SHOWN_BYTES = 64,    /* of a member that is not known */
    TAG_BYTES = 3 + 43 + 1,   /* "v1.", 32 bytes in base64url, a NUL */
};

const char *const voice_pack_param_names[VOICE_PACK_PARAMS] = {
    [VOICE_PACK_PITCH] = "pitch",
    [VOICE_PACK_VOLUME] = "volume",
    [VOICE_PACK_RATE] = "rate",
};

const char *const voice_pack_tiers[] = { "lite", "standard", "pro", "premium", NULL };

bool voice_pack_is_usual(enum voice_pack_param param, double value)
{
    return value == (param == VOICE_PACK_RATE ? 1.0 : 0.0);
}

/* The members that are texts, in the order in which they are written and signed. */
static const struct {
    const char *name;
    size_t place;
} texts[] = {
    { "packId", offsetof(struct voice_pack_snapshot, pack_id) },
    { "name", offsetof(struct voice_pack_snapshot, name) },
    { "provider", offsetof(struct voice_pack_snapshot, provider) },
    { "model", offsetof(struct voice_pack_snapshot, model) },
    { "voiceId", offsetof(struct voice_pack_snapshot, voice_id) },
    { "tier", offsetof(struct voice_pack_snapshot, tier) },
    { "ttsModelId", offsetof(struct voice_pack_snapshot, tts_model_id) },
};

enum { N_TEXTS = sizeof(texts) / sizeof(texts[0]) };

static struct span text_of(const struct voice_pack_snapshot *snapshot, size_t i)
{
    return *(const struct span *)(const void *)((const char *)snapshot + texts[i].place);
}

void voice_pack_write_number(double value, char out[VOICE_PACK_NUMBER_BYTES])
{
    double again;
    for (int digits = 15; digits <= 17; digits++) { /* 15 always survive the way there and back */
        snprintf(out, VOICE_PACK_NUMBER_BYTES, "%.*g", digits, value);
        if (json_number(span_cstr(out), &again) && again == value)
            break;
    }
}

static void write_number(struct json_writer *w, double value)
{
    char text[VOICE_PACK_NUMBER_BYTES];
    voice_pack_write_number(value, text);
    jw_raw(w, span_cstr(text));
}

/* What is signed: a list of what stands in each place, led by what it is for. */
static void make_tag(const struct voice_pack_snapshot *snapshot, struct span key, char out[TAG_BYTES])
{
    uint8_t mac[SHA256_BYTES];
    struct json_writer w;
    struct buf text;

    buf_init(&text, SIGNED_BYTES);
    jw_init(&w, &text);
    jw_begin_array(&w);
    jw_cstr(&w, "llm-router voice pack v1");
    for (size_t i = 0; i < N_TEXTS; i++)
        jw_string(&w, text_of(snapshot, i));
    for (size_t i = 0; i < VOICE_PACK_PARAMS; i++) {
        if (snapshot->params[i].is_set)
            write_number(&w, snapshot->params[i].value);
        else
            jw_null(&w);
    }
    jw_end_array(&w);
    hmac_sha256(key, buf_span(&text), mac);
    memcpy(out, "v1.", 3);
    base64url_encode(span_of((const char *)mac, sizeof(mac)), out + 3);
    buf_free(&text);
}

static void write_params(const struct voice_pack_snapshot *snapshot, struct json_writer *w)
{
    jw_key(w, "params");
    jw_begin_object(w);
    for (size_t i = 0; i < VOICE_PACK_PARAMS; i++) {
        if (!snapshot->params[i].is_set)
            continue;
        jw_key(w, voice_pack_param_names[i]);
        write_number(w, snapshot->params[i].value);
    }
    jw_end_object(w);
}

void voice_pack_write_snapshot(const struct voice_pack_snapshot *snapshot, struct span tag_key,
                               struct json_writer *w)
{
    char tag[TAG_BYTES];

    make_tag(snapshot, tag_key, tag);
    jw_begin_object(w);
    for (size_t i = 0; i < N_TEXTS; i++)
        jw_member_span(w, texts[i].name, text_of(snapshot, i));
    write_params(snapshot, w);
    jw_member_cstr(w, "tag", tag);
    jw_end_object(w);
}

/* ---- reading ---- */

static int refuse(struct voice_pack_fault *fault, struct arena *arena, const char *member,
                  const char *problem)
{
    const char *param = arena_printf(arena, "voice_pack%s%s", member[0] == '\0' ? "" : ".", member);
    *fault = (struct voice_pack_fault){ param, arena_printf(arena, "`%s` %s.", param, problem) };
    return ERR_FORMAT;
}

struct reading {
    struct arena *arena;
    struct voice_pack_fault *fault;
    struct voice_pack_snapshot *out;
    bool has_params;
    struct span tag;
};

static int read_text(struct reading *r, const char *name, const struct json_value *value, struct span *out)
{
    if (value->kind != JSON_KIND_STRING)
        return refuse(r->fault, r->arena, name, "must be a string");
    struct span text = json_decode(r->arena, value->raw);
    if (text.len == 0 || text.len > TEXT_BYTES_MAX)
        return refuse(r->fault, r->arena, name, "is empty or too long");
    *out = text;
    return 0;
}

static struct span name_of(const struct reading *r, const struct json_value *value)
{
    return json_decode(r->arena, span_of(value->key.ptr - 1, value->key.len + 2));
}

/* A long name is cut, between two characters. */
static int refuse_unknown(struct reading *r, const char *place, struct span name)
{
    size_t len = name.len > NAME_SHOWN_BYTES ? NAME_SHOWN_BYTES : name.len;
    while (len > 0 && len < name.len && ((unsigned char)name.ptr[len] & 0xc0) == 0x80)
        len--;
    return refuse(r->fault, r->arena, arena_printf(r->arena, "%s%.*s", place, (int)len, name.ptr),
                  "is not a member of a voice pack's snapshot");
}

static int on_param(void *ctx, const struct json_value *value)
{
    struct reading *r = ctx;
    struct span name = name_of(r, value);

    for (size_t i = 0; i < VOICE_PACK_PARAMS; i++) {
        if (!span_is(name, voice_pack_param_names[i]))
            continue;
        struct voice_pack_number *number = &r->out->params[i];
        number->is_set = value->kind == JSON_KIND_NUMBER && json_number(value->raw, &number->value);
        return number->is_set ? 0
                              : refuse(r->fault, r->arena,
                                       arena_printf(r->arena, "params.%s", voice_pack_param_names[i]),
                                       "must be a number");
    }
    return refuse_unknown(r, "params.", name);
}

static const struct json_want members[] = { { "*", false } };

static int on_member(void *ctx, const struct json_value *value)
{
    struct reading *r = ctx;
    struct span name = name_of(r, value);

    if (span_is(name, "tag"))
        return read_text(r, "tag", value, &r->tag);
    if (span_is(name, "params")) {
        r->has_params = true;
        return value->kind == JSON_KIND_OBJECT ? json_scan(value->raw, members, 1, 0, on_param, r, NULL)
                                               : refuse(r->fault, r->arena, "params", "must be an object");
    }
    for (size_t i = 0; i < N_TEXTS; i++)
        if (span_is(name, texts[i].name))
            return read_text(r, texts[i].name, value,
                             (struct span *)(void *)((char *)r->out + texts[i].place));
    return refuse_unknown(r, "", name);
}

static int find_missing(struct reading *r)
{
    const char *missing = r->tag.len == 0 ? "tag" : !r->has_params ? "params" : NULL;
    for (size_t i = 0; i < N_TEXTS && missing == NULL; i++)
        if (text_of(r->out, i).len == 0)
            missing = texts[i].name;
    return missing == NULL ? 0 : refuse(r->fault, r->arena, missing, "is missing");
}

int voice_pack_read_snapshot(struct span json, struct span tag_key, struct arena *arena,
                             struct voice_pack_snapshot *out, struct voice_pack_fault *fault)
{
    struct voice_pack_snapshot snapshot = { .params = { { .is_set = false } } };
    struct reading r = { .arena = arena, .fault = fault, .out = &snapshot };
    char tag[TAG_BYTES];

    if (!span_starts(json, "{"))
        return refuse(fault, arena, "", "must be an object, as it was made");
    int result = json_scan(json, members, 1, JSON_SCAN_UNIQUE, on_member, &r, NULL);
    if (result == ERR_CONFLICT)
        return refuse(fault, arena, "", "has a member twice");
    if (result == 0)
        result = find_missing(&r);
    if (result != 0)
        return ERR_FORMAT;
    make_tag(&snapshot, tag_key, tag);
    if (!equal_in_constant_time(r.tag, span_cstr(tag))) {
        refuse(fault, arena, "tag", "does not fit: the snapshot has been changed, or is another gateway's");
        return ERR_CRYPTO;
    }
    *out = snapshot;
    return 0;
}
