/* Slots of pools in a Redis that restarts, stands still, forgets, refuses, or loses its time. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/pools_instances.h"

static const struct slot_pool three = { { "tts:pool:1", 10 }, 7, 3 };

static void take_all(void)
{
    for (unsigned i = 0; i < 3; i++)
        assert_answer(&workers[i], &three, 1, false, POOL_TAKEN, "a free one");
}

/* Asks as a newcomer: as at the beginning of each second without Redis one does. */
static enum pool_answer try(struct worker *worker)
{
    enum pool_answer answer = ask(worker, &three, 1, false);
    leave(worker);
    return answer;
}

static void await_redis(struct worker *worker)
{
    uint64_t begun_ms = now_ms();
    do {
        ck_assert_uint_lt(now_ms() - begun_ms, DEADLINE_S * 1000);
        usleep(20000);
        try(worker);
    } while (!worker->lease.is_in_redis);
}

static void renew_all(struct worker *first, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        pools_renew(&first[i].pools, &first[i].lease);
}

/* Redis, by itself: leases that it knows of. */
static void await_leases(long long expected)
{
    for (uint64_t begun_ms = now_ms(); redis_server_do(&redis, "ZCARD p:tts:pool:1:leases") != expected;) {
        ck_assert_uint_lt(now_ms() - begun_ms, DEADLINE_S * 1000);
        renew_all(workers, 3);
        usleep(20000);
    }
}

/* --- it forgets --- */

static void flush(void)
{
    redis_server_do(&redis, "FLUSHALL");
}

static void restart(void)
{
    redis_server_end(&redis);
    redis_server_start(&redis);
}

static const struct {
    const char *how;
    void (*forget)(void);
} amnesias[] = { { "flushed", flush }, { "restarted", restart } };

START_TEST(what_redis_forgets_is_not_given_out_again_by_those_who_hold_it_and_renewals_tell_it)
{
    begin(IN_REDIS);
    set_terms(3000, 600000);
    take_all();
    amnesias[_i].forget();
    assert_answer(&workers[4], &three, 1, false, POOL_FULL, amnesias[_i].how);
    ck_assert_msg(workers[4].lease.is_in_redis, "%s: %s", amnesias[_i].how,
                  redis_client_trouble(workers[4].pools.redis));
    await_leases(3);
    ck_assert_int_eq(try(&others[0]), POOL_FULL);
    for (unsigned i = 0; i < 3; i++)
        leave(&workers[i]);
    await_leases(0);
    ck_assert_int_eq(try(&others[0]), POOL_TAKEN);
}
END_TEST

START_TEST(who_waits_when_redis_forgets_keeps_its_place)
{
    begin(IN_REDIS);
    set_terms(600000, 600000);
    take_all();
    for (unsigned i = 3; i < 6; i++)
        assert_answer(&workers[i], &three, 1, true, POOL_FULL, "who waits");
    flush();
    for (unsigned i = 5; i > 3; i--)
        assert_answer(&workers[i], &three, 1, true, POOL_FULL, "who waits still");
    assert_answer(&workers[6], &three, 1, true, POOL_FULL, "who comes after that");
    assert_answer(&workers[3], &three, 1, true, POOL_FULL, "the first");
    leave(&workers[0]);
    for (unsigned i = 6; i > 3; i--) {
        assert_answer(&workers[i], &three, 1, true, POOL_FULL, "not its turn");
        ck_assert_uint_eq(workers[i].states[0].ahead, i - 3);
    }
    assert_answer(&workers[3], &three, 1, true, POOL_TAKEN, "the first");
}
END_TEST

START_TEST(forgotten_scripts_are_sent_with_each_question)
{
    begin(IN_REDIS);
    assert_answer(&workers[0], &three, 1, false, POOL_TAKEN, "before");
    redis_server_do(&redis, "SCRIPT FLUSH SYNC");
    assert_answer(&workers[1], &three, 1, false, POOL_TAKEN, "after");
    redis_server_do(&redis, "SCRIPT FLUSH SYNC");
    leave(&workers[1]);
    ck_assert_uint_eq(count(&workers[0], &three), 1);
}
END_TEST

/* --- it does not answer --- */

