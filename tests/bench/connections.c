/*
 * The most that kept connections to the web server could save: a round trip between two processes
 * over a unix socket, on a connection of its own and on one that is kept.
 *
 *   connections COUNT
 *
 * COUNT of each, in batches that alternate. The server does what a worker does around a request and
 * nothing else: epoll, accept4, recv, send, shutdown, recv until the other has closed, close; on a
 * kept one, epoll, recv, send. The client does what a web server does: socket, connect, epoll_ctl,
 * send, epoll, recv, close; on a kept one, send, epoll, recv. Prints one line of JSON, microseconds of a
 * round trip and of both processes' CPU, means: {"new_us", "kept_us", "new_cpu_us", "kept_cpu_us"}.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"

enum { BATCH = 500, REQUEST_BYTES = 1200, REPLY_BYTES = 800 };

static char bytes[4096];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double cpu_us(clockid_t clock)
{
    struct timespec used;
    if (clock_gettime(clock, &used) != 0)
        fail("clock_gettime");
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

static int wait_for_one(int epoll)
{
    struct epoll_event event;
    if (epoll_wait(epoll, &event, 1, -1) != 1)
        fail("epoll_wait");
    return event.data.fd;
}

static void expect(ssize_t done, ssize_t wanted, const char *what)
{
    if (done != wanted)
        fail(what);
}

/* The first byte of a request says whether its connection is kept. */
static _Noreturn void serve(int listener)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    watch(epoll, listener);
    for (;;) {
        int fd = wait_for_one(epoll);
        bool is_new = fd == listener;
        if (is_new && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
            fail("accept4");
        expect(recv(fd, bytes, sizeof(bytes), 0), REQUEST_BYTES, "recv");
        bool is_kept = bytes[0] == 'k';
        if (is_new && is_kept)
            watch(epoll, fd);
        expect(send(fd, bytes, REPLY_BYTES, MSG_NOSIGNAL), REPLY_BYTES, "send");
        if (!is_kept) {
            shutdown(fd, SHUT_WR);
            expect(recv(fd, bytes, sizeof(bytes), 0), 0, "recv of the end");
            close(fd);
        }
    }
}

static int connect_to(const struct sockaddr_un *address, int epoll)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
        fail("connect");
    watch(epoll, fd);
    return fd;
}

static void ask(int fd, int epoll, char kind)
{
    static char request[REQUEST_BYTES], reply[REPLY_BYTES];
    request[0] = kind;
    expect(send(fd, request, sizeof(request), MSG_NOSIGNAL), sizeof(request), "send");
    wait_for_one(epoll);
    expect(recv(fd, reply, sizeof(reply), 0), sizeof(reply), "recv of a reply");
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int batches = argc < 2 ? 0 : atoi(argv[1]) / BATCH, epoll = epoll_create1(EPOLL_CLOEXEC);
    double took_us[2] = { 0 }, used_us[2] = { 0 };
    clockid_t of_server;

    if (batches < 1) {
        fputs("connections: COUNT is at least a batch of 500\n", stderr);
        return 2;
    }
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/connections.%ld", (long)getpid());
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 64) != 0)
        fail(address.sun_path);
    pid_t server = fork();
    if (server == 0)
        serve(listener);
    if (clock_getcpuclockid(server, &of_server) != 0)
        fail("clock_getcpuclockid");
    int kept = -1;
    for (int batch = -2; batch < 2 * batches; batch++) {
        int is_kept = batch & 1;
        if (is_kept && kept < 0)
            kept = connect_to(&address, epoll);
        double before = cpu_us(CLOCK_PROCESS_CPUTIME_ID) + cpu_us(of_server);
        uint64_t begun_us = clock_monotonic_us();
        for (int i = 0; i < BATCH; i++) {
            int fd = is_kept ? kept : connect_to(&address, epoll);
            ask(fd, epoll, is_kept ? 'k' : 'n');
            if (!is_kept)
                close(fd);
        }
        if (batch >= 0) { /* the first two warm it up */
            took_us[is_kept] += (double)(clock_monotonic_us() - begun_us);
            used_us[is_kept] += cpu_us(CLOCK_PROCESS_CPUTIME_ID) + cpu_us(of_server) - before;
        }
    }
    double count = (double)batches * BATCH;
    printf("{\"new_us\": %.2f, \"kept_us\": %.2f, \"new_cpu_us\": %.2f, \"kept_cpu_us\": %.2f}\n",
           took_us[0] / count, took_us[1] / count, used_us[0] / count, used_us[1] / count);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    unlink(address.sun_path);
    return 0;
}
