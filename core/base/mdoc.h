/* Text as source of a manual page, mdoc(7). */
#ifndef CORE_BASE_MDOC_H
#define CORE_BASE_MDOC_H

#include "core/base/buf.h"

/* Writes sentences, each on lines of its own, filled; what mdoc(7) would take for a
 * request or an escape is escaped. */
void mdoc_write_text(struct buf *out, const char *text);

#endif
