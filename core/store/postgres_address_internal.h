/*
 * The address of a Postgres, taken apart as libpq does it. libpq would resolve names
 * while everything waits; here it is given addresses beside them (it still needs the
 * names, to compare with certificates).
 */
#ifndef CORE_STORE_POSTGRES_ADDRESS_INTERNAL_H
#define CORE_STORE_POSTGRES_ADDRESS_INTERNAL_H

#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

struct postgres_address;

/* ERR_FORMAT: it cannot be one. The text says no part of it, since a password that is not
 * escaped may have come to stand in any. */
int postgres_address_parse(const char *url, struct postgres_address **out, struct error *e);

/* NULL is allowed. */
void postgres_address_free(struct postgres_address *address);

/* For PQconnectStartParams, without expansion of the database's name; arena memory, but
 * values are those of `address`. */
struct postgres_parameters {
    const char **keywords, **values; /* end with NULL */
};

/* Resolves the names. ERR_SYSTEM: there are no such, or not until the deadline (of the
 * monotonic clock); the next call goes on waiting. */
int postgres_address_resolve(struct postgres_address *address, uint64_t deadline_us, struct arena *arena,
                             struct postgres_parameters *out, struct error *e);

/* The password, or NULL. */
const char *postgres_address_password(const struct postgres_address *address);

#endif
