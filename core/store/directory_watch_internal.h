/* Hears of changes of a directory, for directory.c. */
#ifndef CORE_STORE_DIRECTORY_WATCH_INTERNAL_H
#define CORE_STORE_DIRECTORY_WATCH_INTERNAL_H

#include <stdbool.h>

struct directory_watch {
    int fd; /* inotify; -1: not watching */
    int wd; /* of the directory; -1: it is not there now */
};

/* Begins to watch, if it does not yet: the descriptor, or -1 if the system has none to give. */
int directory_watch_begin(struct directory_watch *watch, const char *path);
void directory_watch_end(struct directory_watch *watch);

/* Takes what there is to hear, and watches the directory that is now at `path`. True: there
 * was something. */
bool directory_watch_take(struct directory_watch *watch, const char *path);

#endif
