/*
 * For LD_PRELOAD: a program whose master and roles go on, and none of whose workers can begin, for
 * as long as there is a file of the name that NO_WORKERS has.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

static bool is_lacking(void)
{
    const char *file = getenv("NO_WORKERS");
    char name[16 + 1] = ""; /* PR_GET_NAME(2const) */

    prctl(PR_GET_NAME, name);
    return strcmp(name, "worker") == 0 && file != NULL && access(file, F_OK) == 0;
}

int epoll_create1(int flags)
{
    int (*next)(int);
    void *symbol = dlsym(RTLD_NEXT, "epoll_create1"); /* cast as in failing_fork.c */

    if (is_lacking()) {
        errno = EMFILE;
        return -1;
    }
    memcpy(&next, &symbol, sizeof(next));
    return next(flags);
}
