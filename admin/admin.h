/* llm-router-admin as a program of the engine. */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/crypto/envelope.h"
#include "core/store/store.h"
#include "fcgi/engine/engine.h"
#include "fcgi/engine/reply.h"
#include "fcgi/engine/request.h"

struct admin_settings {
    struct engine_settings engine;
    const char *state_dir;
    const char *token_file; /* or NULL */
    const char *emails;     /* comma-separated, or NULL */
    int64_t max_body_bytes;
    int64_t max_header_bytes;
};

/* Made before fork; not changed afterwards. */
struct admin_shared {
    const struct admin_settings *settings;
    struct envelope_keys keys;
    bool has_keys;
    struct store_place place;
    bool has_token;
    uint8_t token_sha256[32];
};

/* A worker's own. */
struct admin_worker {
    const struct admin_shared *shared;
    struct engine_process *process;
    struct store *store;
    struct arena *arena; /* of the request in hand */
};

/* One request on its way. */
struct admin_turn {
    struct admin_worker *worker;
    struct request request;
    struct reply reply;
    const char *actor; /* "token", or the e-mail address; arena memory */
};

/* Serves one request. */
void admin_serve(struct admin_worker *worker, struct conn *conn);

/* Who asks: the actor's name, or NULL if it is no administrator. */
const char *admin_actor(const struct admin_turn *turn);

/* Whether the actor may do this to that: the one place that every action asks.
 * Today any administrator may do anything. */
bool admin_may(const char *actor, const char *action, const char *object);

void admin_fail(struct admin_turn *turn, const struct failure *failure);

/* GET and PUT /api/admin/llm-router-config. */
void admin_get_config(struct admin_turn *turn);
void admin_put_config(struct admin_turn *turn);

#endif
