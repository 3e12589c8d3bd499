#include "core/record/spool_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"

enum {
    SEGMENT_BYTES_MIN = 64 * 1024,
    SEGMENT_BYTES_MAX = 64 * 1024 * 1024,
    SEGMENTS = 8,
    PATH_BYTES_MAX = 4000, /* of the folder: a segment's name must still fit */
    TRIES = 3,             /* for one record, while segments are taken away */
};

uint64_t spool_segment_bytes(uint64_t max_bytes)
{
    uint64_t bytes = max_bytes / SEGMENTS;
    if (bytes < SEGMENT_BYTES_MIN)
        return SEGMENT_BYTES_MIN;
    return bytes < SEGMENT_BYTES_MAX ? bytes : SEGMENT_BYTES_MAX;
}

static void let_go(struct spool *spool)
{
    if (spool->fd >= 0)
        close(spool->fd);
    spool->fd = -1;
}

/* The current segment, named as ours. Who removes segments first makes another one
 * current and then looks for names: so either it sees our name, or we see that
 * ours is not the current one any more. */
static uint64_t name_current(const struct spool_plan *plan)
{
    uint64_t current = atomic_load(plan->current), named;
    do {
        named = current;
        atomic_store(plan->mine, named);
        current = atomic_load(plan->current);
    } while (current != named);
    return named;
}

static void unname(const struct spool_plan *plan)
{
    atomic_store(plan->mine, 0);
}

/* The first of all writers looks at what an earlier run has left. */
static void find_current(const struct spool *spool)
{
    uint64_t unknown = 0;
    if (atomic_load(spool->plan->current) != 0)
        return;
    struct census census = { 0 };
    if (spool->folder != NULL)
        (void)segment_take_census(spool->folder, spool->plan->program, 0, &census);
    uint64_t newest = census.newest;
    if (atomic_compare_exchange_strong(spool->plan->current, &unknown, newest == 0 ? 1 : newest))
        segment_make_room(spool); /* the bound may have been lowered */
}

/* Opens the named segment if another one, or none, is open. */
static int take_up(struct spool *spool, uint64_t segment, struct error *e)
{
    if (spool->fd >= 0 && spool->segment == segment)
        return 0;
    let_go(spool);
    int fd = segment_open(spool, segment, e);
    if (fd < 0)
        return fd;
    spool->fd = fd;
    spool->segment = segment;
    return 0;
}

char *spool_folder(const struct spool_plan *plan)
{
    static const char name[] = "/spool";
    size_t len = strlen(plan->state_dir);

    if (len + sizeof(name) > PATH_BYTES_MAX)
        return NULL;
    char *folder = xmalloc(len + sizeof(name));
    memcpy(folder, plan->state_dir, len);
    memcpy(folder + len, name, sizeof(name));
    return folder;
}

bool spool_is_read(const struct spool_plan *plan)
{
    return plan->room != NULL && atomic_load(&plan->room->is_read) != 0;
}

int spool_claim(const struct spool_plan *plan, struct error *e)
{
    char *folder = spool_folder(plan), path[PATH_BYTES_MAX + 64];
    int fd, n = folder == NULL ? -1 : snprintf(path, sizeof(path), "%s/%s.lock", folder, plan->program);
    int r = n < 0 || n >= (int)sizeof(path)
                ? error_set(e, ERR_LIMIT, "the state directory's path is too long")
                : file_make_dirs(folder, 0750, e);
    if (r == 0)
        r = file_lock(path, 0640, &fd, e); /* stays open */
    if (r == ERR_CONFLICT)
        error_set(e, r, "another %s has its spool in %s: each needs a state directory of its own",
                  plan->program, folder);
    free(folder);
    return r;
}

int spool_open(const struct spool_plan *plan, struct spool *out, struct error *e)
{
    *out = (struct spool){ .plan = plan, .fd = -1 };
    out->segment_bytes = spool_segment_bytes(plan->max_bytes);
    out->folder = spool_folder(plan);
    if (out->folder == NULL)
        return error_set(e, ERR_LIMIT, "the state directory's path is too long");
    find_current(out);
    int r = take_up(out, name_current(plan), e);
    unname(plan);
    return r;
}

void spool_close(struct spool *spool)
{
    let_go(spool);
    free(spool->folder);
    spool->folder = NULL;
}

/* One of the writers that find the segment full starts the next. */
static void start_next(const struct spool *spool)
{
    uint64_t full = spool->segment;
    if (atomic_compare_exchange_strong(spool->plan->current, &full, full + 1))
        segment_make_room(spool);
}

/* A short append leaves a torn line, which readers skip. */
static int write_record(int fd, struct span line)
{
    static char newline[] = "\n";
    struct iovec pieces[] = {
        { newline, 1 },
        { (void *)(uintptr_t)line.ptr, line.len },
        { newline, 1 },
    };
    ssize_t n;

    do
        n = writev(fd, pieces, 3);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)line.len + 2)
        return 0;
    if (n >= 0)
        errno = ENOSPC;
    return ERR_SYSTEM;
}

/* Appends to the current segment; *is_full: it has its size. One that somebody
 * has removed under us is made anew, and the record goes there. */
static int append(struct spool *spool, struct span line, bool *is_full)
{
    struct stat st;

    if (spool_is_read(spool->plan) && atomic_load(&spool->plan->room->is_full) != 0) {
        errno = EDQUOT; /* what is there is for somebody, and comes first */
        return ERR_SYSTEM;
    }
    for (int i = 0; i < TRIES; i++) {
        int r = take_up(spool, name_current(spool->plan), NULL);
        if (r == 0)
            r = write_record(spool->fd, line);
        if (r != 0)
            return r;
        if (fstat(spool->fd, &st) == 0 && st.st_nlink > 0) {
            *is_full = (uint64_t)st.st_size >= spool->segment_bytes;
            return 0;
        }
        let_go(spool);
    }
    errno = ENOENT;
    return ERR_SYSTEM;
}

int spool_append(struct spool *spool, struct span line)
{
    bool is_full = false;

    int r = append(spool, line, &is_full);
    int cause = errno;
    unname(spool->plan);
    if (r != 0) {
        spool->dropped++;
        errno = cause;
        return ERR_SYSTEM;
    }
    spool->appended++;
    if (is_full)
        start_next(spool);
    return 0;
}
