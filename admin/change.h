/*
 * A change of an entry by an administrator: from what is in force to what shall be,
 * with everything that belongs to it: who else was faster, the audit log, the log line,
 * the dry run.
 */
#ifndef ADMIN_CHANGE_H
#define ADMIN_CHANGE_H

#include "admin/admin.h"
#include "core/config/entry.h"
#include "core/config/update.h"

struct admin_change {
    enum entry_id entry;
    const char *action;   /* "put" */
    const char *object;   /* "LLM_ROUTER_CONFIG"; make() may change it */
    const char *expected; /* the version that it is made for; NULL: whichever is in force */
    const char *restored; /* the version that comes back; NULL: none */
    /*
     * Makes `next`, `before` and `after` of what is in force (raw.ptr NULL: nothing); the
     * latter two are what may be shown of both, empty where there is nothing. All are of
     * the arena. Called again when somebody else was faster. A negative return ends the
     * change, after a reply.
     */
    int (*make)(struct admin_turn *turn, struct admin_change *change, const struct store_value *current,
                struct arena *arena);
    void *ctx; /* make's own */
    struct span next, before, after;
    size_t key_count; /* of the keys in `next`, for the log */
};

/* Does it: 0 and *out. Otherwise, and after a dry run, the reply has been sent, and the
 * return is negative. */
int admin_apply(struct admin_turn *turn, struct admin_change *change, struct store_outcome *out);

#endif
