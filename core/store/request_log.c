#include "core/store/request_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/store/jsonl_internal.h"
#include "core/store/postgres_link_internal.h"
#include "core/store/request_log_row_internal.h"

enum {
    CONNECT_S = 5,
    STATEMENT_S = 30,
    STATEMENT_BYTES = 16 * 1024,
    ROWS_BYTES = 4 * 1024 * 1024,        /* of one statement; what is more goes into the next */
    LINE_BYTES_MAX = 128 * 1024,         /* twice what an event has at most */
    ROW_BYTES_MAX = 13 * LINE_BYTES_MAX, /* the line and the texts in it, if each byte is escaped */
    REJECTED_BYTES = 16 * 1024 * 1024,
    REJECTED_MODE = 0640,
};

/* The server gives up before we do: what waits there for a lock when its client has gone
 * would go on waiting, and so would the next try, and the one after it. */
static const char set_up_sql[] = "SET lock_timeout = 5000; SET statement_timeout = 25000";

struct request_log {
    struct postgres_link *link;
    char *rejected_path;
    struct buf statement; /* with a NUL */
};

int request_log_new(const char *database_url, const char *rejected_path, struct request_log **out,
                    struct error *e)
{
    struct postgres_link *link;
    int r = postgres_link_new(database_url, &link, e);
    if (r != 0)
        return r;
    struct request_log *log = xcalloc(1, sizeof(*log));
    log->link = link;
    log->rejected_path = xstrdup(rejected_path);
    buf_init(&log->statement, STATEMENT_BYTES);
    request_log_write_statement(&log->statement);
    buf_append_char(&log->statement, '\0');
    *out = log;
    return 0;
}

void request_log_free(struct request_log *log)
{
    if (log == NULL)
        return;
    postgres_link_free(log->link);
    buf_free(&log->statement);
    free(log->rejected_path);
    free(log);
}

void request_log_end_at(struct request_log *log, const _Atomic uint64_t *end_us)
{
    postgres_link_end_at(log->link, end_us);
}

static uint64_t deadline_us(unsigned seconds)
{
    return clock_monotonic_us() + seconds * US_PER_S;
}

static int connect_link(struct request_log *log, struct error *e)
{
    bool is_new;
    int r = postgres_link_connect(log->link, deadline_us(CONNECT_S), &is_new, e);
    if (r == 0 && is_new) {
        r = postgres_link_run_script(log->link, set_up_sql, deadline_us(CONNECT_S), e);
        if (r != 0)
            postgres_link_close(log->link);
    }
    return r;
}

/* --- what can be no row --- */

/* Data exceptions and violated constraints (PostgreSQL's appendix A) are the rows' fault; all other
 * refusals are nobody's, and may pass. */
static bool is_rows_fault(const char *state)
{
    return strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0;
}

/* The newest are kept, and those before them. */
static int make_room(const struct request_log *log, size_t bytes, struct arena *arena, struct error *e)
{
    struct stat st;
    if (stat(log->rejected_path, &st) != 0 || (size_t)st.st_size + bytes <= REJECTED_BYTES)
        return 0;
    if (rename(log->rejected_path, arena_printf(arena, "%s.old", log->rejected_path)) == 0)
        return 0;
    return error_set(e, ERR_SYSTEM, "cannot rename %s: %s", log->rejected_path, strerror(errno));
}

static int set_aside(const struct request_log *log, struct span line, const char *reason,
                     struct request_log_outcome *out, struct error *e)
{
    struct arena *arena = arena_new();
    char time[CLOCK_TEXT_BYTES];
    struct json_writer w;
    struct buf record;

    clock_text(clock_wall_us(), time);
    buf_init(&record, ROW_BYTES_MAX);
    jw_init(&w, &record);
    jw_begin_object(&w);
    jw_member_cstr(&w, "time", time);
    jw_member_cstr(&w, "reason", reason);
    jw_member_span(&w, "line", span_of(line.ptr, line.len < LINE_BYTES_MAX ? line.len : LINE_BYTES_MAX));
    jw_end_object(&w);
    int r = make_room(log, record.len, arena, e);
    if (r == 0)
        r = jsonl_append(log->rejected_path, buf_span(&record), REJECTED_MODE, e);
    if (r == 0) {
        out->n_rejected++;
        snprintf(out->reason, sizeof(out->reason), "%s", reason);
    }
    buf_free(&record);
    arena_free(arena);
    return r;
}

/* --- appending --- */

/* Rows as they are sent, "[row,row,…]", and the lines that they were made from. */
struct rows {
    struct buf json;
    struct row {
        size_t begin, end; /* in the JSON */
        struct span line;
    } * list;
    size_t n;
};

