/*
 * A process that is stopped while it has something that others want. It ends with the
 * test's process, whatever the reason.
 */
#ifndef TESTS_UNIT_STOPPED_PROCESS_H
#define TESTS_UNIT_STOPPED_PROCESS_H

#include <check.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* It has called `take`, and is stopped; when it goes on it calls `give_back`, and ends. */
static inline pid_t stop_with(void (*take)(void), void (*give_back)(void))
{
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        take();
        raise(SIGSTOP);
        give_back();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
    return pid;
}

static inline void let_go_on(pid_t pid)
{
    int status;

    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
