/*
 * The URL of a finished clip, as a provider's reply names it. A reply may be
 * forged or mistaken, and we would fetch what it says from inside the operator's
 * network: so only the provider's own hosts are gone to.
 */
#ifndef ADAPTERS_DOWNLOAD_URL_H
#define ADAPTERS_DOWNLOAD_URL_H

#include "core/base/arena.h"
#include "core/base/span.h"

enum { DOWNLOAD_URL_BYTES = 4096 };

/*
 * The URL to get, in the arena, or NULL if it may not be gone to. Allowed are
 *
 *   https on a host below `domain` ("aliyuncs.com"), at its usual port; http there
 *   is made https, where the same clips lie;
 *
 *   what has the scheme, host and port of `endpoint`, as it is: an operator who
 *   names another host trusts it.
 */
const char *download_url_check(struct span url, const char *domain, const char *endpoint,
                               struct arena *arena);

#endif
