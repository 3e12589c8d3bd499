/* Whether what is kept encrypted can be used with the master keys at hand. */
#ifndef ADMIN_CTL_KEYCHECK_H
#define ADMIN_CTL_KEYCHECK_H

#include <stddef.h>

#include "admin/ctl/session.h"

struct key_tally {
    size_t keys;     /* places with a ciphertext */
    size_t broken;   /* of them, those that cannot be used */
    size_t previous; /* those that open with the previous master key only */
};

/* Decrypts the key at every place of the tree in force, and that of voice packs' tags, if there is
 * one; says on stderr which fail and why: a line "model|id (PLACE): reason" each. A place that refers to a
 * credential counts there. CTL_OK with the tree's version, or CTL_REFUSED after a message. */
int keycheck_run(const struct invocation *call, struct session *session, char version[STORE_VERSION_BYTES],
                 struct key_tally *out);

#endif
