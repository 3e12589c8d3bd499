/* Who may read this process's memory. */
#ifndef CORE_BASE_MEMORY_SECRECY_H
#define CORE_BASE_MEMORY_SECRECY_H

#include "core/base/err.h"

/* From here on only root can: no core dump is written, no debugger of the same
 * user attaches, and /proc/PID/{mem,environ,fd} are closed to it. Children inherit
 * it over a fork, not over an exec. ERR_SYSTEM. */
int memory_keep_secret(struct error *e);

#endif