static void stop_answering(void)
{
    set_patience(POOLS_PATIENCE_MS);
    kill(redis.pid, SIGSTOP);
    ck_assert_int_eq(waitpid(redis.pid, NULL, WUNTRACED), redis.pid);
}

static void answer_again(void)
{
    set_patience(DEADLINE_S * 1000);
    kill(redis.pid, SIGCONT);
}

START_TEST(without_an_answer_this_instance_counts_alone_and_says_once_that_it_does)
{
    begin(IN_REDIS);
    set_terms(600000, 600000);
    take_all();
    stop_answering();
    assert_answer(&workers[3], &three, 1, false, POOL_FULL, "its own are all held");
    ck_assert_int_eq(workers[3].lease.redis, REDIS_LOST);
    ck_assert(!workers[3].lease.is_in_redis);
    assert_answer(&others[0], &three, 1, false, POOL_TAKEN, "of others it knows nothing");
    ck_assert_int_eq(others[0].lease.redis, REDIS_LOST);
    leave(&workers[0]);
    uint64_t rests_until_us = atomic_load(&instances[0].shared->redis_rest.until_us);
    assert_answer(&workers[3], &three, 1, false, POOL_TAKEN, "its own");
    ck_assert_int_eq(workers[3].lease.redis, REDIS_AS_BEFORE);
    /* Within the second it was not asked again. */
    ck_assert(atomic_load(&instances[0].shared->redis_rest.until_us) == rests_until_us ||
              clock_monotonic_us() >= rests_until_us);
    answer_again();
    await_redis(&workers[5]);
    ck_assert_int_eq(workers[5].lease.redis, REDIS_BACK);
    try(&workers[5]);
    ck_assert_int_eq(workers[5].lease.redis, REDIS_AS_BEFORE);
}
END_TEST

START_TEST(who_refuses_alone_gives_nothing_out_without_an_answer)
{
    begin(IN_REDIS);
    workers[0].pools.refuses_alone = workers[1].pools.refuses_alone = true;
    workers[0].states[0].held = 42;
    stop_answering();
    assert_answer(&workers[0], &three, 1, true, POOL_AWAY, "lost");
    ck_assert_int_eq(workers[0].lease.redis, REDIS_LOST);
    ck_assert_uint_eq(workers[0].states[0].held, 0);
    assert_answer(&workers[1], &three, 1, true, POOL_AWAY, "lost before");
    ck_assert(!workers[1].lease.is_taken);
    uint32_t held;
    ck_assert(!pools_count(&workers[1].pools, &three, 1, &held));
    answer_again();
    await_redis(&workers[0]);
    ck_assert_uint_eq(count(&workers[0], &three), 0);
}
END_TEST

START_TEST(what_was_taken_alone_is_told_when_redis_is_back)
{
    begin(IN_REDIS);
    set_terms(3000, 600000);
    redis_server_end(&redis);
    take_all();
    ck_assert(!workers[0].lease.is_in_redis);
    redis_server_start(&redis);
    await_leases(3);
    ck_assert_int_eq(try(&others[0]), POOL_FULL);
    for (unsigned i = 0; i < 3; i++)
        leave(&workers[i]);
    await_leases(0);
}
END_TEST

/* The question lies in the socket when Redis goes on. */
START_TEST(what_an_unanswered_question_took_is_given_back_with_the_next_one)
{
    begin(IN_REDIS);
    set_terms(600000, 600000);
    for (unsigned i = 0; i < 2; i++)
        workers[i].pools.refuses_alone = true;
    assert_answer(&workers[0], &three, 1, false, POOL_TAKEN, "a free one");
    stop_answering();
    assert_answer(&workers[1], &three, 1, false, POOL_AWAY, "not answered");
    leave(&workers[1]);
    answer_again();
    await_leases(2); /* the one that nobody has */
    await_redis(&workers[1]);
    await_leases(1);
}
END_TEST

/* --- it does not answer one of two who are in hand together --- */

static const struct slot_pool pair[] = { { { "tts:pool:1", 10 }, 7, 3 }, { { "tts:pool:2", 10 }, 8, 3 } };

/* Asks with the worker's other hold. */
static enum pool_answer ask_beside(struct worker *worker, const struct slot_pool *pool,
                                   struct pool_lease *lease)
{
    *lease = (struct pool_lease){ .hold = 1 };
    return pools_take(&worker->pools, pool, 1, false, lease, worker->states);
}

