/* The attempt loop over scripted attempts and a scripted clock: who is asked, in which order, and what the
 * caller is told. */
#include "tests/unit/loop_script.h"

/* --- chains that end in an answer, a refusal or a departure --- */

static const struct {
    const char *model, *triggers, *script, *tried;
    enum loop_end end;
    const char *refusal; /* whose key's is passed through */
} ends[] = {
    { "three", NULL, "ok", "a1", LOOP_ANSWERED, NULL },
    /* the seeds' examples */
    { "three", NULL, "rate ok", "a1 a2", LOOP_ANSWERED, NULL },
    { "three", NULL, "auth ok", "a1 a2", LOOP_ANSWERED, NULL },
    { "three", NULL, "auth auth ok", "a1 a2 b1", LOOP_ANSWERED, NULL },
    { "three", NULL, "server timeout refused reset ok", "a1 a2 b1 b2 c1", LOOP_ANSWERED, NULL },
    { "three", NULL, "quota quota403 quota429 rate ok", "a1 a2 b1 b2 c1", LOOP_ANSWERED, NULL },
    { "three", NULL, "auth400 auth200 rate200 empty ok", "a1 a2 b1 b2 c1", LOOP_ANSWERED, NULL },
    { "three", NULL, "timeout504 timeout408 server529 ok", "a1 a2 b1 b2", LOOP_ANSWERED, NULL },
    /* what is wrong with an upstream is wrong with its other keys */
    { "three", NULL, "config404 ok", "a1 b1", LOOP_ANSWERED, NULL },
    { "three", NULL, "config302 config404 ok", "a1 b1 c1", LOOP_ANSWERED, NULL },
    { "three", NULL, "auth config404 ok", "a1 a2 b1", LOOP_ANSWERED, NULL },
    { "three", NULL, "config403 ok", "a1 b1", LOOP_ANSWERED, NULL },
    { "three", NULL, "grant403 ok", "a1 a2", LOOP_ANSWERED, NULL }, /* another key may have the grant */
    /* nothing follows what the caller has seen, or left */
    { "three", NULL, "cut", "a1", LOOP_ANSWERED, NULL },
    { "three", NULL, "auth cut", "a1 a2", LOOP_ANSWERED, NULL },
    { "three", NULL, "cancelled", "a1", LOOP_CANCELLED, NULL },
    { "three", NULL, "server left", "a1 a2", LOOP_CANCELLED, NULL },
    /* the caller's mistake ends it */
    { "three", NULL, "client400", "a1", LOOP_REFUSED, "a1" },
    { "three", NULL, "client413", "a1", LOOP_REFUSED, "a1" },
    { "three", NULL, "client200", "a1", LOOP_REFUSED, "a1" },
    { "three", NULL, "auth client400", "a1 a2", LOOP_REFUSED, "a2" },
    { "three", "{\"httpCodes\":[]}", "client403", "a1", LOOP_REFUSED, "a1" },
    /* an unproven one is asked of one further candidate, best of another provider */
    { "three", NULL, "unproven400 ok", "a1 c1", LOOP_ANSWERED, NULL },
    { "three", NULL, "unproven422 unproven400", "a1 c1", LOOP_REFUSED, "a1" },
    { "three", NULL, "unproven400 client400", "a1 c1", LOOP_REFUSED, "a1" },
    { "three", NULL, "auth auth unproven400 unproven422", "a1 a2 b1 c1", LOOP_REFUSED, "b1" },
    { "three", NULL, "unproven400 auth unproven422", "a1 c1 b1", LOOP_REFUSED, "a1" },
    { "three", NULL, "unproven400 server config404 ok", "a1 c1 b1 a2", LOOP_ANSWERED, NULL },
    { "two", NULL, "unproven400 ok", "t1 t2", LOOP_ANSWERED, NULL },
    { "two", NULL, "unproven400 unproven400", "t1 t2", LOOP_REFUSED, "t1" },
    { "two", NULL, "auth unproven400", "t1 t2", LOOP_REFUSED, "t2" },
    { "one", NULL, "unproven400", "o1", LOOP_REFUSED, "o1" },
    /* a status that is listed moves on, whatever it means */
    { "three", "{\"httpCodes\":[400]}", "client400 ok", "a1 c1", LOOP_ANSWERED, NULL },
    { "three", "{\"httpCodes\":[418]}", "other418 ok", "a1 a2", LOOP_ANSWERED, NULL },
    { "three", "{\"httpCodes\":[413]}", "client413 client413", "a1 c1", LOOP_REFUSED, "a1" },
    /* besides the listed ones: other 5xx, 3xx, 404, 408, timeouts, broken connections, signatures in a 400 or
       200 */
    { "three", "{\"httpCodes\":[]}", "server529 timeout504 refused timeout ok", "a1 a2 b1 b2 c1",
      LOOP_ANSWERED, NULL },
    { "three", "{\"httpCodes\":[]}", "config404 auth400 empty ok", "a1 b1 b2 c1", LOOP_ANSWERED, NULL },
};

