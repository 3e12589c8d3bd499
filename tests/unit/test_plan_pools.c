/* The stages of pools: which upstream comes first by the room that its pool has, and which are skipped. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/pool_slots.h"
#include "core/config/entry.h"
#include "core/route/plan.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CIPHERTEXT "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw"
#define KEY(id) "{\"id\":\"" id "\",\"ciphertext\":\"" CIPHERTEXT "\"}"
#define UPSTREAM(id, keys) "{\"id\":\"" id "\",\"baseURL\":\"https://" id ".example/v1\",\"keys\":[" keys "]}"

enum { UPSTREAMS = 5, TEXT_BYTES = 128 };

/* Five upstreams, of which the second has two keys and the fourth three. */
static const char document[] =
    "{\"llm\":{\"models\":{\"m\":{\"upstreams\":[" UPSTREAM("a", KEY("a1")) "," UPSTREAM(
        "b", KEY("b1") "," KEY(
                 "b2")) "," UPSTREAM("c", KEY("c1")) "," UPSTREAM("d",
                                                                  KEY("d1") "," KEY("d2") "," KEY(
                                                                      "d3")) "," UPSTREAM("e",
                                                                                          KEY("e1")) "]}}}}";

static struct arena *arena;
static const struct snap_root *root;

static void set_up(void)
{
    struct entry_value values[ENTRY_COUNT] = { { .version = NULL } };
    struct entry_faults faults = { 0 };
    enum entry_id which;
    size_t undecryptable;
    struct span image;
    arena = arena_new();
    values[ENTRY_LLM_ROUTER_CONFIG] = (struct entry_value){ span_cstr(document), "v" };
    int r = entry_compile(values, 1, NULL, arena, &image, &undecryptable, &which, &faults);
    ck_assert_msg(r == 0, "%s: %s", faults.count > 0 ? faults.items[0].path : "",
                  faults.count > 0 ? faults.items[0].message : "");
    root = (const void *)image.ptr;
}

static void tear_down(void)
{
    arena_free(arena);
}

static struct plan plan_of(const struct standing standings[UPSTREAMS])
{
    const struct plan_facts facts = { .root = root, .model = snapshot_model(root, span_cstr("m")) };
    struct plan plan;
    plan_make(&facts, arena, &plan);
    plan_rank(standings, arena, &plan);
    return plan;
}

/* "a1 b1 b2 | c: pool_saturated" */
static const char *text_of(const struct plan *plan)
{
    static char text[TEXT_BYTES];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < plan->count; i++)
        n += (size_t)snprintf(text + n, TEXT_BYTES - n, "%s%s", i > 0 ? " " : "",
                              snap_cstr(root, plan->items[i].key->id));
    for (size_t i = 0; i < plan->n_skips; i++)
        n += (size_t)snprintf(text + n, TEXT_BYTES - n, " | %s: %s",
                              snap_cstr(root, plan->skips[i].upstream->id),
                              skip_reason_name(plan->skips[i].reason));
    ck_assert_uint_lt(n, TEXT_BYTES);
    return text;
}

#define FREE                              \
    {                                     \
        .capacity = 0, .room = UINT32_MAX \
    }
#define SLOTS(room_of, capacity_of)                  \
    {                                                \
        .capacity = (capacity_of), .room = (room_of) \
    }
#define SATURATED(capacity_of)                          \
    {                                                   \
        .capacity = (capacity_of), .is_saturated = true \
    }

static const struct {
    struct standing standings[UPSTREAMS];
    const char *expected;
} rows[] = {
    { { SLOTS(10, 10), SLOTS(10, 10), SLOTS(10, 10), SLOTS(10, 10), SLOTS(10, 10) },
      "a1 b1 b2 c1 d1 d2 d3 e1" },
    /* the largest part, not the largest number */
    { { SLOTS(50, 100), SLOTS(9, 10), SLOTS(3, 4), SLOTS(1, 1), SLOTS(6, 10) }, "d1 d2 d3 b1 b2 c1 e1 a1" },
    /* equals as the document has them */
    { { SLOTS(1, 2), SLOTS(5, 10), SLOTS(6, 10), SLOTS(50, 100), SLOTS(3, 5) }, "c1 e1 a1 b1 b2 d1 d2 d3" },
    /* one without limit stays where it stands */
    { { SLOTS(1, 10), FREE, SLOTS(5, 10), FREE, SLOTS(9, 10) }, "e1 b1 b2 c1 d1 d2 d3 a1" },
    { { FREE, SLOTS(10, 10), SLOTS(10, 10), FREE, FREE }, "a1 b1 b2 c1 d1 d2 d3 e1" },
    /* a full one is passed over, and asked again at the end */
    { { SLOTS(0, 10), SLOTS(1, 10), SLOTS(0, 1), SLOTS(2, 10), FREE }, "d1 d2 d3 b1 b2 e1 a1 c1" },
    { { SLOTS(0, 10), FREE, FREE, FREE, FREE }, "b1 b2 c1 d1 d2 d3 e1 a1" },
    { { SLOTS(0, 1), SLOTS(0, 1), SLOTS(0, 1), SLOTS(0, 1), SLOTS(0, 1) }, "a1 b1 b2 c1 d1 d2 d3 e1" },
    /* a saturated one is skipped, also without limit */
    { { SATURATED(10), SLOTS(1, 10), SATURATED(0), SLOTS(2, 10), FREE },
      "d1 d2 d3 b1 b2 e1 | c: pool_saturated | a: pool_saturated" },
    { { SATURATED(1), SATURATED(1), SATURATED(1), SATURATED(1), SATURATED(0) },
      " | a: pool_saturated | b: pool_saturated | c: pool_saturated | d: pool_saturated | e: "
      "pool_saturated" },
};

