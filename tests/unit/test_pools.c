/* Slots of pools, in the mapping and in Redis: what is promised of both. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/admit/shared_pools.h"
#include "core/store/place.h"
#include "tests/unit/pools_instances.h"
#include "tests/unit/stopped_process.h"

/* --- which one: pure --- */

static const struct choice {
    const char *what;
    struct {
        uint32_t capacity;
        struct pool_state state;
    } pools[4];
    size_t n, expected;
} choices[] = {
    { "of equals the first", { { 10, { 0, 0, 0 } }, { 10, { 0, 0, 0 } } }, 2, 0 },
    { "the one with more free", { { 10, { 3, 0, 0 } }, { 10, { 2, 0, 0 } } }, 2, 1 },
    { "relative to its capacity", { { 100, { 50, 0, 0 } }, { 4, { 1, 0, 0 } } }, 2, 1 },
    { "equal parts are equal", { { 100, { 50, 0, 0 } }, { 4, { 2, 0, 0 } } }, 2, 0 },
    { "not for long it is saturated", { { 10, { 0, 0, 1 } }, { 10, { 9, 0, 0 } } }, 2, 1 },
    { "a queue takes room", { { 10, { 0, 5, 0 } }, { 10, { 4, 0, 0 } } }, 2, 1 },
    { "what is for those before is not free", { { 10, { 8, 2, 0 } } }, 1, 1 },
    { "nor is more than all", { { 10, { 30, 2, 0 } } }, 1, 1 },
    { "one without limit stands where it stands", { { 0, { 0, 0, 0 } }, { 10, { 0, 0, 0 } } }, 2, 0 },
    { "and so behind", { { 10, { 9, 0, 0 } }, { 0, { 0, 0, 0 } } }, 2, 0 },
    { "the first place of a limited one is the roomiest's",
      { { 10, { 10, 0, 0 } }, { 0, { 0, 0, 0 } }, { 10, { 0, 0, 0 } } },
      3,
      2 },
    { "also where it is saturated", { { 10, { 0, 0, 7 } }, { 0, { 0, 0, 0 } }, { 10, { 0, 0, 0 } } }, 3, 2 },
    { "without any room, the one without limit", { { 10, { 10, 0, 0 } }, { 0, { 0, 0, 0 } } }, 2, 1 },
    { "unless it is saturated", { { 10, { 10, 0, 0 } }, { 0, { 0, 0, 1 } } }, 2, 2 },
    { "then the next", { { 0, { 0, 0, 1 } }, { 0, { 0, 0, 0 } } }, 2, 1 },
    { "the largest capacity", { { POOL_CAPACITY_MAX, { 1, 0, 0 } }, { 3, { 0, 0, 0 } } }, 2, 1 },
};

START_TEST(the_roomiest_is_chosen)
{
    const struct choice *row = &choices[_i];
    struct slot_pool asked[4];
    struct pool_state states[4];

    for (size_t i = 0; i < row->n; i++) {
        asked[i] = pool_of("x", row->pools[i].capacity);
        states[i] = row->pools[i].state;
    }
    size_t place = pools_choose(asked, states, row->n);
    ck_assert_msg(place == row->expected, "%s: %zu; expected: %zu", row->what, place, row->expected);
}
END_TEST

/* --- taking and leaving --- */

START_TEST(a_slot_is_taken_within_the_capacity_and_refused_at_it_without_change)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 2);

    begin(_i);
    for (unsigned i = 0; i < 2; i++) {
        assert_answer(&workers[i], &pool, 1, false, POOL_TAKEN, "a free one");
        ck_assert_uint_eq(workers[i].lease.place, 0);
        ck_assert_uint_eq(workers[i].states[0].held, i);
        ck_assert(workers[i].lease.is_in_redis == (store == IN_REDIS));
        assert_held(&pool, i + 1, "taken");
    }
    for (unsigned i = 2; i < 5; i++) {
        assert_answer(&workers[i], &pool, 1, false, POOL_FULL, "beyond the capacity");
        ck_assert(!workers[i].lease.is_taken);
        ck_assert_uint_eq(workers[i].states[0].held, 2);
        assert_held(&pool, 2, "refused");
    }
}
END_TEST

START_TEST(what_is_taken_and_given_back_is_as_before)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 1);

    begin(_i);
    for (unsigned i = 0; i < 20; i++) {
        assert_answer(&workers[i % 3], &pool, 1, false, POOL_TAKEN, "the only one");
        assert_answer(&workers[(i + 1) % 3], &pool, 1, false, POOL_FULL, "the only one is held");
        leave(&workers[i % 3]);
        assert_held(&pool, 0, "given back");
    }
}
END_TEST