START_TEST(candidates_are_asked_in_order_until_one_answers_or_refuses)
{
    struct plan_facts facts = facts_of(ends[_i].model, ends[_i].triggers);
    struct script script = { .rest = ends[_i].script };
    struct loop_result result = run(&facts, &script);
    ck_assert_msg(strcmp(script.tried, ends[_i].tried) == 0, "%s: tried %s, expected %s", ends[_i].script,
                  script.tried, ends[_i].tried);
    ck_assert_msg(result.end == ends[_i].end, "%s: end %d", ends[_i].script, result.end);
    ck_assert_str_eq(script.rest, "");
    ck_assert_uint_eq(result.attempts, script.calls);
    if (ends[_i].refusal != NULL)
        ck_assert_msg(span_is(result.refusal.refusal_body, ends[_i].refusal), "%s: the refusal of %.*s",
                      ends[_i].script, (int)result.refusal.refusal_body.len, result.refusal.refusal_body.ptr);
}
END_TEST

/* --- chains that fail --- */

static const struct {
    const char *model, *triggers, *script;
    int status;
    unsigned tried_keys, tried_upstreams;
    const char *last_status;
    unsigned retry_after_s;
    bool no_retry;
} failures[] = {
    /* every row of the verdict table, as the last of a chain */
    { "one", NULL, "auth", 502, 1, 1, "401", 0, true },
    { "one", NULL, "auth400", 502, 1, 1, "400", 0, true },
    { "one", NULL, "auth200", 502, 1, 1, "invalid", 0, true },
    { "one", NULL, "quota", 502, 1, 1, "402", 0, true },
    { "one", NULL, "quota403", 502, 1, 1, "403", 0, true },
    { "one", NULL, "quota429", 502, 1, 1, "429", 0, true },
    { "one", NULL, "rate", 503, 1, 1, "429", 1, false },
    { "one", NULL, "rate9", 503, 1, 1, "429", 9, false },
    { "one", NULL, "rate200", 503, 1, 1, "invalid", 1, false },
    { "one", NULL, "server", 502, 1, 1, "500", 0, false },
    { "one", NULL, "server529", 502, 1, 1, "529", 0, false },
    { "one", NULL, "empty", 502, 1, 1, "invalid", 0, false },
    { "one", NULL, "timeout", 504, 1, 1, "timeout", 0, false },
    { "one", NULL, "timeout504", 504, 1, 1, "504", 0, false },
    { "one", NULL, "refused", 502, 1, 1, "connect", 0, false },
    { "one", NULL, "reset", 504, 1, 1, "reset", 0, false },
    { "one", NULL, "config404", 502, 1, 1, "404", 0, true },
    { "one", NULL, "config302", 502, 1, 1, "302", 0, true },
    { "one", NULL, "other418", 502, 1, 1, "418", 0, false },
    /* all keys dead: never the upstream's own 401 */
    { "three", NULL, "auth auth auth auth auth", 502, 5, 3, "401", 0, true },
    { "three", NULL, "auth auth config404 quota", 502, 4, 3, "402", 0, true },
    { "three", NULL, "config404 config404 config404", 502, 3, 3, "404", 0, true },
    /* the last attempt decides */
    { "three", NULL, "rate rate rate rate server", 502, 5, 3, "500", 0, false },
    { "three", NULL, "server server timeout timeout rate", 503, 5, 3, "429", 1, false },
    { "three", NULL, "server server server server timeout", 504, 5, 3, "timeout", 0, false },
    { "three", NULL, "timeout timeout timeout timeout auth", 502, 5, 3, "401", 0, false },
    { "three", NULL, "auth auth auth auth refused", 502, 5, 3, "connect", 0, false },
    /* the smallest hint of the whole request */
    { "three", NULL, "rate9 rate rate3 rate rate9", 503, 5, 3, "429", 3, false },
    { "three", NULL, "rate9 server529 rate3 rate rate", 503, 5, 3, "429", 2, false },
    { "three", NULL, "rate9 rate3 rate rate server", 502, 5, 3, "500", 0, false },
    /* a refusal, and nobody else who could say more */
    { "three", NULL, "unproven400 auth auth auth auth", 502, 5, 3, "401", 0, false },
    { "two", NULL, "unproven400 server", 502, 2, 1, "500", 0, false },
    /* the list of statuses has the last word on these */
    { "three", "{\"httpCodes\":[500]}", "auth", 502, 1, 1, "401", 0, true },
    { "three", "{\"httpCodes\":[401]}", "auth quota", 502, 2, 1, "402", 0, true },
    { "three", "{\"httpCodes\":[401,402]}", "auth quota rate", 503, 3, 2, "429", 1, false },
    { "three", "{\"httpCodes\":[429]}", "rate quota429 grant403", 502, 3, 2, "403", 0, false },
    { "three", NULL, "other418", 502, 1, 1, "418", 0, false },
    { "three", NULL, "auth other418", 502, 2, 1, "418", 0, false },
    /* a timeout that may not move on */
    { "three", "{\"onTimeout\":false}", "timeout", 504, 1, 1, "timeout", 0, false },
    { "three", "{\"onTimeout\":false}", "server timeout", 504, 2, 1, "timeout", 0, false },
    { "three", "{\"onTimeout\":false}", "timeout504 reset timeout", 504, 3, 2, "timeout", 0, false },
};

