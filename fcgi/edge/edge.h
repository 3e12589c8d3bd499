/*
 * The edge: one request of a caller, from its parameters to its record. It finds
 * mount and endpoint, knows the caller, answers, and appends the event.
 */
#ifndef FCGI_EDGE_EDGE_H
#define FCGI_EDGE_EDGE_H

#include "core/dialect/dialect.h"
#include "fcgi/edge/mount.h"
#include "fcgi/engine/overflow.h"
#include "fcgi/engine/reply.h"
#include "fcgi/engine/request.h"
#include "fcgi/router.h"

/* A request on its way through the edge. */
struct turn {
    struct router_worker *worker;
    struct request request;
    struct reply reply;
    const struct mount *mount;
    const char *endpoint;                   /* the path below the mount, without its leading slash */
    const struct snap_root *root;           /* NULL: there is no snapshot */
    const struct snap_principal *principal; /* NULL: one that may use all models */
    struct request_event *event;
    struct admission admission; /* by the principal's limits, if it has any */
    bool has_asked;             /* to be let in: the admission is the answer */
    struct slots *slots;        /* of the model's pools (fcgi/edge/slots.h); NULL: it has none */
    bool is_probe;              /* leaves no event */
    uint64_t start_us;          /* monotonic */
};

/* Serves one request and appends its event. Probes leave none. */
void edge_serve(struct router_worker *worker, struct conn *conn);

/* Which endpoint of ours lies below a mount at this path, as events name it; NULL: none. */
const char *edge_find_endpoint(const char *below);

/* Notes what the event knows by now where the master finds it if this worker dies. */
void turn_note(struct turn *turn);

/* Answers with a failure and notes it in the event. */
void turn_fail(struct turn *turn, const struct failure *failure);

/* Parts of the tree that have models, each with names of its own. */
enum model_parts { MODELS_LLM = 1, MODELS_TTS = 2, MODELS_ALL = 3 };

/* Calls visit for each model of these parts that the caller may use, in the
 * document's order; a name that both parts have once. */
void turn_visit_models(const struct turn *turn, enum model_parts parts,
                       void (*visit)(void *ctx, struct span name), void *ctx);

/* Answers that there is no such model for this caller, and which there are. */
void turn_fail_unknown_model(struct turn *turn, struct span requested, enum model_parts parts);

/* Knows the caller, or answers why not: 0 or a negative error. */
int turn_authenticate(struct turn *turn);

/* POST of a dialect's endpoint. */
void serve_dialect(struct turn *turn, const struct dialect *dialect);

/* GET models, GET models/NAME. */
void serve_models(struct turn *turn);

/* GET audio/voices. */
void serve_voices(struct turn *turn);

/* GET voice-packs, POST voice-packs/ID/snapshot. */
void serve_voice_packs(struct turn *turn);
void serve_voice_pack_snapshot(struct turn *turn);

/* What the overflow process says: health, and 503 to who has waited too long. */
extern const struct overflow_voice edge_voice;

#endif
