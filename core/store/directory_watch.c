#include "core/store/directory_watch_internal.h"

#include <libgen.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "core/base/arena.h"

/* A file is looked at when it has been closed, not when it is made or written to:
 * between the two it holds half a value. */
static const uint32_t changes =
    IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
static const uint32_t arrivals = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;

/* A watch is on a directory, not on its path. Asked again it stays the same one,
 * unless another directory, or none, stands there by now: then true. */
static bool watch_path(struct directory_watch *watch, const char *path)
{
    int wd = inotify_add_watch(watch->fd, path, changes), before = watch->wd;
    if (before >= 0 && before != wd)
        inotify_rm_watch(watch->fd, before);
    watch->wd = wd;
    return wd != before;
}

int directory_watch_begin(struct directory_watch *watch, const char *path)
{
    if (watch->fd >= 0)
        return watch->fd;
    watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch->fd < 0)
        return -1;
    char *copy = xstrdup(path);
    inotify_add_watch(watch->fd, dirname(copy), arrivals); /* where another one would appear */
    free(copy);
    watch_path(watch, path);
    return watch->fd;
}

void directory_watch_end(struct directory_watch *watch)
{
    if (watch->fd >= 0)
        close(watch->fd);
    watch->fd = -1;
}

bool directory_watch_take(struct directory_watch *watch, const char *path)
{
    char events[4096];
    bool is_heard = false;

    if (watch->fd < 0)
        return false;
    do {
        while (read(watch->fd, events, sizeof(events)) > 0)
            is_heard = true;           /* that there was something is all there is to know */
    } while (watch_path(watch, path)); /* the end of a watch is an event too */
    return is_heard;
}
