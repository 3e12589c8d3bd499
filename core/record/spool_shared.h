/*
 * What all who write or read one spool share: RUN_DIR/PROGRAM.spool, mapped by each of them.
 *
 * It is a file of its own, which a new instance takes up and does not make anew, with a layout
 * that has nothing to do with the programs' versions. So those who outlive their master, or
 * the program that they are of, go on in the segment in which the others are, and everybody
 * sees who is writing where.
 *
 * Who writes has a place, and holds the fcntl lock of its bytes as long as it lives: what stands
 * in a place without a lock was left behind by a dead process, and says nothing. An append
 * takes no lock.
 */
#ifndef CORE_RECORD_SPOOL_SHARED_H
#define CORE_RECORD_SPOOL_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"

enum {
    SPOOL_SHARED_LAYOUT = 1, /* who raises it leaves writers behind whom nobody sees */
    SPOOL_WRITERS = 16384,   /* four times as many as an instance may have workers */
};

struct spool_writer {
    _Atomic int32_t pid;      /* whose place it is; 0: nobody's */
    _Atomic uint64_t segment; /* that it is writing to; 0: none */
};

struct spool_memory {
    char magic[8]; /* "LLMRSPL" and a NUL */
    uint32_t layout;
    _Alignas(64) _Atomic uint64_t current; /* the segment that is appended to; 0: not known yet */
    _Atomic uint32_t is_read;              /* somebody reads the spool: see spool_resume */
    _Atomic uint32_t is_full;              /* looked at only while it is read */
    _Alignas(64) struct spool_writer writers[];
};

struct spool_shared {
    struct spool_memory *memory;
    int fd; /* of the file, as long as the process lives: to close it is to let go of all locks. -1: no file
             */
};

/* Maps the file, and makes it if there is none. `may_replace`: one that is not understood is made anew; by
 * the master only. Children inherit it. ERR_SYSTEM, ERR_FORMAT. */
int spool_shared_open(const char *run_dir, const char *program, bool may_replace, struct spool_shared *out,
                      struct error *e);

/* Memory that nobody shares but children: they are seen, and their deaths are not. */
struct spool_shared spool_shared_alone(void);

void spool_shared_close(struct spool_shared *shared);

/* A place for this process, which has no other: given back by spool_shared_leave, or by its death. NULL:
 * there is none. After fork. */
struct spool_writer *spool_shared_enter(const struct spool_shared *shared);
void spool_shared_leave(const struct spool_shared *shared, struct spool_writer *writer);

/* The segment that a process was writing to when it died; 0: none. Its place is free then. */
uint64_t spool_shared_forget(const struct spool_shared *shared, pid_t pid);

/* Whether any process that lives, but for this one, is writing to this segment. */
bool spool_shared_names(const struct spool_shared *shared, uint64_t segment);

#endif
