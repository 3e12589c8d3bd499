/*
 * The master's state, and its parts: the children (children.c), the upgrade in
 * place (upgrade.c), and the loop around them (master.c).
 */
#ifndef FCGI_ENGINE_MASTER_INTERNAL_H
#define FCGI_ENGINE_MASTER_INTERNAL_H

#include "fcgi/engine/child_log.h"
#include "fcgi/engine/engine.h"
#include "fcgi/engine/handover.h"

/* One place for a process: a role's, or a worker's. */
struct child {
    pid_t pid;                        /* 0: not running */
    const struct engine_role *role;   /* NULL: a worker */
    struct scoreboard_record *record; /* of a worker; NULL: in a mapping that is no more */
    unsigned slot;                    /* of the record */
    bool is_old;                      /* runs the program before the last upgrade */
    bool is_leaving;                  /* a worker that was told to end after its request */
    bool is_killed;                   /* by us: its death is no news */
    uint64_t slow_us;                 /* when the request that was told of as slow began */
    uint64_t leave_by_us;             /* when patience with a leaving one ends */
    uint64_t started_us;
    uint64_t start_at_us; /* not before */
    uint64_t delay_us;
};

enum phase {
    RUNNING,
    UPGRADING, /* the roles end; then the successor takes over */
    DRAINING,
    ENDING,
};

struct master {
    const struct engine_program *program;
    const struct engine_settings *settings;
    struct mapping *mapping;
    struct listener listener, health;
    struct child_log child_log;
    struct child *children; /* the roles', then one for each record, then those without one */
    size_t n_children;
    unsigned n_places; /* of `children`: all but the last kind */
    enum phase phase;
    uint64_t phase_ends_us; /* when patience ends; not in RUNNING */
    uint64_t begun_us;      /* monotonic: this master began, or took over */
    pid_t check;            /* the successor on trial; 0: none is */
    uint64_t check_ends_us; /* when patience with it ends */
    bool is_last_told;      /* in UPGRADING: to end, the roles that are the last to */
    int signals;            /* signalfd */
    int need;               /* eventfd: the overflow process found somebody waiting */
    struct pool pool;
    bool is_ready_told;      /* the supervisor knows that we serve */
    uint64_t hangup_us;      /* monotonic: the last SIGHUP; 0: it is followed, or there was none */
    uint64_t watchdog_us;    /* how often it wants to hear of us; 0: never */
    uint64_t watchdog_at_us; /* when it is to hear next */
    uint64_t start_at_us;    /* no child is started before: a fork has failed */
    uint64_t start_delay_us; /* so long was that put off; 0: the last one succeeded */
    sigset_t handled;
    int pidfile;
    int secrets; /* see environment_seal_kept */
};

/* --- children.c --- */

/* Makes the places; those of `handover` are taken. NULL: nobody is there. */
void children_init(struct master *m, const struct handover *handover, bool is_same_mapping);

/* Starts what is missing and tells workers to leave that are too many: in RUNNING, and of workers in
 * UPGRADING too. */
void children_keep(struct master *m);

/* Collects those that have ended. */
void children_reap(struct master *m);

void children_signal(const struct master *m, int signal, bool to_workers);
size_t children_running(const struct master *m);
/* Roles, by whether callers or probes connect to them. */
void roles_signal(const struct master *m, int signal, bool has_listeners);
size_t roles_running(const struct master *m, bool has_listeners);

/* Whether a worker of this program serves, or none need to. */
bool children_serve(const struct master *m);

/* Kills workers whose requests are too old, and those that do not leave. */
void children_end_late(struct master *m);

/* Monotonic time at which one of these functions has something to do. */
uint64_t children_due_us(const struct master *m);

/* --- upgrade.c --- */

/* SIGUSR2: has the successor look at what it would take over. */
void upgrade_begin(struct master *m);

/* A child has ended: true if it was the successor on trial. */
bool upgrade_take_check(struct master *m, pid_t pid, int status);

/* Ends a trial that takes too long. */
void upgrade_end_late_check(struct master *m);

/* In UPGRADING: ends the roles, and becomes the successor when none is left. */
void upgrade_go_on(struct master *m);

/* Kills roles that do not end. */
void upgrade_lose_patience(struct master *m);

/* In the successor: takes over. `*is_same_mapping`: the scoreboard is the one before. */
int upgrade_adopt(struct master *m, int file, struct handover *out, bool *is_same_mapping, struct error *e);

#endif
