/*
 * Follows the spool of llm-router (core/record/spool.h) as it grows, from its end
 * on, for who looks and consumes nothing. A record that comes late into a segment
 * after the next one has begun may be missed.
 */
#ifndef ADMIN_CTL_EVENT_TAIL_H
#define ADMIN_CTL_EVENT_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/span.h"

struct event_tail {
    const char *folder; /* STATE_DIR/spool; the arena's */
    uint64_t segment;   /* that is read; 0: there was none yet */
    int fd;             /* -1: none is open */
    struct buf unread;
    size_t taken;  /* of `unread`, by the last line */
    bool is_whole; /* it began with the oldest record that there is */
};

struct arena;

/* Begins `back_bytes` before the end of what there is, if there is so much; a spool that
 * does not exist yet is followed when it does. ERR_SYSTEM: it may not be read. */
int event_tail_open(const char *state_dir, uint64_t back_bytes, struct arena *arena, struct event_tail *out,
                    struct error *e);
void event_tail_close(struct event_tail *tail);

/* The next line, valid until the next call. ERR_NOT_FOUND: at present there is none. */
int event_tail_next(struct event_tail *tail, struct span *line);

#endif
