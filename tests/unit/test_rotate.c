/* Moving a document from the previous master key to the current one. */
#include <check.h>
#include <stdlib.h>

#include "core/config/keyplaces.h"
#include "core/config/rotate.h"
#include "core/packs/tag_key.h"

#define OLD "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define NEW "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
#define OTHER "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8="

static struct arena *arena;
static struct envelope_keys old, new, both, other;
static struct span out;
static struct config_rotation report;
static struct error e;

static void set_up(void)
{
    struct span none = { "", 0 };
    arena = arena_new();
    ck_assert_int_eq(envelope_keys_derive(&old, span_cstr(OLD), none, NULL), 0);
    ck_assert_int_eq(envelope_keys_derive(&new, span_cstr(NEW), none, NULL), 0);
    ck_assert_int_eq(envelope_keys_derive(&both, span_cstr(NEW), span_cstr(OLD), NULL), 0);
    ck_assert_int_eq(envelope_keys_derive(&other, span_cstr(OTHER), none, NULL), 0);
}

static void tear_down(void)
{
    arena_free(arena);
}

static const char *sealed(const struct envelope_keys *keys, const char *aad, const char *plaintext)
{
    char *text;
    ck_assert_int_eq(envelope_encrypt(keys, span_cstr(plaintext), span_cstr(aad), arena, &text, NULL), 0);
    return text;
}

static const char *document(const char *credential, const char *k1, const char *k2)
{
    return arena_printf(
        arena,
        "{ \"credentials\":{\"c\":{\"ciphertext\":\"%s\"}},\n \"llm\":{\"models\":{\"m\":{"
        "\"upstreams\":[{\"keys\":[ {\"id\":\"k1\", \"ciphertext\":\"%s\"},"
        "{\"ciphertext\":\"%s\",\"id\":\"k2\"},{\"id\":\"k3\",\"credential\":\"c\"}]}]}}} }\n",
        credential, k1, k2);
}

static int expect_new(void *ctx, const struct key_place *place)
{
    size_t *found = ctx;
    struct secret secret;
    if (place->members[MEMBER_CIPHERTEXT].kind != JSON_KIND_STRING)
        return 0;
    struct span text = json_decode(arena, place->members[MEMBER_CIPHERTEXT].raw);
    ck_assert_msg(envelope_decrypt(&new, text, key_place_aad(place, arena), &secret, &e) == 0, "%s: %s",
                  place->path, e.text);
    ck_assert_int_eq(memcmp(secret.bytes, "sk-", 3), 0);
    secret_wipe(&secret);
    ++*found;
    return 0;
}

START_TEST(every_ciphertext_opens_with_the_new_key_alone_afterwards)
{
    size_t found = 0;
    const char *raw = document(sealed(&old, "credential|c", "sk-c"), sealed(&old, "m|k1", "sk-1"),
                               sealed(&new, "m|k2", "sk-2"));
    ck_assert_int_eq(config_rotate(span_cstr(raw), &both, arena, &out, &report, &e), 0);
    ck_assert_uint_eq(report.rotated, 2);
    ck_assert_uint_eq(report.current, 1);
    ck_assert_uint_eq(report.undecryptable.count, 0);
    ck_assert_int_eq(key_places_walk(out, arena, expect_new, &found), 0);
    ck_assert_uint_eq(found, 3);
    ck_assert_ptr_nonnull(memmem(out.ptr, out.len, "{\"id\":\"k3\",\"credential\":\"c\"}", 28));
    ck_assert_int_eq(out.ptr[1], ' ');
}
END_TEST

START_TEST(done_again_it_changes_nothing)
{
    const char *raw = document(sealed(&old, "credential|c", "sk-c"), sealed(&old, "m|k1", "sk-1"),
                               sealed(&old, "m|k2", "sk-2"));
    struct span again;
    ck_assert_int_eq(config_rotate(span_cstr(raw), &both, arena, &out, &report, &e), 0);
    ck_assert_int_eq(config_rotate(out, &both, arena, &again, &report, &e), 0);
    ck_assert(span_eq(out, again));
    ck_assert_uint_eq(report.rotated, 0);
    ck_assert_uint_eq(report.current, 3);
}
END_TEST

START_TEST(what_no_key_opens_stays_and_is_named)
{
    const char *lost = sealed(&other, "m|k1", "sk-1"), *moved = sealed(&old, "m|k1", "sk-2");
    const char *raw = document(sealed(&old, "credential|c", "sk-c"), lost, moved);
    ck_assert_int_eq(config_rotate(span_cstr(raw), &both, arena, &out, &report, &e), 0);
    ck_assert_uint_eq(report.rotated, 1);
    ck_assert_uint_eq(report.undecryptable.count, 2);
    ck_assert_str_eq(report.undecryptable.items[0].path, "/llm/models/m/upstreams/0/keys/0");
    ck_assert_str_eq(report.undecryptable.items[1].path, "/llm/models/m/upstreams/0/keys/1");
    ck_assert_ptr_nonnull(memmem(out.ptr, out.len, lost, strlen(lost)));
    ck_assert_ptr_nonnull(memmem(out.ptr, out.len, moved, strlen(moved)));
}
END_TEST

