/*
 * A memo: what workers have found out and remember together. A fact is the hash
 * of the texts that say it; the memo knows which were noted and nothing else.
 *
 * Fixed memory without locks, zero when empty. It forgets: where there is no room
 * for a new fact, an older one goes. So only what can be found out again belongs
 * in it, and what is true for as long as its texts are: put in what it depends on
 * (a version of the configuration), and its change makes all of it unknown.
 */
#ifndef CORE_SIGNAL_MEMO_H
#define CORE_SIGNAL_MEMO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"

enum { MEMO_SETS = 128, MEMO_WAYS = 8 }; /* a fact has its set, which is one cache line */

/* Written and read by any process that maps it. */
struct memo {
    _Alignas(64) _Atomic uint64_t facts[MEMO_SETS][MEMO_WAYS]; /* 0: free */
    _Atomic uint64_t forgotten;                                /* facts that made room for others */
};

/* The fact that these texts say, in this order; never 0. */
uint64_t memo_fact(const struct span *texts, size_t n_texts);

/* Whether it was noted, and not forgotten. */
bool memo_has(const struct memo *memo, uint64_t fact);

void memo_note(struct memo *memo, uint64_t fact);

#endif
