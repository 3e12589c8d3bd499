#include "core/store/redis_link_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    RECEIVES_MAX = 16, /* until redis_link_receive says that there is nothing */
    RECEIVE_BYTES = 4096,
    UNACKNOWLEDGED_MS = 5000, /* bytes that a peer's kernel has not confirmed: the peer is gone */
};

void redis_link_init(struct redis_link *link, const struct redis_address *address)
{
    *link = (struct redis_link){ .state = REDIS_LINK_DOWN, .address = address, .fd = -1 };
}

void redis_link_close(struct redis_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    SSL_free(link->tls); /* and its BIOs */
    link->tls = NULL;
    if (link->found != NULL)
        freeaddrinfo(link->found);
    link->found = link->next = NULL;
    redisReaderFree(link->reader);
    link->reader = NULL;
    explicit_bzero(link->out, link->out_len);
    link->out_len = 0;
    link->state = REDIS_LINK_DOWN;
}

void redis_link_free(struct redis_link *link)
{
    redis_link_close(link);
    lookup_end(link->lookup);
    link->lookup = NULL;
    SSL_CTX_free(link->tls_settings);
    link->tls_settings = NULL;
}

void redis_link_fail(struct redis_link *link, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(link->trouble, sizeof(link->trouble), format, args);
    va_end(args);
    redis_link_close(link);
}

/* --- TLS: between memory and memory, so that the socket is ours alone --- */

static bool make_tls_settings(struct redis_link *link)
{
    if (link->tls_settings != NULL)
        return true;
    SSL_CTX *settings = SSL_CTX_new(TLS_client_method());
    if (settings == NULL || SSL_CTX_set_min_proto_version(settings, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_default_verify_paths(settings) != 1) {
        SSL_CTX_free(settings);
        return false;
    }
    SSL_CTX_set_verify(settings, SSL_VERIFY_PEER, NULL);
    link->tls_settings = settings;
    return true;
}

static bool is_address(const char *host)
{
    ASN1_OCTET_STRING *bytes = a2i_IPADDRESS(host);
    ASN1_OCTET_STRING_free(bytes);
    return bytes != NULL;
}

/* The name that was asked for is the one that the certificate must have. */
static bool set_peer_name(SSL *tls, const char *host)
{
    if (is_address(host))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host) == 1;
    return SSL_set1_host(tls, host) == 1 && SSL_set_tlsext_host_name(tls, host) == 1;
}

static void begin_tls(struct redis_link *link)
{
    if (!make_tls_settings(link) || (link->tls = SSL_new(link->tls_settings)) == NULL) {
        redis_link_fail(link, "OpenSSL cannot begin a TLS connection");
        return;
    }
    link->from_peer = BIO_new(BIO_s_mem());
    link->to_peer = BIO_new(BIO_s_mem());
    if (link->from_peer == NULL || link->to_peer == NULL)
        abort();
    SSL_set_bio(link->tls, link->from_peer, link->to_peer);
    SSL_set_connect_state(link->tls);
    if (!set_peer_name(link->tls, link->address->host))
        redis_link_fail(link, "OpenSSL takes no certificate for the host of Redis");
    else
        link->state = REDIS_LINK_HANDSHAKING;
}

static void fail_tls(struct redis_link *link)
{
    long verdict = SSL_get_verify_result(link->tls);
    ERR_clear_error();
    if (verdict != X509_V_OK)
        redis_link_fail(link, "its certificate is not trusted: %s", X509_verify_cert_error_string(verdict));
    else
        redis_link_fail(link, "it does not speak TLS as we do");
}

/* --- the socket --- */

/* What was sent is overwritten: it may have been a password. */
static void forget_sent(struct redis_link *link, size_t n)
{
    link->out_len -= n;
    memmove(link->out, link->out + n, link->out_len);
    explicit_bzero(link->out + link->out_len, n);
}

/* What TLS has to say, as far as there is room: whether there is something to send. */
static bool fill_out(struct redis_link *link)
{
    size_t room = sizeof(link->out) - link->out_len;
    if (link->tls != NULL && room > 0) {
        int n = BIO_read(link->to_peer, link->out + link->out_len, (int)room);
        link->out_len += n > 0 ? (size_t)n : 0;
    }
    return link->out_len > 0;
}

/* The rest goes later, if the peer takes it at all: it can make TLS answer on and on. */
static void note_unsent(struct redis_link *link, int cause)
{
    if (cause != EAGAIN && cause != EINTR)
        redis_link_fail(link, "the connection broke: %s", strerror(cause));
    else if (cause == EAGAIN && link->tls != NULL && BIO_pending(link->to_peer) > 0)
        redis_link_fail(link, "it does not take what it is sent");
}

static void flush(struct redis_link *link)
{
    while (fill_out(link)) {
        ssize_t sent = send(link->fd, link->out, link->out_len, MSG_NOSIGNAL);
        if (sent < 0) {
            note_unsent(link, errno);
            return;
        }
        forget_sent(link, (size_t)sent);
    }
}

