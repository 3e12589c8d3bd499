/*
 * For LD_PRELOAD: a machine on which no process and no thread can be made, for as long as
 * there is a file of the name that NO_PROCESSES has.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_lacking(void)
{
    const char *file = getenv("NO_PROCESSES");
    return file != NULL && access(file, F_OK) == 0;
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): glibc's are reserved names */
pid_t fork(void)
{
    pid_t (*next)(void);
    void *symbol = dlsym(RTLD_NEXT, "fork"); /* ISO C has no cast from an object's pointer to a function's */

    if (is_lacking()) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(&next, &symbol, sizeof(next));
    return next();
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                   void *(*run)(void *), void *restrict argument)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");

    if (is_lacking())
        return EAGAIN;
    memcpy(&next, &symbol, sizeof(next));
    return next(thread, attributes, run, argument);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
