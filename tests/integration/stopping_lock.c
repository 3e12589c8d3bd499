/*
 * For LD_PRELOAD: a process that is stopped right after it has taken a lock of several processes.
 * It is the first one that does so while there is a file STOPPING_LOCK, which is then gone.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROBUST = 16 }; /* glibc's PTHREAD_MUTEX_ROBUST_NORMAL_NP */

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): glibc's are reserved names */
int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    int (*next)(pthread_mutex_t *);
    const char *armed = getenv("STOPPING_LOCK");

    /* ISO C has no cast from an object's pointer to a function's. */
    void *symbol = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    memcpy(&next, &symbol, sizeof(next));
    int r = next(mutex);
    if (r == 0 && armed != NULL && (mutex->__data.__kind & ROBUST) != 0 && unlink(armed) == 0)
        raise(SIGSTOP);
    return r;
}
