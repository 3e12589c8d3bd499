#include "admin/ctl/health_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "fcgi/engine/record.h"

enum { REQUEST_LIMIT_BYTES = 4096, REQUEST_ID = 1, RESPONDER = 1, SHORT_LENGTH_MAX = 127 };

static void put_record(struct buf *out, enum record_type type, struct span content)
{
    unsigned char header[RECORD_HEADER_BYTES];
    record_put_header(header, type, REQUEST_ID, content.len, 0);
    buf_append(out, header, sizeof(header));
    buf_append_span(out, content);
}

/* Names and values of at most SHORT_LENGTH_MAX bytes. */
static void put_param(struct buf *out, const char *name, const char *value)
{
    buf_append_char(out, (char)strlen(name));
    buf_append_char(out, (char)strlen(value));
    buf_append_cstr(out, name);
    buf_append_cstr(out, value);
}

static void compose_request(const char *path, struct buf *out)
{
    static const char begin[8] = { 0, RESPONDER };
    struct buf params;
    buf_init(&params, REQUEST_LIMIT_BYTES);
    put_param(&params, "REQUEST_METHOD", "GET");
    put_param(&params, "SCRIPT_NAME", path);
    put_param(&params, "SERVER_PROTOCOL", "HTTP/1.1");
    put_record(out, RECORD_BEGIN_REQUEST, span_of(begin, sizeof(begin)));
    put_record(out, RECORD_PARAMS, buf_span(&params));
    put_record(out, RECORD_PARAMS, span_of("", 0));
    put_record(out, RECORD_STDIN, span_of("", 0));
    buf_free(&params);
}

static int connect_to(const char *path, int *out, struct error *e)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = strlen(path);
    if (len >= sizeof(address.sun_path))
        return error_set(e, ERR_LIMIT, "%.200s… is too long for a socket's path", path);
    memcpy(address.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot make a socket: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        int cause = errno;
        close(fd);
        return error_set(e, cause == ENOENT || cause == ECONNREFUSED ? ERR_NOT_FOUND : ERR_SYSTEM,
                         "cannot connect to %s: %s", path, strerror(cause));
    }
    *out = fd;
    return 0;
}

/* All that comes until the peer closes. */
static int read_all(int fd, const char *path, struct buf *out, struct error *e)
{
    uint64_t deadline = clock_monotonic_us() + HEALTH_TIMEOUT_MS * US_PER_MS;
    char piece[16 * 1024];
    for (;;) {
        uint64_t now = clock_monotonic_us();
        struct pollfd poller = { .fd = fd, .events = POLLIN };
        int ready = now < deadline ? poll(&poller, 1, (int)((deadline - now) / US_PER_MS) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return error_set(e, ERR_TIMEOUT, "%s has not answered within %d ms", path, HEALTH_TIMEOUT_MS);
        ssize_t n = ready < 0 ? -1 : read(fd, piece, sizeof(piece));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0)
            return error_set(e, ERR_SYSTEM, "cannot read from %s: %s", path, strerror(errno));
        if (n == 0)
            return 0;
        if (buf_append(out, piece, (size_t)n) != 0)
            return error_set(e, ERR_LIMIT, "%s answers with more than %d bytes", path,
                             HEALTH_REPLY_LIMIT_BYTES);
    }
}

/* Joins the contents of the STDOUT records. Whether the request's end is among them. */
static bool join_stdout(struct span wire, struct buf *out)
{
    while (wire.len >= RECORD_HEADER_BYTES) {
        const unsigned char *header = (const unsigned char *)wire.ptr;
        size_t content = (size_t)header[4] << 8 | header[5],
               whole = RECORD_HEADER_BYTES + content + header[6];
        if (header[0] != 1 || wire.len < whole)
            return false;
        if (header[1] == RECORD_END_REQUEST)
            return true;
        if (header[1] == RECORD_STDOUT)
            buf_append(out, wire.ptr + RECORD_HEADER_BYTES, content);
        wire = span_of(wire.ptr + whole, wire.len - whole);
    }
    return false;
}

/* The body behind a head that says 200, or says nothing of the status (RFC 3875, 6.3.3). */
static int take_body(struct span reply, const char *path, struct arena *arena, struct span *body,
                     struct error *e)
{
    static const char end[] = "\r\n\r\n", status[] = "Status:";
    const char *mark = memmem(reply.ptr, reply.len, end, sizeof(end) - 1);
    if (mark == NULL)
        return error_set(e, ERR_FORMAT, "%s does not answer as a health socket does", path);
    size_t head = (size_t)(mark - reply.ptr);
    const char *line = memmem(reply.ptr, head, status, sizeof(status) - 1);
    if (line != NULL) {
        struct span code = span_trim(
            span_of(line + sizeof(status) - 1, head - (size_t)(line - reply.ptr) - (sizeof(status) - 1)));
        if (!span_starts(code, "200"))
            return error_set(e, ERR_FORMAT, "%s answers with the status %.*s", path,
                             code.len < 3 ? (int)code.len : 3, code.ptr);
    }
    struct span found = span_of(mark + sizeof(end) - 1, reply.len - head - (sizeof(end) - 1));
    *body = span_of(arena_span(arena, found), found.len);
    return 0;
}

int health_ask(const char *run_dir, const char *path, struct arena *arena, struct span *body, struct error *e)
{
    const char *socket_path = arena_printf(arena, "%s/health.sock", run_dir);
    struct buf request, wire, reply;
    int fd = -1;

    buf_init(&request, REQUEST_LIMIT_BYTES);
    buf_init(&wire, HEALTH_REPLY_LIMIT_BYTES);
    buf_init(&reply, HEALTH_REPLY_LIMIT_BYTES);
    int r = connect_to(socket_path, &fd, e);
    if (r != 0)
        goto out;
    compose_request(path, &request);
    /* So short that the socket's buffer takes it at once. */
    if (send(fd, request.data, request.len, MSG_NOSIGNAL) != (ssize_t)request.len) {
        r = error_set(e, ERR_SYSTEM, "cannot write to %s: %s", socket_path, strerror(errno));
        goto out;
    }
    r = read_all(fd, socket_path, &wire, e);
    if (r != 0)
        goto out;
    if (!join_stdout(buf_span(&wire), &reply)) {
        r = error_set(e, ERR_FORMAT, "%s has not answered with a whole reply", socket_path);
        goto out;
    }
    r = take_body(buf_span(&reply), socket_path, arena, body, e);
out:
    if (fd >= 0)
        close(fd);
    buf_free(&request);
    buf_free(&wire);
    buf_free(&reply);
    return r;
}
