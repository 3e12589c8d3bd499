/*
 * From a store on disk to a snapshot's image. What is logged on the way goes to
 * a file for that time.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/log/log.h"
#include "fcgi/configuration.h"

/* Bytes 0 to 31 are the master key; this is sk-test-1234567890 for gpt|k1. */
#define SEALED "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw"
#define MASTER "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define OTHER_MASTER "AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define TREE                                                                                                \
    "{\"llm\":{\"models\":{\"gpt\":{\"upstreams\":[{\"baseURL\":\"https://h/v1\",\"keys\":[{\"id\":\"k1\"," \
    "\"ciphertext\":\"" SEALED "\"}]}]}}}}"

static struct arena *arena;
static char dir[64];
static struct router_settings settings;
static struct router_shared shared;
static struct store *store;
static struct error e;
static int real_stderr;

static const char *in_dir(const char *name)
{
    return arena_printf(arena, "%s/%s", dir, name);
}

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_configuration.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    settings = (struct router_settings){ .state_dir = dir };
    shared = (struct router_shared){ .settings = &settings, .place = { .state_dir = dir } };
    ck_assert_int_eq(store_open(&shared.place, &store, &e), 0);
    real_stderr = dup(STDERR_FILENO);
    int fd = open(in_dir("log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
    log_init("prog");
}

static void tear_down(void)
{
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    store_close(store);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static void use_master_key(const char *text)
{
    ck_assert_int_eq(envelope_keys_derive(&shared.keys, span_cstr(text), span_of(NULL, 0), &e), 0);
    shared.has_keys = true;
}

static void put(const char *entry, const char *value)
{
    struct store_outcome outcome;
    int r = store_put(store, &(struct store_change){ .key = entry, .raw = span_cstr(value), .expected = "*" },
                      &outcome, &e);
    ck_assert_msg(r == 0, "%s", e.text);
}

static const char *logged(void)
{
    struct span raw;
    ck_assert_int_eq(file_read(in_dir("log"), 1 << 20, arena, &raw, &e), 0);
    return raw.ptr;
}

static void expect_logged(const char *text)
{
    ck_assert_msg(strstr(logged(), text) != NULL, "\"%s\" is not in the log:\n%s", text, logged());
}

static void expect_not_logged(const char *text)
{
    ck_assert_msg(strstr(logged(), text) == NULL, "\"%s\" is in the log:\n%s", text, logged());
}

static size_t count_logged(const char *text)
{
    size_t n = 0;
    for (const char *at = logged(); (at = strstr(at, text)) != NULL; at++)
        n++;
    return n;
}

/* Where a value stands, as something that cannot be read. */
static void break_entry(const char *entry)
{
    ck_assert_int_eq(mkdir(in_dir(arena_printf(arena, "configkv/%s.json", entry)), 0700), 0);
}

/* --- reading ------------------------------------------------------------------------ */

START_TEST(an_empty_store_has_no_values)
{
    struct entry_value values[ENTRY_COUNT];
    memset(values, 0xff, sizeof(values));
    ck_assert_int_eq(configuration_read(store, arena, values, &e), 0);
    for (int i = 0; i < ENTRY_COUNT; i++)
        ck_assert_msg(values[i].raw.ptr == NULL && values[i].version == NULL, "%s",
                      entry_name((enum entry_id)i));
}
END_TEST

START_TEST(each_value_is_read_with_its_version)
{
    struct entry_value values[ENTRY_COUNT];

    for (int i = 0; i < ENTRY_COUNT; i++)
        put(entry_name((enum entry_id)i), arena_printf(arena, "\"value %d\"", i));
    ck_assert_int_eq(configuration_read(store, arena, values, &e), 0);
    for (int i = 0; i < ENTRY_COUNT; i++) {
        ck_assert(span_is(values[i].raw, arena_printf(arena, "\"value %d\"", i)));
        ck_assert_uint_eq(strlen(values[i].version), STORE_VERSION_BYTES - 1);
    }
}
END_TEST

START_TEST(a_value_that_cannot_be_read_is_no_absent_one)
{
    struct entry_value values[ENTRY_COUNT];
    break_entry("CALLER_KEYS");
    ck_assert_int_eq(configuration_read(store, arena, values, &e), ERR_SYSTEM);
    ck_assert_msg(strstr(e.text, "CALLER_KEYS") != NULL, "%s", e.text);
}
END_TEST

/* --- compiling -------------------------------------------------------------------------- */

static int compile(const char *tree, uint64_t generation, struct span *image)
{
    struct entry_value values[ENTRY_COUNT] = { { .version = NULL } };
    if (tree != NULL)
        values[ENTRY_LLM_ROUTER_CONFIG] = (struct entry_value){ span_cstr(tree), "v" };
    return configuration_compile(&shared, values, generation, arena, image, &e);
}

START_TEST(a_valid_tree_becomes_a_snapshot)
{
    struct span image;

    use_master_key(MASTER);
    ck_assert_msg(compile(TREE, 9, &image) == 0, "%s", logged());
    ck_assert_int_eq(snapshot_check(image, &e), 0);
    const struct snap_root *root = (const void *)image.ptr;
    ck_assert_uint_eq(root->generation, 9);
    ck_assert_ptr_nonnull(snapshot_model(root, span_cstr("gpt")));
    ck_assert_str_eq(logged(), "");
}
END_TEST

static const char *const other_keys[] = { NULL /* none at all */, OTHER_MASTER };

START_TEST(keys_that_do_not_decrypt_are_told_and_no_reason_to_refuse)
{
    struct span image;

    if (other_keys[_i] != NULL)
        use_master_key(other_keys[_i]);
    ck_assert_int_eq(compile(TREE, 1, &image), 0);
    ck_assert_ptr_nonnull(snapshot_model((const void *)image.ptr, span_cstr("gpt")));
    ck_assert_uint_eq(count_logged("\"keys_undecryptable\""), 1);
    expect_logged("1 provider keys");
}
END_TEST

START_TEST(each_fault_of_a_refused_tree_is_told)
{
    struct span image = { NULL, 0 };

    ck_assert_int_eq(compile("{\"llm\":{\"models\":{\"a\":{\"upstreams\":[]},\"b\":7}}}", 1, &image),
                     ERR_FORMAT);
    ck_assert_ptr_null(image.ptr);
    ck_assert_uint_eq(count_logged("\"event\":\"configuration_refused\""), 2);
    expect_logged("\"entry\":\"LLM_ROUTER_CONFIG\",\"path\":\"/llm/models/a/upstreams\"");
    expect_logged("\"path\":\"/llm/models/b\"");
    expect_logged("\"fault\":1,\"of\":2");
    expect_logged("\"fault\":2,\"of\":2");
}
END_TEST

START_TEST(of_very_many_faults_the_first_are_told)
{
    struct span image;
    struct buf tree;

    buf_init(&tree, 1 << 20);
    buf_append_cstr(&tree, "{\"llm\":{\"models\":{");
    for (int i = 0; i < 300; i++)
        buf_printf(&tree, "%s\"m%d\":7", i > 0 ? "," : "", i);
    buf_append(&tree, "}}}", 4);
    ck_assert_int_eq(compile(tree.data, 1, &image), ERR_FORMAT);
    ck_assert_uint_eq(count_logged("\"event\":\"configuration_refused\""), 20);
    expect_logged("\"fault\":20,\"of\":300");
    buf_free(&tree);
}
END_TEST

/* --- the key of voice packs' tags --- */

#define PACKS "{\"packs\":[]}"

/* What a look finds and provides. */
static struct entry_value *look(void)
{
    struct entry_value *values = arena_array_of(arena, struct entry_value, ENTRY_COUNT);
    ck_assert_int_eq(configuration_read(store, arena, values, &e), 0);
    configuration_provide_tag_key(&shared, store, arena, values);
    return values;
}

START_TEST(whoever_finds_packs_and_no_key_of_tags_makes_one_and_only_one)
{
    struct entry_value *first, *second;

    use_master_key(MASTER);
    put("VOICE_PACKS", PACKS);
    first = look();
    const struct entry_value *made = &first[ENTRY_VOICE_PACK_TAG_KEY];
    ck_assert_ptr_nonnull(made->raw.ptr);
    ck_assert_int_eq(entry_check(ENTRY_VOICE_PACK_TAG_KEY, made->raw, arena, &(struct entry_faults){ 0 }), 0);
    second = look();
    ck_assert(span_eq(made->raw, second[ENTRY_VOICE_PACK_TAG_KEY].raw));
    ck_assert_str_eq(made->version, second[ENTRY_VOICE_PACK_TAG_KEY].version);
    expect_not_logged("tag_key");
}
END_TEST

START_TEST(one_that_was_made_meanwhile_is_taken)
{
    struct entry_value values[ENTRY_COUNT];

    use_master_key(MASTER);
    put("VOICE_PACKS", PACKS);
    ck_assert_int_eq(configuration_read(store, arena, values, &e), 0);
    put("VOICE_PACK_TAG_KEY", "{\"ciphertext\":\"" SEALED "\"}");
    configuration_provide_tag_key(&shared, store, arena, values);
    ck_assert(span_is(values[ENTRY_VOICE_PACK_TAG_KEY].raw, "{\"ciphertext\":\"" SEALED "\"}"));
}
END_TEST

START_TEST(without_packs_or_a_master_key_there_is_no_key_of_tags)
{
    use_master_key(MASTER);
    ck_assert_ptr_null(look()[ENTRY_VOICE_PACK_TAG_KEY].raw.ptr);
    put("VOICE_PACKS", PACKS);
    shared.has_keys = false;
    ck_assert_ptr_null(look()[ENTRY_VOICE_PACK_TAG_KEY].raw.ptr);
}
END_TEST

START_TEST(a_key_of_tags_that_cannot_be_stored_is_told)
{
    struct entry_value values[ENTRY_COUNT];

    use_master_key(MASTER);
    put("VOICE_PACKS", PACKS);
    ck_assert_int_eq(configuration_read(store, arena, values, &e), 0);
    break_entry("VOICE_PACK_TAG_KEY");
    configuration_provide_tag_key(&shared, store, arena, values);
    ck_assert_ptr_null(values[ENTRY_VOICE_PACK_TAG_KEY].raw.ptr);
    expect_logged("\"tag_key_not_made\"");
}
END_TEST

/* --- loading ------------------------------------------------------------------------------ */

START_TEST(one_who_is_alone_loads_what_the_store_has)
{
    struct snapshot snapshot;

    use_master_key(MASTER);
    put("LLM_ROUTER_CONFIG", TREE);
    put("DEFAULT_CHAT_MODEL", "\"gpt\"");
    int r = configuration_load(&shared, arena, &snapshot, &e);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert_uint_eq(snapshot.root->generation, 1);
    ck_assert_int_eq(snapshot_check(span_of((const char *)snapshot.root, snapshot.bytes), &e), 0);
    ck_assert_ptr_nonnull(snapshot_model(snapshot.root, span_cstr("gpt")));
}
END_TEST

START_TEST(from_an_empty_store_it_loads_a_snapshot_without_models)
{
    struct snapshot snapshot;
    ck_assert_int_eq(configuration_load(&shared, arena, &snapshot, &e), 0);
    ck_assert_uint_eq(snapshot.root->models.count, 0);
}
END_TEST

START_TEST(a_refused_tree_is_not_loaded)
{
    struct snapshot snapshot = { .bytes = 7 };
    put("LLM_ROUTER_CONFIG", "{");
    ck_assert_int_eq(configuration_load(&shared, arena, &snapshot, &e), ERR_FORMAT);
    ck_assert_uint_eq(snapshot.bytes, 7);
    expect_logged("\"configuration_refused\"");
}
END_TEST

START_TEST(a_store_that_cannot_be_read_is_said)
{
    struct snapshot snapshot;
    break_entry("LLM_ROUTER_CONFIG");
    ck_assert_int_eq(configuration_load(&shared, arena, &snapshot, &e), ERR_SYSTEM);
    shared.place.state_dir = "/proc/no/such/place";
    ck_assert_int_eq(configuration_load(&shared, arena, &snapshot, &e), ERR_SYSTEM);
    ck_assert_msg(strstr(e.text, "/proc/no") != NULL, "%s", e.text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("configuration");
    TCase *tcase = tcase_create("configuration");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, an_empty_store_has_no_values);
    tcase_add_test(tcase, each_value_is_read_with_its_version);
    tcase_add_test(tcase, a_value_that_cannot_be_read_is_no_absent_one);
    tcase_add_test(tcase, a_valid_tree_becomes_a_snapshot);
    tcase_add_loop_test(tcase, keys_that_do_not_decrypt_are_told_and_no_reason_to_refuse, 0, 2);
    tcase_add_test(tcase, each_fault_of_a_refused_tree_is_told);
    tcase_add_test(tcase, of_very_many_faults_the_first_are_told);
    tcase_add_test(tcase, whoever_finds_packs_and_no_key_of_tags_makes_one_and_only_one);
    tcase_add_test(tcase, one_that_was_made_meanwhile_is_taken);
    tcase_add_test(tcase, without_packs_or_a_master_key_there_is_no_key_of_tags);
    tcase_add_test(tcase, a_key_of_tags_that_cannot_be_stored_is_told);
    tcase_add_test(tcase, one_who_is_alone_loads_what_the_store_has);
    tcase_add_test(tcase, from_an_empty_store_it_loads_a_snapshot_without_models);
    tcase_add_test(tcase, a_refused_tree_is_not_loaded);
    tcase_add_test(tcase, a_store_that_cannot_be_read_is_said);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
