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

#endif
