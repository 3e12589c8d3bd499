/* A tree, outcomes by name, and attempts that end as a script says: for tests of the attempt loop. */
#ifndef TESTS_UNIT_LOOP_SCRIPT_H
#define TESTS_UNIT_LOOP_SCRIPT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/entry.h"
#include "core/route/loop.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CIPHERTEXT "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw"
#define KEY(id) "{\"id\":\"" id "\",\"ciphertext\":\"" CIPHERTEXT "\"}"
#define UPSTREAM(id, provider, keys)                                             \
    "{\"id\":\"" id "\",\"provider\":\"" provider "\",\"baseURL\":\"https://" id \
    ".example/v1\",\"keys\":[" keys "]}"

enum { DEADLINE_US = 1000, CANDIDATES_MAX = 8, TRIED_BYTES = 64 };

/* Three upstreams of two providers: a1 a2 | b1 b2 | c1; "one" and "two" have a single upstream. */
static const char models[] =
    "\"three\":{\"upstreams\":[" UPSTREAM("A", "p", KEY("a1") "," KEY("a2")) "," UPSTREAM(
        "B", "p",
        KEY("b1") "," KEY("b2")) "," UPSTREAM("C", "q",
                                              KEY("c1")) "]%s},"
                                                         "\"two\":{\"upstreams\":[" UPSTREAM(
                                                             "T", "p",
                                                             KEY("t1") "," KEY(
                                                                 "t2")) "]%s},"
                                                                        "\"one\":{\"upstreams\":[" UPSTREAM(
                                                                            "O", "p", KEY("o1")) "]%s}";

static struct arena *arena;

static inline void set_up(void)
{
    arena = arena_new();
}

static inline void tear_down(void)
{
    arena_free(arena);
}

/* A tree whose models have these fallback triggers; NULL: none of their own. */
static inline struct plan_facts facts_of(const char *model, const char *triggers)
{
    struct entry_value values[ENTRY_COUNT] = { { .version = NULL } };
    struct entry_faults faults = { 0 };
    enum entry_id which;
    size_t undecryptable;
    struct span image;
    const char *own = triggers == NULL ? "" : arena_printf(arena, ",\"fallbackTriggers\":%s", triggers);
    char *document = arena_alloc(arena, 8192);
    int n = snprintf(document, 8192, models, own, own, own);
    ck_assert(n > 0 && n < 8192);
    document = arena_printf(arena, "{\"llm\":{\"models\":{%s}}}", document);
    values[ENTRY_LLM_ROUTER_CONFIG] = (struct entry_value){ span_cstr(document), "v" };
    int r = entry_compile(values, 1, NULL, arena, &image, &undecryptable, &which, &faults);
    ck_assert_msg(r == 0, "%s: %s", faults.count > 0 ? faults.items[0].path : "",
                  faults.count > 0 ? faults.items[0].message : "");
    const struct snap_root *root = (const void *)image.ptr;
    const struct snap_model *found = snapshot_model(root, span_cstr(model));
    ck_assert_ptr_nonnull(found);
    return (struct plan_facts){ .root = root, .model = found };
}

/* --- outcomes by name --- */

