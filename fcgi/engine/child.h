/* What a child of the master does right after fork, and the loop of a worker. */
#ifndef FCGI_ENGINE_CHILD_H
#define FCGI_ENGINE_CHILD_H

#include "fcgi/engine/engine.h"
#include "fcgi/engine/listener.h"

/* Signals of a child: SIGTERM, SIGHUP and SIGUSR1 (a worker's: leave the queue to
 * others) are noted, and let in only while it waits; SIGINT and SIGQUIT end it at once,
 * SIGUSR2 is the master's alone. A master that dies sends SIGTERM; then these listeners are shut, which it
 * has not done: else who comes before there is another master waits for nobody, for as long as one worker has
 * a request in hand. NULL: this process has not got it open. They live as long as the process. */
void child_begin(struct engine_process *process, const struct listener *listener,
                 const struct listener *health);

/* Serves until it is told to stop or to leave, or has served as many requests as a worker may. The
 * exit code: 0, or 1 if it could not begin. */
int worker_run(const struct engine_program *program, struct engine_process *process,
               const struct listener *listener);

#endif
