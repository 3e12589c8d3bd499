/*
 * The same windows in Redis, where several instances count together: a hash for each
 * caller that has used something in this minute, under PREFIX "limit:" and 16 hex
 * digits of the caller. It lapses with the window, by Redis' clock.
 */
#ifndef CORE_ADMIT_SHARED_WINDOWS_H
#define CORE_ADMIT_SHARED_WINDOWS_H

#include "core/admit/windows.h"
#include "core/store/redis_client.h"

enum { SHARED_WINDOWS_PATIENCE_MS = 200 };

/* window_take there, by one script in one round trip. False: there was no answer within
 * SHARED_WINDOWS_PATIENCE_MS, and nothing is known. */
bool shared_window_take(struct redis_client *redis, uint64_t caller, const struct window_amounts *limits,
                        const struct window_amounts *wanted, enum window_refusal *refusal,
                        struct window *out);

/* window_correct there; nobody waits for it. */
void shared_window_correct(struct redis_client *redis, uint64_t caller, uint64_t id,
                           const struct window_amounts *taken, const struct window_amounts *instead);

#endif
