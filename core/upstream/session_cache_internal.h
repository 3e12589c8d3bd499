/* Private to session_cache.c, and for its test, which dies in the middle of a change. */
#ifndef CORE_UPSTREAM_SESSION_CACHE_INTERNAL_H
#define CORE_UPSTREAM_SESSION_CACHE_INTERNAL_H

#include "core/base/shared_mutex.h"
#include "core/upstream/session_cache.h"

struct session_entry {
    size_t len; /* of its bytes; 0: free */
    uint64_t until_us;
    struct session_peer peer;
};

struct session_cache {
    struct shared_mutex mutex;
    struct session_entry entries[SESSIONS_MAX];
    uint8_t bytes[SESSIONS_MAX][SESSION_BYTES_MAX];
};

#endif
