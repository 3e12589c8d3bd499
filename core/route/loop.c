#include "core/route/loop.h"

#include <stdio.h>
#include <string.h>

static bool is_listed(const struct plan_facts *facts, int status)
{
    const struct snap_vec codes = facts->model->http_codes;
    for (unsigned i = 0; i < codes.count; i++) {
        if (*SNAP_ITEM(facts->root, codes, uint32_t, i) == (uint32_t)status)
            return true;
    }
    return false;
}

bool loop_moves_on(const struct plan_facts *facts, const struct attempt_outcome *outcome)
{
    /* A caller's mistake never walks the keys because it came with a status that
     * is listed for theirs (OpenRouter's 403 for moderation); only because an
     * operator has listed the caller's own. */
    if (outcome->verdict == VERDICT_CLIENT && outcome->status != 400 && outcome->status != 413 &&
        outcome->status != 422)
        return false;
    switch (outcome->status) {
    case 0:
        if (outcome->verdict == VERDICT_TIMEOUT)
            return facts->model->on_timeout != 0;
        break;
    case 401:
    case 402:
    case 403:
    case 429: /* here the configured list has the last word, whatever the body says */
        return is_listed(facts, outcome->status);
    default:
        break;
    }
    return verdict_row(outcome->verdict)->next != NEXT_NONE || is_listed(facts, outcome->status);
}

/* Who is asked for a second opinion on a refusal, best first. */
enum wish { OTHER_PROVIDER, OTHER_UPSTREAM, ANYBODY };

static bool suits(const struct snap_root *root, const struct candidate *c, const struct candidate *refused,
                  enum wish wish)
{
    if (refused == NULL || wish == ANYBODY)
        return true;
    if (wish == OTHER_UPSTREAM)
        return c->upstream != refused->upstream;
    return !span_eq(snap_span(root, c->upstream->provider), snap_span(root, refused->upstream->provider));
}

/* The next candidate: in order, while there is no refusal. */
static struct candidate *find_next(const struct snap_root *root, const struct plan *plan,
                                   const struct candidate *refused)
{
    for (enum wish wish = OTHER_PROVIDER; wish <= ANYBODY; wish++) {
        for (size_t i = 0; i < plan->count; i++) {
            struct candidate *c = &plan->items[i];
            if (!c->is_passed && suits(root, c, refused, wish))
                return c;
        }
    }
    return NULL;
}

static void pass_over_upstream(struct plan *plan, const struct snap_upstream *upstream)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->items[i].upstream == upstream)
            plan->items[i].is_passed = true;
    }
}

static bool is_upstream_tried(const struct plan *plan, const struct snap_upstream *upstream)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->items[i].upstream == upstream && plan->items[i].is_tried)
            return true;
    }
    return false;
}

/* What has been seen along the chain. */
struct history {
    unsigned tried_keys, tried_upstreams;
    unsigned retry_after_s; /* the smallest hint; 0: none */
    bool can_recover;       /* some failure was not the operator's to mend */
    bool has_last;
    struct attempt_outcome last;
};

static void remember(struct history *h, const struct attempt_outcome *outcome)
{
    const char *fault = verdict_row(outcome->verdict)->fault;
    if (outcome->retry_after_s > 0 && (h->retry_after_s == 0 || outcome->retry_after_s < h->retry_after_s))
        h->retry_after_s = outcome->retry_after_s;
    h->can_recover = h->can_recover || strcmp(fault, "config") != 0;
    h->has_last = true;
    h->last = *outcome;
}

/* The last attempt decides (KTD-1). */
static enum failure_kind failure_of(const struct attempt_outcome *last)
{
    if (last->is_undecryptable)
        return FAILURE_DECRYPT_FAILED;
    switch (last->verdict) {
    case VERDICT_RATE:
        return FAILURE_UPSTREAM_RATE_LIMITED;
    case VERDICT_TIMEOUT:
        return FAILURE_UPSTREAM_TIMEOUT;
    case VERDICT_CONNECT:
        return last->is_unreachable ? FAILURE_UPSTREAM_UNAVAILABLE : FAILURE_UPSTREAM_TIMEOUT;
    default:
        return FAILURE_UPSTREAM_UNAVAILABLE;
    }
}

