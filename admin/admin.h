/* llm-router-admin as a program of the engine. */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/admit/admins.h"
#include "core/admit/auth_failures.h"
#include "core/crypto/envelope.h"
#include "core/record/spool.h"
#include "core/store/store.h"
#include "core/telemetry/otlp_settings.h"
#include "fcgi/engine/engine.h"
#include "fcgi/engine/reply.h"
#include "fcgi/engine/request.h"

struct admin_settings {
    struct engine_settings engine;
    const char *state_dir;
    const char *token_file; /* or NULL */
    const char *emails;     /* comma-separated, or NULL */
    int64_t auth_failures_per_minute;
    int64_t max_body_bytes;
    int64_t max_header_bytes;
    bool is_check; /* --check: beside an instance that runs, perhaps */
};

/* Made before fork; not changed afterwards, except for the failures. */
struct admin_shared {
    const struct admin_settings *settings;
    struct spool_plan spool_plan;
    struct envelope_keys keys;
    bool has_keys;
    struct store_place place;
    struct admins admins;
    struct otlp_settings otlp;      /* its secrets are wiped in processes that do not export */
    struct auth_failures *failures; /* of all workers */
};

/* A worker's own. */
struct admin_worker {
    const struct admin_shared *shared;
    struct engine_process *process;
    struct store *store;
    struct spool spool;
    struct arena *arena; /* of the request in hand */
};

/* One request on its way. */
struct admin_turn {
    struct admin_worker *worker;
    struct request request;
    struct reply reply;
    const char *actor; /* "token", or the e-mail address; arena memory */
    const char *name;  /* what stands for the "*" of the route's path; arena memory */
    bool is_write;     /* it would change something */
    bool is_dry_run;
};

/* NULL: there is no master key. */
static inline const struct envelope_keys *admin_keys(const struct admin_turn *turn)
{
    return turn->worker->shared->has_keys ? &turn->worker->shared->keys : NULL;
}

/* Serves one request. */
void admin_serve(struct admin_worker *worker, struct conn *conn);

/* Finds out who asks, and sets the actor: whether it is an administrator. If not, the
 * reply has been sent. */
bool admin_identify(struct admin_turn *turn);

/* Whether the actor may do this to that: the one place that every action asks.
 * Today any administrator may do anything. */
bool admin_may(const char *actor, const char *action, const char *object);

/* What stands behind the API's mount in the path; NULL: the path is another. */
const char *admin_api_path(const struct admin_turn *turn);

/* Finds the action for the method and path, and does it. */
void admin_route(struct admin_turn *turn);

/* The actions: each sends its reply. Their routes are in routes.c. */
void admin_get_config(struct admin_turn *turn);
void admin_put_config(struct admin_turn *turn);
void admin_patch_config(struct admin_turn *turn);
void admin_list_versions(struct admin_turn *turn);
void admin_get_version(struct admin_turn *turn);
void admin_restore_version(struct admin_turn *turn);
void admin_rotate_keys(struct admin_turn *turn);
void admin_get_entry(struct admin_turn *turn);
void admin_put_entry(struct admin_turn *turn);
void admin_list_callers(struct admin_turn *turn);
void admin_create_caller(struct admin_turn *turn);
void admin_change_caller(struct admin_turn *turn);
void admin_revoke_caller(struct admin_turn *turn);
void admin_list_voice_packs(struct admin_turn *turn);
void admin_create_voice_pack(struct admin_turn *turn);
void admin_change_voice_pack(struct admin_turn *turn);
void admin_enable_voice_pack(struct admin_turn *turn);
void admin_disable_voice_pack(struct admin_turn *turn);
void admin_get_status(struct admin_turn *turn);
void admin_get_audit_log(struct admin_turn *turn);
void admin_get_metrics(struct admin_turn *turn);

#endif
