/*
 * An HTTP server on the loopback address that follows a script, in a thread of
 * the test: for tests of what talks to upstreams. One at a time.
 */
#ifndef TESTS_UNIT_SCRIPTED_SERVER_H
#define TESTS_UNIT_SCRIPTED_SERVER_H

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/buf.h"

enum { CONNECTIONS_MAX = 8, PIECES_MAX = 6, REQUEST_BYTES_MAX = 8 * 1024 * 1024 };

/* What is done after a reply's last piece. */
enum after {
    KEEP,  /* the connection stays for the next request */
    CLOSE, /* orderly */
    RESET, /* with a RST */
};

/* The reply to one request: pieces, each after a pause. */
struct reply {
    struct {
        unsigned pause_ms;
        const char *bytes;
    } pieces[PIECES_MAX];
    enum after after;
};

/* Answers requests in the order in which they come, over whichever connection. */
struct server {
    int listener, port;
    int stop[2]; /* closing stop[1] ends it */
    pthread_t thread;
    const struct reply *script; /* by number of the request; beyond its end, a request gets no reply */
    size_t n_script;

    /* For the test, once the server has stopped. */
    unsigned connections, requests;
    struct buf last_request;

    /* Its own. */
    int fds[CONNECTIONS_MAX];
    struct buf received[CONNECTIONS_MAX];
};

/* Shorter if the server is to stop. */
static inline void server_pause(const struct server *server, unsigned ms)
{
    struct pollfd stop = { .fd = server->stop[0], .events = POLLIN };
    if (ms > 0)
        poll(&stop, 1, (int)ms);
}

static inline void drop_connection(struct server *server, size_t i, bool with_reset)
{
    const struct linger at_once = { .l_onoff = 1 };
    if (with_reset)
        setsockopt(server->fds[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(server->fds[i]);
    server->fds[i] = -1;
    buf_clear(&server->received[i]);
}

/* Bytes of the whole request at the front of `received`, 0 if it is not whole yet. */
static inline size_t request_size(struct buf *received)
{
    buf_append_char(received, '\0');
    received->len--;
    const char *end = strstr(received->data, "\r\n\r\n");
    const char *length = strcasestr(received->data, "\r\ncontent-length:");
    if (end == NULL)
        return 0;
    size_t size = (size_t)(end - received->data) + 4;
    if (length != NULL && length < end)
        size += strtoul(strchr(length, ':') + 1, NULL, 10);
    return received->len >= size ? size : 0;
}

static inline void answer(struct server *server, size_t i)
{
    const struct reply *reply =
        server->requests < server->n_script ? &server->script[server->requests] : NULL;
    server->requests++;
    for (size_t p = 0; reply != NULL && p < PIECES_MAX && reply->pieces[p].bytes != NULL; p++) {
        const char *bytes = reply->pieces[p].bytes;
        server_pause(server, reply->pieces[p].pause_ms);
        if (send(server->fds[i], bytes, strlen(bytes), MSG_NOSIGNAL) < 0)
            break;
    }
    if (reply != NULL && reply->after != KEEP)
        drop_connection(server, i, reply->after == RESET);
}

/* Bytes of a client. TLS is refused: a reply that is not TLS, and the end. */
static inline void receive(struct server *server, size_t i)
{
    char bytes[65536]; /* of this thread: a test may have two servers */
    struct buf *received = &server->received[i];
    ssize_t n = recv(server->fds[i], bytes, sizeof(bytes), 0);
    size_t size;
    if (n <= 0) {
        drop_connection(server, i, false);
        return;
    }
    buf_append(received, bytes, (size_t)n);
    if (received->data[0] == '\x16') {
        (void)!write(server->fds[i], "HTTP/1.1 400 No\r\n\r\n", 19);
        drop_connection(server, i, false);
        return;
    }
    if ((size = request_size(received)) == 0)
        return;
    buf_clear(&server->last_request);
    buf_append(&server->last_request, received->data, size);
    buf_consume(received, size);
    answer(server, i);
}

static inline void accept_one(struct server *server)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (server->fds[i] >= 0)
            continue;
        server->fds[i] = accept(server->listener, NULL, NULL);
        server->connections += server->fds[i] >= 0;
        return;
    }
}

static inline void *serve(void *arg)
{
    struct server *server = arg;
    for (;;) {
        struct pollfd fds[CONNECTIONS_MAX + 2];
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
            fds[i] = (struct pollfd){ .fd = server->fds[i], .events = POLLIN };
        fds[CONNECTIONS_MAX] = (struct pollfd){ .fd = server->listener, .events = POLLIN };
        fds[CONNECTIONS_MAX + 1] = (struct pollfd){ .fd = server->stop[0], .events = POLLIN };
        poll(fds, CONNECTIONS_MAX + 2, -1);
        if (fds[CONNECTIONS_MAX + 1].revents != 0)
            return NULL;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            if (fds[i].revents != 0)
                receive(server, i);
        }
        if (fds[CONNECTIONS_MAX].revents != 0)
            accept_one(server);
    }
}

/* A socket that listens on a free port of the loopback address. */
static inline int listen_somewhere(int backlog, int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(fd, backlog), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static inline void server_start(struct server *server, const struct reply *script, size_t n_script)
{
    *server = (struct server){ .script = script, .n_script = n_script };
    server->listener = listen_somewhere(8, &server->port);
    ck_assert_int_eq(pipe(server->stop), 0);
    buf_init(&server->last_request, REQUEST_BYTES_MAX);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        server->fds[i] = -1;
        buf_init(&server->received[i], REQUEST_BYTES_MAX);
    }
    ck_assert_int_eq(pthread_create(&server->thread, NULL, serve, server), 0);
}

/* Ends the thread. What the test asks of the server it asks afterwards; then it
 * frees last_request. */
static inline void server_stop(struct server *server)
{
    close(server->stop[1]);
    pthread_join(server->thread, NULL);
    close(server->stop[0]);
    close(server->listener);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (server->fds[i] >= 0)
            close(server->fds[i]);
        buf_free(&server->received[i]);
    }
}

#endif
