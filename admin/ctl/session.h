/* The store that a command works on, with the master keys that go with it. */
#ifndef ADMIN_CTL_SESSION_H
#define ADMIN_CTL_SESSION_H

#include "admin/ctl/ctl.h"
#include "core/crypto/envelope.h"
#include "core/store/store.h"

struct session {
    struct store *store;
    struct envelope_keys keys;
    bool has_keys;
};

/* Whether a command can do without a master key. */
enum session_keys { SESSION_KEYS_IF_SET, SESSION_KEYS_NEEDED };

/* Opens the store that flags and environment name, and takes the master keys out of the
 * environment: CTL_OK, or CTL_REFUSED after a message. *out must stay where it is until
 * session_close, which is to be called in both cases. */
int session_open(const struct invocation *call, enum session_keys need, struct session *out);

/* A session of zeros is allowed. */
void session_close(struct session *session);

/* NULL where there are none. */
static inline const struct envelope_keys *session_keys(const struct session *session)
{
    return session->has_keys ? &session->keys : NULL;
}

/* An entry's value in force: CTL_OK, or CTL_REFUSED after a message. */
int session_get(const struct invocation *call, struct session *session, enum entry_id id,
                struct store_value *out);

#endif
