/*
 * An allocator that overwrites what it takes back. libcurl copies a request's
 * headers, and the provider's key in them, into buffers of its own that it only
 * frees: run on this, it leaves no key in freed memory.
 *
 * The functions are those of the C library in every other way. Their blocks are
 * their own: neither side's free takes the other's.
 */
#ifndef CORE_UPSTREAM_WIPING_ALLOC_H
#define CORE_UPSTREAM_WIPING_ALLOC_H

#include <stddef.h>

void *wiping_malloc(size_t bytes);
void *wiping_calloc(size_t count, size_t bytes);
void *wiping_realloc(void *old, size_t bytes);
char *wiping_strdup(const char *text);
void wiping_free(void *block);

#endif
