/*
 * Who is believed to be an upstream: the authorities that the certificate of an
 * https server must descend from.
 *
 * Debian's take 30 ms and a megabyte to load. Workers share what was loaded before
 * the fork, and only read it; a process that serves one request loads it when
 * that request meets an https upstream.
 */
#ifndef CORE_UPSTREAM_TRUST_H
#define CORE_UPSTREAM_TRUST_H

#include <openssl/types.h>
#include <stdbool.h>

#include "core/base/err.h"
#include "core/base/span.h"
#include "core/upstream/session_cache.h"

/* The file to load: `configured`, else $SSL_CERT_FILE, else Debian's bundle. An
 * empty text counts as none. Valid as long as both are. */
const char *trust_file(const char *configured);

/* Loads all certificates of a PEM file; what else it holds is skipped. *out is the
 * caller's, freed with X509_STORE_free.
 * ERR_SYSTEM: it cannot be read. ERR_FORMAT: it holds no certificate, or a broken one.
 * ERR_CRYPTO: OpenSSL gives no store. */
int trust_load(const char *path, X509_STORE **out, struct error *e);

struct trust {
    const char *path;                      /* see trust_file */
    void (*report)(const struct error *e); /* hears once why the file cannot be used */
    X509_STORE *store;                     /* NULL: not loaded */
    bool is_settled;                       /* it was loaded, or cannot be */
    /* With whom this store believes in; they go with it, as who is resumed is not
     * verified again. NULL: each handshake is a full one. */
    struct session_cache *sessions;
};

/* The store; the first call loads it. NULL: the file cannot be used, and nobody is
 * trusted. */
X509_STORE *trust_store(struct trust *trust);

/* Has the connection that `ctx` is for, to the https server of `url`, trust whom the store
 * does, and resume a session. The trust outlives ctx. */
void trust_apply(struct trust *trust, SSL_CTX *ctx, struct span url);

void trust_free(struct trust *trust);

/* One TLS handshake of the process with itself, in memory, under a certificate
 * that is made for it and thrown away. OpenSSL builds many tables at its first
 * handshake: built before fork, they are shared. `store` may be NULL. ERR_CRYPTO. */
int trust_warm(X509_STORE *store, struct error *e);

#endif