/* Appends rows[first] to rows[last - 1]. *is_fault: the server refused them for what they are. */
static int send_rows(struct request_log *log, const struct rows *rows, size_t first, size_t last,
                     struct request_log_outcome *out, bool *is_fault, struct error *e)
{
    char *json = rows->json.data;
    size_t begin = rows->list[first].begin - 1, end = rows->list[last - 1].end;
    PGresult *result;

    /* A part of an array becomes one by its brackets, which stand where commas were. */
    char before = json[begin], after = json[end];
    json[begin] = '[';
    json[end] = ']';
    const struct span parameter = span_of(json + begin, end + 1 - begin);
    int r = postgres_link_run(log->link, log->statement.data, &parameter, 1, deadline_us(STATEMENT_S),
                              &result, e);
    json[begin] = before;
    json[end] = after;
    *is_fault = r != 0 && is_rows_fault(postgres_link_state(log->link));
    if (r != 0)
        return r;
    size_t n_new = strtoull(PQcmdTuples(result), NULL, 10);
    out->n_new += n_new;
    out->n_known += last - first - n_new;
    PQclear(result);
    return 0;
}

/* Halves what is refused until the one row is found that is to blame. */
static int append_rows(struct request_log *log, const struct rows *rows, size_t first, size_t last,
                       struct request_log_outcome *out, struct error *e)
{
    struct error why = { 0 };
    bool is_fault;

    int r = send_rows(log, rows, first, last, out, &is_fault, &why);
    if (r == 0)
        return 0;
    if (!is_fault)
        return error_set(e, r, "%s", why.text);
    if (last - first == 1)
        return set_aside(log, rows->list[first].line, why.text, out, e);
    size_t middle = first + (last - first) / 2;
    r = append_rows(log, rows, first, middle, out, e);
    return r == 0 ? append_rows(log, rows, middle, last, out, e) : r;
}

static void clear_rows(struct rows *rows)
{
    buf_clear(&rows->json);
    buf_append_char(&rows->json, '[');
    rows->n = 0;
}

/* Adds the row of a line, or sets the line aside. */
static int add_row(struct request_log *log, struct span line, struct arena *arena, struct rows *rows,
                   struct request_log_outcome *out, struct error *e)
{
    struct json_writer w;
    struct error why;
    struct row *row = &rows->list[rows->n];

    jw_init(&w, &rows->json);
    *row = (struct row){ .begin = rows->json.len, .line = line };
    int r = line.len <= LINE_BYTES_MAX
                ? request_log_write_row(line, arena, &w, &why)
                : error_set(&why, ERR_LIMIT, "longer than an event can be; this is its beginning");
    if (r != 0)
        return set_aside(log, line, why.text, out, e);
    row->end = rows->json.len;
    buf_append_char(&rows->json, ',');
    rows->n++;
    return 0;
}

int request_log_append(struct request_log *log, const struct span *lines, size_t n,
                       struct request_log_outcome *out, struct error *e)
{
    struct request_log_outcome outcome = { 0 };
    struct arena *arena = arena_new();
    struct rows rows = { .list = arena_array_of(arena, struct row, n) };

    buf_init(&rows.json, ROWS_BYTES + ROW_BYTES_MAX);
    clear_rows(&rows);
    int r = connect_link(log, e);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = add_row(log, lines[i], arena, &rows, &outcome, e);
        if (r == 0 && rows.n > 0 && (i + 1 == n || rows.json.len >= ROWS_BYTES)) {
            r = append_rows(log, &rows, 0, rows.n, &outcome, e);
            clear_rows(&rows);
        }
    }
    buf_free(&rows.json);
    arena_free(arena);
    if (r == 0)
        *out = outcome;
    return r;
}

/* --- partitions --- */

static int ask(struct request_log *log, const char *sql, const struct span *parameter, PGresult **out,
               struct error *e)
{
    return postgres_link_run(log->link, sql, parameter, parameter == NULL ? 0 : 1, deadline_us(STATEMENT_S),
                             out, e);
}

int request_log_keep_up(struct request_log *log, unsigned keep_days, struct request_log_upkeep *out,
                        struct error *e)
{
    struct request_log_upkeep done = { 0 };
    PGresult *result;
    char days[16];
    snprintf(days, sizeof(days), "%u", keep_days);
    const struct span parameter = span_cstr(days);

    int r = connect_link(log, e);
    if (r == 0)
        r = ask(log, "SELECT routing_decisions_make_months()", NULL, &result, e);
    if (r != 0)
        return r;
    done.months_made = (unsigned)strtoul(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    if (keep_days > 0) {
        r = ask(log, "SELECT dropped, deleted FROM routing_decisions_expire($1::integer)", &parameter,
                &result, e);
        if (r != 0)
            return r;
        done.months_dropped = (unsigned)strtoul(PQgetvalue(result, 0, 0), NULL, 10);
        done.rows_deleted = strtoull(PQgetvalue(result, 0, 1), NULL, 10);
        PQclear(result);
    }
    *out = done;
    return 0;
}
