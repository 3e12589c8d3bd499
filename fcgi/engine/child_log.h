/*
 * What the children write on stderr, collected by the master: our own lines of
 * JSON pass as they are; what a library or a sanitizer says becomes lines of the
 * log ("child_stderr"), so that the log is one JSON line per problem, always.
 */
#ifndef FCGI_ENGINE_CHILD_LOG_H
#define FCGI_ENGINE_CHILD_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "core/log/log.h"

struct child_log {
    int read_fd, write_fd; /* of a pipe */
    char line[LOG_LINE_BYTES];
    size_t len; /* bytes of an unfinished line */
};

/* In the master, before the first fork. ERR_SYSTEM. */
int child_log_open(struct child_log *log, struct error *e);

/* In a child: its stderr goes to the master from now on. */
void child_log_attach(const struct child_log *log);

/* In the master, when read_fd is readable: takes what there is, without waiting. */
void child_log_take(struct child_log *log);

/* Before somebody else reads on: the same, and an unfinished line is passed on as it is. */
void child_log_flush(struct child_log *log);

/* When all children have ended: their last words, also without the end of a line. */
void child_log_end(struct child_log *log);

#endif
