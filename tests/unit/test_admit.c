#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/admit.h"
#include "core/config/mask.h"
#include "core/crypto/digest.h"
#include "core/json/scan.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define MASTER "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
/* sk-test-1234567890 for gpt|k1 */
#define SEALED "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw"
#define TREE(keys) \
    "{\"llm\":{\"models\":{\"gpt\":{\"upstreams\":[{\"baseURL\":\"https://h\",\"keys\":[" keys "]}]}}}}"
#define SEALED_KEY "{\"id\":\"k1\",\"ciphertext\":\"" SEALED "\"}"
#define CREDENTIALS(object, keys)                                                \
    "{\"credentials\":{\"or\":" object                                           \
    "},\"llm\":{\"models\":{\"gpt\":{\"upstreams\":[{\"baseURL\":\"https://h\"," \
    "\"keys\":[" keys "]}]}}}}"

static struct arena *arena;
static struct envelope_keys keys;
static struct entry_faults faults;
static struct span out;
static struct error e;

static void set_up(void)
{
    arena = arena_new();
    memset(&faults, 0, sizeof(faults));
    out = span_of(NULL, 0);
    ck_assert_int_eq(envelope_keys_derive(&keys, span_cstr(MASTER), span_of("", 0), NULL), 0);
}

static void tear_down(void)
{
    arena_free(arena);
}

static const char *all_faults(void)
{
    const char *text = "";
    for (size_t i = 0; i < faults.count; i++)
        text = arena_printf(arena, "%s%s: %s\n", text, faults.items[i].path, faults.items[i].message);
    return text;
}

/* What the first ciphertext of a document decrypts to at a place. */
static const char *plaintext_of(struct span document, const char *path, const char *aad)
{
    struct json_want want = { path, false };
    struct json_value found;
    struct secret secret;
    ck_assert_int_eq(json_find(document, &want, 1, 0, &found, NULL), 0);
    ck_assert_msg(found.kind == JSON_KIND_STRING, "no %s in %.*s", path, (int)document.len, document.ptr);
    ck_assert_msg(envelope_decrypt(&keys, json_decode(arena, found.raw), span_cstr(aad), &secret, &e) == 0,
                  "%s", e.text);
    return arena_strdup(arena, secret.bytes);
}

#define KEY_PATH "llm.models.gpt.upstreams.*.keys.*.ciphertext"

START_TEST(a_plaintext_is_encrypted_for_its_model_and_id)
{
    const char *body = TREE("{\"id\":\"k1\",\"key\":\"sk-\\u006cive-1\"}");
    ck_assert_msg(config_admit(span_cstr(body), span_of("", 0), &keys, arena, &out, &faults) == 0, "%s",
                  all_faults());
    ck_assert_str_eq(plaintext_of(out, KEY_PATH, "gpt|k1"), "sk-live-1");
    ck_assert_ptr_null(memmem(out.ptr, out.len, "\"key\"", 5));
    ck_assert_ptr_null(memmem(out.ptr, out.len, "ive-1", 5));
}
END_TEST

START_TEST(a_name_with_escapes_is_bound_decoded)
{
    const char *body =
        "{\"llm\":{\"models\":{\"a\\/\\u00e9 \\\"x\":{\"upstreams\":[{\"baseURL\":\"https://h\",\"keys\":["
        "{\"id\":\"\\u006b\",\"key\":\"sk-1\"}]}]}}}}";
    ck_assert_msg(config_admit(span_cstr(body), span_of("", 0), &keys, arena, &out, &faults) == 0, "%s",
                  all_faults());
    ck_assert_str_eq(plaintext_of(out, "llm.models.*.upstreams.*.keys.*.ciphertext", "a/é \"x|k"), "sk-1");
}
END_TEST

START_TEST(a_credential_is_encrypted_for_its_name)
{
    const char *body = CREDENTIALS("{\"key\":\"sk-or\"}", "{\"id\":\"a\",\"credential\":\"or\"}");
    ck_assert_msg(config_admit(span_cstr(body), span_of("", 0), &keys, arena, &out, &faults) == 0, "%s",
                  all_faults());
    ck_assert_str_eq(plaintext_of(out, "credentials.or.ciphertext", "credential|or"), "sk-or");
    ck_assert_ptr_nonnull(memmem(out.ptr, out.len, "{\"id\":\"a\",\"credential\":\"or\"}", 28));
}
END_TEST

