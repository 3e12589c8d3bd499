/* The rows in which instances report themselves. */
#include "core/store/postgres_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Two statements, not one: each holds the lock of its rows alone. */
int postgres_report(struct store *store, const struct store_instance *self, struct error *e)
{
    static const char report_sql[] =
        "INSERT INTO router_instance (id, host, version, since, source, workers, workers_current, "
        "reported_at) "
        "VALUES ($1, $2, $3, $4, $5, $6::integer, $7::integer, clock_timestamp()) "
        "ON CONFLICT (id) DO UPDATE SET host = excluded.host, version = excluded.version, "
        "since = excluded.since, source = excluded.source, workers = excluded.workers, "
        "workers_current = excluded.workers_current, reported_at = excluded.reported_at";
    static const char forget_sql[] = "DELETE FROM router_instance WHERE reported_at < clock_timestamp() - "
                                     "make_interval(secs => $1::float8)";
    char workers[16], current[16], life_s[16];
    snprintf(workers, sizeof(workers), "%u", self->workers);
    snprintf(current, sizeof(current), "%u", self->workers_current);
    snprintf(life_s, sizeof(life_s), "%d", STORE_INSTANCE_LIFE_S);
    const struct span parameters[] = { span_cstr(self->id),      span_cstr(self->host),
                                       span_cstr(self->version), span_cstr(self->since),
                                       span_cstr(self->source),  span_cstr(workers),
                                       span_cstr(current) };
    const struct span life = span_cstr(life_s);
    int r = postgres_ask(postgres_of(store), report_sql, parameters, 7, NULL, e);
    return r == 0 ? postgres_ask(postgres_of(store), forget_sql, &life, 1, NULL, e) : r;
}

int postgres_instances(struct store *store, struct arena *arena, struct store_instance **out, size_t *n,
                       struct error *e)
{
    static const char sql[] =
        "SELECT id, host, version, since, source, workers, workers_current, "
        "extract(epoch FROM clock_timestamp() - reported_at) FROM router_instance "
        "WHERE reported_at >= clock_timestamp() - make_interval(secs => $1::float8) ORDER BY id";
    const struct span life = span_cstr(arena_printf(arena, "%d", STORE_INSTANCE_LIFE_S));
    PGresult *result;
    int r = postgres_ask(postgres_of(store), sql, &life, 1, &result, e);
    if (r != 0)
        return r;
    *n = (size_t)PQntuples(result);
    *out = arena_array_of(arena, struct store_instance, *n);
    for (int row = 0; row < PQntuples(result); row++)
        (*out)[row] = (struct store_instance){
            .id = postgres_text(result, row, 0, arena),
            .host = postgres_text(result, row, 1, arena),
            .version = postgres_text(result, row, 2, arena),
            .since = postgres_text(result, row, 3, arena),
            .source = postgres_text(result, row, 4, arena),
            .workers = (uint32_t)strtoul(PQgetvalue(result, row, 5), NULL, 10),
            .workers_current = (uint32_t)strtoul(PQgetvalue(result, row, 6), NULL, 10),
            .age_s = strtod(PQgetvalue(result, row, 7), NULL),
        };
    PQclear(result);
    return 0;
}
