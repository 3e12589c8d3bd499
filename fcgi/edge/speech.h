/*
 * An attempt at speech: an adapter's exchanges, run one after the other, and their
 * audio as it comes, on its way to the caller.
 */
#ifndef FCGI_EDGE_SPEECH_H
#define FCGI_EDGE_SPEECH_H

#include "fcgi/edge/attempt.h"

extern const struct attempt_kind attempts_of_speech;

/* For struct plan_facts; ctx is the errand, which learns why the first upstream
 * that cannot serve cannot. */
bool speech_can_serve(void *ctx, const struct snap_upstream *upstream);

#endif
