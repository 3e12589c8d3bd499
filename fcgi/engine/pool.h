/*
 * How many workers there are to be: a pure function of counts and time.
 *
 * static: always as many. dynamic: so many that some are idle. ondemand: none
 * until somebody comes. A queue makes the latter two rise at once, by one, then
 * two, then four and so on, at each look that finds somebody waiting still; who
 * is too many leaves, one a second.
 *
 * After an upgrade there are to be as many as there were. That may rise at once, and falls only
 * when the last of the old ones has been relieved: those that cannot begin relieve nobody.
 */
#ifndef FCGI_ENGINE_POOL_H
#define FCGI_ENGINE_POOL_H

#include <stdbool.h>
#include <stdint.h>

enum pool_mode { POOL_STATIC, POOL_DYNAMIC, POOL_ONDEMAND };

struct pool_policy {
    enum pool_mode mode;
    unsigned max;
    unsigned min_spare, max_spare; /* dynamic: idle ones */
    uint64_t idle_timeout_us;      /* ondemand */
};

/* What was decided before; zeroed at first. */
struct pool {
    unsigned wanted;     /* in a master that has taken over: at first, how many old ones serve */
    unsigned step;       /* by which it rose last; 0: nobody waited */
    uint64_t rise_at_us; /* not before */
    uint64_t fall_at_us; /* not before */
};

/* Workers as they are; none that was told to leave counts. */
struct pool_facts {
    uint64_t now_us;          /* monotonic */
    unsigned running;         /* that serve, begin to, or will be started after a pause; no old ones */
    unsigned starting;        /* of them, those that have not begun to serve */
    unsigned old;             /* of the program before an upgrade: that serve */
    unsigned idle;            /* of both programs, those that wait for a connection */
    uint64_t longest_idle_us; /* of one that is idle: for how long */
    uint64_t waiting;         /* connections in the queue */
};

enum {
    POOL_STEP_MAX = 32,
    POOL_RISE_US = 20 * 1000,   /* between two steps */
    POOL_FALL_US = 1000 * 1000, /* between two that leave */
};

/* How many of this program there are to be now: never more than the maximum, and at most one fewer
 * than there are. While old ones serve, as many as were wanted before, or more. */
unsigned pool_decide(struct pool *pool, const struct pool_policy *policy, const struct pool_facts *facts);

/* Whether the number may have to change although nobody waits and nothing happens. */
bool pool_needs_looks(const struct pool_policy *policy, unsigned running);

#endif
