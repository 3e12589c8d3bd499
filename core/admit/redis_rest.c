#include "core/admit/redis_rest.h"

#include "core/base/clock.h"

enum { REST_US = 1000 * 1000 }; /* from a question without an answer to the next */

bool redis_rest_is_over(const struct redis_rest *rest)
{
    return atomic_load(&rest->until_us) <= clock_monotonic_us();
}

bool redis_rest_may_ask(struct redis_rest *rest)
{
    uint64_t now_us = clock_monotonic_us();
    uint64_t until_us = atomic_load(&rest->until_us);

    if (until_us > now_us)
        return false;
    return until_us == 0 || atomic_compare_exchange_strong(&rest->until_us, &until_us, now_us + REST_US);
}

enum redis_change redis_rest_note(struct redis_rest *rest, bool is_answering)
{
    uint64_t until_us = is_answering ? 0 : clock_monotonic_us() + REST_US;
    bool was_answering = atomic_load(&rest->until_us) == 0;

    if (is_answering && was_answering)
        return REDIS_AS_BEFORE;
    was_answering = atomic_exchange(&rest->until_us, until_us) == 0;
    if (was_answering == is_answering)
        return REDIS_AS_BEFORE;
    return is_answering ? REDIS_BACK : REDIS_LOST;
}
