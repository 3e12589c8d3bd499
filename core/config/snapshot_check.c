#include "core/config/snapshot.h"

#include <stdint.h>

/*
 * What the structs of an image refer to, as tables: a file that was cut, that
 * comes from elsewhere or has a flipped bit must not make a worker read
 * outside its mapping.
 */
enum ref_kind { REF_TEXT, REF_NEEDED_TEXT, REF_VECTOR, REF_NEEDED_VECTOR };

struct shape;

struct ref {
    enum ref_kind kind;
    size_t at;                 /* in the struct */
    const struct shape *shape; /* of a vector's elements */
};

struct shape {
    size_t bytes, align;
    const struct ref *refs;
    size_t n_refs;
};

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define SHAPE(type, rows)                                 \
    {                                                     \
        sizeof(type), _Alignof(type), (rows), COUNT(rows) \
    }

static const struct shape number_shape = { sizeof(uint32_t), _Alignof(uint32_t), NULL, 0 };

static const struct ref text_refs[] = { { REF_NEEDED_TEXT, 0, NULL } };
static const struct shape text_shape = SHAPE(struct snap_str, text_refs);

static const struct ref header_refs[] = {
    { REF_NEEDED_TEXT, offsetof(struct snap_header_line, name), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_header_line, value), NULL },
};
static const struct shape header_shape = SHAPE(struct snap_header_line, header_refs);

static const struct ref key_refs[] = {
    { REF_NEEDED_TEXT, offsetof(struct snap_key, id), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_key, ciphertext), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_key, aad), NULL },
};
static const struct shape key_shape = SHAPE(struct snap_key, key_refs);

static const struct ref upstream_refs[] = {
    { REF_NEEDED_TEXT, offsetof(struct snap_upstream, id), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_upstream, provider), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_upstream, host), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_upstream, url), NULL },
    { REF_TEXT, offsetof(struct snap_upstream, override_model), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_upstream, header_name), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_upstream, header_template), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_upstream, dialect), NULL },
    { REF_TEXT, offsetof(struct snap_upstream, adapter_params), NULL },
    { REF_TEXT, offsetof(struct snap_upstream, supplier_model), NULL },
    { REF_TEXT, offsetof(struct snap_upstream, account), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_upstream, pool), NULL },
    { REF_VECTOR, offsetof(struct snap_upstream, headers), &header_shape },
    { REF_NEEDED_VECTOR, offsetof(struct snap_upstream, keys), &key_shape },
};
static const struct shape upstream_shape = SHAPE(struct snap_upstream, upstream_refs);

static const struct ref model_refs[] = {
    { REF_NEEDED_TEXT, offsetof(struct snap_model, name), NULL },
    { REF_NEEDED_VECTOR, offsetof(struct snap_model, upstreams), &upstream_shape },
    { REF_VECTOR, offsetof(struct snap_model, http_codes), &number_shape },
    { REF_TEXT, offsetof(struct snap_model, recommended), NULL },
};
static const struct shape model_shape = SHAPE(struct snap_model, model_refs);

static const struct ref principal_refs[] = {
    { REF_NEEDED_TEXT, offsetof(struct snap_principal, id), NULL },
    { REF_TEXT, offsetof(struct snap_principal, owner), NULL },
    { REF_VECTOR, offsetof(struct snap_principal, models), &text_shape },
};
static const struct shape principal_shape = SHAPE(struct snap_principal, principal_refs);

static const struct ref voice_pack_refs[] = {
    { REF_NEEDED_TEXT, offsetof(struct snap_voice_pack, id), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_voice_pack, name), NULL },
    { REF_TEXT, offsetof(struct snap_voice_pack, description), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_voice_pack, provider), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_voice_pack, model), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_voice_pack, voice), NULL },
    { REF_TEXT, offsetof(struct snap_voice_pack, upstream_voice), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_voice_pack, tts_model), NULL },
    { REF_NEEDED_TEXT, offsetof(struct snap_voice_pack, tier), NULL },
};
static const struct shape voice_pack_shape = SHAPE(struct snap_voice_pack, voice_pack_refs);

static const struct ref root_refs[] = {
    { REF_VECTOR, offsetof(struct snap_root, models), &model_shape },
    { REF_VECTOR, offsetof(struct snap_root, model_index), &number_shape },
    { REF_VECTOR, offsetof(struct snap_root, tts_models), &model_shape },
    { REF_VECTOR, offsetof(struct snap_root, tts_model_index), &number_shape },
    { REF_VECTOR, offsetof(struct snap_root, principals), &principal_shape },
    { REF_TEXT, offsetof(struct snap_root, default_chat_model), NULL },
    { REF_TEXT, offsetof(struct snap_root, default_tts_model), NULL },
    { REF_VECTOR, offsetof(struct snap_root, voice_packs), &voice_pack_shape },
    { REF_VECTOR, offsetof(struct snap_root, voice_pack_index), &number_shape },
    { REF_TEXT, offsetof(struct snap_root, voice_pack_tag_key), NULL },
};
static const struct shape root_shape = SHAPE(struct snap_root, root_refs);

