/*
 * The benchmark's upstream: answers chat completions at once, plain or streamed, and
 * speech.
 *
 *   upstream PORT_FILE CHUNKS INTERVAL_US
 *
 * Listens on a free loopback port and writes it to PORT_FILE. A body that says
 * "stream":true gets CHUNKS chunks, the first at once and then one every
 * INTERVAL_US; each one's content is "@TIME@", the monotonic clock in
 * microseconds when it was written, for streams.c on the same machine. A body that
 * says "user":"patient" is answered one INTERVAL_US later than others.
 *
 * What is asked below /refused is answered 401, as by a provider that does not know the key.
 *
 * Speech is silence, a second of 24 kHz and 16 bits for each character of the input,
 * as fast as it is taken. No head and no length of a chunk has its byte, which is 0.
 *
 * One thread, epoll, connections kept: it has to be faster than whatever is
 * measured in front of it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "tests/bench/reply.h"

enum {
    PEERS_MAX = 4096, /* above any descriptor of ours */
    BUFFER_BYTES = 1024 * 1024,
    BACKLOG = 1024,
    SPEECH_BYTES_PER_S = 48000,
    SPEECH_PIECE_BYTES = 16 * 1024,
};

struct peer {
    struct buf in, out;
    bool closes;          /* after the reply */
    bool is_late;         /* its plain reply is due, and not yet written */
    unsigned chunks_left; /* of the stream under way */
    uint64_t due_us;      /* of its next chunk, or of the plain reply */
    size_t speech_left;   /* bytes of the speech under way */
};

static struct peer *peers[PEERS_MAX]; /* by descriptor */
static int peers_end;                 /* above the highest descriptor so far */
static unsigned chunks_per_stream;
static uint64_t interval_us;

static void forget(int fd)
{
    buf_free(&peers[fd]->in);
    buf_free(&peers[fd]->out);
    free(peers[fd]);
    peers[fd] = NULL;
    close(fd);
}

static void append_chunk(struct buf *out, const char *event)
{
    buf_printf(out, "%zx\r\n%s\r\n", strlen(event), event);
}

static void append_next(struct peer *peer)
{
    char event[320];

    snprintf(event, sizeof(event),
             "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"
             "\"model\":\"real-model\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@%llu@\"},"
             "\"finish_reason\":null}]}\n\n",
             (unsigned long long)clock_monotonic_us());
    append_chunk(&peer->out, event);
    peer->due_us += interval_us;
    if (--peer->chunks_left > 0)
        return;
    append_chunk(
        &peer->out,
        "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"
        "\"model\":\"real-model\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}"
        "\n\n");
    append_chunk(&peer->out, "data: [DONE]\n\n");
    buf_append_cstr(&peer->out, "0\r\n\r\n");
}

static void append_speech(struct peer *peer)
{
    static const char silence[SPEECH_PIECE_BYTES];
    size_t len = peer->speech_left < sizeof(silence) ? peer->speech_left : sizeof(silence);

    buf_printf(&peer->out, "%zx\r\n", len);
    buf_append(&peer->out, silence, len);
    buf_append_cstr(&peer->out, "\r\n");
    peer->speech_left -= len;
    if (peer->speech_left == 0)
        buf_append_cstr(&peer->out, "0\r\n\r\n");
}

static void answer_speech(struct peer *peer, const char *body)
{
    const char *input = strstr(body, "\"input\":\"");
    size_t characters = input == NULL ? 0 : strcspn(input + strlen("\"input\":\""), "\"");

    buf_printf(&peer->out,
               "HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n"
               "Connection: %s\r\n\r\n",
               peer->closes ? "close" : "keep-alive");
    peer->speech_left = characters * SPEECH_BYTES_PER_S;
    append_speech(peer);
}

static const char *connection_of(const struct peer *peer)
{
    return peer->closes ? "close" : "keep-alive";
}

static void append_plain(struct peer *peer)
{
    peer->is_late = false;
    buf_printf(&peer->out,
               "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
               "Connection: %s\r\n\r\n%s",
               sizeof(bench_reply) - 1, connection_of(peer), bench_reply);
}

static void refuse(struct peer *peer)
{
    static const char reply[] = "{\"error\":{\"message\":\"Incorrect API key provided.\",\"type\":"
                                "\"invalid_request_error\",\"param\":null,\"code\":\"invalid_api_key\"}}";
    buf_printf(&peer->out,
               "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
               "Connection: %s\r\n\r\n%s",
               sizeof(reply) - 1, connection_of(peer), reply);
}

static void answer(struct peer *peer, const char *body)
{
    uint64_t wait_us = strstr(body, "\"user\":\"patient\"") == NULL ? 0 : interval_us;

    peer->due_us = clock_monotonic_us() + wait_us;
    if (strstr(body, "\"stream\":true") == NULL) {
        peer->is_late = wait_us > 0;
        if (!peer->is_late)
            append_plain(peer);
        return;
    }
    buf_printf(&peer->out,
               "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
               "Connection: %s\r\n\r\n",
               connection_of(peer));
    peer->chunks_left = chunks_per_stream;
    if (wait_us == 0)
        append_next(peer);
}

