#include "admin/ctl/duration.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/clock.h"

const char *duration_text(uint64_t us, char out[DURATION_BYTES])
{
    uint64_t s = us / US_PER_S, minutes = s / 60;

    if (us == 0)
        snprintf(out, DURATION_BYTES, "-");
    else if (us < 10 * US_PER_MS)
        snprintf(out, DURATION_BYTES, "%.1f ms", (double)us / (double)US_PER_MS);
    else if (s < 10)
        snprintf(out, DURATION_BYTES, "%" PRIu64 " ms", us / US_PER_MS);
    else if (minutes < 2)
        snprintf(out, DURATION_BYTES, "%.1f s", (double)us / (double)US_PER_S);
    else if (minutes < 120)
        snprintf(out, DURATION_BYTES, "%" PRIu64 " min", minutes);
    else
        snprintf(out, DURATION_BYTES, "%" PRIu64 " h %02" PRIu64 " min", minutes / 60, minutes % 60);
    return out;
}
