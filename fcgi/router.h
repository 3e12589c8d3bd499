/*
 * llm-router as a program of the engine: its settings, what its workers own, and
 * the processes it has besides them.
 */
#ifndef FCGI_ROUTER_H
#define FCGI_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/admit/addresses.h"
#include "core/admit/admins.h"
#include "core/admit/admit.h"
#include "core/admit/pools.h"
#include "core/base/arena.h"
#include "core/config/snapshot.h"
#include "core/crypto/envelope.h"
#include "core/record/event.h"
#include "core/record/spool.h"
#include "core/record/trace_context.h"
#include "core/store/store.h"
#include "core/telemetry/otlp_settings.h"
#include "core/upstream/exchange.h"
#include "fcgi/engine/engine.h"

enum caller_auth { CALLER_AUTH_KEYS, CALLER_AUTH_REMOTE_USER, CALLER_AUTH_NONE };

struct router_settings {
    struct engine_settings engine;
    const char *pm_name;
    const char *state_dir;
    const char *ca_file; /* NULL: the system's */
    const char *caller_auth_name;
    const char *ready_name;
    const char *pools_alone_name;
    const char *metrics_access_text;
    const char *admin_token_file; /* or NULL */
    const char *admin_emails;     /* or NULL */
    const char *log_retention_name;
    int64_t max_body_bytes;
    int64_t max_header_bytes;
    int64_t body_memory_bytes;
    int64_t spool_max_bytes;
    enum caller_auth caller_auth; /* of caller_auth_name */
    unsigned log_retention_days;  /* of log_retention_name; 0: keep */
    bool is_ready_strict;         /* of ready_name */
    bool refuses_pools_alone;     /* of pools_alone_name */
    struct trace_policy tracing;  /* of OTEL_*, once init_master has read them */
    bool is_cgi;                  /* one request: what costs time is made when it is needed */
    bool is_check;                /* --check: beside an instance that runs, perhaps */
    /* Who may read /metrics and /status; nobody does in a CGI program. */
    struct address_list metrics_access; /* of metrics_access_text */
    struct admins admins;               /* of the two above */
};

/* What is made before fork; children inherit it and change nothing of it. */
struct router_shared {
    const struct router_settings *settings;
    struct spool_plan spool_plan;
    struct envelope_keys keys;
    bool has_keys;
    struct trust trust;
    struct store_place place;  /* wiped in processes that do not open the store */
    struct otlp_settings otlp; /* its secrets are wiped in processes that do not export */
};

/* A worker's own. */
struct router_worker {
    const struct router_shared *shared;
    struct engine_process *process;
    struct exchange_client *client;
    struct spool spool;
    struct admit admit;
    struct pools pools;
    struct arena *arena; /* of the request in hand */
    struct snapshot snapshot;
    struct arena *snapshot_arena; /* of one that came from no file; else NULL */
    uint64_t generation;          /* of the snapshot; 0: none */
    struct request_event event;
};

/* The program's settings, once they are read; its spool, once init_master has run. */
const struct router_settings *router_settings(void);
const struct spool_plan *router_spool_plan(void);

/* The keeper's process: reads the store, publishes snapshots. Its exit code. */
int keeper_run(struct engine_process *process, const struct router_shared *shared);

/* The same with a store that is open: until engine_is_stopping(). */
void keeper_serve(struct engine_process *process, const struct router_shared *shared, struct store *store);

/* Appends the event of a request that is counted. */
void router_append_event(struct spool *spool, struct mapping *mapping, const struct request_event *event);

/* The end of a request: counts it in the metrics' cells and appends its event. One
 * that is dropped is logged, ever more rarely. `record` is the worker's that had it
 * in hand, and says from then on that it is counted; NULL: none had. */
void router_record(struct spool *spool, struct mapping *mapping, struct scoreboard_record *record,
                   const struct request_event *event);

/* Brings the worker's snapshot up to date: at the start of a request, and between two when there is a new
 * one. */
void router_refresh(struct router_worker *worker);

#endif
