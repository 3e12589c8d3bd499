#include "core/record/spool_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"

enum {
    PATH_BYTES = 4096,
    DIGITS_MIN = 8,  /* of a number in a name */
    DIGITS_MAX = 18, /* what has more was not made by us */
    TAIL_BYTES = 512 * 1024,
};

/* What is on disk. */
struct census {
    uint64_t total_bytes;
    uint64_t oldest, newest; /* numbers; 0: none */
};

static int path_of(const struct spool *spool, uint64_t number, char path[PATH_BYTES])
{
    int n = snprintf(path, PATH_BYTES, "%s/%s.%08llu.jsonl", spool->folder, spool->plan->program,
                     (unsigned long long)number);
    return n > 0 && n < PATH_BYTES ? 0 : ERR_LIMIT;
}

/* The number in a segment's name; 0: it is no segment of this program. */
static uint64_t number_in(const char *name, const char *program)
{
    size_t len = strlen(program), digits = 0;
    uint64_t number = 0;

    if (strncmp(name, program, len) != 0 || name[len] != '.')
        return 0;
    for (name += len + 1; name[digits] >= '0' && name[digits] <= '9' && digits <= DIGITS_MAX; digits++)
        number = number * 10 + (uint64_t)(name[digits] - '0');
    if (digits < DIGITS_MIN || digits > DIGITS_MAX || strcmp(name + digits, ".jsonl") != 0)
        return 0;
    return number;
}

/* Counts all segments; the oldest is that of those above `passed`. */
static int take_census(const struct spool *spool, uint64_t passed, struct census *out)
{
    DIR *dir = opendir(spool->folder);
    if (dir == NULL)
        return ERR_SYSTEM;
    *out = (struct census){ 0 };
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct stat st;
        uint64_t number = number_in(entry->d_name, spool->plan->program);
        if (number == 0 || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        out->total_bytes += (uint64_t)st.st_size;
        if (number > out->newest)
            out->newest = number;
        if (number > passed && (out->oldest == 0 || number < out->oldest))
            out->oldest = number;
    }
    closedir(dir);
    return 0;
}

int segment_open(const struct spool *spool, uint64_t number, struct error *e)
{
    static const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    char path[PATH_BYTES];

    if (spool->folder == NULL || path_of(spool, number, path) != 0) {
        errno = ENAMETOOLONG;
        return error_set(e, ERR_SYSTEM, "the spool's path is too long");
    }
    int fd = open(path, flags, 0640);
    if (fd < 0 && errno == ENOENT && file_make_dirs(spool->folder, 0750, e) == 0)
        fd = open(path, flags, 0640);
    if (fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot open the spool %s: %s", path, strerror(errno));
    return fd;
}

uint64_t segment_newest(const struct spool *spool)
{
    struct census census;
    return spool->folder != NULL && take_census(spool, 0, &census) == 0 ? census.newest : 0;
}

/* Idle writers may still have it open: its bytes are given back all the same. */
static void remove_segment(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (unlink(path) == 0 && fd >= 0) {
        int ignored = ftruncate(fd, 0); /* else they go with the last of them */
        (void)ignored;
    }
    if (fd >= 0)
        close(fd);
}

void segment_make_room(const struct spool *spool)
{
    const struct spool_plan *plan = spool->plan;
    char path[PATH_BYTES];
    struct census census;
    uint64_t passed = 0;

    while (take_census(spool, passed, &census) == 0 &&
           census.total_bytes + spool->segment_bytes > plan->max_bytes && census.oldest != 0 &&
           census.oldest < atomic_load(plan->current)) {
        passed = census.oldest;
        if (!plan->is_named(plan->ctx, passed) && path_of(spool, passed, path) == 0)
            remove_segment(path);
    }
}

/* What was written a moment ago stands near the end. The id is random enough to
 * stand nowhere but in its event; a torn record has no LF behind it. */
bool spool_has(const struct spool *spool, uint64_t segment, struct span id)
{
    char path[PATH_BYTES];
    bool has = false;
    struct stat st;

    if (segment == 0)
        segment = atomic_load(spool->plan->current);
    if (spool->folder == NULL || path_of(spool, segment, path) != 0)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *tail = xmalloc(TAIL_BYTES);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        off_t from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
        ssize_t n = pread(fd, tail, TAIL_BYTES, from);
        const char *at = n > 0 ? memmem(tail, (size_t)n, id.ptr, id.len) : NULL;
        has = at != NULL && memchr(at, '\n', (size_t)(tail + n - at)) != NULL;
    }
    free(tail);
    if (fd >= 0)
        close(fd);
    return has;
}
