/*
 * The spool: the event log on disk, read by the shipper.
 *
 *   STATE_DIR/spool/PROGRAM.00000001.jsonl, PROGRAM.00000002.jsonl, …, mode 0640
 *
 * A record is LF line LF, appended with one write: a torn predecessor spoils
 * nobody, and a process's death loses at most the record it was writing. There
 * is no fsync per record. A full disk loses records, counted; never a request.
 *
 * All writers append to the current segment, whose number they share. Whoever
 * fills it starts the next one, and removes the oldest segments while there are
 * too many bytes: never the current one, and never one that a process names as
 * the one it is writing to. When a writer starts and the number is not known, the
 * highest there is on disk is continued.
 *
 * While somebody reads the spool (spool_reader.h), writers remove nothing: what is
 * passed goes by spool_remove_passed, and while there are too many bytes, new
 * records are dropped.
 */
#ifndef CORE_RECORD_SPOOL_H
#define CORE_RECORD_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"
#include "core/record/spool_shared.h"

/* What the writers of one spool agree on; all of it outlives the spool. */
struct spool_plan {
    const char *state_dir, *program;
    uint64_t max_bytes; /* of all segments together, give or take a record of each writer */
    struct spool_shared shared;
};

struct spool {
    const struct spool_plan *plan;
    struct spool_writer *writer; /* the place of this process */
    char *folder;                /* NULL: its path would be too long */
    int fd;                      /* -1: not open; the next append tries again */
    uint64_t segment;            /* that is open */
    uint64_t segment_bytes;      /* from here on it is full */
    uint64_t appended;           /* records, by this process */
    uint64_t dropped;
};

/* How large a segment becomes: an eighth of all, at least 64 KiB, at most 64 MiB. */
uint64_t spool_segment_bytes(uint64_t max_bytes);

/* Locks the spool for the processes of one instance, until this one ends: those of another run directory
 * would number segments, remove and pass them without knowing of these. Before fork; makes the folder.
 * ERR_CONFLICT: it is another's. ERR_SYSTEM, ERR_LIMIT: it cannot be locked, nor, most likely, be written. */
int spool_claim(const struct spool_plan *plan, struct error *e);

/* An instance begins, perhaps beside writers of the one before: says whether somebody will read the spool,
 * goes on where the segments on disk end, and looks whether they have room. Before fork. */
void spool_resume(const struct spool_plan *plan, bool is_read);

/* Opens the current segment, making the folder; a process has one spool open at a time. After fork.
 * ERR_SYSTEM (each append tries again), ERR_LIMIT (the path is too long: *out is usable, and drops
 * everything). */
int spool_open(const struct spool_plan *plan, struct spool *out, struct error *e);
void spool_close(struct spool *spool);

/* Appends one record; `line` holds no newline. 0, or ERR_SYSTEM: dropped and
 * counted; errno says why (EDQUOT: the bound is reached, and what is there is not read yet). */
int spool_append(struct spool *spool, struct span line);

/* Whether a process that has just died wrote this text, an event's id, in a whole
 * record: in the segment that it named, 0 for the current one. */
bool spool_has(const struct spool *spool, uint64_t segment, struct span id);

/* Whether somebody reads it. */
bool spool_is_read(const struct spool_plan *plan);

/* For who has read all segments below `segment`: removes those of them that nobody
 * names, except for the newest file of all, from which the numbers go on after a
 * restart; says whether there is room again. *total_bytes: of what is left. ERR_SYSTEM:
 * the folder cannot be read. */
int spool_remove_passed(const struct spool_plan *plan, uint64_t segment, uint64_t *total_bytes);

#endif
