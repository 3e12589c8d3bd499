/*
 * The engine: a master that forks identical workers and a few auxiliary
 * processes, hands connections to the workers, and ends all of them in order. It
 * knows nothing of how a request is answered: a program is described to it by one struct.
 * What is served shows in the mapping alone, since there is one for all that processes share, and in
 * reply.h, which writes the failures of core/route.
 *
 * What runs where: init_master before the first fork, init_worker and a role's
 * run after it, each once per process.
 */
#ifndef FCGI_ENGINE_ENGINE_H
#define FCGI_ENGINE_ENGINE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "fcgi/engine/conn.h"
#include "fcgi/engine/listener.h"
#include "fcgi/engine/mapping.h"
#include "fcgi/engine/pool.h"

/* What the engine needs to be told by a program's settings. */
struct engine_settings {
    const char *run_dir; /* made if missing */
    const char *listen;  /* see listener_open */
    const char *health;  /* the same, for a second socket; NULL: none */
    char *const *argv;   /* of main: what an upgrade starts its successor with */
    enum pool_mode pm;
    int64_t workers;           /* POOL_STATIC */
    int64_t max_workers;       /* the others; this and the next three are in pool.h's words */
    int64_t min_spare_workers; /* POOL_DYNAMIC */
    int64_t max_spare_workers;
    int64_t idle_timeout_ms;  /* POOL_ONDEMAND */
    int64_t drain_timeout_ms; /* how long requests in hand may go on after SIGTERM */
    int64_t queue_timeout_ms; /* how long a connection may wait before it is shed */
    int64_t max_requests; /* of a worker, give or take a tenth, before another takes its place; 0: no bound */
    int64_t slow_request_ms;  /* a request that takes longer is told of, once; 0: none is */
    int64_t request_limit_ms; /* a request that takes longer is ended with its worker; 0: no bound */
};

/* What a process of the engine has. */
struct engine_process {
    const struct engine_settings *settings;
    struct mapping *mapping;
    const struct listener *listener, *health; /* NULL in processes that have no use for them */
    int need;                                 /* see engine_tell_need */
    pid_t master;                             /* in its children */
    uint64_t begun_us;                        /* monotonic: the master began, or took over */
    unsigned slot;                            /* of a worker */
    struct scoreboard_record *record;         /* of a worker; NULL in other processes */
    sigset_t open_mask;                       /* the signals to have open while waiting */
};

/* An auxiliary process: one job, started again when it ends. */
struct engine_role {
    const char *name;                           /* "keeper" */
    int (*run)(struct engine_process *process); /* returns after engine_is_stopping(); its exit code */
    bool has_listeners;                         /* process->listener and ->health are open in it */
    bool follows_hangups;                       /* and says so in mapping->keeper.followed_us */
};

struct engine_program {
    const char *name; /* "llm-router" */
    const struct engine_role *roles;
    size_t n_roles;
    /* Everything that can be done once. Before fork; the mapping exists, and the
     * process's memory is secret (core/base/memory_secrecy.h). */
    int (*init_master)(struct engine_process *process, struct error *e);
    int (*init_worker)(struct engine_process *process, struct error *e);
    /* In a worker that begins, or was sent SIGHUP, between two requests: there may be
     * something to take up before the next one. NULL: there never is. */
    void (*refresh)(struct engine_process *process);
    /* One request, from its parameters to its end; conn_close follows. */
    void (*serve)(struct engine_process *process, struct conn *conn);
    /* In the master: a worker died with the request in `record->request`. The slot
     * is the process's. NULL: nobody needs to know. */
    void (*worker_died)(struct engine_process *process, const struct scoreboard_record *record);
    /* In the master: the request that `record` has in hand takes long. NULL: nobody needs to know. */
    void (*request_slow)(struct engine_process *process, const struct scoreboard_record *record);
    /* Instead of what the roles would provide, in a process that serves one
     * request alone: no instance runs. Before init_worker. May be NULL. */
    int (*init_alone)(struct engine_process *process, struct error *e);
    uint32_t stall_ms; /* until `serve` sets another bound on the connection */
};

/* Runs the program until it is told to end: SIGTERM drains, SIGINT and SIGQUIT
 * end at once, SIGHUP is passed to the roles (a supervisor hears when the one that
 * follows it has done so, or seems not to), SIGUSR2 makes the process the program
 * that is now where it was started from. Returns the exit code: 0, or 1 with the
 * reason in the log. */
int engine_run(const struct engine_program *program, const struct engine_settings *settings);

/* Looks whether the program could begin, or take over from the one that asks by
 * SIGUSR2, and changes nothing. The exit code: 0, or 1 with the reason in the log. */
int engine_check(const struct engine_program *program, const struct engine_settings *settings);

/* What the settings say of the number of workers. */
struct pool_policy engine_pool(const struct engine_settings *settings);

/* How many records the scoreboard has: for the workers of two programs, while one
 * takes over from the other. */
unsigned engine_records(const struct engine_settings *settings);

/* Whether this process was started as a CGI program: GATEWAY_INTERFACE is set
 * and fd 0 is no listening socket. What stands on its command line then comes
 * from the request (RFC 3875, section 4.4) and must not be read. */
bool engine_is_cgi(void);

/* Serves the one request of a CGI program, with what a running instance has
 * prepared if there is one. The exit code. */
int engine_run_cgi(const struct engine_program *program, const struct engine_settings *settings);

/* In a role: sends SIGHUP to the workers that do not use the generation in force. */
void engine_wake_workers(const struct mapping *mapping);

/* In a role: tells the master that somebody waits and that the mapping says how many,
 * where it may have too few workers. */
void engine_tell_need(const struct engine_process *process);

/* In a child: SIGTERM has come. */
bool engine_is_stopping(void);

/* In a child: the master has died, and there may be another already. */
bool engine_is_orphaned(void);

/* In a child: SIGHUP has come since the last call. */
bool engine_take_hangup(void);

/* In a role: waits for a signal, at most timeout_ms. */
void engine_wait(const struct engine_process *process, unsigned timeout_ms);

/* The same, and no longer than until `fd` is readable; -1: there is none. */
void engine_wait_readable(const struct engine_process *process, int fd, unsigned timeout_ms);

#endif
