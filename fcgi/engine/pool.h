/*
 * How many workers there are to be: a pure function of counts and time.
 *
 * static: always as many. dynamic: so many that some are idle. ondemand: none
 * until somebody comes. A queue makes the latter two rise at once, by one, then
 * two, then four and so on, at each look that finds somebody waiting still; who
 * is too many leaves, one a second.
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
    unsigned step;       /* by which it rose last; 0: nobody waited */
    uint64_t rise_at_us; /* not before */
    uint64_t fall_at_us; /* not before */
};

/* Workers as they are. */
struct pool_facts {
    uint64_t now_us;          /* monotonic */
    unsigned running;         /* that serve, begin to, or will be started after a pause */
    unsigned starting;        /* of them, those that have not begun to serve */
    unsigned idle;            /* of them, those that wait for a connection */
    uint64_t longest_idle_us; /* of one that is idle: for how long */
    uint64_t waiting;         /* connections in the queue */
};

enum {
    POOL_STEP_MAX = 32,
    POOL_RISE_US = 20 * 1000,   /* between two steps */
    POOL_FALL_US = 1000 * 1000, /* between two that leave */
};

/* How many there are to be now; at most one fewer than there are. */
unsigned pool_decide(struct pool *pool, const struct pool_policy *policy, const struct pool_facts *facts);

/* Whether the number may have to change although nobody waits and nothing happens. */
bool pool_needs_looks(const struct pool_policy *policy, unsigned running);

#endif
