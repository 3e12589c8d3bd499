/*
 * What the keeper tells: the mapping how the store and its servers do, the log when
 * that changes, and the store's table of instances what this one has in force.
 */
#ifndef FCGI_KEEPER_REPORT_H
#define FCGI_KEEPER_REPORT_H

#include <limits.h>

#include "core/store/store.h"
#include "fcgi/engine/engine.h"

struct keeper_report {
    struct mapping *mapping;
    struct store *store;

    /* Its own. */
    char host[HOST_NAME_MAX + 1];
    bool is_store_ok, is_redis_ok, is_row_ok;     /* as last logged */
    uint64_t refused_messages, redis_connections; /* of this process, as last counted */
    struct {
        struct tree_in_force tree;
        unsigned workers, current;
    } said;           /* in the row */
    uint64_t said_us; /* monotonic; 0: never */
};

void keeper_report_init(struct keeper_report *report, struct mapping *mapping, struct store *store);

/* A look at the store was answered, or why not. */
void keeper_report_store(struct keeper_report *report, bool is_ok, const char *why);

/* Notes the servers' health and the time. To be called after each look, and more often
 * than a view of the store counts as old (fcgi/edge/health.h). */
void keeper_report_health(struct keeper_report *report);

/* Writes this instance's row when it is time to, or when it has something new to say;
 * nothing where there is no database, or it is away. */
void keeper_report_instance(struct keeper_report *report);

#endif
