/*
 * The request log in Postgres: the table routing_decisions (sql/0005), a row for each
 * request, made from the line of its event in the spool. llm-router-log(7) says what is
 * in a row.
 *
 * One connection, made when it is needed and again when it was lost. Calls wait, for at
 * most half a minute: they are for a thread of their own. After fork.
 */
#ifndef CORE_STORE_REQUEST_LOG_H
#define CORE_STORE_REQUEST_LOG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"

struct request_log;

/* Connects to nothing yet. What can never be a row is set aside in `rejected_path`, whose
 * folder is there. Copies both. ERR_FORMAT: the address cannot be one. */
int request_log_new(const char *database_url, const char *rejected_path, struct request_log **out,
                    struct error *e);

/* Calls from now on end, as if Postgres did not answer, at *end_us of the monotonic clock as well,
 * which others may change; it is looked at every half second. NULL: there is no such end. */
void request_log_end_at(struct request_log *log, const _Atomic uint64_t *end_us);

/* NULL is allowed. */
void request_log_free(struct request_log *log);

struct request_log_outcome {
    size_t n_new, n_known; /* rows made, and rows that were there */
    size_t n_rejected;
    char reason[256]; /* of the last one that was rejected; may quote what an event holds */
};

/*
 * Appends a row for each line, each of which is an event without its newlines. A line whose row
 * is there (by time and id) changes nothing: the call may be repeated with the same lines after
 * any failure or crash.
 *
 * A line that can be no row is set aside, durably, and does not hold up the others: one JSON
 * object {"time", "reason", "line"} a line, mode 0640; beyond 16 MiB the file is renamed to
 * *.old, in the place of the one before it. After a failure it may be set aside again.
 *
 * Untouched *out and ERR_SYSTEM: Postgres is away, refuses for a reason that is not the lines', or
 * there is no room to set a line aside; what was appended stays.
 */
int request_log_append(struct request_log *log, const struct span *lines, size_t n,
                       struct request_log_outcome *out, struct error *e);

struct request_log_upkeep {
    unsigned months_made;
    unsigned months_dropped; /* partitions that were wholly too old */
    uint64_t rows_deleted;   /* others that were, of no month that there is */
};

/* Makes the partitions of this month and the next two, and drops what is older than `keep_days` days; 0:
 * nothing. Any number of instances may call it at any time; once an hour is enough. ERR_SYSTEM: not done,
 * or not all of it; rows can be appended all the same. */
int request_log_keep_up(struct request_log *log, unsigned keep_days, struct request_log_upkeep *out,
                        struct error *e);

#endif
