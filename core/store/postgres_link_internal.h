/*
 * One connection to Postgres on which nothing waits longer than it may. It connects when
 * it is needed, and again when it was lost. What is asked of it has a deadline, of the
 * monotonic clock in microseconds; an answer that has not come by then closes it, since
 * what would come next is not known.
 *
 * No error's text holds a password, a parameter or a value.
 */
#ifndef CORE_STORE_POSTGRES_LINK_INTERNAL_H
#define CORE_STORE_POSTGRES_LINK_INTERNAL_H

#include <postgresql/libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"

struct postgres_link;

/* Connects to nothing yet. ERR_FORMAT: the address cannot be one. */
int postgres_link_new(const char *database_url, struct postgres_link **out, struct error *e);

/* What is asked of it also ends at *end_us, which others may change at any time; it is looked at
 * every half second. It outlives the link; NULL: there is no such end. */
void postgres_link_end_at(struct postgres_link *link, const _Atomic uint64_t *end_us);

/* NULL is allowed. */
void postgres_link_free(struct postgres_link *link);

/* Connects, unless it is connected; *is_new (may be NULL) says whether it did. A connection
 * that the server has closed meanwhile is made again. ERR_SYSTEM. */
int postgres_link_connect(struct postgres_link *link, uint64_t deadline_us, bool *is_new, struct error *e);

/* Whether it is connected, as far as is known without asking. */
bool postgres_link_is_open(const struct postgres_link *link);

void postgres_link_close(struct postgres_link *link);

/* Runs a statement. A parameter is text, NULL where its ptr is NULL; its type in SQL is text.
 * *out (may be NULL) is to be freed with PQclear. ERR_SYSTEM: the server said no, for which
 * see postgres_link_state, or did not answer, and then the connection is closed. */
int postgres_link_run(struct postgres_link *link, const char *sql, const struct span *parameters, int n,
                      uint64_t deadline_us, PGresult **out, struct error *e);

/* Runs all statements of a text. ERR_SYSTEM, as above. */
int postgres_link_run_script(struct postgres_link *link, const char *sql, uint64_t deadline_us,
                             struct error *e);

/* The SQLSTATE with which the server refused the last statement; "" if it did not. */
const char *postgres_link_state(const struct postgres_link *link);

#endif