static void assert_leases(long long first, long long second, const char *when)
{
    long long leases[] = { redis_server_do(&redis, "ZCARD p:tts:pool:1:leases"),
                           redis_server_do(&redis, "ZCARD p:tts:pool:2:leases") };
    ck_assert_msg(leases[0] == first && leases[1] == second, "%s: %lld and %lld; expected: %lld and %lld",
                  when, leases[0], leases[1], first, second);
}

/* Its question was not answered, and heard. The other instance has two of the first pool, of which this one
 * knows nothing: alone it takes of the first, and Redis of the second. */
static void take_in_doubt(struct worker *worker)
{
    for (unsigned i = 0; i < 2; i++)
        assert_answer(&others[i], pair, 1, false, POOL_TAKEN, "the other instance");
    stop_answering();
    assert_answer(worker, pair, 2, false, POOL_TAKEN, "alone");
    ck_assert(!worker->lease.is_in_redis);
    ck_assert_uint_eq(worker->lease.place, 0);
    answer_again();
    await_redis(&workers[9]);
    assert_leases(2, 1, "it was heard");
}

START_TEST(who_asks_for_another_slot_beside_loses_none_that_is_in_hand)
{
    const struct slot_pool *pool = &pair[_i];
    struct pool_lease beside;

    begin(IN_REDIS);
    set_terms(600000, 600000);
    take_in_doubt(&workers[0]);
    workers[0].lease.renew_at_us = 1;
    pools_renew(&workers[0].pools, &workers[0].lease);
    ck_assert_int_eq(ask_beside(&workers[0], pool, &beside), _i == 0 ? POOL_FULL : POOL_TAKEN);
    ck_assert(beside.is_in_redis);
    ck_assert_int_eq(redis_server_do(&redis, "ZCARD p:tts:pool:1:leases"), 3);
    pools_leave(&workers[0].pools, &beside);
    leave(&workers[0]);
    try(&workers[9]); /* what was told is done */
    assert_leases(2, 0, "both were left");
}
END_TEST

START_TEST(two_leases_in_doubt_are_both_given_back)
{
    struct pool_lease beside;

    begin(IN_REDIS);
    set_terms(600000, 600000);
    take_in_doubt(&workers[0]);
    stop_answering();
    ck_assert_int_eq(ask_beside(&workers[0], &pair[1], &beside), POOL_TAKEN);
    ck_assert(!beside.is_in_redis);
    answer_again();
    await_redis(&workers[9]);
    assert_leases(2, 2, "it was heard");
    if (_i == 0)
        leave(&workers[0]);
    pools_leave(&workers[0].pools, &beside);
    if (_i == 1)
        leave(&workers[0]);
    try(&workers[9]);
    assert_leases(2, 0, "both were left");
}
END_TEST

/* Also where Redis did not hear, and the slot is asked for again. */
START_TEST(who_asks_again_after_no_answer_has_one_slot)
{
    begin(IN_REDIS);
    set_terms(600000, 600000);
    take_in_doubt(&workers[0]);
    assert_answer(&workers[0], &pair[1], 1, false, POOL_TAKEN, "asked again");
    ck_assert(workers[0].lease.is_in_redis);
    assert_leases(2, 1, "it has one");
    leave(&workers[0]);
    try(&workers[9]);
    assert_leases(2, 0, "it was left");
}
END_TEST

START_TEST(nobody_who_tells_waits_for_it)
{
    begin(IN_REDIS);
    set_terms(30, 600000);
    take_all();
    stop_answering();
    for (unsigned i = 0; i < 20; i++) {
        renew_all(workers, 3);
        pools_mark_saturated(&workers[0].pools, &three, 60000);
        usleep(10000);
    }
    for (unsigned i = 0; i < 3; i++)
        leave(&workers[i]);
    answer_again();
    await_leases(0);
    ck_assert_int_eq(try(&others[0]), POOL_SATURATED);
}
END_TEST