static const struct named_outcome {
    const char *name;
    struct attempt_outcome outcome;
} outcomes[] = {
    { "ok", { .verdict = VERDICT_OK, .status = 200, .is_committed = true, .is_proven = true } },
    { "auth", { .verdict = VERDICT_AUTH, .blame = BLAME_KEY, .status = 401, .is_proven = true } },
    { "auth400", { .verdict = VERDICT_AUTH, .blame = BLAME_KEY, .status = 400, .is_proven = true } },
    { "auth200",
      { .verdict = VERDICT_AUTH,
        .blame = BLAME_KEY,
        .status = 200,
        .last_status = "invalid",
        .is_proven = true } },
    { "quota", { .verdict = VERDICT_QUOTA, .blame = BLAME_KEY, .status = 402, .is_proven = true } },
    { "quota403", { .verdict = VERDICT_QUOTA, .blame = BLAME_KEY, .status = 403, .is_proven = true } },
    { "quota429", { .verdict = VERDICT_QUOTA, .blame = BLAME_KEY, .status = 429, .is_proven = true } },
    { "rate", { .verdict = VERDICT_RATE, .blame = BLAME_KEY, .status = 429, .is_proven = true } },
    { "rate9", { .verdict = VERDICT_RATE, .status = 429, .retry_after_s = 9, .is_proven = true } },
    { "rate3", { .verdict = VERDICT_RATE, .status = 429, .retry_after_s = 3, .is_proven = true } },
    { "rate200", { .verdict = VERDICT_RATE, .status = 200, .last_status = "invalid", .is_proven = true } },
    { "server", { .verdict = VERDICT_SERVER, .blame = BLAME_UPSTREAM, .status = 500, .is_proven = true } },
    { "server529",
      { .verdict = VERDICT_SERVER,
        .blame = BLAME_UPSTREAM,
        .status = 529,
        .retry_after_s = 2,
        .is_proven = true } },
    { "empty",
      { .verdict = VERDICT_SERVER,
        .blame = BLAME_UPSTREAM,
        .status = 200,
        .last_status = "invalid",
        .is_proven = true } },
    { "timeout",
      { .verdict = VERDICT_TIMEOUT, .blame = BLAME_UPSTREAM, .last_status = "timeout", .is_proven = true } },
    { "timeout504",
      { .verdict = VERDICT_TIMEOUT, .blame = BLAME_UPSTREAM, .status = 504, .is_proven = true } },
    { "timeout408",
      { .verdict = VERDICT_TIMEOUT, .blame = BLAME_UPSTREAM, .status = 408, .is_proven = true } },
    { "refused",
      { .verdict = VERDICT_CONNECT,
        .blame = BLAME_UPSTREAM,
        .last_status = "connect",
        .is_unreachable = true,
        .is_proven = true } },
    { "reset",
      { .verdict = VERDICT_CONNECT, .blame = BLAME_UPSTREAM, .last_status = "reset", .is_proven = true } },
    { "config404", { .verdict = VERDICT_CONFIG, .blame = BLAME_UPSTREAM, .status = 404, .is_proven = true } },
    { "config302", { .verdict = VERDICT_CONFIG, .blame = BLAME_UPSTREAM, .status = 302, .is_proven = true } },
    { "config403", { .verdict = VERDICT_CONFIG, .blame = BLAME_UPSTREAM, .status = 403, .is_proven = true } },
    { "grant403", { .verdict = VERDICT_CONFIG, .blame = BLAME_KEY_MODEL, .status = 403, .is_proven = true } },
    { "client400", { .verdict = VERDICT_CLIENT, .status = 400, .refusal_status = 400, .is_proven = true } },
    { "client413", { .verdict = VERDICT_CLIENT, .status = 413, .refusal_status = 413, .is_proven = true } },
    { "client403", { .verdict = VERDICT_CLIENT, .status = 403, .refusal_status = 403, .is_proven = true } },
    { "client200",
      { .verdict = VERDICT_CLIENT,
        .status = 200,
        .refusal_status = 400,
        .last_status = "invalid",
        .is_proven = true } },
    { "unproven400", { .verdict = VERDICT_CLIENT, .status = 400, .refusal_status = 400 } },
    { "unproven422", { .verdict = VERDICT_CLIENT, .status = 422, .refusal_status = 422 } },
    { "other418", { .verdict = VERDICT_OTHER, .blame = BLAME_UPSTREAM, .status = 418, .is_proven = true } },
    { "cancelled", { .verdict = VERDICT_CANCELLED, .is_proven = true } },
    { "left", { .verdict = VERDICT_CANCELLED, .is_committed = true, .is_proven = true } },
    { "cut",
      { .verdict = VERDICT_SERVER,
        .blame = BLAME_UPSTREAM,
        .status = 200,
        .last_status = "invalid",
        .is_committed = true,
        .is_proven = true } },
    { "lost_key", { .verdict = VERDICT_CONFIG, .is_undecryptable = true } },
};

static inline const struct attempt_outcome *outcome_named(struct span name)
{
    for (size_t i = 0; i < COUNT(outcomes); i++) {
        if (span_is(name, outcomes[i].name))
            return &outcomes[i].outcome;
    }
    ck_abort_msg("no outcome %.*s", (int)name.len, name.ptr);
    return NULL;
}

/* --- attempts --- */

/* What happens, one word for each return of wait, and what was done. A word is the name of an outcome;
 * with "+" before it, of the attempt beside; or "late": nothing comes until the time to hedge. */
