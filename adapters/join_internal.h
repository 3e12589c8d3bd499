/* The formats of join.c, as the functions that its table holds. */
#ifndef ADAPTERS_JOIN_INTERNAL_H
#define ADAPTERS_JOIN_INTERNAL_H

#include "adapters/join.h"

struct join_functions {
    void (*init)(struct join *join);
    void (*free)(struct join *join);
    int (*feed)(struct join *join, struct span piece, const struct join_sink *sink);
    int (*end_clip)(struct join *join, bool is_last, const struct join_sink *sink);
};

extern const struct join_functions join_mp3, join_wav, join_ogg;

/* The next bytes of a clip's samples. */
int join_samples_feed(struct join_samples *samples, struct span piece, const struct join_sink *sink);

static inline int join_give(const struct join_sink *sink, struct span bytes)
{
    return bytes.len == 0 ? 0 : sink->give(sink->ctx, bytes);
}

#endif
