/*
 * The event of an administrator's write, airi.gen_ai.gateway.config.write, in the program's own
 * spool (STATE_DIR/spool/llm-router-admin.*.jsonl), from where the shipper exports it:
 *
 *   {"v":1,"event":"airi.gen_ai.gateway.config.write","id":UUIDv7,"time":µs since 1970,"instance":…,
 *    "actor_email":…,"version":…,"key_count":…,"action":…,"entry":…,"request_id":…}
 *
 * And the metric of the same name, which counts those that failed, too.
 */
#ifndef ADMIN_WRITE_EVENT_H
#define ADMIN_WRITE_EVENT_H

#include "admin/change.h"
#include "core/record/spool.h"

/* The spool of this program, as the process appends to it to whom `mine` belongs; NULL: it reads. */
struct spool_plan write_event_spool_plan(const struct admin_settings *settings, struct mapping *mapping,
                                         _Atomic uint64_t *mine);

/* A change is in force: appends its event. One that is dropped is counted and logged. */
void write_event_append(struct admin_turn *turn, const struct admin_change *change, const char *version);

/* A request that would change something was answered with this status. */
void write_event_count(struct admin_turn *turn, int status);

#endif
