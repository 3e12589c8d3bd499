/* The request log in Postgres: rows from events, once each, whatever happens. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/record/event.h"
#include "core/store/request_log.h"
#include "tests/unit/postgres_server.h"
#include "tests/unit/step_proxy.h"

#define COUNT(rows) (int)(sizeof(rows) / sizeof((rows)[0]))

enum { LINES_MAX = 10000, LINE_BYTES = 4096 };

static struct postgres_server server;
static struct arena *arena;
static const char *database, *url, *folder, *rejected;
static struct request_log *requests;
static struct request_log_outcome outcome;
static struct request_log_upkeep upkeep;
static struct error e;

static struct request_log *open_at(const char *database_url)
{
    struct request_log *opened;
    ck_assert_msg(request_log_new(database_url, rejected, &opened, &e) == 0, "%s", e.text);
    return opened;
}

static void set_up(void)
{
    char template[] = "/tmp/test_request_log.XXXXXX";
    arena = arena_new();
    url = postgres_server_add_database(&server, arena);
    database = arena_printf(arena, "test_%ld", (long)getpid());
    folder = arena_strdup(arena, mkdtemp(template));
    rejected = arena_printf(arena, "%s/llm-router.rejected.jsonl", folder);
    requests = open_at(url);
}

static void tear_down(void)
{
    request_log_free(requests);
    unlink(rejected);
    unlink(arena_printf(arena, "%s.old", rejected));
    rmdir(folder);
    arena_free(arena);
}

static const char *sql(const char *text)
{
    return postgres_server_sql(&server, database, arena, text);
}

static void expect_sql(const char *text, const char *expected)
{
    const char *found = sql(text);
    ck_assert_msg(found != NULL && strcmp(found, expected) == 0, "%s: \"%s\", expected \"%s\"", text,
                  found == NULL ? "(NULL)" : found, expected);
}

static void expect_rows(size_t n)
{
    expect_sql("SELECT count(*) FROM routing_decisions", arena_printf(arena, "%zu", n));
    expect_sql("SELECT count(*) FROM routing_decisions WHERE line_sha256 <> sha256(line)", "0");
}

static void expect_said(const char *words)
{
    ck_assert_msg(strstr(e.text, words) != NULL, "\"%s\" is not in: %s", words, e.text);
}

static int append(const struct span *lines, size_t n)
{
    return request_log_append(requests, lines, n, &outcome, &e);
}

static void must_append(const struct span *lines, size_t n)
{
    ck_assert_msg(append(lines, n) == 0, "%s", e.text);
}

static void must_keep_up(unsigned days)
{
    ck_assert_msg(request_log_keep_up(requests, days, &upkeep, &e) == 0, "%s", e.text);
}

static const char *rejected_text(void)
{
    struct span text;
    ck_assert_msg(file_read(rejected, 1 << 24, arena, &text, &e) == 0, "%s", e.text);
    return text.ptr;
}

/* The name of the partition of a month, and its first moment, in SQL. */
#define MONTH(offset)                                                                                 \
    "SELECT 'routing_decisions_' || to_char(clock_timestamp() AT TIME ZONE 'UTC' + interval '" offset \
    " months', 'YYYY_MM')"
#define BEGIN_OF(offset) "date_trunc('month', clock_timestamp()) + interval '" offset " months'"

/* --- events ------------------------------------------------------------------------- */

static struct span line_at(uint64_t time_us)
{
    char id[UUID_TEXT_BYTES];
    ids_uuid7(time_us, id);
    return span_cstr(arena_printf(arena, "{\"v\":1,\"id\":\"%s\",\"time\":%llu,\"end\":\"done\"}", id,
                                  (unsigned long long)time_us));
}

/* n events of now, as a request leaves them. */
static struct span *make_lines(size_t n)
{
    static struct request_event event;
    struct span *lines = arena_array_of(arena, struct span, n);
    struct buf line;
    buf_init(&line, EVENT_LIMIT_BYTES);
    for (size_t i = 0; i < n; i++) {
        char request_id[REQUEST_ID_TEXT_BYTES];
        event_begin(&event);
        ids_request_id(request_id);
        event.instance = "host-1";
        event.request_id = request_id;
        event.key_id = "0123456789abcdef";
        event.owner = span_cstr("alice");
        event.mount = "/v1";
        event.dialect = "chat";
        event.endpoint = "chat/completions";
        event.model = event.model_routed = span_cstr("gpt");
        for (int attempt = 0; attempt < 2; attempt++)
            *event_add_attempt(&event) = (struct attempt_event){
                .upstream = span_cstr(attempt == 0 ? "first" : "second"),
                .host = span_cstr("api.example.com"),
                .dialect = span_cstr("chat"),
                .key_fp = attempt == 0 ? "aaaaaaaa" : "bbbbbbbb",
                .verdict = attempt == 0 ? "rate" : "ok",
                .status = attempt == 0 ? 429 : 200,
            };
        event.status = 200;
        event.is_committed = true;
        event.fallback_reason = "429";
        event.ttft_us = 1000;
        event.total_us = 5000;
        event.upstream_us = 4000;
        event.usage.present = true;
        event.usage.input = 10;
        event.usage.output = (int64_t)i;
        buf_clear(&line);
        event_write(&event, &line);
        lines[i] = span_of(arena_span(arena, buf_span(&line)), line.len);
    }
    buf_free(&line);
    return lines;
}