static void fail(const struct history *h, struct loop_result *out)
{
    struct failure *failure = &out->failure;

    out->end = LOOP_FAILED;
    if (!h->has_last) {
        *failure = (struct failure){ .kind = FAILURE_ALL_SKIPPED, .retry_after_s = 1 };
        return;
    }
    *failure = (struct failure){ .kind = failure_of(&h->last), .no_retry = !h->can_recover };
    if (h->last.is_undecryptable)
        return;
    failure->has_attempts = true;
    failure->tried_keys = h->tried_keys;
    failure->tried_upstreams = h->tried_upstreams;
    if (h->last.last_status != NULL)
        snprintf(failure->last_status, sizeof(failure->last_status), "%s", h->last.last_status);
    else
        snprintf(failure->last_status, sizeof(failure->last_status), "%d", h->last.status);
    if (failure->kind == FAILURE_UPSTREAM_RATE_LIMITED)
        failure->retry_after_s = h->retry_after_s > 0 ? h->retry_after_s : 1;
}

static const struct attempt_outcome chain_timeout = {
    .verdict = VERDICT_TIMEOUT,
    .last_status = "timeout",
    .is_proven = true,
};

struct chain {
    const struct plan_facts *facts;
    struct plan *plan;
    uint64_t deadline_us;
    const struct loop_ops *ops;
    struct loop_result *out;
    struct history history;
    const struct candidate *refused; /* by whom an unproven refusal came */
};

/* Nothing can follow it. */
static bool is_last_word(const struct attempt_outcome *outcome)
{
    return outcome->is_committed || outcome->verdict == VERDICT_OK || outcome->verdict == VERDICT_CANCELLED;
}

static void note_tried(struct chain *chain, struct candidate *c)
{
    chain->out->attempts++;
    chain->history.tried_keys++;
    chain->history.tried_upstreams += is_upstream_tried(chain->plan, c->upstream) ? 0 : 1;
    c->is_tried = true;
}

/* Whether the chain goes on to another candidate after this outcome. */
static bool goes_on_after(struct chain *chain, struct candidate *c, const struct attempt_outcome *outcome)
{
    struct loop_result *out = chain->out;

    if (!outcome->is_undecryptable)
        note_tried(chain, c);
    remember(&chain->history, outcome);
    if (outcome->is_undecryptable)
        return false;
    if (is_last_word(outcome)) {
        out->end = outcome->verdict == VERDICT_CANCELLED ? LOOP_CANCELLED : LOOP_ANSWERED;
        return false;
    }
    if (outcome->verdict == VERDICT_CLIENT) {
        bool is_second = chain->refused != NULL;
        if (!is_second)
            out->refusal = *outcome;
        chain->refused = c;
        return !is_second && (!outcome->is_proven || loop_moves_on(chain->facts, outcome));
    }
    if (!loop_moves_on(chain->facts, outcome))
        return false;
    /* Another key may have the grant that this one lacks. */
    bool is_keys_matter = outcome->blame == BLAME_KEY || outcome->blame == BLAME_KEY_MODEL;
    if (verdict_row(outcome->verdict)->next == NEXT_UPSTREAM && !is_keys_matter)
        pass_over_upstream(chain->plan, c->upstream);
    return true;
}

/* An attempt and one that may be begun beside it, in the order of the plan. */
struct race {
    struct runner {
        struct candidate *candidate;
        bool has_ended;
        struct attempt_outcome outcome;
    } runners[2];
    unsigned n;
    uint64_t hedge_us; /* when the second one's time comes; UINT64_MAX: not, or not again */
};

static uint64_t hedge_time(const struct chain *chain)
{
    uint32_t after_ms = chain->facts->model->hedge_after_ms;

    if (after_ms == 0 || chain->out->attempts > 0)
        return UINT64_MAX;
    return chain->ops->now_us(chain->ops->ctx) + after_ms * UINT64_C(1000);
}

