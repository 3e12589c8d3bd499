#include "core/record/spool_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[8] = "LLMRSPL";

enum { MEMORY_BYTES = sizeof(struct spool_memory) + SPOOL_WRITERS * sizeof(struct spool_writer) };

/* --- the file --- */

static void fill(struct spool_memory *memory)
{
    memory->layout = SPOOL_SHARED_LAYOUT;
    memcpy(memory->magic, MAGIC, sizeof(memory->magic));
}

/* Of those that come at the same time, one fills it; nobody has a place before it is filled. */
static int make_whole(int fd, const char *path, struct spool_memory **out, struct error *e)
{
    struct flock head = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = sizeof(struct spool_memory) };
    struct stat st;
    int r = 0;

    if (fcntl(fd, F_SETLKW, &head) != 0 || fstat(fd, &st) != 0)
        return error_set(e, ERR_SYSTEM, "cannot lock %s: %s", path, strerror(errno));
    /* Allocated, not sparse: a full tmpfs must show here and not as SIGBUS later. */
    int cause = st.st_size == 0 ? posix_fallocate(fd, 0, MEMORY_BYTES) : 0;
    if (cause != 0) {
        r = error_set(e, ERR_SYSTEM, "cannot give %s %d bytes: %s", path, (int)MEMORY_BYTES, strerror(cause));
        (void)!ftruncate(fd, 0);
        goto out;
    }
    if (st.st_size != 0 && st.st_size != MEMORY_BYTES) {
        r = error_set(e, ERR_FORMAT, "%s has another size than this program gives it", path);
        goto out;
    }
    struct spool_memory *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        r = error_set(e, ERR_SYSTEM, "cannot map %s: %s", path, strerror(errno));
        goto out;
    }
    if (memory->magic[0] == '\0')
        fill(memory);
    if (memcmp(memory->magic, MAGIC, sizeof(memory->magic)) != 0 || memory->layout != SPOOL_SHARED_LAYOUT) {
        r = error_set(e, ERR_FORMAT, "%s is of another version of the program", path);
        munmap(memory, MEMORY_BYTES);
        goto out;
    }
    *out = memory;
out:
    head.l_type = F_UNLCK;
    fcntl(fd, F_SETLK, &head);
    return r;
}

static int open_file(const char *path, struct spool_shared *out, struct error *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    int r = make_whole(fd, path, &out->memory, e);
    if (r != 0)
        close(fd);
    else
        out->fd = fd;
    return r;
}

int spool_shared_open(const char *run_dir, const char *program, bool may_replace, struct spool_shared *out,
                      struct error *e)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/%s.spool", run_dir, program);

    if (n < 0 || n >= (int)sizeof(path))
        return error_set(e, ERR_SYSTEM, "the run directory's path is too long");
    int r = open_file(path, out, e);
    if (r != 0 && may_replace && unlink(path) == 0)
        r = open_file(path, out, e);
    return r;
}

struct spool_shared spool_shared_alone(void)
{
    void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    fill(memory);
    return (struct spool_shared){ .memory = memory, .fd = -1 };
}

void spool_shared_close(struct spool_shared *shared)
{
    munmap(shared->memory, MEMORY_BYTES);
    if (shared->fd >= 0)
        close(shared->fd);
    *shared = (struct spool_shared){ .fd = -1 };
}

/* --- places --- */

/* The lock of a place. */
static struct flock lock_of(const struct spool_shared *shared, const struct spool_writer *writer, short type)
{
    return (struct flock){
        .l_type = type,
        .l_whence = SEEK_SET,
        .l_start = (const char *)writer - (const char *)shared->memory,
        .l_len = sizeof(*writer),
    };
}

static bool set_lock(const struct spool_shared *shared, const struct spool_writer *writer, short type)
{
    struct flock lock = lock_of(shared, writer, type);
    return shared->fd < 0 || fcntl(shared->fd, F_SETLK, &lock) == 0;
}

/* Whether another process than this one, which lives, has the place. */
static bool is_held(const struct spool_shared *shared, const struct spool_writer *writer)
{
    struct flock lock = lock_of(shared, writer, F_WRLCK);
    return shared->fd < 0 || fcntl(shared->fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* Where the looking for a place begins: nearly always at one that is free, and what a dead process has left
 * stays until it is asked for. */
static struct spool_writer *nth_place(const struct spool_shared *shared, pid_t pid, size_t n)
{
    return &shared->memory->writers[((size_t)pid + n) % SPOOL_WRITERS];
}

struct spool_writer *spool_shared_enter(const struct spool_shared *shared)
{
    pid_t pid = getpid();

    for (size_t n = 0; n < SPOOL_WRITERS; n++) {
        struct spool_writer *place = nth_place(shared, pid, n);
        int32_t before = atomic_load(&place->pid);
        if (before != 0 && shared->fd < 0)
            continue;
        if (!set_lock(shared, place, F_WRLCK))
            continue;
        if (shared->fd < 0 && !atomic_compare_exchange_strong(&place->pid, &before, pid))
            continue;
        atomic_store(&place->segment, 0);
        atomic_store(&place->pid, pid);
        return place;
    }
    return NULL;
}

void spool_shared_leave(const struct spool_shared *shared, struct spool_writer *writer)
{
    atomic_store(&writer->segment, 0);
    atomic_store(&writer->pid, 0);
    set_lock(shared, writer, F_UNLCK);
}

uint64_t spool_shared_forget(const struct spool_shared *shared, pid_t pid)
{
    for (size_t n = 0; n < SPOOL_WRITERS; n++) {
        struct spool_writer *place = nth_place(shared, pid, n);
        if (atomic_load(&place->pid) != pid || !set_lock(shared, place, F_WRLCK))
            continue;
        uint64_t segment = atomic_load(&place->segment);
        spool_shared_leave(shared, place);
        return segment;
    }
    return 0;
}

bool spool_shared_names(const struct spool_shared *shared, uint64_t segment)
{
    for (size_t i = 0; i < SPOOL_WRITERS; i++) {
        const struct spool_writer *writer = &shared->memory->writers[i];
        if (atomic_load(&writer->segment) == segment && is_held(shared, writer))
            return true;
    }
    return false;
}
