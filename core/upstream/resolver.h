/*
 * The bound on threads that look names up. libcurl starts one for each lookup;
 * when a clock passes before the resolver answers, the thread is left behind, and
 * ends when the resolver gives up, which may take half a minute.
 *
 * libcurl's threads have the name of the thread that started them, and are known by
 * it: whatever else starts one in a process that asks upstreams gives it another name.
 */
#ifndef CORE_UPSTREAM_RESOLVER_H
#define CORE_UPSTREAM_RESOLVER_H

#include <stdbool.h>

enum { RESOLVER_THREADS_MAX = 4 };

/* Whether the host of this URL is an address, so that nothing has to be looked up. */
bool resolver_is_address(const char *url);

/* Whether the calling thread may start a further lookup: fewer than RESOLVER_THREADS_MAX
 * of its own are under way. True as well where the system does not tell. */
bool resolver_may_start(void);

#endif
