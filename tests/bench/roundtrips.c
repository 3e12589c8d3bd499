/*
 * What a FastCGI program adds to a request: one caller, one request at a time.
 *
 *   roundtrips COUNT PORT HTTP_REQUEST FASTCGI_REQUEST SOCKET...
 *
 * In each of COUNT rounds, sends the file HTTP_REQUEST to 127.0.0.1:PORT on a kept
 * connection, and then the file FASTCGI_REQUEST to each SOCKET on a connection of
 * its own, as web servers do. Prints one line of JSON, times in microseconds:
 *
 *   direct_us   from before the write to the last byte of the reply's body
 *   socket_us   of each SOCKET, from before the connect to FCGI_END_REQUEST
 *
 * Any reply but a 200 ends it: a refusal is fast, and would be a good figure.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"

enum { SOCKETS_MAX = 4, REQUEST_BYTES = 16 * 1024, REPLY_BYTES = 64 * 1024 };
enum { RECORD_HEADER = 8, RECORD_STDOUT = 6, RECORD_END_REQUEST = 3 };

struct request {
    char bytes[REQUEST_BYTES];
    size_t len;
};

static void fail(const char *what)
{
    fprintf(stderr, "roundtrips: %s: %s\n", what, errno != 0 ? strerror(errno) : "not what was expected");
    exit(1);
}

static void read_request(struct request *request, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail(path);
    request->len = fread(request->bytes, 1, sizeof(request->bytes), file);
    fclose(file);
    if (request->len == sizeof(request->bytes))
        fail(path);
}

static void send_request(int fd, const struct request *request)
{
    if (send(fd, request->bytes, request->len, MSG_NOSIGNAL) != (ssize_t)request->len)
        fail("send");
}

/* More of the reply; `reply` stays a string. */
static void receive(int fd, char *reply, size_t *have)
{
    ssize_t n = recv(fd, reply + *have, REPLY_BYTES - 1 - *have, 0);
    if (n <= 0)
        fail("the reply breaks off");
    *have += (size_t)n;
    reply[*have] = '\0';
}

static bool is_whole_http(const char *reply, size_t have)
{
    const char *end = strstr(reply, "\r\n\r\n"), *length = strcasestr(reply, "\r\nContent-Length: ");
    if (end == NULL || length == NULL)
        return false;
    return have >= (size_t)(end - reply) + 4 + strtoul(length + strlen("\r\nContent-Length: "), NULL, 10);
}

static bool is_whole_fastcgi(const char *reply, size_t have)
{
    for (size_t at = 0; have - at >= RECORD_HEADER;) {
        const unsigned char *h = (const unsigned char *)reply + at;
        size_t len = RECORD_HEADER + ((size_t)h[4] << 8 | h[5]) + h[6];
        if (len > have - at)
            return false;
        if (h[1] == RECORD_END_REQUEST)
            return true;
        at += len;
    }
    return false;
}

static uint64_t ask_directly(int fd, const struct request *request)
{
    static char reply[REPLY_BYTES];
    size_t have = 0;

    uint64_t before = clock_monotonic_us();
    send_request(fd, request);
    do
        receive(fd, reply, &have);
    while (!is_whole_http(reply, have));
    uint64_t took = clock_monotonic_us() - before;
    if (strncmp(reply, "HTTP/1.1 200 ", strlen("HTTP/1.1 200 ")) != 0)
        fail(reply);
    return took;
}

static uint64_t ask_socket(const struct sockaddr_un *address, const struct request *request)
{
    static char reply[REPLY_BYTES];
    size_t have = 0;

    uint64_t before = clock_monotonic_us();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
        fail(address->sun_path);
    send_request(fd, request);
    do
        receive(fd, reply, &have);
    while (!is_whole_fastcgi(reply, have));
    uint64_t took = clock_monotonic_us() - before;
    close(fd);
    if (reply[1] != RECORD_STDOUT ||
        strncasecmp(reply + RECORD_HEADER, "Status: 200", strlen("Status: 200")) != 0)
        fail(address->sun_path);
    return took;
}

static int connect_upstream(unsigned port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)port),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail("the upstream");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    return fd;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_percentiles(uint64_t *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    printf("{\"p50\":%llu,\"p99\":%llu}", (unsigned long long)values[n / 2],
           (unsigned long long)values[n * 99 / 100]);
}

int main(int argc, char **argv)
{
    static struct request http, fastcgi;
    struct sockaddr_un sockets[SOCKETS_MAX] = { 0 };
    uint64_t *times[1 + SOCKETS_MAX]; /* directly, then by socket */
    int n_sockets = argc - 5;

    if (n_sockets < 1 || n_sockets > SOCKETS_MAX) {
        fprintf(stderr, "usage: roundtrips COUNT PORT HTTP_REQUEST FASTCGI_REQUEST SOCKET...\n");
        return 2;
    }
    size_t count = strtoul(argv[1], NULL, 10);
    read_request(&http, argv[3]);
    read_request(&fastcgi, argv[4]);
    for (int i = 0; i < n_sockets; i++) {
        sockets[i].sun_family = AF_UNIX;
        snprintf(sockets[i].sun_path, sizeof(sockets[i].sun_path), "%s", argv[5 + i]);
    }
    if (count == 0)
        return 2;
    for (int i = 0; i <= n_sockets; i++)
        times[i] = xcalloc(count, sizeof(*times[i]));

    int upstream = connect_upstream((unsigned)strtoul(argv[2], NULL, 10));
    for (size_t n = 0; n < count; n++) {
        times[0][n] = ask_directly(upstream, &http);
        for (int i = 0; i < n_sockets; i++)
            times[1 + i][n] = ask_socket(&sockets[i], &fastcgi);
    }
    close(upstream);

    printf("{\"direct_us\":");
    print_percentiles(times[0], count);
    printf(",\"socket_us\":[");
    for (int i = 0; i < n_sockets; i++) {
        if (i > 0)
            putchar(',');
        print_percentiles(times[1 + i], count);
    }
    puts("]}");
    for (int i = 0; i <= n_sockets; i++)
        free(times[i]);
    return 0;
}
