/*
 * What pools (core/admit/pools.h) mean for a request of a model that has limits of
 * concurrency: which upstream it has a slot of, how it waits for one, that it keeps it
 * while it lives, and what the event and the metrics have of it.
 *
 * A model of whose upstreams none has a limit has no slots: nothing is asked, and the
 * plan stays as it is.
 */
#ifndef FCGI_EDGE_SLOTS_H
#define FCGI_EDGE_SLOTS_H

#include "core/route/loop.h"
#include "fcgi/edge/attempt.h"

/* Takes a slot of one of the plan's upstreams, waits for it as long as the model says, and ranks
 * the plan, which stays where it is until slots_settle. False: there is none, and that has been
 * answered; or the caller has left. */
bool slots_take(struct errand *errand, struct plan *plan);

/* For struct loop_ops; ctx is the errand: whether the upstream's slot is held, or can be had. The
 * one that was held is given back for another. No attempt runs. */
enum skip_reason slots_admit(void *ctx, const struct candidate *candidate);

/* For an attempt beside the one that runs: takes a slot of its own. False: there is none, at once, and
 * nothing has changed. */
bool slots_admit_beside(struct errand *errand, const struct candidate *candidate);

/* An attempt needs its slot no more while another runs, or since it was the one beside. */
void slots_give_back(struct turn *turn, bool is_beside);

/* An attempt has ended: a provider that has too much in hand is left alone for a while. */
void slots_note_outcome(struct errand *errand, const struct candidate *candidate,
                        const struct attempt_outcome *outcome);

/* Answers that every upstream was passed over. */
void slots_fail(struct errand *errand);

/* For an exchange: keeps the slot meanwhile. While a write waits for the caller, the connection does. */
struct exchange_beat slots_beat(struct turn *turn);

/* The event is complete but for this: notes what became of the slot, and gives it back. Again, it
 * does nothing. */
void slots_settle(struct turn *turn);

#endif
