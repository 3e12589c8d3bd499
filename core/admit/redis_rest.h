/*
 * Redis that does not answer is asked once a second, by one process of all that share
 * this; the others go on without it meanwhile.
 */
#ifndef CORE_ADMIT_REDIS_REST_H
#define CORE_ADMIT_REDIS_REST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In shared memory; zero: it answered when it was last asked. */
struct redis_rest {
    _Atomic uint64_t until_us; /* monotonic */
};

/* Whether it began, or ceased, to answer: of all processes, one is told. */
enum redis_change { REDIS_AS_BEFORE, REDIS_LOST, REDIS_BACK };

/* Whether it is worth to try: it answered, or has not been asked for a while. */
bool redis_rest_is_over(const struct redis_rest *rest);

/* Whether this process may ask now; if so, it says afterwards whether there was an answer. */
bool redis_rest_may_ask(struct redis_rest *rest);
enum redis_change redis_rest_note(struct redis_rest *rest, bool is_answering);

#endif
