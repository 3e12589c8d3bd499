/*
 * Envelope encryption of provider keys.
 *
 *   v1.<iv>.<ciphertext>.<tag>, each base64url without padding
 *
 * AES-256-GCM, 12-byte random IV, 16-byte tag, under
 * HKDF-SHA256(master key, salt "llm-router-v1", info "provider-key-encryption").
 * The additional data binds a ciphertext to its place: "modelName|keyId", or
 * "credential|NAME".
 */
#ifndef CORE_CRYPTO_ENVELOPE_H
#define CORE_CRYPTO_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"

enum {
    ENVELOPE_MASTER_BYTES = 32,
    ENVELOPE_PLAINTEXT_MAX = 8192, /* some providers' tokens have several kB */
};

/* What is derived from the master keys, by HKDF with an info of its own for each use. */
struct envelope_keys {
    unsigned char current[32];
    unsigned char previous[32];
    /* HMAC keys of the news that a value changed (core/store/invalidation.h); info
     * "configkv-invalidate-hmac". */
    unsigned char news_current[32];
    unsigned char news_previous[32];
    bool has_previous;
};

/*
 * Reads LLM_ROUTER_MASTER_KEY or LLM_ROUTER_MASTER_KEY_FILE, and the same with
 * _PREVIOUS, from the environment, and derives the keys. The variables are
 * overwritten in place and removed. Before fork.
 * ERR_NOT_FOUND: neither is set. ERR_FORMAT: not base64 of 32 bytes, both forms
 * are set, or previous equals current; ERR_SYSTEM: the file cannot be read.
 */
int envelope_keys_from_environment(struct envelope_keys *out, struct error *e);

/* From a master key in base64; `previous` may be the empty span. ERR_FORMAT. */
int envelope_keys_derive(struct envelope_keys *out, struct span current, struct span previous,
                         struct error *e);

void envelope_keys_wipe(struct envelope_keys *keys);

/* The text form, in the arena. ERR_LIMIT: plaintext too long. */
int envelope_encrypt(const struct envelope_keys *keys, struct span plaintext, struct span aad,
                     struct arena *arena, char **out, struct error *e);

/* Whether a text has the form above: parts, version, alphabet and lengths. It
 * may still not decrypt. */
bool envelope_is_well_formed(struct span text);

/* A plaintext key. Lives in memory of its own, outside any arena. */
struct secret {
    size_t len;
    char bytes[ENVELOPE_PLAINTEXT_MAX + 1]; /* with a NUL behind it */
};

/* Tries the current key, then the previous one. On failure *out is wiped.
 * ERR_FORMAT: not of the text form (parts, version, alphabet, lengths);
 * ERR_CRYPTO: no key opens it, or the additional data differs. */
int envelope_decrypt(const struct envelope_keys *keys, struct span text, struct span aad, struct secret *out,
                     struct error *e);

/* Overwrites the plaintext that envelope_decrypt put there, if it did; the compiler cannot leave it out. */
void secret_wipe(struct secret *secret);

#endif
