/*
 * A client of many streams at once, for chunks of upstream.c on the same machine.
 *
 *   streams PORT STREAMS CHUNKS SPREAD_US <REQUEST
 *
 * Sends REQUEST, a whole HTTP/1.1 request, on STREAMS connections, whose starts
 * are spread evenly over SPREAD_US. Prints one line of JSON, times in
 * microseconds:
 *
 *   first_us   from the request's last byte to the first chunk's
 *   delay_us   of every chunk, from the upstream's write to our read
 *   whole      streams that had all their chunks; the others count as broken
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"

enum { STREAMS_MAX = 4096, REQUEST_BYTES = 16 * 1024, PATIENCE_MS = 10000 };

struct stream {
    int fd;
    uint64_t start_us; /* not before */
    uint64_t sent_us;  /* 0: not yet */
    unsigned n_chunks; /* seen so far */
    bool in_stamp;     /* between two '@' */
    uint64_t stamp_us; /* its digits so far */
};

/* What was measured, of all streams. */
static uint64_t *firsts, *delays;
static size_t n_firsts, n_delays;

static char request[REQUEST_BYTES];
static size_t request_len;
static unsigned chunks_per_stream;
static unsigned port;

static bool begin(struct stream *stream, int poll_fd)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)port),
    };
    struct epoll_event wish = { .events = EPOLLIN, .data.ptr = stream };

    /* On loopback a connection is there at once, and a request fits into its buffer. */
    stream->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (stream->fd < 0 || connect(stream->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        send(stream->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len ||
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, stream->fd, &wish) != 0) {
        perror("streams");
        return false;
    }
    stream->sent_us = clock_monotonic_us();
    return true;
}

/* Reads what is there; false at the stream's end. */
static bool read_on(struct stream *stream)
{
    char bytes[64 * 1024];
    ssize_t n = recv(stream->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    uint64_t now = clock_monotonic_us();

    if (n < 0)
        return errno == EAGAIN;
    for (ssize_t i = 0; i < n; i++) {
        char c = bytes[i];
        if (stream->in_stamp && c >= '0' && c <= '9') {
            stream->stamp_us = stream->stamp_us * 10 + (uint64_t)(c - '0');
        } else if (stream->in_stamp) {
            stream->in_stamp = false;
            if (stream->n_chunks == 0)
                firsts[n_firsts++] = now - stream->sent_us;
            if (stream->n_chunks++ < chunks_per_stream)
                delays[n_delays++] = now - stream->stamp_us;
        } else if (c == '@') {
            stream->in_stamp = true;
            stream->stamp_us = 0;
        }
    }
    return n > 0 && stream->n_chunks < chunks_per_stream;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_percentiles(const char *name, uint64_t *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    printf("\"%s\":{\"p50\":%llu,\"p99\":%llu}", name, n == 0 ? 0 : (unsigned long long)values[n / 2],
           n == 0 ? 0 : (unsigned long long)values[n * 99 / 100]);
}

/* Starts what is due. Milliseconds until the next start, 0 for one within this
 * one, -1 if all have started. */
static int start_due(struct stream *streams, unsigned n, unsigned *next, int poll_fd)
{
    for (; *next < n; (*next)++) {
        uint64_t now = clock_monotonic_us();
        if (streams[*next].start_us > now)
            return (int)((streams[*next].start_us - now) / 1000);
        if (!begin(&streams[*next], poll_fd))
            exit(1);
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct epoll_event events[64];
    unsigned next = 0, ended = 0, whole = 0;

    if (argc != 5) {
        fprintf(stderr, "usage: streams PORT STREAMS CHUNKS SPREAD_US <REQUEST\n");
        return 2;
    }
    port = (unsigned)strtoul(argv[1], NULL, 10);
    unsigned n = (unsigned)strtoul(argv[2], NULL, 10);
    chunks_per_stream = (unsigned)strtoul(argv[3], NULL, 10);
    uint64_t spread_us = strtoull(argv[4], NULL, 10);
    request_len = fread(request, 1, sizeof(request), stdin);
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (n == 0 || n > STREAMS_MAX || request_len == sizeof(request) || poll_fd < 0)
        return 2;
    struct stream *streams = xcalloc(n, sizeof(*streams));
    firsts = xcalloc(n, sizeof(*firsts));
    delays = xcalloc((size_t)n * chunks_per_stream, sizeof(*delays));
    uint64_t begun_us = clock_monotonic_us();
    for (unsigned i = 0; i < n; i++)
        streams[i].start_us = begun_us + spread_us * i / n;

    while (ended < n) {
        int until_start_ms = start_due(streams, n, &next, poll_fd);
        int ready = epoll_wait(poll_fd, events, 64, until_start_ms >= 0 ? until_start_ms : PATIENCE_MS);
        if (ready == 0 && until_start_ms < 0)
            break;
        for (int i = 0; i < ready; i++) {
            struct stream *stream = events[i].data.ptr;
            if (read_on(stream))
                continue;
            whole += stream->n_chunks == chunks_per_stream ? 1 : 0;
            close(stream->fd);
            ended++;
        }
    }
    printf("{\"whole\":%u,\"broken\":%u,", whole, n - whole);
    print_percentiles("first_us", firsts, n_firsts);
    putchar(',');
    print_percentiles("delay_us", delays, n_delays);
    puts("}");
    free(streams);
    free(firsts);
    free(delays);
    return 0;
}