/* Bytes from the socket: how many, 0 for none now, or down. */
static size_t receive(struct redis_link *link, char *bytes, size_t room)
{
    if (link->receives_left == 0)
        return 0;
    link->receives_left--;
    ssize_t n = recv(link->fd, bytes, room, 0);
    if (n > 0)
        return (size_t)n;
    if (n == 0)
        redis_link_fail(link, "it closed the connection");
    else if (errno != EAGAIN && errno != EINTR)
        redis_link_fail(link, "the connection broke: %s", strerror(errno));
    return 0;
}

static bool feed_tls(struct redis_link *link)
{
    char bytes[RECEIVE_BYTES];
    size_t n = receive(link, bytes, sizeof(bytes));
    if (n > 0 && BIO_write(link->from_peer, bytes, (int)n) != (int)n)
        abort();
    return n > 0;
}

static void shake_hands(struct redis_link *link)
{
    do {
        ERR_clear_error();
        int r = SSL_do_handshake(link->tls);
        int cause = SSL_get_error(link->tls, r);
        flush(link);
        if (link->state != REDIS_LINK_HANDSHAKING)
            return;
        if (r == 1) {
            link->state = REDIS_LINK_UP;
            return;
        }
        if (cause != SSL_ERROR_WANT_READ) {
            fail_tls(link);
            return;
        }
    } while (feed_tls(link));
}

/* hiredis would allocate what an array announces, and has no bound of its own for it before version 1. */
static void *create_array(const redisReadTask *task, int elements)
{
    const redisReplyObjectFunctions *unbounded = task->privdata;
    int most = task->parent == NULL ? REDIS_ELEMENTS_MAX : REDIS_INNER_ELEMENTS_MAX;
    return elements <= most ? unbounded->createArray(task, elements) : NULL;
}

static void make_reader(struct redis_link *link)
{
    link->reader = redisReaderCreate();
    if (link->reader == NULL)
        abort();
    link->reader->privdata = link->reader->fn;
    link->reply_functions = *link->reader->fn;
    link->reply_functions.createArray = create_array;
    link->reader->fn = &link->reply_functions;
    link->unfinished_bytes = 0;
}

static void begin_talking(struct redis_link *link)
{
    make_reader(link);
    link->receives_left = RECEIVES_MAX;
    link->state = REDIS_LINK_UP;
    if (link->address->is_tls)
        begin_tls(link);
}

/* 0: connected. EINPROGRESS. Else why not. */
static int connect_socket(struct redis_link *link, const struct sockaddr *address, socklen_t len)
{
    const int yes = 1;
    const unsigned patience_ms = UNACKNOWLEDGED_MS;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    if (address->sa_family != AF_UNIX) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof(patience_ms));
    }
    int cause = connect(fd, address, len) == 0 ? 0 : errno;
    if (cause == 0 || cause == EINPROGRESS)
        link->fd = fd;
    else
        close(fd);
    return cause;
}

static void note_connect(struct redis_link *link, int cause)
{
    if (cause == EINPROGRESS)
        link->state = REDIS_LINK_CONNECTING;
    else if (cause == 0)
        begin_talking(link);
    else
        snprintf(link->trouble, sizeof(link->trouble), "cannot connect: %s", strerror(cause));
}

/* Each address of the name in turn, until one does not refuse at once. */
static void connect_next(struct redis_link *link)
{
    int cause = 0;
    while (link->next != NULL) {
        struct addrinfo *address = link->next;
        link->next = address->ai_next;
        cause = connect_socket(link, address->ai_addr, address->ai_addrlen);
        note_connect(link, cause);
        if (cause == 0 || cause == EINPROGRESS)
            return;
    }
    redis_link_close(link); /* the trouble was noted */
}

static void connect_unix(struct redis_link *link)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strncpy(address.sun_path, link->address->path, sizeof(address.sun_path) - 1);
    note_connect(link, connect_socket(link, (const struct sockaddr *)&address, sizeof(address)));
}

static void finish_connect(struct redis_link *link)
{
    struct pollfd p = { .fd = link->fd, .events = POLLOUT };
    int cause = 0;
    socklen_t len = sizeof(cause);

    if (poll(&p, 1, 0) <= 0)
        return;
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &cause, &len);
    if (cause == 0) {
        begin_talking(link);
        return;
    }
    note_connect(link, cause);
    close(link->fd);
    link->fd = -1;
    connect_next(link);
}

static void finish_lookup(struct redis_link *link)
{
    const char *why;
    if (!lookup_take(link->lookup, &link->found, &why))
        return;
    lookup_end(link->lookup);
    link->lookup = NULL;
    link->next = link->found;
    if (link->found == NULL)
        redis_link_fail(link, "its host is not found: %s", why);
    else
        connect_next(link);
}

/* --- the whole --- */

void redis_link_open(struct redis_link *link)
{
    redis_link_close(link);
    link->is_reply_too_long = false;
    if (link->address->path != NULL) {
        connect_unix(link);
        return;
    }
    lookup_go_on(&link->lookup, link->address->host, link->address->port);
    link->state = REDIS_LINK_LOOKING_UP;
}

