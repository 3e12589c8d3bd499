#include "core/store/audit_internal.h"

void audit_write(struct json_writer *w, const struct audit_line *line)
{
    jw_begin_object(w);
    jw_member_cstr(w, "time", line->time);
    jw_member_cstr(w, "actor", line->told.actor);
    jw_member_cstr(w, "action", line->told.action);
    jw_member_cstr(w, "object", line->told.object);
    jw_member_cstr(w, "key", line->key);
    jw_member_cstr(w, "versionBefore", line->version_before);
    jw_member_cstr(w, "versionAfter", line->version_after);
    jw_member_cstr(w, "sourceAddress", line->told.source_address);
    jw_member_cstr(w, "requestId", line->told.request_id);
    jw_key(w, "changes");
    jw_raw(w, line->told.changes.len > 0 ? line->told.changes : span_cstr("[]"));
    jw_end_object(w);
}
