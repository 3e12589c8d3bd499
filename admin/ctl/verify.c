/* verify: whether every key in force can be used. */
#include "admin/ctl/keycheck.h"
#include "admin/ctl/session.h"

int ctl_verify(const struct invocation *call)
{
    struct session session = { 0 };
    char version[STORE_VERSION_BYTES];
    struct key_tally tally = { 0 };

    int status = session_open(call, SESSION_KEYS_NEEDED, &session);
    if (status == CTL_OK)
        status = keycheck_run(call, &session, version, &tally);
    if (status == CTL_OK && tally.broken > 0)
        status = ctl_fail(call, CTL_REFUSED, "%zu of %zu keys of version %s cannot be used", tally.broken,
                          tally.keys, version);
    if (status == CTL_OK)
        status = ctl_printf(call, "all %zu keys of version %s decrypt\n", tally.keys, version);
    if (status == CTL_OK && tally.previous > 0)
        status = ctl_printf(call, "%zu of them with the previous master key only: run llm-routerctl rotate\n",
                            tally.previous);
    session_close(&session);
    return status;
}
