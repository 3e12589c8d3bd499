/*
 * Admission of a caller's request: by all of its meters at once, or not at all.
 *
 *   concurrency   requests that this instance has in hand. The truth is in the leases
 *                 of its workers: the place of one that dies is free when its record is.
 *   requests      in the caller's minute: core/admit/windows.h
 *   tokens        in the same minute: taken as they are estimated, settled as they are
 *
 * Minutes are counted in Redis where there is one, and by this instance alone as long
 * as Redis does not answer; then it goes on from what Redis said last.
 *
 * A process that is stopped while it counts keeps others from some callers' minutes: they are waited for
 * SHARED_MUTEX_PATIENCE_MS at most, and then requests of these callers are let in by their places alone
 * where Redis does not count them, as if none had been before them. What they use may be counted
 * when it goes on.
 */
#ifndef CORE_ADMIT_ADMIT_H
#define CORE_ADMIT_ADMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/admit/redis_rest.h"
#include "core/admit/windows.h"
#include "core/store/redis_client.h"

enum meter { METER_CONCURRENCY, METER_REQUESTS, METER_TOKENS, METERS };

/* "concurrency", "requests", "tokens" */
const char *meter_name(enum meter meter);

/* What all processes of an instance share, in its mapping. */
struct admit_shared {
    struct windows windows;
    struct redis_rest redis_rest;
};

/* Before fork, on zeroed memory. */
void admit_init(struct admit_shared *shared);

/* The leases of all workers, one in each of n records of so many bytes: the caller whose request
 * the worker has in hand, or 0. */
struct leases {
    const _Atomic uint64_t *first;
    size_t record_bytes;
    unsigned n;
};

/* One worker's way to all of it. */
struct admit {
    struct admit_shared *shared;
    struct leases leases;
    _Atomic uint64_t *lease;    /* its own */
    struct redis_client *redis; /* NULL: there is none */
};

struct admission {
    uint64_t limits[METERS]; /* 0: none */
    uint64_t taken[METERS];
    uint64_t used[METERS]; /* as it was right after this one was admitted or refused */
    uint64_t window_left_us;
    enum meter refused;      /* METERS: it was admitted */
    bool is_in_redis;        /* the window is */
    bool is_uncounted;       /* it was let in, and is in no window: see above */
    enum redis_change redis; /* with this one */

    /* private */
    uint64_t caller, window_id;
    bool is_unsettled;
};

/* A caller as meters know it: the beginning of its key's SHA-256; never 0. */
uint64_t admit_caller(const uint8_t sha256[32]);

/* Whether any meter is limited. */
bool admit_is_limited(const uint64_t limits[METERS]);

/* Takes a place, a request, and `tokens` (at least one, and not more than the limit), where they are
 * limited. False: nothing was taken, and out->refused says why not. May wait for Redis, at most
 * SHARED_WINDOWS_PATIENCE_MS, once a second while it does not answer. */
bool admit_request(const struct admit *admit, uint64_t caller, const uint64_t limits[METERS], uint64_t tokens,
                   struct admission *out);

/* The request took so many tokens. Frees its place; again, and of one that was not admitted, it does
 * nothing. Waits for nothing. */
void admit_settle(const struct admit *admit, struct admission *admission, uint64_t tokens);

/* The same of a request that came to nothing through no fault of its own: as if it had not been. */
void admit_cancel(const struct admit *admit, struct admission *admission);

/* How things stand, as far as this instance knows, without taking anything. */
void admit_look(const struct admit *admit, uint64_t caller, const uint64_t limits[METERS],
                struct admission *out);

/* What is left of a limited meter. */
uint64_t admission_remaining(const struct admission *admission, enum meter meter);

/* In how many seconds it is worth to ask again, when it was refused. */
unsigned admission_retry_after_s(const struct admission *admission);

#endif
