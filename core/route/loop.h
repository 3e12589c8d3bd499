/*
 * The attempt loop: takes candidates one at a time until one answers, and says
 * what the caller is told when none does. Pure decision: time and attempts are
 * functions it is handed.
 *
 * Hedging: where the model has hedge_after_ms, and the first attempt of the chain has
 * produced nothing for so long, the next candidate is begun beside it; one, once. Who
 * answers first has answered. Else nothing is different from attempts one after the
 * other: a failure of the one beside is looked at when the first has failed, and so ends
 * no chain that the first can still answer.
 */
#ifndef CORE_ROUTE_LOOP_H
#define CORE_ROUTE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"
#include "core/config/snapshot.h"
#include "core/route/failure.h"
#include "core/route/plan.h"
#include "core/route/verdict.h"

/* How one attempt ended. */
struct attempt_outcome {
    enum verdict verdict;
    enum blame blame;
    bool is_proven;          /* see struct opinion */
    int status;              /* of the upstream's reply; 0 if none came */
    const char *last_status; /* where the status does not say it: "timeout", "connect", "reset", "invalid";
                                else NULL */
    bool is_unreachable;     /* refused, unresolvable or no TLS: 502 rather than 504 */
    unsigned retry_after_s;  /* 0: no hint */
    bool is_committed;       /* bytes went to the caller: nothing can follow */
    bool is_undecryptable;   /* our own key store failed: no attempt was made */

    /* A refusal that is the caller's to see: VERDICT_CLIENT. Arena memory. */
    int refusal_status;
    struct span refusal_type, refusal_body;
};

struct loop_ops {
    void *ctx;
    uint64_t (*now_us)(void *ctx);
    /* Asked before each attempt: SKIP_NONE if it may be made, else why its upstream is passed over.
     * NULL: each may. */
    enum skip_reason (*admit)(void *ctx, const struct candidate *candidate);
    /* Begins an attempt, beside at most one that runs. */
    void (*begin)(void *ctx, const struct candidate *candidate);
    /* Waits until an attempt that was begun has ended: whose, and how. Of two, the one that answers
     * ends the other, which is never heard of again. NULL: until_us (on now_us' clock; UINT64_MAX:
     * without limit) came first, and the attempt has produced nothing. */
    const struct candidate *(*wait)(void *ctx, uint64_t until_us, struct attempt_outcome *out);
    /* Whether the candidate may be begun beside the attempt that runs. Not asked where nothing is hedged. */
    bool (*admit_beside)(void *ctx, const struct candidate *candidate);
    /* The chain ends, and of one attempt that was begun no end was heard: it is ended, if it was not yet. */
    void (*cancel)(void *ctx);
};

enum loop_end {
    LOOP_ANSWERED,  /* an upstream's reply went to the caller, whole or not */
    LOOP_REFUSED,   /* pass `refusal` through */
    LOOP_FAILED,    /* answer with `failure` */
    LOOP_CANCELLED, /* the caller left */
};

struct loop_result {
    enum loop_end end;
    struct attempt_outcome last;    /* of the attempt that decided */
    struct attempt_outcome refusal; /* LOOP_REFUSED */
    struct failure failure;         /* LOOP_FAILED */
    bool is_exhausted;              /* LOOP_FAILED, and every candidate was tried */
    unsigned attempts;              /* whose outcome was looked at */
};

/* deadline_us: of the whole chain until content, on ops->now_us' clock. The
 * plan's candidates are marked as they are passed: each is tried at most once.
 * What is skipped is no attempt and decides nothing: only where nothing else happened is the
 * failure FAILURE_ALL_SKIPPED. Where there is no time for the next attempt, it is a timeout. */
void loop_run(const struct plan_facts *facts, struct plan *plan, uint64_t deadline_us,
              const struct loop_ops *ops, struct loop_result *out);

/* Whether the model's configuration lets this outcome move on to another candidate. */
bool loop_moves_on(const struct plan_facts *facts, const struct attempt_outcome *outcome);

#endif
