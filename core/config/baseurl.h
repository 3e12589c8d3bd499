/* An upstream's base URL: http or https, a host, a path at most. Pure. */
#ifndef CORE_CONFIG_BASEURL_H
#define CORE_CONFIG_BASEURL_H

#include "core/base/arena.h"
#include "core/base/span.h"

struct baseurl {
    struct span text; /* the input without slashes at its end */
    const char *host; /* lower case, without port; memory of the arena */
};

/* The same for a whole endpoint, which may have a query; `out` has all of it. */
const char *baseurl_parse_endpoint(struct span text, struct arena *arena, struct baseurl *out);

/* NULL and *out, or a phrase that says what is wrong. `arena` and `out` may be
 * NULL together, when only the answer is wanted. */
const char *baseurl_parse(struct span text, struct arena *arena, struct baseurl *out);

#endif
