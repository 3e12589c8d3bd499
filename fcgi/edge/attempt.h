/*
 * Attempts: each decrypts its key, sends the body, relays the reply, and judges how it
 * ended. One runs at a time, or two side by side where the model hedges; what the attempt
 * loop is handed for that.
 */
#ifndef FCGI_EDGE_ATTEMPT_H
#define FCGI_EDGE_ATTEMPT_H

#include "core/route/loop.h"
#include "core/upstream/exchange.h"
#include "fcgi/edge/answer.h"
#include "fcgi/edge/edge.h"

struct attempt;
struct errand;

/* What makes the attempts of a service. */
struct attempt_kind {
    /* Begins one with its first exchange, in the request's arena. */
    struct attempt *(*begin)(struct errand *errand, const struct candidate *candidate);
    /* Its exchange is over. True: it has begun another; false: it has ended, is recorded, and *out says how.
     */
    bool (*go_on)(struct attempt *a, struct attempt_outcome *out);
    /* Nobody needs it any more: wipes the key, and frees what the arena does not hold. */
    void (*end)(struct attempt *a);
};

extern const struct attempt_kind attempts_of_dialect; /* of upstreams that speak the caller's */

/* What the attempts of one request have in common. */
struct errand {
    struct turn *turn;
    const struct dialect *dialect;
    const struct request_facts *facts;
    const struct snap_model *model;
    const struct attempt_kind *kind;
    struct answer *answer;
    enum snap_way way;
    uint64_t deadline_us; /* of the chain, monotonic */
    bool is_cut_short;    /* a committed reply had to be broken off: it has no honest end */
    const char *unserved_param, *unserved_message; /* what the first upstream that was left out cannot do */

    /* private to race.c */
    struct attempt *running[EXCHANGES_MAX]; /* n_running, in the order in which they were begun */
    unsigned n_running;
    uint64_t upstream_us; /* monotonic; until then the time that upstreams took is in the event */
};

/* For struct loop_ops; ctx is the errand. */
void race_begin(void *ctx, const struct candidate *candidate);
const struct candidate *race_wait(void *ctx, uint64_t until_us, struct attempt_outcome *out);
bool race_admit_beside(void *ctx, const struct candidate *candidate);
void race_cancel(void *ctx);

#endif
