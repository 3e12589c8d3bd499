/* Finds the addresses of a name without waiting: the C library asks in a thread of its own. */
#ifndef CORE_STORE_LOOKUP_INTERNAL_H
#define CORE_STORE_LOOKUP_INTERNAL_H

#include <netdb.h>
#include <stdbool.h>

struct lookup;

/* Begins. `port` is a number. */
struct lookup *lookup_begin(const char *host, const char *port);

/* Whether it has ended. Then *found is the caller's, to be freed with freeaddrinfo; NULL: nothing
 * was found, and *why is a constant phrase. */
bool lookup_take(struct lookup *lookup, struct addrinfo **found, const char **why);

/* Waits for the end, at most so long. */
void lookup_wait(struct lookup *lookup, unsigned timeout_ms);

/* Ends it, whatever it has come to. NULL is allowed. */
void lookup_end(struct lookup *lookup);

#endif
