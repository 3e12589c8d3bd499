#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/config/entry.h"
#include "core/config/snapshot.h"
#include "core/crypto/digest.h"

#define SEALED "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw"
#define UPSTREAM                                                                                         \
    "{\"upstreams\":[{\"baseURL\":\"https://h/v1\",\"headers\":{\"x-a\":\"b\"},\"keys\":[{\"id\":\"k\"," \
    "\"ciphertext\":\"" SEALED "\"}]}]}"

#define SPEAKER                                                                                             \
    "{\"provider\":\"openai\",\"upstreams\":[{\"adapterParams\":{\"model\":\"m\"},\"keys\":[{\"id\":\"k\"," \
    "\"ciphertext\":\"" SEALED "\"}]}]}"

#define PACK(id, more)                                                                            \
    "{\"id\":\"" id "\",\"name\":\"N" id "\",\"provider\":\"p\",\"model\":\"m\",\"voice\":\"v\"," \
    "\"ttsModelId\":\"t\",\"tier\":\"lite\"" more "}"

static struct arena *arena;
static struct span image; /* of a tree, a default model and two callers */
static struct error e;

static const char *caller(const char *id, const char *key, const char *rest)
{
    char digest[SHA256_HEX_BYTES];
    sha256_hex(span_cstr(key), digest);
    return arena_printf(arena, "{\"id\":\"%s\",\"sha256\":\"%s\"%s}", id, digest, rest);
}

static void compile(const char *tree)
{
    struct entry_value values[ENTRY_COUNT] = { { .version = NULL } };
    struct entry_faults faults = { 0 };
    enum entry_id which;
    size_t undecryptable;
    values[ENTRY_LLM_ROUTER_CONFIG] = (struct entry_value){ span_cstr(tree), "abc" };
    values[ENTRY_DEFAULT_TTS_MODEL] = (struct entry_value){ span_cstr("\"say\""), "d" };
    values[ENTRY_DEFAULT_CHAT_MODEL] = (struct entry_value){ span_cstr("\"gpt\""), "d" };
    values[ENTRY_CALLER_KEYS] = (struct entry_value){
        span_cstr(arena_printf(arena, "{\"keys\":[%s,%s,%s]}", caller("a", "key-a", ""),
                               caller("b", "key-b",
                                      ",\"models\":[\"gpt\",\"glm\"],\"owner\":\"B\",\"limits\":"
                                      "{\"concurrency\":2,\"tokensPerMinute\":300}"),
                               caller("c", "key-c", ",\"models\":[]"))),
        "c"
    };
    values[ENTRY_VOICE_PACKS] = (struct entry_value){
        span_cstr("{\"packs\":[" PACK("z", ",\"params\":{\"pitch\":-5,\"rate\":1.5}") "," PACK(
            "a", "") "," PACK("m", ",\"enabled\":false,\"upstreamVoice\":\"u\"") "]}"),
        "p"
    };
    values[ENTRY_VOICE_PACK_TAG_KEY] =
        (struct entry_value){ span_cstr("{\"ciphertext\":\"" SEALED "\"}"), "t" };
    int r = entry_compile(values, 7, NULL, arena, &image, &undecryptable, &which, &faults);
    ck_assert_msg(r == 0, "%s: %s", faults.count > 0 ? faults.items[0].path : "",
                  faults.count > 0 ? faults.items[0].message : "");
}

static void set_up(void)
{
    arena = arena_new();
    compile("{\"llm\":{\"models\":{\"gpt\":" UPSTREAM ",\"a\":" UPSTREAM ",\"gpt-4\":" UPSTREAM
            ",\"é\":" UPSTREAM "}},\"tts\":{\"models\":{\"say\":" SPEAKER ",\"gpt\":" SPEAKER "}}}");
}

static void tear_down(void)
{
    arena_free(arena);
}

static const struct snap_root *root(void)
{
    return (const void *)image.ptr;
}

static const struct {
    const char *name;
    bool is_there;
} names[] = {
    { "gpt", true }, { "a", true },     { "gpt-4", true }, { "é", true },       { "gp", false },
    { "", false },   { "gpt-", false }, { "zz", false },   { "gpt-4o", false }, { "GPT", false },
};