static void check_failure(const struct loop_result *result, int row)
{
    const struct failure *f = &result->failure;
    const char *script = failures[row].script;
    ck_assert_msg(result->end == LOOP_FAILED, "%s: end %d", script, result->end);
    ck_assert_msg(failure_status(f, ERROR_FORM_OPENAI) == failures[row].status, "%s: %d, expected %d", script,
                  failure_status(f, ERROR_FORM_OPENAI), failures[row].status);
    ck_assert_msg(f->has_attempts && f->tried_keys == failures[row].tried_keys &&
                      f->tried_upstreams == failures[row].tried_upstreams,
                  "%s: %u keys of %u upstreams", script, f->tried_keys, f->tried_upstreams);
    ck_assert_msg(strcmp(f->last_status, failures[row].last_status) == 0, "%s: last status %s", script,
                  f->last_status);
    ck_assert_msg(f->retry_after_s == failures[row].retry_after_s, "%s: Retry-After %u", script,
                  f->retry_after_s);
    ck_assert_msg(f->no_retry == failures[row].no_retry, "%s: no_retry %d", script, f->no_retry);
}

START_TEST(a_chain_that_fails_says_how_its_last_attempt_did_and_how_much_was_tried)
{
    struct plan_facts facts = facts_of(failures[_i].model, failures[_i].triggers);
    struct script script = { .rest = failures[_i].script };
    struct loop_result result = run(&facts, &script);
    ck_assert_msg(*script.rest == '\0', "%s: %s was not asked for after %s", failures[_i].script, script.rest,
                  script.tried);
    check_failure(&result, _i);
    ck_assert_uint_eq(result.attempts, script.calls);
}
END_TEST

