/*
 * Failed authentications, counted by source address over all workers: so that one
 * who guesses is told to wait, and fills no log.
 *
 * Fixed memory without locks, shared before fork, zero when empty. It forgets: where
 * there is no room for a source, the one that began longest ago goes. What is
 * counted here keeps nobody out who can authenticate: behind a proxy or an address
 * that many share, one who guesses could lock out all others.
 */
#ifndef CORE_ADMIT_AUTH_FAILURES_H
#define CORE_ADMIT_AUTH_FAILURES_H

#include <stdatomic.h>
#include <stdint.h>

enum { AUTH_FAILURES_SETS = 128, AUTH_FAILURES_WAYS = 8, AUTH_FAILURES_WINDOW_S = 60 };

struct auth_failures {
    struct auth_failures_source {
        _Atomic uint64_t source; /* a hash; 0: free */
        _Atomic uint64_t window; /* second of its first failure << 32 | failures since */
    } sources[AUTH_FAILURES_SETS][AUTH_FAILURES_WAYS];
};

/*
 * Notes a failure at `now_s` (monotonic seconds). 0, or the number of seconds until
 * the window ends in which this source has failed more than `limit` times. `address`
 * is IPv4 or IPv6 as text (of the latter the first 64 bits count, since one host has
 * the rest); NULL and anything else is one source.
 */
unsigned auth_failures_note(struct auth_failures *failures, const char *address, uint64_t now_s,
                            unsigned limit);

#endif
