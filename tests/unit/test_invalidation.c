#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/ids.h"
#include "core/crypto/digest.h"
#include "core/store/invalidation.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

#define A8 "AAAAAAAA"
#define A64 A8 A8 A8 A8 A8 A8 A8 A8

/* Bytes 0 to 31, and 32 to 63. */
static const char master_a[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
static const char master_b[] = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

static struct arena *arena;
static struct envelope_keys keys; /* of master_a alone */
static struct buf out;

static void set_up(void)
{
    arena = arena_new();
    buf_init(&out, INVALIDATION_LIMIT_BYTES);
    ck_assert_int_eq(envelope_keys_derive(&keys, span_cstr(master_a), span_of("", 0), NULL), 0);
}

static void tear_down(void)
{
    buf_free(&out);
    arena_free(arena);
}

/* Made with Python's hmac and json.dumps(…, separators=(",", ":")). */
static const struct {
    const char *master;
    struct invalidation news;
    const char *hmac;
} known[] = {
    { master_a,
      { "LLM_ROUTER_CONFIG", "V1StGXR8_Z5jdHi6B-myT", UINT64_C(1764450000123) },
      "d4f5c13076274362288b901504d9f2b6a52203ba2136fecc682d508f68a1b306" },
    { master_a, { "A", "0", 0 }, "e376262ed911ea60f24514d9618038bbd74db85ff99a8bd18258e1901ec22806" },
    { master_b,
      { "LLM_ROUTER_CONFIG", "V1StGXR8_Z5jdHi6B-myT", UINT64_C(1764450000123) },
      "70104031e4f118cecf592c5eb837a72f0dce0b798a0434dba0e619d8bce565e0" },
    { master_b,
      { "KKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKK",
        "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv", UINT64_C(999999999999999999) },
      "ab7227fb392a47584c0b66b72d189c3f9e2dfe54e0d924aeda85237c06ce16b7" },
};

START_TEST(the_payload_has_the_known_hmac_and_is_read_back)
{
    struct envelope_keys own;
    struct invalidation read = { .key = "" };
    const struct invalidation *news = &known[_i].news;

    ck_assert_int_eq(envelope_keys_derive(&own, span_cstr(known[_i].master), span_of("", 0), NULL), 0);
    ck_assert_int_eq(invalidation_write(news, &own, &out), 0);
    ck_assert_str_eq(
        arena_span(arena, buf_span(&out)),
        arena_printf(arena, "{\"key\":\"%s\",\"version\":\"%s\",\"publishedAt\":%llu,\"hmac\":\"%s\"}",
                     news->key, news->version, (unsigned long long)news->published_ms, known[_i].hmac));
    ck_assert_int_eq(invalidation_read(buf_span(&out), &own, &read), 0);
    ck_assert_str_eq(read.key, news->key);
    ck_assert_str_eq(read.version, news->version);
    ck_assert_uint_eq(read.published_ms, news->published_ms);
}
END_TEST

/* Each %s is the right hmac of {"key":"A","version":"v","publishedAt":1}, or of the members named. */
static const struct {
    const char *what, *payload;
    int result;
} forms[] = {
    { "as written", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}", 0 },
    { "in another order", "{\"hmac\":\"%s\",\"publishedAt\":1,\"version\":\"v\",\"key\":\"A\"}", 0 },
    { "with blanks", " { \"key\" : \"A\" , \"version\":\n\"v\",\t\"publishedAt\": 1 ,\"hmac\":\"%s\" } ", 0 },
    { "nothing", "", ERR_FORMAT },
    { "no JSON", "A v 1 %s", ERR_FORMAT },
    { "cut", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"", ERR_FORMAT },
    { "bytes behind it", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}x", ERR_FORMAT },
    { "an array", "[\"A\",\"v\",1,\"%s\"]", ERR_FORMAT },
    { "an array around it", "[{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}]",
      ERR_FORMAT },
    { "a text", "\"%s\"", ERR_FORMAT },
    { "null", "null", ERR_FORMAT },
    { "no key", "{\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}", ERR_FORMAT },
    { "no version", "{\"key\":\"A\",\"publishedAt\":1,\"hmac\":\"%s\"}", ERR_FORMAT },
    { "no time", "{\"key\":\"A\",\"version\":\"v\",\"hmac\":\"%s\"}", ERR_FORMAT },
    { "no hmac", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1}", ERR_FORMAT },
    { "another member", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\",\"x\":1}",
      ERR_FORMAT },
    { "a member without a name", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\",\"\":1}",
      ERR_FORMAT },
    { "a member in it", "{\"key\":\"A\",\"version\":{\"key\":\"A\"},\"publishedAt\":1,\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "a second key", "{\"key\":\"B\",\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "an empty key", "{\"key\":\"\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}", ERR_FORMAT },
    { "a small letter in the key", "{\"key\":\"a\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "an escape in the key", "{\"key\":\"\\u0041\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "a key that is too long", "{\"key\":\"" A64 "A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "a number as key", "{\"key\":1,\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}", ERR_FORMAT },
    { "an empty version", "{\"key\":\"A\",\"version\":\"\",\"publishedAt\":1,\"hmac\":\"%s\"}", ERR_FORMAT },
    { "a blank in the version", "{\"key\":\"A\",\"version\":\"v \",\"publishedAt\":1,\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "a version that is too long",
      "{\"key\":\"A\",\"version\":\"" A64 "A\",\"publishedAt\":1,\"hmac\":\"%s\"}", ERR_FORMAT },
    { "a text as time", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":\"1\",\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "a negative time", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":-1,\"hmac\":\"%s\"}", ERR_FORMAT },
    { "minus nothing as time", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":-0,\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "a fraction as time", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1.0,\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "an exponent as time", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1e0,\"hmac\":\"%s\"}",
      ERR_FORMAT },
    { "a time that is too long",
      "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":9999999999999999999,\"hmac\":\"%s\"}", ERR_FORMAT },
    { "an hmac that is too long", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s0\"}",
      ERR_FORMAT },
    { "null as hmac", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":null}", ERR_FORMAT },
    { "another key", "{\"key\":\"B\",\"version\":\"v\",\"publishedAt\":1,\"hmac\":\"%s\"}", ERR_CRYPTO },
    { "another version", "{\"key\":\"A\",\"version\":\"w\",\"publishedAt\":1,\"hmac\":\"%s\"}", ERR_CRYPTO },
    { "another time", "{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":2,\"hmac\":\"%s\"}", ERR_CRYPTO },
};

static const char *right_hmac(void)
{
    uint8_t mac[SHA256_BYTES];
    char *hex = arena_alloc(arena, SHA256_HEX_BYTES);
    hmac_sha256(span_of((const char *)keys.news_current, sizeof(keys.news_current)),
                span_cstr("{\"key\":\"A\",\"version\":\"v\",\"publishedAt\":1}"), mac);
    ids_hex(mac, sizeof(mac), hex);
    return hex;
}

static const char *with_hmac(const char *form, const char *hmac)
{
    const char *place = strstr(form, "%s");
    if (place == NULL)
        return form;
    return arena_printf(arena, "%.*s%s%s", (int)(place - form), form, hmac, place + 2);
}

START_TEST(only_the_four_members_in_their_alphabets_are_read)
{
    struct invalidation read = { .key = "untouched" };
    const char *payload = with_hmac(forms[_i].payload, right_hmac());

    int r = invalidation_read(span_cstr(payload), &keys, &read);
    ck_assert_msg(r == forms[_i].result, "%s: %s, not %s: %s", forms[_i].what, err_name(r),
                  err_name(forms[_i].result), payload);
    ck_assert_str_eq(read.key, r == 0 ? "A" : "untouched");
}
END_TEST

START_TEST(an_hmac_with_any_character_changed_is_refused)
{
    struct invalidation read;
    for (size_t i = 0; i < SHA256_HEX_BYTES - 1; i++) {
        char *hmac = arena_strdup(arena, right_hmac());
        hmac[i] = hmac[i] == '0' ? '1' : '0';
        const char *payload = with_hmac(forms[0].payload, hmac);
        ck_assert_msg(invalidation_read(span_cstr(payload), &keys, &read) == ERR_CRYPTO, "%s", payload);
    }
    char *upper = arena_strdup(arena, right_hmac());
    char *letter = strpbrk(upper, "abcdef");
    ck_assert_ptr_nonnull(letter);
    *letter = (char)(*letter - 'a' + 'A');
    ck_assert_int_eq(invalidation_read(span_cstr(with_hmac(forms[0].payload, upper)), &keys, &read),
                     ERR_FORMAT);
}
END_TEST

START_TEST(what_is_longer_than_the_limit_is_not_parsed)
{
    struct invalidation read;
    const char *payload = with_hmac(forms[0].payload, right_hmac());
    size_t len = strlen(payload);
    char *padded = arena_alloc(arena, INVALIDATION_LIMIT_BYTES + 1);

    memset(padded, ' ', INVALIDATION_LIMIT_BYTES + 1);
    memcpy(padded, payload, len);
    ck_assert_int_eq(invalidation_read(span_of(padded, INVALIDATION_LIMIT_BYTES), &keys, &read), 0);
    ck_assert_int_eq(invalidation_read(span_of(padded, INVALIDATION_LIMIT_BYTES + 1), &keys, &read),
                     ERR_LIMIT);
}
END_TEST

START_TEST(news_of_the_previous_master_key_verify_and_none_is_signed_with_it)
{
    struct envelope_keys rotated, stranger;
    struct invalidation read, news = { "A", "v", 1 };

    ck_assert_int_eq(envelope_keys_derive(&rotated, span_cstr(master_b), span_cstr(master_a), NULL), 0);
    ck_assert_int_eq(envelope_keys_derive(&stranger, span_cstr(master_b), span_of("", 0), NULL), 0);
    ck_assert_int_eq(invalidation_write(&news, &keys, &out), 0);
    ck_assert_int_eq(invalidation_read(buf_span(&out), &rotated, &read), 0);
    ck_assert_int_eq(invalidation_read(buf_span(&out), &stranger, &read), ERR_CRYPTO);
    buf_clear(&out);
    ck_assert_int_eq(invalidation_write(&news, &rotated, &out), 0);
    ck_assert_int_eq(invalidation_read(buf_span(&out), &stranger, &read), 0);
    ck_assert_int_eq(invalidation_read(buf_span(&out), &keys, &read), ERR_CRYPTO);
}
END_TEST

START_TEST(a_buffer_without_room_is_an_error)
{
    struct buf small;
    struct invalidation news = { "A", "v", 1 };

    buf_init(&small, 64);
    ck_assert_int_eq(invalidation_write(&news, &keys, &small), ERR_LIMIT);
    buf_free(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("invalidation");
    TCase *tests = tcase_create("news");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, the_payload_has_the_known_hmac_and_is_read_back, 0, COUNT(known));
    tcase_add_loop_test(tests, only_the_four_members_in_their_alphabets_are_read, 0, COUNT(forms));
    tcase_add_test(tests, an_hmac_with_any_character_changed_is_refused);
    tcase_add_test(tests, what_is_longer_than_the_limit_is_not_parsed);
    tcase_add_test(tests, news_of_the_previous_master_key_verify_and_none_is_signed_with_it);
    tcase_add_test(tests, a_buffer_without_room_is_an_error);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
