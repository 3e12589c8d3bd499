/*
 * The bound on threads that look names up. libcurl starts one for each lookup;
 * when a clock passes before the resolver answers, the thread is left behind, and
 * ends when the resolver gives up, which may take half a minute.
 *
 * Only in processes that have no other threads.
 */
#ifndef CORE_UPSTREAM_RESOLVER_H
#define CORE_UPSTREAM_RESOLVER_H

#include <stdbool.h>

enum { RESOLVER_THREADS_MAX = 4 };

/* Whether the host of this URL is an address, so that nothing has to be looked up. */
bool resolver_is_address(const char *url);

/* Whether a further lookup may start: fewer than RESOLVER_THREADS_MAX are under
 * way. True as well where the system does not tell. */
bool resolver_may_start(void);

#endif
