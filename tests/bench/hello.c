/*
 * The bare alternative: a FastCGI program on libfcgi that reads the request and
 * answers a constant. What it costs is what any FastCGI program costs here.
 *
 *   hello SOCKET WORKERS
 *
 * Prefork, as llm-router is. Its children end with it.
 */
#include <fcgiapp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/reply.h"

enum { BACKLOG = 1024 };

static int serve(int listener)
{
    FCGX_Request request;
    char body[16 * 1024];

    if (FCGX_InitRequest(&request, listener, 0) != 0)
        return 1;
    while (FCGX_Accept_r(&request) == 0) {
        while (FCGX_GetStr(body, sizeof(body), request.in) == (int)sizeof(body))
            ;
        FCGX_FPrintF(request.out,
                     "Status: 200\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
                     (int)sizeof(bench_reply) - 1);
        FCGX_PutStr(bench_reply, (int)sizeof(bench_reply) - 1, request.out);
        FCGX_Finish_r(&request);
    }
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 3 || FCGX_Init() != 0) {
        fprintf(stderr, "usage: hello SOCKET WORKERS\n");
        return 2;
    }
    int listener = FCGX_OpenSocket(argv[1], BACKLOG);
    if (listener < 0)
        return 1;
    pid_t parent = getpid();
    for (long n = strtol(argv[2], NULL, 10); n > 0; n--) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        return getppid() == parent ? serve(listener) : 1;
    }
    while (wait(NULL) > 0)
        ;
    return 1; /* no worker ends by itself */
}