START_TEST(models_that_speak_have_names_of_their_own)
{
    const struct snap_model *say = snapshot_tts_model(root(), span_cstr("say"));
    const struct snap_model *gpt = snapshot_tts_model(root(), span_cstr("gpt"));
    ck_assert(say != NULL && gpt != NULL && gpt != snapshot_model(root(), span_cstr("gpt")));
    ck_assert_ptr_null(snapshot_model(root(), span_cstr("say")));
    ck_assert_ptr_null(snapshot_tts_model(root(), span_cstr("a")));
    ck_assert_str_eq(snap_cstr(root(), root()->default_tts_model), "say");
}
END_TEST

START_TEST(a_model_is_found_by_its_whole_name_only)
{
    const struct snap_model *model = snapshot_model(root(), span_cstr(names[_i].name));
    ck_assert_msg((model != NULL) == names[_i].is_there, "\"%s\"", names[_i].name);
    if (model != NULL)
        ck_assert_str_eq(snap_cstr(root(), model->name), names[_i].name);
}
END_TEST

START_TEST(models_keep_the_order_of_the_document)
{
    ck_assert_str_eq(snap_cstr(root(), SNAP_ITEM(root(), root()->models, struct snap_model, 0)->name), "gpt");
    ck_assert_str_eq(snap_cstr(root(), SNAP_ITEM(root(), root()->models, struct snap_model, 1)->name), "a");
    ck_assert_str_eq(snap_cstr(root(), SNAP_ITEM(root(), root()->models, struct snap_model, 3)->name), "é");
}
END_TEST

static const struct snap_principal *principal(const char *key)
{
    uint8_t digest[SHA256_BYTES];
    sha256(span_cstr(key), digest);
    return snapshot_principal(root(), digest);
}

START_TEST(a_caller_is_found_by_the_digest_of_its_key)
{
    ck_assert_str_eq(snap_cstr(root(), principal("key-a")->id), "a");
    ck_assert_str_eq(snap_cstr(root(), principal("key-b")->id), "b");
    ck_assert_str_eq(snap_cstr(root(), principal("key-b")->owner), "B");
    ck_assert_uint_eq(principal("key-b")->limits.concurrency, 2);
    ck_assert_uint_eq(principal("key-b")->limits.requests_per_minute, 0);
    ck_assert_uint_eq(principal("key-b")->limits.tokens_per_minute, 300);
    ck_assert_uint_eq(principal("key-a")->limits.concurrency, 0);
    ck_assert_str_eq(snap_cstr(root(), principal("key-c")->id), "c");
    ck_assert_ptr_null(principal("key-d"));
    ck_assert_ptr_null(principal(""));
    for (int i = 0; i < 256; i++) {
        uint8_t digest[SHA256_BYTES];
        memset(digest, i, sizeof(digest));
        ck_assert_ptr_null(snapshot_principal(root(), digest));
    }
}
END_TEST

START_TEST(a_caller_may_use_what_its_list_says)
{
    ck_assert(snapshot_may_use(root(), principal("key-a"), span_cstr("anything")));
    ck_assert(snapshot_may_use(root(), principal("key-b"), span_cstr("gpt")));
    ck_assert(snapshot_may_use(root(), principal("key-b"), span_cstr("glm")));
    ck_assert(!snapshot_may_use(root(), principal("key-b"), span_cstr("gp")));
    ck_assert(!snapshot_may_use(root(), principal("key-b"), span_cstr("a")));
    ck_assert(!snapshot_may_use(root(), principal("key-c"), span_cstr("gpt")));
}
END_TEST

START_TEST(voice_packs_keep_the_order_of_the_document_and_are_found_by_their_ids)
{
    static const char *const ids[] = { "z", "a", "m" };
    for (unsigned i = 0; i < 3; i++) {
        const struct snap_voice_pack *pack =
            SNAP_ITEM(root(), root()->voice_packs, struct snap_voice_pack, i);
        ck_assert_str_eq(snap_cstr(root(), pack->id), ids[i]);
        ck_assert_ptr_eq(snapshot_voice_pack(root(), span_cstr(ids[i])), pack);
        ck_assert_str_eq(snap_cstr(root(), pack->name), arena_printf(arena, "N%s", ids[i]));
        ck_assert(pack->is_enabled == (i != 2) && snap_has(pack->upstream_voice) == (i == 2));
    }
    const struct voice_pack_number *params = snapshot_voice_pack(root(), span_cstr("z"))->params;
    ck_assert(params[VOICE_PACK_PITCH].is_set && !params[VOICE_PACK_VOLUME].is_set &&
              params[VOICE_PACK_RATE].is_set);
    ck_assert_double_eq(params[VOICE_PACK_PITCH].value, -5);
    ck_assert_double_eq(params[VOICE_PACK_RATE].value, 1.5);
    ck_assert_ptr_null(snapshot_voice_pack(root(), span_cstr("")));
    ck_assert_ptr_null(snapshot_voice_pack(root(), span_cstr("aa")));
    ck_assert_str_eq(snap_cstr(root(), root()->voice_pack_tag_key), SEALED);
}
END_TEST