START_TEST(a_key_that_cannot_be_decrypted_ends_the_chain_and_is_no_attempt)
{
    struct plan_facts facts = facts_of("three", NULL);
    struct script script = { .rest = "auth lost_key" };
    struct loop_result result = run(&facts, &script);
    ck_assert_int_eq(result.end, LOOP_FAILED);
    ck_assert_int_eq(result.failure.kind, FAILURE_DECRYPT_FAILED);
    ck_assert(!result.failure.has_attempts);
    ck_assert(result.failure.no_retry);
    ck_assert_uint_eq(result.attempts, 1);
    ck_assert_str_eq(script.tried, "a1 a2");
}
END_TEST

/* --- upstreams that have no slot --- */

static const struct {
    const char *model, *refused, *script, *tried, *asked;
    enum loop_end end;
    enum failure_kind failure; /* LOOP_FAILED */
    bool is_exhausted;
} slots[] = {
    { "three", "", "ok", "a1", "A", LOOP_ANSWERED, 0, false },
    { "three", "A", "ok", "b1", "AB", LOOP_ANSWERED, 0, false },
    { "three", "AB", "ok", "c1", "ABC", LOOP_ANSWERED, 0, false },
    { "three", "ABC", "", "", "ABC", LOOP_FAILED, FAILURE_ALL_SKIPPED, false },
    /* asked before each attempt, and passed over with all keys */
    { "three", "B", "auth server ok", "a1 a2 c1", "AABC", LOOP_ANSWERED, 0, false },
    /* what was tried last decides, not what was skipped after it */
    { "three", "C", "auth auth server server", "a1 a2 b1 b2", "AABBC", LOOP_FAILED,
      FAILURE_UPSTREAM_UNAVAILABLE, false },
    { "three", "BC", "rate rate9", "a1 a2", "AABC", LOOP_FAILED, FAILURE_UPSTREAM_RATE_LIMITED, false },
    { "three", "", "auth auth server server server", "a1 a2 b1 b2 c1", "AABBC", LOOP_FAILED,
      FAILURE_UPSTREAM_UNAVAILABLE, true },
    { "two", "T", "", "", "T", LOOP_FAILED, FAILURE_ALL_SKIPPED, false },
    /* the second opinion on a refusal is asked of one that has a slot */
    { "three", "C", "unproven400 ok", "a1 b1", "ACB", LOOP_ANSWERED, 0, false },
    { "three", "CB", "unproven400 ok", "a1 a2", "ACBA", LOOP_ANSWERED, 0, false },
    { "three", "CB", "unproven400 unproven422", "a1 a2", "ACBA", LOOP_REFUSED, 0, false },
    { "three", "A", "unproven400 ok", "b1 c1", "ABC", LOOP_ANSWERED, 0, false },
};

START_TEST(an_upstream_without_a_slot_is_passed_over_and_that_is_no_attempt)
{
    struct plan_facts facts = facts_of(slots[_i].model, NULL);
    struct script script = { .rest = slots[_i].script, .refused = slots[_i].refused };
    struct loop_result result = run(&facts, &script);
    ck_assert_msg(strcmp(script.tried, slots[_i].tried) == 0, "without %s, %s: tried %s, expected %s",
                  slots[_i].refused, slots[_i].script, script.tried, slots[_i].tried);
    ck_assert_msg(strcmp(script.asked, slots[_i].asked) == 0, "without %s, %s: asked for %s, expected %s",
                  slots[_i].refused, slots[_i].script, script.asked, slots[_i].asked);
    ck_assert_str_eq(script.rest, "");
    ck_assert_int_eq(result.end, slots[_i].end);
    ck_assert_uint_eq(result.attempts, script.calls);
    ck_assert_int_eq(result.is_exhausted, slots[_i].is_exhausted);
    if (result.end == LOOP_FAILED)
        ck_assert_int_eq(result.failure.kind, slots[_i].failure);
    if (result.end == LOOP_FAILED && result.failure.has_attempts)
        ck_assert_uint_eq(result.failure.tried_keys, script.calls);
    if (result.end == LOOP_FAILED && result.failure.kind == FAILURE_ALL_SKIPPED)
        ck_assert(!result.failure.has_attempts && result.failure.retry_after_s == 1);
}
END_TEST

