/*
 * Many callers of a web server, of whom some leave: a load, and what each got.
 *
 *   callers PORT COUNT CALLERS LEAVERS_PERCENT LEAVE_US REQUEST_FILE...
 *
 * CALLERS connections make COUNT requests in all, each of them one of the files (a whole
 * HTTP/1.1 request), drawn at random; a file that stands there twice is drawn twice as
 * often. So many of a hundred leave: by FIN or by RST, at a moment drawn evenly from the
 * first LEAVE_US microseconds, or when their reply is whole, if that is earlier.
 *
 * Four times a second, and at the end, prints a line of JSON with the totals so far:
 *
 *   asked           requests that have ended, in any way
 *   served          replies that were 200 and whole; a stream of events had its "[DONE]"
 *   left_silent     callers that left before the first byte
 *   left_midway     in the middle
 *   left_whole      with the whole reply
 *   trouble         everything else; what it was is on stderr, the first few times
 *
 * `served` holds none of those who left.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/span.h"

enum {
    CALLERS_MAX = 1024,
    REQUESTS_MAX = 32,
    REQUEST_BYTES = 64 * 1024,
    HEAD_BYTES = 4096,
    PATIENCE_US = 30 * 1000 * 1000, /* who has no reply by then hangs */
    TICK_MS = 1,
    TELL_US = 250 * 1000,
    TROUBLES_TOLD = 10,
};

struct request {
    char *bytes;
    size_t len;
};

enum part { HEAD, SIZED_BODY, CHUNK_SIZE, CHUNK, CHUNK_END, LAST_LINE, WHOLE };

struct caller {
    int fd;            /* -1: not connected */
    bool is_kept;      /* the connection has served before */
    bool has_asked;    /* and is waiting for the reply */
    bool is_leaver;    /* this time */
    uint64_t begun_us; /* of the request in hand */
    uint64_t leave_us;
    size_t n_bytes; /* of the reply so far */
    enum part part;
    char head[HEAD_BYTES];
    size_t head_len;
    size_t left; /* of the body, or of the chunk under way */
    bool is_stream, closes;
    char tail[16]; /* the last bytes of the body */
};

static const char terminal_mark[] = "data: [DONE]\n\n";

static struct request requests[REQUESTS_MAX];
static unsigned n_requests;
static struct sockaddr_in address;
static unsigned leavers_percent;
static uint64_t leave_within_us;
static unsigned long begun, count;
static unsigned long served, left_silent, left_midway, left_whole, trouble;
static int poll_fd;

static unsigned long ended(void)
{
    return served + left_silent + left_midway + left_whole + trouble;
}

static void print_totals(void)
{
    printf("{\"asked\":%lu,\"served\":%lu,\"left_silent\":%lu,\"left_midway\":%lu,\"left_whole\":%lu,"
           "\"trouble\":%lu}\n",
           ended(), served, left_silent, left_midway, left_whole, trouble);
    fflush(stdout);
}

/* Closing takes the descriptor out of the poll's set, too. */
static void hang_up(struct caller *caller)
{
    if (caller->fd >= 0)
        close(caller->fd);
    caller->fd = -1;
    caller->has_asked = false;
}

static void tell(struct caller *caller, const char *what)
{
    if (trouble++ < TROUBLES_TOLD)
        fprintf(stderr, "callers: %s: after %llu us and %zu bytes, %.*s\n", what,
                (unsigned long long)(clock_monotonic_us() - caller->begun_us), caller->n_bytes,
                (int)caller->head_len, caller->head);
    hang_up(caller);
}

static bool connect_caller(struct caller *caller)
{
    struct epoll_event wish = { .events = EPOLLIN, .data.ptr = caller };

    caller->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (caller->fd < 0 || connect(caller->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        setsockopt(caller->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)) != 0 ||
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, caller->fd, &wish) != 0)
        return false;
    caller->is_kept = false;
    return true;
}

static bool send_request(const struct caller *caller, const struct request *request)
{
    return send(caller->fd, request->bytes, request->len, MSG_NOSIGNAL) == (ssize_t)request->len;
}

