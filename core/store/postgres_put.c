/*
 * A change in Postgres: one transaction with the row, its history and the audit log.
 * Writers of one value queue up at its row's lock; of two that would make the row, one
 * finds that it is there and looks again.
 */
#include "core/store/postgres_internal.h"

#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/crypto/digest.h"

enum { PUT_TIMEOUT_MS = 20000 };

/* The locks of a writer that has stopped in the middle are not held for longer than others
 * wait for them. */
static const char begin_sql[] = "BEGIN ISOLATION LEVEL READ COMMITTED;"
                                "SET LOCAL lock_timeout = 15000;"
                                "SET LOCAL idle_in_transaction_session_timeout = 10000";

static const char look_sql[] = "SELECT version, encode(sha256(convert_to(value, 'UTF8')), 'hex') = $2 "
                               "FROM config_kv WHERE key = $1 FOR UPDATE";

static const char update_sql[] = "UPDATE config_kv SET value = $2, version = $3, "
                                 "change = nextval('config_kv_change'), updated_at = clock_timestamp() "
                                 "WHERE key = $1";

static const char insert_sql[] = "INSERT INTO config_kv (key, value, version, change, updated_at) "
                                 "VALUES ($1, $2, $3, nextval('config_kv_change'), clock_timestamp()) "
                                 "ON CONFLICT (key) DO NOTHING";

/* From the row itself, so that the two cannot differ. */
static const char history_sql[] =
    "INSERT INTO config_kv_history (change, key, version, value, author, created_at) "
    "SELECT change, key, version, value, $2, updated_at "
    "FROM config_kv WHERE key = $1";

static const char audit_sql[] =
    "INSERT INTO admin_audit_log (key, version_before, version_after, actor, action, "
    "object, source_address, request_id, changes) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::json)";

struct put {
    struct postgres_link *link;
    const struct store_change *change;
    uint64_t deadline_us;
    bool exists, is_same;
    char before[STORE_VERSION_BYTES]; /* "" where it does not exist */
    char after[NANOID_TEXT_BYTES];
};

static int run(const struct put *put, const char *sql, const struct span *parameters, int n, PGresult **out,
               struct error *e)
{
    return postgres_link_run(put->link, sql, parameters, n, put->deadline_us, out, e);
}

/* Locks the row, if there is one, and says what it has. */
static int look(struct put *put, struct error *e)
{
    char digest[SHA256_HEX_BYTES];
    PGresult *result;
    sha256_hex(put->change->raw, digest);
    const struct span parameters[] = { span_cstr(put->change->key), span_cstr(digest) };
    int r = run(put, look_sql, parameters, 2, &result, e);
    if (r != 0)
        return r;
    put->exists = PQntuples(result) == 1;
    put->is_same = put->exists && PQgetvalue(result, 0, 1)[0] == 't';
    put->before[0] = '\0';
    if (put->exists)
        snprintf(put->before, sizeof(put->before), "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return 0;
}

/* ERR_CONFLICT: somebody else made the row meanwhile. */
static int write_row(const struct put *put, struct error *e)
{
    const struct span raw = put->change->raw;
    const struct span parameters[] = { span_cstr(put->change->key),
                                       raw.ptr == NULL ? span_cstr("") : raw, /* not SQL's NULL */
                                       span_cstr(put->after) };
    PGresult *result;
    int r = run(put, put->exists ? update_sql : insert_sql, parameters, 3, &result, e);
    if (r == 0) {
        r = strcmp(PQcmdTuples(result), "1") == 0 ? 0 : ERR_CONFLICT;
        PQclear(result);
    } else if (strcmp(postgres_link_state(put->link), "22021") == 0) {
        r = error_set(e, ERR_FORMAT, "the value is not text in UTF-8 without NULs");
    }
    return r;
}

static int write_history(const struct put *put, struct error *e)
{
    const char *actor = put->change->audit.actor;
    const struct span parameters[] = { span_cstr(put->change->key), span_cstr(actor == NULL ? "" : actor) };
    return run(put, history_sql, parameters, 2, NULL, e);
}

static int write_audit(const struct put *put, struct error *e)
{
    const struct store_audit *audit = &put->change->audit;
    const struct span parameters[] = {
        span_cstr(put->change->key),
        span_cstr(put->exists ? put->before : NULL),
        span_cstr(put->after),
        span_cstr(audit->actor),
        span_cstr(audit->action),
        span_cstr(audit->object),
        span_cstr(audit->source_address),
        span_cstr(audit->request_id),
        audit->changes.len > 0 ? audit->changes : span_cstr("[]"),
    };
    return run(put, audit_sql, parameters, 9, NULL, e);
}

static int commit(const struct put *put, struct error *e)
{
    struct error why = { 0 };
    int r = run(put, "COMMIT", NULL, 0, NULL, &why);
    if (r == 0 || postgres_link_is_open(put->link))
        return r == 0 ? 0 : error_set(e, r, "%s", why.text);
    return error_set(
        e, r, "%s, at the very commit: the change may have happened; read the value before trying again",
        why.text);
}

static int write_all(struct put *put, struct store_outcome *out, struct error *e)
{
    int r;
    do {
        if ((r = look(put, e)) != 0)
            return r;
        const char *current = put->exists ? put->before : NULL;
        if (!store_is_expected(put->change->expected, current))
            return store_refuse(put->change, current, out, e);
        if (put->is_same)
            return 0;
        r = write_row(put, e);
    } while (r == ERR_CONFLICT);
    if (r == 0)
        r = write_history(put, e);
    return r == 0 ? write_audit(put, e) : r;
}

static bool publish(struct postgres_store *p, const struct put *put)
{
    struct invalidation news = { .published_ms = clock_wall_us() / US_PER_MS };
    snprintf(news.key, sizeof(news.key), "%s", put->change->key);
    snprintf(news.version, sizeof(news.version), "%s", put->after);
    return p->subscription != NULL && subscription_publish(p->subscription, &news);
}

int postgres_put(struct store *store, const struct store_change *change, struct store_outcome *out,
                 struct error *e)
{
    struct postgres_store *p = postgres_of(store);
    struct put put = { .link = p->link, .change = change };
    uint64_t deadline_us = postgres_deadline_us();

    ids_nanoid(put.after);
    int r = postgres_begin(p, deadline_us, e);
    if (r == 0)
        r = postgres_link_run_script(p->link, begin_sql, deadline_us, e);
    put.deadline_us = clock_monotonic_us() + PUT_TIMEOUT_MS * US_PER_MS;
    if (r == 0)
        r = write_all(&put, out, e);
    bool is_read_only = strcmp(postgres_link_state(p->link), "25006") == 0;
    if (r == 0 && !put.is_same) {
        r = commit(&put, e);
    } else if (postgres_link_is_open(p->link)) {
        /* Its own failure closes the connection, which is the same. */
        postgres_link_run_script(p->link, "ROLLBACK", postgres_deadline_us(), NULL);
    }
    p->is_ok = postgres_link_is_open(p->link);
    if (is_read_only)
        postgres_link_close(p->link); /* another of its hosts may be the one that can be written by now */
    if (r == 0) {
        *out = (struct store_outcome){ .is_same = put.is_same };
        snprintf(out->version, sizeof(out->version), "%s", put.is_same ? put.before : put.after);
        out->is_published = !put.is_same && publish(p, &put);
    }
    return r;
}
