#include "fcgi/engine/pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"

int pidfile_take(const char *run_dir, const char *program, int *out, struct error *e)
{
    char path[4096], text[24];
    int fd;

    snprintf(path, sizeof(path), "%s/%s.pid", run_dir, program);
    int r = file_lock(path, 0644, &fd, e);
    if (r == ERR_CONFLICT)
        return error_set(e, r, "another %s runs in %s", program, run_dir);
    if (r != 0)
        return r;
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || file_write_all(fd, text, (size_t)len) != 0) {
        int cause = errno;
        close(fd);
        return error_set(e, ERR_SYSTEM, "cannot write %s: %s", path, strerror(cause));
    }
    *out = fd;
    return 0;
}

int pidfile_keep(int fd, struct error *e)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    if (fcntl(fd, F_SETLK, &lock) == 0)
        return 0;
    return error_set(e, errno == EAGAIN || errno == EACCES ? ERR_CONFLICT : ERR_SYSTEM,
                     "the lock of the pid file was lost: %s", strerror(errno));
}

bool pidfile_is_held(const char *run_dir, const char *program)
{
    char path[4096];
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    snprintf(path, sizeof(path), "%s/%s.pid", run_dir, program);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool held = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(fd);
    return held;
}

void pidfile_release(int fd)
{
    if (ftruncate(fd, 0) != 0)
        return; /* nothing to be done about it, and the lock goes anyway */
    close(fd);
}