START_TEST(leaving_twice_does_nothing_and_what_was_refused_leaves_nothing)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 1);

    begin(_i);
    leave(&workers[0]);
    assert_answer(&workers[0], &pool, 1, false, POOL_TAKEN, "a free one");
    leave(&workers[0]);
    assert_answer(&workers[1], &pool, 1, false, POOL_TAKEN, "given back");
    leave(&workers[0]);
    leave(&workers[2]);
    assert_answer(&workers[0], &pool, 1, false, POOL_FULL, "held by another");
    leave(&workers[0]);
    assert_held(&pool, 1, "after many that left nothing");
}
END_TEST

START_TEST(who_asks_again_gives_back_what_it_has)
{
    const struct slot_pool pools[] = { pool_of("tts:pool:1", 1), pool_of("tts:pool:2", 1) };

    begin(_i);
    assert_answer(&workers[0], &pools[0], 1, false, POOL_TAKEN, "the first");
    assert_answer(&workers[0], &pools[1], 1, false, POOL_TAKEN, "another");
    assert_held(&pools[0], 0, "left for another");
    assert_held(&pools[1], 1, "taken instead");
    assert_answer(&workers[0], &pools[1], 1, false, POOL_TAKEN, "the same again");
    assert_held(&pools[1], 1, "taken again");
}
END_TEST

START_TEST(fifty_over_five_pools_of_ten_are_ten_each)
{
    static const char *const ids[] = { "tts:pool:1", "tts:pool:2", "tts:pool:3", "tts:pool:4", "tts:pool:5" };
    struct slot_pool pools[5];

    begin(_i);
    for (unsigned i = 0; i < 5; i++)
        pools[i] = pool_of(ids[i], 10);
    for (unsigned i = 0; i < 50; i++) {
        assert_answer(&workers[i], pools, 5, false, POOL_TAKEN, "within all capacities");
        ck_assert_uint_eq(workers[i].lease.place, i % 5);
    }
    for (unsigned i = 0; i < 5; i++)
        assert_held(&pools[i], 10, ids[i]);
    assert_answer(&workers[50], pools, 5, false, POOL_FULL, "beyond all capacities");
}
END_TEST

START_TEST(slots_go_by_the_part_of_the_capacity_that_is_free)
{
    const struct slot_pool pools[] = { pool_of("tts:pool:1", 2), pool_of("tts:pool:2", 6),
                                       pool_of("tts:pool:3", 4) };
    static const size_t places[] = { 0, 1, 2, 1, 2, 1, 0, 1, 2, 1, 2, 1 };

    begin(_i);
    for (unsigned i = 0; i < COUNT(places); i++) {
        assert_answer(&workers[i], pools, 3, false, POOL_TAKEN, "within all capacities");
        ck_assert_uint_eq(pools_choose(pools, workers[i].states, 3), workers[i].lease.place);
    }
    assert_held(&pools[0], 2, "small");
    assert_held(&pools[1], 6, "large");
    assert_held(&pools[2], 4, "middle");
}
END_TEST

START_TEST(one_without_limit_is_taken_where_it_stands_and_holds_nothing)
{
    const struct slot_pool before[] = { pool_of("llm:pool:1", 0), pool_of("llm:pool:2", 1) };
    const struct slot_pool behind[] = { before[1], before[0] };

    begin(_i);
    for (unsigned i = 0; i < 3; i++) {
        assert_answer(&workers[i], before, 2, false, POOL_TAKEN, "without limit");
        ck_assert_uint_eq(workers[i].lease.place, 0);
        pools_renew(&workers[i].pools, &workers[i].lease);
    }
    for (unsigned i = 3; i < 6; i++) {
        assert_answer(&workers[i], behind, 2, false, POOL_TAKEN, "without limit behind");
        ck_assert_uint_eq(workers[i].lease.place, i == 3 ? 0 : 1);
    }
    for (unsigned i = 0; i < 6; i++)
        leave(&workers[i]);
    assert_held(&before[1], 0, "all have left");
}
END_TEST

START_TEST(capacities_are_those_of_who_asks)
{
    const struct slot_pool three = pool_of("tts:pool:1", 3), two = pool_of("tts:pool:1", 2);

    begin(_i);
    for (unsigned i = 0; i < 3; i++)
        assert_answer(&workers[i], &three, 1, false, POOL_TAKEN, "of three");
    assert_answer(&workers[3], &two, 1, false, POOL_FULL, "of two, three of which are held");
    leave(&workers[0]);
    assert_answer(&workers[3], &two, 1, false, POOL_FULL, "of two that are held");
    leave(&workers[1]);
    assert_answer(&workers[3], &two, 1, false, POOL_TAKEN, "of two, one of which is held");
    assert_answer(&workers[4], &three, 1, false, POOL_TAKEN, "of three, two of which are held");
}
END_TEST

