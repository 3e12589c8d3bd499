#include "core/upstream/resumption.h"

#include <openssl/asn1.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/arena.h"
#include "core/base/clock.h"

/* Of one connection: it lives as long as its SSL_CTX, to which tickets come after the
 * exchange that opened it. */
struct resumption {
    struct session_cache *cache;
    struct session_peer peer;
};

static void free_resumption(void *parent, void *resumption, CRYPTO_EX_DATA *data, int index, long argl,
                            void *argp)
{
    (void)parent;
    (void)data;
    (void)index;
    (void)argl;
    (void)argp;
    free(resumption);
}

static int own_index(void)
{
    static int index = -1;
    if (index < 0)
        index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_resumption);
    return index;
}

static const struct resumption *of_connection(const SSL *ssl)
{
    return SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), own_index());
}

/* "https://HOST:PORT" of the URL as it is written. libcurl finds host and port in these bytes
 * and in no others, however it reads them: who shares them shares the peer. */
static struct span origin_of(struct span url)
{
    size_t i = 0;
    for (int slashes = 0; i < url.len; i++) {
        slashes += url.ptr[i] == '/';
        if (slashes == 3 || url.ptr[i] == '?' || url.ptr[i] == '#')
            break;
    }
    return span_of(url.ptr, i);
}

/* For how long it may be offered: as the server said, as OpenSSL would itself, and not
 * when a full handshake would find its certificate expired. */
static long seconds_left(const SSL_SESSION *session)
{
    const X509 *certificate = SSL_SESSION_get0_peer((SSL_SESSION *)(uintptr_t)session);
    long hint = (long)SSL_SESSION_get_ticket_lifetime_hint(session);
    long lifetime = SSL_SESSION_get_timeout(session), age = (long)time(NULL) - SSL_SESSION_get_time(session);
    int days, seconds;

    /* RFC 8446, 4.6.1: 0 is no lifetime at all. RFC 5077, 3.3: it is none that was said. */
    if (hint > 0 || SSL_SESSION_get_protocol_version(session) == TLS1_3_VERSION)
        lifetime = hint < lifetime ? hint : lifetime;
    if (certificate == NULL || age < 0 ||
        ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)) != 1)
        return 0;
    long valid = days * 86400L + seconds;
    return lifetime - age < valid ? lifetime - age : valid;
}

static void keep(const SSL *ssl, const SSL_SESSION *session)
{
    const struct resumption *resumption = of_connection(ssl);
    unsigned char bytes[SESSION_BYTES_MAX], *end = bytes;
    int len = i2d_SSL_SESSION(session, NULL);
    long left_s = seconds_left(session);

    if (len <= 0 || len > SESSION_BYTES_MAX || left_s <= 0 || !SSL_SESSION_is_resumable(session))
        return;
    i2d_SSL_SESSION(session, &end);
    session_cache_put(resumption->cache, &resumption->peer, span_of((const char *)bytes, (size_t)len),
                      clock_monotonic_us() + (uint64_t)left_s * US_PER_S);
    explicit_bzero(bytes, (size_t)len);
}

static void offer(SSL *ssl)
{
    const struct resumption *resumption = of_connection(ssl);
    unsigned char bytes[SESSION_BYTES_MAX];
    const unsigned char *at = bytes;
    size_t len = session_cache_take(resumption->cache, &resumption->peer, bytes);

    if (len == 0)
        return;
    SSL_SESSION *session = d2i_SSL_SESSION(NULL, &at, (long)len);
    if (session != NULL)
        SSL_set_session(ssl, session);
    SSL_SESSION_free(session);
    explicit_bzero(bytes, len);
}

/* A session that the server gives: within a handshake before TLS 1.3, after it since. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    keep(ssl, session);
    return 0; /* it stays OpenSSL's */
}

/* Before the first message is written, where a session can still be set, and libcurl has done
 * with the handle. One of TLS 1.3 is good for once (RFC 8446, C.4), and the server gives another.
 * An older one serves again, but comes back only when it has served: what a
 * server chokes on is offered to it once. */
static void on_handshake(const SSL *ssl, int where, int value)
{
    (void)value;
    if ((where & SSL_CB_HANDSHAKE_START) != 0 &&
        SSL_get_session(ssl) == NULL) /* else it is a renegotiation */
        offer((SSL *)(uintptr_t)ssl);
    if ((where & SSL_CB_HANDSHAKE_DONE) != 0 && SSL_version(ssl) < TLS1_3_VERSION && SSL_session_reused(ssl))
        keep(ssl, SSL_get_session(ssl));
}

void resumption_prepare(SSL_CTX *ctx, struct session_cache *cache, struct span url)
{
    struct span origin = origin_of(url);
    struct resumption *resumption = xcalloc(1, sizeof(*resumption));

    resumption->cache = cache;
    if (EVP_Digest(origin.ptr, origin.len, resumption->peer.digest, NULL, EVP_sha256(), NULL) != 1 ||
        SSL_CTX_set_ex_data(ctx, own_index(), resumption) != 1) {
        free(resumption);
        return;
    }
    SSL_CTX_clear_options(ctx, SSL_OP_NO_TICKET); /* libcurl's: before TLS 1.3 many know no other way */
    SSL_CTX_sess_set_new_cb(ctx, on_new_session);
    SSL_CTX_set_info_callback(ctx, on_handshake);
}
