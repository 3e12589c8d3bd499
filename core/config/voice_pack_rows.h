/*
 * The rows of VOICE_PACKS, one at a time: what the administrators' API and llm-routerctl do
 * with them. Text in, text out: other rows stay as they were written.
 *
 * `raw` is the entry's value, or the empty span where there is none yet. Each function
 * checks it first; ERR_UNSUPPORTED: it is not valid as it is (somebody has edited it), and
 * nothing can be done with it. `now` is a time as clock_text has it.
 */
#ifndef CORE_CONFIG_VOICE_PACK_ROWS_H
#define CORE_CONFIG_VOICE_PACK_ROWS_H

#include <stdbool.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/config/entry.h"
#include "core/config/members.h"

/* All rows as JSON, in the document's order, those that are disabled too; parts of `raw`. */
int voice_packs_list(struct span raw, struct arena *arena, struct members *out);

/* The row with this id, a part of `raw`. ERR_NOT_FOUND. */
int voice_packs_find(struct span raw, const char *id, struct arena *arena, struct span *out);

/*
 * Adds a pack of `wanted`: all members but "id", which is the one given, and the times. Where
 * it says nothing of "params" and "enabled", their defaults are written down.
 * ERR_FORMAT: *faults says what is wrong with `wanted`, with paths in it. ERR_CONFLICT: there is a pack with
 * this id. ERR_LIMIT: there are too many.
 */
int voice_packs_add(struct span raw, struct span wanted, const char *id, const char *now, struct arena *arena,
                    struct span *out, struct entry_faults *faults);

/* Applies a merge patch (RFC 7396) to a pack; not to its id and times. One that changes
 * nothing leaves "updatedAt" as well. ERR_NOT_FOUND. ERR_FORMAT as above. */
int voice_packs_change(struct span raw, const char *id, struct span patch, const char *now,
                       struct arena *arena, struct span *out, struct entry_faults *faults);

/* Enables or disables a pack; one that is so already is left as it is. ERR_NOT_FOUND. */
int voice_packs_enable(struct span raw, const char *id, bool is_enabled, const char *now, struct arena *arena,
                       struct span *out);

#endif