START_TEST(what_is_no_key_stays_as_it_was_written)
{
    const char *body = "{ \"llm\" : {\"models\":{\"gpt\":{\"upstreams\":[ "
                       "{\"timeoutMs\":1000,\n\"baseURL\":\"https:\\/\\/h\","
                       "\"keys\":[ {\"key\":\"sk\",\"id\":\"k\"} ]} ]}}} }\n";
    ck_assert_msg(config_admit(span_cstr(body), span_of("", 0), &keys, arena, &out, &faults) == 0, "%s",
                  all_faults());
    size_t before = (size_t)(strstr(body, "{\"key\"") - body);
    ck_assert(memcmp(out.ptr, body, before) == 0);
    const char *rest = " ]} ]}}} }\n";
    ck_assert(memcmp(out.ptr + out.len - strlen(rest), rest, strlen(rest)) == 0);
}
END_TEST

START_TEST(a_fingerprint_keeps_the_ciphertext_in_force)
{
    char print[9];
    fingerprint(span_cstr(SEALED), 8, print);
    const char *body = arena_printf(
        arena, TREE("{\"id\":\"k2\",\"key\":\"new\"},{\"id\":\"k1\",\"ciphertextFingerprint\":\"%s\"}"),
        print);
    ck_assert_msg(config_admit(span_cstr(body), span_cstr(TREE(SEALED_KEY)), &keys, arena, &out, &faults) ==
                      0,
                  "%s", all_faults());
    ck_assert_ptr_nonnull(memmem(out.ptr, out.len, SEALED, strlen(SEALED)));
    /* No master key is needed for it. */
    body = arena_printf(arena, TREE("{\"id\":\"k1\",\"ciphertextFingerprint\":\"%s\"}"), print);
    ck_assert_int_eq(config_admit(span_cstr(body), span_cstr(TREE(SEALED_KEY)), NULL, arena, &out, &faults),
                     0);
    ck_assert(span_is(out, TREE(SEALED_KEY)));
}
END_TEST

START_TEST(two_upstreams_with_one_key_id_keep_each_its_own)
{
    char *other = NULL, prints[2][9];
    ck_assert_int_eq(envelope_encrypt(&keys, span_cstr("other"), span_cstr("gpt|k1"), arena, &other, NULL),
                     0);
    fingerprint(span_cstr(SEALED), 8, prints[0]);
    fingerprint(span_cstr(other), 8, prints[1]);
    static const char form[] =
        "{\"llm\":{\"models\":{\"gpt\":{\"upstreams\":["
        "{\"baseURL\":\"https://a\",\"keys\":[{\"id\":\"k1\",\"%1$s\":\"%2$s\"}]},"
        "{\"baseURL\":\"https://b\",\"keys\":[{\"id\":\"k1\",\"%1$s\":\"%3$s\"}]}]}}}}";
    const char *current = arena_printf(arena, form, "ciphertext", SEALED, other);
    const char *body = arena_printf(arena, form, "ciphertextFingerprint", prints[0], prints[1]);
    ck_assert_msg(config_admit(span_cstr(body), span_cstr(current), &keys, arena, &out, &faults) == 0, "%s",
                  all_faults());
    ck_assert(span_is(out, current));
}
END_TEST

START_TEST(what_the_mask_shows_is_accepted_as_unchanged)
{
    struct span shown, again;
    const char *body = CREDENTIALS("{\"key\":\"sk-or\"}",
                                   "{\"id\":\"k1\",\"key\":\"sk-1\"},{\"id\":\"c\",\"credential\":\"or\"}");
    char print[9];
    ck_assert_int_eq(config_admit(span_cstr(body), span_of("", 0), &keys, arena, &out, &faults), 0);
    ck_assert_int_eq(config_mask(out, &keys, arena, &shown, &e), 0);
    ck_assert_ptr_null(memmem(shown.ptr, shown.len, "v1.", 3));
    ck_assert_ptr_null(memmem(shown.ptr, shown.len, "sk-", 3));
    fingerprint(span_cstr("sk-or"), 8, print);
    ck_assert_ptr_nonnull(memmem(shown.ptr, shown.len, print, 8));
    fingerprint(span_cstr("sk-1"), 8, print);
    const char *member = arena_printf(arena, ",\"keyFingerprint\":\"%s\"}", print);
    ck_assert_ptr_nonnull(memmem(shown.ptr, shown.len, member, strlen(member)));
    ck_assert_msg(config_admit(shown, out, &keys, arena, &again, &faults) == 0, "%s", all_faults());
    ck_assert_msg(span_eq(again, out), "%.*s\nis not\n%.*s", (int)again.len, again.ptr, (int)out.len,
                  out.ptr);
}
END_TEST

START_TEST(the_mask_shows_no_key_fingerprint_without_the_key)
{
    struct span shown;
    char print[9];
    fingerprint(span_cstr(SEALED), 8, print);
    const char *expected =
        arena_printf(arena, TREE("{\"id\":\"k1\",\"ciphertextFingerprint\":\"%s\"}"), print);
    ck_assert_int_eq(config_mask(span_cstr(TREE(SEALED_KEY)), NULL, arena, &shown, &e), 0);
    ck_assert_msg(span_is(shown, expected), "%.*s", (int)shown.len, shown.ptr);
}
END_TEST

