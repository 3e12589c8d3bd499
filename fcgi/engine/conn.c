#include "fcgi/engine/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"

enum {
    INPUT_BYTES = 16384, /* a request with its parameters and a usual body comes in one piece */
    DISCARD_MS = 1000,
    TAKEN_MS = 100,
    RECORDS_AT_ONCE = 16,
};

void conn_init(struct conn *conn)
{
    *conn = (struct conn){ .fd = -1, .in = xmalloc(INPUT_BYTES) };
    record_reader_init(&conn->reader);
}

void conn_free(struct conn *conn)
{
    record_reader_free(&conn->reader);
    caller_socket_end(&conn->caller);
    free(conn->in);
    *conn = (struct conn){ .fd = -1 };
}

void conn_set_stall(struct conn *conn, uint32_t stall_ms)
{
    conn->stall_ms = stall_ms;
}

void conn_set_beat(struct conn *conn, uint32_t period_ms, void (*beat)(void *ctx), void *ctx)
{
    conn->beat_ms = period_ms;
    conn->beat = beat;
    conn->beat_ctx = ctx;
}

static uint64_t stall_deadline(const struct conn *conn)
{
    return clock_monotonic_us() + conn->stall_ms * US_PER_MS;
}

static int wait_readable(struct conn *conn, int fd, uint64_t deadline_us)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    uint64_t now = clock_monotonic_us();

    if (now >= deadline_us)
        return ERR_TIMEOUT;
    int r = poll(&p, 1, (int)((deadline_us - now + 999) / 1000));
    conn->blocked_us += clock_monotonic_us() - now;
    if (r == 0)
        return ERR_TIMEOUT;
    return r > 0 || errno == EINTR ? 0 : ERR_CLIENT_GONE;
}

/* Receives what the front end sends next: first into `out`, which may have no room, then
 * into the buffer, which is empty. How many bytes, > 0, or an error. deadline_us 0: stall_ms from when it
 * waits. */