START_TEST(a_pool_that_is_asked_for_twice_is_one)
{
    const struct slot_pool pools[] = { pool_of("tts:pool:1", 2), pool_of("tts:pool:1", 2) };

    begin(_i);
    assert_answer(&workers[0], pools, 2, true, POOL_TAKEN, "the first");
    assert_answer(&workers[1], pools, 2, true, POOL_TAKEN, "the second");
    assert_answer(&workers[2], pools, 2, true, POOL_FULL, "a third");
    leave(&workers[0]);
    assert_answer(&workers[3], pools, 2, true, POOL_FULL, "who comes later");
    ck_assert_uint_eq(workers[3].states[0].ahead, 1);
    assert_answer(&workers[2], pools, 2, true, POOL_TAKEN, "who waits");
}
END_TEST

/* --- saturation --- */

START_TEST(a_saturated_pool_is_passed_over_until_the_mark_lapses)
{
    const struct slot_pool pools[] = { pool_of("tts:pool:1", 5), pool_of("llm:pool:2", 0) };

    begin(_i);
    pools_mark_saturated(&workers[0].pools, &pools[0], 600000);
    assert_answer(&workers[0], pools, 2, false, POOL_TAKEN, "the other");
    ck_assert_uint_eq(workers[0].lease.place, 1);
    ck_assert_uint_gt(workers[0].states[0].saturated_ms, 500000);
    ck_assert_uint_le(workers[0].states[0].saturated_ms, 600000);
    uint64_t marked_ms = now_ms();
    pools_mark_saturated(&workers[0].pools, &pools[1], 400);
    pools_mark_saturated(&workers[0].pools, &pools[1], 1); /* said before: longer */
    enum pool_answer answer = ask(&workers[1], pools, 2, false);
    ck_assert_msg(answer == POOL_SATURATED || now_ms() - marked_ms >= 400, "%s", answer_name(answer));
    await_slot(&workers[1], pools, 2, false);
    ck_assert_uint_eq(workers[1].lease.place, 1);
    ck_assert_uint_ge(now_ms() - marked_ms, 390);
}
END_TEST

START_TEST(more_marks_than_there_is_room_for_forget_the_one_that_ends_first)
{
    struct slot_pool pool = pool_of("tts:pool:1", 1);

    begin(IN_MAPPING);
    for (unsigned i = 0; i < POOL_MARKS + 1; i++) {
        pool.hash = 1 + i;
        pools_mark_saturated(&workers[0].pools, &pool, 600000 + 1000 * ((i + 7) % POOL_MARKS));
    }
    unsigned forgotten = 0;
    for (unsigned i = 0; i < POOL_MARKS + 1; i++) {
        pool.hash = 1 + i;
        if (ask(&workers[0], &pool, 1, false) == POOL_TAKEN)
            forgotten = forgotten * 1000 + i;
        leave(&workers[0]);
    }
    ck_assert_uint_eq(forgotten, POOL_MARKS - 7);
}
END_TEST

/* --- lapsing --- */

START_TEST(a_lease_that_nobody_renews_lapses)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 1);

    begin(_i);
    set_terms(700, 300);
    uint64_t begun_ms = now_ms();
    assert_answer(&workers[0], &pool, 1, false, POOL_TAKEN, "a free one");
    await_slot(&workers[1], &pool, 1, false);
    ck_assert_uint_ge(now_ms() - begun_ms, 690);
    leave(&workers[0]); /* it has nothing to give back */
    assert_held(&pool, 1, "lapsed and taken");
}
END_TEST

START_TEST(one_that_is_renewed_never_lapses)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 1);
    uint64_t begun_ms, renewed_ms;

    begin(_i);
    set_terms(1500, 300);
    assert_answer(&workers[0], &pool, 1, false, POOL_TAKEN, "a free one");
    begun_ms = renewed_ms = now_ms();
    while (now_ms() - begun_ms < 4000) {
        pools_renew(&workers[0].pools, &workers[0].lease);
        if (now_ms() - renewed_ms > 900) { /* the machine stood still: it was due at 450 */
            begun_ms = now_ms();
        }
        renewed_ms = now_ms();
        enum pool_answer answer = ask(&workers[1], &pool, 1, false);
        ck_assert_msg(answer == POOL_FULL || now_ms() - renewed_ms > 900, "%s: taken from its owner",
                      store_names[_i]);
        leave(&workers[1]);
        usleep(20000);
    }
}
END_TEST

