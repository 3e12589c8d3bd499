/* The path prefixes we are reached under, and the error form of each. */
#ifndef FCGI_EDGE_MOUNT_H
#define FCGI_EDGE_MOUNT_H

#include "core/route/failure.h"

struct mount {
    const char *prefix; /* "/v1" */
    enum error_form form;
};

/* The mount in a request's path, and what follows it without the leading slash;
 * NULL, and *endpoint untouched, if there is none. We may be mounted below
 * anything: the prefix may stand anywhere in the path. */
const struct mount *mount_find(const char *path, const char **endpoint);

#endif