/* --- what is in a row --------------------------------------------------------------- */

static const char whole_event[] =
    "{\"v\":1,\"id\":\"019aca3e-4d18-7abc-8def-0123456789ab\",\"time\":1764547200123456,\"instance\":\"i\","
    "\"request_id\":\"r\",\"trace_id\":\"t\",\"span_id\":\"s\",\"key_id\":\"k\",\"remote_user\":\"u\","
    "\"owner\":"
    "\"o\",\"mount\":\"/v1\",\"dialect\":\"chat\",\"endpoint\":\"chat/"
    "completions\",\"stream\":true,\"text_utf16\":13,\"model\":"
    "\"m\",\"model_routed\":\"n\",\"response_model\":\"p\",\"attempts\":[{\"n\":1,\"upstream\":\"a\",\"key_"
    "fp\":"
    "\"f\",\"provider\":\"x\"},{\"n\":7,\"upstream\":\"b\",\"key_fp\":\"g\"}],\"attempts_dropped\":5,\"end\":"
    "\"cut\",\"status\":200,\"code\":\"c\",\"committed\":true,\"fallback_depth\":6,\"fallback_reason\":"
    "\"429\",\"hedge\":\"failed\","
    "\"ttft_us\":1,\"total_us\":2,\"upstream_us\":3,\"overhead_us\":4,\"usage\":{\"input\":5,\"output\":6,"
    "\"cached_read\":7,\"cached_write\":8,\"reasoning\":9,\"audio_in\":10,\"audio_out\":11,\"characters\":12,"
    "\"audio_ms\":9223372036854775807,\"source\":\"estimated\"},\"later\":{\"id\":\"no\"}"
    "}";

static const char whole_row[] =
    "{\"text_utf16\": 13, \"code\": \"c\", \"hedge\": \"failed\", \"model\": \"m\", \"mount\": \"/v1\", "
    "\"owner\": \"o\", "
    "\"input\": 5, \"key_id\": "
    "\"k\", "
    "\"key_fp\": \"g\", \"output\": 6, \"status\": 200, \"stream\": true, \"dialect\": \"chat\", "
    "\"outcome\": "
    "\"cut\", \"ttft_us\": 1, \"attempts\": 7, \"audio_in\": 10, \"audio_ms\": 9223372036854775807, "
    "\"endpoint\": \"chat/completions\", \"event_id\": \"019aca3e-4d18-7abc-8def-0123456789ab\", "
    "\"instance\": "
    "\"i\", \"provider\": null, \"total_us\": 2, \"trace_id\": \"t\", \"upstream\": \"b\", \"audio_out\": "
    "11, "
    "\"committed\": true, \"reasoning\": 9, \"characters\": 12, \"request_id\": \"r\", \"started_at\": "
    "\"2025-12-01T00:00:00.123456+00:00\", \"cached_read\": 7, \"overhead_us\": 4, \"remote_user\": \"u\", "
    "\"upstream_us\": 3, \"cached_write\": 8, \"model_routed\": \"n\", "
    "\"usage_source\": "
    "\"estimated\", \"fallback_depth\": 6, \"response_model\": \"p\", \"fallback_reason\": \"429\"}";

START_TEST(a_row_has_what_the_event_says_and_its_very_bytes)
{
    const struct span line = span_cstr(whole_event);
    must_append(&line, 1);
    ck_assert_uint_eq(outcome.n_new, 1);
    const char *row =
        sql("SET timezone = 'UTC'; SELECT to_jsonb(r) - 'arrival' - 'line' - 'line_sha256' FROM "
            "routing_decisions r");
    ck_assert_msg(strcmp(row, sql(arena_printf(arena, "SELECT '%s'::jsonb", whole_row))) == 0, "%s", row);
    expect_sql("SELECT convert_from(line, 'UTF8') FROM routing_decisions", whole_event);
    expect_rows(1);
}
END_TEST

START_TEST(an_event_as_a_request_leaves_it_is_a_row)
{
    must_append(make_lines(3), 3);
    expect_rows(3);
    expect_sql(
        "SELECT string_agg(concat_ws(' ', owner, endpoint, outcome, status, attempts, upstream, key_fp, "
        "fallback_depth, input, output, usage_source), ',' ORDER BY output) FROM routing_decisions",
        "alice chat/completions done 200 2 second bbbbbbbb 1 10 0 upstream,"
        "alice chat/completions done 200 2 second bbbbbbbb 1 10 1 upstream,"
        "alice chat/completions done 200 2 second bbbbbbbb 1 10 2 upstream");
    /* Its id's time is its time, to the millisecond. */
    expect_sql(
        "SELECT count(*) FROM routing_decisions WHERE ('x' || substr(replace(event_id::text, '-', ''), 1, "
        "12))::bit(48)::bigint <> floor(extract(epoch FROM started_at) * 1000)",
        "0");
}
END_TEST

