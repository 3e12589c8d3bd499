/* The store on Postgres: reading, and what is heard through Redis. */
#include "core/store/postgres_internal.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/crypto/digest.h"
#include "core/store/audit_internal.h"
#include "core/store/migrate.h"

enum {
    AUDIT_COLUMNS = 10,
    AUDIT_JSON_BYTES = 2 * STORE_AUDIT_LIMIT_BYTES, /* names and escapes are not counted before */
};

uint64_t postgres_deadline_us(void)
{
    return clock_monotonic_us() + STORE_TIMEOUT_MS * US_PER_MS;
}

/* Once per connection: a program that is newer than its database says so instead of
 * failing at the first table it misses. */
static int check_schema(struct postgres_store *p, uint64_t deadline_us, struct error *e)
{
    PGresult *result;
    int r = postgres_link_run(p->link, "SELECT coalesce(max(version), 0) FROM schema_migrations", NULL, 0,
                              deadline_us, &result, e);
    if (r == 0) {
        int version = atoi(PQgetvalue(result, 0, 0));
        PQclear(result);
        if (version < SCHEMA_VERSION)
            r = error_set(e, ERR_SYSTEM,
                          "the database has schema %d, %d is needed: run llm-routerctl migrate", version,
                          SCHEMA_VERSION);
    }
    if (r != 0)
        postgres_link_close(p->link);
    return r;
}

int postgres_begin(struct postgres_store *p, uint64_t deadline_us, struct error *e)
{
    bool is_new = false;
    int r = postgres_link_connect(p->link, deadline_us, &is_new, e);
    return r == 0 && is_new ? check_schema(p, deadline_us, e) : r;
}

int postgres_ask(struct postgres_store *p, const char *sql, const struct span *parameters, int n,
                 PGresult **out, struct error *e)
{
    uint64_t deadline_us = postgres_deadline_us();
    int r = postgres_begin(p, deadline_us, e);
    if (r == 0)
        r = postgres_link_run(p->link, sql, parameters, n, deadline_us, out, e);
    p->is_ok = r == 0 || postgres_link_is_open(p->link); /* a refusal is an answer */
    return r;
}

