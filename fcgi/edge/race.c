/* The attempts of a request that run: one, or another beside it. The one that gives the caller its
 * first bytes has won; the other is recorded then, and its exchange ended by the loop that waits. */
#include "fcgi/edge/attempt_internal.h"

#include "core/base/clock.h"
#include "fcgi/edge/slots.h"

static struct attempt *other_of(const struct attempt *a)
{
    const struct errand *errand = a->errand;

    for (unsigned i = 0; i < errand->n_running; i++) {
        if (errand->running[i] != a && !errand->running[i]->is_lost)
            return errand->running[i];
    }
    return NULL;
}

bool race_is_alone(const struct attempt *a)
{
    return other_of(a) == NULL;
}

void race_begin(void *ctx, const struct candidate *candidate)
{
    struct errand *errand = ctx;
    struct request_event *event = errand->turn->event;
    struct attempt *a = errand->kind->begin(errand, candidate);

    if (errand->n_running > 0) {
        a->is_beside = true;
        event->hedge = EVENT_HEDGE_CANCELLED; /* unless more is to be said */
        if (a->event != NULL)
            a->event->is_hedged = true;
    }
    errand->running[errand->n_running++] = a;
}

/* It runs no longer. */
static void leave(struct attempt *a)
{
    struct errand *errand = a->errand;

    if (errand->running[0] == a)
        errand->running[0] = errand->running[1];
    errand->n_running--;
    if (a->event != NULL)
        attempt_wipe_key(&a->key_line);
    errand->kind->end(a);
}

/* What may be known of it is known: it is recorded now, since the event may leave before its
 * exchange is ended. */
static void lose(struct attempt *a, const char *reason)
{
    const struct attempt_outcome outcome = { .verdict = VERDICT_CANCELLED };

    exchange_cancel(a->exchange);
    a->is_lost = true;
    a->event->reason = reason;
    attempt_note_exchange(a, clock_monotonic_us());
    attempt_note_outcome(a, &outcome, (struct span){ NULL, 0 });
    a->is_recorded = true;
    slots_give_back(a->errand->turn, a->is_beside);
}

void race_win(struct attempt *a)
{
    struct request_event *event = a->errand->turn->event;
    struct attempt *other = other_of(a);

    event->decided_by = (unsigned)(a->event - event->attempts) + 1;
    if (a->is_beside)
        event->hedge = EVENT_HEDGE_WON;
    if (other == NULL)
        return;
    if (other->is_beside)
        event->hedge = EVENT_HEDGE_LOST;
    lose(other, "hedge_lost");
    attempt_note_in_hand(a);
}

/* One whose exchange is over; NULL: until_us came first, and nobody has produced anything. */
static struct attempt *wait_for_one(struct errand *errand, uint64_t until_us)
{
    const struct exchange *over;

    for (unsigned i = 0; i < errand->n_running; i++) {
        if (errand->running[i]->exchange == NULL)
            return errand->running[i];
    }
    while ((over = exchange_wait(errand->turn->worker->client, until_us)) == NULL) {
        if (!errand->answer->has_reply && errand->running[0]->result.first_content_us == 0)
            return NULL;
        until_us = UINT64_MAX;
    }
    struct attempt *a = errand->running[errand->running[0]->exchange == over ? 0 : 1];
    a->exchange = NULL;
    return a;
}

/* Its outcome is known. */
static void note_end(struct attempt *a, const struct attempt_outcome *out)
{
    struct errand *errand = a->errand;
    const struct attempt *other = other_of(a);
    bool has_failed = !out->is_committed && out->verdict != VERDICT_CANCELLED;

    slots_note_outcome(errand, a->candidate, out);
    if (out->verdict == VERDICT_CANCELLED)
        errand->turn->event->end = EVENT_END_CLIENT_GONE;
    if (a->is_beside && has_failed)
        errand->turn->event->hedge = EVENT_HEDGE_FAILED;
    if (has_failed && (a->is_beside || other != NULL))
        slots_give_back(errand->turn, a->is_beside);
    if (has_failed && other != NULL)
        attempt_note_in_hand(other);
}

const struct candidate *race_wait(void *ctx, uint64_t until_us, struct attempt_outcome *out)
{
    struct errand *errand = ctx;
    struct attempt *a;

    while ((a = wait_for_one(errand, until_us)) != NULL) {
        if (a->is_lost) {
            leave(a);
            continue;
        }
        if (a->event == NULL)
            *out = (struct attempt_outcome){ .verdict = VERDICT_CONFIG, .is_undecryptable = true };
        else if (errand->kind->go_on(a, out))
            continue;
        note_end(a, out);
        leave(a);
        return a->candidate;
    }
    return NULL;
}

/* Somebody who waits needs a worker sooner than this caller a second opinion. */
bool race_admit_beside(void *ctx, const struct candidate *candidate)
{
    struct errand *errand = ctx;
    struct turn *turn = errand->turn;
    const struct mapping *mapping = turn->worker->process->mapping;

    if (atomic_load_explicit(&mapping->waiting, memory_order_relaxed) > 0)
        turn->event->hedge = EVENT_HEDGE_BUSY;
    else if (!slots_admit_beside(errand, candidate))
        turn->event->hedge = EVENT_HEDGE_NO_SLOT;
    else
        return true;
    return false;
}

void race_cancel(void *ctx)
{
    struct errand *errand = ctx;
    struct request_event *event = errand->turn->event;
    const char *reason = event->end == EVENT_END_CLIENT_GONE ? "caller_left" : "chain_ended";

    for (unsigned i = 0; i < errand->n_running; i++) {
        struct attempt *a = errand->running[i];
        if (a->is_lost)
            continue;
        lose(a, reason);
        event->decided_by = a->is_beside ? 1 : 2;
    }
    while (errand->n_running > 0)
        leave(wait_for_one(errand, UINT64_MAX));
}
