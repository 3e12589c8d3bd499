/* A line of the spool, read: what an operator is shown of a request's event
 * (core/record/event.h has the meaning of each member). */
#ifndef ADMIN_CTL_EVENT_LINE_H
#define ADMIN_CTL_EVENT_LINE_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/record/event.h"

struct attempt_line {
    const char *upstream, *provider, *key_fp, *verdict, *reason; /* "" where the event is silent */
    uint64_t status, first_byte_us;                              /* 0: it did not come to that */
};

struct event_line {
    const char *request_id, *trace_id, *model, *end, *code; /* "" where the event is silent */
    uint64_t time_us, total_us, ttft_us, status;
    int64_t fallback_depth; /* -1: no attempt was made */
    struct attempt_line attempts[EVENT_ATTEMPTS_MAX];
    size_t n_attempts;
};

/* Texts are in the arena. ERR_FORMAT: what a dying writer or a full disk left behind. */
int event_line_read(struct span line, struct arena *arena, struct event_line *out);

#endif
