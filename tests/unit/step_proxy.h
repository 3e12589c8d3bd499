/*
 * A proxy before a Postgres that counts what the client sends, a message or a few at a
 * time, and does something to the client at a chosen one: so that a test can come between
 * any two steps of it.
 */
#ifndef TESTS_UNIT_STEP_PROXY_H
#define TESTS_UNIT_STEP_PROXY_H

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

enum step_act {
    STEP_KILL_BEFORE, /* the step does not reach the server */
    STEP_KILL_AFTER,  /* it does, and nobody is there for the answer */
    STEP_CUT_ANSWER,  /* it does, the server answers, and the client's connection ends instead */
    STEP_HOLD,        /* nothing goes on any more, in a process that waits to be killed */
};

struct step_proxy {
    int listener, port;
    char target[108]; /* the server's socket */
};

static inline void step_proxy_open(struct step_proxy *proxy, const char *server_dir)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(proxy->listener, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(proxy->listener, 8), 0);
    ck_assert_int_eq(getsockname(proxy->listener, (struct sockaddr *)&address, &size), 0);
    proxy->port = ntohs(address.sin_port);
    snprintf(proxy->target, sizeof(proxy->target), "%s/.s.PGSQL.5432", server_dir);
}

/* Hands on what there is to read; false: the sender has gone. */
static inline bool step_proxy_hand_on(int from, int to)
{
    static char bytes[1 << 20];
    ssize_t n = recv(from, bytes, sizeof(bytes), 0);
    return n > 0 && (to < 0 || send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n);
}

/* Serves one connection until it ends, or until step number `at` of it (0: the first one; -1: none), at
 * which `act` is done. Returns the number of steps; *is_done says whether it came to `at`. */
static inline int step_proxy_serve(const struct step_proxy *proxy, pid_t client, int at, enum step_act act,
                                   bool *is_done)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int steps = 0, down = accept(proxy->listener, NULL, NULL),
        up = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, proxy->target, sizeof(proxy->target));
    ck_assert_int_ge(down, 0);
    ck_assert_int_eq(connect(up, (struct sockaddr *)&address, sizeof(address)), 0);
    *is_done = false;
    while (!*is_done) {
        struct pollfd p[] = { { .fd = down, .events = POLLIN }, { .fd = up, .events = POLLIN } };
        poll(p, 2, -1);
        if ((p[1].revents & POLLIN) != 0 && !step_proxy_hand_on(up, down))
            break;
        if ((p[0].revents & (POLLIN | POLLHUP)) == 0)
            continue;
        if (recv(down, &(char){ 0 }, 1, MSG_PEEK) <= 0)
            break; /* its end is no step */
        *is_done = steps == at;
        if (*is_done && act == STEP_HOLD)
            pause();
        if (*is_done && act == STEP_KILL_BEFORE)
            kill(client, SIGKILL);
        else if (!step_proxy_hand_on(down, up))
            break;
        if (*is_done && act == STEP_KILL_AFTER)
            kill(client, SIGKILL);
        if (*is_done && act == STEP_CUT_ANSWER)
            step_proxy_hand_on(up, -1);
        steps++;
    }
    close(down);
    close(up);
    return steps;
}

#endif
