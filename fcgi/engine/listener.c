#include "fcgi/engine/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/log/log.h"

enum { ACTIVATED_FD = 3 }; /* SD_LISTEN_FDS_START */

static int finish(int fd, const char *address, struct error *e)
{
    if (listen(fd, LISTENER_BACKLOG) == 0)
        return 0;
    return error_set(e, ERR_SYSTEM, "cannot listen on %s: %s", address, strerror(errno));
}

/* Whether the process that listens there, as the kernel noted it, has died. */
static bool is_orphaned(int connected)
{
    struct ucred owner;
    socklen_t len = sizeof(owner);
    return getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &owner, &len) == 0 && kill(owner.pid, 0) != 0 &&
           errno == ESRCH;
}

/* Whether somebody answers at the path: then it is not ours to remove. Workers
 * that finish requests after their master's death hold its socket, and nobody
 * else will ever answer there. */
static bool is_answered(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    int r = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    bool answered = r == 0 ? !is_orphaned(fd) : errno == EAGAIN || errno == EINPROGRESS;
    close(fd);
    return answered;
}

static int check_unix(const char *path, struct error *e)
{
    const size_t bytes = sizeof(((struct sockaddr_un *)NULL)->sun_path);

    if (strlen(path) >= bytes || path[0] != '/')
        return error_set(e, ERR_FORMAT, "\"%s\" is not an absolute path of less than %zu bytes", path, bytes);
    return 0;
}

static int open_unix(const char *path, struct listener *out, struct error *e)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int result = check_unix(path, e);

    if (result != 0)
        return result;
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (is_answered(&address))
        return error_set(e, ERR_CONFLICT, "another process listens on %s", path);
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot make a socket: %s", strerror(errno));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || chmod(path, 0660) != 0) {
        result = error_set(e, ERR_SYSTEM, "cannot bind %s: %s", path, strerror(errno));
        goto fail;
    }
    result = finish(fd, path, e);
    if (result != 0)
        goto fail;
    out->fd = fd;
    memcpy(out->path, path, strlen(path) + 1);
    if (lstat(path, &st) == 0)
        out->inode = st.st_ino;
    return 0;
fail:
    close(fd);
    return result;
}

/* getaddrinfo would take 65536 for 0. */
static bool is_port(const char *text)
{
    return strspn(text, "0123456789") == strlen(text) && strlen(text) <= 5 && strtol(text, NULL, 10) <= 65535;
}

/* Splits "HOST:PORT" or "[HOST]:PORT". */
static int split(const char *text, char host[64], char port[8], struct error *e)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);

    if (len > 2 && text[0] == '[' && colon[-1] == ']') {
        text++;
        len -= 2;
    }
    if (len == 0 || len >= 64 || colon[1] == '\0' || !is_port(colon + 1))
        return error_set(e, ERR_FORMAT, "\"%s\" is not HOST:PORT", text);
    snprintf(host, 64, "%.*s", (int)len, text);
    snprintf(port, 8, "%s", colon + 1);
    return 0;
}

/* *address is the caller's to free. */
static int read_tcp(const char *text, struct addrinfo **address, struct error *e)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                              .ai_socktype = SOCK_STREAM };
    char host[64], port[8];

    int result = split(text, host, port, e);
    if (result == 0 && getaddrinfo(host, port, &hints, address) != 0)
        result = error_set(e, ERR_FORMAT, "\"%s\" is not a numeric HOST:PORT", text);
    return result;
}

static int check_tcp(const char *text, struct error *e)
{
    struct addrinfo *address;

    int result = read_tcp(text, &address, e);
    if (result == 0)
        freeaddrinfo(address);
    return result;
}

static int open_tcp(const char *text, struct listener *out, struct error *e)
{
    struct addrinfo *address;
    int on = 1;

    int result = read_tcp(text, &address, e);
    if (result != 0)
        return result;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        result = error_set(e, ERR_SYSTEM, "cannot make a socket: %s", strerror(errno));
        goto out;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0)
        result = error_set(e, errno == EADDRINUSE ? ERR_CONFLICT : ERR_SYSTEM, "cannot bind %s: %s", text,
                           strerror(errno));
    else
        result = finish(fd, text, e);
    if (result != 0)
        close(fd);
    else
        *out = (struct listener){ .fd = fd, .is_tcp = true, .is_own_tcp = true };
out:
    freeaddrinfo(address);
    return result;
}

static bool is_listening(int fd)
{
    int listening = 0;
    socklen_t len = sizeof(listening);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening != 0;
}

/* Whether sd_listen_fds(3) has something for this process: the variables are its parent's
 * as well, and may be a grandparent's. */
static bool is_activated(void)
{
    const char *pid = getenv("LISTEN_PID");
    char own[16];
    snprintf(own, sizeof(own), "%ld", (long)getpid());
    return pid != NULL && strcmp(pid, own) == 0;
}

