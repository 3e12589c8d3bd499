/*
 * What a master hands to its successor, which is the same process after an exec:
 * descriptors, and the children that go on. It is written as text into a sealed file
 * in memory, whose descriptor is named in the environment.
 *
 * The layout has a number, for what an older or newer program would misread; lines
 * that a program does not know it passes over.
 */
#ifndef FCGI_ENGINE_HANDOVER_H
#define FCGI_ENGINE_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "fcgi/engine/listener.h"

struct handover_worker {
    pid_t pid;
    int64_t slot;         /* its record in the scoreboard; -1: in a mapping that is no more */
    uint64_t started_us;  /* monotonic */
    uint64_t leave_by_us; /* monotonic; 0: it was not told to leave */
};

struct handover {
    pid_t master;
    int pidfile;
    int log_read, log_write;          /* the children's */
    int secrets;                      /* environment_restore_secrets takes it; -1: none */
    struct listener listener, health; /* fd -1: none */
    struct handover_worker *workers;  /* heap */
    size_t n_workers;
};

/* Writes it, for `program`: the descriptor, close-on-exec, or ERR_SYSTEM. */
int handover_write(const struct handover *handover, const char *program, struct error *e);

/* The descriptors that it names, and the file itself, survive an exec, or do not. */
void handover_pass(const struct handover *handover, int file, bool is_passed);

/* Names the file in the environment; takes it from there: -1 if it is not there. */
void handover_announce(int file);
int handover_take(void);

/* Reads it and closes the file, also where that fails. ERR_FORMAT: it is of another layout or
 * program, or damaged. ERR_SYSTEM. */
int handover_read(int file, const char *program, struct handover *out, struct error *e);

void handover_free(struct handover *handover);

#endif
