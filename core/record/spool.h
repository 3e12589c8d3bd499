/*
 * The spool: the event log on disk, read by the shipper.
 *
 *   STATE_DIR/spool/PROGRAM.00000001.jsonl, mode 0640
 *
 * A record is LF line LF, appended with one write: a torn predecessor spoils
 * nobody, and a process's death loses at most the record it was writing. There
 * is no fsync per record. A full disk loses records, counted; never a request.
 */
#ifndef CORE_RECORD_SPOOL_H
#define CORE_RECORD_SPOOL_H

#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"

struct spool {
    int fd;            /* -1: not open */
    uint64_t appended; /* by this process */
    uint64_t dropped;
};

/* Opens the current segment, making the folder. After fork. ERR_SYSTEM, ERR_LIMIT
 * (the path is too long): *out is then usable and drops everything. */
int spool_open(const char *state_dir, const char *program, struct spool *out, struct error *e);
void spool_close(struct spool *spool);

/* Appends one record; `line` holds no newline. 0, or ERR_SYSTEM: dropped and
 * counted; errno says why. */
int spool_append(struct spool *spool, struct span line);

#endif
