/* The plan: which candidates a model has, in which order. */
#include <check.h>
#include <stdlib.h>

#include "core/config/entry.h"
#include "core/route/plan.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CIPHERTEXT "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw"
#define KEY(id) "{\"id\":\"" id "\",\"ciphertext\":\"" CIPHERTEXT "\"}"
#define UPSTREAM(id, keys) "{\"id\":\"" id "\",\"baseURL\":\"https://" id ".example/v1\",\"keys\":[" keys "]}"

static const char document[] =
    "{\"llm\":{\"models\":{"
    "\"many\":{\"upstreams\":[" UPSTREAM("z", KEY("9") "," KEY("1")) "," UPSTREAM("a", KEY("5")) "," UPSTREAM(
        "m", KEY("3") "," KEY("2") "," KEY("1")) "]},"
                                                 "\"one\":{\"upstreams\":[" UPSTREAM("only",
                                                                                     KEY("k")) "]}}}}";

static const struct {
    const char *model;
    size_t count;
    struct {
        unsigned upstream_index;
        const char *upstream, *key;
    } candidates[6];
} plans[] = {
    { "many",
      6,
      { { 0, "z", "9" },
        { 0, "z", "1" },
        { 1, "a", "5" },
        { 2, "m", "3" },
        { 2, "m", "2" },
        { 2, "m", "1" } } },
    { "one", 1, { { 0, "only", "k" } } },
};

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

static struct plan plan_of(const char *model)
{
    const struct plan_facts facts = { .root = root, .model = snapshot_model(root, span_cstr(model)) };
    struct plan plan;
    ck_assert_ptr_nonnull(facts.model);
    plan_make(&facts, arena, &plan);
    return plan;
}

START_TEST(unconfigured_the_plan_is_every_key_of_every_upstream_in_the_documents_order)
{
    struct plan plan = plan_of(plans[_i].model);
    ck_assert_uint_eq(plan.count, plans[_i].count);
    for (size_t i = 0; i < plan.count; i++) {
        const struct candidate *c = &plan.items[i];
        ck_assert_str_eq(snap_cstr(root, c->upstream->id), plans[_i].candidates[i].upstream);
        ck_assert_str_eq(snap_cstr(root, c->key->id), plans[_i].candidates[i].key);
        ck_assert_uint_eq(c->upstream_index, plans[_i].candidates[i].upstream_index);
        ck_assert(!c->is_passed && !c->is_tried);
    }
}
END_TEST

/* The loop marks candidates: what one request did must not be seen by the next. */
START_TEST(a_plan_is_made_anew_for_each_request)
{
    struct plan first = plan_of("many");
    for (size_t i = 0; i < first.count; i++)
        first.items[i].is_passed = first.items[i].is_tried = true;
    struct plan second = plan_of("many");
    for (size_t i = 0; i < second.count; i++)
        ck_assert(!second.items[i].is_passed && !second.items[i].is_tried);
}
END_TEST

static unsigned questions;

static bool serves_unless_named(void *ctx, const struct snap_upstream *upstream)
{
    questions++;
    return strcmp(snap_cstr(root, upstream->id), ctx) != 0;
}

START_TEST(an_upstream_that_cannot_serve_is_left_out_with_all_its_keys)
{
    static char z[] = "z", only[] = "only";
    struct plan_facts facts = {
        .root = root,
        .model = snapshot_model(root, span_cstr("many")),
        .can_serve = serves_unless_named,
        .ctx = z,
    };
    struct plan plan;

    questions = 0;
    plan_make(&facts, arena, &plan);
    ck_assert_uint_eq(plan.count, 4);
    ck_assert_str_eq(snap_cstr(root, plan.items[0].upstream->id), "a");
    ck_assert_uint_eq(plan.items[0].upstream_index, 1);
    ck_assert_msg(questions == 3, "%u questions for 3 upstreams", questions);

    facts.model = snapshot_model(root, span_cstr("one"));
    facts.ctx = only;
    plan_make(&facts, arena, &plan);
    ck_assert_uint_eq(plan.count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tcase = tcase_create("stages");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, unconfigured_the_plan_is_every_key_of_every_upstream_in_the_documents_order, 0,
                        (int)COUNT(plans));
    tcase_add_test(tcase, a_plan_is_made_anew_for_each_request);
    tcase_add_test(tcase, an_upstream_that_cannot_serve_is_left_out_with_all_its_keys);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
