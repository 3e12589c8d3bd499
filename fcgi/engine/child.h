/* What a child of the master does right after fork, and the loop of a worker. */
#ifndef FCGI_ENGINE_CHILD_H
#define FCGI_ENGINE_CHILD_H

#include "fcgi/engine/engine.h"
#include "fcgi/engine/listener.h"

/* Signals of a child: SIGTERM, SIGHUP and SIGUSR1 (a worker's: leave the queue to
 * others) are noted, and let in only while it waits; SIGINT and SIGQUIT end it at once,
 * SIGUSR2 is the master's alone. A master that dies sends SIGTERM. */
void child_begin(struct engine_process *process);

/* In a child that is stopping: where its master has died, the socket, which only the master would
 * have withdrawn. Else who comes before there is another master waits for nobody, as long as a
 * worker has a request in hand. */
void child_withdraw_orphaned(const struct engine_process *process, const struct listener *listener);

/* Serves until engine_is_stopping(): the exit code. */
int worker_run(const struct engine_program *program, struct engine_process *process,
               const struct listener *listener);

#endif