START_TEST(no_slot_is_asked_for_when_the_chains_time_is_up)
{
    struct plan_facts facts = facts_of("three", NULL);
    struct script script = { .rest = "server", .attempt_us = DEADLINE_US, .refused = "" };
    struct loop_result result = run(&facts, &script);
    ck_assert_str_eq(script.asked, "A");
    ck_assert_int_eq(result.failure.kind, FAILURE_UPSTREAM_TIMEOUT);
}
END_TEST

START_TEST(a_lost_key_ends_the_chain_also_behind_upstreams_without_a_slot)
{
    struct plan_facts facts = facts_of("three", NULL);
    struct script script = { .rest = "lost_key", .refused = "A" };
    struct loop_result result = run(&facts, &script);
    ck_assert_str_eq(script.asked, "AB");
    ck_assert_int_eq(result.failure.kind, FAILURE_DECRYPT_FAILED);
}
END_TEST

/* --- the chain's deadline --- */

START_TEST(the_chains_deadline_is_asked_before_every_attempt)
{
    struct plan_facts facts = facts_of("three", NULL);
    struct script script = { .rest = "server server", .attempt_us = DEADLINE_US / 2 };
    struct loop_result result = run(&facts, &script);
    ck_assert_str_eq(script.tried, "a1 a2");
    ck_assert_int_eq(result.end, LOOP_FAILED);
    ck_assert_int_eq(result.failure.kind, FAILURE_UPSTREAM_TIMEOUT);
    ck_assert_str_eq(result.failure.last_status, "timeout");
    ck_assert_uint_eq(result.failure.tried_keys, 2);
    ck_assert_uint_eq(result.failure.tried_upstreams, 1);
    ck_assert(!result.failure.no_retry);
    ck_assert_int_eq(result.last.verdict, VERDICT_TIMEOUT);
}
END_TEST

START_TEST(a_microsecond_before_the_deadline_there_is_time_for_an_attempt)
{
    struct plan_facts facts = facts_of("three", NULL);
    struct script script = { .rest = "server ok", .attempt_us = DEADLINE_US - 1 };
    struct loop_result result = run(&facts, &script);
    ck_assert_str_eq(script.tried, "a1 a2");
    ck_assert_int_eq(result.end, LOOP_ANSWERED);
}
END_TEST

START_TEST(a_deadline_that_has_passed_already_leaves_no_attempt)
{
    struct plan_facts facts = facts_of("three", NULL);
    struct script script = { .rest = "", .now_us = DEADLINE_US };
    struct loop_result result = run(&facts, &script);
    ck_assert_int_eq(result.end, LOOP_FAILED);
    ck_assert_int_eq(result.failure.kind, FAILURE_UPSTREAM_TIMEOUT);
    ck_assert_uint_eq(result.failure.tried_keys, 0);
    ck_assert_uint_eq(result.failure.tried_upstreams, 0);
    ck_assert_uint_eq(result.attempts, 0);
}
END_TEST

START_TEST(a_late_answer_is_an_answer)
{
    struct plan_facts facts = facts_of("three", NULL);
    struct script script = { .rest = "ok", .attempt_us = 10 * DEADLINE_US };
    ck_assert_int_eq(run(&facts, &script).end, LOOP_ANSWERED);
}
END_TEST

/* --- any chain --- */

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Random outcomes, one for each candidate that could be asked. */
static const char *random_script(uint32_t *state)
{
    char *text = arena_alloc(arena, 256);
    size_t n = 0;
    for (int i = 0; i < 5; i++)
        n += (size_t)snprintf(text + n, 256 - n, "%s%s", i > 0 ? " " : "",
                              outcomes[next_random(state) % COUNT(outcomes)].name);
    return text;
}

