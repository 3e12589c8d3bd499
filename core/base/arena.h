/*
 * An arena: memory that is freed all at once. One lives as long as a request,
 * one as long as a compile of the configuration; what they hand out needs no
 * free of its own. Handles of libraries hang on an arena as clean-ups.
 *
 * Out of memory ends the process: its parent starts another.
 */
#ifndef CORE_BASE_ARENA_H
#define CORE_BASE_ARENA_H

#include <stddef.h>

#include "core/base/span.h"

struct arena;

/* A new arena; owned by the caller, freed with arena_free. */
struct arena *arena_new(void);

/* Runs the clean-ups in reverse order and frees everything handed out. The
 * first chunk is kept, so that an arena can be reused without a system call. */
void arena_reset(struct arena *arena);

/* arena_reset, then the arena itself. NULL is allowed. */
void arena_free(struct arena *arena);

/* Uninitialised memory, aligned for any type; never NULL, also for 0 bytes.
 * Large pieces get a mapping of their own, returned to the system at reset. */
void *arena_alloc(struct arena *arena, size_t bytes);

/* Zeroed memory for count * bytes; a product that overflows ends the process. */
void *arena_calloc(struct arena *arena, size_t count, size_t bytes);

/* NUL-terminated copies. */
char *arena_strdup(struct arena *arena, const char *text);
char *arena_span(struct arena *arena, struct span span);
char *arena_join(struct arena *arena, const struct span *pieces, size_t n); /* one behind the other */
char *arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Calls run(arg) at the next reset, before the memory goes. */
void arena_on_reset(struct arena *arena, void (*run)(void *arg), void *arg);

#define arena_new_of(arena, type) ((type *)arena_calloc((arena), 1, sizeof(type)))
#define arena_array_of(arena, type, count) ((type *)arena_calloc((arena), (count), sizeof(type)))

/* Heap memory for what outlives any arena; never NULL. Freed with free(). */
void *xmalloc(size_t bytes) __attribute__((malloc));
void *xcalloc(size_t count, size_t bytes) __attribute__((malloc));
void *xrealloc(void *old, size_t bytes);
char *xstrdup(const char *text) __attribute__((malloc));

#endif