enum redis_link_state redis_link_step(struct redis_link *link)
{
    static void (*const steps[])(struct redis_link *) = {
        [REDIS_LINK_DOWN] = NULL,
        [REDIS_LINK_LOOKING_UP] = finish_lookup,
        [REDIS_LINK_CONNECTING] = finish_connect,
        [REDIS_LINK_HANDSHAKING] = shake_hands,
        [REDIS_LINK_UP] = flush,
    };
    enum redis_link_state before;
    do {
        before = link->state;
        if (steps[before] != NULL)
            steps[before](link);
    } while (link->state != before && link->state != REDIS_LINK_UP);
    return link->state;
}

/* Over TLS, it is what TLS makes of it that goes out. */
static void send_command(struct redis_link *link, const char *command, size_t len)
{
    if (len > sizeof(link->out) - link->out_len) {
        redis_link_fail(link, "it does not take what it is sent");
    } else if (link->tls == NULL) {
        memcpy(link->out + link->out_len, command, len);
        link->out_len += len;
    } else if (SSL_write(link->tls, command, (int)len) <= 0) {
        fail_tls(link);
    }
    if (link->state == REDIS_LINK_UP)
        flush(link);
}

void redis_link_send(struct redis_link *link, const struct span *words, size_t n)
{
    const char *texts[REDIS_WORDS_MAX];
    size_t lens[REDIS_WORDS_MAX];
    char *command = NULL;

    if (link->state != REDIS_LINK_UP)
        return;
    if (n > REDIS_WORDS_MAX)
        abort();
    for (size_t i = 0; i < n; i++) {
        texts[i] = words[i].ptr;
        lens[i] = words[i].len;
    }
    int len = redisFormatCommandArgv(&command, (int)n, texts, lens);
    if (len < 0)
        abort();
    send_command(link, command, (size_t)len);
    explicit_bzero(command, (size_t)len);
    redisFreeCommand(command);
}

/* What TLS makes of bytes from the socket: how many, 0 for none now, or down. */
static size_t receive_over_tls(struct redis_link *link, char *bytes, size_t room)
{
    do {
        size_t n = 0;
        ERR_clear_error();
        int r = SSL_read_ex(link->tls, bytes, room, &n);
        int cause = SSL_get_error(link->tls, r);
        if (r == 1)
            return n;
        if (cause == SSL_ERROR_ZERO_RETURN) {
            redis_link_fail(link, "it closed the connection");
            return 0;
        }
        if (cause != SSL_ERROR_WANT_READ) {
            fail_tls(link);
            return 0;
        }
    } while (feed_tls(link));
    return 0;
}

/* More bytes for the reader: false for none now, or down. */
static bool refill(struct redis_link *link)
{
    char bytes[RECEIVE_BYTES];
    size_t n = link->tls == NULL ? receive(link, bytes, sizeof(bytes))
                                 : receive_over_tls(link, bytes, sizeof(bytes));
    if (n > 0 && redisReaderFeed(link->reader, bytes, n) != REDIS_OK)
        abort();
    link->unfinished_bytes += n;
    return n > 0;
}

redisReply *redis_link_receive(struct redis_link *link)
{
    while (link->state == REDIS_LINK_UP) {
        void *reply = NULL;
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            redis_link_fail(link, "it does not speak as Redis does");
        } else if (reply != NULL) {
            link->unfinished_bytes = link->reader->len - link->reader->pos;
            return reply;
        } else if (link->unfinished_bytes > REDIS_REPLY_LIMIT_BYTES) {
            link->is_reply_too_long = true;
            redis_link_fail(link, "it sends a reply of more than %d bytes", REDIS_REPLY_LIMIT_BYTES);
        } else if (!refill(link)) {
            break;
        }
    }
    link->receives_left = RECEIVES_MAX;
    return NULL;
}

unsigned redis_link_greet(struct redis_link *link)
{
    const struct redis_address *address = link->address;
    unsigned replies = 0;

    if (address->password != NULL) {
        struct span words[3] = { span_cstr("AUTH") };
        size_t n = 1;
        if (address->user != NULL)
            words[n++] = span_cstr(address->user);
        words[n++] = span_cstr(address->password);
        redis_link_send(link, words, n);
        replies++;
    }
    if (address->database != NULL) {
        const struct span words[] = { span_cstr("SELECT"), span_cstr(address->database) };
        redis_link_send(link, words, 2);
        replies++;
    }
    return replies;
}

short redis_link_events(const struct redis_link *link)
{
    if (link->state == REDIS_LINK_CONNECTING)
        return POLLOUT;
    return link->out_len > 0 ? POLLIN | POLLOUT : POLLIN;
}

void redis_link_wait(struct redis_link *link, unsigned timeout_ms)
{
    struct pollfd p = { .fd = link->fd, .events = redis_link_events(link) };
    if (link->state == REDIS_LINK_LOOKING_UP)
        lookup_wait(link->lookup, timeout_ms);
    else
        poll(&p, 1, (int)timeout_ms);
}
