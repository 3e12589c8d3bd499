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
#include "core/json/scan.h"

enum {
    DIGITS_MIN = 8,  /* of a number in a name */
    DIGITS_MAX = 18, /* what has more was not made by us */
    TAIL_BYTES = 512 * 1024,
};

int segment_path(const char *folder, const char *program, uint64_t number, char path[SEGMENT_PATH_BYTES])
{
    int n =
        snprintf(path, SEGMENT_PATH_BYTES, "%s/%s.%08llu.jsonl", folder, program, (unsigned long long)number);
    return n > 0 && n < SEGMENT_PATH_BYTES ? 0 : ERR_LIMIT;
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

int segment_take_census(const char *folder, const char *program, uint64_t passed, struct census *out)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return ERR_SYSTEM;
    *out = (struct census){ 0 };
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct stat st;
        uint64_t number = number_in(entry->d_name, program);
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
    char path[SEGMENT_PATH_BYTES];

    if (spool->folder == NULL || segment_path(spool->folder, spool->plan->program, number, path) != 0) {
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

void segment_remove(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (unlink(path) == 0 && fd >= 0) {
        int ignored = ftruncate(fd, 0); /* else they go with the last of them */
        (void)ignored;
    }
    if (fd >= 0)
        close(fd);
}

/* Whether another segment fits into the bound. */
static bool has_room(const struct spool_plan *plan, const struct census *census)
{
    return census->total_bytes + spool_segment_bytes(plan->max_bytes) <= plan->max_bytes;
}

void segment_make_room(const struct spool_plan *plan, const char *folder)
{
    struct spool_memory *memory = plan->shared.memory;
    char path[SEGMENT_PATH_BYTES];
    struct census census;
    uint64_t passed = 0;

    if (spool_is_read(plan)) {
        if (segment_take_census(folder, plan->program, 0, &census) == 0)
            atomic_store(&memory->is_full, !has_room(plan, &census));
        return;
    }
    while (segment_take_census(folder, plan->program, passed, &census) == 0 && !has_room(plan, &census) &&
           census.oldest != 0 && census.oldest < atomic_load(&memory->current)) {
        passed = census.oldest;
        if (!spool_shared_names(&plan->shared, passed) &&
            segment_path(folder, plan->program, passed, path) == 0)
            segment_remove(path);
    }
}

bool segment_is_record(struct span line)
{
    return line.len > 0 && line.ptr[0] == '{' && json_scan(line, NULL, 0, 0, NULL, NULL, NULL) == 0;
}

/* Whether a whole record has it: where another writer's LF ends a torn one, only that it cannot
 * be read says so. */
static bool has_in_record(struct span bytes, struct span text)
{
    const char *end = bytes.ptr + bytes.len, *from = bytes.ptr, *at;

    while (from < end && (at = memmem(from, (size_t)(end - from), text.ptr, text.len)) != NULL) {
        const char *before = memrchr(bytes.ptr, '\n', (size_t)(at - bytes.ptr));
        const char *after = memchr(at, '\n', (size_t)(end - at));
        const char *begin = before == NULL ? bytes.ptr : before + 1;
        if (after == NULL)
            return false;
        if (segment_is_record(span_of(begin, (size_t)(after - begin))))
            return true;
        from = after;
    }
    return false;
}

/* What was written a moment ago stands near the end. */
bool spool_has(const struct spool *spool, uint64_t segment, struct span id)
{
    char path[SEGMENT_PATH_BYTES];
    bool has = false;
    struct stat st;

    if (segment == 0)
        segment = atomic_load(&spool->plan->shared.memory->current);
    if (spool->folder == NULL || segment_path(spool->folder, spool->plan->program, segment, path) != 0)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *tail = xmalloc(TAIL_BYTES);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        off_t from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
        ssize_t n = pread(fd, tail, TAIL_BYTES, from);
        has = n > 0 && has_in_record(span_of(tail, (size_t)n), id);
    }
    free(tail);
    if (fd >= 0)
        close(fd);
    return has;
}

int spool_remove_passed(const struct spool_plan *plan, uint64_t segment, uint64_t *total_bytes)
{
    struct spool_memory *memory = plan->shared.memory;
    char *folder = spool_folder(plan), path[SEGMENT_PATH_BYTES];
    struct census census = { 0 };
    uint64_t passed = 0;
    int r = folder == NULL ? ERR_SYSTEM : 0;

    while (r == 0 && (r = segment_take_census(folder, plan->program, passed, &census)) == 0 &&
           census.oldest != 0 && census.oldest < segment && census.oldest < census.newest &&
           census.oldest < atomic_load(&memory->current)) {
        passed = census.oldest;
        if (!spool_shared_names(&plan->shared, passed) &&
            segment_path(folder, plan->program, passed, path) == 0)
            segment_remove(path);
    }
    if (r == 0)
        atomic_store(&memory->is_full, !has_room(plan, &census));
    if (r == 0)
        *total_bytes = census.total_bytes;
    free(folder);
    return r;
}
