#include "core/upstream/resolver.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_BYTES = 46, STATUS_BYTES = 4096 };

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

/* Threads of this process; 0: unknown. */
static unsigned long count_threads(void)
{
    char status[STATUS_BYTES];
    ssize_t n = -1;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        n = read(fd, status, sizeof(status) - 1);
        close(fd);
    }
    if (n <= 0)
        return 0;
    status[n] = '\0';
    const char *line = strstr(status, "\nThreads:");
    return line == NULL ? 0 : strtoul(line + strlen("\nThreads:"), NULL, 10);
}

bool resolver_may_start(void)
{
    return count_threads() < 1 + RESOLVER_THREADS_MAX;
}
