/* Where Redis is, from its URL. Pure. */
#ifndef CORE_STORE_REDIS_URL_INTERNAL_H
#define CORE_STORE_REDIS_URL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

struct redis_address {
    const char *path;            /* of a socket file; NULL: host and port */
    const char *host, *port;     /* without brackets; digits */
    const char *user, *password; /* NULL: none; a user comes with a password */
    const char *database;        /* digits; NULL: the first */
    bool is_tls;
    char *text; /* what the others point into */
    size_t text_bytes;
};

/*
 *   redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]
 *   rediss://…                                  the same over TLS
 *   unix:/PATH[?db=DB], unix://[[USER]:PASSWORD@]/PATH[?db=DB]
 *
 * USER and PASSWORD may be percent-encoded. Freed with redis_address_wipe. ERR_FORMAT,
 * without a word of the URL in the text.
 */
int redis_address_parse(const char *url, struct redis_address *out, struct error *e);

/* Overwrites and frees. */
void redis_address_wipe(struct redis_address *address);

#endif
