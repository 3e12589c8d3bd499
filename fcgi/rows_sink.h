/*
 * The sink of rows: brings the events of the spool to the request log in Postgres, makes
 * its partitions, and drops those that are too old. In the shipper.
 */
#ifndef FCGI_ROWS_SINK_H
#define FCGI_ROWS_SINK_H

#include "core/telemetry/cells.h"
#include "core/telemetry/sink.h"

/* What can never be a row is set aside in STATE_DIR/llm-router.rejected.jsonl. Rows older than keep_days
 * days go; 0: none does. ERR_FORMAT: the address cannot be one. */
int rows_sink_open(const char *database_url, const char *state_dir, unsigned keep_days,
                   struct telemetry *telemetry, struct sink *out, struct error *e);

#endif