/* The descriptor of the socket that was passed. */
static int find_inherited(int *fd, struct error *e)
{
    if (!is_activated()) {
        *fd = STDIN_FILENO;
        return is_listening(*fd)
                   ? 0
                   : error_set(e, ERR_NOT_FOUND,
                               "nothing to listen on: give --listen unix:/path or tcp:HOST:PORT, or a "
                               "listening socket as fd 0 or by socket activation");
    }
    const char *count = getenv("LISTEN_FDS");
    *fd = ACTIVATED_FD;
    if (count == NULL || strcmp(count, "1") != 0)
        return error_set(e, ERR_FORMAT, "LISTEN_FDS is \"%s\": socket activation must pass one socket",
                         count == NULL ? "" : count);
    return is_listening(*fd)
               ? 0
               : error_set(e, ERR_FORMAT, "fd %d, which LISTEN_FDS announces, does not listen", ACTIVATED_FD);
}

static int inherit(struct listener *out, struct error *e)
{
    static const char *const announcements[] = { "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES" };
    int passed, domain = 0;
    socklen_t len = sizeof(domain);

    int result = find_inherited(&passed, e);
    for (size_t i = 0; i < sizeof(announcements) / sizeof(announcements[0]); i++)
        unsetenv(announcements[i]); /* it is not there a second time */
    if (result != 0)
        return result;
    getsockopt(passed, SOL_SOCKET, SO_DOMAIN, &domain, &len);
    int fd = fcntl(passed, F_DUPFD_CLOEXEC, ACTIVATED_FD);
    if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        return error_set(e, ERR_SYSTEM, "cannot use fd %d: %s", passed, strerror(errno));
    if (passed != STDIN_FILENO) /* what takes its number would look like input */
        close(passed);
    *out = (struct listener){ .fd = fd, .is_tcp = domain != AF_UNIX };
    return 0;
}

/* What is accepted has it from the socket that listens: a chunk does not wait until the web server
 * has acknowledged the one before, and no connection costs a system call for it. */
static void send_at_once(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* By what an address begins with. */
static const struct kind {
    const char *name;
    int (*check)(const char *rest, struct error *e);
    int (*open)(const char *rest, struct listener *out, struct error *e);
} kinds[] = {
    { "unix:", check_unix, open_unix },
    { "tcp:", check_tcp, open_tcp },
};

/* NULL: none, which is an error. */
static const struct kind *kind_of(const char *address, const char **rest, struct error *e)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t len = strlen(kinds[i].name);
        if (strncmp(address, kinds[i].name, len) == 0) {
            *rest = address + len;
            return &kinds[i];
        }
    }
    error_set(e, ERR_FORMAT, "\"%s\" is neither unix:/path nor tcp:HOST:PORT", address);
    return NULL;
}

int listener_check(const char *address, struct error *e)
{
    const char *rest;
    const struct kind *kind = kind_of(address, &rest, e);
    return kind == NULL ? ERR_FORMAT : kind->check(rest, e);
}

static int open_at(const char *address, struct listener *out, struct error *e)
{
    const char *rest;
    const struct kind *kind = kind_of(address, &rest, e);
    return kind == NULL ? ERR_FORMAT : kind->open(rest, out, e);
}

int listener_open(const char *address, struct listener *out, struct error *e)
{
    struct listener opened = { .fd = -1 };

    int result = address == NULL ? inherit(&opened, e) : open_at(address, &opened, e);
    if (result == 0 && opened.is_tcp)
        send_at_once(opened.fd);
    if (result == 0)
        *out = opened;
    return result;
}

int listener_accept(const struct listener *listener, int flags, bool *is_told)
{
    int fd = accept4(listener->fd, NULL, NULL, flags | SOCK_CLOEXEC), cause = errno;
    bool is_exhausted = fd < 0 && (cause == EMFILE || cause == ENFILE || cause == ENOBUFS || cause == ENOMEM);

    if (is_exhausted && !*is_told)
        log_line(LOG_ERROR, "accept_failed", "%s: connections wait", strerror(cause));
    if (fd >= 0 || is_exhausted)
        *is_told = is_exhausted;
    errno = cause;
    return fd;
}

bool listener_is_ours(const struct listener *listener)
{
    return listener->path[0] != '\0' || listener->is_own_tcp;
}

void listener_shut(const struct listener *listener)
{
    if (listener_is_ours(listener))
        shutdown(listener->fd, SHUT_RD);
}

bool listener_is_shut(const struct listener *listener)
{
    struct pollfd p = { .fd = listener->fd, .events = POLLRDHUP };
    return poll(&p, 1, 0) == 1 && (p.revents & POLLRDHUP) != 0;
}

void listener_close(struct listener *listener)
{
    struct stat st;

    /* As long as the socket is open, its inode's number is given to no other. */
    if (listener->path[0] != '\0' && lstat(listener->path, &st) == 0 && st.st_ino == listener->inode)
        unlink(listener->path);
    listener_shut(listener);
    if (listener->fd >= 0)
        close(listener->fd);
    *listener = (struct listener){ .fd = -1 };
}