/* Of two attempts side by side. */
static const struct {
    const char *hedge, *attempts, *row; /* hedge, attempts, upstream, provider, key_fp */
} hedged[] = {
    { "lost",
      "{\"n\":1,\"decided\":true,\"upstream\":\"a\",\"provider\":\"x\",\"key_fp\":\"f\"},"
      "{\"n\":2,\"hedged\":true,\"upstream\":\"b\",\"key_fp\":\"g\"}",
      "lost 2 a x f" },
    { "won",
      "{\"n\":1,\"upstream\":\"a\",\"key_fp\":\"f\"},"
      "{\"n\":2,\"hedged\":true,\"decided\":true,\"upstream\":\"b\",\"provider\":\"y\",\"key_fp\":\"g\"}",
      "won 2 b y g" },
    { "failed",
      "{\"n\":1,\"upstream\":\"a\"},{\"n\":2,\"hedged\":true,\"upstream\":\"b\"},"
      "{\"n\":3,\"decided\":true,\"upstream\":\"c\",\"provider\":\"z\",\"key_fp\":\"h\"}",
      "failed 3 c z h" },
    { "cancelled",
      "{\"n\":1,\"decided\":false,\"upstream\":\"a\"},{\"n\":2,\"upstream\":\"b\",\"provider\":\"y\","
      "\"key_fp\":\"g\"}",
      "cancelled 2 b y g" },
    { "no_slot", "{\"n\":1,\"upstream\":\"a\",\"provider\":\"x\",\"key_fp\":\"f\"}", "no_slot 1 a x f" },
};

START_TEST(the_row_of_a_hedged_request_says_so_and_is_about_the_attempt_that_decided)
{
    struct span line = line_at(clock_wall_us());
    line = span_cstr(arena_printf(arena, "%.*s,\"hedge\":\"%s\",\"attempts\":[%s]}", (int)line.len - 1,
                                  line.ptr, hedged[_i].hedge, hedged[_i].attempts));
    must_append(&line, 1);
    expect_sql("SELECT concat_ws(' ', hedge, attempts, upstream, provider, key_fp) FROM routing_decisions",
               hedged[_i].row);
}
END_TEST

/* What a caller can bring into an event. */
static const struct {
    const char *text, *column;
} texts[] = {
    { "a\\u0000b\\u0000", "a\xEF\xBF\xBD"
                          "b\xEF\xBF\xBD" },
    { "\\ud800", "\xEF\xBF\xBD" },
    { "\\u00e4 \xC3\xA4 \\ud83d\\ude00", "\xC3\xA4 \xC3\xA4 \xF0\x9F\x98\x80" },
    { "'; DROP TABLE routing_decisions; --", "'; DROP TABLE routing_decisions; --" },
    { "\\\\ \\\" {} $1 ,", "\\ \" {} $1 ," },
    { "\\n\\t\\u0001", "\n\t\x01" },
    { "", "" },
};

START_TEST(no_text_of_a_caller_keeps_an_event_from_being_a_row)
{
    struct span line = line_at(clock_wall_us());
    line =
        span_cstr(arena_printf(arena, "%.*s,\"model\":\"%s\"}", (int)line.len - 1, line.ptr, texts[_i].text));
    must_append(&line, 1);
    ck_assert_uint_eq(outcome.n_new, 1);
    expect_sql("SELECT model FROM routing_decisions", texts[_i].column);
    expect_sql("SELECT convert_from(line, 'UTF8') FROM routing_decisions", line.ptr);
    expect_rows(1);
}
END_TEST

/* --- once each ---------------------------------------------------------------------- */

START_TEST(lines_that_come_again_change_nothing)
{
    struct span *lines = make_lines(10);
    must_append(lines, 5);
    must_append(lines, 10);
    ck_assert_uint_eq(outcome.n_new, 5);
    ck_assert_uint_eq(outcome.n_known, 5);
    lines[1] = lines[0]; /* within one call too */
    must_append(lines, 10);
    ck_assert_uint_eq(outcome.n_known, 10);
    expect_rows(10);
    must_append(lines, 0);
}
END_TEST

/* Appends all lines, a few at a time, from where a cursor stands that outlives the process; exits. */
static _Noreturn void ship_all(const char *database_url, const struct span *lines, size_t n, size_t *cursor)
{
    enum { BATCH = 4 };
    struct request_log *own = open_at(database_url);
    for (; *cursor < n; *cursor += BATCH)
        if (request_log_append(own, lines + *cursor, n - *cursor < BATCH ? n - *cursor : BATCH, &outcome,
                               &e) != 0)
            _exit(1);
    _exit(0);
}

static const enum step_act kills[] = { STEP_KILL_BEFORE, STEP_KILL_AFTER, STEP_CUT_ANSWER };

START_TEST(a_shipper_that_is_killed_between_any_two_steps_leaves_each_row_once)
{
    enum { LINES = 12 };
    size_t *cursor = mmap(NULL, sizeof(*cursor), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct step_proxy proxy;
    bool is_done = true;
    int at;
    step_proxy_open(&proxy, server.dir);
    const char *through = arena_printf(
        arena, "host=127.0.0.1 port=%d user=postgres dbname=%s sslmode=disable", proxy.port, database);
    for (at = 0; is_done; at++) {
        struct span
            lines[LINES]; /* so short that a statement is one message: else some steps had no answer */
        for (int i = 0; i < LINES; i++)
            lines[i] = line_at(clock_wall_us());
        sql("TRUNCATE routing_decisions");
        *cursor = 0;
        pid_t shipper = fork();
        if (shipper == 0)
            ship_all(through, lines, LINES, cursor);
        step_proxy_serve(&proxy, shipper, at, kills[_i], &is_done);
        waitpid(shipper, NULL, 0);
        if ((shipper = fork()) == 0)
            ship_all(url, lines, LINES, cursor);
        int status;
        waitpid(shipper, &status, 0);
        ck_assert_int_eq(status, 0);
        ck_assert_uint_eq(*cursor, LINES);
        expect_rows(LINES);
    }
    ck_assert_int_gt(at, 5); /* the connection, its settings, and three batches */
    close(proxy.listener);
    munmap(cursor, sizeof(*cursor));
}
END_TEST

START_TEST(two_instances_append_at_once_and_each_row_is_there_once)
{
    enum { INSTANCES = 2, LINES = 400 };
    const struct span *lines = make_lines((INSTANCES + 1) * LINES); /* a third of them is appended by both */
    pid_t pids[INSTANCES];
    for (int i = 0; i < INSTANCES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            size_t cursor = 0;
            ship_all(url, lines + i * LINES, 2 * LINES, &cursor);
        }
    }
    for (int i = 0; i < INSTANCES; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        ck_assert_int_eq(status, 0);
    }
    expect_rows((INSTANCES + 1) * LINES);
}
END_TEST

