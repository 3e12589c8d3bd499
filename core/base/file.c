#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_read(const char *path, size_t limit, struct arena *arena, struct span *out, struct error *e)
{
    int result = 0;
    struct stat st;
    /* A FIFO of that name must not hold us: it is refused below. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return error_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, "cannot open %s: %s", path,
                         strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        result = error_set(e, ERR_SYSTEM, "%s is not a regular file", path);
        goto out;
    }
    if (st.st_size < 0 || (size_t)st.st_size > limit) {
        result = error_set(e, ERR_LIMIT, "%s has %lld bytes, at most %zu are allowed", path,
                           (long long)st.st_size, limit);
        goto out;
    }
    size_t size = (size_t)st.st_size, have = 0;
    char *bytes = arena_alloc(arena, size + 1);
    while (have < size) {
        ssize_t n = read(fd, bytes + have, size - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            result = error_set(e, ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
            goto out;
        }
        if (n == 0)
            break; /* it shrank meanwhile: what there is, is the file */
        have += (size_t)n;
    }
    bytes[have] = '\0';
    *out = span_of(bytes, have);
out:
    close(fd);
    return result;
}

int file_lock(const char *path, mode_t mode, int *out, struct error *e)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    if (fcntl(fd, F_SETLK, &lock) != 0) {
        bool is_taken = errno == EACCES || errno == EAGAIN;
        int r = is_taken ? error_set(e, ERR_CONFLICT, "another process has locked %s", path)
                         : error_set(e, ERR_SYSTEM, "cannot lock %s: %s", path, strerror(errno));
        close(fd);
        return r;
    }
    *out = fd;
    return 0;
}

int file_write_all(int fd, const void *bytes, size_t len)
{
    const char *p = bytes;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ERR_SYSTEM;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The rename lasts only once its directory is on disk. */
static int sync_parent(const char *path)
{
    char parent[4096];
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(parent, sizeof(parent), ".");
    else
        snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), slash == path ? "/" : path);
    int fd = open(slash == path ? "/" : parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int r = fsync(fd);
    close(fd);
    return r;
}

int file_replace(const char *path, struct span bytes, mode_t mode, struct error *e)
{
    char temporary[4096];
    int n = snprintf(temporary, sizeof(temporary), "%s.new.%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof(temporary))
        return error_set(e, ERR_LIMIT, "the path %.200s… is too long", path);
    unlink(temporary); /* of a process that died with our id */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot create %s: %s", temporary, strerror(errno));
    int failed = fchmod(fd, mode) != 0 || file_write_all(fd, bytes.ptr, bytes.len) != 0 || fsync(fd) != 0;
    int cause = errno;
    if (close(fd) != 0 && !failed) {
        failed = 1;
        cause = errno;
    }
    if (!failed && rename(temporary, path) != 0) {
        failed = 1;
        cause = errno;
    }
    if (failed) {
        unlink(temporary);
        return error_set(e, ERR_SYSTEM, "cannot write %s: %s", path, strerror(cause));
    }
    if (sync_parent(path) != 0)
        return error_set(e, ERR_SYSTEM, "cannot sync the directory of %s: %s", path, strerror(errno));
    return 0;
}

int file_make_dirs(const char *path, mode_t mode, struct error *e)
{
    char part[4096];
    size_t len = strlen(path);
    if (len >= sizeof(part))
        return error_set(e, ERR_LIMIT, "the path %.200s… is too long", path);
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, mode) != 0 && errno != EEXIST)
            return error_set(e, ERR_SYSTEM, "cannot make the directory %s: %s", part, strerror(errno));
        part[i] = kept;
    }
    return 0;
}
