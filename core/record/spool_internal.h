/* The segments on disk, for spool.c. */
#ifndef CORE_RECORD_SPOOL_INTERNAL_H
#define CORE_RECORD_SPOOL_INTERNAL_H

#include "core/record/spool.h"

/* Opens a segment for appending, making it and the folder if they are missing:
 * the descriptor. ERR_SYSTEM: errno says why. */
int segment_open(const struct spool *spool, uint64_t number, struct error *e);

/* The highest number on disk; 0: there is none, or the folder cannot be read. */
uint64_t segment_newest(const struct spool *spool);

/* Removes the oldest segments until another one has room. */
void segment_make_room(const struct spool *spool);

#endif
