#include "core/base/clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * US_PER_S + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t clock_monotonic_us(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_wall_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

void clock_text(uint64_t wall_us, char out[CLOCK_TEXT_BYTES])
{
    time_t seconds = (time_t)(wall_us / US_PER_S);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(out, CLOCK_TEXT_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, CLOCK_TEXT_BYTES - n, ".%06uZ", (unsigned)(wall_us % US_PER_S));
}
