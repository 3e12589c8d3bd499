/* Whether the keys of a routing tree can be used with the master keys at hand. */
#ifndef ADMIN_CTL_KEYCHECK_H
#define ADMIN_CTL_KEYCHECK_H

#include <stddef.h>

#include "admin/ctl/ctl.h"
#include "core/crypto/envelope.h"

struct key_tally {
    size_t keys;     /* places with a ciphertext */
    size_t broken;   /* of them, those that cannot be used */
    size_t previous; /* those that open with the previous master key only */
};

/* Decrypts the key at every place of `raw`, and says on stderr which fail and why: a line
 * "model|id (PLACE): reason" each. A place that refers to a credential counts there.
 * ERR_FORMAT: not a document that has places. */
int keycheck_run(struct span raw, const struct envelope_keys *keys, struct arena *arena,
                 struct key_tally *out);

#endif