START_TEST(the_roomiest_comes_first_full_ones_last_and_saturated_ones_not_at_all)
{
    struct plan plan = plan_of(rows[_i].standings);
    ck_assert_msg(strcmp(text_of(&plan), rows[_i].expected) == 0, "row %d: %s, expected %s", _i,
                  text_of(&plan), rows[_i].expected);
}
END_TEST

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Few values of each, so that there are equals, full and saturated ones. */
static void random_pools(uint32_t *state, struct slot_pool pools[UPSTREAMS],
                         struct pool_state states[UPSTREAMS])
{
    for (size_t i = 0; i < UPSTREAMS; i++) {
        uint32_t capacity = next_random(state) % 4 == 0 ? 0 : next_random(state) % 6;
        pools[i] = (struct slot_pool){ .hash = i + 1, .capacity = capacity };
        states[i] = (struct pool_state){ .saturated_ms = next_random(state) % 5 == 0 ? 700 : 0 };
        if (capacity > 0) {
            states[i].held = next_random(state) % (capacity + 2); /* it may have been lowered */
            states[i].ahead = next_random(state) % 3;
        }
    }
}

/* Of each upstream: its keys together and in order, and once, in the plan or among the skipped. */
static void check_whole(const struct plan *plan, const char *text)
{
    unsigned keys[UPSTREAMS] = { 0 }, total = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct candidate *c = &plan->items[i];
        bool is_first = i == 0 || plan->items[i - 1].upstream != c->upstream;
        unsigned place = keys[c->upstream_index]++;
        ck_assert_msg(is_first == (place == 0), "%s: an upstream's keys are apart", text);
        ck_assert_msg(SNAP_ITEM(root, c->upstream->keys, struct snap_key, place) == c->key,
                      "%s: its keys are out of order", text);
    }
    for (size_t i = 0; i < UPSTREAMS; i++)
        total += keys[i] > 0;
    ck_assert_msg(total + plan->n_skips == UPSTREAMS, "%s: an upstream is lost", text);
}

START_TEST(the_first_of_any_plan_is_the_one_whose_slot_is_taken)
{
    struct slot_pool pools[UPSTREAMS];
    struct pool_state states[UPSTREAMS];
    uint32_t state = UINT32_C(20261130);

    for (int round = 0; round < 20000; round++) {
        struct standing standings[UPSTREAMS] = { { .capacity = 0 } };
        random_pools(&state, pools, states);
        for (size_t i = 0; i < UPSTREAMS; i++)
            standings[i] = (struct standing){ .capacity = pools[i].capacity,
                                              .room = pool_room(&pools[i], &states[i]),
                                              .is_saturated = states[i].saturated_ms > 0 };
        struct plan plan = plan_of(standings);
        const char *text = text_of(&plan);
        size_t taken = pools_choose(pools, states, UPSTREAMS);
        check_whole(&plan, text);
        if (taken < UPSTREAMS)
            ck_assert_msg(plan.count > 0 && plan.items[0].upstream_index == taken,
                          "round %d: %s, and the slot is of upstream %zu", round, text, taken);
        else
            for (size_t i = 0; i < plan.count; i++)
                ck_assert_uint_eq(standings[plan.items[i].upstream_index].room, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan_pools");
    TCase *tcase = tcase_create("stages");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, the_roomiest_comes_first_full_ones_last_and_saturated_ones_not_at_all, 0,
                        (int)COUNT(rows));
    tcase_add_test(tcase, the_first_of_any_plan_is_the_one_whose_slot_is_taken);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
