#include "core/crypto/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/err.h"
#include "core/base/ids.h"

static const unsigned char *bytes_of(struct span in)
{
    return (const unsigned char *)(in.len == 0 ? "" : in.ptr);
}

static pthread_once_t md_once = PTHREAD_ONCE_INIT;
static EVP_MD *md;

static void fetch_md(void)
{
    md = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (md == NULL)
        abort(); /* only if OpenSSL has lost its default provider */
}

/* SHA256() and EVP_sha256() would be looked up by their name at each use. */
static const EVP_MD *sha256_md(void)
{
    (void)pthread_once(&md_once, fetch_md);
    return md;
}

void sha256(struct span in, uint8_t out[SHA256_BYTES])
{
    if (EVP_Digest(bytes_of(in), in.len, out, NULL, sha256_md(), NULL) != 1)
        abort();
}

void sha256_hex(struct span in, char out[SHA256_HEX_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    sha256(in, digest);
    ids_hex(digest, sizeof(digest), out);
}

void fingerprint(struct span in, size_t digits, char *out)
{
    char hex[SHA256_HEX_BYTES];
    sha256_hex(in, hex);
    if (digits > SHA256_HEX_BYTES - 1)
        digits = SHA256_HEX_BYTES - 1;
    memcpy(out, hex, digits);
    out[digits] = '\0';
}

void hmac_sha256(struct span key, struct span in, uint8_t out[SHA256_BYTES])
{
    unsigned len = 0;
    if (HMAC(sha256_md(), bytes_of(key), (int)key.len, bytes_of(in), in.len, out, &len) == NULL)
        abort();
}

bool equal_in_constant_time(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || CRYPTO_memcmp(a.ptr, b.ptr, a.len) == 0);
}
