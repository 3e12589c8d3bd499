/*
 * Snapshots: an image that snapshot_check accepts is read without a look
 * outside it, whoever wrote it.
 *
 * Input: a byte for the form, then the bytes of an image (form 0; its magic,
 * layout and size are put right), or edits of a compiled one (form 1): each has
 * two bytes for a word's number, one for what is done to it, and four of a value.
 */
#include "core/config/entry.h"
#include "tests/fuzz/fuzz.h"

#define CIPHERTEXT "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw"
#define MODEL                                                                                            \
    "{\"upstreams\":[{\"baseURL\":\"https://h/v1\",\"overrideModel\":\"m\",\"supplierModel\":\"s\","     \
    "\"account\":\"a\",\"headers\":{\"x-a\":\"b\"},\"keys\":[{\"id\":\"k\",\"ciphertext\":\"" CIPHERTEXT \
    "\"},{\"id\":\"l\",\"ciphertext\":\"" CIPHERTEXT "\"}]}]}"
#define SPEAKER                                                                                             \
    "{\"provider\":\"openai\",\"upstreams\":[{\"adapterParams\":{\"model\":\"m\"},\"keys\":[{\"id\":\"k\"," \
    "\"ciphertext\":\"" CIPHERTEXT "\"}]}]}"
#define SHA256_A "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
#define SHA256_B "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"

#define PACK(id)                                                                                  \
    "{\"id\":\"" id                                                                               \
    "\",\"name\":\"n\",\"description\":\"d\",\"provider\":\"p\",\"model\":\"m\",\"voice\":\"v\"," \
    "\"upstreamVoice\":\"u\",\"ttsModelId\":\"t\",\"tier\":\"lite\",\"params\":{\"pitch\":5}}"

static struct span compile(struct arena *arena)
{
    struct entry_value values[ENTRY_COUNT] = {
        [ENTRY_LLM_ROUTER_CONFIG] = { span_cstr("{\"llm\":{\"models\":{\"gpt\":" MODEL ",\"a\":" MODEL
                                                "}},\"tts\":{\"models\":{\"say\":" SPEAKER "}}}"),
                                      "1" },
        [ENTRY_DEFAULT_CHAT_MODEL] = { span_cstr("\"gpt\""), "1" },
        [ENTRY_DEFAULT_TTS_MODEL] = { span_cstr("\"say\""), "1" },
        [ENTRY_CALLER_KEYS] = { span_cstr("{\"keys\":[{\"id\":\"a\",\"sha256\":\"" SHA256_A
                                          "\"},{\"id\":\"b\",\"sha256\":\"" SHA256_B
                                          "\",\"owner\":\"o\",\"models\":[\"gpt\",\"b\"]}]}"),
                                "1" },
        [ENTRY_VOICE_PACKS] = { span_cstr("{\"packs\":[" PACK("b") "," PACK("a") "]}"), "1" },
        [ENTRY_VOICE_PACK_TAG_KEY] = { span_cstr("{\"ciphertext\":\"" CIPHERTEXT "\"}"), "1" },
    };
    struct entry_faults faults = { 0 };
    enum entry_id which;
    size_t undecryptable;
    struct span image;
    fuzz_check(entry_compile(values, 1, NULL, arena, &image, &undecryptable, &which, &faults) == 0,
               "the seed of all edits compiles");
    return image;
}

static void put_header_right(struct span image)
{
    struct snap_root *root = (void *)(uintptr_t)image.ptr;
    if (image.len < sizeof(*root))
        return;
    memcpy(root->magic, SNAPSHOT_MAGIC, sizeof(root->magic));
    root->layout = SNAPSHOT_LAYOUT;
    root->bytes = (uint32_t)image.len;
}

static void edit(struct span image, struct fuzz_input *in)
{
    enum { SET, ADD, SET_FROM_END, N_ACTIONS };
    size_t n_words = image.len / sizeof(uint32_t);
    while (in->left >= 7 && n_words > 0) {
        size_t word = fuzz_take_byte(in);
        word = (word | fuzz_take_byte(in) << 8) % n_words;
        size_t action = fuzz_take_choice(in, N_ACTIONS);
        uint32_t value = 0;
        for (int i = 0; i < 4; i++)
            value |= (uint32_t)fuzz_take_byte(in) << (8 * i);
        char *at = (char *)(uintptr_t)image.ptr + word * sizeof(uint32_t);
        uint32_t old;
        memcpy(&old, at, sizeof(old));
        if (action == ADD)
            value += old;
        else if (action == SET_FROM_END)
            value += (uint32_t)image.len;
        memcpy(at, &value, sizeof(value));
    }
}

/* --- a reader ------------------------------------------------------------- */

static size_t bytes_seen; /* what is read must have a use, or the compiler leaves it out */