/* --- a server that is away ---------------------------------------------------------- */

START_TEST(while_the_server_is_away_nothing_is_lost_or_set_aside)
{
    struct span *lines = make_lines(4);
    request_log_free(requests);
    postgres_server_make(&server);
    database = "template";
    requests = open_at(postgres_server_url(&server, database, arena));
    must_append(lines, 2);
    postgres_server_end(&server);
    ck_assert_int_eq(append(lines, 4), ERR_SYSTEM);
    expect_said("cannot connect to Postgres");
    ck_assert_int_eq(request_log_keep_up(requests, 30, &upkeep, &e), ERR_SYSTEM);
    postgres_server_start(&server);
    must_append(lines, 4);
    ck_assert_uint_eq(outcome.n_known, 2);
    expect_rows(4);
    ck_assert_int_ne(access(rejected, F_OK), 0);
    postgres_server_remove(&server);
}
END_TEST

static void signal_server(int number)
{
    ck_assert_int_eq(kill(server.pid, number), 0);
    ck_assert_int_eq(system(arena_printf(arena, "pkill -%d -P %ld", number, (long)server.pid)), 0);
}

START_TEST(a_server_that_stops_for_a_while_is_waited_for)
{
    must_append(make_lines(2), 2);
    signal_server(SIGSTOP);
    pid_t waker = fork();
    if (waker == 0) {
        usleep(700 * 1000);
        signal_server(SIGCONT);
        _exit(0);
    }
    uint64_t began_us = clock_monotonic_us();
    must_append(make_lines(3), 3);
    ck_assert_uint_ge(clock_monotonic_us() - began_us, 500 * US_PER_MS);
    waitpid(waker, NULL, 0);
    expect_rows(5);
}
END_TEST

