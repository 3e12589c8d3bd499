#include "core/crypto/envelope_internal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <pthread.h>

#include "core/base/ids.h"
#include "core/crypto/digest.h"

static const char kdf_salt[] = "llm-router-v1";
/* One for each use of a master key. */
static const char encryption_info[] = "provider-key-encryption", news_info[] = "configkv-invalidate-hmac";

enum {
    PARTS = 4, /* version, IV, ciphertext, tag */
    IV_DIGITS = 16,
    TAG_DIGITS = 22,
    CIPHERTEXT_DIGITS_MAX = (ENVELOPE_PLAINTEXT_MAX * 4 + 2) / 3,
};

/* HKDF-SHA256 of a master key. */
static int derive_key(const unsigned char master[ENVELOPE_MASTER_BYTES], const char *use,
                      unsigned char out[ENVELOPE_KEY_BYTES], struct error *e)
{
    int result = ERR_CRYPTO;
    char digest[] = "SHA256", salt[sizeof(kdf_salt)], info[32];
    size_t info_len = strlen(use);
    unsigned char ikm[ENVELOPE_MASTER_BYTES];
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf == NULL ? NULL : EVP_KDF_CTX_new(kdf);

    /* OSSL_PARAM wants pointers to bytes that it might write. */
    memcpy(salt, kdf_salt, sizeof(salt));
    memcpy(info, use, info_len);
    memcpy(ikm, master, sizeof(ikm));
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, ikm, sizeof(ikm)),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof(salt) - 1),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, info_len),
        OSSL_PARAM_construct_end(),
    };
    if (ctx != NULL && EVP_KDF_derive(ctx, out, ENVELOPE_KEY_BYTES, params) == 1)
        result = 0;
    else
        error_set(e, ERR_CRYPTO, "OpenSSL cannot derive a key with HKDF-SHA256");
    OPENSSL_cleanse(ikm, sizeof(ikm));
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return result;
}

static int derive_both(const unsigned char master[ENVELOPE_MASTER_BYTES],
                       unsigned char encryption[ENVELOPE_KEY_BYTES], unsigned char news[ENVELOPE_KEY_BYTES],
                       struct error *e)
{
    int r = derive_key(master, encryption_info, encryption, e);
    return r != 0 ? r : derive_key(master, news_info, news, e);
}

static int decode_master(struct span text, unsigned char out[ENVELOPE_MASTER_BYTES], const char *which,
                         struct error *e)
{
    unsigned char bytes[64];
    int result = 0;
    long len = text.len > 4 * sizeof(bytes) / 3 ? ERR_FORMAT : base64_decode(text, bytes);
    if (len < 0)
        result = error_set(e, ERR_FORMAT, "the %s master key is not base64 of %d bytes", which,
                           ENVELOPE_MASTER_BYTES);
    else if (len != ENVELOPE_MASTER_BYTES)
        result = error_set(e, ERR_FORMAT, "the %s master key has %ld bytes, %d are expected", which, len,
                           ENVELOPE_MASTER_BYTES);
    else
        memcpy(out, bytes, ENVELOPE_MASTER_BYTES);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return result;
}

int envelope_keys_derive(struct envelope_keys *out, struct span current, struct span previous,
                         struct error *e)
{
    struct envelope_keys keys = { .has_previous = previous.len > 0 };
    unsigned char master[2][ENVELOPE_MASTER_BYTES] = { { 0 } };

    int r = decode_master(current, master[0], "current", e);
    if (r == 0)
        r = derive_both(master[0], keys.current, keys.news_current, e);
    if (r == 0 && keys.has_previous) {
        r = decode_master(previous, master[1], "previous", e);
        if (r == 0 && CRYPTO_memcmp(master[0], master[1], ENVELOPE_MASTER_BYTES) == 0)
            r = error_set(e, ERR_FORMAT, "the previous master key equals the current one");
        if (r == 0)
            r = derive_both(master[1], keys.previous, keys.news_previous, e);
    }
    if (r == 0)
        *out = keys;
    OPENSSL_cleanse(master, sizeof(master));
    envelope_keys_wipe(&keys);
    return r;
}

void envelope_keys_wipe(struct envelope_keys *keys)
{
    OPENSSL_cleanse(keys, sizeof(*keys));
}

/* Of its 8 kB a key has filled a hundred bytes. */
void secret_wipe(struct secret *secret)
{
    OPENSSL_cleanse(secret->bytes, secret->len + 1);
    secret->len = 0;
}

/* Whatever it holds, if anything. */
static void wipe_whole(struct secret *secret)
{
    OPENSSL_cleanse(secret, sizeof(*secret));
}

static pthread_once_t cipher_once = PTHREAD_ONCE_INIT;
static EVP_CIPHER *cipher; /* NULL: OpenSSL does not have it, and refuses to use none */

static void fetch_cipher(void)
{
    cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
}

/* EVP_aes_256_gcm() would be looked up by its name at each use. */
static const EVP_CIPHER *aes_256_gcm(void)
{
    (void)pthread_once(&cipher_once, fetch_cipher);
    return cipher;
}

