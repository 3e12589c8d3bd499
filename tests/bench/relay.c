/*
 * The floor of a FastCGI program that asks an upstream: takes a request from the web server, sends its body
 * on to upstream.c by a kept connection, and passes on what comes as it comes. Nothing is checked, chosen,
 * counted or written down, no library is asked, and no system call is made that could be spared.
 *
 *   relay SOCKET WORKERS UPSTREAM_PORT
 *
 * Prefork, as llm-router is. Its children end with it. It understands lighttpd's requests and upstream.c's
 * replies, and gives up at anything else.
 */
#include <arpa/inet.h>
#include <fastcgi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKLOG = 1024, BYTES = 64 * 1024 };

static const char end_of_request[] = {
    FCGI_VERSION_1, FCGI_STDOUT,      0, 1, 0, 0, 0, 0, /* an empty record: the reply's end */
    FCGI_VERSION_1, FCGI_END_REQUEST, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, FCGI_REQUEST_COMPLETE, 0, 0, 0,
};

static _Noreturn void give_up(const char *why)
{
    fprintf(stderr, "relay: %s\n", why);
    exit(1);
}

/* The body of a request, in `body`: its length. */
static size_t take_request(int fd, char *body)
{
    static char wire[BYTES];
    size_t have = 0, at = 0, len = 0;

    for (;;) {
        ssize_t n = recv(fd, wire + have, sizeof(wire) - have, 0);
        if (n <= 0)
            give_up("half a request");
        have += (size_t)n;
        while (have - at >= FCGI_HEADER_LEN) {
            const unsigned char *head = (unsigned char *)wire + at;
            size_t content = (size_t)head[4] << 8 | head[5];
            if (have - at < FCGI_HEADER_LEN + content + head[6])
                break;
            at += FCGI_HEADER_LEN + content + head[6];
            if (head[1] != FCGI_STDIN)
                continue;
            if (content == 0)
                return len;
            memcpy(body + len, head + FCGI_HEADER_LEN, content);
            len += content;
        }
    }
}

/* One record of these two pieces; at the reply's end what ends it, with it. */
static void pass_on(int fd, const char *head, size_t head_len, const char *text, size_t len, int is_end)
{
    size_t content = head_len + len;
    char header[FCGI_HEADER_LEN] = { FCGI_VERSION_1,       FCGI_STDOUT,   0, 1,
                                     (char)(content >> 8), (char)content, 0, 0 };
    struct iovec pieces[] = {
        { header, sizeof(header) },
        { (char *)(uintptr_t)head, head_len },
        { (char *)(uintptr_t)text, len },
        { (char *)(uintptr_t)end_of_request, is_end ? sizeof(end_of_request) : 0 },
    };
    struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 4 };
    if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
        give_up("the web server has left");
}

static void send_request(int upstream, const char *body, size_t len)
{
    char head[256];
    int n = snprintf(head, sizeof(head),
                     "POST /v1/chat/completions HTTP/1.1\r\nHost: upstream\r\nContent-Type: "
                     "application/json\r\nContent-Length: %zu\r\n\r\n",
                     len);
    struct iovec pieces[] = { { head, (size_t)n }, { (char *)(uintptr_t)body, len } };
    struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 2 };
    if (sendmsg(upstream, &message, MSG_NOSIGNAL) < 0)
        give_up("the upstream has left");
}

/* Chunks that have come whole, each with the head in front of the first; 1: the last one was among them. */
static int pass_on_chunks(int fd, const char **head, size_t *at, char *bytes, size_t *have)
{
    char *end;
    for (;;) {
        bytes[*have] = '\0';
        size_t len = strtoul(bytes + *at, &end, 16);
        size_t begin = (size_t)(end - bytes) + 2;
        if (begin > *have || begin + len + 2 > *have)
            break;
        pass_on(fd, *head, strlen(*head), bytes + begin, len, len == 0);
        *head = "";
        *at = begin + len + 2;
        if (len == 0)
            return 1;
    }
    memmove(bytes, bytes + *at, *have - *at);
    *have -= *at;
    *at = 0;
    return 0;
}

static void relay(int fd, int upstream)
{
    static char bytes[BYTES];
    const char *cgi = "Status: 200\r\nContent-Type: application/json\r\n\r\n", *length;
    char *end = NULL;
    size_t have = 0;

    send_request(upstream, bytes, take_request(fd, bytes));
    while (end == NULL) {
        ssize_t n = recv(upstream, bytes + have, sizeof(bytes) - 1 - have, 0);
        if (n <= 0)
            give_up("half a head");
        have += (size_t)n;
        bytes[have] = '\0';
        end = strstr(bytes, "\r\n\r\n");
    }
    size_t at = (size_t)(end - bytes) + 4;
    length = strstr(bytes, "Content-Length: ");
    if (length != NULL && length < end) {
        if (have - at != strtoul(length + strlen("Content-Length: "), NULL, 10))
            give_up("a plain reply in pieces");
        pass_on(fd, cgi, strlen(cgi), bytes + at, have - at, 1);
        return;
    }
    cgi = "Status: 200\r\nContent-Type: text/event-stream\r\n\r\n";
    while (!pass_on_chunks(fd, &cgi, &at, bytes, &have)) {
        ssize_t n = recv(upstream, bytes + have, sizeof(bytes) - 1 - have, 0);
        if (n <= 0)
            give_up("half a stream");
        have += (size_t)n;
    }
}

static int serve(int listener, in_port_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int upstream = socket(AF_INET, SOCK_STREAM, 0);

    if (connect(upstream, (struct sockaddr *)&address, sizeof(address)) != 0)
        give_up("no upstream");
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            return 1;
        relay(fd, upstream);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (argc != 4 || strlen(argv[1]) >= sizeof(address.sun_path)) {
        fprintf(stderr, "usage: relay SOCKET WORKERS UPSTREAM_PORT\n");
        return 2;
    }
    strcpy(address.sun_path, argv[1]);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, BACKLOG) != 0)
        give_up("nowhere to listen");
    pid_t parent = getpid();
    for (long n = strtol(argv[2], NULL, 10); n > 0; n--) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        return getppid() == parent ? serve(listener, (in_port_t)strtol(argv[3], NULL, 10)) : 1;
    }
    while (wait(NULL) > 0)
        ;
    return 1; /* no worker ends by itself */
}
