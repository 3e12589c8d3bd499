#include "core/store/migrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/span.h"
#include "core/store/postgres_link_internal.h"

enum {
    CONNECT_S = 10,
    STATEMENT_S = 3600, /* a table may be large, and another migrate be at work */
};

struct migrate {
    const struct migrate_plan *plan;
    struct postgres_link *link;
};

static uint64_t deadline_us(unsigned seconds)
{
    return clock_monotonic_us() + seconds * US_PER_S;
}

static int run(const struct migrate *m, const char *sql, struct error *e)
{
    return postgres_link_run_script(m->link, sql, deadline_us(STATEMENT_S), e);
}

/* A number, or text that is to be freed with PQclear. */
static int ask(const struct migrate *m, const char *sql, PGresult **out, struct error *e)
{
    return postgres_link_run(m->link, sql, NULL, 0, deadline_us(STATEMENT_S), out, e);
}

static int ask_number(const struct migrate *m, const char *sql, int *out, struct error *e)
{
    PGresult *result;
    int r = ask(m, sql, &result, e);
    if (r != 0)
        return r;
    *out = atoi(PQgetvalue(result, 0, 0));
    PQclear(result);
    return 0;
}

/* Values are bytes in UTF-8; in another encoding not all of them could be kept. */
static int check_encoding(const struct migrate *m, struct error *e)
{
    PGresult *result;
    int r = ask(m, "SHOW server_encoding", &result, e);
    if (r != 0)
        return r;
    if (strcmp(PQgetvalue(result, 0, 0), "UTF8") != 0)
        r = error_set(e, ERR_SYSTEM, "the database's encoding is %s; UTF8 is needed",
                      PQgetvalue(result, 0, 0));
    PQclear(result);
    return r;
}

/* Begins a transaction that holds the lock, and says what the database has. */
static int begin(const struct migrate *m, int *version, struct error *e)
{
    /* The lock's number is the program's own: "llmr". */
    int r = run(m,
                "BEGIN ISOLATION LEVEL READ COMMITTED;"
                "SELECT pg_advisory_xact_lock(1819045234);"
                "CREATE TABLE IF NOT EXISTS schema_migrations ("
                "    version integer PRIMARY KEY,"
                "    name text NOT NULL,"
                "    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()"
                ");",
                e);
    if (r == 0)
        r = ask_number(m, "SELECT coalesce(max(version), 0) FROM schema_migrations", version, e);
    if (r == 0 && *version > (int)m->plan->n)
        r = error_set(
            e, ERR_CONFLICT,
            "the database has schema %d, this program knows schemas up to %d: it belongs to a newer one",
            *version, (int)m->plan->n);
    return r;
}

static int apply(const struct migrate *m, const struct migration *next, struct error *e)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", next->version);
    const struct span parameters[] = { span_cstr(number), span_cstr(next->name) };
    struct error why = { 0 };
    int r = run(m, next->sql, &why);
    if (r != 0)
        return error_set(e, r, "%s: %s", next->name, why.text);
    r = postgres_link_run(m->link, "INSERT INTO schema_migrations (version, name) VALUES ($1::integer, $2)",
                          parameters, 2, deadline_us(STATEMENT_S), NULL, e);
    return r == 0 ? run(m, "COMMIT", e) : r;
}

/* What a program does with each table. The sequence of an identity needs no grant. */
static int grant(const struct migrate *m, struct error *e)
{
    static const char sql[] = "SELECT format($x$"
                              "GRANT USAGE ON SCHEMA %1$I TO %2$I;"
                              "GRANT SELECT ON schema_migrations TO %2$I;"
                              "GRANT SELECT, INSERT, UPDATE ON config_kv TO %2$I;"
                              "GRANT USAGE ON SEQUENCE config_kv_change TO %2$I;"
                              "GRANT SELECT, INSERT ON config_kv_history, admin_audit_log TO %2$I;"
                              "GRANT SELECT, INSERT, UPDATE, DELETE ON router_instance TO %2$I;"
                              "GRANT INSERT, SELECT (started_at, event_id) ON routing_decisions TO %2$I;"
                              "GRANT USAGE ON SEQUENCE routing_decisions_arrival TO %2$I;"
                              "GRANT EXECUTE ON FUNCTION routing_decisions_make_months(), "
                              "routing_decisions_expire(integer) TO %2$I;"
                              "$x$, current_schema(), rolname) FROM pg_roles WHERE rolname = $1";
    const struct span parameter = span_cstr(m->plan->role);
    PGresult *result;
    int r = postgres_link_run(m->link, sql, &parameter, 1, deadline_us(STATEMENT_S), &result, e);
    if (r != 0)
        return r;
    r = PQntuples(result) == 1 ? run(m, PQgetvalue(result, 0, 0), e)
                               : error_set(e, ERR_NOT_FOUND, "there is no role \"%s\"", m->plan->role);
    PQclear(result);
    return r;
}

static int apply_all(const struct migrate *m, struct migrate_report *report, struct error *e)
{
    const struct migrate_plan *plan = m->plan;
    int version, r;
    for (bool is_first = true;; is_first = false) {
        if ((r = begin(m, &version, e)) != 0)
            return r;
        if (is_first)
            report->found = version;
        report->reached = version;
        if (version == (int)plan->n)
            break;
        if ((r = apply(m, &plan->migrations[version], e)) != 0)
            return r;
        plan->said(plan->ctx, &plan->migrations[version]);
    }
    if (plan->role != NULL && (r = grant(m, e)) != 0)
        return r;
    return run(m, "COMMIT", e);
}

int migrate_run(const struct migrate_plan *plan, struct migrate_report *out, struct error *e)
{
    struct migrate m = { .plan = plan };
    struct migrate_report report = { 0 };
    int r = postgres_link_new(plan->database_url, &m.link, e);
    if (r != 0)
        return r;
    r = postgres_link_connect(m.link, deadline_us(CONNECT_S), NULL, e);
    if (r == 0)
        r = check_encoding(&m, e);
    if (r == 0)
        r = apply_all(&m, &report, e);
    if (r == 0)
        *out = report;
    postgres_link_free(m.link); /* and with it a transaction that was not committed */
    return r;
}
