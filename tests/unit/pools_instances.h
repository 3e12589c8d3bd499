/*
 * Two instances of a few workers each, in one process, that ask for slots of pools: in
 * their mappings, or in a Redis of the test's own.
 */
#ifndef TESTS_UNIT_POOLS_INSTANCES_H
#define TESTS_UNIT_POOLS_INSTANCES_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/admit/pools.h"
#include "core/base/clock.h"
#include "tests/unit/redis_server.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { INSTANCES = 2, WORKERS = POOLS_MAX, DEADLINE_S = 60 };

enum where { IN_MAPPING, IN_REDIS, STORES };
static const char *const store_names[STORES] = { "mapping", "redis" };

struct record {
    char before[40];
    struct pool_owner owner;
    char behind[24];
};

/* One worker and the lease of its request. */
struct worker {
    struct pools pools;
    struct pool_lease lease;
    struct pool_state states[POOLS_MAX];
};

static struct instance {
    struct pools_shared *shared;
    struct record *records;
    struct worker workers[WORKERS];
} instances[INSTANCES];

static struct worker *const workers = instances[0].workers, *const others = instances[1].workers;

static struct redis_server redis;
static const char *redis_prefix = "p:";
static enum where store;

static inline void *share(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(memory != MAP_FAILED);
    return memory;
}

static inline struct redis_client *open_client(void)
{
    const struct store_place place = { .redis_url = redis.url, .redis_prefix = redis_prefix };
    struct redis_client *client = NULL;
    struct error e = { 0 };
    ck_assert_msg(redis_client_open(&place, &client, &e) == 0, "%s", e.text);
    return client;
}

/* The workers of an instance ask one after the other, and do with one connection. */
static inline void make_instance(struct instance *instance, const char *name)
{
    struct redis_client *client = store == IN_REDIS ? open_client() : NULL;

    instance->shared = share(sizeof(*instance->shared));
    instance->records = share(WORKERS * sizeof(*instance->records));
    pools_init(instance->shared);
    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *worker = &instance->workers[i];
        *worker = (struct worker){ .states = { { 0 } } };
        pools_open(&worker->pools);
        worker->pools.shared = instance->shared;
        worker->pools.owners =
            (struct pool_owners){ &instance->records[0].owner, sizeof(instance->records[0]), WORKERS };
        worker->pools.own = &instance->records[i].owner;
        worker->pools.redis = client;
        worker->pools.instance = name;
    }
}

static inline void set_patience(uint32_t ms)
{
    for (unsigned i = 0; i < INSTANCES * WORKERS; i++)
        instances[i / WORKERS].workers[i % WORKERS].pools.patience_ms = ms;
}

/* Every test begins with it: in a store of those above. */
static inline void begin(int where)
{
    store = (enum where)where;
    if (store == IN_REDIS)
        redis_server_make(&redis);
    make_instance(&instances[0], "an-instance");
    make_instance(&instances[1], "another");
    set_patience(DEADLINE_S * 1000); /* a busy machine is no Redis that does not answer */
}

static inline void end(void)
{
    for (unsigned i = 0; i < INSTANCES; i++)
        redis_client_close(instances[i].workers[0].pools.redis);
    if (store == IN_REDIS)
        redis_server_remove(&redis);
}

static inline void set_terms(uint32_t lease_ms, uint32_t ticket_ms)
{
    for (unsigned i = 0; i < INSTANCES * WORKERS; i++)
        instances[i / WORKERS].workers[i % WORKERS].pools.terms = (struct pool_terms){ lease_ms, ticket_ms };
}

static inline struct slot_pool pool_of(const char *id, uint32_t capacity)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *c = id; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return (struct slot_pool){ span_cstr(id), hash | 1, capacity };
}

static inline enum pool_answer ask(struct worker *worker, const struct slot_pool *asked, size_t n, bool waits)
{
    return pools_take(&worker->pools, asked, n, waits, &worker->lease, worker->states);
}

static inline const char *answer_name(enum pool_answer answer)
{
    static const char *const names[] = { "taken", "full", "saturated", "away" };
    return names[answer];
}

static inline void assert_answer(struct worker *worker, const struct slot_pool *asked, size_t n, bool waits,
                                 enum pool_answer expected, const char *where)
{
    enum pool_answer answer = ask(worker, asked, n, waits);
    ck_assert_msg(answer == expected,
                  "%s in the %s: %s; expected: %s (%u held, %u ahead, saturated for %u ms)", where,
                  store_names[store], answer_name(answer), answer_name(expected), worker->states[0].held,
                  worker->states[0].ahead, worker->states[0].saturated_ms);
}

static inline void leave(struct worker *worker)
{
    pools_leave(&worker->pools, &worker->lease);
}

static inline uint32_t count(struct worker *worker, const struct slot_pool *pool)
{
    uint32_t held = UINT32_MAX;
    ck_assert(pools_count(&worker->pools, pool, 1, &held));
    return held;
}

static inline void assert_held(const struct slot_pool *pool, uint32_t expected, const char *where)
{
    uint32_t held = count(&workers[0], pool);
    ck_assert_msg(held == expected, "%s in the %s: %u are held; expected: %u", where, store_names[store],
                  held, expected);
}

static inline uint64_t now_ms(void)
{
    return clock_monotonic_us() / US_PER_MS;
}

/* Asks until it has got one: after how many ms. */
static inline uint64_t await_slot(struct worker *worker, const struct slot_pool *asked, size_t n, bool waits)
{
    uint64_t begun_ms = now_ms();
    while (ask(worker, asked, n, waits) != POOL_TAKEN) {
        ck_assert_msg(now_ms() - begun_ms < DEADLINE_S * 1000, "in the %s no slot came back",
                      store_names[store]);
        usleep(10000);
    }
    return now_ms() - begun_ms;
}

#endif
