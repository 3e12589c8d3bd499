#include "core/upstream/resolver.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    HOST_BYTES = 46,
    NAME_BYTES = 16, /* of a thread, with a NUL */
    PATH_BYTES = NAME_MAX + sizeof("/comm"),
};

bool resolver_is_address(const char *url)
{
    unsigned char address[16];
    char host[HOST_BYTES];
    const char *start = strstr(url, "://");

    start = start == NULL ? url : start + 3;
    if (*start == '[')
        return true;
    size_t len = strcspn(start, ":/?#");
    if (len >= sizeof(host))
        return false;
    memcpy(host, start, len);
    host[len] = '\0';
    return inet_pton(AF_INET, host, address) == 1;
}

/* Whether the thread in this folder of /proc has the name. */
static bool is_named(int tasks, const char *id, const char *name)
{
    char path[PATH_BYTES], found[NAME_BYTES + 1] = "";
    ssize_t n = -1;

    snprintf(path, sizeof(path), "%s/comm", id);
    int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, found, sizeof(found));
        close(fd);
    }
    size_t len = strlen(name);
    return n == (ssize_t)len + 1 && memcmp(found, name, len) == 0; /* a line feed follows */
}

/* Threads of this process that are named as the calling one, which is among them; 0: unknown. */
static unsigned count_namesakes(void)
{
    char name[NAME_BYTES];
    const struct dirent *entry;
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");

    if (tasks == NULL || pthread_getname_np(pthread_self(), name, sizeof(name)) != 0)
        goto out;
    while ((entry = readdir(tasks)) != NULL)
        count += entry->d_name[0] != '.' && is_named(dirfd(tasks), entry->d_name, name) ? 1 : 0;
out:
    if (tasks != NULL)
        closedir(tasks);
    return count;
}

bool resolver_may_start(void)
{
    return count_namesakes() < 1 + RESOLVER_THREADS_MAX;
}