START_TEST(a_mark_that_redis_could_not_be_told_of_is_told_when_it_answers)
{
    begin(IN_REDIS);
    stop_answering();
    ck_assert_int_eq(try(&workers[0]), POOL_TAKEN); /* alone; from now on Redis rests */
    pools_mark_saturated(&workers[0].pools, &three, 60000);
    answer_again();
    await_redis(&workers[1]);
    ck_assert_int_eq(try(&workers[1]), POOL_SATURATED);
    ck_assert_uint_gt(workers[1].states[0].saturated_ms, 30000);
    ck_assert_int_eq(try(&others[0]), POOL_SATURATED);
    ck_assert(others[0].lease.is_in_redis);
    flush();
    ck_assert_int_eq(try(&others[1]), POOL_TAKEN); /* nobody has told that instance */
    ck_assert_int_eq(try(&workers[1]), POOL_SATURATED);
    ck_assert_int_eq(try(&others[1]), POOL_SATURATED);
}
END_TEST

/* --- it refuses --- */

static void forbid(void)
{
    redis_server_do(&redis, "ACL SETUSER default resetkeys ~other:*");
}

static void allow(void)
{
    redis_server_do(&redis, "ACL SETUSER default allkeys");
}

static void make_replica(void)
{
    redis_server_do(&redis, "REPLICAOF 127.0.0.1 1");
}

static void make_master(void)
{
    redis_server_do(&redis, "REPLICAOF NO ONE");
}

static void put_text(void)
{
    redis_server_do(&redis, "SET p:tts:pool:1:leases text");
}

static void remove_text(void)
{
    redis_server_do(&redis, "DEL p:tts:pool:1:leases");
}

static void put_list(void)
{
    redis_server_do(&redis, "RPUSH p:tts:pool:1:queue text");
}

static void remove_list(void)
{
    redis_server_do(&redis, "DEL p:tts:pool:1:queue");
}

static const struct {
    const char *trouble;
    void (*begin)(void), (*end)(void);
} refusals[] = {
    { "it answers with NOPERM", forbid, allow },
    { "it answers with READONLY", make_replica, make_master },
    { "it answers with WRONGTYPE", put_text, remove_text },
    { "it answers with WRONGTYPE", put_list, remove_list },
};

START_TEST(a_redis_that_refuses_is_as_one_that_does_not_answer)
{
    begin(IN_REDIS);
    try(&workers[0]);
    refusals[_i].begin();
    assert_answer(&workers[0], &three, 1, false, POOL_TAKEN, refusals[_i].trouble);
    ck_assert_int_eq(workers[0].lease.redis, REDIS_LOST);
    ck_assert_str_eq(redis_client_trouble(workers[0].pools.redis), refusals[_i].trouble);
    refusals[_i].end();
    await_redis(&workers[1]);
    ck_assert_int_eq(workers[1].lease.redis, REDIS_BACK);
    for (uint64_t begun_ms = now_ms(); count(&others[0], &three) != 1; usleep(20000)) {
        ck_assert_uint_lt(now_ms() - begun_ms, DEADLINE_S * 1000);
        workers[0].lease.renew_at_us = 1;
        pools_renew(&workers[0].pools, &workers[0].lease);
    }
}
END_TEST