START_TEST(a_lapsed_lease_that_is_renewed_is_there_again)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 1);

    begin(_i);
    set_terms(400, 300);
    assert_answer(&workers[0], &pool, 1, false, POOL_TAKEN, "a free one");
    usleep(500000);
    assert_held(&pool, 0, "lapsed");
    workers[0].pools.terms.lease_ms = 600000;
    workers[1].pools.terms.lease_ms = 600000;
    pools_renew(&workers[0].pools, &workers[0].lease);
    assert_answer(&workers[1], &pool, 1, false, POOL_FULL, "held by the one that came back");
}
END_TEST

/* --- queues --- */

START_TEST(who_waits_gets_slots_in_the_order_of_coming)
{
    const struct slot_pool pools[] = { pool_of("tts:pool:1", 1), pool_of("tts:pool:2", 1) };

    begin(_i);
    set_terms(600000, 600000);
    for (unsigned i = 0; i < 2; i++)
        assert_answer(&workers[i], pools, 2, true, POOL_TAKEN, "a free one");
    for (unsigned i = 2; i < 6; i++) {
        assert_answer(&workers[i], pools, 2, true, POOL_FULL, "none is free");
        ck_assert_uint_eq(workers[i].states[0].ahead, i - 2);
    }
    leave(&workers[1]);
    for (unsigned i = 5; i > 2; i--) {
        assert_answer(&workers[i], pools, 2, true, POOL_FULL, "it is another's turn");
        ck_assert_uint_eq(workers[i].states[1].ahead, i - 2);
    }
    assert_answer(&workers[6], pools, 2, false, POOL_FULL, "a newcomer");
    assert_answer(&workers[7], &pools[1], 1, true, POOL_FULL, "a newcomer who waits");
    assert_answer(&workers[2], pools, 2, true, POOL_TAKEN, "the first who waits");
    ck_assert_uint_eq(workers[2].lease.place, 1);
    leave(&workers[0]);
    leave(&workers[2]);
    assert_answer(&workers[7], &pools[1], 1, true, POOL_FULL, "two are before it, and one slot");
    assert_answer(&workers[4], pools, 2, true, POOL_FULL, "its slots are for one who was before it");
    assert_answer(&workers[3], pools, 2, true, POOL_TAKEN, "the second");
    assert_answer(&workers[4], pools, 2, true, POOL_TAKEN, "the third");
}
END_TEST

START_TEST(free_slots_beyond_those_who_wait_are_for_anybody)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 3);

    begin(_i);
    set_terms(600000, 600000);
    for (unsigned i = 0; i < 3; i++)
        assert_answer(&workers[i], &pool, 1, true, POOL_TAKEN, "a free one");
    assert_answer(&workers[3], &pool, 1, true, POOL_FULL, "who waits");
    leave(&workers[0]);
    assert_answer(&workers[4], &pool, 1, false, POOL_FULL, "one is free, and for another");
    leave(&workers[1]);
    assert_answer(&workers[4], &pool, 1, false, POOL_TAKEN, "two are free");
    assert_answer(&workers[3], &pool, 1, true, POOL_TAKEN, "who waited");
}
END_TEST

START_TEST(who_leaves_the_queue_or_asks_without_waiting_is_in_nobodys_way)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 1);

    begin(_i);
    set_terms(600000, 600000);
    assert_answer(&workers[0], &pool, 1, true, POOL_TAKEN, "a free one");
    for (unsigned i = 1; i < 4; i++)
        assert_answer(&workers[i], &pool, 1, true, POOL_FULL, "who waits");
    leave(&workers[1]);
    assert_answer(&workers[2], &pool, 1, false, POOL_FULL, "for the last time");
    leave(&workers[0]);
    assert_answer(&workers[3], &pool, 1, true, POOL_TAKEN, "who is left");
    ck_assert_uint_eq(workers[3].states[0].ahead, 0);
}
END_TEST

START_TEST(who_ceases_to_ask_is_not_waited_for)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 1);

    begin(_i);
    set_terms(600000, 500);
    assert_answer(&workers[0], &pool, 1, true, POOL_TAKEN, "a free one");
    uint64_t begun_ms = now_ms();
    assert_answer(&workers[1], &pool, 1, true, POOL_FULL, "who waits, and dies");
    leave(&workers[0]);
    await_slot(&workers[2], &pool, 1, true);
    ck_assert_uint_ge(now_ms() - begun_ms, 490);
}
END_TEST

