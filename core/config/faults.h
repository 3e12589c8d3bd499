/*
 * Collecting what is wrong with a document. A place is a JSON pointer (RFC
 * 6901) that grows and shrinks with the walk: push a step, keep the mark it
 * returns, pop back to the mark.
 */
#ifndef CORE_CONFIG_FAULTS_H
#define CORE_CONFIG_FAULTS_H

#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/span.h"
#include "core/config/entry.h"

enum { FAULTS_MAX = 100, FAULT_PATH_LIMIT_BYTES = 2048 };

/* A very long name is cut in the path. */
size_t fault_path_push_name(struct buf *path, struct span name);
size_t fault_path_push_index(struct buf *path, size_t index);
void fault_path_pop(struct buf *path, size_t mark);

/* Adds one; from the FAULTS_MAXth on only *dropped is counted. */
void fault_add(struct entry_faults *faults, struct arena *arena, struct span path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
