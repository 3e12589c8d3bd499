/*
 * A Redis of the test's own, on a unix socket in a temporary directory. It ends with the
 * test's process, whatever the reason.
 */
#ifndef TESTS_UNIT_REDIS_SERVER_H
#define TESTS_UNIT_REDIS_SERVER_H

#include <check.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct redis_server {
    pid_t pid;
    char dir[64], socket[80], url[96];
    redisContext *admin;
};

/* Starts it, or starts it again, with nothing in it. */
static inline void redis_server_start(struct redis_server *server)
{
    struct timeval patience = { .tv_sec = 30 };

    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!freopen("/dev/null", "w", stdout);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server->socket, "--dir",
               server->dir, "--save", "", "--appendonly", "no", NULL);
        _exit(127);
    }
    for (int tries = 0;; tries++) {
        server->admin = redisConnectUnix(server->socket);
        if (server->admin != NULL && server->admin->err == 0)
            break;
        redisFree(server->admin);
        ck_assert_msg(tries < 600 && waitpid(server->pid, NULL, WNOHANG) == 0,
                      "the private Redis did not start");
        usleep(20000);
    }
    redisSetTimeout(server->admin, patience);
}

/* Ends it at once. */
static inline void redis_server_end(struct redis_server *server)
{
    redisFree(server->admin);
    server->admin = NULL;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
    unlink(server->socket);
}

static inline void redis_server_make(struct redis_server *server)
{
    strcpy(server->dir, "/tmp/test_redis.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(server->dir));
    snprintf(server->socket, sizeof(server->socket), "%s/s", server->dir);
    snprintf(server->url, sizeof(server->url), "unix:%s", server->socket);
    redis_server_start(server);
}

static inline void redis_server_remove(struct redis_server *server)
{
    if (server->pid > 0)
        redis_server_end(server);
    rmdir(server->dir);
}

/* Runs a command, which has to succeed: its number, or the length of its text or list. */
static inline long long __attribute__((format(printf, 2, 3)))
redis_server_do(struct redis_server *server, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    redisReply *reply = redisvCommand(server->admin, format, args);
    va_end(args);
    ck_assert_msg(reply != NULL && reply->type != REDIS_REPLY_ERROR, "%s: %s", format,
                  reply != NULL ? reply->str : server->admin->errstr);
    long long number = reply->type == REDIS_REPLY_INTEGER ? reply->integer
                       : reply->type == REDIS_REPLY_ARRAY ? (long long)reply->elements
                                                          : (long long)reply->len;
    freeReplyObject(reply);
    return number;
}

#endif