int envelope_encrypt_with_iv(const unsigned char key[ENVELOPE_KEY_BYTES],
                             const unsigned char iv[ENVELOPE_IV_BYTES], struct span plaintext,
                             struct span aad, struct arena *arena, char **out, struct error *e)
{
    int result = ERR_CRYPTO, len = 0, rest = 0;
    unsigned char bytes[ENVELOPE_PLAINTEXT_MAX], tag[ENVELOPE_TAG_BYTES];
    char iv_text[IV_DIGITS + 1], tag_text[TAG_DIGITS + 1], *text;

    if (plaintext.len > ENVELOPE_PLAINTEXT_MAX)
        return error_set(e, ERR_LIMIT, "the plaintext has %zu bytes, at most %d are allowed", plaintext.len,
                         ENVELOPE_PLAINTEXT_MAX);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    if (ctx == NULL || EVP_EncryptInit_ex(ctx, aes_256_gcm(), NULL, key, iv) != 1 ||
        EVP_EncryptUpdate(ctx, NULL, &len, (const unsigned char *)aad.ptr, (int)aad.len) != 1 ||
        EVP_EncryptUpdate(ctx, bytes, &len, (const unsigned char *)plaintext.ptr, (int)plaintext.len) != 1 ||
        EVP_EncryptFinal_ex(ctx, bytes + len, &rest) != 1 ||
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, ENVELOPE_TAG_BYTES, tag) != 1) {
        error_set(e, ERR_CRYPTO, "OpenSSL cannot encrypt with AES-256-GCM");
        goto out;
    }
    text = arena_alloc(arena, base64url_size(plaintext.len));
    base64url_encode(span_of((const char *)bytes, plaintext.len), text);
    base64url_encode(span_of((const char *)iv, ENVELOPE_IV_BYTES), iv_text);
    base64url_encode(span_of((const char *)tag, sizeof(tag)), tag_text);
    *out = arena_printf(arena, "v1.%s.%s.%s", iv_text, text, tag_text);
    result = 0;
out:
    EVP_CIPHER_CTX_free(ctx);
    return result;
}

int envelope_encrypt(const struct envelope_keys *keys, struct span plaintext, struct span aad,
                     struct arena *arena, char **out, struct error *e)
{
    unsigned char iv[ENVELOPE_IV_BYTES];
    ids_random(iv, sizeof(iv));
    return envelope_encrypt_with_iv(keys->current, iv, plaintext, aad, arena, out, e);
}

struct sealed {
    unsigned char iv[ENVELOPE_IV_BYTES], tag[ENVELOPE_TAG_BYTES];
    unsigned char bytes[ENVELOPE_PLAINTEXT_MAX];
    int len;
};

/* Takes the text form apart; false: it does not have it. */
static bool unpack(struct span text, struct sealed *out)
{
    struct span parts[PARTS] = { { text.ptr, 0 } };
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '.')
            parts[n].len++;
        else if (++n == PARTS)
            return false;
        else
            parts[n] = span_of(text.ptr + i + 1, 0);
    }
    if (n != PARTS - 1 || !span_is(parts[0], "v1") || parts[1].len != IV_DIGITS ||
        parts[3].len != TAG_DIGITS || parts[2].len > CIPHERTEXT_DIGITS_MAX)
        return false;
    long len = base64url_decode(parts[2], out->bytes);
    out->len = (int)len;
    return len >= 0 && base64url_decode(parts[1], out->iv) == ENVELOPE_IV_BYTES &&
           base64url_decode(parts[3], out->tag) == ENVELOPE_TAG_BYTES;
}

bool envelope_is_well_formed(struct span text)
{
    struct sealed sealed;
    return unpack(text, &sealed);
}

static bool open_with(const unsigned char key[ENVELOPE_KEY_BYTES], struct sealed *sealed, struct span aad,
                      struct secret *out)
{
    int len = 0, rest = 0;
    unsigned char *bytes = (unsigned char *)out->bytes;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    bool opened = ctx != NULL && EVP_DecryptInit_ex(ctx, aes_256_gcm(), NULL, key, sealed->iv) == 1 &&
                  EVP_DecryptUpdate(ctx, NULL, &len, (const unsigned char *)aad.ptr, (int)aad.len) == 1 &&
                  EVP_DecryptUpdate(ctx, bytes, &len, sealed->bytes, sealed->len) == 1 &&
                  EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, ENVELOPE_TAG_BYTES, sealed->tag) == 1 &&
                  EVP_DecryptFinal_ex(ctx, bytes + len, &rest) == 1;
    EVP_CIPHER_CTX_free(ctx);
    out->len = (size_t)sealed->len;
    out->bytes[out->len] = '\0';
    /* What GCM gave out before the tag was checked must not stay. */
    if (!opened)
        wipe_whole(out);
    return opened;
}

int envelope_decrypt(const struct envelope_keys *keys, struct span text, struct span aad, struct secret *out,
                     struct error *e)
{
    struct sealed sealed;
    if (!unpack(text, &sealed)) {
        wipe_whole(out);
        return error_set(e, ERR_FORMAT, "the ciphertext is not of the form v1.<iv>.<ciphertext>.<tag>");
    }
    if (open_with(keys->current, &sealed, aad, out) ||
        (keys->has_previous && open_with(keys->previous, &sealed, aad, out)))
        return 0;
    return error_set(e, ERR_CRYPTO,
                     "the ciphertext does not decrypt: made under another master key, or for "
                     "another place than \"%.*s\"",
                     (int)(aad.len > 200 ? 200 : aad.len), aad.ptr);
}