START_TEST(an_image_without_models_and_callers_finds_nothing)
{
    struct entry_value none[ENTRY_COUNT] = { { .version = NULL } };
    struct entry_faults faults = { 0 };
    enum entry_id which;
    size_t undecryptable;
    uint8_t digest[SHA256_BYTES] = { 0 };
    ck_assert_int_eq(entry_compile(none, 1, NULL, arena, &image, &undecryptable, &which, &faults), 0);
    ck_assert_int_eq(snapshot_check(image, &e), 0);
    ck_assert(!root()->has_tree);
    ck_assert_str_eq(root()->tree_version, "");
    ck_assert(!snap_has(root()->default_chat_model));
    ck_assert_uint_eq(root()->client_stall_timeout_ms, 60000);
    ck_assert_ptr_null(snapshot_model(root(), span_cstr("gpt")));
    ck_assert_ptr_null(snapshot_principal(root(), digest));
    ck_assert_ptr_null(snapshot_voice_pack(root(), span_cstr("a")));
    ck_assert(!snap_has(root()->voice_pack_tag_key));
}
END_TEST

#define SPEAKS(name)                                                                                   \
    "\"" name "\":{\"provider\":\"openai\",\"upstreams\":[{\"baseURL\":\"https://h/v1/audio/speech\"," \
    "\"keys\":[{\"id\":\"k\",\"ciphertext\":\"" SEALED "\"}]}]}"

static const struct {
    const char *model, *recommended; /* NULL: nothing */
} recommendations[] = {
    { "b", "{\"en\":\"alloy\",\"zh-CN\":\"\\\"龙\\\"/\"}" },
    { "a", "{\"fr\":\"ash\"}" },
    { "c", NULL },
    { "d", "{}" },
};

START_TEST(a_model_that_speaks_has_the_voices_that_are_recommended_for_it)
{
    struct entry_value values[ENTRY_COUNT] = {
        [ENTRY_LLM_ROUTER_CONFIG] = { span_cstr("{\"llm\":{\"models\":{}},\"tts\":{\"models\":{" SPEAKS(
                                          "c") "," SPEAKS("b") "," SPEAKS("a") "," SPEAKS("d") "}}}"),
                                      "v" },
        [ENTRY_DEFAULT_TTS_VOICES] = { span_cstr("{\"nobody\":{\"en\":\"x\"},\"b\": {\"en\": "
                                                 "\"alloy\",\"zh-CN\":\"\\\"\\u9f99\\\"\\/\"},"
                                                 "\"a\":{\"fr\":\"ash\"},\"d\":{}}"),
                                       "v" },
    };
    struct entry_faults faults = { 0 };
    enum entry_id which;
    size_t undecryptable;

    ck_assert_int_eq(entry_compile(values, 1, NULL, arena, &image, &undecryptable, &which, &faults), 0);
    ck_assert_msg(snapshot_check(image, &e) == 0, "%s", e.text);
    for (size_t i = 0; i < sizeof(recommendations) / sizeof(recommendations[0]); i++) {
        const struct snap_model *model = snapshot_tts_model(root(), span_cstr(recommendations[i].model));
        const char *expected = recommendations[i].recommended;
        ck_assert_ptr_nonnull(model);
        ck_assert_msg(snap_has(model->recommended) == (expected != NULL) &&
                          strcmp(snap_cstr(root(), model->recommended), expected == NULL ? "" : expected) ==
                              0,
                      "%s: %s", recommendations[i].model, snap_cstr(root(), model->recommended));
    }
}
END_TEST