START_TEST(an_end_that_comes_nearer_ends_what_waits)
{
    _Atomic uint64_t *end_us =
        mmap(NULL, sizeof(*end_us), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *end_us = UINT64_MAX;
    request_log_end_at(requests, end_us);
    must_append(make_lines(2), 2);
    signal_server(SIGSTOP);
    pid_t ender = fork();
    if (ender == 0) {
        usleep(300 * 1000);
        *end_us = clock_monotonic_us();
        _exit(0);
    }
    uint64_t began_us = clock_monotonic_us();
    ck_assert_int_eq(append(make_lines(3), 3), ERR_SYSTEM);
    ck_assert_uint_lt(clock_monotonic_us() - began_us, 10 * US_PER_S); /* of 30 */
    expect_said("did not answer in time");
    waitpid(ender, NULL, 0);
    signal_server(SIGCONT);
    *end_us = UINT64_MAX;
    must_append(make_lines(1), 1);
    munmap((void *)end_us, sizeof(*end_us));
}
END_TEST

/* A lock that somebody holds ends the statement at the server, too: else each try would leave
 * a process there that waits. */
START_TEST(a_server_that_is_held_up_gives_up_before_its_client_does)
{
    must_append(make_lines(1), 1);
    PGconn *holder = PQconnectdb(url);
    PQclear(PQexec(holder, "BEGIN; LOCK TABLE routing_decisions IN ACCESS EXCLUSIVE MODE"));
    uint64_t began_us = clock_monotonic_us();
    ck_assert_int_eq(append(make_lines(1), 1), ERR_SYSTEM);
    ck_assert_uint_lt(clock_monotonic_us() - began_us, 20 * US_PER_S);
    expect_sql("SELECT count(*) FROM pg_locks WHERE NOT granted", "0");
    PQfinish(holder);
    must_append(make_lines(1), 1);
    expect_rows(2);
    ck_assert_int_ne(access(rejected, F_OK), 0);
}
END_TEST

/* --- a server that refuses ---------------------------------------------------------- */

static const struct {
    const char *statement, *words;
} refusals[] = {
    { "ALTER TABLE routing_decisions RENAME TO moved", "llm-routerctl migrate" },
    { "ALTER TABLE routing_decisions RENAME owner TO moved", "llm-routerctl migrate" },
    { "ALTER DATABASE %s SET default_transaction_read_only = on", "read-only" },
    { "REVOKE ALL ON SEQUENCE routing_decisions_arrival FROM nobody_%s", "permission denied" },
};

START_TEST(what_is_not_the_events_fault_sets_none_aside)
{
    const char *role = arena_printf(arena, "nobody_%s", database);
    sql(arena_printf(arena, "CREATE ROLE %s LOGIN; GRANT INSERT ON routing_decisions TO %s", role, role));
    sql(arena_printf(arena, refusals[_i].statement, database));
    request_log_free(requests);
    requests = open_at(arena_printf(arena, "host=%s dbname=%s user=%s", server.dir, database, role));
    ck_assert_int_eq(append(make_lines(3), 3), ERR_SYSTEM);
    expect_said(refusals[_i].words);
    ck_assert_int_ne(access(rejected, F_OK), 0);
}
END_TEST

/* Each is an event with one thing that the table cannot hold, or none at all. */
static const struct {
    const char *line, *reason;
} poisons[] = {
    { "{\"id\":\"ID\",\"time\":TIME,\"owner\":\"\xff\"}", "not JSON" },
    { "{\"id\":\"ID\",\"time\":TIME,\"owner\":\"\xed\xa0\x80\"}", "not JSON" },
    { "{\"id\":\"ID\",\"time\":TIME", "not JSON" },
    { "", "not JSON" },
    { "[]", "not-null constraint" },
    { "{\"id\":\"ID\",\"time\":TIME,\"ttft_us\":9223372036854775808}",
      "\"ttft_us\" is not an integer of at most" },
    { "{\"id\":\"ID\",\"time\":TIME,\"status\":2147483648}", "out of range" },
    { "{\"id\":\"ID\",\"time\":TIME,\"status\":\"200\"}", "\"status\" is not an integer" },
    { "{\"id\":\"ID\",\"time\":TIME,\"model\":7}", "\"model\" is not a string" },
    { "{\"id\":\"ID\",\"time\":TIME,\"stream\":\"yes\"}", "\"stream\" is not true or false" },
    { "{\"id\":\"ID\",\"time\":TIME,\"usage\":{\"input\":1.5}}", "\"input\" is not an integer" },
    { "{\"id\":\"no uuid\",\"time\":TIME}", "invalid input syntax for type uuid" },
    { "{\"time\":TIME}", "not-null constraint" },
    { "{\"id\":\"ID\"}", "not-null constraint" },
    { "{\"id\":\"ID\",\"time\":9223372036854775807}", "out of range" },
};

static struct span make_poison(int i)
{
    struct span fresh = line_at(clock_wall_us());
    const char *id = arena_span(arena, span_of(strstr(fresh.ptr, "\"id\":") + 6, 36));
    struct buf line;
    buf_init(&line, LINE_BYTES);
    for (const char *p = poisons[i].line; *p != '\0'; p++) {
        if (strncmp(p, "TIME", 4) == 0) {
            buf_printf(&line, "%llu", (unsigned long long)clock_wall_us());
            p += 3;
        } else if (strncmp(p, "ID", 2) == 0) {
            buf_append_cstr(&line, id);
            p += 1;
        } else {
            buf_append_char(&line, *p);
        }
    }
    struct span made = span_of(arena_span(arena, buf_span(&line)), line.len);
    buf_free(&line);
    return made;
}

START_TEST(an_event_that_can_be_no_row_is_set_aside_with_its_reason_and_holds_up_no_other)
{
    struct span *lines = make_lines(21);
    struct stat st;
    lines[10] = make_poison(_i);
    must_append(lines, 21);
    ck_assert_uint_eq(outcome.n_new, 20);
    ck_assert_uint_eq(outcome.n_rejected, 1);
    ck_assert_msg(strstr(outcome.reason, poisons[_i].reason) != NULL, "%.*s: \"%s\", expected \"%s\"",
                  (int)lines[10].len, lines[10].ptr, outcome.reason, poisons[_i].reason);
    expect_rows(20);
    ck_assert_ptr_nonnull(strstr(rejected_text(), "\"reason\":\""));
    ck_assert_int_eq(stat(rejected, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0640);
    /* It can come again, with new ones. */
    must_append(lines, 21);
    ck_assert_uint_eq(outcome.n_known, 20);
    expect_rows(20);
}
END_TEST

START_TEST(any_number_of_such_events_is_set_aside_each_with_its_line)
{
    enum { LINES = 64 };
    struct span *lines = make_lines(LINES);
    size_t n_poison = 0;
    for (int i = 0; i < COUNT(poisons); i++)
        lines[3 * i] = make_poison(i);
    must_append(lines, LINES);
    ck_assert_uint_eq(outcome.n_rejected, COUNT(poisons));
    expect_rows(LINES - COUNT(poisons));
    for (const char *p = rejected_text(); (p = strstr(p, "\"line\":\"")) != NULL; p++)
        n_poison++;
    ck_assert_uint_eq(n_poison, COUNT(poisons));
}
END_TEST

/* Only an event's own row is known; another's is not taken for it. */
START_TEST(a_unique_index_of_somebody_elses_refuses_and_loses_no_event)
{
    struct span lines[2];
    sql(arena_printf(arena, "CREATE UNIQUE INDEX ON %s (outcome)", sql(MONTH("0"))));
    for (int i = 0; i < 2; i++)
        lines[i] = line_at(clock_wall_us());
    must_append(lines, 2);
    ck_assert_uint_eq(outcome.n_new, 1);
    ck_assert_uint_eq(outcome.n_known, 0);
    ck_assert_uint_eq(outcome.n_rejected, 1);
    ck_assert_ptr_nonnull(strstr(outcome.reason, "unique constraint"));
    ck_assert_ptr_nonnull(strstr(rejected_text(), "\"line\":\"{"));
}
END_TEST

START_TEST(what_was_set_aside_is_bounded)
{
    const struct span poison = span_cstr("{}");
    struct stat st;
    int fd = open(rejected, O_CREAT | O_WRONLY, 0640);
    ck_assert_int_eq(ftruncate(fd, (1 << 24) - 10), 0);
    close(fd);
    must_append(&poison, 1);
    ck_assert_int_eq(stat(rejected, &st), 0);
    ck_assert_int_lt(st.st_size, 1000);
    ck_assert_int_eq(stat(arena_printf(arena, "%s.old", rejected), &st), 0);
    ck_assert_int_eq(st.st_size, (1 << 24) - 10);
    ck_assert_ptr_nonnull(strstr(rejected_text(), "\"line\":\"{}\"}"));
}
END_TEST

START_TEST(a_line_that_is_longer_than_any_event_is_set_aside_with_its_beginning)
{
    enum { LONG = 200 * 1024 };
    struct span lines[] = { make_lines(1)[0], { NULL, LONG } };
    char *text = arena_alloc(arena, LONG);
    memset(text, 'x', LONG);
    lines[1].ptr = text;
    must_append(lines, 2);
    ck_assert_uint_eq(outcome.n_rejected, 1);
    ck_assert_str_eq(outcome.reason, "longer than an event can be; this is its beginning");
    expect_rows(1);
}
END_TEST

START_TEST(an_event_that_cannot_be_set_aside_is_not_passed_over)
{
    struct span *lines = make_lines(3);
    lines[1] = span_cstr("{}");
    ck_assert_int_eq(mkdir(rejected, 0700), 0);
    ck_assert_int_eq(append(lines, 3), ERR_SYSTEM);
    expect_said(rejected);
    rmdir(rejected);
    must_append(lines, 3);
    ck_assert_uint_eq(outcome.n_rejected, 1);
    expect_rows(2);
}
END_TEST

/* --- months ------------------------------------------------------------------------- */

/* Where the row of an event is that began at a time, an expression of SQL. */
static const char *place_of(const char *time)
{
    const char *us = sql(
        arena_printf(arena, "SET timezone = 'UTC'; SELECT (extract(epoch FROM %s) * 1000000)::bigint", time));
    struct span line =
        span_cstr(arena_printf(arena, "{\"id\":\"%s\",\"time\":%s}", sql("SELECT gen_random_uuid()"), us));
    must_append(&line, 1);
    ck_assert_uint_eq(outcome.n_new, 1);
    return sql(arena_printf(arena,
                            "SELECT tableoid::regclass FROM routing_decisions WHERE extract(epoch FROM "
                            "started_at) * 1000000 = %s",
                            us));
}

static const struct {
    const char *time;  /* in SQL */
    const char *month; /* a statement that names the partition; NULL: the default one */
} places[] = {
    { BEGIN_OF("0"), MONTH("0") },
    { BEGIN_OF("1") " - interval '1 microsecond'", MONTH("0") },
    { BEGIN_OF("1"), MONTH("1") },
    { BEGIN_OF("2"), MONTH("2") },
    { BEGIN_OF("3") " - interval '1 microsecond'", MONTH("2") },
    { BEGIN_OF("3"), NULL },
    { BEGIN_OF("0") " - interval '1 microsecond'", NULL },
    { "clock_timestamp() - interval '1 year'", NULL },
    { "timestamptz '1970-01-01 00:00:00Z'", NULL },
    { "timestamptz '9999-12-31 23:59:59Z'", NULL },
};

START_TEST(a_row_is_in_the_partition_of_its_month_in_utc_or_in_the_default_one)
{
    sql(arena_printf(arena, "ALTER DATABASE %s SET timezone = 'Pacific/Auckland'", database));
    must_keep_up(0);
    ck_assert_uint_eq(upkeep.months_made, 0); /* migrate has made them */
    const char *place = place_of(places[_i].time);
    const char *expected = places[_i].month == NULL ? "routing_decisions_default" : sql(places[_i].month);
    ck_assert_msg(strcmp(place, expected) == 0, "%s: in %s, expected %s", places[_i].time, place, expected);
}
END_TEST

START_TEST(a_month_that_is_made_late_takes_its_rows_with_their_arrival)
{
    sql(arena_printf(arena, "DROP TABLE %s", sql(MONTH("0"))));
    struct span *lines = make_lines(5);
    must_append(lines, 3);
    place_of("clock_timestamp() - interval '1 year'");
    const char *before =
        sql("SELECT string_agg(arrival || event_id::text, ',' ORDER BY arrival) FROM routing_decisions");
    expect_sql("SELECT count(*) FROM routing_decisions_default", "4");
    must_keep_up(0);
    ck_assert_uint_eq(upkeep.months_made, 1);
    expect_sql("SELECT count(*) FROM routing_decisions_default", "1");
    expect_sql("SELECT string_agg(arrival || event_id::text, ',' ORDER BY arrival) FROM routing_decisions",
               before);
    must_append(lines, 5);
    ck_assert_uint_eq(outcome.n_known, 3);
    expect_rows(6);
}
END_TEST

START_TEST(who_reads_for_long_delays_months_and_no_rows)
{
    sql(arena_printf(arena, "DROP TABLE %s", sql(MONTH("2"))));
    PGconn *reader = PQconnectdb(url);
    PQclear(PQexec(reader, "BEGIN; SELECT count(*) FROM routing_decisions"));
    ck_assert_int_eq(request_log_keep_up(requests, 0, &upkeep, &e), ERR_SYSTEM);
    expect_said("held a lock");
    must_append(make_lines(2), 2);
    PQfinish(reader);
    must_keep_up(0);
    ck_assert_uint_eq(upkeep.months_made, 1);
    expect_rows(2);
}
END_TEST

START_TEST(of_many_instances_that_make_months_at_once_each_succeeds)
{
    enum { INSTANCES = 6 };
    pid_t pids[INSTANCES];
    unsigned *made =
        mmap(NULL, sizeof(unsigned) * INSTANCES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++)
        sql(arena_printf(arena, "DROP TABLE %s", sql(arena_printf(arena, MONTH("%d"), i))));
    for (int i = 0; i < INSTANCES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct request_log *own = open_at(url);
            int r = request_log_keep_up(own, 30, &upkeep, &e);
            made[i] = upkeep.months_made;
            _exit(r == 0 ? 0 : 1);
        }
    }
    unsigned sum = 0;
    for (int i = 0; i < INSTANCES; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        ck_assert_int_eq(status, 0);
        sum += made[i];
    }
    ck_assert_uint_eq(sum, 3);
}
END_TEST

/* --- retention ---------------------------------------------------------------------- */

/* A partition of a month that has passed. */
static void make_month(const char *offset)
{
    sql(arena_printf(
        arena,
        "SET timezone = 'UTC'; DO $$ BEGIN EXECUTE format('CREATE TABLE %%s PARTITION OF routing_decisions "
        "FOR VALUES FROM (%%L) TO (%%L)', 'routing_decisions_' || to_char(" BEGIN_OF(
            "%s") ", 'YYYY_MM'), " BEGIN_OF("%s") ", " BEGIN_OF("%s") " + interval '1 month'); END $$",
        offset, offset, offset));
}

START_TEST(retention_drops_months_that_are_wholly_older_and_nothing_else)
{
    static const char *const offsets[] = { "-14", "-3", "-2" };
    for (int i = 0; i < COUNT(offsets); i++) {
        make_month(offsets[i]);
        place_of(arena_printf(arena, BEGIN_OF("%s"), offsets[i]));
    }
    place_of("clock_timestamp()");
    place_of("clock_timestamp() - interval '10 years'");
    place_of("clock_timestamp() + interval '10 years'");
    expect_rows(6);

    must_keep_up(0);
    expect_rows(6);
    /* The last of the three ended so many whole days ago. */
    unsigned days = (unsigned)atoi(sql(
        "SET timezone = 'UTC'; SELECT extract(day FROM clock_timestamp() - (" BEGIN_OF("-1") "))::integer"));
    must_keep_up(days + 1);
    ck_assert_uint_eq(upkeep.months_dropped, 2);
    ck_assert_uint_eq(upkeep.rows_deleted, 1);
    expect_rows(3);
    must_keep_up(days);
    ck_assert_uint_eq(upkeep.months_dropped, 1);
    expect_rows(2);
    must_keep_up(days);
    ck_assert_uint_eq(upkeep.months_dropped + upkeep.rows_deleted, 0);
    must_keep_up(1);
    ck_assert_uint_eq(upkeep.months_dropped, 0);
    expect_rows(2); /* now, and in ten years */
    expect_sql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'routing_decisions'::regclass", "4");
}
END_TEST

START_TEST(a_table_of_another_name_or_one_that_was_detached_is_left_alone)
{
    make_month("-14");
    sql(arena_printf(arena, "ALTER TABLE routing_decisions DETACH PARTITION %s", sql(MONTH("-14"))));
    sql("CREATE TABLE routing_decisions_1999_01 ()");
    must_keep_up(1);
    ck_assert_uint_eq(upkeep.months_dropped, 0);
    expect_sql("SELECT count(*) FROM pg_class WHERE relname = 'routing_decisions_1999_01'", "1");
}
END_TEST

/* --- who reads the rows ------------------------------------------------------------- */

/* llm-router-log(7): rows from where the reader's cursor stands. */
static const char read_sql[] = "SELECT coalesce(max(arrival), %lld), count(*) FROM (SELECT arrival FROM "
                               "routing_decisions WHERE arrival > %lld ORDER BY arrival LIMIT 7) AS next";

struct reader {
    PGconn *conn;
    long long cursor;
    size_t n;
};

static size_t read_some(struct reader *reader)
{
    PGresult *result = PQexec(reader->conn, arena_printf(arena, read_sql, reader->cursor, reader->cursor));
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQerrorMessage(reader->conn));
    size_t n = strtoull(PQgetvalue(result, 0, 1), NULL, 10);
    reader->cursor = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    reader->n += n;
    PQclear(result);
    return n;
}

