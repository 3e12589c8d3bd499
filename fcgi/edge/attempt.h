/*
 * One attempt: decrypts the key, sends the body, relays the reply, and judges
 * how it ended. What the attempt loop is handed as its `attempt`.
 */
#ifndef FCGI_EDGE_ATTEMPT_H
#define FCGI_EDGE_ATTEMPT_H

#include "core/route/loop.h"
#include "fcgi/edge/answer.h"
#include "fcgi/edge/edge.h"

/* What the attempts of one request have in common. */
struct errand {
    struct turn *turn;
    const struct dialect *dialect;
    const struct request_facts *facts;
    const struct snap_model *model;
    struct answer *answer;
    enum snap_way way;
    uint64_t deadline_us; /* of the chain, monotonic */
    bool is_cut_short;    /* a committed reply had to be broken off: it has no honest end */
    const char *unserved_param, *unserved_message; /* what the first upstream that was left out cannot do */
};

/* For struct loop_ops; ctx is the errand. */
void attempt_run(void *ctx, const struct candidate *candidate, struct attempt_outcome *out);

#endif
