#include "core/base/shared_mutex.h"

#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "core/base/clock.h"

int shared_mutex_init(struct shared_mutex *mutex)
{
    pthread_mutexattr_t shared;
    int r = pthread_mutexattr_init(&shared);

    if (r != 0)
        return r;
    if ((r = pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED)) == 0 &&
        (r = pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST)) == 0)
        r = pthread_mutex_init(&mutex->mutex, &shared);
    pthread_mutexattr_destroy(&shared);
    atomic_init(&mutex->is_stuck, false);
    return r;
}

static enum shared_mutex_grant note(struct shared_mutex *mutex, int r)
{
    if (r == EOWNERDEAD)
        pthread_mutex_consistent(&mutex->mutex);
    else if (r != 0)
        return SHARED_MUTEX_BUSY;
    /* Read first: a line of memory that all write would travel between processors. */
    if (atomic_load_explicit(&mutex->is_stuck, memory_order_relaxed))
        atomic_store_explicit(&mutex->is_stuck, false, memory_order_relaxed);
    return r == EOWNERDEAD ? SHARED_MUTEX_ORPHANED : SHARED_MUTEX_OURS;
}

enum shared_mutex_grant shared_mutex_try(struct shared_mutex *mutex)
{
    return note(mutex, pthread_mutex_trylock(&mutex->mutex));
}

enum shared_mutex_grant shared_mutex_lock(struct shared_mutex *mutex)
{
    int r = pthread_mutex_trylock(&mutex->mutex);

    if (r != EBUSY || atomic_load_explicit(&mutex->is_stuck, memory_order_relaxed))
        return note(mutex, r);
    uint64_t until_us = clock_monotonic_us() + SHARED_MUTEX_PATIENCE_MS * US_PER_MS;
    const struct timespec until = { .tv_sec = (time_t)(until_us / US_PER_S),
                                    .tv_nsec = (long)(until_us % US_PER_S) * 1000 };
    r = pthread_mutex_clocklock(&mutex->mutex, CLOCK_MONOTONIC, &until);
    if (r == ETIMEDOUT)
        atomic_store_explicit(&mutex->is_stuck, true, memory_order_relaxed);
    return note(mutex, r);
}

void shared_mutex_unlock(struct shared_mutex *mutex)
{
    pthread_mutex_unlock(&mutex->mutex);
}