START_TEST(without_a_previous_key_nothing_is_changed)
{
    const char *raw = document(sealed(&old, "credential|c", "sk-c"), sealed(&new, "m|k1", "sk-1"),
                               sealed(&new, "m|k2", "sk-2"));
    ck_assert_int_eq(config_rotate(span_cstr(raw), &new, arena, &out, &report, &e), 0);
    ck_assert(span_is(out, raw));
    ck_assert_uint_eq(report.current, 2);
    ck_assert_uint_eq(report.undecryptable.count, 1);
    ck_assert_str_eq(report.undecryptable.items[0].path, "/credentials/c");
}
END_TEST

START_TEST(what_is_no_document_is_refused)
{
    ck_assert_int_eq(config_rotate(span_cstr("{"), &both, arena, &out, &report, &e), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(e.text, "broken"));
}
END_TEST

/* What the arena handed out is looked at by allocating it again. */
START_TEST(no_plaintext_is_left_behind)
{
    static char raw[4096];
    strcpy(raw, document(sealed(&old, "credential|c", "sk-c"), sealed(&old, "m|k1", "sk-live-1"),
                         sealed(&old, "m|k2", "sk-live-2")));
    arena_reset(arena);
    memset(arena_alloc(arena, 15 * 1024), 0, 15 * 1024);
    arena_reset(arena);
    ck_assert_int_eq(config_rotate(span_cstr(raw), &both, arena, &out, &report, &e), 0);
    arena_reset(arena);
    const char *memory = arena_alloc(arena, 15 * 1024);
    ck_assert_ptr_null(memmem(memory, 15 * 1024, "sk-live", 7));
}
END_TEST

/* The key in an entry, which `keys` open. */
static void open_tag_key(struct span entry, const struct envelope_keys *keys, struct secret *secret)
{
    static const struct json_want want = { "ciphertext", true };
    struct json_value found;
    ck_assert_int_eq(json_find(entry, &want, 1, 0, &found, NULL), 0);
    ck_assert_msg(tag_key_open(keys, json_decode(arena, found.raw), secret, &e) == 0, "%s", e.text);
}

START_TEST(the_key_of_tags_is_encrypted_anew_and_stays_what_it_is)
{
    struct secret before, after;
    struct span entry, again;
    ck_assert_int_eq(tag_key_make(&old, arena, &entry, &e), 0);
    ck_assert_int_eq(config_rotate_tag_key(entry, &both, arena, &out, &report, &e), 0);
    ck_assert(report.rotated == 1 && report.current == 0 && report.undecryptable.count == 0);
    open_tag_key(entry, &old, &before);
    open_tag_key(out, &new, &after);
    ck_assert_mem_eq(before.bytes, after.bytes, TAG_KEY_BYTES);
    ck_assert_int_eq(config_rotate_tag_key(out, &both, arena, &again, &report, &e), 0);
    ck_assert(span_eq(out, again) && report.rotated == 0 && report.current == 1);
}
END_TEST

START_TEST(a_key_of_tags_that_nothing_opens_stays_and_is_named)
{
    struct span entry;
    ck_assert_int_eq(tag_key_make(&other, arena, &entry, &e), 0);
    ck_assert_int_eq(config_rotate_tag_key(entry, &both, arena, &out, &report, &e), 0);
    ck_assert(span_eq(out, entry) && report.rotated == 0 && report.undecryptable.count == 1);
    ck_assert_str_eq(report.undecryptable.items[0].path, "VOICE_PACK_TAG_KEY");
    ck_assert_int_eq(config_rotate_tag_key(span_cstr("{}"), &both, arena, &out, &report, &e), ERR_FORMAT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rotate");
    TCase *tests = tcase_create("rotate");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, every_ciphertext_opens_with_the_new_key_alone_afterwards);
    tcase_add_test(tests, done_again_it_changes_nothing);
    tcase_add_test(tests, what_no_key_opens_stays_and_is_named);
    tcase_add_test(tests, without_a_previous_key_nothing_is_changed);
    tcase_add_test(tests, what_is_no_document_is_refused);
    tcase_add_test(tests, no_plaintext_is_left_behind);
    tcase_add_test(tests, the_key_of_tags_is_encrypted_anew_and_stays_what_it_is);
    tcase_add_test(tests, a_key_of_tags_that_nothing_opens_stays_and_is_named);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