/* The next request of a caller, if there is one. */
static void ask(struct caller *caller)
{
    if (begun == count)
        return;
    const struct request *request = &requests[(unsigned long)random() % n_requests];
    begun++;
    caller->begun_us = clock_monotonic_us();
    caller->is_leaver = (unsigned long)random() % 100 < leavers_percent;
    caller->leave_us = caller->begun_us + (uint64_t)random() % leave_within_us;
    caller->n_bytes = caller->head_len = 0;
    caller->part = HEAD;
    memset(caller->tail, 0, sizeof(caller->tail));
    bool is_sent = caller->fd >= 0 && send_request(caller, request);
    if (!is_sent && (caller->fd < 0 || caller->is_kept)) { /* a kept one may have been closed */
        hang_up(caller);
        is_sent = connect_caller(caller) && send_request(caller, request);
    }
    caller->has_asked = is_sent;
    if (!is_sent)
        tell(caller, strerror(errno));
}

/* --- replies --- */

static const char *find_header(const char *head, const char *name)
{
    const char *at = strcasestr(head, name);
    return at == NULL ? NULL : at + strlen(name);
}

/* What follows the head, which is whole. False: it is not the head of a good reply. */
static bool read_head(struct caller *caller)
{
    const char *head = caller->head, *length = find_header(head, "\r\ncontent-length: ");
    const char *type = find_header(head, "\r\ncontent-type: ");

    caller->is_stream = type != NULL && strncmp(type, "text/event-stream", 17) == 0;
    caller->closes = find_header(head, "\r\nconnection: close") != NULL;
    caller->left = length == NULL ? 0 : strtoul(length, NULL, 10);
    if (length != NULL)
        caller->part = caller->left > 0 ? SIZED_BODY : WHOLE;
    else if (find_header(head, "\r\ntransfer-encoding: chunked") != NULL)
        caller->part = CHUNK_SIZE;
    return caller->part != HEAD && strncmp(head, "HTTP/1.1 200 ", strlen("HTTP/1.1 200 ")) == 0;
}

static void keep_tail(struct caller *caller, const char *bytes, size_t len)
{
    size_t kept = sizeof(caller->tail);
    if (len < kept) {
        memmove(caller->tail, caller->tail + len, kept - len);
        memcpy(caller->tail + kept - len, bytes, len);
    } else {
        memcpy(caller->tail, bytes + len - kept, kept);
    }
}

