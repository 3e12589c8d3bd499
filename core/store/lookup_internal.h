/*
 * Finds the addresses of a name without waiting: a thread asks. It cannot be called back, and a server
 * of names that is away keeps it for half a minute; so one who asks the same again goes on with the
 * lookup that there is, and has one thread at most.
 *
 * The threads are named "lookup": libcurl's, which are bounded (core/upstream/resolver.h), have the name
 * of the thread that started them.
 */
#ifndef CORE_STORE_LOOKUP_INTERNAL_H
#define CORE_STORE_LOOKUP_INTERNAL_H

#include <netdb.h>
#include <stdbool.h>

enum { LOOKUP_ANSWER_MS = 30000 }; /* for so long an answer that nobody has taken holds good */

struct lookup;

/* Begins, where *lookup is NULL or has an answer that no longer holds good; else goes on with it. The
 * same host and port each time; `port` is a number. */
void lookup_go_on(struct lookup **lookup, const char *host, const char *port);

/* Whether it has ended. Then *found is the caller's, to be freed with freeaddrinfo; NULL: nothing
 * was found, and *why is a constant phrase. Once. */
bool lookup_take(struct lookup *lookup, struct addrinfo **found, const char **why);

/* Waits for the end, at most so long. */
void lookup_wait(struct lookup *lookup, unsigned timeout_ms);

/* Ends it, whatever it has come to; its thread, if it is still at work, is left to itself. NULL is allowed.
 */
void lookup_end(struct lookup *lookup);

#endif
