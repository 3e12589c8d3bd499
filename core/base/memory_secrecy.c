#include "core/base/memory_secrecy.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

int memory_keep_secret(struct error *e)
{
    const struct rlimit none = { 0, 0 };

    /* The first suffices on any system that we know; the second is for what reads
     * the limit, and is shown to who asks. */
    if (prctl(PR_SET_DUMPABLE, 0) != 0 || setrlimit(RLIMIT_CORE, &none) != 0)
        return error_set(e, ERR_SYSTEM, "core dumps cannot be turned off: %s", strerror(errno));
    return 0;
}
