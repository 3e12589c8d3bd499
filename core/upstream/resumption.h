/*
 * Resumes TLS sessions with an upstream that any process has shaken hands with:
 * OpenSSL's side of the session cache. libcurl's own cache is its handle's alone.
 */
#ifndef CORE_UPSTREAM_RESUMPTION_H
#define CORE_UPSTREAM_RESUMPTION_H

#include <openssl/types.h>

#include "core/base/span.h"
#include "core/upstream/session_cache.h"

/* Has connections of `ctx` begin with a session of `cache`, and keep there what they
 * are given. Both outlive it: ctx is libcurl's, for one connection to the https server of `url`
 * which it verifies. A session is offered to the host and port of the URL that it
 * came from, and to no other, and only once; one that is refused costs what a full
 * handshake does. Whatever else verification depends on is the same for all who share
 * a cache. If OpenSSL fails, handshakes are full ones. */
void resumption_prepare(SSL_CTX *ctx, struct session_cache *cache, struct span url);

#endif
