/*
 * The overflow process: answers for the workers when none is free, so that a
 * waiting connection is served or refused in time and never hangs; wakes workers
 * whose wake-up died with another; and answers on the health socket at once,
 * whatever the workers do.
 *
 * It never waits on the workers' socket, and one stuck peer delays nobody.
 */
#ifndef FCGI_ENGINE_OVERFLOW_H
#define FCGI_ENGINE_OVERFLOW_H

#include "fcgi/engine/engine.h"
#include "fcgi/engine/record.h"

enum { OVERFLOW_REPLY_BYTES = 256 * 1024 * 1024 }; /* /metrics of the largest tree has half of it */

/* What the program says in the process's place. */
struct overflow_voice {
    int (*init)(struct engine_process *process, struct error *e); /* once, after fork */
    /* Writes a whole CGI reply (head and body) to a request that came over the
     * health socket, or that has waited too long. Must not block. */
    void (*answer)(struct engine_process *process, const struct record_reader *request, bool is_health,
                   struct buf *cgi);
};

/* For a role with listeners: runs until engine_is_stopping(), and nobody waits whom no successor would
 * serve. Its exit code. */
int overflow_run(const struct overflow_voice *voice, struct engine_process *process);

#endif
