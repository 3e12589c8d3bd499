/* Documents as operators write them: checked, turned into what is stored, compared. */
#ifndef ADMIN_CTL_DOCUMENT_H
#define ADMIN_CTL_DOCUMENT_H

#include "admin/ctl/session.h"
#include "core/config/diff.h"

/* What is to be stored for `body`, with every key encrypted: CTL_OK, or CTL_REFUSED after
 * all that is wrong with it. `body` may hold plaintexts, and is the caller's to wipe. */
int document_admit(const struct invocation *call, const struct session *session, enum entry_id id,
                   struct span body, struct span current, struct span *out);

/* What differs between two stored values, as it may be shown; `before` may be the empty
 * span. */
void document_diff(const struct invocation *call, const struct session *session, enum entry_id id,
                   struct span before, struct span after, struct config_diff *out);

/* The same as lines on stdout: "- PLACE: VALUE" for what goes, "+ PLACE: VALUE" for what comes. */
int document_print_diff(const struct invocation *call, const struct config_diff *diff);

#endif
