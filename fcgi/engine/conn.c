#include "fcgi/engine/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "fcgi/engine/record.h"

enum {
    DISCARD_MS = 1000,
    RECORDS_AT_ONCE = 16,
};

int conn_init(struct conn *conn, struct error *e)
{
    *conn = (struct conn){ .fd = -1 };
    /* libfcgi waits for the peer when it closes a connection that it could not read. */
    setenv("LIBFCGI_OS_CLOSE_POLL_TIMEOUT", "0", 1);
    if (FCGX_Init() != 0 || FCGX_InitRequest(&conn->fcgi, -1, 0) != 0)
        return error_set(e, ERR_SYSTEM, "libfcgi cannot start");
    return 0;
}

void conn_set_stall(struct conn *conn, uint32_t stall_ms)
{
    struct timeval timeout = { .tv_sec = stall_ms / 1000, .tv_usec = (suseconds_t)(stall_ms % 1000) * 1000 };
    conn->stall_ms = stall_ms;
    setsockopt(conn->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    /* libfcgi writes too: answers to what no web server sends with a request. */
    setsockopt(conn->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

/* libfcgi gives a connection up when a read of its is interrupted, and one with a
 * time bound is when the process is stopped and goes on (signal(7)). A poll is
 * not: a worker waits here for a request that has not come yet. */
static bool is_coming(const struct conn *conn)
{
    struct pollfd p = { .fd = conn->fd, .events = POLLIN };
    return poll(&p, 1, (int)conn->stall_ms) > 0;
}

/* The same within a body: libfcgi has given out all that came before, and goes on
 * with the next record, unless it had just a part of that one's header. */
static bool goes_on_after_interrupt(FCGX_Stream *in)
{
    if (FCGX_GetError(in) != EINTR)
        return false;
    FCGX_ClearError(in);
    in->isClosed = 0;
    in->stop = in->rdNext; /* which has passed it where there was padding */
    return true;
}

/* libfcgi reads a request from a connection that it did not accept if its
 * structure looks like one with a kept connection. Its listening socket is -1:
 * after a peer that sends nonsense it would accept the next one, and fails
 * instead. The fields are public but not documented; test_conn watches them. */
static int read_params(struct conn *conn)
{
    if (!is_coming(conn)) {
        close(conn->fd);
        return ERR_FORMAT;
    }
    conn->fcgi.ipcFd = conn->fd;
    conn->fcgi.keepConnection = 1;
    if (FCGX_Accept_r(&conn->fcgi) != 0)
        return ERR_FORMAT;
    if (FCGX_GetError(conn->fcgi.in) == 0)
        return 0;
    FCGX_Free(&conn->fcgi, 1); /* the parameters broke off: libfcgi takes what there was for all */
    return ERR_FORMAT;
}

int conn_begin(struct conn *conn, int fd, uint32_t stall_ms)
{
    FCGX_Request fresh = conn->fcgi;
    *conn = (struct conn){ .fcgi = fresh, .fd = fd };
    conn_set_stall(conn, stall_ms);
    int r = read_params(conn);
    if (r != 0) {
        conn->fd = -1; /* it is closed */
        conn->fcgi.ipcFd = -1;
        return r;
    }
    conn->has_request = true;
    return 0;
}

void conn_begin_cgi(struct conn *conn, uint32_t stall_ms)
{
    *conn = (struct conn){ .fd = STDOUT_FILENO, .is_cgi = true, .has_request = true, .stall_ms = stall_ms };
    conn->fcgi.envp = environ;
    fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
}

const char *conn_param(const struct conn *conn, const char *name)
{
    return FCGX_GetParam(name, conn->fcgi.envp);
}

int conn_watch_fd(const struct conn *conn)
{
    struct stat st;
    if (!conn->is_cgi)
        return conn->fd;
    /* A file is always readable; the write end of a pipe fails when its reader goes. */
    return fstat(conn->fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) ? conn->fd : -1;
}

char *const *conn_params(const struct conn *conn)
{
    return conn->fcgi.envp;
}

/* The CGI body ends where CONTENT_LENGTH says; the server need not close it. */
static ssize_t read_cgi(struct conn *conn, char *out, size_t room)
{
    const char *length = conn_param(conn, "CONTENT_LENGTH");
    uint64_t left = (length == NULL ? 0 : strtoull(length, NULL, 10)) - conn->cgi_read;
    struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
    ssize_t n = 0;

    if (left > 0 && room > 0) {
        if (poll(&p, 1, (int)conn->stall_ms) == 0)
            return ERR_TIMEOUT;
        n = read(STDIN_FILENO, out, room < left ? room : (size_t)left);
        if (n < 0)
            return ERR_CLIENT_GONE;
        conn->cgi_read += (uint64_t)n;
    }
    conn->is_input_read = (uint64_t)n == left || (n == 0 && room > 0);
    return n;
}

static ssize_t read_fastcgi(struct conn *conn, char *out, size_t room)
{
    int want = room > 1 << 30 ? 1 << 30 : (int)room;
    int n = 0;

    do
        n += FCGX_GetStr(out + n, want - n, conn->fcgi.in);
    while (n < want && goes_on_after_interrupt(conn->fcgi.in));
    if (n < want) {
        int error = FCGX_GetError(conn->fcgi.in);
        if (error == EAGAIN || error == EWOULDBLOCK)
            return ERR_TIMEOUT;
        if (error != 0)
            return ERR_CLIENT_GONE;
        conn->is_input_read = true;
    }
    return n;
}

ssize_t conn_read(struct conn *conn, char *out, size_t room)
{
    uint64_t before = clock_monotonic_us();
    ssize_t n = conn->is_cgi ? read_cgi(conn, out, room) : read_fastcgi(conn, out, room);

    conn->blocked_us += clock_monotonic_us() - before;
    conn->is_broken =
        conn->is_broken || n < 0; /* who does not send has no use for a reply, nor for patience */
    return n;
}

int conn_read_end(struct conn *conn)
{
    char byte;
    if (conn->is_input_read)
        return 0;
    ssize_t n = conn_read(conn, &byte, 1);
    if (n < 0)
        return (int)n;
    return n == 0 ? 0 : ERR_FORMAT;
}

/* Waits until the front end takes more. */
static int wait_writable(struct conn *conn, uint64_t deadline_us)
{
    short watch = conn->is_input_read && !conn->is_cgi ? POLLIN | POLLRDHUP : 0;
    struct pollfd p = { .fd = conn->fd, .events = (short)(POLLOUT | watch) };
    uint64_t now = clock_monotonic_us();

    if (now >= deadline_us)
        return ERR_TIMEOUT;
    int r = poll(&p, 1, (int)((deadline_us - now + 999) / 1000));
    conn->blocked_us += clock_monotonic_us() - now;
    if (r < 0)
        return errno == EINTR ? 0 : ERR_CLIENT_GONE;
    if (r == 0)
        return ERR_TIMEOUT;
    if ((p.revents & (watch | POLLERR | POLLHUP)) != 0)
        return ERR_CLIENT_GONE;
    return 0;
}

/* Sends everything; the stall bound starts anew with each byte that goes. */
static int send_all(struct conn *conn, struct iovec *v, size_t n)
{
    uint64_t stall_us = conn->stall_ms * US_PER_MS;
    uint64_t deadline = clock_monotonic_us() + stall_us;

    while (n > 0) {
        struct msghdr message = { .msg_iov = v, .msg_iovlen = n };
        ssize_t sent = conn->is_cgi ? writev(conn->fd, v, (int)n) /* a pipe, which is non-blocking */
                                    : sendmsg(conn->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN) {
            int r = wait_writable(conn, deadline);
            if (r != 0)
                return r;
            continue;
        }
        if (sent < 0)
            return ERR_CLIENT_GONE;
        deadline = clock_monotonic_us() + stall_us;
        while (n > 0 && (size_t)sent >= v->iov_len) {
            sent -= (ssize_t)v->iov_len;
            v++;
            n--;
        }
        if (n > 0) {
            v->iov_base = (char *)v->iov_base + sent;
            v->iov_len -= (size_t)sent;
        }
    }
    return 0;
}

/* The records that carry one call's bytes, built on the stack. */
struct train {
    /* header, bytes and padding of each; the cuts between pieces; the end */
    struct iovec v[RECORDS_AT_ONCE * 3 + CONN_PIECES_MAX + 2];
    size_t n;
    unsigned char headers[RECORDS_AT_ONCE][RECORD_HEADER_BYTES];
    unsigned char end[2 * RECORD_HEADER_BYTES];
    size_t n_headers;
};

static void train_add(struct train *t, const void *bytes, size_t len)
{
    t->v[t->n++] = (struct iovec){ (void *)(uintptr_t)bytes, len };
}

/* FCGI_EndRequestBody: application status 0, FCGI_REQUEST_COMPLETE; and padding. */
static const unsigned char zeros[8];

/* The empty record that ends STDOUT, and the end of the request. */
static void train_end(struct train *t, unsigned request_id)
{
    record_put_header(t->end, RECORD_STDOUT, request_id, 0, 0);
    record_put_header(t->end + RECORD_HEADER_BYTES, RECORD_END_REQUEST, request_id, sizeof(zeros), 0);
    train_add(t, t->end, sizeof(t->end));
    train_add(t, zeros, sizeof(zeros));
}

/* Fills records from the pieces until there is no more room or nothing left. */
static void train_fill(struct train *t, unsigned request_id, struct span *pieces, size_t *n)
{
    *t = (struct train){ .n = 0 };
    while (*n > 0 && t->n_headers < RECORDS_AT_ONCE) {
        unsigned char *h = t->headers[t->n_headers++];
        size_t content = 0, first = t->n;
        train_add(t, h, RECORD_HEADER_BYTES);
        while (*n > 0 && content < RECORD_CONTENT_MAX && t->n - first <= CONN_PIECES_MAX) {
            size_t len =
                pieces->len < RECORD_CONTENT_MAX - content ? pieces->len : RECORD_CONTENT_MAX - content;
            train_add(t, pieces->ptr, len);
            content += len;
            *pieces = span_of(pieces->ptr + len, pieces->len - len);
            if (pieces->len == 0)
                memmove(pieces, pieces + 1, --*n * sizeof(*pieces));
        }
        size_t padding = (8 - content % 8) % 8;
        record_put_header(h, RECORD_STDOUT, request_id, content, padding);
        if (padding > 0)
            train_add(t, zeros, padding);
    }
}

static int write_cgi(struct conn *conn, const struct span *pieces, size_t n, bool is_last)
{
    struct iovec v[CONN_PIECES_MAX];

    for (size_t i = 0; i < n; i++)
        v[i] = (struct iovec){ (void *)(uintptr_t)pieces[i].ptr, pieces[i].len };
    int r = send_all(conn, v, n);
    conn->is_broken = r != 0;
    conn->is_ended = r == 0 && is_last;
    return r;
}

int conn_write(struct conn *conn, const struct span *pieces, size_t n, bool is_last)
{
    struct span left[CONN_PIECES_MAX];
    size_t n_left = 0;

    if (conn->is_broken || conn->is_ended)
        return ERR_CLIENT_GONE;
    for (size_t i = 0; i < n && i < CONN_PIECES_MAX; i++) {
        if (pieces[i].len > 0)
            left[n_left++] = pieces[i];
    }
    if (conn->is_cgi)
        return write_cgi(conn, left, n_left, is_last);
    do {
        struct train train;
        train_fill(&train, (unsigned)conn->fcgi.requestId, left, &n_left);
        if (n_left == 0 && is_last)
            train_end(&train, (unsigned)conn->fcgi.requestId);
        int r = send_all(conn, train.v, train.n);
        if (r != 0) {
            conn->is_broken = true;
            return r;
        }
    } while (n_left > 0);
    conn->is_ended = is_last;
    return 0;
}

int conn_end(struct conn *conn)
{
    return conn->is_ended ? 0 : conn_write(conn, NULL, 0, true);
}

void conn_abort(struct conn *conn)
{
    static unsigned char invalid[RECORD_HEADER_BYTES] = { 0xff }; /* a version that does not exist */
    struct iovec v = { invalid, sizeof(invalid) };

    if (!conn->is_broken && !conn->is_ended && !conn->is_cgi)
        send_all(conn, &v, 1);
    if (conn->is_cgi)
        conn->is_broken = true; /* it can only exit with a failure */
    conn->is_ended = true;
}

/* A peer that is still sending would get a reset, and lose the reply with it. */
static void discard_input(int fd)
{
    char scratch[16384];
    uint64_t deadline = clock_monotonic_us() + DISCARD_MS * US_PER_MS;

    shutdown(fd, SHUT_WR);
    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        uint64_t now = clock_monotonic_us();
        if (now >= deadline || poll(&p, 1, (int)((deadline - now + 999) / 1000)) <= 0)
            return;
        if (recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT) <= 0)
            return;
    }
}

void conn_close(struct conn *conn)
{
    if (!conn->has_request || conn->is_cgi)
        return;
    if (!conn->is_input_read && !conn->is_broken)
        discard_input(conn->fd);
    FCGX_Free(&conn->fcgi, 0); /* the streams and parameters; the descriptor is ours */
    conn->fcgi.ipcFd = -1;
    close(conn->fd);
    conn->fd = -1;
    conn->has_request = false;
}