static void check_any_chain(const struct plan_facts *facts, const char *outcomes_text)
{
    struct script script = { .rest = outcomes_text };
    struct loop_result result = run(facts, &script);
    unsigned upstreams = 0, refusals = 0, lost = 0;
    const char *word = outcomes_text;

    for (unsigned i = 0; i < script.calls; i++, word += strcspn(word, " ") + 1) {
        const struct candidate *c = script.candidates[i];
        const struct attempt_outcome *outcome = outcome_named(span_of(word, strcspn(word, " ")));
        bool is_new = true, is_last = i + 1 == script.calls;
        for (unsigned j = 0; j < i; j++) {
            ck_assert_msg(script.candidates[j]->key != c->key, "%s: tried twice in %s", outcomes_text,
                          script.tried);
            is_new = is_new && script.candidates[j]->upstream != c->upstream;
            if (refusals == 0)
                ck_assert_msg(script.candidates[j] < c, "%s: out of order: %s", outcomes_text, script.tried);
        }
        upstreams += is_new && !outcome->is_undecryptable;
        lost += outcome->is_undecryptable;
        refusals += outcome->verdict == VERDICT_CLIENT;
        if (outcome->is_committed || outcome->is_undecryptable || outcome->verdict == VERDICT_CANCELLED)
            ck_assert_msg(is_last, "%s: went on after the end: %s", outcomes_text, script.tried);
        else if (outcome->verdict != VERDICT_CLIENT && !loop_moves_on(facts, outcome))
            ck_assert_msg(is_last, "%s: moved on where it may not: %s", outcomes_text, script.tried);
    }
    ck_assert_uint_ge(script.calls, 1);
    ck_assert_uint_le(refusals, 2);
    ck_assert_uint_eq(result.attempts, script.calls - lost);
    if (result.end == LOOP_FAILED && result.failure.has_attempts) {
        ck_assert_uint_eq(result.failure.tried_keys, script.calls);
        ck_assert_uint_eq(result.failure.tried_upstreams, upstreams);
        ck_assert_int_ne(result.last.verdict, VERDICT_CLIENT);
    }
    if (result.end == LOOP_REFUSED)
        ck_assert_int_ge(result.refusal.refusal_status, 400);
}

START_TEST(any_chain_tries_each_candidate_at_most_once_and_stops_where_it_must)
{
    static const char *const triggers[] = { NULL, "{\"httpCodes\":[]}", "{\"httpCodes\":[400,403,418,422]}",
                                            "{\"onTimeout\":false}" };
    uint32_t state = UINT32_C(20261129) + (uint32_t)_i;
    struct plan_facts facts = facts_of("three", triggers[_i]);
    for (int i = 0; i < 5000; i++)
        check_any_chain(&facts, random_script(&state));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loop");
    TCase *tcase = tcase_create("chains");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, candidates_are_asked_in_order_until_one_answers_or_refuses, 0,
                        (int)COUNT(ends));
    tcase_add_loop_test(tcase, a_chain_that_fails_says_how_its_last_attempt_did_and_how_much_was_tried, 0,
                        (int)COUNT(failures));
    tcase_add_loop_test(tcase, an_upstream_without_a_slot_is_passed_over_and_that_is_no_attempt, 0,
                        (int)COUNT(slots));
    tcase_add_test(tcase, no_slot_is_asked_for_when_the_chains_time_is_up);
    tcase_add_test(tcase, a_lost_key_ends_the_chain_also_behind_upstreams_without_a_slot);
    tcase_add_test(tcase, a_key_that_cannot_be_decrypted_ends_the_chain_and_is_no_attempt);
    tcase_add_test(tcase, the_chains_deadline_is_asked_before_every_attempt);
    tcase_add_test(tcase, a_microsecond_before_the_deadline_there_is_time_for_an_attempt);
    tcase_add_test(tcase, a_deadline_that_has_passed_already_leaves_no_attempt);
    tcase_add_test(tcase, a_late_answer_is_an_answer);
    tcase_add_loop_test(tcase, any_chain_tries_each_candidate_at_most_once_and_stops_where_it_must, 0, 4);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
