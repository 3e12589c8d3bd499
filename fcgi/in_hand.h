/*
 * The request in hand, as the scoreboard has it: what a worker leaves there for
 * the case that it dies, and the event that the master makes of it.
 */
#ifndef FCGI_IN_HAND_H
#define FCGI_IN_HAND_H

#include "core/record/event.h"
#include "fcgi/router.h"

/* In a worker: notes what its event knows by now. */
void in_hand_note(struct scoreboard_record *record, const struct request_event *event);

/* In the master: counts a request that died with its worker, which had this record
 * and slot, and appends its event; neither again if the worker had come so far. */
void in_hand_append_death(const struct router_settings *settings, struct mapping *mapping, unsigned slot,
                          const struct scoreboard_record *record);

/* The snapshot that upstreams were last found in. Zeroed at first. */
struct in_hand_upstreams {
    struct snapshot snapshot;
};

/* The id of the upstream that a request in hand is at, of a worker that uses this
 * generation; "" while it is at none, or the generation's file is gone. Valid until the
 * next call. */
struct span in_hand_upstream(struct in_hand_upstreams *upstreams, const char *run_dir, uint64_t generation,
                             const struct scoreboard_request *request);

/* In the master: a line of the log about a request that takes long. */
void in_hand_log_slow(struct in_hand_upstreams *upstreams, const char *run_dir,
                      const struct scoreboard_record *record);

#endif