START_TEST(a_dead_workers_record_that_is_freed_holds_nothing_and_waits_for_nothing)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 1);

    begin(IN_MAPPING);
    assert_answer(&workers[0], &pool, 1, true, POOL_TAKEN, "a free one");
    assert_answer(&workers[1], &pool, 1, true, POOL_FULL, "who waits");
    assert_answer(&workers[2], &pool, 1, true, POOL_FULL, "who waits behind it");
    pool_owner_clear(&instances[0].records[1].owner);
    pool_owner_clear(&instances[0].records[0].owner);
    assert_answer(&workers[2], &pool, 1, true, POOL_TAKEN, "who is alive");
}
END_TEST

/* --- a second lease of one worker --- */

static struct pool_lease beside;
static struct pool_state beside_states[POOLS_MAX];

static void assert_beside(struct worker *worker, const struct slot_pool *pool, enum pool_answer answer)
{
    enum pool_answer found = pools_take(&worker->pools, pool, 1, false, &beside, beside_states);
    ck_assert_msg(found == answer, "%s: beside: %d, expected %d", store_names[store], found, answer);
}

START_TEST(two_leases_of_a_worker_are_two_slots_each_given_back_by_itself)
{
    const struct slot_pool one = pool_of("tts:pool:1", 2), other = pool_of("tts:pool:2", 1);

    begin(_i);
    set_terms(600000, 600000);
    beside = (struct pool_lease){ .hold = 1 };
    assert_answer(&workers[0], &one, 1, false, POOL_TAKEN, "a free one");
    assert_beside(&workers[0], &one, POOL_TAKEN);
    ck_assert_uint_eq(beside_states[0].held, 1);
    assert_answer(&workers[1], &one, 1, false, POOL_FULL, "one worker has both");
    assert_beside(&workers[0], &other, POOL_TAKEN); /* instead of the one that it had */
    assert_answer(&workers[1], &one, 1, false, POOL_TAKEN, "the second is free again");
    assert_answer(&workers[2], &other, 1, false, POOL_FULL, "held by the one beside");
    leave(&workers[0]);
    assert_answer(&workers[3], &one, 1, false, POOL_TAKEN, "the first is free");
    assert_answer(&workers[2], &other, 1, false, POOL_FULL, "still held by the one beside");
    pools_renew(&workers[0].pools, &beside);
    pools_leave(&workers[0].pools, &beside);
    ck_assert_uint_eq(beside.hold, 1);
    assert_answer(&workers[2], &other, 1, false, POOL_TAKEN, "nobody's");
}
END_TEST

START_TEST(the_record_of_a_worker_that_died_with_two_leases_holds_neither)
{
    const struct slot_pool one = pool_of("tts:pool:1", 1), other = pool_of("tts:pool:2", 1);

    begin(IN_MAPPING);
    beside = (struct pool_lease){ .hold = 1 };
    assert_answer(&workers[0], &one, 1, false, POOL_TAKEN, "a free one");
    assert_beside(&workers[0], &other, POOL_TAKEN);
    pool_owner_clear(&instances[0].records[0].owner);
    assert_answer(&workers[1], &one, 1, false, POOL_TAKEN, "the first");
    assert_answer(&workers[2], &other, 1, false, POOL_TAKEN, "the one beside");
}
END_TEST

START_TEST(of_several_instances_one_queue_is_made_in_redis)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 2);

    begin(IN_REDIS);
    set_terms(600000, 600000);
    assert_answer(&workers[0], &pool, 1, true, POOL_TAKEN, "one");
    assert_answer(&others[0], &pool, 1, true, POOL_TAKEN, "the other's");
    assert_answer(&others[1], &pool, 1, true, POOL_FULL, "the other waits");
    assert_answer(&workers[1], &pool, 1, true, POOL_FULL, "one waits");
    leave(&workers[0]);
    assert_answer(&workers[1], &pool, 1, true, POOL_FULL, "the other was before it");
    assert_answer(&others[1], &pool, 1, true, POOL_TAKEN, "the other");
    ck_assert_uint_eq(count(&workers[0], &pool), 2);
    ck_assert_uint_eq(count(&others[0], &pool), 2);
}
END_TEST

/* --- ids --- */

