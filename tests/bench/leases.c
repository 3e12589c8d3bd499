/*
 * What a slot of a pool costs a request: taken and given back, in the mapping and in Redis.
 *
 *   leases COUNT SOCKET
 *
 * COUNT times of each, in batches that alternate, with a Redis at the unix socket. Prints one
 * line of JSON, microseconds from the beginning to the end, medians over the batches:
 *
 *   ping_us         a PING and its PONG, by hiredis: what any question costs
 *   mapping_us      [with one pool, with MANY_POOLS] among WORKERS workers, half of which hold one
 *   redis_us        the same in Redis
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/pools.h"
#include "core/base/clock.h"

enum { BATCH = 100, BATCHES_MAX = 10000, WORKERS = 64, MANY_POOLS = 10, WAYS = 5 };

static struct pool_owner owners[WORKERS];
static struct pools_shared shared;
static struct slot_pool asked[MANY_POOLS];
static char ids[MANY_POOLS][32];
static double took_us[WAYS][BATCHES_MAX];

static void fail(const char *what)
{
    fprintf(stderr, "leases: %s\n", what);
    exit(1);
}

static struct pools open_pools(const char *socket)
{
    struct pools pools;
    struct store_place place = { .redis_url = socket };
    struct error e;

    pools_open(&pools);
    pools.shared = &shared;
    pools.owners = (struct pool_owners){ owners, sizeof(owners[0]), WORKERS };
    pools.own = &owners[0];
    pools.patience_ms = 10000; /* nothing is measured alone */
    if (socket != NULL && redis_client_open(&place, &pools.redis, &e) != 0)
        fail(e.text);
    return pools;
}

static void ping(redisContext *redis)
{
    redisReply *reply = redisCommand(redis, "PING");
    if (reply == NULL)
        fail("no PONG");
    freeReplyObject(reply);
}

static void take_and_leave(struct pools *pools, size_t n)
{
    struct pool_lease lease = { 0 };
    struct pool_state states[MANY_POOLS];

    if (pools_take(pools, asked, n, false, &lease, states) != POOL_TAKEN ||
        lease.is_in_redis != (pools->redis != NULL))
        fail("no slot was taken where it should be");
    pools_leave(pools, &lease);
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    char url[256];
    size_t n_batches = argc == 3 ? strtoul(argv[1], NULL, 10) / BATCH : 0;

    if (n_batches == 0 || n_batches > BATCHES_MAX)
        fail("usage: leases COUNT SOCKET");
    snprintf(url, sizeof(url), "unix:%s", argv[2]);
    pools_init(&shared);
    for (unsigned i = 0; i < MANY_POOLS; i++) {
        snprintf(ids[i], sizeof(ids[i]), "tts:pool:%u", i);
        asked[i] = (struct slot_pool){ span_cstr(ids[i]), 1 + i, WORKERS };
    }
    for (unsigned i = 0; i < WORKERS / 2; i++)
        pool_owner_hold(&owners[1 + 2 * i], 0, 1 + i % MANY_POOLS);
    struct pools here = open_pools(NULL), there = open_pools(url);
    redisContext *redis = redisConnectUnix(argv[2]);
    if (redis == NULL || redis->err != 0)
        fail("no Redis");
    for (size_t batch = 0; batch < n_batches; batch++) {
        for (unsigned way = 0; way < WAYS; way++) {
            uint64_t begun_us = clock_monotonic_us();
            for (unsigned i = 0; i < BATCH; i++) {
                if (way == 0)
                    ping(redis);
                else
                    take_and_leave(way <= 2 ? &here : &there, way % 2 == 1 ? 1 : MANY_POOLS);
            }
            took_us[way][batch] = (double)(clock_monotonic_us() - begun_us) / BATCH;
        }
    }
    double medians[WAYS];
    for (unsigned way = 0; way < WAYS; way++)
        medians[way] = median(took_us[way], n_batches);
    printf("{\"ping_us\":%.2f,\"mapping_us\":[%.2f,%.2f],\"redis_us\":[%.2f,%.2f]}\n", medians[0], medians[1],
           medians[2], medians[3], medians[4]);
    redisFree(redis);
    redis_client_close(there.redis);
    return 0;
}
