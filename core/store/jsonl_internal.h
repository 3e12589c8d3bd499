/*
 * Files of lines, each a JSON object, that are only appended to. A line has a newline on
 * both sides, so that one that a dying process left half-written spoils no other.
 */
#ifndef CORE_STORE_JSONL_INTERNAL_H
#define CORE_STORE_JSONL_INTERNAL_H

#include <sys/types.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"

/* Appends a JSON object as a line, durably, to a file that has `mode` if it is new; newlines in it become
 * blanks. The caller sees to it that it is the only one to. ERR_SYSTEM. */
int jsonl_append(const char *path, struct span line, mode_t mode, struct error *e);

/* The last `limit` bytes of the file, or all of it; empty where there is no file. ERR_SYSTEM. */
int jsonl_read_end(const char *path, size_t limit, struct arena *arena, struct span *text, struct error *e);

/* Takes the last line that is JSON off the text; the empty span when there is none left. */
struct span jsonl_take_last(struct span *text);

#endif