/* Answers the request at the front of what was read, if it is whole. */
static bool take_request(struct peer *peer)
{
    if (peer->in.len == 0 || peer->is_late || peer->chunks_left > 0 || peer->speech_left > 0)
        return false;
    buf_append_char(&peer->in, '\0'); /* for strstr; taken back below */
    peer->in.len--;
    char *end = strstr(peer->in.data, "\r\n\r\n");
    if (end == NULL)
        return false;
    size_t head = (size_t)(end - peer->in.data) + 4;
    end[2] = '\0'; /* the head is a string of its own, until it is put back */
    const char *length = strcasestr(peer->in.data, "\r\ncontent-length:");
    size_t body = length == NULL ? 0 : strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    peer->closes = strcasestr(peer->in.data, "\r\nconnection: close") != NULL;
    bool is_speech = strstr(peer->in.data, "/audio/speech ") != NULL;
    bool is_refused = strstr(peer->in.data, " /refused/") != NULL;
    end[2] = '\r';
    if (peer->in.len < head + body)
        return false;
    if (is_refused)
        refuse(peer);
    else if (is_speech)
        answer_speech(peer, peer->in.data + head);
    else
        answer(peer, peer->in.data + head);
    buf_consume(&peer->in, head + body);
    return true;
}

/* False: the peer is to be forgotten. */
static bool flush(int fd, struct peer *peer)
{
    while (peer->out.len > 0) {
        ssize_t n = send(fd, peer->out.data, peer->out.len, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN;
        buf_consume(&peer->out, (size_t)n);
        if (peer->out.len == 0 && peer->speech_left > 0)
            append_speech(peer);
    }
    return peer->is_late || peer->chunks_left > 0 || !peer->closes;
}

static bool read_all(int fd, struct peer *peer)
{
    char piece[64 * 1024];

    for (;;) {
        ssize_t n = recv(fd, piece, sizeof(piece), 0);
        if (n < 0)
            return errno == EAGAIN;
        if (n == 0 || buf_append(&peer->in, piece, (size_t)n) != 0)
            return false;
    }
}

static void turn(int fd)
{
    struct peer *peer = peers[fd];
    bool lives = read_all(fd, peer);

    while (lives && take_request(peer))
        ;
    if (!lives || !flush(fd, peer))
        forget(fd);
}

static void accept_all(int listener, int poll_fd)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event wish = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd };
        if (fd >= PEERS_MAX || epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &wish) != 0) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        peers[fd] = xcalloc(1, sizeof(*peers[fd]));
        peers_end = fd >= peers_end ? fd + 1 : peers_end;
        buf_init(&peers[fd]->in, BUFFER_BYTES);
        buf_init(&peers[fd]->out, BUFFER_BYTES);
    }
}

/* Writes what is due; returns the milliseconds until the next, or -1. */
static int stream_on(void)
{
    uint64_t now = clock_monotonic_us(), next = UINT64_MAX;

    for (int fd = 0; fd < peers_end; fd++) {
        struct peer *peer = peers[fd];
        if (peer == NULL || (!peer->is_late && peer->chunks_left == 0))
            continue;
        if (peer->due_us <= now) {
            if (peer->is_late)
                append_plain(peer);
            else
                append_next(peer);
            if (!flush(fd, peer)) {
                forget(fd);
                continue;
            }
        }
        if ((peer->is_late || peer->chunks_left > 0) && peer->due_us < next)
            next = peer->due_us;
    }
    if (next == UINT64_MAX)
        return -1;
    return next <= now ? 0 : (int)((next - now + 999) / 1000);
}

static int listen_on_free_port(const char *port_file)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    struct error e;
    char text[16];

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        perror("upstream");
        exit(1);
    }
    snprintf(text, sizeof(text), "%d\n", ntohs(address.sin_port));
    if (file_replace(port_file, span_cstr(text), 0600, &e) != 0) {
        fprintf(stderr, "upstream: %s\n", e.text);
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    struct epoll_event events[256];
    int wait_ms = -1;

    if (argc != 4) {
        fprintf(stderr, "usage: upstream PORT_FILE CHUNKS INTERVAL_US\n");
        return 2;
    }
    chunks_per_stream = (unsigned)strtoul(argv[2], NULL, 10);
    interval_us = strtoull(argv[3], NULL, 10);
    int listener = listen_on_free_port(argv[1]);
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wish = { .events = EPOLLIN, .data.fd = listener };
    if (poll_fd < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &wish) != 0)
        return 1;
    for (;;) {
        int n = epoll_wait(poll_fd, events, sizeof(events) / sizeof(events[0]), wait_ms);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                accept_all(listener, poll_fd);
            else if (peers[events[i].data.fd] != NULL)
                turn(events[i].data.fd);
        }
        wait_ms = stream_on();
    }
}
