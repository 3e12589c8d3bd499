/*
 * A mutex in memory that processes share, for sections that last microseconds.
 *
 * The kernel hands on the one of a process that dies. A process that is stopped (by a
 * signal, a debugger, a machine that pages) cannot be told from one that has not had
 * the processor for a while: it is waited for SHARED_MUTEX_PATIENCE_MS, by those who come
 * first, and then by nobody until somebody has had the mutex again. So who asks for it
 * has a way to go on without.
 */
#ifndef CORE_BASE_SHARED_MUTEX_H
#define CORE_BASE_SHARED_MUTEX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Longer than a busy machine keeps a process from going on. */
enum { SHARED_MUTEX_PATIENCE_MS = 100 };

struct shared_mutex {
    pthread_mutex_t mutex;
    _Atomic bool is_stuck; /* it was waited for in vain, and nobody has had it since */
};

enum shared_mutex_grant {
    SHARED_MUTEX_BUSY,     /* somebody else has it */
    SHARED_MUTEX_OURS,     /* to be given back by shared_mutex_unlock, as the next one */
    SHARED_MUTEX_ORPHANED, /* ours; who had it last died with it, perhaps in the middle of a change */
};

/* Before the fork of those who share it. 0, or why not, as errno has it. */
int shared_mutex_init(struct shared_mutex *mutex);

/* May wait, as said above. */
enum shared_mutex_grant shared_mutex_lock(struct shared_mutex *mutex);

/* Does not wait. */
enum shared_mutex_grant shared_mutex_try(struct shared_mutex *mutex);

void shared_mutex_unlock(struct shared_mutex *mutex);

#endif
