#include "core/config/entry.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/config/document.h"
#include "core/config/faults.h"
#include "core/config/field.h"

static const struct entry_row rows[ENTRY_COUNT] = {
    [ENTRY_LLM_ROUTER_CONFIG] = { "LLM_ROUTER_CONFIG", &field_llm_router_config },
    [ENTRY_DEFAULT_CHAT_MODEL] = { "DEFAULT_CHAT_MODEL", &field_default_chat_model },
    [ENTRY_DEFAULT_TTS_MODEL] = { "DEFAULT_TTS_MODEL", &field_default_tts_model },
    [ENTRY_DEFAULT_TTS_VOICES] = { "DEFAULT_TTS_VOICES", &field_default_tts_voices },
    [ENTRY_CALLER_KEYS] = { "CALLER_KEYS", &field_caller_keys },
    [ENTRY_VOICE_PACKS] = { "VOICE_PACKS", &field_voice_packs },
    [ENTRY_VOICE_PACK_TAG_KEY] = { "VOICE_PACK_TAG_KEY", &field_voice_pack_tag_key },
};

const struct entry_row *entry_row(enum entry_id id)
{
    return &rows[id];
}

const char *entry_name(enum entry_id id)
{
    return rows[id].name;
}

int entry_by_name(struct span name, enum entry_id *out)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++)
        if (span_is(name, rows[i].name)) {
            *out = (enum entry_id)i;
            return 0;
        }
    return ERR_NOT_FOUND;
}

/* What one compile or check works on. */
struct compile {
    struct arena *arena;
    struct image image;
    struct compiled compiled;
    const struct envelope_keys *keys;
    size_t undecryptable;
};

static int compile_entry(struct compile *c, enum entry_id id, struct span raw, struct entry_faults *faults)
{
    struct reader reader = {
        .arena = c->arena,
        .image = &c->image,
        .faults = faults,
        .defaults = &c->compiled.defaults,
        .keys = c->keys,
    };
    size_t before = faults->count + faults->dropped;
    if (raw.ptr != NULL) {
        reader.document = document_parse(raw, c->arena, faults);
        if (reader.document == NULL)
            return ERR_FORMAT;
    }
    buf_init(&reader.path, FAULT_PATH_LIMIT_BYTES);
    reader_read(&reader, rows[id].field, &c->compiled);
    buf_free(&reader.path);
    c->undecryptable += reader.undecryptable;
    return faults->count + faults->dropped == before ? 0 : ERR_FORMAT;
}

int entry_check(enum entry_id id, struct span raw, struct arena *arena, struct entry_faults *faults)
{
    struct compile c = { .arena = arena };
    image_init(&c.image);
    int r = compile_entry(&c, id, raw.ptr == NULL ? span_of("", 0) : raw, faults);
    if (r == 0 && c.image.bytes.overflowed) {
        fault_add(faults, arena, span_of("", 0), "the compiled snapshot would have more than %d bytes",
                  SNAPSHOT_LIMIT_BYTES);
        r = ERR_FORMAT;
    }
    image_free(&c.image);
    return r;
}

struct named_model {
    struct span name;
    uint32_t position;
};

static int compare_names(const void *a, const void *b)
{
    const struct named_model *x = a, *y = b;
    size_t least = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.ptr, y->name.ptr, least);
    return order != 0 ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static struct snap_vec index_models(struct compile *c, struct snap_vec list)
{
    size_t n = list.count;
    const struct snap_model *models = image_at(&c->image, list);
    struct named_model *named = arena_array_of(c->arena, struct named_model, n);
    uint32_t *positions = arena_array_of(c->arena, uint32_t, n);
    for (size_t i = 0; i < n; i++)
        named[i] = (struct named_model){ image_span(&c->image, models[i].name), (uint32_t)i };
    qsort(named, n, sizeof(*named), compare_names);
    for (size_t i = 0; i < n; i++)
        positions[i] = named[i].position;
    return image_vector(&c->image, positions, n, sizeof(*positions));
}

/* The chain's bound is the document's alone. */
static void copy_chain_timeout(struct compile *c, struct snap_vec list)
{
    struct snap_model *models = image_at(&c->image, list);
    for (size_t i = 0; i < list.count; i++)
        models[i].full_chain_timeout_ms = c->compiled.defaults.chain_timeout_ms;
}

/* A model that is not there is not waited for: the entries change in any order. */
static void attach_voices(struct compile *c)
{
    const struct snap_root *root = (const void *)c->image.bytes.data;
    const struct tts_voices *voices = image_at(&c->image, c->compiled.tts_voices);
    struct snap_model *models = image_at(&c->image, c->compiled.tts_models);
    for (size_t i = 0; i < c->compiled.tts_voices.count; i++) {
        const struct snap_model *model = snapshot_tts_model(root, image_span(&c->image, voices[i].model));
        if (model != NULL)
            models[model - models].recommended = voices[i].by_locale;
    }
}

static void fill_root(struct compile *c, const struct entry_value *tree, uint64_t generation)
{
    struct snap_vec index = index_models(c, c->compiled.models);
    struct snap_vec tts_index = index_models(c, c->compiled.tts_models);
    struct snap_root *root = (void *)c->image.bytes.data;
    memcpy(root->magic, SNAPSHOT_MAGIC, sizeof(root->magic));
    root->bytes = (uint32_t)c->image.bytes.len;
    root->generation = generation;
    root->compiled_wall_us = clock_wall_us();
    root->has_tree = tree->raw.ptr != NULL;
    root->models = c->compiled.models;
    root->model_index = index;
    root->tts_models = c->compiled.tts_models;
    root->tts_model_index = tts_index;
    root->principals = c->compiled.principals;
    root->default_chat_model = c->compiled.default_chat_model;
    root->default_tts_model = c->compiled.default_tts_model;
    root->voice_packs = c->compiled.voice_packs;
    root->voice_pack_index = c->compiled.voice_pack_index;
    root->voice_pack_tag_key = c->compiled.voice_pack_tag_key;
    root->client_stall_timeout_ms = c->compiled.defaults.client_stall_timeout_ms;
    if (root->has_tree && tree->version != NULL) {
        size_t len = strlen(tree->version);
        memcpy(root->tree_version, tree->version,
               len < SNAPSHOT_VERSION_BYTES ? len : SNAPSHOT_VERSION_BYTES - 1);
    }
}

int entry_compile(const struct entry_value values[ENTRY_COUNT], uint64_t generation,
                  const struct envelope_keys *keys, struct arena *arena, struct span *image,
                  size_t *undecryptable, enum entry_id *which, struct entry_faults *faults)
{
    struct compile c = { .arena = arena, .keys = keys };
    int result = 0;
    image_init(&c.image);
    for (size_t i = 0; i < ENTRY_COUNT && result == 0; i++) {
        result = compile_entry(&c, (enum entry_id)i, values[i].raw, faults);
        if (result != 0)
            *which = (enum entry_id)i;
    }
    if (result == 0 && !c.image.bytes.overflowed) {
        copy_chain_timeout(&c, c.compiled.models);
        copy_chain_timeout(&c, c.compiled.tts_models);
        fill_root(&c, &values[ENTRY_LLM_ROUTER_CONFIG], generation);
        attach_voices(&c);
    }
    if (result == 0 && c.image.bytes.overflowed)
        result = ERR_LIMIT;
    if (result == 0) {
        *image = span_of(arena_span(arena, buf_span(&c.image.bytes)), c.image.bytes.len);
        *undecryptable = c.undecryptable;
    }
    image_free(&c.image);
    return result;
}
