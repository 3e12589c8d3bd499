/*
 * An HTTP server in a process of its own, with or without TLS, and the authority
 * that vouches for it: for tests in whose own memory no request may be, and for
 * tests of who is trusted. It answers each request with "hello" and keeps the
 * connection.
 */
#ifndef TESTS_UNIT_SERVER_PROCESS_H
#define TESTS_UNIT_SERVER_PROCESS_H

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
};

/* Adds an extension as openssl.cnf(5) writes it. */
static inline void add_extension(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, NULL, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ck_assert_ptr_nonnull(extension);
    ck_assert_int_eq(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* A certificate for `key`; `names` as in subjectAltName, NULL: an authority's.
 * Without an issuer it is signed by itself. Valid until ends_in_s from now. */
static inline X509 *make_certificate(const char *subject, EVP_PKEY *key, const char *names, long ends_in_s,
                                     const struct authority *issuer)
{
    X509 *certificate = X509_new();
    X509_NAME *name = X509_get_subject_name(certificate);
    static int serial;

    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)subject, -1, -1, 0);
    X509_set_issuer_name(certificate, issuer == NULL ? name : X509_get_subject_name(issuer->certificate));
    X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
    X509_gmtime_adj(X509_getm_notAfter(certificate), ends_in_s);
    X509_set_pubkey(certificate, key);
    if (names != NULL)
        add_extension(certificate, NID_subject_alt_name, names);
    else
        add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    ck_assert_int_gt(X509_sign(certificate, issuer == NULL ? key : issuer->key, EVP_sha256()), 0);
    return certificate;
}

static inline void authority_make(struct authority *authority, const char *subject)
{
    authority->key = EVP_EC_gen("P-256");
    authority->certificate = make_certificate(subject, authority->key, NULL, 3600, NULL);
}

static inline void authority_free(struct authority *authority)
{
    EVP_PKEY_free(authority->key);
    X509_free(authority->certificate);
}

/* Appends its certificate to a PEM file. */
static inline void authority_append(const struct authority *authority, const char *path)
{
    FILE *file = fopen(path, "a");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(PEM_write_X509(file, authority->certificate), 1);
    fclose(file);
}

/* A server's TLS under a fresh certificate of this authority. */
static inline SSL_CTX *server_tls(const struct authority *authority, const char *names, long ends_in_s)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate("server", key, names, ends_in_s, authority);
    ck_assert_int_eq(SSL_CTX_use_certificate(ctx, certificate), 1);
    ck_assert_int_eq(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return ctx;
}

struct server_counts {
    unsigned requests, handshakes;
    unsigned resumed; /* of these */
};

struct server_process {
    pid_t pid;
    int port;
    struct server_counts *counts; /* shared with it */
};

/* A ticket that has not come with the handshake comes with the reply. */
static inline void give_ticket(SSL *ssl)
{
    if (SSL_version(ssl) >= TLS1_3_VERSION && SSL_get_num_tickets(ssl) == 0)
        SSL_new_session_ticket(ssl);
}

static inline void serve_connection(SSL *ssl, int fd, struct server_counts *counts)
{
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    static char bytes[1 << 20];
    size_t len = 0;
    long n;

    while ((n = ssl != NULL ? SSL_read(ssl, bytes + len, (int)(sizeof(bytes) - 1 - len))
                            : recv(fd, bytes + len, sizeof(bytes) - 1 - len, 0)) > 0) {
        len += (size_t)n;
        bytes[len] = '\0';
        const char *end = strstr(bytes, "\r\n\r\n");
        const char *body = strcasestr(bytes, "\r\ncontent-length:");
        if (end == NULL || body == NULL ||
            len < (size_t)(end + 4 - bytes) + strtoul(body + strlen("\r\ncontent-length:"), NULL, 10))
            continue;
        counts->requests++;
        len = 0;
        if (ssl != NULL) {
            give_ticket(ssl);
            SSL_write(ssl, reply, (int)sizeof(reply) - 1);
        } else {
            (void)!send(fd, reply, sizeof(reply) - 1, MSG_NOSIGNAL);
        }
    }
}

static inline bool shake_hands(SSL *ssl, struct server_counts *counts)
{
    if (SSL_accept(ssl) != 1)
        return false;
    counts->handshakes++;
    counts->resumed += SSL_session_reused(ssl) == 1;
    return true;
}

static inline _Noreturn void server_process_main(int listener, SSL_CTX *ctx, struct server_counts *counts)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        SSL *ssl = ctx == NULL ? NULL : SSL_new(ctx);
        if (ssl != NULL)
            SSL_set_fd(ssl, fd);
        if (ssl == NULL || shake_hands(ssl, counts))
            serve_connection(ssl, fd, counts);
        if (ssl != NULL)
            SSL_shutdown(ssl); /* else the session is not one to resume */
        SSL_free(ssl);
        close(fd);
    }
}

/* Takes over `ctx`; NULL: without TLS. */
static inline void server_process_start(struct server_process *server, SSL_CTX *ctx)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    server->port = ntohs(address.sin_port);
    server->counts =
        mmap(NULL, sizeof(*server->counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(server->counts, MAP_FAILED);
    server->pid = fork();
    ck_assert_int_ge(server->pid, 0);
    if (server->pid == 0)
        server_process_main(listener, ctx, server->counts);
    close(listener);
    SSL_CTX_free(ctx);
}

/* Ends it; returns how many requests it got. */
static inline unsigned server_process_stop(struct server_process *server)
{
    unsigned requests = server->counts->requests;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    munmap(server->counts, sizeof(*server->counts));
    return requests;
}

#endif
