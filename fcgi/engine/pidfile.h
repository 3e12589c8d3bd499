/*
 * RUN_DIR/PROGRAM.pid: holds the master's process id and an fcntl lock, so that
 * there is never a second master of one program. (A flock would live on in
 * workers that outlive their master; an fcntl lock is not inherited.)
 */
#ifndef FCGI_ENGINE_PIDFILE_H
#define FCGI_ENGINE_PIDFILE_H

#include <stdbool.h>

#include "core/base/err.h"

/* The locked descriptor, to be kept open. ERR_CONFLICT: another master runs. ERR_SYSTEM. */
int pidfile_take(const char *run_dir, const char *program, int *out, struct error *e);

/* After an exec: makes sure of the lock that came with the descriptor. ERR_CONFLICT, ERR_SYSTEM. */
int pidfile_keep(int fd, struct error *e);

/* Whether a master holds it. Not for the process that does: it would let go. */
bool pidfile_is_held(const char *run_dir, const char *program);

/* Empties the file, so that nobody signals an id that is another's by then. */
void pidfile_release(int fd);

#endif
