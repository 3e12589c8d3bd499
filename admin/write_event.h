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

/* The spool of this program. Before fork. ERR_SYSTEM. */
int write_event_prepare_spool(const struct admin_settings *settings, struct spool_plan *out, struct error *e);

/* A change is in force: appends its event. One that is dropped is counted and logged. */
void write_event_append(struct admin_turn *turn, const struct admin_change *change, const char *version);

/* A request that would change something is answered with this status. */
void write_event_count(struct admin_turn *turn, int status);

#endif
