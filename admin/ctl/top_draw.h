/* A frame of top, as text and as JSON. */
#ifndef ADMIN_CTL_TOP_DRAW_H
#define ADMIN_CTL_TOP_DRAW_H

#include "admin/ctl/top_frame.h"
#include "core/base/buf.h"

enum { TOP_DRAW_BYTES = 4 * 1024 * 1024 };

/* Lines of at most `columns` characters, at most `rows` of them: what does not fit is left
 * out, and the last line says how much of it. Nothing that a terminal would obey. */
void top_draw_text(const struct frame *frame, size_t rows, size_t columns, struct buf *out);

/* One object and a newline. */
void top_draw_json(const struct frame *frame, struct buf *out);

#endif