START_TEST(what_is_written_is_what_is_mapped)
{
    struct snapshot map = { NULL, 0 };
    struct stat st;
    char dir[] = "/tmp/test_snapshot.XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(snapshot_path(dir, 7, path, sizeof(path)), 0);
    ck_assert_int_eq(snapshot_path(dir, 7, path, 10), ERR_LIMIT);
    ck_assert_int_eq(snapshot_path(dir, 7, path, sizeof(path)), 0);
    ck_assert_int_eq(snapshot_map(path, &map, &e), ERR_NOT_FOUND);
    ck_assert_ptr_null(map.root);
    ck_assert_int_eq(snapshot_write(dir, image, &e), 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0640);
    ck_assert_msg(snapshot_map(path, &map, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(map.bytes, image.len);
    ck_assert_mem_eq(map.root, image.ptr, image.len);
    ck_assert_uint_eq(map.root->generation, 7);
    snapshot_unmap(&map);
    ck_assert_ptr_null(map.root);
    snapshot_unmap(&map);
    ck_assert_int_eq(truncate(path, (off_t)image.len - 1), 0);
    ck_assert_int_eq(snapshot_map(path, &map, &e), ERR_FORMAT);
    ck_assert_int_eq(truncate(path, 0), 0);
    ck_assert_int_eq(snapshot_map(path, &map, &e), ERR_FORMAT);
    ck_assert_int_eq(truncate(path, SNAPSHOT_LIMIT_BYTES + 1), 0);
    ck_assert_int_eq(snapshot_map(path, &map, &e), ERR_FORMAT);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(snapshot_map(path, &map, &e), ERR_SYSTEM);
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* A copy of exactly `len` bytes on the heap, so that AddressSanitizer sees a read behind it. */
static char *copy_image(size_t len)
{
    char *copy = xmalloc(len);
    memcpy(copy, image.ptr, len);
    return copy;
}

START_TEST(what_an_earlier_instance_has_left_is_removed_and_nothing_else)
{
    static const struct {
        const char *name;
        bool is_left;
    } files[] = {
        { "snapshot.1", false },    { "snapshot.4711", false }, { "snapshot.7.new.123", false },
        { "llm-router.map", true }, { "my-snapshot.1", true },
    };
    char dir[] = "/tmp/test_snapshot.XXXXXX";

    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        ck_assert_int_eq(
            file_replace(arena_printf(arena, "%s/%s", dir, files[i].name), span_cstr("x"), 0600, NULL), 0);
    snapshot_remove_all(dir);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        bool is_left = access(arena_printf(arena, "%s/%s", dir, files[i].name), F_OK) == 0;
        ck_assert_msg(is_left == files[i].is_left, "%s", files[i].name);
    }
    snapshot_remove_all("/nowhere/at/all");
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
}
END_TEST

START_TEST(an_image_cut_anywhere_is_refused_even_if_its_size_is_made_to_fit)
{
    for (size_t len = sizeof(struct snap_root); len < image.len; len++) {
        char *copy = copy_image(len);
        ck_assert_int_eq(snapshot_check(span_of(copy, len), &e), ERR_FORMAT);
        ((struct snap_root *)(void *)copy)->bytes = (uint32_t)len;
        ck_assert_msg(snapshot_check(span_of(copy, len), &e) == ERR_FORMAT, "cut to %zu of %zu bytes", len,
                      image.len);
        free(copy);
    }
}
END_TEST

/* Everything that a worker reads of an image. */
static size_t read_everything(const struct snap_root *r)
{
    size_t sum = strlen(r->tree_version) + strlen(snap_cstr(r, r->default_chat_model));
    for (uint32_t i = 0; i < r->models.count; i++) {
        const struct snap_model *m = SNAP_ITEM(r, r->models, struct snap_model, i);
        sum += strlen(snap_cstr(r, m->name)) + strlen(snap_cstr(r, m->recommended));
        sum += snapshot_model(r, snap_span(r, m->name)) != NULL;
        for (uint32_t j = 0; j < m->http_codes.count; j++)
            sum += *SNAP_ITEM(r, m->http_codes, uint32_t, j);
        for (uint32_t j = 0; j < m->upstreams.count; j++) {
            const struct snap_upstream *u = SNAP_ITEM(r, m->upstreams, struct snap_upstream, j);
            const struct snap_str texts[] = { u->id,
                                              u->provider,
                                              u->host,
                                              u->url,
                                              u->override_model,
                                              u->header_name,
                                              u->header_template,
                                              u->dialect,
                                              u->supplier_model,
                                              u->account };
            for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++)
                sum += strlen(snap_cstr(r, texts[k])) + snap_span(r, texts[k]).len;
            for (uint32_t k = 0; k < u->headers.count; k++) {
                const struct snap_header_line *h = SNAP_ITEM(r, u->headers, struct snap_header_line, k);
                sum += strlen(snap_cstr(r, h->name)) + strlen(snap_cstr(r, h->value));
            }
            for (uint32_t k = 0; k < u->keys.count; k++) {
                const struct snap_key *key = SNAP_ITEM(r, u->keys, struct snap_key, k);
                sum += strlen(snap_cstr(r, key->id)) + strlen(snap_cstr(r, key->ciphertext)) +
                       strlen(snap_cstr(r, key->aad)) + strlen(key->fingerprint);
            }
        }
    }
    for (uint32_t i = 0; i < r->principals.count; i++) {
        const struct snap_principal *p = SNAP_ITEM(r, r->principals, struct snap_principal, i);
        sum += strlen(snap_cstr(r, p->id)) + strlen(snap_cstr(r, p->owner));
        sum += snapshot_may_use(r, p, span_cstr("no such model")) ? 1 : 0;
        sum += snapshot_principal(r, p->sha256) != NULL;
    }
    return sum;
}

START_TEST(no_flipped_bit_makes_an_accepted_image_read_outside_itself)
{
    size_t accepted = 0, refused = 0, sum = 0;
    for (size_t at = 0; at < image.len; at++)
        for (int bit = 0; bit < 8; bit++) {
            char *copy = copy_image(image.len);
            copy[at] = (char)(copy[at] ^ 1 << bit);
            if (snapshot_check(span_of(copy, image.len), &e) == 0) {
                accepted++;
                sum += read_everything((const void *)copy);
            } else {
                refused++;
            }
            free(copy);
        }
    ck_assert_uint_gt(refused, 1000);  /* most bits of references */
    ck_assert_uint_gt(accepted, 1000); /* bits of texts and numbers */
    ck_assert_uint_gt(sum, 0);
}
END_TEST

START_TEST(every_reference_that_leads_outside_is_refused)
{
    static const uint32_t values[] = { 1, 8, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff };
    size_t models = root()->models.offset, packs = root()->voice_packs.offset,
           upstreams = SNAP_ITEM(root(), root()->models, struct snap_model, 0)->upstreams.offset;
    const size_t places[] = {
        offsetof(struct snap_root, models.offset),
        offsetof(struct snap_root, model_index.offset),
        offsetof(struct snap_root, voice_packs.offset),
        offsetof(struct snap_root, voice_pack_index.offset),
        offsetof(struct snap_root, principals.offset),
        offsetof(struct snap_root, default_chat_model.offset),
        offsetof(struct snap_root, default_chat_model.len),
        models + offsetof(struct snap_model, name.offset),
        models + offsetof(struct snap_model, name.len),
        models + offsetof(struct snap_model, upstreams.offset),
        models + offsetof(struct snap_model, http_codes.offset),
        models + offsetof(struct snap_model, recommended.offset),
        upstreams + offsetof(struct snap_upstream, url.offset),
        upstreams + offsetof(struct snap_upstream, url.len),
        upstreams + offsetof(struct snap_upstream, keys.offset),
        upstreams + offsetof(struct snap_upstream, headers.offset),
        packs + offsetof(struct snap_voice_pack, name.offset),
        packs + offsetof(struct snap_voice_pack, tier.len),
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
            char *copy = copy_image(image.len);
            memcpy(copy + places[i], &values[j], sizeof(values[j]));
            ck_assert_msg(snapshot_check(span_of(copy, image.len), &e) == ERR_FORMAT,
                          "%#x at byte %zu was accepted", values[j], places[i]);
            free(copy);
        }
}
END_TEST

START_TEST(a_position_beyond_the_last_voice_pack_is_refused)
{
    char *copy = copy_image(image.len);
    uint32_t position = root()->voice_packs.count;
    memcpy(copy + root()->voice_pack_index.offset, &position, sizeof(position));
    ck_assert_int_eq(snapshot_check(span_of(copy, image.len), &e), ERR_FORMAT);
    free(copy);
}
END_TEST

START_TEST(a_vector_count_that_is_too_large_is_refused)
{
    static const uint32_t counts[] = { 1000, 0x7fffffff, 0xffffffff };
    const size_t places[] = { offsetof(struct snap_root, models.count),
                              offsetof(struct snap_root, model_index.count),
                              offsetof(struct snap_root, principals.count),
                              offsetof(struct snap_root, voice_packs.count),
                              offsetof(struct snap_root, voice_pack_index.count),
                              root()->models.offset + offsetof(struct snap_model, upstreams.count),
                              root()->models.offset + offsetof(struct snap_model, http_codes.count) };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        for (size_t j = 0; j < sizeof(counts) / sizeof(counts[0]); j++) {
            char *copy = copy_image(image.len);
            memcpy(copy + places[i], &counts[j], sizeof(counts[j]));
            ck_assert_int_eq(snapshot_check(span_of(copy, image.len), &e), ERR_FORMAT);
            free(copy);
        }
}
END_TEST

START_TEST(vectors_laid_over_one_another_do_not_make_the_check_long)
{
    /* A thousand models that all have the same list of upstreams. */
    struct buf tree;
    buf_init(&tree, 1024 * 1024);
    buf_append_cstr(&tree, "{\"llm\":{\"models\":{");
    for (int i = 0; i < 1000; i++)
        buf_printf(&tree, "%s\"m%d\":" UPSTREAM, i == 0 ? "" : ",", i);
    buf_append_cstr(&tree, "}}}");
    buf_append_char(&tree, '\0');
    compile(tree.data);
    ck_assert_int_eq(snapshot_check(image, &e), 0);
    char *copy = copy_image(image.len);
    struct snap_root *r = (void *)copy;
    struct snap_model *models = (void *)(copy + r->models.offset);
    for (uint32_t i = 0; i < r->models.count; i++) {
        models[i].upstreams = models[0].upstreams;
        models[i].upstreams.count = 500;
    }
    ck_assert_int_eq(snapshot_check(span_of(copy, image.len), &e), ERR_FORMAT);
    free(copy);
    buf_free(&tree);
}
END_TEST

START_TEST(another_magic_layout_or_size_is_named)
{
    char *copy = copy_image(image.len);
    struct snap_root *r = (void *)copy;
    r->layout++;
    ck_assert_int_eq(snapshot_check(span_of(copy, image.len), &e), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(e.text, "layout"));
    r->magic[0] = 'X';
    ck_assert_int_eq(snapshot_check(span_of(copy, image.len), &e), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(e.text, "no snapshot"));
    ck_assert_int_eq(snapshot_check(span_of(copy, 3), &e), ERR_FORMAT);
    free(copy);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("snapshot");
    TCase *tests = tcase_create("snapshot");
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, models_that_speak_have_names_of_their_own);
    tcase_add_loop_test(tests, a_model_is_found_by_its_whole_name_only, 0, sizeof(names) / sizeof(names[0]));
    tcase_add_test(tests, models_keep_the_order_of_the_document);
    tcase_add_test(tests, a_caller_is_found_by_the_digest_of_its_key);
    tcase_add_test(tests, a_caller_may_use_what_its_list_says);
    tcase_add_test(tests, voice_packs_keep_the_order_of_the_document_and_are_found_by_their_ids);
    tcase_add_test(tests, an_image_without_models_and_callers_finds_nothing);
    tcase_add_test(tests, a_model_that_speaks_has_the_voices_that_are_recommended_for_it);
    tcase_add_test(tests, what_is_written_is_what_is_mapped);
    tcase_add_test(tests, what_an_earlier_instance_has_left_is_removed_and_nothing_else);
    tcase_add_test(tests, an_image_cut_anywhere_is_refused_even_if_its_size_is_made_to_fit);
    tcase_add_test(tests, no_flipped_bit_makes_an_accepted_image_read_outside_itself);
    tcase_add_test(tests, every_reference_that_leads_outside_is_refused);
    tcase_add_test(tests, a_position_beyond_the_last_voice_pack_is_refused);
    tcase_add_test(tests, a_vector_count_that_is_too_large_is_refused);
    tcase_add_test(tests, vectors_laid_over_one_another_do_not_make_the_check_long);
    tcase_add_test(tests, another_magic_layout_or_size_is_named);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
