/* The tables of the store in Postgres, brought up to those of this program. */
#ifndef CORE_STORE_MIGRATE_H
#define CORE_STORE_MIGRATE_H

#include <stddef.h>

#include "core/base/err.h"

/* The number of the last file in sql/. A program works with a database that is newer,
 * so that of several programs one can be replaced after the other. */
enum { SCHEMA_VERSION = 7 };

struct migration {
    int version; /* 1, 2, 3 … */
    const char *name;
    const char *sql;
};

/* The files of sql/, made into C when the program is built. */
extern const struct migration migrations[SCHEMA_VERSION];

struct migrate_report {
    int found, reached; /* versions; 0: an empty database */
};

struct migrate_plan {
    const char *database_url;
    const struct migration *migrations; /* all that the program knows */
    size_t n;
    const char *role; /* is given what a program needs of the tables, and no more; NULL: nobody is */
    void (*said)(void *ctx, const struct migration *applied);
    void *ctx;
};

/*
 * Applies the migrations that the database has not had, each in a transaction of its own
 * under a lock, so that of two at once one waits for the other; says each after it.
 * ERR_FORMAT: not an address. ERR_NOT_FOUND: there is no such role. ERR_CONFLICT: the
 * database is newer than this program. ERR_SYSTEM: Postgres cannot be reached or refused;
 * what was applied before stays.
 */
int migrate_run(const struct migrate_plan *plan, struct migrate_report *out, struct error *e);

#endif