START_TEST(pools_are_told_apart_by_all_of_their_ids)
{
    char first[900], second[900];
    struct slot_pool pools[6];

    begin(_i);
    memset(first, 'a', sizeof(first) - 1);
    first[sizeof(first) - 1] = '\0';
    strcpy(second, first);
    second[sizeof(second) - 2] = 'b';
    pools[0] = pool_of(first, 1);
    pools[1] = pool_of(second, 1);
    pools[2] = pool_of("tts:pool:model:[\"a b\",\"id\",\"\\u0000\"]", 1);
    pools[3] = pool_of("tts:pool:model:[\"a\",\"id\",\"b \\u0000\"]", 1);
    pools[4] = pool_of("tts:pool:%s %n\r\n*1\r\n", 1);
    pools[5] = pool_of("tts:pool:", 1);
    for (unsigned i = 0; i < 6; i++) {
        assert_answer(&workers[i], &pools[i], 1, false, POOL_TAKEN, "each is another");
        assert_answer(&others[i], &pools[i], 1, false, store == IN_REDIS ? POOL_FULL : POOL_TAKEN,
                      "the same");
    }
}
END_TEST

START_TEST(as_many_pools_as_one_may_ask_for_can_be_asked_for_by_the_longest_names)
{
    static char ids[POOLS_MAX][SHARED_POOL_ID_BYTES + 40];
    static struct slot_pool pools[POOLS_MAX];
    static char prefix[REDIS_PREFIX_MAX_BYTES + 1];

    memset(prefix, 'p', REDIS_PREFIX_MAX_BYTES);
    redis_prefix = prefix;
    begin(_i);
    for (unsigned i = 0; i < POOLS_MAX; i++) {
        memset(ids[i], 'x', sizeof(ids[i]) - 1);
        snprintf(ids[i] + 100, sizeof(ids[i]) - 100, "%u", i);
        ids[i][strlen(ids[i])] = 'y';
        pools[i] = pool_of(ids[i], POOL_CAPACITY_MAX);
    }
    for (unsigned i = 0; i < POOLS_MAX; i++) {
        assert_answer(&workers[i], pools, POOLS_MAX, true, POOL_TAKEN, "one of many");
        ck_assert_uint_eq(workers[i].lease.place, i);
        ck_assert(workers[i].lease.is_in_redis == (store == IN_REDIS));
    }
    for (unsigned i = 0; i < POOLS_MAX; i++)
        pools[i].capacity = 1;
    assert_answer(&others[0], pools, POOLS_MAX, true, store == IN_REDIS ? POOL_FULL : POOL_TAKEN,
                  "all of many");
    leave(&others[0]);
    for (unsigned i = 0; i < POOLS_MAX; i++)
        leave(&workers[i]);
    uint32_t held[POOLS_MAX];
    ck_assert(pools_count(&workers[0].pools, pools, POOLS_MAX, held));
    for (unsigned i = 0; i < POOLS_MAX; i++)
        ck_assert_uint_eq(held[i], 0);
}
END_TEST

/* --- what chance makes --- */

START_TEST(what_is_taken_is_what_the_states_say)
{
    static const char *const ids[] = { "tts:pool:1", "tts:pool:2", "tts:pool:3", "tts:pool:4" };
    struct slot_pool asked[WORKERS][4];
    unsigned chance = 12345;

    begin(_i);
    set_terms(600000, 600000);
    for (unsigned round = 0; round < 600; round++) {
        chance = chance * 1103515245 + 12345;
        unsigned at = (chance >> 16) % 12, n = 1 + (chance >> 8) % 4;
        struct worker *worker = &workers[at];
        if ((chance >> 20) % 3 == 0) {
            leave(worker);
            continue;
        }
        if (worker->lease.asked == NULL || worker->lease.is_taken) {
            leave(worker);
            for (unsigned i = 0; i < n; i++)
                asked[at][i] = pool_of(ids[(i + (chance >> 12)) % 4], (chance >> (13 + i)) % 4);
        } else {
            n = (unsigned)worker->lease.n; /* it asks for the same again */
        }
        if (round % 29 == 0)
            pools_mark_saturated(&worker->pools, &asked[at][0], 20);
        enum pool_answer answer = ask(worker, asked[at], n, (chance >> 24) % 4 != 0);
        size_t expected = pools_choose(asked[at], worker->states, n);
        ck_assert_msg((answer == POOL_TAKEN ? worker->lease.place : n) == expected,
                      "%s, round %u: %s, place %zu; expected: %zu of %u", store_names[_i], round,
                      answer_name(answer), worker->lease.place, expected, n);
    }
}
END_TEST

/* --- many at once --- */

enum { PROCESSES = 12, ROUNDS = 100, SLOTS = 3 };

static struct shared {
    _Atomic uint32_t held, most_held, taken, ready;
} * seen;

static void note_most(uint32_t held)
{
    uint32_t most = atomic_load(&seen->most_held);
    while (held > most && !atomic_compare_exchange_weak(&seen->most_held, &most, held))
        ;
}

