#include "core/upstream/wiping_alloc.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/* Stands before each block. The C library would tell a block's size too
 * (malloc_usable_size), but what lies beyond the bytes asked for is not ours. */
struct header {
    alignas(max_align_t) size_t bytes;
};

void *wiping_malloc(size_t bytes)
{
    size_t whole;
    if (__builtin_add_overflow(sizeof(struct header), bytes, &whole))
        return NULL;
    struct header *header = malloc(whole);
    if (header == NULL)
        return NULL;
    header->bytes = bytes;
    return header + 1;
}

void *wiping_calloc(size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        return NULL;
    void *block = wiping_malloc(total);
    return block == NULL ? NULL : memset(block, 0, total);
}

void wiping_free(void *block)
{
    if (block == NULL)
        return;
    struct header *header = (struct header *)block - 1;
    explicit_bzero(block, header->bytes);
    free(header);
}

/* Always a new block: the C library's realloc would leave the old bytes where
 * they were when it moves them. */
void *wiping_realloc(void *old, size_t bytes)
{
    void *block = wiping_malloc(bytes);
    if (block == NULL || old == NULL)
        return block;
    size_t had = ((struct header *)old - 1)->bytes;
    memcpy(block, old, had < bytes ? had : bytes);
    wiping_free(old);
    return block;
}

char *wiping_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = wiping_malloc(size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}