START_TEST(the_mask_hides_a_plaintext_that_was_edited_in)
{
    struct span shown;
    ck_assert_int_eq(
        config_mask(span_cstr(TREE("{\"id\":\"k1\",\"key\":\"sk-live\"}")), &keys, arena, &shown, &e), 0);
    ck_assert_ptr_null(memmem(shown.ptr, shown.len, "sk-live", 7));
    ck_assert_int_eq(config_mask(span_cstr("{\"llm\":"), &keys, arena, &shown, &e), ERR_FORMAT);
}
END_TEST

#define K0 "/llm/models/gpt/upstreams/0/keys/0"

static const struct {
    const char *body, *current, *path, *message;
    bool without_master;
} refused[] = {
    { "{", "", "", "not valid JSON", false },
    { "{\"llm\":{},\"llm\":{}}", "", "", "repeated", false },
    { TREE("{\"id\":\"k1\",\"key\":\"\"}"), "", K0 "/key", "empty", false },
    { TREE("{\"id\":\"k1\",\"key\":\"sk-live\\n\"}"), "", K0 "/key", "control", false },
    { TREE("{\"id\":\"k1\",\"key\":\" sk-live\"}"), "", K0 "/key", "blank", false },
    { TREE("{\"id\":\"k1\",\"key\":[\"sk-live\"]}"), "", K0 "/key", "expected a text", false },
    { TREE("{\"id\":\"k1\",\"key\":\"sk-live\"}"), "", K0 "/key", "no master key", true },
    { TREE("{\"key\":\"sk-live\"}"), "", K0 "/id", "missing", false },
    { TREE("{\"id\":\"k|1\",\"key\":\"sk-live\"}"), "", K0 "/id", "\"|\"", false },
    { TREE("{\"id\":\"k1\"}"), "", K0, "exactly one of", false },
    { TREE("{\"id\":\"k1\",\"key\":\"sk-live\",\"ciphertext\":\"" SEALED "\"}"), "", K0, "exactly one of",
      false },
    { TREE("{\"id\":\"k1\",\"key\":\"sk-live\",\"keyFingerprint\":\"00000000\"}"), "", K0 "/keyFingerprint",
      "unknown member", false },
    { TREE("{\"id\":\"k1\",\"ciphertextFingerprint\":\"00000000\"}"), "", K0 "/ciphertextFingerprint",
      "the current document has no key", false },
    { TREE("{\"id\":\"k1\",\"ciphertextFingerprint\":\"00000000\"}"), TREE(SEALED_KEY),
      K0 "/ciphertextFingerprint", "the current document has no key", false },
    { TREE("{\"id\":\"k1\",\"ciphertextFingerprint\":5}"), TREE(SEALED_KEY), K0 "/ciphertextFingerprint",
      "the current document has no key", false },
    { TREE("{\"id\":\"k1\",\"ciphertextFingerprint\":\"00000000\"}"), "not JSON", K0 "/ciphertextFingerprint",
      "the current document has no key", false },
    { TREE("{\"id\":\"k2\",\"ciphertext\":\"" SEALED "\"}"), "", K0 "/ciphertext", "does not decrypt",
      false },
    { TREE("{\"id\":\"k1\",\"ciphertext\":\"sk-live\"}"), "", K0 "/ciphertext", "not of the form", false },
    { TREE(SEALED_KEY), "", K0 "/ciphertext", "no master key", true },
    { TREE("{\"id\":\"k1\",\"credential\":\"nobody\"}"), "", K0 "/credential", "no member of /credentials",
      false },
    { CREDENTIALS("{}", SEALED_KEY), "", "/credentials/or", "exactly one of", false },
    { CREDENTIALS("{\"credential\":\"x\"}", SEALED_KEY), "", "/credentials/or", "exactly one of", false },
    { CREDENTIALS("{\"ciphertextFingerprint\":\"00000000\"}", SEALED_KEY), TREE(SEALED_KEY),
      "/credentials/or/ciphertextFingerprint", "no credential of this name", false },
    { CREDENTIALS("{\"key\":\"sk-live\",\"x\":1}", SEALED_KEY), "", "/credentials/or/x", "unknown member",
      false },
    { "{\"llm\":{\"models\":{\"gpt\":{\"upstreams\":{\"keys\":[{\"key\":\"sk-live\"}]}}}}}", "",
      "/llm/models/gpt/upstreams", "expected a list", false },
    { "{\"llm\":{\"models\":{}},\"tts\":{\"models\":{\"v\":{\"upstreams\":[{\"keys\":[{\"id\":\"a\",\"key\":"
      "\"sk-live\"}]}]}}}}",
      "", "/tts/models/v/provider", "is missing", false },
};

