/* Whole files, read and written safely. */
#ifndef CORE_BASE_FILE_H
#define CORE_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"

/* Reads a file of at most `limit` bytes into the arena, with a NUL behind it
 * that `out` does not count. ERR_NOT_FOUND, ERR_LIMIT or ERR_SYSTEM. */
int file_read(const char *path, size_t limit, struct arena *arena, struct span *out, struct error *e);

/* Replaces `path` as a whole: a reader sees the old bytes or the new, also
 * after a power cut. Writes "PATH.new.PID" beside it, which is removed on
 * failure. ERR_SYSTEM. */
int file_replace(const char *path, struct span bytes, mode_t mode, struct error *e);

/* Makes a directory and its missing parents. An existing one is left as it is. ERR_SYSTEM. */
int file_make_dirs(const char *path, mode_t mode, struct error *e);

/* Opens a file, makes it if there is none, and locks it: nobody else gets the lock until this process closes
 * *out, or any other descriptor of the file, or ends. Children have no part in it. ERR_CONFLICT: another
 * process has it. ERR_SYSTEM. */
int file_lock(const char *path, mode_t mode, int *out, struct error *e);

/* Writes all bytes, over short writes and EINTR. 0 or ERR_SYSTEM. */
int file_write_all(int fd, const void *bytes, size_t len);

#endif
