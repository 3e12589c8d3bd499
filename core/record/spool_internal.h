/* The segments on disk, for spool.c and spool_reader.c. */
#ifndef CORE_RECORD_SPOOL_INTERNAL_H
#define CORE_RECORD_SPOOL_INTERNAL_H

#include "core/record/spool.h"

enum { SEGMENT_PATH_BYTES = 4096 };

/* What is on disk. */
struct census {
    uint64_t total_bytes;
    uint64_t oldest, newest; /* numbers; 0: none */
};

/* STATE_DIR/spool; the caller's, freed with free(). NULL: too long for a segment's path. */
char *spool_folder(const struct spool_plan *plan);

/* A segment's path. ERR_LIMIT. */
int segment_path(const char *folder, const char *program, uint64_t number, char path[SEGMENT_PATH_BYTES]);

/* Opens a segment for appending, making it and the folder if they are missing:
 * the descriptor. ERR_SYSTEM: errno says why. */
int segment_open(const struct spool *spool, uint64_t number, struct error *e);

/* Counts all segments; the oldest is that of those above `passed`. ERR_SYSTEM. */
int segment_take_census(const char *folder, const char *program, uint64_t passed, struct census *out);

/* Whether a line is a whole record. */
bool segment_is_record(struct span line);

/* Removes one, and gives its bytes back though idle writers have it open. */
void segment_remove(const char *path);

/* When a segment has become current: removes the oldest ones until another one has
 * room; while a sink reads the spool, says whether there is room instead. */
void segment_make_room(const struct spool_plan *plan, const char *folder);

#endif