START_TEST(a_fault_of_a_key_is_named_and_shows_no_key)
{
    bool found = false;
    out = span_of("untouched", 9);
    int r = config_admit(span_cstr(refused[_i].body), span_cstr(refused[_i].current),
                         refused[_i].without_master ? NULL : &keys, arena, &out, &faults);
    ck_assert_msg(r == ERR_FORMAT, "accepted: %s", refused[_i].body);
    for (size_t i = 0; i < faults.count; i++)
        found = found || (strcmp(faults.items[i].path, refused[_i].path) == 0 &&
                          strstr(faults.items[i].message, refused[_i].message) != NULL);
    ck_assert_msg(found, "%s\nexpected %s: …%s…\nfound\n%s", refused[_i].body, refused[_i].path,
                  refused[_i].message, all_faults());
    ck_assert_msg(strstr(all_faults(), "sk-live") == NULL, "a key is in\n%s", all_faults());
    ck_assert(span_is(out, "untouched"));
}
END_TEST

START_TEST(one_fault_of_a_key_is_reported_once_and_with_those_of_the_rest)
{
    const char *body =
        "{\"llm\":{\"models\":{\"gpt\":{\"upstreams\":[{\"baseURL\":\"ftp://h\",\"keys\":["
        "{\"id\":\"k1\",\"key\":\"\"},{\"id\":\"k2\",\"ciphertextFingerprint\":\"00000000\"}]}]}}}}";
    ck_assert_int_eq(config_admit(span_cstr(body), span_of("", 0), &keys, arena, &out, &faults), ERR_FORMAT);
    ck_assert_msg(faults.count == 3, "%s", all_faults());
    ck_assert_str_eq(faults.items[0].path, K0 "/key");
    ck_assert_str_eq(faults.items[1].path, "/llm/models/gpt/upstreams/0/keys/1/ciphertextFingerprint");
    ck_assert_str_eq(faults.items[2].path, "/llm/models/gpt/upstreams/0/baseURL");
}
END_TEST

static const struct {
    const char *text;
    bool is_fine;
} plaintexts[] = {
    { "sk-1", true }, { "a b", true },    { "{\"type\":\"service_account\"}", true },
    { "", false },    { "sk\t1", false }, { "sk\r\n", false },
    { "sk ", false }, { "\x7f", false },
};

START_TEST(a_key_that_cannot_stand_in_a_header_is_none)
{
    ck_assert_msg((config_key_problem(span_cstr(plaintexts[_i].text)) == NULL) == plaintexts[_i].is_fine,
                  "\"%s\"", plaintexts[_i].text);
}
END_TEST

START_TEST(a_key_has_at_most_8192_bytes)
{
    char *text = arena_alloc(arena, 8193);
    memset(text, 'x', 8193);
    ck_assert_ptr_null(config_key_problem(span_of(text, 8192)));
    ck_assert_ptr_nonnull(config_key_problem(span_of(text, 8193)));
}
END_TEST

/* What the arena handed out is looked at by allocating it again. */
START_TEST(no_plaintext_stays_in_the_memory_that_was_used)
{
    static const char body[] = TREE("{\"id\":\"k1\",\"key\":\"sk-live-0123456789abcdef\"}");
    ck_assert_int_eq(config_admit(span_cstr(body), span_of("", 0), &keys, arena, &out, &faults), 0);
    arena_reset(arena);
    size_t size = 15 * 1024;
    const char *memory = arena_alloc(arena, size);
    ck_assert_ptr_null(memmem(memory, size, "sk-live", 7));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admit");
    TCase *tests = tcase_create("admit");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_plaintext_is_encrypted_for_its_model_and_id);
    tcase_add_test(tests, a_name_with_escapes_is_bound_decoded);
    tcase_add_test(tests, a_credential_is_encrypted_for_its_name);
    tcase_add_test(tests, what_is_no_key_stays_as_it_was_written);
    tcase_add_test(tests, a_fingerprint_keeps_the_ciphertext_in_force);
    tcase_add_test(tests, two_upstreams_with_one_key_id_keep_each_its_own);
    tcase_add_test(tests, what_the_mask_shows_is_accepted_as_unchanged);
    tcase_add_test(tests, the_mask_shows_no_key_fingerprint_without_the_key);
    tcase_add_test(tests, the_mask_hides_a_plaintext_that_was_edited_in);
    tcase_add_loop_test(tests, a_fault_of_a_key_is_named_and_shows_no_key, 0, COUNT(refused));
    tcase_add_test(tests, one_fault_of_a_key_is_reported_once_and_with_those_of_the_rest);
    tcase_add_loop_test(tests, a_key_that_cannot_stand_in_a_header_is_none, 0, COUNT(plaintexts));
    tcase_add_test(tests, a_key_has_at_most_8192_bytes);
    tcase_add_test(tests, no_plaintext_stays_in_the_memory_that_was_used);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
