#include "core/upstream/trust.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdbool.h>

enum {
    BIO_BYTES = 32 * 1024, /* more than either side writes before it waits for the other */
    ROUNDS_MAX = 8,        /* a handshake takes three */
};

/* A certificate for itself, valid for a minute. */
static X509 *make_certificate(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    X509_NAME *name = certificate == NULL ? NULL : X509_get_subject_name(certificate);

    if (name == NULL || X509_set_version(certificate, X509_VERSION_3) != 1 ||
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"warm", -1, -1, 0) != 1 ||
        X509_set_issuer_name(certificate, name) != 1 ||
        X509_gmtime_adj(X509_getm_notBefore(certificate), 0) == NULL ||
        X509_gmtime_adj(X509_getm_notAfter(certificate), 60) == NULL ||
        X509_set_pubkey(certificate, key) != 1 || X509_sign(certificate, key, EVP_sha256()) <= 0) {
        X509_free(certificate);
        return NULL;
    }
    return certificate;
}

/* One side of the handshake, which owns its end of the connection. */
static SSL *make_side(SSL_CTX *ctx, BIO *end)
{
    SSL *side = SSL_new(ctx);
    if (side != NULL)
        SSL_set_bio(side, end, end);
    else
        BIO_free(end);
    return side;
}

/* Shakes hands, and passes a byte each way: keys are first used for that. */
static bool talk(SSL *client, SSL *server)
{
    char byte = 'x';

    SSL_set_connect_state(client);
    SSL_set_accept_state(server);
    for (int i = 0; i < ROUNDS_MAX && !(SSL_is_init_finished(client) && SSL_is_init_finished(server)); i++) {
        SSL_do_handshake(client);
        SSL_do_handshake(server);
    }
    return SSL_write(client, &byte, 1) == 1 && SSL_read(server, &byte, 1) == 1 &&
           SSL_write(server, &byte, 1) == 1 && SSL_read(client, &byte, 1) == 1;
}

int trust_warm(X509_STORE *store, struct error *e)
{
    SSL_CTX *of_client = SSL_CTX_new(TLS_client_method()), *of_server = SSL_CTX_new(TLS_server_method());
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = key == NULL ? NULL : make_certificate(key);
    BIO *client_end = NULL, *server_end = NULL;
    SSL *client = NULL, *server = NULL;
    bool done = false;

    if (of_client == NULL || of_server == NULL || certificate == NULL ||
        SSL_CTX_use_certificate(of_server, certificate) != 1 || SSL_CTX_use_PrivateKey(of_server, key) != 1 ||
        BIO_new_bio_pair(&client_end, BIO_BYTES, &server_end, BIO_BYTES) != 1)
        goto out;
    /* The certificate is looked up in the store, and that it is not there is of no
     * interest: a client that verifies nothing looks all the same. */
    SSL_CTX_set_verify(of_client, SSL_VERIFY_NONE, NULL);
    if (store != NULL)
        SSL_CTX_set1_cert_store(of_client, store);
    client = make_side(of_client, client_end);
    server = make_side(of_server, server_end);
    done = client != NULL && server != NULL && talk(client, server);
out:
    SSL_free(client);
    SSL_free(server);
    X509_free(certificate);
    EVP_PKEY_free(key);
    SSL_CTX_free(of_client);
    SSL_CTX_free(of_server);
    ERR_clear_error();
    return done ? 0 : error_set(e, ERR_CRYPTO, "OpenSSL cannot shake hands with itself");
}
