/*
 * For LD_PRELOAD: a clock of the day that jumps. It is ahead of the machine's by so many seconds as the
 * file MOVED_CLOCK says, one int64_t, which may change at any time. The monotonic clock does not move.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t moved_s(void)
{
    static const volatile int64_t *place;

    if (place == NULL) {
        const char *path = getenv("MOVED_CLOCK");
        int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*place), PROT_READ, MAP_SHARED, fd, 0);
        if (mapped == MAP_FAILED)
            abort(); /* a test that moves nothing would show nothing */
        close(fd);
        place = mapped;
    }
    return *place;
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): glibc's are reserved names */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    int r = (int)syscall(SYS_clock_gettime, clock, out);
    if (r == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += moved_s();
    return r;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
    return 0;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