static ssize_t receive(struct conn *conn, char *out, size_t room, uint64_t deadline_us)
{
    struct iovec places[2] = { { out, room }, { conn->in, INPUT_BYTES } };
    struct msghdr message = { .msg_iov = room > 0 ? places : places + 1, .msg_iovlen = room > 0 ? 2 : 1 };

    for (;;) {
        ssize_t n = recvmsg(conn->fd, &message, MSG_DONTWAIT);
        if (n > 0) {
            conn->in_start = 0;
            conn->in_end = (size_t)n > room ? (size_t)n - room : 0;
            conn->in_used = conn->in_end > conn->in_used ? conn->in_end : conn->in_used;
            return n;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return ERR_CLIENT_GONE;
        if (errno == EINTR)
            continue;
        if (deadline_us == 0)
            deadline_us = stall_deadline(conn);
        int r = wait_readable(conn, conn->fd, deadline_us);
        if (r != 0)
            return r;
    }
}

/* Looks at what is in the buffer, up to the next piece of the body. */
static int take(struct conn *conn, size_t max, struct span *body)
{
    struct span left = span_of(conn->in + conn->in_start, conn->in_end - conn->in_start);
    int r = record_reader_take(&conn->reader, &left, max, body);

    conn->in_start = conn->in_end - left.len;
    conn->is_input_read = conn->reader.has_ended;
    return r;
}

/* All within stall_ms: a front end has the parameters when it connects. */
static int read_params(struct conn *conn)
{
    uint64_t deadline = stall_deadline(conn);
    struct span body;
    int r = 0;

    while (r == 0 && !conn->reader.has_params) {
        ssize_t n = receive(conn, NULL, 0, deadline);
        r = n < 0 ? (int)n : take(conn, 0, &body);
        if (r == 0 && !conn->reader.has_params && clock_monotonic_us() >= deadline)
            r = ERR_TIMEOUT; /* it keeps sending, so that receive never waits */
    }
    return r;
}

/* What a request leaves in memory holds the caller's key. */
static void forget_input(struct conn *conn)
{
    explicit_bzero(conn->in, conn->in_used);
    record_reader_reset(&conn->reader);
    conn->in_start = conn->in_end = conn->in_used = 0;
}

static void begin_caller(struct conn *conn)
{
    caller_socket_begin(&conn->caller, conn_param(conn, "SERVER_ADDR"), conn_param(conn, "SERVER_PORT"),
                        conn_param(conn, "REMOTE_ADDR"), conn_param(conn, "REMOTE_PORT"));
}

bool conn_has_caller_left(struct conn *conn)
{
    return caller_socket_is_closed(&conn->caller);
}

int conn_begin(struct conn *conn, int fd, uint32_t stall_ms)
{
    *conn = (struct conn){
        .reader = conn->reader,
        .in = conn->in,
        .caller = conn->caller,
        .fd = fd,
        .stall_ms = stall_ms,
    };
    int r = read_params(conn);
    if (r != 0) {
        forget_input(conn);
        close(fd);
        conn->fd = -1;
        return r == ERR_STOPPED ? ERR_CLIENT_GONE : r;
    }
    conn->has_request = true;
    begin_caller(conn);
    return 0;
}

void conn_begin_cgi(struct conn *conn, uint32_t stall_ms)
{
    *conn = (struct conn){ .fd = STDOUT_FILENO, .is_cgi = true, .has_request = true, .stall_ms = stall_ms };
    begin_caller(conn);
    fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
}

const char *conn_param(const struct conn *conn, const char *name)
{
    return conn->is_cgi ? getenv(name) : record_param(&conn->reader, name);
}

void conn_each_param(const struct conn *conn, void (*see)(void *ctx, struct span name, struct span value),
                     void *ctx)
{
    struct span name, value;

    if (!conn->is_cgi) {
        for (size_t i = 0; record_param_at(&conn->reader, i, &name, &value); i++)
            see(ctx, name, value);
        return;
    }
    for (char *const *p = environ; *p != NULL; p++) {
        const char *equals = strchr(*p, '=');
        if (equals != NULL)
            see(ctx, span_of(*p, (size_t)(equals - *p)), span_cstr(equals + 1));
    }
}

bool conn_is_params_cut(const struct conn *conn)
{
    return conn->reader.is_params_cut;
}

int conn_watch_fd(const struct conn *conn)
{
    struct stat st;
    if (!conn->is_cgi)
        return conn->fd;
    /* A file is always readable; the write end of a pipe fails when its reader goes. */
    return fstat(conn->fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) ? conn->fd : -1;
}

/* The CGI body ends where CONTENT_LENGTH says; the server need not close it. */
static ssize_t read_cgi(struct conn *conn, char *out, size_t room)
{
    const char *length = conn_param(conn, "CONTENT_LENGTH");
    uint64_t left = (length == NULL ? 0 : strtoull(length, NULL, 10)) - conn->cgi_read;
    ssize_t n = 0;

    if (left > 0 && room > 0) {
        if (wait_readable(conn, STDIN_FILENO, stall_deadline(conn)) == ERR_TIMEOUT)
            return ERR_TIMEOUT;
        n = read(STDIN_FILENO, out, room < left ? room : (size_t)left);
        if (n < 0)
            return ERR_CLIENT_GONE;
        conn->cgi_read += (uint64_t)n;
    }
    conn->is_input_read = (uint64_t)n == left || (n == 0 && room > 0);
    return n;
}

/* A body that has not come yet is received where it is wanted, without a copy. */
static ssize_t receive_body(struct conn *conn, char *out, size_t room)
{
    size_t next = record_reader_body_next(&conn->reader);
    size_t wanted = next < room ? next : room;
    ssize_t n = receive(conn, out, wanted, 0);

    if (n < 0)
        return n;
    size_t body = (size_t)n < wanted ? (size_t)n : wanted;
    if (body > 0)
        record_reader_skip_body(&conn->reader, body);
    return (ssize_t)body;
}

static ssize_t read_fastcgi(struct conn *conn, char *out, size_t room)
{
    size_t have = 0;

    while (have < room && !conn->is_input_read) {
        struct span body = { NULL, 0 };
        if (conn->in_start < conn->in_end) {
            if (take(conn, room - have, &body) != 0)
                return ERR_CLIENT_GONE; /* an abort, or what is not FastCGI any more */
            if (body.len > 0)
                memcpy(out + have, body.ptr, body.len);
            have += body.len;
        } else if (have > 0) {
            break;
        } else {
            ssize_t n = receive_body(conn, out, room);
            if (n < 0)
                return n;
            have = (size_t)n;
        }
    }
    return (ssize_t)have;
}

ssize_t conn_read(struct conn *conn, char *out, size_t room)
{
    ssize_t n = conn->is_cgi ? read_cgi(conn, out, room) : read_fastcgi(conn, out, room);

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

/* Waits until the front end takes more, or the next beat is due. */
static int wait_writable(struct conn *conn, uint64_t deadline_us)
{
    short watch = conn->is_input_read && !conn->is_cgi ? POLLIN | POLLRDHUP : 0;
    struct pollfd p = { .fd = conn->fd, .events = (short)(POLLOUT | watch) };
    uint64_t now = clock_monotonic_us(), until_us = deadline_us;

    if (now >= deadline_us)
        return ERR_TIMEOUT;
    if (conn->beat_ms > 0) {
        conn->beat(conn->beat_ctx);
        until_us =
            now + conn->beat_ms * US_PER_MS < deadline_us ? now + conn->beat_ms * US_PER_MS : deadline_us;
    }
    int r = poll(&p, 1, (int)((until_us - now + 999) / 1000));
    conn->blocked_us += clock_monotonic_us() - now;
    if (r < 0)
        return errno == EINTR ? 0 : ERR_CLIENT_GONE;
    if (r == 0)
        return until_us < deadline_us ? 0 : ERR_TIMEOUT;
    if ((p.revents & (watch | POLLERR | POLLHUP)) != 0)
        return ERR_CLIENT_GONE;
    return 0;
}

/* Sends everything; the stall bound starts anew with each byte that goes. */
static int send_all(struct conn *conn, struct iovec *v, size_t n)
{
    uint64_t deadline_us = 0; /* 0: nothing waits */

    while (n > 0) {
        struct msghdr message = { .msg_iov = v, .msg_iovlen = n };
        ssize_t sent = conn->is_cgi ? writev(conn->fd, v, (int)n) /* a pipe, which is non-blocking */
                                    : sendmsg(conn->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN) {
            if (deadline_us == 0)
                deadline_us = stall_deadline(conn);
            int r = wait_writable(conn, deadline_us);
            if (r != 0)
                return r;
            continue;
        }
        if (sent < 0)
            return ERR_CLIENT_GONE;
        deadline_us = 0;
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
    struct iovec v[RECORDS_AT_ONCE * 3 + CONN_PIECES_MAX + 1];
    size_t n;
    unsigned char headers[RECORDS_AT_ONCE][RECORD_HEADER_BYTES];
    unsigned char end[RECORD_END_MAX];
    size_t n_headers;
};

static void train_add(struct train *t, const void *bytes, size_t len)
{
    t->v[t->n++] = (struct iovec){ (void *)(uintptr_t)bytes, len };
}

/* Fills records from the pieces until there is no more room or nothing left. */
static void train_fill(struct train *t, unsigned request_id, struct span **next, size_t *n)
{
    static const unsigned char padding_bytes[8];

    t->n = t->n_headers = 0;
    while (*n > 0 && t->n_headers < RECORDS_AT_ONCE) {
        unsigned char *h = t->headers[t->n_headers++];
        size_t content = 0, first = t->n;
        train_add(t, h, RECORD_HEADER_BYTES);
        while (*n > 0 && content < RECORD_CONTENT_MAX && t->n - first <= CONN_PIECES_MAX) {
            struct span *piece = *next;
            size_t len =
                piece->len < RECORD_CONTENT_MAX - content ? piece->len : RECORD_CONTENT_MAX - content;
            train_add(t, piece->ptr, len);
            content += len;
            *piece = span_of(piece->ptr + len, piece->len - len);
            if (piece->len == 0) {
                ++*next;
                --*n;
            }
        }
        size_t padding = (8 - content % 8) % 8;
        record_put_header(h, RECORD_STDOUT, request_id, content, padding);
        if (padding > 0)
            train_add(t, padding_bytes, padding);
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
    struct span left[CONN_PIECES_MAX], *next = left;
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
        train_fill(&train, conn->reader.request_id, &next, &n_left);
        if (n_left == 0 && is_last)
            train_add(&train, train.end, record_put_end(train.end, &conn->reader));
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

/* Waits until the front end has read what was sent. */
static void wait_taken(int fd)
{
    uint64_t deadline = clock_monotonic_us() + TAKEN_MS * US_PER_MS;
    int unread = 0;

    while (ioctl(fd, SIOCOUTQ, &unread) == 0 && unread > 0 && clock_monotonic_us() < deadline)
        poll(NULL, 0, 1);
}

void conn_abort(struct conn *conn)
{
    static unsigned char invalid[RECORD_HEADER_BYTES] = { 0xff }; /* a version that does not exist */
    struct iovec v = { invalid, sizeof(invalid) };

    if (!conn->is_broken && !conn->is_ended && !conn->is_cgi) {
        /* nginx that reads both at once passes on nothing of the reply, not even its head, and a client that
         * got nothing asks again. */
        wait_taken(conn->fd);
        send_all(conn, &v, 1);
    }
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
    forget_input(conn);
    close(conn->fd);
    conn->fd = -1;
    conn->has_request = false;
}
