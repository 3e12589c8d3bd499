/*
 * An attempt at speech: an adapter's exchanges, run one after the other, and their
 * audio as it comes, on its way to the caller.
 */
#ifndef FCGI_EDGE_SPEECH_H
#define FCGI_EDGE_SPEECH_H

#include "fcgi/edge/attempt.h"

/* For struct loop_ops; ctx is the errand. */
void speech_attempt_run(void *ctx, const struct candidate *candidate, struct attempt_outcome *out);

/* For struct plan_facts; ctx is the errand, which learns why the first upstream
 * that cannot serve cannot. */
bool speech_can_serve(void *ctx, const struct snap_upstream *upstream);

#endif
