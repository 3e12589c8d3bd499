/* Time in microseconds. */
#ifndef CORE_BASE_CLOCK_H
#define CORE_BASE_CLOCK_H

#include <stdint.h>

#define US_PER_MS UINT64_C(1000)
#define US_PER_S UINT64_C(1000000)

/* Monotonic: for durations and deadlines; comparable between processes of one boot. */
uint64_t clock_monotonic_us(void);

/* Since 1970-01-01T00:00:00Z: for records and logs only. */
uint64_t clock_wall_us(void);

/* `out` receives e.g. "2026-11-29T21:02:20.123456Z" and a NUL. */
enum { CLOCK_TEXT_BYTES = 28 };
void clock_text(uint64_t wall_us, char out[CLOCK_TEXT_BYTES]);

#endif
