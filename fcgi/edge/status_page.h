/* The status of this instance as a page for people: HTML without a script. */
#ifndef FCGI_EDGE_STATUS_PAGE_H
#define FCGI_EDGE_STATUS_PAGE_H

#include <stdbool.h>

#include "core/base/buf.h"
#include "fcgi/engine/mapping.h"
#include "fcgi/in_hand.h"

/* Whether an Accept header (NULL: there is none) is a browser's: it names text/html,
 * and not JSON. */
bool status_page_is_wanted(const char *accept);

/* Requests in hand, the longest first, over workers by stage and the tree in force.
 * Whatever callers named is escaped. */
void status_page_write(const struct mapping *mapping, struct in_hand_upstreams *upstreams, struct buf *out);

#endif
