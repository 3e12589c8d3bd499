/* What two tables of voices differ in, a line each. Pure. */
#ifndef ADMIN_CTL_VOICES_DIFF_H
#define ADMIN_CTL_VOICES_DIFF_H

#include "core/voices/table.h"

struct voices_diff {
    size_t added, removed, changed; /* voices */
    size_t titles;                  /* of languages: new, gone or other */
};

/* Appends to `out`: "+ id", "- id", and "~ id  column: old -> new", of a list what
 * came and went: "+fr-FR -de-DE". Voices in the order of `after`, then those that
 * are gone, then languages. */
void voices_diff_write(const struct voice_table *before, const struct voice_table *after, struct buf *out,
                       struct voices_diff *totals);

#endif