static struct span field(const PGresult *result, int row, int column)
{
    return span_of(PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
}

const char *postgres_text(const PGresult *result, int row, int column, struct arena *arena)
{
    return PQgetisnull(result, row, column) ? NULL : arena_span(arena, field(result, row, column));
}

/* The table's own checks see to it that it fits. */
static void copy_version(const PGresult *result, int row, int column, char out[STORE_VERSION_BYTES])
{
    struct span version = field(result, row, column);
    size_t len = version.len < STORE_VERSION_BYTES ? version.len : STORE_VERSION_BYTES - 1;
    memcpy(out, version.ptr, len);
    out[len] = '\0';
}

static void copy_value(const PGresult *result, int row, int column, struct arena *arena,
                       struct store_value *out)
{
    struct span raw = field(result, row, column);
    out->raw = span_of(arena_span(arena, raw), raw.len);
}

/* One statement, so of one moment. */
static int postgres_get_all(struct store *store, const char *const *keys, size_t n, struct arena *arena,
                            struct store_value *out, struct error *e)
{
    PGresult *result;
    const char *list = "";
    for (size_t i = 0; i < n; i++)
        list = arena_printf(arena, "%s%s%s", list, i == 0 ? "" : ",", keys[i]);
    const struct span parameter = span_cstr(list);
    int r =
        postgres_ask(postgres_of(store),
                     "SELECT key, version, value FROM config_kv WHERE key = ANY (string_to_array($1, ','))",
                     &parameter, 1, &result, e);
    if (r != 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        out[i] = (struct store_value){ .version = "" };
        for (int row = 0; row < PQntuples(result); row++) {
            if (strcmp(PQgetvalue(result, row, 0), keys[i]) != 0)
                continue;
            copy_version(result, row, 1, out[i].version);
            copy_value(result, row, 2, arena, &out[i]);
        }
    }
    PQclear(result);
    return 0;
}

static int postgres_versions(struct store *store, const char *key, size_t max, struct arena *arena,
                             struct store_version *out, size_t *n, size_t *total, struct error *e)
{
    static const char sql[] = "SELECT h.version, " POSTGRES_TIME(
        "h.created_at") ", h.author, v.version IS NOT NULL, "
                        "count(*) OVER () "
                        "FROM config_kv_history h LEFT JOIN config_kv v ON v.key = h.key AND v.version = "
                        "h.version "
                        "WHERE h.key = $1 ORDER BY h.change DESC LIMIT $2::bigint";
    /* At least one row, for the sake of the count that is in it. */
    const struct span parameters[] = { span_cstr(key),
                                       span_cstr(arena_printf(arena, "%zu", max == 0 ? 1 : max)) };
    PGresult *result;
    int r = postgres_ask(postgres_of(store), sql, parameters, 2, &result, e);
    if (r != 0)
        return r;
    size_t rows = (size_t)PQntuples(result);
    *total = rows == 0 ? 0 : strtoull(PQgetvalue(result, 0, 4), NULL, 10);
    *n = rows < max ? rows : max;
    for (size_t i = 0; i < *n; i++) {
        int row = (int)i;
        out[i] = (struct store_version){ .time = postgres_text(result, row, 1, arena),
                                         .author = postgres_text(result, row, 2, arena),
                                         .is_in_force = PQgetvalue(result, row, 3)[0] == 't' };
        copy_version(result, row, 0, out[i].version);
    }
    PQclear(result);
    return 0;
}

static int postgres_get_version(struct store *store, const char *key, const char *version,
                                struct arena *arena, struct store_value *out, struct error *e)
{
    const struct span parameters[] = { span_cstr(key), span_cstr(version) };
    PGresult *result;
    int r = postgres_ask(postgres_of(store),
                         "SELECT version, value FROM config_kv_history WHERE key = $1 AND version = $2",
                         parameters, 2, &result, e);
    if (r != 0)
        return r;
    if (PQntuples(result) == 0) {
        r = error_set(e, ERR_NOT_FOUND, "%s never had version %s", key, version);
    } else {
        copy_version(result, 0, 0, out->version);
        copy_value(result, 0, 1, arena, out);
    }
    PQclear(result);
    return r;
}

static struct audit_line audit_line_of(const PGresult *result, int row, struct arena *arena)
{
    const char *texts[AUDIT_COLUMNS];
    for (int i = 0; i < AUDIT_COLUMNS; i++)
        texts[i] = postgres_text(result, row, i, arena);
    return (struct audit_line){
        .time = texts[0],
        .key = texts[1],
        .version_before = texts[2],
        .version_after = texts[3],
        .told = { .actor = texts[4],
                  .action = texts[5],
                  .object = texts[6],
                  .source_address = texts[7],
                  .request_id = texts[8],
                  .changes = span_cstr(texts[9]) },
    };
}

static int postgres_audit_log(struct store *store, size_t max, struct arena *arena, struct span *json,
                              struct error *e)
{
    /* The server counts: what would be left out is not sent. */
    static const char sql[] = "SELECT " POSTGRES_TIME(
        "created_at") ", key, version_before, version_after, actor, action, object, source_address, "
                      "request_id, changes FROM (SELECT *, sum(octet_length(newest::text)) OVER (ORDER BY id "
                      "DESC) AS bytes FROM (SELECT * FROM admin_audit_log ORDER BY id DESC LIMIT "
                      "$1::bigint) AS newest) AS counted WHERE bytes <= $2::bigint ORDER BY id DESC";
    const struct span parameters[] = {
        span_cstr(arena_printf(arena, "%zu", max)),
        span_cstr(arena_printf(arena, "%d", STORE_AUDIT_LIMIT_BYTES)),
    };
    struct json_writer w;
    struct buf array;
    PGresult *result;
    int r = postgres_ask(postgres_of(store), sql, parameters, 2, &result, e);
    if (r != 0)
        return r;
    buf_init(&array, AUDIT_JSON_BYTES);
    jw_init(&w, &array);
    jw_begin_array(&w);
    for (int row = 0; row < PQntuples(result); row++) {
        const struct audit_line line = audit_line_of(result, row, arena);
        audit_write(&w, &line);
    }
    jw_end_array(&w);
    PQclear(result);
    if (array.overflowed)
        r = error_set(e, ERR_LIMIT, "the last %zu lines of the audit log have more than %d bytes", max,
                      AUDIT_JSON_BYTES);
    else
        *json = span_of(arena_span(arena, buf_span(&array)), array.len);
    buf_free(&array);
    return r;
}

/* A row's xmin is the transaction that wrote it: it changes too when somebody edits a
 * value in place. */
static int postgres_stamp(struct store *store, uint64_t *stamp, struct error *e)
{
    static const char sql[] =
        "SELECT coalesce(string_agg(key || ' ' || version || ' ' || xmin::text, ',' ORDER BY key), '') "
        "FROM config_kv";
    uint8_t digest[SHA256_BYTES];
    PGresult *result;
    int r = postgres_ask(postgres_of(store), sql, NULL, 0, &result, e);
    if (r != 0)
        return r;
    sha256(field(result, 0, 0), digest);
    memcpy(stamp, digest, sizeof(*stamp));
    PQclear(result);
    return 0;
}

static int postgres_watch_fd(struct store *store)
{
    struct postgres_store *p = postgres_of(store);
    return p->subscription == NULL ? -1 : subscription_fd(p->subscription);
}

static enum store_news postgres_listen(struct store *store)
{
    struct postgres_store *p = postgres_of(store);
    return p->subscription == NULL ? STORE_NEWS_NONE : subscription_listen(p->subscription);
}

static void postgres_health(const struct store *store, struct store_health *out)
{
    const struct postgres_store *p = (const struct postgres_store *)(const void *)store;
    out->has_database = true;
    out->is_database_ok = p->is_ok;
    if (p->subscription != NULL)
        subscription_health(p->subscription, out);
}

static void postgres_close(struct store *store)
{
    struct postgres_store *p = postgres_of(store);
    subscription_close(p->subscription);
    postgres_link_free(p->link);
    free(p);
}

static const struct store_ops postgres_ops = {
    .close = postgres_close,
    .get_all = postgres_get_all,
    .put = postgres_put,
    .versions = postgres_versions,
    .get_version = postgres_get_version,
    .audit_log = postgres_audit_log,
    .stamp = postgres_stamp,
    .watch_fd = postgres_watch_fd,
    .listen = postgres_listen,
    .health = postgres_health,
    .report = postgres_report,
    .instances = postgres_instances,
};

int postgres_open(const struct store_place *place, struct store **out, struct error *e)
{
    struct postgres_store *p = xcalloc(1, sizeof(*p));
    p->base.ops = &postgres_ops;
    int r = postgres_link_new(place->database_url, &p->link, e);
    if (r == 0 && place->redis_url != NULL && place->redis_url[0] != '\0')
        r = subscription_open(place->redis_url, place->redis_prefix, place->keys, &p->subscription, e);
    if (r != 0)
        postgres_close(&p->base);
    else
        *out = &p->base;
    return r;
}
