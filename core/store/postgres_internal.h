/* The parts of the store on Postgres: reading (postgres.c), writing, instances. */
#ifndef CORE_STORE_POSTGRES_INTERNAL_H
#define CORE_STORE_POSTGRES_INTERNAL_H

#include "core/store/postgres_link_internal.h"
#include "core/store/store_ops.h"
#include "core/store/subscription_internal.h"

struct postgres_store {
    struct store base;
    struct postgres_link *link;
    struct subscription *subscription; /* NULL: nothing is heard or published */
    bool is_ok;                        /* the last call was answered */
};

static inline struct postgres_store *postgres_of(struct store *store)
{
    return (struct postgres_store *)(void *)store;
}

/* When a call that begins now must have ended. */
uint64_t postgres_deadline_us(void);

/* Connects if need be, and sees to it that the tables are there. ERR_SYSTEM. */
int postgres_begin(struct postgres_store *p, uint64_t deadline_us, struct error *e);

/* postgres_begin, and one statement; remembers whether it was answered. */
int postgres_ask(struct postgres_store *p, const char *sql, const struct span *parameters, int n,
                 PGresult **out, struct error *e);

/* The value of a field: in the arena, NULL for SQL's NULL. */
const char *postgres_text(const PGresult *result, int row, int column, struct arena *arena);

int postgres_put(struct store *store, const struct store_change *change, struct store_outcome *out,
                 struct error *e);
int postgres_report(struct store *store, const struct store_instance *self, struct error *e);
int postgres_instances(struct store *store, struct arena *arena, struct store_instance **out, size_t *n,
                       struct error *e);

/* How a time is written: RFC 3339, UTC, as clock_text does. */
#define POSTGRES_TIME(column) "to_char(" column " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"

#endif
