/* Asks the health socket of an llm-router on this host, as a web server would. */
#ifndef ADMIN_CTL_HEALTH_CLIENT_H
#define ADMIN_CTL_HEALTH_CLIENT_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"

enum { HEALTH_TIMEOUT_MS = 2000, HEALTH_REPLY_LIMIT_BYTES = 4 * 1024 * 1024 };

/* The body of a reply with the status 200 to GET `path` on RUN_DIR/health.sock; arena
 * memory. ERR_NOT_FOUND: nobody listens there. ERR_TIMEOUT: no whole reply within
 * HEALTH_TIMEOUT_MS. ERR_FORMAT, ERR_LIMIT: it is none. ERR_SYSTEM. */
int health_ask(const char *run_dir, const char *path, struct arena *arena, struct span *body,
               struct error *e);

#endif
