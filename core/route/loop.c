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
static struct candidate *take(const struct snap_root *root, struct plan *plan,
                              const struct candidate *refused)
{
    for (enum wish wish = OTHER_PROVIDER; wish <= ANYBODY; wish++) {
        for (size_t i = 0; i < plan->count; i++) {
            struct candidate *c = &plan->items[i];
            if (c->is_passed || !suits(root, c, refused, wish))
                continue;
            c->is_passed = true;
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

/* False: it is passed over, with the upstream's other keys. */
static bool is_admitted(const struct loop_ops *ops, struct plan *plan, const struct candidate *c)
{
    enum skip_reason reason = ops->admit == NULL ? SKIP_NONE : ops->admit(ops->ctx, c);
    if (reason == SKIP_NONE)
        return true;
    plan_skip(plan, c->upstream, reason);
    pass_over_upstream(plan, c->upstream);
    return false;
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

void loop_run(const struct plan_facts *facts, struct plan *plan, uint64_t deadline_us,
              const struct loop_ops *ops, struct loop_result *out)
{
    struct history h = { 0 };
    const struct candidate *refused = NULL; /* by whom an unproven refusal came */
    struct candidate *c;

    *out = (struct loop_result){ .end = LOOP_FAILED };
    while ((c = take(facts->root, plan, refused)) != NULL) {
        if (ops->now_us(ops->ctx) >= deadline_us) {
            if (h.last.verdict != VERDICT_CLIENT) /* a refusal says more than our clock */
                remember(&h, &chain_timeout);
            break;
        }
        if (!is_admitted(ops, plan, c))
            continue;
        struct attempt_outcome outcome = { 0 };
        ops->attempt(ops->ctx, c, &outcome);
        if (!outcome.is_undecryptable) {
            out->attempts++;
            h.tried_keys++;
            h.tried_upstreams += is_upstream_tried(plan, c->upstream) ? 0 : 1;
            c->is_tried = true;
        }
        remember(&h, &outcome);
        out->last = outcome;

        if (outcome.is_undecryptable)
            break;
        if (outcome.verdict == VERDICT_CANCELLED) {
            out->end = LOOP_CANCELLED;
            return;
        }
        if (outcome.is_committed || outcome.verdict == VERDICT_OK) {
            out->end = LOOP_ANSWERED;
            return;
        }
        if (outcome.verdict == VERDICT_CLIENT) {
            bool is_second = refused != NULL;
            if (!is_second)
                out->refusal = outcome;
            if (is_second || (outcome.is_proven && !loop_moves_on(facts, &outcome)))
                break;
            refused = c;
            continue;
        }
        if (!loop_moves_on(facts, &outcome))
            break;
        /* Another key may have the grant that this one lacks. */
        bool is_keys_matter = outcome.blame == BLAME_KEY || outcome.blame == BLAME_KEY_MODEL;
        if (verdict_row(outcome.verdict)->next == NEXT_UPSTREAM && !is_keys_matter)
            pass_over_upstream(plan, c->upstream);
    }
    if (h.last.verdict == VERDICT_CLIENT)
        out->end = LOOP_REFUSED; /* the first refusal, if there were two */
    else
        fail(&h, out);
    out->is_exhausted = out->end == LOOP_FAILED && out->attempts > 0 && c == NULL && plan->n_skips == 0;
    out->last = h.last;
}