struct check {
    struct span image;
    size_t budget; /* bytes of elements still to be looked at */
};

static bool text_lies_inside(const struct check *c, struct snap_str text, bool is_needed)
{
    if (text.offset == 0)
        return !is_needed && text.len == 0;
    return text.offset >= sizeof(struct snap_root) && text.offset < c->image.len &&
           text.len < c->image.len - text.offset && c->image.ptr[text.offset + text.len] == '\0';
}

static bool struct_is_sound(struct check *c, const char *at, const struct shape *shape);

static bool vector_is_sound(struct check *c, struct snap_vec vector, const struct shape *shape,
                            bool is_needed)
{
    if (vector.count == 0)
        return !is_needed && vector.offset == 0;
    size_t bytes = (size_t)vector.count * shape->bytes;
    if (vector.offset < sizeof(struct snap_root) || vector.offset > c->image.len ||
        bytes > c->image.len - vector.offset || vector.offset % shape->align != 0)
        return false;
    if (shape->n_refs == 0)
        return true;
    /* Each element has bytes of its own. Vectors laid over one another could
     * make the walk as long as the file is wide, squared. */
    if (bytes > c->budget)
        return false;
    c->budget -= bytes;
    for (size_t i = 0; i < vector.count; i++)
        if (!struct_is_sound(c, c->image.ptr + vector.offset + i * shape->bytes, shape))
            return false;
    return true;
}

static bool ref_is_sound(struct check *c, const char *at, const struct ref *ref)
{
    struct snap_str text;
    struct snap_vec vector;
    if (ref->kind == REF_TEXT || ref->kind == REF_NEEDED_TEXT) {
        memcpy(&text, at + ref->at, sizeof(text));
        return text_lies_inside(c, text, ref->kind == REF_NEEDED_TEXT);
    }
    memcpy(&vector, at + ref->at, sizeof(vector));
    return vector_is_sound(c, vector, ref->shape, ref->kind == REF_NEEDED_VECTOR);
}

static bool struct_is_sound(struct check *c, const char *at, const struct shape *shape)
{
    for (size_t i = 0; i < shape->n_refs; i++)
        if (!ref_is_sound(c, at, &shape->refs[i]))
            return false;
    return true;
}

/* Fixed texts need their NUL; the index must name each model's place. */
static bool models_are_sound(const struct snap_root *root, struct snap_vec models, struct snap_vec index)
{
    if (index.count != models.count)
        return false;
    for (uint32_t i = 0; i < models.count; i++) {
        const struct snap_model *model = SNAP_ITEM(root, models, struct snap_model, i);
        if (*SNAP_ITEM(root, index, uint32_t, i) >= models.count)
            return false;
        for (uint32_t j = 0; j < model->upstreams.count; j++) {
            const struct snap_upstream *u = SNAP_ITEM(root, model->upstreams, struct snap_upstream, j);
            for (uint32_t k = 0; k < u->keys.count; k++) {
                const struct snap_key *key = SNAP_ITEM(root, u->keys, struct snap_key, k);
                if (memchr(key->fingerprint, '\0', sizeof(key->fingerprint)) == NULL)
                    return false;
            }
        }
    }
    return true;
}

static bool voice_packs_are_sound(const struct snap_root *root)
{
    if (root->voice_pack_index.count != root->voice_packs.count)
        return false;
    for (uint32_t i = 0; i < root->voice_packs.count; i++)
        if (*SNAP_ITEM(root, root->voice_pack_index, uint32_t, i) >= root->voice_packs.count)
            return false;
    return true;
}

static bool contents_are_sound(const struct snap_root *root)
{
    return memchr(root->tree_version, '\0', sizeof(root->tree_version)) != NULL &&
           models_are_sound(root, root->models, root->model_index) && voice_packs_are_sound(root) &&
           models_are_sound(root, root->tts_models, root->tts_model_index);
}

int snapshot_check(struct span image, struct error *e)
{
    const struct snap_root *root = (const void *)image.ptr;
    struct check c = { image, image.len };
    if (image.len < sizeof(*root) || memcmp(root->magic, SNAPSHOT_MAGIC, sizeof(root->magic)) != 0)
        return error_set(e, ERR_FORMAT, "it is no snapshot: the first bytes are not those of one");
    if (root->layout != SNAPSHOT_LAYOUT)
        return error_set(e, ERR_FORMAT, "it has layout %u, this program reads layout %d", root->layout,
                         SNAPSHOT_LAYOUT);
    if (root->bytes != image.len)
        return error_set(e, ERR_FORMAT, "it has %zu bytes and should have %u", image.len, root->bytes);
    if (!struct_is_sound(&c, image.ptr, &root_shape) || !contents_are_sound(root))
        return error_set(e, ERR_FORMAT, "it is damaged: a reference in it leads outside");
    return 0;
}
