/* A duration as people read it: "0.4 ms", "842 ms", "12.3 s", "13 min", "2 h 05 min"; "-" for 0. */
#ifndef ADMIN_CTL_DURATION_H
#define ADMIN_CTL_DURATION_H

#include <stdint.h>

enum { DURATION_BYTES = 24 };

/* Returns `out`. */
const char *duration_text(uint64_t us, char out[DURATION_BYTES]);

#endif