/* Only the next candidate is asked for: where it may not be begun, none is. */
static void begin_beside(const struct chain *chain, struct race *race)
{
    const struct loop_ops *ops = chain->ops;
    struct candidate *c = find_next(chain->facts->root, chain->plan, NULL);

    race->hedge_us = UINT64_MAX;
    if (c == NULL || ops->now_us(ops->ctx) >= chain->deadline_us || !ops->admit_beside(ops->ctx, c))
        return;
    c->is_passed = true;
    race->runners[race->n++].candidate = c;
    ops->begin(ops->ctx, c);
}

/* Whose outcome is to be looked at next: of the one whose turn it is, or of one that nothing can follow. */
static const struct runner *wait_for_next(const struct chain *chain, struct race *race, unsigned turn)
{
    const struct loop_ops *ops = chain->ops;

    while (!race->runners[turn].has_ended) {
        struct attempt_outcome outcome = { 0 };
        const struct candidate *ended = ops->wait(ops->ctx, race->hedge_us, &outcome);
        if (ended == NULL) {
            begin_beside(chain, race);
            continue;
        }
        struct runner *runner = &race->runners[ended == race->runners[1].candidate ? 1 : 0];
        runner->outcome = outcome;
        runner->has_ended = true;
        if (is_last_word(&outcome))
            return runner;
    }
    return &race->runners[turn];
}

/* Makes an attempt, and perhaps one beside it. Whether the chain goes on after that. */
static bool make_attempt(struct chain *chain, struct candidate *c)
{
    const struct loop_ops *ops = chain->ops;
    struct race race = { .runners = { { .candidate = c } }, .n = 1, .hedge_us = hedge_time(chain) };

    ops->begin(ops->ctx, c);
    for (unsigned turn = 0; turn < race.n; turn++) {
        const struct runner *runner = wait_for_next(chain, &race, turn);
        if (goes_on_after(chain, runner->candidate, &runner->outcome))
            continue;
        if (race.n > 1 && !(race.runners[0].has_ended && race.runners[1].has_ended))
            ops->cancel(ops->ctx);
        return false;
    }
    return true;
}

/* The next candidate that may be tried; NULL: there is none, or no time for one. */
static struct candidate *take(struct chain *chain, bool *is_exhausted)
{
    const struct loop_ops *ops = chain->ops;
    struct candidate *c;

    while ((c = find_next(chain->facts->root, chain->plan, chain->refused)) != NULL) {
        c->is_passed = true;
        if (ops->now_us(ops->ctx) >= chain->deadline_us) {
            if (chain->history.last.verdict != VERDICT_CLIENT) /* a refusal says more than our clock */
                remember(&chain->history, &chain_timeout);
            return NULL;
        }
        enum skip_reason reason = ops->admit == NULL ? SKIP_NONE : ops->admit(ops->ctx, c);
        if (reason == SKIP_NONE)
            return c;
        plan_skip(chain->plan, c->upstream, reason);
        pass_over_upstream(chain->plan, c->upstream);
    }
    *is_exhausted = true;
    return NULL;
}

void loop_run(const struct plan_facts *facts, struct plan *plan, uint64_t deadline_us,
              const struct loop_ops *ops, struct loop_result *out)
{
    struct chain chain = { .facts = facts, .plan = plan, .deadline_us = deadline_us, .ops = ops, .out = out };
    const struct history *h = &chain.history;
    bool is_exhausted = false;
    struct candidate *c;

    *out = (struct loop_result){ .end = LOOP_FAILED };
    do {
        c = take(&chain, &is_exhausted);
    } while (c != NULL && make_attempt(&chain, c));
    out->last = h->last;
    if (out->end != LOOP_FAILED)
        return;
    if (h->last.verdict == VERDICT_CLIENT)
        out->end = LOOP_REFUSED; /* the first refusal, if there were two */
    else
        fail(h, out);
    out->is_exhausted = out->end == LOOP_FAILED && out->attempts > 0 && is_exhausted && plan->n_skips == 0;
}
