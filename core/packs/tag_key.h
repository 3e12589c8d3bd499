/*
 * The key of voice packs' tags: random, made once for all instances, and kept in an entry of
 * its own, {"ciphertext"}, under the master key. A rotation encrypts it anew and never changes
 * it, since every snapshot that clients keep depends on it.
 */
#ifndef CORE_PACKS_TAG_KEY_H
#define CORE_PACKS_TAG_KEY_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/crypto/envelope.h"

enum { TAG_KEY_BYTES = 32 };

/* What its ciphertext is bound to: no place of a provider's key has such a name. */
struct span tag_key_aad(void);

/* A new one, as the entry's value; arena memory. ERR_CRYPTO. */
int tag_key_make(const struct envelope_keys *keys, struct arena *arena, struct span *entry, struct error *e);

/* Opens it; to be wiped as soon as it has been used. On failure *out is wiped.
 * ERR_FORMAT, ERR_CRYPTO: no key, or one that is not ours to open. */
int tag_key_open(const struct envelope_keys *keys, struct span ciphertext, struct secret *out,
                 struct error *e);

#endif
