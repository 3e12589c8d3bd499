/* One change of an entry: made of the value in force, and put in its place unless it is
 * another by then. */
#ifndef ADMIN_CTL_CHANGE_H
#define ADMIN_CTL_CHANGE_H

#include "admin/ctl/session.h"
#include "core/config/diff.h"

/* What a command makes of the value in force. */
struct composed {
    struct span raw;
    struct config_diff diff; /* from the value in force, for the audit log */
};

/* As --if-version has it: there is no value yet. */
#define CHANGE_NO_VERSION "none"

struct change {
    enum entry_id entry;
    const char *action;   /* for the audit log */
    const char *object;   /* the same: what was changed; NULL: the entry */
    const char *expected; /* the version that it replaces, or CHANGE_NO_VERSION; NULL: any, and it
                           * is composed again when somebody was faster */
    /* call->arena is freed after the attempt; current->raw.ptr is NULL where there is no
     * value. CTL_OK, or a status after a message. */
    int (*compose)(const struct invocation *call, struct session *session, const struct store_value *current,
                   void *ctx, struct composed *out);
    void *ctx;
};

/* CTL_OK, or a status after a message. */
int change_apply(const struct invocation *call, struct session *session, const struct change *change,
                 struct store_outcome *out);

/* Says on stderr what of the outcome an operator would not expect. */
void change_warn(const struct session *session, const struct store_outcome *outcome);

#endif
