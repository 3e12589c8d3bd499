/* LLM_ROUTER_CONFIG as administrators send it, turned into what is stored. */
#ifndef CORE_CONFIG_ADMIT_H
#define CORE_CONFIG_ADMIT_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/config/entry.h"
#include "core/crypto/envelope.h"

/*
 * A key of the body is one of
 *   {"id", "key": PLAINTEXT}            encrypted now
 *   {"id", "ciphertextFingerprint"}     the current document's ciphertext of the same model and id
 *   {"id", "ciphertext"}                accepted if it decrypts in this place
 *   {"id", "credential": NAME}          as it is
 * and a member of `credentials` one of the first three, without id. A
 * "keyFingerprint" beside a ciphertextFingerprint is dropped.
 *
 * The result has every key as a ciphertext or a credential's name, passes
 * entry_check, and is otherwise the body as it was written; *out is of the
 * arena. ERR_FORMAT: every fault is in *faults, those of keys first; no message
 * holds a plaintext. `current` may be the empty span (no document yet). `keys`
 * may be NULL: then only what needs no master key is accepted.
 *
 * The body holds plaintexts and is the caller's to wipe; nothing else that this
 * leaves behind holds one.
 */
int config_admit(struct span body, struct span current, const struct envelope_keys *keys, struct arena *arena,
                 struct span *out, struct entry_faults *faults);

/* NULL, or a phrase that says why this cannot be a provider's key. */
const char *config_key_problem(struct span plaintext);

#endif
