#include "core/store/postgres_link_internal.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/store/postgres_address_internal.h"

enum { PARAMETERS_MAX = 16, TEXT_OID = 25, SQLSTATE_BYTES = 6, LOOK_MS = 500 };

struct postgres_link {
    struct postgres_address *address;
    PGconn *conn; /* NULL: not connected */
    const _Atomic uint64_t *end_us;
    char state[SQLSTATE_BYTES];
};

int postgres_link_new(const char *database_url, struct postgres_link **out, struct error *e)
{
    struct postgres_address *address;
    int r = postgres_address_parse(database_url, &address, e);
    if (r != 0)
        return r;
    *out = xcalloc(1, sizeof(**out));
    (*out)->address = address;
    return 0;
}

void postgres_link_close(struct postgres_link *link)
{
    PQfinish(link->conn);
    link->conn = NULL;
}

void postgres_link_free(struct postgres_link *link)
{
    if (link == NULL)
        return;
    postgres_link_close(link);
    postgres_address_free(link->address);
    free(link);
}

void postgres_link_end_at(struct postgres_link *link, const _Atomic uint64_t *end_us)
{
    link->end_us = end_us;
}

bool postgres_link_is_open(const struct postgres_link *link)
{
    return link->conn != NULL;
}

const char *postgres_link_state(const struct postgres_link *link)
{
    return link->state;
}

/* The deadline, or the link's end if that is nearer. */
static uint64_t nearest(const struct postgres_link *link, uint64_t deadline_us)
{
    uint64_t end_us =
        link->end_us == NULL ? UINT64_MAX : atomic_load_explicit(link->end_us, memory_order_relaxed);
    return end_us < deadline_us ? end_us : deadline_us;
}

/* Waits for `events` of the socket; false: the deadline has passed. */
static bool wait_for(const struct postgres_link *link, short events, uint64_t deadline_us)
{
    for (;;) {
        uint64_t now_us = clock_monotonic_us(), until_us = nearest(link, deadline_us);
        struct pollfd p = { .fd = PQsocket(link->conn), .events = events };
        if (now_us >= until_us)
            return false;
        /* Rounded up: what is left must not be spent in a loop. */
        uint64_t left_ms = (until_us - now_us + US_PER_MS - 1) / US_PER_MS;
        if (link->end_us != NULL && left_ms > LOOK_MS)
            left_ms = LOOK_MS;
        if (poll(&p, 1, (int)left_ms) > 0)
            return true;
    }
}

static int fail_deadline(struct postgres_link *link, const char *doing, struct error *e)
{
    postgres_link_close(link);
    return error_set(e, ERR_SYSTEM, "Postgres did not answer in time %s", doing);
}

/* Closes it for the reason that libpq has. A password is in no message that is known; it is
 * looked for all the same. */
static int fail_lost(struct postgres_link *link, const char *what, struct error *e)
{
    const char *password = postgres_address_password(link->address);
    char line[sizeof(e->text)];
    struct span message = span_trim(span_cstr(PQerrorMessage(link->conn)));
    snprintf(line, sizeof(line), "%.*s", (int)message.len, message.ptr);
    for (char *end = line; (end = strpbrk(end, "\n\t")) != NULL;)
        *end = ' ';
    postgres_link_close(link);
    if (password != NULL && strstr(line, password) != NULL)
        return error_set(e, ERR_SYSTEM, "%s (the reason is not shown, since it holds the password)", what);
    return error_set(e, ERR_SYSTEM, "%s: %s", what, line);
}

static const char connection_lost[] = "the connection to Postgres was lost";

static void ignore_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

static int make_connection(struct postgres_link *link, uint64_t deadline_us, struct error *e)
{
    struct arena *arena = arena_new();
    struct postgres_parameters parameters;
    PostgresPollingStatusType waits_for = PGRES_POLLING_WRITING;
    int r = postgres_address_resolve(link->address, nearest(link, deadline_us), arena, &parameters, e);
    if (r != 0)
        goto out;
    link->conn = PQconnectStartParams(parameters.keywords, parameters.values, 0);
    while (link->conn != NULL && PQstatus(link->conn) != CONNECTION_BAD && waits_for != PGRES_POLLING_OK &&
           waits_for != PGRES_POLLING_FAILED) {
        if (!wait_for(link, waits_for == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_us)) {
            r = fail_deadline(link, "to be connected to", e);
            goto out;
        }
        waits_for = PQconnectPoll(link->conn);
    }
    if (link->conn == NULL || waits_for != PGRES_POLLING_OK) {
        r = fail_lost(link, "cannot connect to Postgres", e);
        goto out;
    }
    PQsetNoticeProcessor(link->conn, ignore_notice, NULL);
    PQsetnonblocking(link->conn, 1);
out:
    arena_free(arena);
    return r;
}