static void take_and_leave(struct worker *worker, bool waits)
{
    const struct slot_pool pools[] = { pool_of("tts:pool:1", 1), pool_of("tts:pool:2", SLOTS - 1) };

    for (unsigned taken = 0; taken < ROUNDS;) {
        if (ask(worker, pools, 2, waits) != POOL_TAKEN) {
            usleep(1000);
            continue;
        }
        note_most(atomic_fetch_add(&seen->held, 1) + 1);
        atomic_fetch_add(&seen->taken, 1);
        if (taken++ % 16 == 0)
            usleep(500);
        atomic_fetch_sub(&seen->held, 1);
        leave(worker);
    }
}

static pid_t start(struct worker *worker, void (*work)(struct worker *worker, bool waits), bool waits)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (store == IN_REDIS)
        worker->pools.redis = open_client();
    work(worker, waits);
    _exit(0);
}

static void await_end(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "ended with %x", (unsigned)status);
}

START_TEST(of_many_processes_never_more_than_the_capacity_hold_a_slot)
{
    pid_t pids[PROCESSES];

    begin(_i);
    seen = share(sizeof(*seen));
    for (unsigned i = 0; i < PROCESSES; i++)
        pids[i] = start(&workers[i], take_and_leave, i % 2 == 0);
    for (unsigned i = 0; i < PROCESSES; i++)
        await_end(pids[i]);
    ck_assert_uint_eq(atomic_load(&seen->taken), PROCESSES * ROUNDS);
    ck_assert_uint_le(atomic_load(&seen->most_held), SLOTS);
}
END_TEST

/* Nothing is given out that Redis has not said: a machine that is slow to answer makes it no more. */
START_TEST(nor_of_several_instances_in_redis)
{
    pid_t pids[PROCESSES];

    begin(IN_REDIS);
    seen = share(sizeof(*seen));
    for (unsigned i = 0; i < PROCESSES; i++) {
        struct worker *worker = &instances[i % 2].workers[i];
        worker->pools.refuses_alone = true;
        pids[i] = start(worker, take_and_leave, i % 3 == 0);
    }
    for (unsigned i = 0; i < PROCESSES; i++)
        await_end(pids[i]);
    ck_assert_uint_eq(atomic_load(&seen->taken), PROCESSES * ROUNDS);
    ck_assert_uint_le(atomic_load(&seen->most_held), SLOTS);
}
END_TEST

static void take_and_hold(struct worker *worker, bool waits)
{
    const struct slot_pool pool = pool_of("tts:pool:1", SLOTS);

    if (ask(worker, &pool, 1, waits) == POOL_TAKEN)
        atomic_fetch_add(&seen->taken, 1);
    atomic_fetch_add(&seen->ready, 1);
    for (;;)
        pause();
}

START_TEST(slots_of_those_who_are_killed_come_back)
{
    const struct slot_pool pool = pool_of("tts:pool:1", SLOTS);
    pid_t pids[PROCESSES];

    begin(_i);
    set_terms(3000, 300);
    seen = share(sizeof(*seen));
    for (unsigned i = 0; i < PROCESSES; i++)
        pids[i] = start(&workers[i], take_and_hold, i % 2 == 0);
    while (atomic_load(&seen->ready) < PROCESSES)
        usleep(1000);
    ck_assert_uint_ge(atomic_load(&seen->taken), SLOTS);
    for (unsigned i = 0; i < PROCESSES; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
        pool_owner_clear(&instances[0].records[i].owner); /* as the master does */
    }
    for (unsigned i = 0; i < SLOTS; i++)
        await_slot(&workers[PROCESSES + i], &pool, 1, true);
}
END_TEST

static void lock_slots(void)
{
    shared_mutex_lock(&instances[0].shared->slots.mutex);
}

static void unlock_slots(void)
{
    shared_mutex_unlock(&instances[0].shared->slots.mutex);
}

