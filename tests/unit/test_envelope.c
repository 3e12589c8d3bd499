#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/ids.h"
#include "core/crypto/digest.h"
#include "core/crypto/envelope_internal.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Bytes 0 to 31, and 32 to 63. */
static const char master_a[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
static const char master_b[] = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

static struct arena *arena;
static struct envelope_keys keys;
static struct secret secret;

static void set_up(void)
{
    arena = arena_new();
    ck_assert_int_eq(envelope_keys_derive(&keys, span_cstr(master_a), span_of("", 0), NULL), 0);
}

static void tear_down(void)
{
    arena_free(arena);
}

/* Made with Python's cryptography package (AESGCM and HKDF). */
static const struct {
    const char *master;
    unsigned char iv[ENVELOPE_IV_BYTES];
    const char *plaintext, *aad, *text;
} known[] = {
    { master_a,
      { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 },
      "sk-test-1234567890",
      "gpt|k1",
      "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw" },
    { master_a,
      { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 },
      "",
      "credential|openrouter",
      "v1.________________..CWG5twTzkFOYQDMQkYk3cw" },
    { master_b,
      { 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111 },
      "密钥-é",
      "模型|k/1",
      "v1.ZGVmZ2hpamtsbW5v.GVagF1dyICeb.GWnKV6tjWr-1X6ZtZCoGUQ" },
};

START_TEST(encryption_gives_the_known_answers)
{
    char *text = NULL;
    struct envelope_keys own;
    ck_assert_int_eq(envelope_keys_derive(&own, span_cstr(known[_i].master), span_of("", 0), NULL), 0);
    ck_assert_int_eq(envelope_encrypt_with_iv(own.current, known[_i].iv, span_cstr(known[_i].plaintext),
                                              span_cstr(known[_i].aad), arena, &text, NULL),
                     0);
    ck_assert_str_eq(text, known[_i].text);
    ck_assert_int_eq(
        envelope_decrypt(&own, span_cstr(known[_i].text), span_cstr(known[_i].aad), &secret, NULL), 0);
    ck_assert_str_eq(secret.bytes, known[_i].plaintext);
    ck_assert_uint_eq(secret.len, strlen(known[_i].plaintext));
}
END_TEST

START_TEST(a_plaintext_of_the_greatest_length_gives_the_known_answer)
{
    static char plaintext[ENVELOPE_PLAINTEXT_MAX];
    static const unsigned char iv[ENVELOPE_IV_BYTES];
    char hex[SHA256_HEX_BYTES], *text = NULL;
    memset(plaintext, 'A', sizeof(plaintext));
    ck_assert_int_eq(envelope_encrypt_with_iv(keys.current, iv, span_of(plaintext, sizeof(plaintext)),
                                              span_cstr("m|k"), arena, &text, NULL),
                     0);
    sha256_hex(span_cstr(text), hex);
    ck_assert_str_eq(hex, "1aa95ab04135aa744f2518fff997fee5356b992bb0e0e0522a0cac25fbfa7da3");
    ck_assert_int_eq(envelope_decrypt(&keys, span_cstr(text), span_cstr("m|k"), &secret, NULL), 0);
    ck_assert_uint_eq(secret.len, sizeof(plaintext));
    ck_assert_int_eq(envelope_encrypt(&keys, span_of(arena_calloc(arena, 1, 8193), 8193), span_cstr("m|k"),
                                      arena, &text, NULL),
                     ERR_LIMIT);
}
END_TEST

START_TEST(the_keys_are_those_of_hkdf)
{
    char hex[2 * ENVELOPE_KEY_BYTES + 1];
    ck_assert_int_eq(envelope_keys_derive(&keys, span_cstr(master_a), span_cstr(master_b), NULL), 0);
    ids_hex(keys.current, sizeof(keys.current), hex);
    ck_assert_str_eq(hex, "d05e15ae240efcf825aa4fcb9938f0a44f354a01ea2095440d8d836b2289a1e6");
    ids_hex(keys.previous, sizeof(keys.previous), hex);
    ck_assert_str_eq(hex, "19ba2be91dc07a1bd0d53af2e39705539a5dc03ccd9c61715c949ad235094d9f");
    ids_hex(keys.news_current, sizeof(keys.news_current), hex);
    ck_assert_str_eq(hex, "c0ca5f3dc798065e76813e1503bc95a1eda00908732d392bd51833fa5dbeb1bf");
    ids_hex(keys.news_previous, sizeof(keys.news_previous), hex);
    ck_assert_str_eq(hex, "2606c0da6103b9c9b31d750f085f0959a5e5e317e096b477877b86ade8eb4fee");
    ck_assert(keys.has_previous);
}
END_TEST

START_TEST(two_encryptions_of_one_plaintext_differ_and_both_decrypt)
{
    char *first = NULL, *second = NULL;
    ck_assert_int_eq(envelope_encrypt(&keys, span_cstr("sk"), span_cstr("m|k"), arena, &first, NULL), 0);
    ck_assert_int_eq(envelope_encrypt(&keys, span_cstr("sk"), span_cstr("m|k"), arena, &second, NULL), 0);
    ck_assert_str_ne(first, second);
    ck_assert_int_eq(envelope_decrypt(&keys, span_cstr(first), span_cstr("m|k"), &secret, NULL), 0);
    ck_assert_int_eq(envelope_decrypt(&keys, span_cstr(second), span_cstr("m|k"), &secret, NULL), 0);
    ck_assert_str_eq(secret.bytes, "sk");
}
END_TEST

static bool secret_is_wiped(void)
{
    const char *bytes = (const char *)&secret;
    for (size_t i = 0; i < sizeof(secret); i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

START_TEST(any_changed_character_is_refused_and_leaves_no_plaintext)
{
    const char *text = known[0].text;
    for (size_t i = 0; i < strlen(text); i++) {
        char *changed = arena_strdup(arena, text);
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        memset(&secret, 'x', sizeof(secret));
        int r = envelope_decrypt(&keys, span_cstr(changed), span_cstr("gpt|k1"), &secret, NULL);
        ck_assert_msg(r == ERR_CRYPTO || r == ERR_FORMAT, "\"%s\" was accepted", changed);
        ck_assert_msg(secret_is_wiped(), "\"%s\" left something", changed);
    }
}
END_TEST

START_TEST(a_ciphertext_cut_anywhere_is_refused)
{
    const char *text = known[0].text;
    for (size_t len = 0; len < strlen(text); len++)
        ck_assert_msg(envelope_decrypt(&keys, span_of(text, len), span_cstr("gpt|k1"), &secret, NULL) ==
                          ERR_FORMAT,
                      "its first %zu bytes were not refused as malformed", len);
}
END_TEST

static const char *const malformed[] = {
    "",
    "v1",
    "v1...",
    "v2.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw",
    "v1.AAECAwQFBgcICQo.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw",
    "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw.",
    "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw.AA",
    "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzx",
    "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ+qW5fH.BgmvtD1A9OaTYlE6pTNzzw",
    " v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw",
    "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw\n",
    "sk-live-plaintext",
};

START_TEST(what_has_not_the_text_form_is_malformed)
{
    ck_assert_msg(!envelope_is_well_formed(span_cstr(malformed[_i])), "\"%s\"", malformed[_i]);
    ck_assert_int_eq(envelope_decrypt(&keys, span_cstr(malformed[_i]), span_cstr("gpt|k1"), &secret, NULL),
                     ERR_FORMAT);
}
END_TEST

START_TEST(a_ciphertext_longer_than_any_plaintext_is_malformed)
{
    size_t digits = (ENVELOPE_PLAINTEXT_MAX * 4 + 2) / 3 + 2;
    char *body = arena_alloc(arena, digits + 1);
    memset(body, 'A', digits);
    body[digits] = '\0';
    const char *text = arena_printf(arena, "v1.AAECAwQFBgcICQoL.%s.BgmvtD1A9OaTYlE6pTNzzw", body);
    ck_assert(!envelope_is_well_formed(span_cstr(text)));
}
END_TEST

START_TEST(a_ciphertext_does_not_open_in_another_place)
{
    struct error e;
    ck_assert_int_eq(envelope_decrypt(&keys, span_cstr(known[0].text), span_cstr("gpt|k2"), &secret, &e),
                     ERR_CRYPTO);
    ck_assert_ptr_nonnull(strstr(e.text, "gpt|k2"));
    ck_assert(secret_is_wiped());
    ck_assert_int_eq(
        envelope_decrypt(&keys, span_cstr(known[0].text), span_cstr("credential|gpt"), &secret, NULL),
        ERR_CRYPTO);
}
END_TEST

START_TEST(the_previous_key_is_tried_second_and_never_encrypts)
{
    struct envelope_keys rotated;
    char *text = NULL;
    ck_assert_int_eq(envelope_keys_derive(&rotated, span_cstr(master_b), span_cstr(master_a), NULL), 0);
    ck_assert_int_eq(envelope_decrypt(&rotated, span_cstr(known[0].text), span_cstr("gpt|k1"), &secret, NULL),
                     0);
    ck_assert_str_eq(secret.bytes, known[0].plaintext);
    ck_assert_int_eq(envelope_encrypt(&rotated, span_cstr("sk"), span_cstr("m|k"), arena, &text, NULL), 0);
    ck_assert_int_eq(envelope_decrypt(&keys, span_cstr(text), span_cstr("m|k"), &secret, NULL), ERR_CRYPTO);
    ck_assert_int_eq(
        envelope_decrypt(&keys, span_cstr(known[2].text), span_cstr(known[2].aad), &secret, NULL),
        ERR_CRYPTO);
}
END_TEST

static const struct {
    const char *current, *previous, *what;
} bad_masters[] = {
    { "", "", "0 bytes" },
    { "c2hvcnQ=", "", "5 bytes" },
    { "?not-digits?", "", "not base64" },
    { "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "", "not base64" },
    { "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+PwAA", "",
      "not base64" },
    { master_a, "c2hvcnQ=", "previous" },
    { master_a, master_a, "equals" },
};

START_TEST(a_master_key_that_is_not_32_bytes_of_base64_is_refused_without_being_shown)
{
    struct error e;
    struct envelope_keys out;
    memset(&out, 7, sizeof(out));
    ck_assert_int_eq(envelope_keys_derive(&out, span_cstr(bad_masters[_i].current),
                                          span_cstr(bad_masters[_i].previous), &e),
                     ERR_FORMAT);
    ck_assert_msg(strstr(e.text, bad_masters[_i].what) != NULL, "\"%s\" does not hold \"%s\"", e.text,
                  bad_masters[_i].what);
    ck_assert(bad_masters[_i].current[0] == '\0' || strstr(e.text, bad_masters[_i].current) == NULL);
    ck_assert_msg(out.current[0] == 7, "the keys were touched");
}
END_TEST

/* "@" stands for the path of a file with the rest as its content. */
static const struct {
    const char *current, *current_file, *previous, *previous_file;
    int result;
    bool has_previous;
} environments[] = {
    { NULL, NULL, NULL, NULL, ERR_NOT_FOUND, false },
    { "", "", "", "", ERR_NOT_FOUND, false },
    { master_a, NULL, NULL, NULL, 0, false },
    { master_a, "", NULL, NULL, 0, false },
    { NULL, "@AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", NULL, NULL, 0, false },
    { NULL, "@AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", NULL, NULL, 0, false },
    { master_a, NULL, master_b, NULL, 0, true },
    { master_a, NULL, NULL, "@ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n", 0, true },
    { master_a, "@AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", NULL, NULL, ERR_FORMAT, false },
    { master_a, NULL, master_a, NULL, ERR_FORMAT, false },
    { NULL, NULL, master_b, NULL, ERR_FORMAT, false },
    { "short", NULL, NULL, NULL, ERR_FORMAT, false },
    { NULL, "/nonexistent/key", NULL, NULL, ERR_SYSTEM, false },
    { NULL, "@", NULL, NULL, ERR_FORMAT, false },
    { master_a, NULL, NULL, "@\n", ERR_FORMAT, false },
};

static void set_variable(const char *name, const char *value, char path[64])
{
    if (value == NULL) {
        unsetenv(name);
        return;
    }
    if (value[0] == '@') {
        strcpy(path, "/tmp/test_envelope.XXXXXX");
        int fd = mkstemp(path);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(write(fd, value + 1, strlen(value + 1)), (ssize_t)strlen(value + 1));
        close(fd);
        value = path;
    }
    setenv(name, value, 1);
}

START_TEST(the_environment_gives_the_keys_and_keeps_nothing)
{
    char path[64] = "", previous_path[64] = "";
    struct envelope_keys out = { .has_previous = false };
    struct error e = { .text = "" };
    set_variable("LLM_ROUTER_MASTER_KEY", environments[_i].current, path);
    set_variable("LLM_ROUTER_MASTER_KEY_FILE", environments[_i].current_file, path);
    set_variable("LLM_ROUTER_MASTER_KEY_PREVIOUS", environments[_i].previous, path);
    set_variable("LLM_ROUTER_MASTER_KEY_PREVIOUS_FILE", environments[_i].previous_file, previous_path);
    char *in_place = getenv("LLM_ROUTER_MASTER_KEY");
    size_t len = in_place == NULL ? 0 : strlen(in_place);

    int r = envelope_keys_from_environment(&out, &e);
    unlink(path);
    unlink(previous_path);
    ck_assert_msg(r == environments[_i].result, "case %d: %d (%s), expected %d", _i, r, e.text,
                  environments[_i].result);
    ck_assert_int_eq(out.has_previous, environments[_i].has_previous);
    if (r == 0)
        ck_assert_mem_eq(out.current, keys.current, sizeof(out.current));
    for (size_t i = 0; i < len; i++)
        ck_assert_msg(in_place[i] == '\0', "case %d: byte %zu of the variable is still there", _i, i);
    ck_assert_ptr_null(getenv("LLM_ROUTER_MASTER_KEY"));
    ck_assert_ptr_null(getenv("LLM_ROUTER_MASTER_KEY_FILE"));
    ck_assert_ptr_null(getenv("LLM_ROUTER_MASTER_KEY_PREVIOUS"));
    ck_assert_ptr_null(getenv("LLM_ROUTER_MASTER_KEY_PREVIOUS_FILE"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("envelope");
    TCase *tests = tcase_create("envelope");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, encryption_gives_the_known_answers, 0, COUNT(known));
    tcase_add_test(tests, a_plaintext_of_the_greatest_length_gives_the_known_answer);
    tcase_add_test(tests, the_keys_are_those_of_hkdf);
    tcase_add_test(tests, two_encryptions_of_one_plaintext_differ_and_both_decrypt);
    tcase_add_test(tests, any_changed_character_is_refused_and_leaves_no_plaintext);
    tcase_add_test(tests, a_ciphertext_cut_anywhere_is_refused);
    tcase_add_loop_test(tests, what_has_not_the_text_form_is_malformed, 0, COUNT(malformed));
    tcase_add_test(tests, a_ciphertext_longer_than_any_plaintext_is_malformed);
    tcase_add_test(tests, a_ciphertext_does_not_open_in_another_place);
    tcase_add_test(tests, the_previous_key_is_tried_second_and_never_encrypts);
    tcase_add_loop_test(tests, a_master_key_that_is_not_32_bytes_of_base64_is_refused_without_being_shown, 0,
                        COUNT(bad_masters));
    tcase_add_loop_test(tests, the_environment_gives_the_keys_and_keeps_nothing, 0, COUNT(environments));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