START_TEST(a_reader_misses_no_row_of_a_writer_that_was_overtaken)
{
    struct reader reader = { .conn = PQconnectdb(url) };
    PGconn *slow = PQconnectdb(url);
    PQclear(PQexec(slow, "BEGIN; INSERT INTO routing_decisions (started_at, event_id, line, line_sha256) "
                         "VALUES (now(), gen_random_uuid(), '', sha256(''))"));
    pid_t fast = fork();
    if (fast == 0) {
        size_t cursor = 0;
        ship_all(url, make_lines(3), 3, &cursor);
    }
    usleep(300 * 1000); /* it would be done by now, if it had not to wait */
    read_some(&reader);
    PQclear(PQexec(slow, "COMMIT"));
    int status;
    waitpid(fast, &status, 0);
    ck_assert_int_eq(status, 0);
    while (read_some(&reader) > 0)
        ;
    ck_assert_uint_eq(reader.n, 4);
    PQfinish(slow);
    PQfinish(reader.conn);
}
END_TEST

START_TEST(a_reader_beside_many_writers_sees_each_row_once)
{
    enum { WRITERS = 4, LINES = 60 };
    struct reader reader = { .conn = PQconnectdb(url) };
    const struct span *lines = make_lines(WRITERS * LINES);
    int alive = WRITERS;
    for (int i = 0; i < WRITERS; i++)
        if (fork() == 0) {
            size_t cursor = 0;
            ship_all(url, lines + i * LINES, LINES, &cursor);
        }
    while (alive > 0) {
        int status;
        read_some(&reader);
        while (waitpid(-1, &status, WNOHANG) > 0) {
            ck_assert_int_eq(status, 0);
            alive--;
        }
    }
    while (read_some(&reader) > 0)
        ;
    ck_assert_uint_eq(reader.n, WRITERS * LINES);
    expect_rows(WRITERS * LINES);
    PQfinish(reader.conn);
}
END_TEST

