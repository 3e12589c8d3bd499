/* A change as the audit log tells it: one form, in whichever store. Pure. */
#ifndef CORE_STORE_AUDIT_INTERNAL_H
#define CORE_STORE_AUDIT_INTERNAL_H

#include "core/json/writer.h"
#include "core/store/store.h"

struct audit_line {
    const char *time; /* RFC 3339, UTC */
    const char *key;
    const char *version_before; /* NULL: there was no value */
    const char *version_after;
    struct store_audit told; /* by whoever made the change */
};

/* Writes it as one JSON object; "changes" is [] where none are told. */
void audit_write(struct json_writer *w, const struct audit_line *line);

#endif
