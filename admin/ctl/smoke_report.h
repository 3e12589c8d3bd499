/* The trials of smoke, for people, programs and the repository. */
#ifndef ADMIN_CTL_SMOKE_REPORT_H
#define ADMIN_CTL_SMOKE_REPORT_H

#include "admin/ctl/smoke_scenario.h"
#include "core/base/buf.h"

struct smoke_summary {
    const char *url, *commit, *environment; /* the last two may be NULL */
    uint64_t time_us;                       /* wall clock, at the start */
    const struct smoke_trial *trials;
    size_t n_trials, counts[SMOKE_RESULTS];
};

enum { SMOKE_REPORT_BYTES = 4 * 1024 * 1024 };

/* A line for the trial, one for each attempt, and why it did not pass. */
void smoke_write_text(const struct smoke_trial *trial, struct buf *out);

/* One object and a newline. */
void smoke_write_json(const struct smoke_summary *summary, struct buf *out);

/* A document in Markdown. Nothing of a reply can change its layout. */
void smoke_write_markdown(const struct smoke_summary *summary, struct buf *out);

#endif
