/* Where the store is, as the environment says. */
#ifndef CORE_STORE_PLACE_H
#define CORE_STORE_PLACE_H

#include "core/store/store.h"

enum { REDIS_PREFIX_MAX_BYTES = 128 };

/*
 * Takes DATABASE_URL and REDIS_URL (or DATABASE_URL_FILE and REDIS_URL_FILE), which hold
 * passwords, out of the environment, and reads LLM_ROUTER_REDIS_PREFIX. Sets database_url,
 * redis_url and redis_prefix of *out and leaves the rest of it; all are NULL where neither
 * address is set, and the store is the state directory. Before fork.
 * ERR_FORMAT: one address is set without the other, in both forms, or is none; or libpq's
 * PGPASSWORD is set beside them; or the prefix is longer than REDIS_PREFIX_MAX_BYTES. ERR_SYSTEM: a file
 * cannot be read.
 */
int store_place_from_environment(struct store_place *out, struct error *e);

/* Overwrites and frees the addresses: for processes that do not open the store. */
void store_place_wipe(struct store_place *place);

#endif