/* A server that has gone has said so, or closed its end, while nothing was asked of it. */
static bool is_still_there(PGconn *conn)
{
    struct pollfd p = { .fd = PQsocket(conn), .events = POLLIN };
    while (poll(&p, 1, 0) > 0)
        if (PQconsumeInput(conn) == 0)
            return false;
    return PQstatus(conn) == CONNECTION_OK;
}

int postgres_link_connect(struct postgres_link *link, uint64_t deadline_us, bool *is_new, struct error *e)
{
    if (link->conn != NULL && !is_still_there(link->conn))
        postgres_link_close(link);
    bool must_connect = link->conn == NULL;
    if (is_new != NULL)
        *is_new = must_connect;
    return must_connect ? make_connection(link, deadline_us, e) : 0;
}

/* What the server's refusal means to an operator. */
static const struct meaning {
    const char *state, *text;
} meanings[] = {
    { "25006", "the database is read-only: a standby, or default_transaction_read_only is on" },
    { "42P01", "the database lacks tables of llm-router: run llm-routerctl migrate" },
    { "42703", "the database's tables are not those of this program: run llm-routerctl migrate" },
    { "42883", "the database's tables are not those of this program: run llm-routerctl migrate" },
    { "55P03", "somebody held a lock in the database for too long" },
};

static int fail_refused(struct postgres_link *link, const PGresult *result, struct error *e)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    snprintf(link->state, sizeof(link->state), "%s", state == NULL ? "" : state);
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (strcmp(meanings[i].state, link->state) == 0)
            return error_set(e, ERR_SYSTEM, "%s", meanings[i].text);
    /* The first line alone: what follows it may quote values. */
    return error_set(e, ERR_SYSTEM, "Postgres: %.300s (SQLSTATE %s)", message == NULL ? "failed" : message,
                     link->state);
}

/* Sends what is left and waits until a result can be taken. */
static int await_result(struct postgres_link *link, uint64_t deadline_us, struct error *e)
{
    for (;;) {
        int unsent = PQflush(link->conn);
        if (unsent == 0 && PQisBusy(link->conn) == 0)
            return 0;
        if (!wait_for(link, (short)(unsent == 1 ? POLLIN | POLLOUT : POLLIN), deadline_us))
            return fail_deadline(link, "to a statement", e);
        if (PQconsumeInput(link->conn) == 0 || unsent < 0)
            return fail_lost(link, connection_lost, e);
    }
}

/* Takes all results of what was sent; the last one is *out. */
static int take_results(struct postgres_link *link, uint64_t deadline_us, PGresult **out, struct error *e)
{
    PGresult *last = NULL, *result;
    int r = 0;
    while (await_result(link, deadline_us, e) == 0) {
        if ((result = PQgetResult(link->conn)) == NULL)
            break;
        PQclear(last);
        last = result;
        if (r == 0 && PQresultStatus(result) != PGRES_TUPLES_OK &&
            PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_EMPTY_QUERY)
            r = fail_refused(link, result, e);
    }
    if (link->conn == NULL)
        r = ERR_SYSTEM; /* said by await_result */
    else if (PQstatus(link->conn) != CONNECTION_OK) {
        if (r == 0)
            r = error_set(e, ERR_SYSTEM, "%s", connection_lost);
        postgres_link_close(link);
    }
    if (r == 0 && out != NULL)
        *out = last;
    else
        PQclear(last);
    return r;
}

int postgres_link_run(struct postgres_link *link, const char *sql, const struct span *parameters, int n,
                      uint64_t deadline_us, PGresult **out, struct error *e)
{
    const char *values[PARAMETERS_MAX];
    int lengths[PARAMETERS_MAX], formats[PARAMETERS_MAX];
    Oid types[PARAMETERS_MAX];

    link->state[0] = '\0';
    if (link->conn == NULL)
        return error_set(e, ERR_SYSTEM, "%s", connection_lost);
    for (int i = 0; i < n; i++) {
        values[i] = parameters[i].ptr;
        lengths[i] = (int)parameters[i].len;
        formats[i] = 1; /* of text: its bytes, with their number */
        types[i] = TEXT_OID;
    }
    if (PQsendQueryParams(link->conn, sql, n, types, values, lengths, formats, 0) == 0)
        return fail_lost(link, connection_lost, e);
    return take_results(link, deadline_us, out, e);
}

int postgres_link_run_script(struct postgres_link *link, const char *sql, uint64_t deadline_us,
                             struct error *e)
{
    link->state[0] = '\0';
    if (link->conn == NULL)
        return error_set(e, ERR_SYSTEM, "%s", connection_lost);
    if (PQsendQuery(link->conn, sql) == 0)
        return fail_lost(link, connection_lost, e);
    return take_results(link, deadline_us, NULL, e);
}
