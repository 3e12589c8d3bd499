/* The two ways of waiting for a connection to Redis. */
#include "core/base/clock.h"
#include "core/store/redis_link_internal.h"

redisReply *redis_link_await_reply(struct redis_link *link, uint64_t until_us)
{
    redisReply *reply;

    while ((reply = redis_link_receive(link)) == NULL) {
        uint64_t now = clock_monotonic_us();
        if (link->state != REDIS_LINK_UP || now >= until_us)
            return NULL;
        redis_link_wait(link, (unsigned)((until_us - now) / US_PER_MS) + 1);
        redis_link_step(link);
    }
    return reply;
}

bool redis_link_await_up(struct redis_link *link, uint64_t until_us)
{
    if (link->state == REDIS_LINK_DOWN)
        redis_link_open(link);
    while (redis_link_step(link) != REDIS_LINK_UP) {
        uint64_t now = clock_monotonic_us();
        if (link->state == REDIS_LINK_DOWN || now >= until_us)
            return false;
        redis_link_wait(link, (unsigned)((until_us - now) / US_PER_MS) + 1);
    }
    return true;
}