static void read_text(const struct snap_root *root, struct snap_str text, bool is_needed)
{
    struct span span = snap_span(root, text);
    const char *cstr = snap_cstr(root, text);
    fuzz_check(!is_needed || snap_has(text), "what must be there is there");
    fuzz_check(span.len == 0 || fuzz_lies_inside(span, span_of((const char *)root, root->bytes)),
               "a text lies inside");
    fuzz_check(cstr[span.len] == '\0', "a text has its NUL");
    for (size_t i = 0; i < span.len; i++)
        bytes_seen += (unsigned char)span.ptr[i];
}

static void read_upstream(const struct snap_root *root, const struct snap_upstream *u)
{
    const struct snap_str needed[] = { u->id,          u->provider,        u->host,   u->url,
                                       u->header_name, u->header_template, u->dialect };
    const struct snap_str others[] = { u->override_model, u->adapter_params, u->supplier_model, u->account };

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        read_text(root, needed[i], true);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        read_text(root, others[i], false);
    for (uint32_t i = 0; i < u->headers.count; i++) {
        read_text(root, SNAP_ITEM(root, u->headers, struct snap_header_line, i)->name, true);
        read_text(root, SNAP_ITEM(root, u->headers, struct snap_header_line, i)->value, true);
    }
    fuzz_check(u->keys.count > 0, "an upstream has a key");
    for (uint32_t i = 0; i < u->keys.count; i++) {
        const struct snap_key *key = SNAP_ITEM(root, u->keys, struct snap_key, i);
        read_text(root, key->id, true);
        read_text(root, key->ciphertext, true);
        read_text(root, key->aad, true);
        bytes_seen += strlen(key->fingerprint);
    }
}

static void read_models(const struct snap_root *root, struct snap_vec models, struct snap_vec index)
{
    for (uint32_t i = 0; i < models.count; i++) {
        const struct snap_model *model = SNAP_ITEM(root, models, struct snap_model, i);
        read_text(root, model->name, true);
        fuzz_check(model->upstreams.count > 0, "a model has an upstream");
        for (uint32_t j = 0; j < model->upstreams.count; j++)
            read_upstream(root, SNAP_ITEM(root, model->upstreams, struct snap_upstream, j));
        for (uint32_t j = 0; j < model->http_codes.count; j++)
            bytes_seen += *SNAP_ITEM(root, model->http_codes, uint32_t, j);
        bytes_seen += snapshot_model(root, snap_span(root, model->name)) != NULL;
        bytes_seen += snapshot_tts_model(root, snap_span(root, model->name)) != NULL;
        fuzz_check(*SNAP_ITEM(root, index, uint32_t, i) < models.count, "the index names models");
    }
}

static void read_voice_packs(const struct snap_root *root)
{
    for (uint32_t i = 0; i < root->voice_packs.count; i++) {
        const struct snap_voice_pack *p = SNAP_ITEM(root, root->voice_packs, struct snap_voice_pack, i);
        const struct snap_str needed[] = { p->id,    p->name,      p->provider, p->model,
                                           p->voice, p->tts_model, p->tier };
        for (size_t j = 0; j < sizeof(needed) / sizeof(needed[0]); j++)
            read_text(root, needed[j], true);
        read_text(root, p->description, false);
        read_text(root, p->upstream_voice, false);
        for (size_t j = 0; j < VOICE_PACK_PARAMS; j++)
            bytes_seen += p->params[j].is_set;
        bytes_seen += snapshot_voice_pack(root, snap_span(root, p->id)) != NULL;
    }
    read_text(root, root->voice_pack_tag_key, false);
}

static void read_principals(const struct snap_root *root)
{
    for (uint32_t i = 0; i < root->principals.count; i++) {
        const struct snap_principal *p = SNAP_ITEM(root, root->principals, struct snap_principal, i);
        read_text(root, p->id, true);
        read_text(root, p->owner, false);
        for (uint32_t j = 0; j < p->models.count; j++)
            read_text(root, *SNAP_ITEM(root, p->models, struct snap_str, j), true);
        bytes_seen += snapshot_principal(root, p->sha256) != NULL;
        bytes_seen += snapshot_may_use(root, p, span_cstr("gpt"));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    bool is_edited = fuzz_take_choice(&in, 2) == 1;
    struct arena *arena = arena_new();
    struct error e = { .text = "" };

    struct span image = fuzz_copy(is_edited ? compile(arena) : fuzz_rest(&in));
    if (is_edited)
        edit(image, &in);
    else
        put_header_right(image);
    if (snapshot_check(image, &e) == 0) {
        const struct snap_root *root = (const void *)image.ptr;
        fuzz_check(strlen(root->tree_version) < sizeof(root->tree_version), "the tree's version has its NUL");
        read_text(root, root->default_chat_model, false);
        read_text(root, root->default_tts_model, false);
        read_models(root, root->models, root->model_index);
        read_models(root, root->tts_models, root->tts_model_index);
        read_principals(root);
        read_voice_packs(root);
    } else {
        fuzz_check(e.code == ERR_FORMAT && e.text[0] != '\0', "a refusal says why");
    }
    fuzz_free_copy(image);
    arena_free(arena);
    return 0;
}
