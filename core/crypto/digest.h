/* SHA-256, fingerprints, HMAC, base64. Pure; after OpenSSL's own start-up. */
#ifndef CORE_CRYPTO_DIGEST_H
#define CORE_CRYPTO_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"

enum { SHA256_BYTES = 32, SHA256_HEX_BYTES = 65 };

void sha256(struct span in, uint8_t out[SHA256_BYTES]);
void sha256_hex(struct span in, char out[SHA256_HEX_BYTES]);

/* The first `digits` lower-case hex characters of SHA-256 and a NUL; out has digits + 1 bytes. */
void fingerprint(struct span in, size_t digits, char *out);

void hmac_sha256(struct span key, struct span in, uint8_t out[SHA256_BYTES]);

/* Whether the two are equal, in time that depends on their lengths only. */
bool equal_in_constant_time(struct span a, struct span b);

/* base64url without padding and a NUL; out has base64url_size(in.len) bytes. */
size_t base64url_size(size_t bytes);
void base64url_encode(struct span in, char *out);

/* Strict: no padding, no foreign characters, no stray bits. `out` has room for
 * in.len * 3 / 4 bytes. The number of bytes, or ERR_FORMAT. */
long base64url_decode(struct span in, unsigned char *out);

/* Standard alphabet with padding, as operators write it. */
long base64_decode(struct span in, unsigned char *out);
size_t base64_size(size_t bytes);
void base64_encode(struct span in, char *out);

#endif
