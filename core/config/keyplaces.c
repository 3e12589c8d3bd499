#include "core/config/keyplaces.h"

#include "core/base/err.h"
#include "core/config/faults.h"
#include "core/json/writer.h"

const char *const key_member_names[MEMBER_COUNT] = {
    [MEMBER_ID] = "id",
    [MEMBER_KEY] = "key",
    [MEMBER_CIPHERTEXT] = "ciphertext",
    [MEMBER_CIPHERTEXT_FINGERPRINT] = "ciphertextFingerprint",
    [MEMBER_KEY_FINGERPRINT] = "keyFingerprint",
    [MEMBER_CREDENTIAL] = "credential",
};

/* The walk's own place: lists are scanned once more, one level at a time, since
 * a scan tells the index in the outermost list only. */
struct walk {
    struct arena *arena;
    struct buf path;
    struct span owner;
    bool is_credential;
    int (*on_place)(void *ctx, const struct key_place *place);
    void *ctx;
};

static int visit(struct walk *walk, const struct json_value *value)
{
    struct key_place place = {
        .is_credential = walk->is_credential,
        .owner = walk->owner,
        .object = value->raw,
    };
    struct json_want wants[MEMBER_COUNT];
    if (value->kind != JSON_KIND_OBJECT)
        return 0;
    for (size_t i = 0; i < MEMBER_COUNT; i++)
        wants[i] = (struct json_want){ key_member_names[i], false };
    int r = json_find(value->raw, wants, MEMBER_COUNT, 0, place.members, NULL);
    place.path = arena_span(walk->arena, buf_span(&walk->path));
    return r != 0 ? r : walk->on_place(walk->ctx, &place);
}

static int on_key(void *ctx, const struct json_value *value)
{
    struct walk *walk = ctx;
    size_t mark = fault_path_push_index(&walk->path, value->element);
    int r = visit(walk, value);
    fault_path_pop(&walk->path, mark);
    return r;
}

static int on_upstream(void *ctx, const struct json_value *value)
{
    static const struct json_want keys = { "keys.*", false };
    struct walk *walk = ctx;
    int r = 0;
    size_t mark = fault_path_push_index(&walk->path, value->element);
    fault_path_push_name(&walk->path, span_cstr("keys"));
    if (value->kind == JSON_KIND_OBJECT)
        r = json_scan(value->raw, &keys, 1, 0, on_key, walk, NULL);
    fault_path_pop(&walk->path, mark);
    return r;
}

enum top { TOP_CREDENTIAL, TOP_LLM_MODEL, TOP_TTS_MODEL, TOP_COUNT };

static const struct {
    struct json_want want;
    const char *path;
} tops[TOP_COUNT] = {
    [TOP_CREDENTIAL] = { { "credentials.*", false }, "/credentials" },
    [TOP_LLM_MODEL] = { { "llm.models.*", false }, "/llm/models" },
    [TOP_TTS_MODEL] = { { "tts.models.*", false }, "/tts/models" },
};

static int on_top(void *ctx, const struct json_value *value)
{
    static const struct json_want upstreams = { "upstreams.*", false };
    struct walk *walk = ctx;
    if (value->kind != JSON_KIND_OBJECT || value->key.ptr == NULL)
        return 0;
    walk->owner = json_decode(walk->arena, span_of(value->key.ptr - 1, value->key.len + 2));
    walk->is_credential = value->path == TOP_CREDENTIAL;
    buf_clear(&walk->path);
    buf_append_cstr(&walk->path, tops[value->path].path);
    fault_path_push_name(&walk->path, walk->owner);
    if (walk->is_credential)
        return visit(walk, value);
    fault_path_push_name(&walk->path, span_cstr("upstreams"));
    return json_scan(value->raw, &upstreams, 1, 0, on_upstream, walk, NULL);
}

int key_places_walk(struct span raw, struct arena *arena,
                    int (*on_place)(void *ctx, const struct key_place *place), void *ctx)
{
    struct walk walk = { .arena = arena, .on_place = on_place, .ctx = ctx };
    struct json_want wants[TOP_COUNT];
    for (size_t i = 0; i < TOP_COUNT; i++)
        wants[i] = tops[i].want;
    buf_init(&walk.path, FAULT_PATH_LIMIT_BYTES);
    int r = json_scan(raw, wants, TOP_COUNT, 0, on_top, &walk, NULL);
    buf_free(&walk.path);
    return r;
}

struct rewrite {
    struct span rest; /* of the document, not yet copied */
    struct buf *out;
    int (*write)(void *ctx, const struct key_place *place, struct buf *out);
    void *ctx;
};

static int rewrite_place(void *ctx, const struct key_place *place)
{
    struct rewrite *rewrite = ctx;
    size_t before = (size_t)(place->object.ptr - rewrite->rest.ptr);
    buf_append(rewrite->out, rewrite->rest.ptr, before);
    rewrite->rest =
        span_of(place->object.ptr + place->object.len, rewrite->rest.len - before - place->object.len);
    return rewrite->write(rewrite->ctx, place, rewrite->out);
}

int key_places_rewrite(struct span raw, struct arena *arena,
                       int (*write)(void *ctx, const struct key_place *place, struct buf *out), void *ctx,
                       struct buf *out)
{
    struct rewrite rewrite = { raw, out, write, ctx };
    int r = key_places_walk(raw, arena, rewrite_place, &rewrite);
    if (r == 0)
        buf_append_span(out, rewrite.rest);
    return r != 0 ? r : out->overflowed ? ERR_LIMIT : 0;
}

struct span key_place_id(const struct key_place *place, struct arena *arena)
{
    const struct json_value *id = &place->members[MEMBER_ID];
    if (place->is_credential || id->kind != JSON_KIND_STRING)
        return span_of("", 0);
    return json_decode(arena, id->raw);
}

struct span key_place_aad(const struct key_place *place, struct arena *arena)
{
    struct span id = key_place_id(place, arena);
    const char *text =
        place->is_credential
            ? arena_printf(arena, "credential|%.*s", (int)place->owner.len, place->owner.ptr)
            : arena_printf(arena, "%.*s|%.*s", (int)place->owner.len, place->owner.ptr, (int)id.len, id.ptr);
    return span_cstr(text);
}

struct member_copy {
    struct json_writer *w;
    const struct key_place *place;
    unsigned left_out;
};

static int copy_member(void *ctx, const struct json_value *value)
{
    struct member_copy *copy = ctx;
    for (size_t i = 0; i < MEMBER_COUNT; i++)
        if ((copy->left_out & 1U << i) != 0 && value->raw.ptr == copy->place->members[i].raw.ptr)
            return 0;
    /* Both as written: the name is escaped already. */
    if (copy->w->need_comma)
        buf_append_char(copy->w->out, ',');
    buf_append(copy->w->out, value->key.ptr - 1, value->key.len + 2);
    buf_append_char(copy->w->out, ':');
    buf_append_span(copy->w->out, value->raw);
    copy->w->need_comma = true;
    return 0;
}

void key_place_begin(const struct key_place *place, unsigned left_out, struct json_writer *w, struct buf *out)
{
    static const struct json_want members = { "*", false };
    jw_init(w, out);
    jw_begin_object(w);
    struct member_copy copy = { w, place, left_out };
    json_scan(place->object, &members, 1, 0, copy_member, &copy, NULL);
}