struct script {
    const struct snap_root *root;
    const char *rest;
    uint64_t now_us, attempt_us;
    unsigned calls;
    char tried[TRIED_BYTES]; /* "a1 a2" */
    const char *refused;     /* "AB": upstreams that have no slot; NULL: nobody asks for one */
    char asked[TRIED_BYTES]; /* whose slot was asked for: "AAB" */
    const struct candidate *candidates[CANDIDATES_MAX];
    const struct candidate *running[2]; /* NULL: none */
    bool refuses_beside;                /* whoever is asked whether one may be begun beside another */
    unsigned asked_beside;
    uint64_t hedge_us;      /* until when the first wait was to last */
    uint64_t last_until_us; /* and the last one */
    uint64_t deadline_us;   /* of the chain; 0: DEADLINE_US */
    bool is_cancelled;
};

static inline uint64_t now_us(void *ctx)
{
    return ((struct script *)ctx)->now_us;
}

static inline void begin(void *ctx, const struct candidate *candidate)
{
    struct script *script = ctx;
    struct span key = snap_span(script->root, candidate->key->id);
    size_t len = strlen(script->tried);
    unsigned place = script->running[0] == NULL ? 0 : 1;

    ck_assert_uint_lt(script->calls, CANDIDATES_MAX);
    ck_assert_ptr_null(script->running[place]);
    script->running[place] = candidate;
    script->candidates[script->calls++] = candidate;
    snprintf(script->tried + len, sizeof(script->tried) - len, "%s%.*s", len > 0 ? " " : "", (int)key.len,
             key.ptr);
}

static inline const struct candidate *wait(void *ctx, uint64_t until_us, struct attempt_outcome *out)
{
    struct script *script = ctx;
    size_t len = strcspn(script->rest, " ");
    struct span word = span_of(script->rest, len);
    unsigned place = len > 0 && word.ptr[0] == '+' ? 1 : 0;

    ck_assert_msg(len > 0, "an attempt that was not expected: %s", script->tried);
    script->rest += len + strspn(script->rest + len, " ");
    if (script->hedge_us == 0)
        script->hedge_us = until_us;
    script->last_until_us = until_us;
    if (span_is(word, "late")) {
        ck_assert_uint_lt(until_us, UINT64_MAX);
        script->now_us = until_us;
        return NULL;
    }
    const struct candidate *ended = script->running[place];
    ck_assert_ptr_nonnull(ended);
    *out = *outcome_named(span_of(word.ptr + place, len - place));
    if (out->verdict == VERDICT_CLIENT)
        out->refusal_body = snap_span(script->root, ended->key->id); /* so that it is known whose it is */
    script->now_us += script->attempt_us;
    script->running[place] = NULL;
    return ended;
}

static inline enum skip_reason admit(void *ctx, const struct candidate *candidate)
{
    struct script *script = ctx;
    const char *name = snap_cstr(script->root, candidate->upstream->id);
    size_t len = strlen(script->asked);
    snprintf(script->asked + len, sizeof(script->asked) - len, "%s", name);
    return strstr(script->refused, name) != NULL ? SKIP_FULL : SKIP_NONE;
}

static inline bool admit_beside(void *ctx, const struct candidate *candidate)
{
    struct script *script = ctx;
    ck_assert(!candidate->is_passed);
    script->asked_beside++;
    return !script->refuses_beside;
}

static inline void cancel(void *ctx)
{
    struct script *script = ctx;
    ck_assert(script->running[0] != NULL || script->running[1] != NULL);
    script->running[0] = script->running[1] = NULL;
    script->is_cancelled = true;
}

static inline struct loop_result run(const struct plan_facts *facts, struct script *script)
{
    const struct loop_ops ops = {
        .ctx = script,
        .now_us = now_us,
        .admit = script->refused != NULL ? admit : NULL,
        .begin = begin,
        .wait = wait,
        .admit_beside = admit_beside,
        .cancel = cancel,
    };
    struct loop_result result;
    struct plan plan;
    plan_make(facts, arena, &plan);
    script->root = facts->root;
    loop_run(facts, &plan, script->deadline_us > 0 ? script->deadline_us : DEADLINE_US, &ops, &result);
    ck_assert_msg(script->running[0] == NULL && script->running[1] == NULL, "an attempt is left behind: %s",
                  script->tried);
    return result;
}

#endif