START_TEST(while_one_is_stopped_at_work_slots_are_given_out_as_the_records_count_them)
{
    const struct slot_pool pool = pool_of("tts:pool:1", 2), saturated = pool_of("tts:pool:2", 2);

    begin(_i);
    set_terms(DEADLINE_S * 1000, DEADLINE_S * 1000);
    assert_answer(&workers[0], &pool, 1, false, POOL_TAKEN, "before");
    pools_mark_saturated(&workers[0].pools, &saturated, DEADLINE_S * 1000);
    pid_t stopped = stop_with(lock_slots, unlock_slots);
    assert_answer(&workers[1], &pool, 1, false, POOL_TAKEN, "meanwhile");
    for (unsigned i = 2; i < 12; i++)
        assert_answer(&workers[i], &pool, 1, i % 2 == 0, POOL_FULL, "beyond the capacity");
    assert_held(&pool, 2, "meanwhile");
    leave(&workers[0]);
    assert_held(&pool, 1, "given back meanwhile");
    pools_mark_saturated(&workers[0].pools, &saturated, 2 * DEADLINE_S * 1000);

    let_go_on(stopped);
    for (unsigned i = 2; i < 12; i++)
        leave(&workers[i]);
    assert_answer(&workers[0], &pool, 1, true, POOL_TAKEN, "afterwards");
    assert_answer(&workers[2], &pool, 1, true, POOL_FULL, "the first to wait");
    assert_answer(&workers[3], &pool, 1, true, POOL_FULL, "behind it");
    leave(&workers[1]);
    assert_answer(&workers[3], &pool, 1, true, POOL_FULL, "it is the other's");
    assert_answer(&workers[2], &pool, 1, true, POOL_TAKEN, "who came first");
    assert_answer(&workers[4], &saturated, 1, false, POOL_SATURATED, "the mark is there");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pools");
    TCase *tc = tcase_create("pools");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, NULL, end);
    tcase_add_loop_test(tc, a_slot_is_taken_within_the_capacity_and_refused_at_it_without_change, 0, STORES);
    tcase_add_loop_test(tc, what_is_taken_and_given_back_is_as_before, 0, STORES);
    tcase_add_loop_test(tc, leaving_twice_does_nothing_and_what_was_refused_leaves_nothing, 0, STORES);
    tcase_add_loop_test(tc, who_asks_again_gives_back_what_it_has, 0, STORES);
    tcase_add_loop_test(tc, fifty_over_five_pools_of_ten_are_ten_each, 0, STORES);
    tcase_add_loop_test(tc, slots_go_by_the_part_of_the_capacity_that_is_free, 0, STORES);
    tcase_add_loop_test(tc, one_without_limit_is_taken_where_it_stands_and_holds_nothing, 0, STORES);
    tcase_add_loop_test(tc, capacities_are_those_of_who_asks, 0, STORES);
    tcase_add_loop_test(tc, a_pool_that_is_asked_for_twice_is_one, 0, STORES);
    tcase_add_loop_test(tc, a_saturated_pool_is_passed_over_until_the_mark_lapses, 0, STORES);
    tcase_add_test(tc, more_marks_than_there_is_room_for_forget_the_one_that_ends_first);
    tcase_add_loop_test(tc, a_lease_that_nobody_renews_lapses, 0, STORES);
    tcase_add_loop_test(tc, one_that_is_renewed_never_lapses, 0, STORES);
    tcase_add_loop_test(tc, a_lapsed_lease_that_is_renewed_is_there_again, 0, STORES);
    tcase_add_loop_test(tc, who_waits_gets_slots_in_the_order_of_coming, 0, STORES);
    tcase_add_loop_test(tc, free_slots_beyond_those_who_wait_are_for_anybody, 0, STORES);
    tcase_add_loop_test(tc, who_leaves_the_queue_or_asks_without_waiting_is_in_nobodys_way, 0, STORES);
    tcase_add_loop_test(tc, who_ceases_to_ask_is_not_waited_for, 0, STORES);
    tcase_add_test(tc, a_dead_workers_record_that_is_freed_holds_nothing_and_waits_for_nothing);
    tcase_add_loop_test(tc, two_leases_of_a_worker_are_two_slots_each_given_back_by_itself, 0, STORES);
    tcase_add_test(tc, the_record_of_a_worker_that_died_with_two_leases_holds_neither);
    tcase_add_test(tc, of_several_instances_one_queue_is_made_in_redis);
    tcase_add_loop_test(tc, pools_are_told_apart_by_all_of_their_ids, 0, STORES);
    tcase_add_loop_test(tc, as_many_pools_as_one_may_ask_for_can_be_asked_for_by_the_longest_names, 0,
                        STORES);
    tcase_add_loop_test(tc, what_is_taken_is_what_the_states_say, 0, STORES);
    tcase_add_loop_test(tc, of_many_processes_never_more_than_the_capacity_hold_a_slot, 0, STORES);
    tcase_add_test(tc, nor_of_several_instances_in_redis);
    tcase_add_loop_test(tc, slots_of_those_who_are_killed_come_back, 0, STORES);
    tcase_add_loop_test(tc, while_one_is_stopped_at_work_slots_are_given_out_as_the_records_count_them, 0,
                        STORES);
    suite_add_tcase(suite, tc);
    TCase *pure = tcase_create("choice");
    tcase_add_loop_test(pure, the_roomiest_is_chosen, 0, COUNT(choices));
    suite_add_tcase(suite, pure);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