/* --- speed, which is said and not judged -------------------------------------------- */

START_TEST(ten_thousand_events_are_rows)
{
    const struct span *lines = make_lines(LINES_MAX);
    size_t bytes = 0;
    for (size_t i = 0; i < LINES_MAX; i++)
        bytes += lines[i].len;
    uint64_t began_us = clock_monotonic_us();
    must_append(lines, LINES_MAX);
    uint64_t ms = (clock_monotonic_us() - began_us) / US_PER_MS;
    const char *size = sql("SELECT sum(pg_total_relation_size(relid)) FROM "
                           "pg_partition_tree('routing_decisions')");
    printf("request_log: %d events of %zu bytes in %llu ms; %ld bytes a row, with its indexes\n", LINES_MAX,
           bytes / LINES_MAX, (unsigned long long)ms, atol(size) / LINES_MAX);
    ck_assert_uint_eq(outcome.n_new, LINES_MAX);
    expect_rows(LINES_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request_log");
    TCase *tests = tcase_create("request_log");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_row_has_what_the_event_says_and_its_very_bytes);
    tcase_add_test(tests, an_event_as_a_request_leaves_it_is_a_row);
    tcase_add_loop_test(tests, the_row_of_a_hedged_request_says_so_and_is_about_the_attempt_that_decided, 0,
                        COUNT(hedged));
    tcase_add_loop_test(tests, no_text_of_a_caller_keeps_an_event_from_being_a_row, 0, COUNT(texts));
    tcase_add_test(tests, lines_that_come_again_change_nothing);
    tcase_add_loop_test(tests, a_shipper_that_is_killed_between_any_two_steps_leaves_each_row_once, 0,
                        COUNT(kills));
    tcase_add_test(tests, two_instances_append_at_once_and_each_row_is_there_once);
    tcase_add_test(tests, while_the_server_is_away_nothing_is_lost_or_set_aside);
    tcase_add_test(tests, a_server_that_stops_for_a_while_is_waited_for);
    tcase_add_test(tests, an_end_that_comes_nearer_ends_what_waits);
    tcase_add_test(tests, a_server_that_is_held_up_gives_up_before_its_client_does);
    tcase_add_loop_test(tests, what_is_not_the_events_fault_sets_none_aside, 0, COUNT(refusals));
    tcase_add_loop_test(tests, an_event_that_can_be_no_row_is_set_aside_with_its_reason_and_holds_up_no_other,
                        0, COUNT(poisons));
    tcase_add_test(tests, any_number_of_such_events_is_set_aside_each_with_its_line);
    tcase_add_test(tests, a_unique_index_of_somebody_elses_refuses_and_loses_no_event);
    tcase_add_test(tests, what_was_set_aside_is_bounded);
    tcase_add_test(tests, a_line_that_is_longer_than_any_event_is_set_aside_with_its_beginning);
    tcase_add_test(tests, an_event_that_cannot_be_set_aside_is_not_passed_over);
    tcase_add_loop_test(tests, a_row_is_in_the_partition_of_its_month_in_utc_or_in_the_default_one, 0,
                        COUNT(places));
    tcase_add_test(tests, a_month_that_is_made_late_takes_its_rows_with_their_arrival);
    tcase_add_test(tests, who_reads_for_long_delays_months_and_no_rows);
    tcase_add_test(tests, of_many_instances_that_make_months_at_once_each_succeeds);
    tcase_add_test(tests, retention_drops_months_that_are_wholly_older_and_nothing_else);
    tcase_add_test(tests, a_table_of_another_name_or_one_that_was_detached_is_left_alone);
    tcase_add_test(tests, a_reader_misses_no_row_of_a_writer_that_was_overtaken);
    tcase_add_test(tests, a_reader_beside_many_writers_sees_each_row_once);
    tcase_add_test(tests, ten_thousand_events_are_rows);
    suite_add_tcase(suite, tests);
    postgres_server_make(&server);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    postgres_server_remove(&server);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
