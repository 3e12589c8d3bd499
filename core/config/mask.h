/* LLM_ROUTER_CONFIG as administrators may see it. */
#ifndef CORE_CONFIG_MASK_H
#define CORE_CONFIG_MASK_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/crypto/envelope.h"

/*
 * The document with {"ciphertextFingerprint", "keyFingerprint"} instead of each
 * ciphertext; the rest is as it was written. The former is the first 8 hex of
 * the ciphertext text's SHA-256, the latter of the key's own, and is missing
 * where `keys` is NULL or does not open it. *out is of the arena. What this
 * returns, config_admit accepts as unchanged. ERR_FORMAT: not JSON.
 */
int config_mask(struct span raw, const struct envelope_keys *keys, struct arena *arena, struct span *out,
                struct error *e);

/* The same of VOICE_PACK_TAG_KEY, which nobody need know: {"ciphertextFingerprint"}; the empty span if it is
 * not valid. */
struct span config_mask_tag_key(struct span raw, struct arena *arena);

#endif
