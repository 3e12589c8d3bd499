/* For envelope.c and its test of known answers: encryption with a chosen IV.
 * Nothing else may choose one: an IV used twice gives the key stream away. */
#ifndef CORE_CRYPTO_ENVELOPE_INTERNAL_H
#define CORE_CRYPTO_ENVELOPE_INTERNAL_H

#include "core/crypto/envelope.h"

enum { ENVELOPE_KEY_BYTES = 32, ENVELOPE_IV_BYTES = 12, ENVELOPE_TAG_BYTES = 16 };

int envelope_encrypt_with_iv(const unsigned char key[ENVELOPE_KEY_BYTES],
                             const unsigned char iv[ENVELOPE_IV_BYTES], struct span plaintext,
                             struct span aad, struct arena *arena, char **out, struct error *e);

#endif
