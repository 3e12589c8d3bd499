/*
 * One GET, for commands that ask a provider. As at a shell: the system's
 * authorities, and a proxy if the environment has one. No redirects: they would
 * take the key along.
 */
#ifndef ADMIN_CTL_HTTP_GET_H
#define ADMIN_CTL_HTTP_GET_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"

/* `header` ("Name: value") goes along. The body of a 200 with at most `limit`
 * bytes, in the arena, with a NUL behind it. ERR_SYSTEM: no such reply; the
 * sentence has the status line, in which some providers explain themselves.
 * ERR_LIMIT. What libcurl had of the header is wiped. */
int http_get(const char *url, const char *header, size_t limit, struct arena *arena, struct span *out,
             struct error *e);

#endif
