#include "core/upstream/trust.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/upstream/resumption.h"

const char *trust_file(const char *configured)
{
    const char *system = getenv("SSL_CERT_FILE");

    if (configured != NULL && configured[0] != '\0')
        return configured;
    if (system != NULL && system[0] != '\0')
        return system;
    return "/etc/ssl/certs/ca-certificates.crt";
}

/* Whether reading stopped because there is no further certificate. */
static bool is_at_end(void)
{
    unsigned long last = ERR_peek_last_error();
    return ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
}

static int read_all(FILE *file, const char *path, X509_STORE *store, struct error *e)
{
    X509 *certificate;
    size_t n = 0;

    while ((certificate = PEM_read_X509_AUX(file, NULL, NULL, NULL)) != NULL) {
        /* What a certificate may be used for is worked out at its first use, in its
         * own memory: now, so that the workers do not write to shared pages. */
        X509_check_purpose(certificate, -1, 0);
        int added = X509_STORE_add_cert(store, certificate);
        X509_free(certificate);
        if (added != 1)
            return error_set(e, ERR_FORMAT, "%s: certificate %zu cannot be used", path, n + 1);
        n++;
    }
    if (ferror(file) != 0)
        return error_set(e, ERR_SYSTEM, "%s cannot be read", path);
    if (!is_at_end())
        return error_set(e, ERR_FORMAT, "%s: certificate %zu is broken", path, n + 1);
    return n > 0 ? 0 : error_set(e, ERR_FORMAT, "%s holds no certificate in PEM", path);
}

int trust_load(const char *path, X509_STORE **out, struct error *e)
{
    X509_STORE *store = NULL;
    int r;

    FILE *file = fopen(path, "re");
    if (file == NULL)
        return error_set(e, ERR_SYSTEM, "%s: %s", path, strerror(errno));
    store = X509_STORE_new();
    if (store == NULL) {
        r = error_set(e, ERR_CRYPTO, "OpenSSL has no store to give");
        goto out;
    }
    /* As libcurl would have it: an intermediate authority in the file is an anchor too. */
    X509_STORE_set_flags(store, X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN);
    ERR_clear_error();
    if ((r = read_all(file, path, store, e)) == 0) {
        *out = store;
        store = NULL;
    }
out:
    ERR_clear_error();
    X509_STORE_free(store);
    fclose(file);
    return r;
}

X509_STORE *trust_store(struct trust *trust)
{
    struct error e;

    if (!trust->is_settled && trust_load(trust->path, &trust->store, &e) != 0)
        trust->report(&e);
    trust->is_settled = true;
    return trust->store;
}

void trust_apply(struct trust *trust, SSL_CTX *ctx, struct span url)
{
    X509_STORE *store = trust_store(trust);

    if (store == NULL)
        return;
    SSL_CTX_set1_cert_store(ctx, store);
    if (trust->sessions != NULL)
        resumption_prepare(ctx, trust->sessions, url);
}

void trust_free(struct trust *trust)
{
    session_cache_close(trust->sessions);
    X509_STORE_free(trust->store);
    trust->sessions = NULL;
    trust->store = NULL;
    trust->is_settled = false;
}
