/*
 * TLS sessions that processes share, so that what one has shaken hands for is
 * resumed by another. Fixed memory, inherited over fork; in no file and in no core
 * dump. A session is a secret: its bytes are overwritten when it leaves.
 *
 * Nobody waits here, and nothing is promised: where another process is at work,
 * nothing is found and nothing kept. One that dies at work leaves an empty cache.
 */
#ifndef CORE_UPSTREAM_SESSION_CACHE_H
#define CORE_UPSTREAM_SESSION_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"

enum {
    SESSION_BYTES_MAX = 8000, /* the peer's certificate and a ticket; larger ones are not kept */
    SESSIONS_MAX = 256,
    SESSIONS_PER_PEER = 32, /* so that one that is lavish with tickets displaces nobody else's */
};

struct session_cache;

/* Whom a session is with: a digest of all that tells peers apart. */
struct session_peer {
    uint8_t digest[32];
};

/* Before the fork of those who share it. ERR_SYSTEM. */
int session_cache_open(struct session_cache **out, struct error *e);

/* Takes it out of this process. The last one's leaves nothing behind. NULL is allowed. */
void session_cache_close(struct session_cache *cache);

/* Keeps a copy until `until_us` of clock_monotonic_us(). Of those in its way, the one
 * that lapses first goes. False: it is not kept. */
bool session_cache_put(struct session_cache *cache, const struct session_peer *peer, struct span session,
                       uint64_t until_us);

/* Takes out the peer's session that lapses last: nobody else gets it. Returns its
 * length; 0: there is none. `out` is to be wiped by who asked. */
size_t session_cache_take(struct session_cache *cache, const struct session_peer *peer,
                          uint8_t out[SESSION_BYTES_MAX]);

#endif
