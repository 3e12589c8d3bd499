/*
 * Reading a spool: records in the order in which they stand, from a durable cursor
 * STATE_DIR/spool/PROGRAM.NAME.cursor (a line "SEGMENT OFFSET"), by one process at a
 * time for each name.
 *
 * Each record comes at least once: the cursor is stored when the reader says that
 * what it took is passed, and a process that dies before that gets it again. Records
 * carry ids, so receivers can tell. A name without a cursor begins with the oldest
 * segment. What is not one JSON object between two LFs (a torn record, bytes that a
 * power cut left) is skipped and counted; a record whose LF has not come is waited for
 * as long as somebody may still write it. Segments that are gone are skipped and
 * counted. After fork.
 */
#ifndef CORE_RECORD_SPOOL_READER_H
#define CORE_RECORD_SPOOL_READER_H

#include "core/base/err.h"
#include "core/base/span.h"
#include "core/record/spool.h"

enum { SPOOL_READER_WINDOW_BYTES = 1 << 20 }; /* at least one whole record of each kind */

struct spool_cursor {
    uint64_t segment; /* 0: not known yet */
    uint64_t offset;
};

struct spool_reader {
    const struct spool_plan *plan;
    char *folder, *cursor_path;
    struct spool_cursor passed, taken; /* where the batch begins, and where it ends */
    int fd;                            /* of passed.segment or a later one; -1: none is open */
    uint64_t open_segment;
    bool is_skipping; /* inside something that is longer than the window */
    char *window;
    uint64_t n_unreadable;    /* skipped pieces that are no record */
    uint64_t n_lost_segments; /* that were gone before they were read */
};

/* `plan` outlives the reader. An unreadable cursor counts as
 * none, which `e` then says, with 0 returned; else e->text is empty.
 * ERR_LIMIT: the path is too long. */
int spool_reader_open(const struct spool_plan *plan, const char *name, struct spool_reader *out,
                      struct error *e);
void spool_reader_close(struct spool_reader *reader);

/* Takes the next records, at most `max` and what fits into the window: how many. 0: there is
 * none for now. They live until the next call, which begins where spool_reader_store was
 * last called: what was taken after that is taken again. */
size_t spool_reader_take(struct spool_reader *reader, struct span *lines, size_t max);

/* What was taken, or skipped when nothing was, is passed: moves the cursor, on disk too.
 * ERR_SYSTEM: it could not be stored; it counts all the same until the process ends. */
int spool_reader_store(struct spool_reader *reader, struct error *e);

#endif
