/*
 * What a caller's own limits mean for its request: whether it is let in, what every
 * reply says of them, and what the event has of it.
 *
 * Headers: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers, from
 * its version 8 on); RateLimit-Limit, -Remaining and -Reset (the same, to version 6), of
 * the meter that is nearest to its limit; x-ratelimit-{limit,remaining,reset}-{requests,
 * tokens} (OpenAI's API reference, "Rate limits").
 */
#ifndef FCGI_EDGE_LIMITS_H
#define FCGI_EDGE_LIMITS_H

#include "fcgi/edge/edge.h"

/* The caller is known: from now on its replies say what its limits are. */
void limits_begin(struct turn *turn);

/* Lets the request in; false: it has been answered 429. */
bool limits_admit(struct turn *turn, const struct dialect *dialect, const struct request_facts *facts);

/* The event is complete but for this: counts what the request took, by the event, and frees its place. A
 * request for which no attempt was made took nothing. */
void limits_settle(struct turn *turn);

#endif
