/* Texts of others, such as a caller's model name, made fit for a terminal and a report. */
#ifndef ADMIN_CTL_PRINTABLE_H
#define ADMIN_CTL_PRINTABLE_H

#include "core/base/buf.h"
#include "core/base/span.h"

/* Appends at most `columns` characters of the text. What a terminal would obey (control
 * characters, C1 too), what turns the direction of text or cannot be seen, and what is not
 * UTF-8 becomes "?". A longer text ends with "…". Returns the characters appended. */
size_t printable_append(struct buf *out, struct span text, size_t columns);

/* The same, filled with spaces to `columns`. */
void printable_pad(struct buf *out, struct span text, size_t columns);

#endif
