#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/ids.h"
#include "core/crypto/digest.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static const struct {
    const char *text, *hex;
} digests[] = {
    { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
};

START_TEST(sha256_gives_the_digests_of_fips_180)
{
    char hex[SHA256_HEX_BYTES];
    sha256_hex(span_cstr(digests[_i].text), hex);
    ck_assert_msg(strcmp(hex, digests[_i].hex) == 0, "\"%s\": %s, expected %s", digests[_i].text, hex,
                  digests[_i].hex);
}
END_TEST

START_TEST(the_empty_span_without_a_pointer_is_the_empty_text)
{
    char hex[SHA256_HEX_BYTES];
    sha256_hex(span_of(NULL, 0), hex);
    ck_assert_str_eq(hex, digests[0].hex);
    ck_assert(equal_in_constant_time(span_of(NULL, 0), span_of("", 0)));
}
END_TEST

START_TEST(a_fingerprint_is_the_beginning_of_the_digest)
{
    char out[SHA256_HEX_BYTES + 1];
    fingerprint(span_cstr("abc"), 8, out);
    ck_assert_str_eq(out, "ba7816bf");
    fingerprint(span_cstr("abc"), 64, out);
    ck_assert_str_eq(out, digests[1].hex);
}
END_TEST

START_TEST(hmac_gives_the_digests_of_rfc_4231)
{
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES], longkey[131];
    hmac_sha256(span_cstr("Jefe"), span_cstr("what do ya want for nothing?"), digest);
    ids_hex(digest, sizeof(digest), hex);
    ck_assert_str_eq(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(longkey, 0xaa, sizeof(longkey));
    hmac_sha256(span_of(longkey, sizeof(longkey)),
                span_cstr("Test Using Larger Than Block-Size Key - Hash Key First"), digest);
    ids_hex(digest, sizeof(digest), hex);
    ck_assert_str_eq(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
END_TEST

START_TEST(equality_looks_at_length_and_every_byte)
{
    ck_assert(equal_in_constant_time(span_cstr("secret"), span_cstr("secret")));
    ck_assert(!equal_in_constant_time(span_cstr("secret"), span_cstr("secre")));
    ck_assert(!equal_in_constant_time(span_cstr("secret"), span_cstr("Secret")));
    ck_assert(!equal_in_constant_time(span_cstr("secret"), span_cstr("secreT")));
}
END_TEST

static const struct {
    struct span bytes;
    const char *standard, *url;
} base64s[] = {
    { { "", 0 }, "", "" },
    { { "f", 1 }, "Zg==", "Zg" },
    { { "fo", 2 }, "Zm8=", "Zm8" },
    { { "foo", 3 }, "Zm9v", "Zm9v" },
    { { "foob", 4 }, "Zm9vYg==", "Zm9vYg" },
    { { "fooba", 5 }, "Zm9vYmE=", "Zm9vYmE" },
    { { "foobar", 6 }, "Zm9vYmFy", "Zm9vYmFy" },
    { { "\xfb\xff\x00\xfe", 4 }, "+/8A/g==", "-_8A_g" },
};

START_TEST(base64_goes_both_ways)
{
    char text[32];
    unsigned char bytes[32];
    struct span in = base64s[_i].bytes;
    base64_encode(in, text);
    ck_assert_str_eq(text, base64s[_i].standard);
    ck_assert_uint_eq(strlen(text) + 1, base64_size(in.len));
    ck_assert_int_eq(base64_decode(span_cstr(text), bytes), (long)in.len);
    ck_assert(memcmp(bytes, in.ptr, in.len) == 0);
    base64url_encode(in, text);
    ck_assert_str_eq(text, base64s[_i].url);
    ck_assert_uint_eq(strlen(text) + 1, base64url_size(in.len));
    ck_assert_int_eq(base64url_decode(span_cstr(text), bytes), (long)in.len);
    ck_assert(memcmp(bytes, in.ptr, in.len) == 0);
}
END_TEST

static const char *const bad_base64url[] = {
    "Z", "Zm9vY", "Zg==", "Zm9v\n", " Zm9v", "Zm9+", "Zm9/", "Zh", "Zm9", "Zm9v.", "\xc3\xa9Zm",
};

START_TEST(base64url_refuses_padding_foreign_characters_and_stray_bits)
{
    unsigned char bytes[32];
    const char *text = bad_base64url[_i];
    ck_assert_msg(base64url_decode(span_cstr(text), bytes) == ERR_FORMAT, "\"%s\" was accepted", text);
}
END_TEST

static const char *const bad_base64[] = {
    "Zg", "Zg=", "Zg===", "Z===", "====", "Zm8", "Zh==", "Zm9=", "Zm9-", "Zm9_", "Z=g=", "Zm9v\n",
};

START_TEST(base64_refuses_what_is_not_exactly_padded)
{
    unsigned char bytes[32];
    const char *text = bad_base64[_i];
    ck_assert_msg(base64_decode(span_cstr(text), bytes) == ERR_FORMAT, "\"%s\" was accepted", text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("digest");
    TCase *tests = tcase_create("digest");
    tcase_add_loop_test(tests, sha256_gives_the_digests_of_fips_180, 0, COUNT(digests));
    tcase_add_test(tests, the_empty_span_without_a_pointer_is_the_empty_text);
    tcase_add_test(tests, a_fingerprint_is_the_beginning_of_the_digest);
    tcase_add_test(tests, hmac_gives_the_digests_of_rfc_4231);
    tcase_add_test(tests, equality_looks_at_length_and_every_byte);
    tcase_add_loop_test(tests, base64_goes_both_ways, 0, COUNT(base64s));
    tcase_add_loop_test(tests, base64url_refuses_padding_foreign_characters_and_stray_bits, 0,
                        COUNT(bad_base64url));
    tcase_add_loop_test(tests, base64_refuses_what_is_not_exactly_padded, 0, COUNT(bad_base64));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