/* One byte of the framing. False: it is wrong. */
static bool take_framing(struct caller *caller, char c)
{
    switch (caller->part) {
    case HEAD:
        if (caller->head_len == sizeof(caller->head) - 1)
            return false;
        caller->head[caller->head_len++] = c;
        caller->head[caller->head_len] = '\0';
        if (caller->head_len >= 4 && memcmp(caller->head + caller->head_len - 4, "\r\n\r\n", 4) == 0)
            return read_head(caller);
        return true;
    case CHUNK_SIZE:
        if (c == '\n')
            caller->part = caller->left > 0 ? CHUNK : LAST_LINE;
        else if (c >= '0' && c <= '9')
            caller->left = caller->left * 16 + (size_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            caller->left = caller->left * 16 + (size_t)((c | 32) - 'a' + 10);
        else
            return c == '\r';
        return true;
    case CHUNK_END:
    case LAST_LINE:
        if (c == '\n')
            caller->part = caller->part == CHUNK_END ? CHUNK_SIZE : WHOLE;
        return c == '\r' || c == '\n';
    case SIZED_BODY:
    case CHUNK:
    case WHOLE:
        break;
    }
    return false; /* more than the whole */
}

static bool take_bytes(struct caller *caller, const char *bytes, size_t len)
{
    caller->n_bytes += len;
    while (len > 0) {
        if (caller->part != SIZED_BODY && caller->part != CHUNK) {
            if (!take_framing(caller, *bytes++))
                return false;
            len--;
            continue;
        }
        size_t n = len < caller->left ? len : caller->left;
        keep_tail(caller, bytes, n);
        bytes += n;
        len -= n;
        caller->left -= n;
        if (caller->left == 0)
            caller->part = caller->part == SIZED_BODY ? WHOLE : CHUNK_END;
    }
    return true;
}

static bool has_terminal_mark(const struct caller *caller)
{
    size_t len = strlen(terminal_mark);
    return memcmp(caller->tail + sizeof(caller->tail) - len, terminal_mark, len) == 0;
}

/* By RST every second time: nothing is flushed, nothing waited for. */
static void leave(struct caller *caller)
{
    if (random() % 2 == 0)
        setsockopt(caller->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
                   sizeof(struct linger));
    if (caller->n_bytes == 0)
        left_silent++;
    else if (caller->part == WHOLE)
        left_whole++;
    else
        left_midway++;
    hang_up(caller);
}

static void finish(struct caller *caller)
{
    if (caller->is_stream && !has_terminal_mark(caller)) {
        tell(caller, "a stream without its terminal mark");
        return;
    }
    if (caller->is_leaver) {
        leave(caller);
        return;
    }
    served++;
    caller->has_asked = false;
    caller->is_kept = true;
    if (caller->closes)
        hang_up(caller);
}

/* Reads what is there, and asks anew if that was the end of a reply. */
static void turn(struct caller *caller)
{
    static char bytes[64 * 1024];
    ssize_t n = recv(caller->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return;
    if (!caller->has_asked) { /* a kept connection, closed while nobody asked */
        hang_up(caller);
        return;
    }
    if (n <= 0)
        tell(caller, n == 0 ? "the connection ended" : strerror(errno));
    else if (!take_bytes(caller, bytes, (size_t)n))
        tell(caller, "not the reply that was expected");
    else if (caller->part == WHOLE)
        finish(caller);
    if (!caller->has_asked)
        ask(caller);
}

/* Of callers whose time has come; and of those that have waited for too long. */
static void look_at_clock(struct caller *callers, size_t n)
{
    uint64_t now = clock_monotonic_us();

    for (size_t i = 0; i < n; i++) {
        struct caller *caller = &callers[i];
        if (caller->has_asked && caller->is_leaver && now >= caller->leave_us)
            leave(caller);
        else if (caller->has_asked && now >= caller->begun_us + PATIENCE_US)
            tell(caller, "no whole reply in time");
        if (!caller->has_asked)
            ask(caller);
    }
}

/* --- the beginning --- */

static bool read_request(struct request *request, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    request->bytes = xmalloc(REQUEST_BYTES);
    request->len = fread(request->bytes, 1, REQUEST_BYTES, file);
    fclose(file);
    return request->len > 0 && request->len < REQUEST_BYTES;
}

int main(int argc, char **argv)
{
    struct epoll_event events[64];

    if (argc < 7 || argc - 6 > REQUESTS_MAX) {
        fprintf(stderr, "usage: callers PORT COUNT CALLERS LEAVERS_PERCENT LEAVE_US REQUEST_FILE...\n");
        return 2;
    }
    address = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10)),
    };
    count = strtoul(argv[2], NULL, 10);
    size_t n_callers = strtoul(argv[3], NULL, 10);
    leavers_percent = (unsigned)strtoul(argv[4], NULL, 10);
    leave_within_us = strtoull(argv[5], NULL, 10);
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (n_callers == 0 || n_callers > CALLERS_MAX || leave_within_us == 0 || poll_fd < 0)
        return 2;
    for (int i = 6; i < argc; i++) {
        if (!read_request(&requests[n_requests++], argv[i])) {
            fprintf(stderr, "callers: %s is no request\n", argv[i]);
            return 2;
        }
    }
    struct caller *callers = xcalloc(n_callers, sizeof(*callers));
    for (size_t i = 0; i < n_callers; i++) {
        callers[i].fd = -1;
        ask(&callers[i]);
    }
    for (uint64_t told_us = clock_monotonic_us(); ended() < count;) {
        int n = epoll_wait(poll_fd, events, sizeof(events) / sizeof(events[0]), TICK_MS);
        for (int i = 0; i < n; i++)
            turn(events[i].data.ptr);
        look_at_clock(callers, n_callers);
        if (clock_monotonic_us() >= told_us + TELL_US) {
            told_us += TELL_US;
            print_totals();
        }
    }
    print_totals();
    for (size_t i = 0; i < n_callers; i++)
        hang_up(&callers[i]);
    free(callers);
    for (unsigned i = 0; i < n_requests; i++)
        free(requests[i].bytes);
    return 0;
}
