/*
 * The answer to a request of a dialect, as its caller gets it: one head, bytes,
 * heartbeats where there is nothing else to send, one end. A heartbeat before
 * content commits status 200 and nothing more: attempts go on behind it, and
 * what is then to be told of a failure stands in the stream.
 */
#ifndef FCGI_EDGE_ANSWER_H
#define FCGI_EDGE_ANSWER_H

#include "core/route/loop.h"
#include "fcgi/edge/edge.h"

struct answer {
    struct turn *turn;
    const struct dialect *dialect;
    bool is_stream;

    /* private */
    uint64_t interval_us; /* of heartbeats; 0: none */
    bool is_live;         /* its bytes are of use as they come: nobody is to keep them */
    bool beats_before_content;
    bool has_reply;          /* of an upstream: what goes out is its */
    uint64_t quiet_since_us; /* monotonic; the request's start before the first byte */
};

void answer_init(struct answer *answer, struct turn *turn, const struct dialect *dialect,
                 const struct snap_model *model, bool is_stream);

/* An upstream's reply begins; `whole_bytes` as relay_sink has it. Of a stream
 * that a heartbeat has begun, the head is what it was. Sends nothing yet. */
void answer_commit(struct answer *answer, int status, struct span content_type, int64_t whole_bytes);

/* Its bytes; the last ones take the end with them. ERR_CLIENT_GONE, ERR_TIMEOUT. */
int answer_write(struct answer *answer, struct span bytes, bool is_last);

/* When a heartbeat is due, on clock_monotonic_us(), if nothing else goes out
 * before; UINT64_MAX: none is, as things stand. */
uint64_t answer_heartbeat_due_us(const struct answer *answer);

/* Sends one. Only between two events, and never after an end. ERR_CLIENT_GONE, ERR_TIMEOUT. */
int answer_heartbeat(struct answer *answer);

/* No upstream answered: what the caller is told, in full. Note it in the event. */
void answer_fail(struct answer *answer, const struct failure *failure);
void answer_refuse(struct answer *answer, const struct attempt_outcome *refusal);

#endif
