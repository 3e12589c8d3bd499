#include "core/crypto/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "core/base/err.h"
#include "core/base/ids.h"

static const unsigned char *bytes_of(struct span in)
{
    return (const unsigned char *)(in.len == 0 ? "" : in.ptr);
}

void sha256(struct span in, uint8_t out[SHA256_BYTES])
{
    if (SHA256(bytes_of(in), in.len, out) == NULL)
        abort(); /* only if OpenSSL has lost its default provider */
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
    if (HMAC(EVP_sha256(), bytes_of(key), (int)key.len, bytes_of(in), in.len, out, &len) == NULL)
        abort();
}

bool equal_in_constant_time(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || CRYPTO_memcmp(a.ptr, b.ptr, a.len) == 0);
}
