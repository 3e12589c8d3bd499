/* From an event's line to a row of routing_decisions: one table of columns. */
#ifndef CORE_STORE_REQUEST_LOG_ROW_INTERNAL_H
#define CORE_STORE_REQUEST_LOG_ROW_INTERNAL_H

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/json/writer.h"

/* The statement that appends rows; its one parameter is a JSON array of them. */
void request_log_write_statement(struct buf *sql);

/* The line's row as an object. ERR_FORMAT: it can be none; nothing was written. */
int request_log_write_row(struct span line, struct arena *arena, struct json_writer *w, struct error *e);

#endif
