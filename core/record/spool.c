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

/* Of a process for which there is no place: more write than anybody has thought of. */
static struct spool_writer unseen;

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
static uint64_t name_current(const struct spool *spool)
{
    const _Atomic uint64_t *shared = &spool->plan->shared.memory->current;
    uint64_t current = atomic_load(shared), named;
    do {
        named = current;
        atomic_store(&spool->writer->segment, named);
        current = atomic_load(shared);
    } while (current != named);
    return named;
}

static void unname(const struct spool *spool)
{
    atomic_store(&spool->writer->segment, 0);
}

/* Not before the newest segment on disk. The bound may have been lowered since it was filled. */
static void find_current(const struct spool_plan *plan, const char *folder)
{
    _Atomic uint64_t *shared = &plan->shared.memory->current;
    uint64_t current = atomic_load(shared);
    struct census census = { 0 };

    if (folder != NULL)
        (void)segment_take_census(folder, plan->program, 0, &census);
    uint64_t newest = census.newest == 0 ? 1 : census.newest;
    while (current < newest && !atomic_compare_exchange_weak(shared, &current, newest))
        ;
    if (folder != NULL)
        segment_make_room(plan, folder);
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
    return atomic_load(&plan->shared.memory->is_read) != 0;
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

void spool_resume(const struct spool_plan *plan, bool is_read)
{
    char *folder = spool_folder(plan);

    atomic_store(&plan->shared.memory->is_read, is_read);
    find_current(plan, folder);
    free(folder);
}

int spool_open(const struct spool_plan *plan, struct spool *out, struct error *e)
{
    *out = (struct spool){ .plan = plan, .fd = -1, .writer = spool_shared_enter(&plan->shared) };
    if (out->writer == NULL)
        out->writer = &unseen;
    out->segment_bytes = spool_segment_bytes(plan->max_bytes);
    out->folder = spool_folder(plan);
    if (out->folder == NULL)
        return error_set(e, ERR_LIMIT, "the state directory's path is too long");
    if (atomic_load(&plan->shared.memory->current) == 0) /* no instance has begun */
        find_current(plan, out->folder);
    int r = take_up(out, name_current(out), e);
    unname(out);
    return r;
}

void spool_close(struct spool *spool)
{
    let_go(spool);
    if (spool->writer != &unseen)
        spool_shared_leave(&spool->plan->shared, spool->writer);
    free(spool->folder);
    spool->folder = NULL;
}

/* One of the writers that find the segment full starts the next. */
static void start_next(const struct spool *spool)
{
    uint64_t full = spool->segment;
    if (atomic_compare_exchange_strong(&spool->plan->shared.memory->current, &full, full + 1))
        segment_make_room(spool->plan, spool->folder);
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

    if (spool_is_read(spool->plan) && atomic_load(&spool->plan->shared.memory->is_full) != 0) {
        errno = EDQUOT; /* what is there is for somebody, and comes first */
        return ERR_SYSTEM;
    }
    for (int i = 0; i < TRIES; i++) {
        int r = take_up(spool, name_current(spool), NULL);
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
    unname(spool);
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
