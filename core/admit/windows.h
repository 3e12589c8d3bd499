/*
 * What callers have used in their minute, in fixed memory that all processes share.
 *
 * A caller's window begins with its first request and ends a minute later, whatever
 * happens. What is taken is counted at once, and corrected when the true amount is
 * known, if the window is still the same: what a process takes and never settles,
 * because it dies, lapses with the window.
 *
 * It forgets: where there is no room for a caller, the window that has ended goes, or
 * the one that ends next.
 *
 * A set of windows is locked for as long as it takes to read or to change one of them.
 * The lock of a process that dies is passed on; what it was about to write may then be
 * half there, which falsifies one caller's minute at most. One that is stopped with the
 * lock keeps the set to itself: nobody waits for it for long, and until it goes on or is
 * ended nothing is known of the minutes of that set's callers.
 */
#ifndef CORE_ADMIT_WINDOWS_H
#define CORE_ADMIT_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/shared_mutex.h"

enum { WINDOW_SETS = 512, WINDOW_WAYS = 16, WINDOW_US = 60 * 1000 * 1000 };

struct window {
    uint64_t caller;  /* 0: free */
    uint64_t id;      /* which of the caller's windows it is */
    uint64_t ends_us; /* monotonic */
    uint64_t requests, tokens;
};

struct window_set {
    struct shared_mutex mutex;
    struct window windows[WINDOW_WAYS];
};

struct windows {
    struct window_set sets[WINDOW_SETS];
};

/* What is taken of a window, or may be taken at most; of a limit, 0 is none. */
struct window_amounts {
    uint64_t requests, tokens;
};

enum window_refusal { WINDOW_TAKEN, WINDOW_NO_REQUESTS, WINDOW_NO_TOKENS };

/* Before fork, on zeroed memory. */
void windows_init(struct windows *windows);

/* The set in which the caller's window is. To be locked around all that follows. NULL: it is not to be
 * had, as core/base/shared_mutex.h has it; there is nothing to unlock then, and doing so is allowed. */
struct window_set *windows_lock(struct windows *windows, uint64_t caller);
void windows_unlock(struct window_set *set);

/* The caller's window as it is at `now_us`, in *out; one that has not begun is empty, with an id of 0. */
void window_read(const struct window_set *set, uint64_t caller, uint64_t now_us, struct window *out);

/* Takes all of `wanted`, which has at most what `limits` has, or nothing; *out is the window afterwards. */
enum window_refusal window_take(struct window_set *set, uint64_t caller, uint64_t now_us,
                                const struct window_amounts *limits, const struct window_amounts *wanted,
                                struct window *out);

/* Counts `instead` of `taken`, which was taken in the window with this id. When that has
 * ended, its requests are gone with it, and the tokens count in the window of now. */
void window_correct(struct window_set *set, uint64_t caller, uint64_t now_us, uint64_t id,
                    const struct window_amounts *taken, const struct window_amounts *instead);

/* Somebody else counts: puts the window with this id as that one has it. */
void window_put(struct window_set *set, const struct window *window);

/* How long it lasts from now_us on, in µs; at least 1. */
uint64_t window_left_us(const struct window *window, uint64_t now_us);

#endif