/* A user of Redis as the runbook makes it: "x" is its password. */
static void make_user(void)
{
    static const char begin[] = "ACL SETUSER llm-router ";
    char line[1024];
    FILE *runbook = fopen("admin/RUNBOOK.md", "r");
    unsigned lines = 0;

    ck_assert_ptr_nonnull(runbook);
    while (fgets(line, sizeof(line), runbook) != NULL) {
        const char *words[32];
        int n = 0;
        if (strncmp(line, begin, strlen(begin)) != 0)
            continue;
        for (char *word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n"))
            words[n++] = word[0] == '>' ? ">x" : word;
        redisReply *reply = redisCommandArgv(redis.admin, n, words, NULL);
        ck_assert_ptr_nonnull(reply);
        ck_assert_msg(reply->type == REDIS_REPLY_STATUS, "%s", reply->str);
        freeReplyObject(reply);
        lines++;
    }
    fclose(runbook);
    ck_assert_uint_gt(lines, 1);
}

START_TEST(the_rights_that_the_runbook_gives_are_enough)
{
    char url[128];
    const struct store_place place = { .redis_url = url };
    const struct slot_pool pools[] = { three, pool_of("llm:pool:2", 0) };
    struct redis_client *client = NULL;
    struct error e = { 0 };

    begin(IN_REDIS);
    struct redis_client *everybodys = workers[0].pools.redis;
    make_user();
    snprintf(url, sizeof(url), "unix://llm-router:x@%s", redis.socket);
    ck_assert_msg(redis_client_open(&place, &client, &e) == 0, "%s", e.text);
    for (unsigned i = 0; i < 5; i++)
        workers[i].pools.redis = client;
    take_all();
    assert_answer(&workers[3], &three, 1, true, POOL_FULL, "who waits");
    pools_mark_saturated(&workers[0].pools, &pools[1], 60000);
    assert_answer(&workers[4], pools, 2, true, POOL_FULL, "who waits for both");
    ck_assert(workers[4].lease.is_in_redis);
    ck_assert_uint_gt(workers[4].states[1].saturated_ms, 0);
    workers[0].lease.renew_at_us = 1;
    pools_renew(&workers[0].pools, &workers[0].lease);
    for (unsigned i = 0; i < 5; i++)
        leave(&workers[i]);
    ck_assert_uint_eq(count(&workers[0], &three), 0);
    ck_assert_msg(redis_server_do(&redis, "ACL LOG") == 0, "something was not permitted");
    ck_assert_int_eq(redis_server_do(&redis, "EXISTS llm:pool:2:saturated pools:ticket"), 2);
    workers[0].pools.redis = everybodys;
    redis_client_close(client);
}
END_TEST

/* A lease takes the room of those that are removed before it; a ticket is refused. */
START_TEST(a_redis_without_memory_gives_out_slots_but_no_tickets)
{
    begin(IN_REDIS);
    try(&others[0]);
    redis_server_do(&redis, "CONFIG SET maxmemory 1");
    take_all();
    ck_assert(workers[2].lease.is_in_redis);
    assert_answer(&others[0], &three, 1, true, POOL_TAKEN, "alone");
    ck_assert_int_eq(others[0].lease.redis, REDIS_LOST);
    ck_assert_str_eq(redis_client_trouble(others[0].pools.redis), "it answers with OOM");
    redis_server_do(&redis, "CONFIG SET maxmemory 0");
    await_redis(&others[1]);
}
END_TEST

/* --- its time, and what it keeps --- */

START_TEST(what_ends_later_than_it_could_is_of_another_clock_and_not_believed)
{
    begin(IN_REDIS);
    for (unsigned i = 0; i < 3; i++)
        redis_server_do(&redis, "ZADD p:tts:pool:1:leases 99999999999999 ghost-%u", i);
    redis_server_do(&redis, "ZADD p:tts:pool:1:queue 1 waiting-ghost");
    redis_server_do(&redis, "ZADD p:tts:pool:1:tickets 99999999999999 waiting-ghost");
    redis_server_do(&redis, "SET p:tts:pool:1:saturated 15000 PX 600000");
    ck_assert_uint_eq(count(&workers[0], &three), 0);
    take_all();
    ck_assert_uint_eq(workers[0].states[0].held, 0);
    ck_assert_int_eq(try(&others[0]), POOL_FULL);
    ck_assert_int_eq(redis_server_do(&redis, "ZCARD p:tts:pool:1:leases"), 3);
    ck_assert_int_eq(redis_server_do(&redis, "EXISTS p:tts:pool:1:queue p:tts:pool:1:saturated"), 0);
}
END_TEST

/* What stands in Redis are numbers of Redis' clock and lengths: none of ours. */
START_TEST(leases_end_by_the_clock_of_redis)
{
    begin(IN_REDIS);
    set_terms(600000, 300000);
    redisReply *before = redisCommand(redis.admin, "TIME");
    take_all();
    assert_answer(&workers[3], &three, 1, true, POOL_FULL, "who waits");
    redisReply *after = redisCommand(redis.admin, "TIME");
    redisReply *ends = redisCommand(redis.admin, "ZRANGE p:tts:pool:1:leases 0 -1 WITHSCORES");
    ck_assert_uint_eq(ends->elements, 6);
    for (size_t i = 0; i < ends->elements; i += 2) {
        ck_assert_msg(strncmp(ends->element[i]->str, "an-instance/", 12) == 0, "%s", ends->element[i]->str);
        double end_s = (strtod(ends->element[i + 1]->str, NULL) - 600000) / 1000;
        ck_assert_double_ge(end_s, strtod(before->element[0]->str, NULL));
        ck_assert_double_le(end_s, strtod(after->element[0]->str, NULL) + 1);
    }
    freeReplyObject(before);
    freeReplyObject(after);
    freeReplyObject(ends);
}
END_TEST

START_TEST(every_key_lapses_and_few_are_left_when_all_have_left)
{
    static const char *const keys[] = { "p:tts:pool:1:leases", "p:tts:pool:1:queue", "p:tts:pool:1:tickets",
                                        "p:tts:pool:1:saturated", "p:pools:ticket" };
    begin(IN_REDIS);
    take_all();
    assert_answer(&workers[3], &three, 1, true, POOL_FULL, "who waits");
    pools_mark_saturated(&workers[0].pools, &three, 60000);
    try(&others[0]); /* what was told is done */
    ck_assert_int_eq(redis_server_do(&redis, "DBSIZE"), (long long)COUNT(keys));
    for (size_t i = 0; i < COUNT(keys); i++) {
        long long left_ms = redis_server_do(&redis, "PTTL %s", keys[i]);
        ck_assert_msg(left_ms > 0 && left_ms <= 62000, "%s: %lld", keys[i], left_ms);
    }
    for (unsigned i = 0; i < 4; i++)
        leave(&workers[i]);
    try(&workers[0]);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(redis_server_do(&redis, "EXISTS %s", keys[i]), 0);
}
END_TEST

START_TEST(a_question_is_one_command_whatever_the_number_of_pools)
{
    const struct slot_pool many[] = { three, pool_of("tts:pool:2", 3), pool_of("tts:pool:3", 0) };

    begin(IN_REDIS);
    try(&workers[0]);
    redis_server_do(&redis, "CONFIG RESETSTAT");
    assert_answer(&workers[0], many, COUNT(many), true, POOL_TAKEN, "one of many");
    redisReply *said = redisCommand(redis.admin, "INFO commandstats");
    ck_assert_msg(strstr(said->str, "cmdstat_eval:calls=1,") != NULL, "%s", said->str);
    freeReplyObject(said);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pools_redis");
    TCase *tc = tcase_create("pools_redis");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, NULL, end);
    tcase_add_loop_test(tc,
                        what_redis_forgets_is_not_given_out_again_by_those_who_hold_it_and_renewals_tell_it,
                        0, COUNT(amnesias));
    tcase_add_test(tc, who_waits_when_redis_forgets_keeps_its_place);
    tcase_add_test(tc, forgotten_scripts_are_sent_with_each_question);
    tcase_add_test(tc, without_an_answer_this_instance_counts_alone_and_says_once_that_it_does);
    tcase_add_test(tc, who_refuses_alone_gives_nothing_out_without_an_answer);
    tcase_add_test(tc, what_was_taken_alone_is_told_when_redis_is_back);
    tcase_add_test(tc, what_an_unanswered_question_took_is_given_back_with_the_next_one);
    tcase_add_loop_test(tc, who_asks_for_another_slot_beside_loses_none_that_is_in_hand, 0, COUNT(pair));
    tcase_add_loop_test(tc, two_leases_in_doubt_are_both_given_back, 0, 2);
    tcase_add_test(tc, who_asks_again_after_no_answer_has_one_slot);
    tcase_add_test(tc, nobody_who_tells_waits_for_it);
    tcase_add_test(tc, a_mark_that_redis_could_not_be_told_of_is_told_when_it_answers);
    tcase_add_loop_test(tc, a_redis_that_refuses_is_as_one_that_does_not_answer, 0, COUNT(refusals));
    tcase_add_test(tc, the_rights_that_the_runbook_gives_are_enough);
    tcase_add_test(tc, a_redis_without_memory_gives_out_slots_but_no_tickets);
    tcase_add_test(tc, what_ends_later_than_it_could_is_of_another_clock_and_not_believed);
    tcase_add_test(tc, leases_end_by_the_clock_of_redis);
    tcase_add_test(tc, every_key_lapses_and_few_are_left_when_all_have_left);
    tcase_add_test(tc, a_question_is_one_command_whatever_the_number_of_pools);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
