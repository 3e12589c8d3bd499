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
void in_hand_append_death(const struct router_shared *shared, struct mapping *mapping, unsigned slot,
                          const struct scoreboard_record *record);

enum { IN_HAND_SNAPSHOTS = 4 };

/* Snapshots that upstreams were found in, by generation. Zeroed at first. */
struct in_hand_upstreams {
    const char *run_dir;
    struct snapshot snapshots[IN_HAND_SNAPSHOTS];
};

/* A worker as the scoreboard shows it to others. */
struct in_hand_look {
    int32_t pid; /* 0: nobody has this record */
    enum stage stage;
    uint64_t stage_ms;    /* for how long it is there */
    uint64_t requests;    /* finished */
    uint64_t generation;  /* of its snapshot */
    bool has_request;     /* the rest is of one in hand */
    uint64_t age_ms;      /* since it was taken */
    struct span upstream; /* the id of the one that was asked last; "": none was, or it is not known any more.
                             Valid until the next look */
    struct scoreboard_request request;
};

/* While the worker goes on. */
void in_hand_look(struct in_hand_upstreams *upstreams, const struct scoreboard_record *record,
                  struct in_hand_look *out);

/* In the master: a line of the log about a request that takes long. */
void in_hand_log_slow(struct in_hand_upstreams *upstreams, const struct scoreboard_record *record);

#endif
