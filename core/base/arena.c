#include "core/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 16 * 1024, /* covers an ordinary request without a second chunk */
    MAP_BYTES = 64 * 1024,   /* from here on a piece has a mapping of its own */
    ALIGN = 16,
};

struct chunk {
    struct chunk *next;
    size_t bytes; /* capacity after the header */
    size_t used;
};

struct mapping {
    struct mapping *next;
    void *base;
    size_t bytes;
};

struct cleanup {
    struct cleanup *next;
    void (*run)(void *arg);
    void *arg;
};

struct arena {
    struct chunk *chunks; /* newest first; the last one is kept over resets */
    struct mapping *mappings;
    struct cleanup *cleanups;
};

static _Noreturn void die_no_memory(void)
{
    static const char text[] = "{\"level\":\"fatal\",\"event\":\"out_of_memory\"}\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)ignored;
    abort();
}

void *xmalloc(size_t bytes)
{
    void *p = malloc(bytes == 0 ? 1 : bytes);
    if (p == NULL)
        die_no_memory();
    return p;
}

void *xcalloc(size_t count, size_t bytes)
{
    void *p = calloc(count == 0 ? 1 : count, bytes == 0 ? 1 : bytes);
    if (p == NULL)
        die_no_memory();
    return p;
}

void *xrealloc(void *old, size_t bytes)
{
    void *p = realloc(old, bytes == 0 ? 1 : bytes);
    if (p == NULL)
        die_no_memory();
    return p;
}

char *xstrdup(const char *text)
{
    size_t len = strlen(text) + 1;
    return memcpy(xmalloc(len), text, len);
}

static struct chunk *chunk_new(size_t bytes)
{
    struct chunk *chunk = xmalloc(sizeof(*chunk) + ALIGN + bytes);
    chunk->next = NULL;
    chunk->bytes = bytes;
    chunk->used = 0;
    return chunk;
}

static char *chunk_base(struct chunk *chunk)
{
    uintptr_t first = (uintptr_t)(chunk + 1);
    return (char *)((first + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
}

struct arena *arena_new(void)
{
    struct arena *arena = xcalloc(1, sizeof(*arena));
    arena->chunks = chunk_new(CHUNK_BYTES);
    return arena;
}

void arena_reset(struct arena *arena)
{
    /* A clean-up may allocate or add another one; both still work here. */
    while (arena->cleanups != NULL) {
        struct cleanup *c = arena->cleanups;
        arena->cleanups = c->next;
        c->run(c->arg);
    }
    while (arena->mappings != NULL) {
        struct mapping *m = arena->mappings;
        arena->mappings = m->next;
        munmap(m->base, m->bytes);
    }
    while (arena->chunks->next != NULL) {
        struct chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        free(chunk);
    }
    arena->chunks->used = 0;
}

void arena_free(struct arena *arena)
{
    if (arena == NULL)
        return;
    arena_reset(arena);
    free(arena->chunks);
    free(arena);
}

static void *map_large(struct arena *arena, size_t bytes)
{
    struct mapping *m = arena_alloc(arena, sizeof(*m));
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        die_no_memory();
    m->base = base;
    m->bytes = bytes;
    m->next = arena->mappings;
    arena->mappings = m;
    return base;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    if (bytes >= MAP_BYTES)
        return map_large(arena, bytes);
    size_t need = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct chunk *chunk = arena->chunks;
    if (chunk->bytes - chunk->used < need) {
        chunk = chunk_new(need > CHUNK_BYTES ? need : CHUNK_BYTES);
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *p = chunk_base(chunk) + chunk->used;
    chunk->used += need;
    return p;
}

void *arena_calloc(struct arena *arena, size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        die_no_memory();
    void *p = arena_alloc(arena, total);
    return total < MAP_BYTES ? memset(p, 0, total) : p;
}

char *arena_span(struct arena *arena, struct span span)
{
    char *copy = arena_alloc(arena, span.len + 1);
    if (span.len > 0)
        memcpy(copy, span.ptr, span.len);
    copy[span.len] = '\0';
    return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return arena_span(arena, span_cstr(text));
}

char *arena_join(struct arena *arena, const struct span *pieces, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += pieces[i].len;
    char *text = arena_alloc(arena, len + 1), *at = text;
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].len > 0)
            memcpy(at, pieces[i].ptr, pieces[i].len);
        at += pieces[i].len;
    }
    *at = '\0';
    return text;
}

/* A text usually fits behind what there is, and is formatted once: the place is what arena_alloc then gives.
 */
char *arena_printf(struct arena *arena, const char *format, ...)
{
    struct chunk *chunk = arena->chunks;
    size_t room = chunk->bytes - chunk->used;
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(chunk_base(chunk) + chunk->used, room, format, args);
    va_end(args);
    size_t size = (size_t)(len < 0 ? 0 : len) + 1;
    char *text = arena_alloc(arena, size);
    if (len < 0)
        text[0] = '\0';
    else if (size > room)
        vsnprintf(text, size, format, again);
    va_end(again);
    return text;
}

void arena_on_reset(struct arena *arena, void (*run)(void *arg), void *arg)
{
    struct cleanup *c = arena_alloc(arena, sizeof(*c));
    c->run = run;
    c->arg = arg;
    c->next = arena->cleanups;
    arena->cleanups = c;
}
