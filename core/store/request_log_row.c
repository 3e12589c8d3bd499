#include "core/store/request_log_row_internal.h"

#include "core/crypto/digest.h"
#include "core/json/scan.h"

/* Where in the event a value stands. */
enum part {
    PART_EVENT,
    PART_LAST_ATTEMPT,
    PART_ATTEMPT, /* the one that decided: the last, unless the event says which of two side by side */
    PART_USAGE,
    PARTS,
};

enum kind { TEXT, INTEGER, BOOLEAN };

static const struct column {
    const char *name; /* the table's */
    enum part part;
    const char *member;
    enum kind kind;
    const char *type;  /* in SQL, of what is sent */
    const char *value; /* how the column is made of it; NULL: as it is */
} columns[] = {
    { "started_at", PART_EVENT, "time", INTEGER, "bigint",
      "timestamptz 'epoch' + r.started_at * interval '1 microsecond'" },
    { "event_id", PART_EVENT, "id", TEXT, "uuid", NULL },
    { "instance", PART_EVENT, "instance", TEXT, "text", NULL },
    { "request_id", PART_EVENT, "request_id", TEXT, "text", NULL },
    { "trace_id", PART_EVENT, "trace_id", TEXT, "text", NULL },
    { "key_id", PART_EVENT, "key_id", TEXT, "text", NULL },
    { "owner", PART_EVENT, "owner", TEXT, "text", NULL },
    { "remote_user", PART_EVENT, "remote_user", TEXT, "text", NULL },
    { "mount", PART_EVENT, "mount", TEXT, "text", NULL },
    { "dialect", PART_EVENT, "dialect", TEXT, "text", NULL },
    { "endpoint", PART_EVENT, "endpoint", TEXT, "text", NULL },
    { "stream", PART_EVENT, "stream", BOOLEAN, "boolean", NULL },
    { "text_utf16", PART_EVENT, "text_utf16", INTEGER, "bigint", NULL },
    { "model", PART_EVENT, "model", TEXT, "text", NULL },
    { "model_routed", PART_EVENT, "model_routed", TEXT, "text", NULL },
    { "response_model", PART_EVENT, "response_model", TEXT, "text", NULL },
    { "outcome", PART_EVENT, "end", TEXT, "text", NULL },
    { "status", PART_EVENT, "status", INTEGER, "integer", NULL },
    { "code", PART_EVENT, "code", TEXT, "text", NULL },
    { "committed", PART_EVENT, "committed", BOOLEAN, "boolean", NULL },
    { "attempts", PART_LAST_ATTEMPT, "n", INTEGER, "integer", "coalesce(r.attempts, 0)" },
    { "fallback_depth", PART_EVENT, "fallback_depth", INTEGER, "integer", NULL },
    { "fallback_reason", PART_EVENT, "fallback_reason", TEXT, "text", NULL },
    { "hedge", PART_EVENT, "hedge", TEXT, "text", NULL },
    { "upstream", PART_ATTEMPT, "upstream", TEXT, "text", NULL },
    { "provider", PART_ATTEMPT, "provider", TEXT, "text", NULL },
    { "key_fp", PART_ATTEMPT, "key_fp", TEXT, "text", NULL },
    { "ttft_us", PART_EVENT, "ttft_us", INTEGER, "bigint", NULL },
    { "total_us", PART_EVENT, "total_us", INTEGER, "bigint", NULL },
    { "upstream_us", PART_EVENT, "upstream_us", INTEGER, "bigint", NULL },
    { "overhead_us", PART_EVENT, "overhead_us", INTEGER, "bigint", NULL },
    { "input", PART_USAGE, "input", INTEGER, "bigint", NULL },
    { "output", PART_USAGE, "output", INTEGER, "bigint", NULL },
    { "cached_read", PART_USAGE, "cached_read", INTEGER, "bigint", NULL },
    { "cached_write", PART_USAGE, "cached_write", INTEGER, "bigint", NULL },
    { "reasoning", PART_USAGE, "reasoning", INTEGER, "bigint", NULL },
    { "audio_in", PART_USAGE, "audio_in", INTEGER, "bigint", NULL },
    { "audio_out", PART_USAGE, "audio_out", INTEGER, "bigint", NULL },
    { "characters", PART_USAGE, "characters", INTEGER, "bigint", NULL },
    { "audio_ms", PART_USAGE, "audio_ms", INTEGER, "bigint", NULL },
    { "usage_source", PART_USAGE, "source", TEXT, "text", NULL },
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* What a row has besides: the line itself, which is text until it is stored. */
#define LINE_COLUMNS ", line, line_sha256"
#define LINE_VALUES ", convert_to(r.line, 'UTF8'), decode(r.line_sha256, 'hex')"
#define LINE_TYPES ", line text, line_sha256 text"

void request_log_write_statement(struct buf *sql)
{
    buf_append_cstr(sql, "INSERT INTO routing_decisions (");
    for (int i = 0; i < COLUMNS; i++)
        buf_printf(sql, "%s%s", i == 0 ? "" : ", ", columns[i].name);
    buf_append_cstr(sql, LINE_COLUMNS ") SELECT ");
    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].value != NULL)
            buf_printf(sql, "%s%s", i == 0 ? "" : ", ", columns[i].value);
        else
            buf_printf(sql, "%sr.%s", i == 0 ? "" : ", ", columns[i].name);
    buf_append_cstr(sql, LINE_VALUES " FROM json_to_recordset($1::json) AS r(");
    for (int i = 0; i < COLUMNS; i++)
        buf_printf(sql, "%s%s %s", i == 0 ? "" : ", ", columns[i].name, columns[i].type);
    buf_append_cstr(sql, LINE_TYPES ") ON CONFLICT (started_at, event_id) DO NOTHING");
}

