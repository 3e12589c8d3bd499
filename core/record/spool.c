#include "core/record/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/file.h"

int spool_open(const char *state_dir, const char *program, struct spool *out, struct error *e)
{
    char path[4096];

    *out = (struct spool){ .fd = -1 };
    int n = snprintf(path, sizeof(path), "%s/spool/%s.00000001.jsonl", state_dir, program);
    if (n < 0 || (size_t)n >= sizeof(path))
        return error_set(e, ERR_LIMIT, "the state directory's path is too long");
    char *slash = path + strlen(state_dir) + strlen("/spool");
    *slash = '\0';
    int r = file_make_dirs(path, 0750, e);
    if (r != 0)
        return r;
    *slash = '/';
    out->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (out->fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot open the spool %s: %s", path, strerror(errno));
    return 0;
}

void spool_close(struct spool *spool)
{
    if (spool->fd >= 0)
        close(spool->fd);
    spool->fd = -1;
}

int spool_append(struct spool *spool, struct span line)
{
    static char newline[] = "\n";
    struct iovec pieces[] = {
        { newline, 1 },
        { (void *)(uintptr_t)line.ptr, line.len },
        { newline, 1 },
    };
    ssize_t n;

    do
        n = writev(spool->fd, pieces, 3);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)line.len + 2) {
        spool->dropped++;
        if (n >= 0)
            errno = ENOSPC; /* a short append: the reader skips the torn line */
        return ERR_SYSTEM;
    }
    spool->appended++;
    return 0;
}
