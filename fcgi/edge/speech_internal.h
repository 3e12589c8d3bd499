/* The state of an attempt at speech: speech.c runs it, speech_judge.c says how it ended. */
#ifndef FCGI_EDGE_SPEECH_INTERNAL_H
#define FCGI_EDGE_SPEECH_INTERNAL_H

#include "adapters/adapter.h"
#include "core/base/ids.h"
#include "fcgi/edge/attempt_internal.h"
#include "fcgi/edge/speech.h"

struct speech_attempt {
    struct attempt base; /* is_relaying: the reply in hand is a 2xx; result: of all exchanges so far */
    struct adapter_exchange ask; /* what is exchanged now, or next */
    struct exchange_result one;  /* of an exchange that is not the first */
    uint64_t exchange_us;        /* monotonic; it began */
    char id[REQUEST_ID_TEXT_BYTES];
    struct adapter_order order;
    struct adapter_call *call;
    enum adapter_step step; /* what the call said last */
    struct span reason;     /* phrase of the reply's status line; arena */
    struct arena *arena, *scratch;
    struct audio_sink sink;
    struct buf event; /* in a stream of events: the one that is written */
    unsigned n_exchanges;
    bool is_committed;
};

/* Fills *out and the event's reason and code; `message` receives the provider's
 * sentence, for the log. */
void speech_judge(struct speech_attempt *s, enum exchange_end end, struct attempt_outcome *out,
                  struct span *message);

#endif