/* Postgres' text has no NUL, which an event may have where a caller sent one. */
static struct span without_nuls(struct span text, struct arena *arena)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t nuls = 0, len = 0;
    for (size_t i = 0; i < text.len; i++)
        nuls += text.ptr[i] == '\0';
    if (nuls == 0)
        return text;
    char *out = arena_alloc(arena, text.len + nuls * (sizeof(replacement) - 2));
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '\0') {
            out[len++] = text.ptr[i];
            continue;
        }
        memcpy(out + len, replacement, sizeof(replacement) - 1);
        len += sizeof(replacement) - 1;
    }
    return span_of(out, len);
}

static int refuse(const struct column *column, const char *expected, struct error *e)
{
    return error_set(e, ERR_FORMAT, "\"%s\" is not %s", column->member, expected);
}

static int write_value(const struct column *column, const struct json_value *value, struct arena *arena,
                       struct json_writer *w, struct error *e)
{
    long long number;

    switch (column->kind) {
    case TEXT:
        if (value->kind != JSON_KIND_STRING)
            return refuse(column, "a string", e);
        jw_member_span(w, column->name, without_nuls(json_decode(arena, value->raw), arena));
        return 0;
    case INTEGER:
        if (value->kind != JSON_KIND_NUMBER || !json_int(value->raw, &number))
            return refuse(column, "an integer of at most 64 bits", e);
        break;
    case BOOLEAN:
        if (value->kind != JSON_KIND_TRUE && value->kind != JSON_KIND_FALSE)
            return refuse(column, "true or false", e);
        break;
    }
    jw_key(w, column->name);
    jw_raw(w, value->raw);
    return 0;
}

/* Finds the members of one part: found[i] is that of columns[i]. `inner`, if not NULL, gets what
 * stands at the path behind them. */
static int find_members(struct span text, enum part part, const char *const *inner_paths, size_t n_inner,
                        struct json_value *inner, struct json_value found[COLUMNS], struct error *e)
{
    struct json_want wants[JSON_WANTS_MAX];
    struct json_value values[JSON_WANTS_MAX];
    struct json_fault fault;
    size_t n = 0, at = 0;

    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].part == part)
            wants[n++] = (struct json_want){ columns[i].member, false };
    for (size_t i = 0; i < n_inner; i++)
        wants[n++] = (struct json_want){ inner_paths[i], false };
    int r = json_find(text, wants, n, 0, values, &fault);
    if (r == ERR_FORMAT)
        return error_set(e, ERR_FORMAT, "not JSON: %s at byte %zu", fault.what, fault.offset);
    if (r != 0)
        return error_set(e, ERR_FORMAT, "not an event: nested too deeply");
    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].part == part)
            found[i] = values[at++];
    for (size_t i = 0; i < n_inner; i++)
        inner[i] = values[at++];
    return 0;
}

struct decided {
    bool is_next;
    struct json_value attempt;
};

/* Members come before what they are members of. */
static int keep_decided(void *ctx, const struct json_value *value)
{
    struct decided *decided = ctx;

    if (value->path == 1)
        decided->is_next = value->kind == JSON_KIND_TRUE;
    else if (decided->is_next)
        *decided = (struct decided){ false, *value };
    return 0;
}

/* Of an event that was read without a fault. */
static struct json_value find_decided(struct span line, struct json_value last)
{
    static const struct json_want wants[] = { { "attempts.*", false }, { "attempts.*.decided", false } };
    struct decided decided = { false, last };

    json_scan(line, wants, 2, 0, keep_decided, &decided, NULL);
    return decided.attempt;
}

/* The values of all columns; what is not there is absent. */
static int find_all(struct span line, struct json_value found[COLUMNS], struct error *e)
{
    static const char *const paths[] = { "attempts.*", "usage", "hedge" };
    struct json_value inner[3], of_part[PARTS] = { { .kind = JSON_KIND_ABSENT } };

    memset(found, 0, COLUMNS * sizeof(*found));
    int r = find_members(line, PART_EVENT, paths, 3, inner, found, e);
    if (r != 0)
        return r;
    of_part[PART_LAST_ATTEMPT] = inner[0];
    of_part[PART_ATTEMPT] = inner[2].kind == JSON_KIND_STRING ? find_decided(line, inner[0]) : inner[0];
    of_part[PART_USAGE] = inner[1];
    for (int part = PART_EVENT + 1; r == 0 && part < PARTS; part++) {
        if (of_part[part].kind == JSON_KIND_OBJECT)
            r = find_members(of_part[part].raw, (enum part)part, NULL, 0, NULL, found, e);
    }
    return r;
}

int request_log_write_row(struct span line, struct arena *arena, struct json_writer *w, struct error *e)
{
    struct json_value found[COLUMNS];
    char digest[SHA256_HEX_BYTES];
    const struct json_writer before = *w;
    size_t len = w->out->len;

    int r = find_all(line, found, e);
    if (r != 0)
        return r;
    jw_begin_object(w);
    for (int i = 0; r == 0 && i < COLUMNS; i++)
        if (found[i].kind != JSON_KIND_ABSENT && found[i].kind != JSON_KIND_NULL)
            r = write_value(&columns[i], &found[i], arena, w, e);
    if (r != 0) {
        w->out->len = len;
        w->out->overflowed = false;
        *w = before;
        return r;
    }
    sha256_hex(line, digest);
    jw_member_span(w, "line", line);
    jw_member_cstr(w, "line_sha256", digest);
    jw_end_object(w);
    return 0;
}
