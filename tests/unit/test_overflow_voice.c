/* What the overflow process says, with settings and a state directory of the test's own. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "fcgi/edge/edge.h"
#include "tests/unit/fcgi_client.h"

enum { REPLY_BYTES = 4 * 1024 * 1024 };

static struct arena *arena;
static char dir[64];
static struct router_settings settings;
static struct spool_plan spool_plan;
static struct engine_process process;
static struct record_reader reader;
static struct buf cgi;
static struct error e;

/* In the place of main.c's. */
const struct router_settings *router_settings(void)
{
    return &settings;
}

const struct spool_plan *router_spool_plan(void)
{
    return &spool_plan;
}

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_overflow_voice.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    settings = (struct router_settings){ .state_dir = dir, .is_ready_strict = true };
    spool_plan = (struct spool_plan){
        .state_dir = dir, .program = "llm-router", .max_bytes = 1 << 20, .shared = spool_shared_alone()
    };
    process =
        (struct engine_process){ .settings = &settings.engine, .mapping = mapping_alone("llm-router", 1) };
    process.mapping->workers[0].pid = 100;
    process.mapping->workers[0].generation = 3;
    process.mapping->generation = 3;
    process.mapping->keeper.is_store_ok = 1;
    process.mapping->keeper.checked_us = clock_monotonic_us();
    record_reader_init(&reader);
    buf_init(&cgi, REPLY_BYTES);
}

static void tear_down(void)
{
    record_reader_free(&reader);
    buf_free(&cgi);
    mapping_close(process.mapping);
    spool_shared_close(&spool_plan.shared);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

/* For what the log would say. */
static void mute(void)
{
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    close(null);
}

static void init_voice(void)
{
    ck_assert_int_eq(edge_voice.init(&process, &e), 0);
}

/* Name, value, …, NULL: what is answered to them. */
static const char *answer(bool is_health, const char *const *pairs)
{
    struct buf wire;

    buf_init(&wire, WIRE_BYTES);
    wire_head(&wire, pairs);
    ck_assert_int_eq(record_reader_feed(&reader, buf_span(&wire)), 0);
    ck_assert(reader.has_params);
    buf_free(&wire);
    edge_voice.answer(&process, &reader, is_health, &cgi);
    ck_assert(!cgi.overflowed);
    return arena_span(arena, buf_span(&cgi));
}

static void expect_text(const char *reply, const char *text)
{
    ck_assert_msg(strstr(reply, text) != NULL, "\"%s\" is not in:\n%s", text, reply);
}

/* Its body, of the announced length. */
static const char *body_of(const char *reply)
{
    const char *header = strstr(reply, "\r\nContent-Length: "), *body = strstr(reply, "\r\n\r\n");
    size_t length;

    ck_assert_msg(header != NULL && body != NULL, "no whole reply: %s", reply);
    ck_assert_int_eq(sscanf(header, "\r\nContent-Length: %zu\r\n", &length), 1);
    ck_assert_uint_eq(length, strlen(body + 4));
    return body + 4;
}

/* --- the health socket --------------------------------------------------------------- */

static const struct page_row {
    const char *method, *script, *info;
    const char *status, *type;
    const char *body; /* its beginning */
} page_rows[] = {
    { "GET", "/livez", NULL, "200 OK", "application/json", "{\"status\":\"live\"}" },
    { "HEAD", "/livez", NULL, "200 OK", "application/json", "{\"status\":\"live\"}" },
    { "GET", NULL, "/livez", "200 OK", "application/json", "{\"status\":\"live\"}" },
    { "GET", "/llm", "/livez", "200 OK", "application/json", "{\"status\":\"live\"}" },
    { "GET", "/readyz", "", "200 OK", "application/json", "{\"status\":\"ready\"," },
    { "GET", "/metrics", NULL, "200 OK", "text/plain; version=0.0.4; charset=utf-8",
      "# HELP airi_gen_ai_gateway_" },
    { "GET", "/status", NULL, "200 OK", "application/json", "{\"program\":\"llm-router\"," },
    { "POST", "/livez", NULL, "405 Method Not Allowed", "application/json", "{\"error\":{" },
    { NULL, "/livez", NULL, "405 Method Not Allowed", "application/json", "{\"error\":{" },
    { "GET", "/", NULL, "404 Not Found", "application/json", "{\"error\":{" },
    { "GET", NULL, NULL, "404 Not Found", "application/json", "{\"error\":{" },
    { "GET", "/livez/", NULL, "404 Not Found", "application/json", "{\"error\":{" },
    { "GET", "livez", NULL, "404 Not Found", "application/json", "{\"error\":{" },
    { "GET", "/v1", "/models", "404 Not Found", "application/json", "{\"error\":{" },
    { "POST", "/v1", "/models", "404 Not Found", "application/json", "{\"error\":{" },
};

enum { N_PAGES = sizeof(page_rows) / sizeof(page_rows[0]) };

START_TEST(each_page_is_found_by_the_end_of_its_path)
{
    const struct page_row *row = &page_rows[_i];

    init_voice();
    const char *reply = answer(true, (const char *const[]){ "REQUEST_METHOD", row->method, "SCRIPT_NAME",
                                                            row->script, "PATH_INFO", row->info, NULL });
    const char *head = arena_printf(arena, "Status: %s\r\nContent-Type: %s\r\n", row->status, row->type);
    ck_assert_msg(strncmp(reply, head, strlen(head)) == 0, "%s%s: %s", row->script, row->info, reply);
    ck_assert_msg(strncmp(body_of(reply), row->body, strlen(row->body)) == 0, "%s%s: %s", row->script,
                  row->info, reply);
    if (strncmp(row->status, "405", 3) == 0)
        expect_text(reply, "\r\nAllow: GET, HEAD\r\n");
}
END_TEST

/* --- who may read what --- */

#define TOKEN "0123456789abcdef"

static const struct access_row {
    const char *list, *address, *authorization, *user;
    bool may_read;
} access_rows[] = {
    { "loopback", NULL, NULL, NULL, true }, /* at the socket itself */
    { "none", NULL, NULL, NULL, true },
    { "loopback", "127.0.0.1", NULL, NULL, true },
    { "loopback", "::1", NULL, NULL, true },
    { "loopback", "192.0.2.1", NULL, NULL, false },
    { "loopback", "", NULL, NULL, false },
    { "none", "127.0.0.1", NULL, NULL, false },
    { "all", "192.0.2.1", NULL, NULL, true },
    { "192.0.2.0/24", "192.0.2.1", NULL, NULL, true },
    { "192.0.2.0/24", "127.0.0.1", NULL, NULL, false },
    { "none", "192.0.2.1", "Bearer " TOKEN, NULL, true },
    { "none", "192.0.2.1", "bearer  " TOKEN " ", NULL, true },
    { "none", "192.0.2.1", "Bearer " TOKEN "0", NULL, false },
    { "none", "192.0.2.1", TOKEN, NULL, false },
    { "none", "192.0.2.1", "Bearer ", NULL, false },
    { "none", "192.0.2.1", NULL, "ada@example.org", true },
    { "none", "192.0.2.1", NULL, "eve@example.org", false },
    { "none", "192.0.2.1", NULL, "", false },
};

enum { N_ACCESS = sizeof(access_rows) / sizeof(access_rows[0]) };

static void allow(const char *list)
{
    const char *file = arena_printf(arena, "%s/token", dir);
    FILE *stream = fopen(file, "w");
    ck_assert_ptr_nonnull(stream);
    fputs(TOKEN "\n", stream);
    fclose(stream);
    ck_assert_int_eq(address_list_read(list, &settings.metrics_access, &e), 0);
    ck_assert_int_eq(admins_read(file, "ada@example.org", &settings.admins, &e), 0);
}

START_TEST(metrics_and_status_are_for_those_who_are_listed_and_for_administrators)
{
    static const char *const paths[] = { "/metrics", "/status", "/livez", "/readyz" };
    const struct access_row *row = &access_rows[_i];

    init_voice();
    allow(row->list);
    mute();
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        bool is_open = i >= 2;
        record_reader_reset(&reader);
        buf_clear(&cgi);
        const char *reply =
            answer(true, (const char *const[]){ "REQUEST_METHOD", "GET", "SCRIPT_NAME", paths[i],
                                                "REMOTE_ADDR", row->address, "HTTP_AUTHORIZATION",
                                                row->authorization, "REMOTE_USER", row->user, NULL });
        const char *status = is_open || row->may_read ? "Status: 200 OK\r\n" : "Status: 403 Forbidden\r\n";
        ck_assert_msg(strncmp(reply, status, strlen(status)) == 0, "%s for %s in %s: %.60s", paths[i],
                      row->address, row->list, reply);
    }
}
END_TEST

START_TEST(a_refusal_has_the_mounts_form_and_no_hint)
{
    static const char *const words[] = {
        "token", "Bearer", "loopback", "192.0.2", "administrator", "metrics"
    };

    init_voice();
    allow("loopback");
    mute();
    const char *reply =
        answer(true, (const char *const[]){ "REQUEST_METHOD", "GET", "SCRIPT_NAME", "/api/v1/openai",
                                            "PATH_INFO", "/metrics", "REMOTE_ADDR", "192.0.2.1", NULL });
    ck_assert_str_eq(body_of(reply),
                     "{\"error\":\"FORBIDDEN\",\"message\":\"This is not allowed for you.\"}");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        ck_assert_msg(strstr(reply, words[i]) == NULL, "\"%s\" is in: %s", words[i], reply);
}
END_TEST

START_TEST(an_address_that_was_pushed_out_by_long_headers_is_not_missing)
{
    char *padding = malloc(RECORD_PARAMS_MAX);

    memset(padding, 'p', RECORD_PARAMS_MAX - 1);
    padding[RECORD_PARAMS_MAX - 1] = '\0';
    init_voice();
    allow("loopback");
    mute();
    expect_text(
        answer(true, (const char *const[]){ "REQUEST_METHOD", "GET", "SCRIPT_NAME", "/metrics",
                                            "HTTP_PADDING", padding, "REMOTE_ADDR", "192.0.2.1", NULL }),
        "Status: 403 ");
    ck_assert(reader.is_params_cut);
    free(padding);
}
END_TEST

START_TEST(who_is_not_ready_says_503)
{
    init_voice();
    process.mapping->keeper.is_store_ok = 0;
    const char *const pairs[] = { "REQUEST_METHOD", "GET", "SCRIPT_NAME", "/readyz", NULL };
    const char *reply = answer(true, pairs);
    expect_text(reply, "Status: 503 Service Unavailable\r\n");
    expect_text(reply, "{\"status\":\"not_ready\",\"checks\":{\"store\":\"fail\",\"workers\":\"ok\"}}");

    settings.is_ready_strict = false;
    buf_clear(&cgi);
    edge_voice.answer(&process, &reader, true, &cgi);
    expect_text(arena_span(arena, buf_span(&cgi)), "Status: 200 OK\r\n");
}
END_TEST

START_TEST(a_full_house_fits_on_the_status_page)
{
    struct mapping *own = process.mapping, *full;

    ck_assert_int_eq(mapping_create(dir, "full", SCOREBOARD_MAX, &full, &e), 0);
    for (unsigned i = 0; i < SCOREBOARD_MAX; i++) {
        full->workers[i].pid = INT32_MAX;
        full->workers[i].requests = UINT64_MAX;
        full->workers[i].generation = UINT64_MAX;
        full->workers[i].stage = STAGE_STREAMING;
    }
    process.mapping = full;
    init_voice();
    const char *const pairs[] = { "REQUEST_METHOD", "GET", "SCRIPT_NAME", "/status", NULL };
    const char *reply = answer(true, pairs);
    process.mapping = own;
    expect_text(body_of(reply), "{\"slot\":4095,\"pid\":2147483647,\"stage\":\"streaming\",");
    expect_text(body_of(reply), ",\"generation\":18446744073709551615}]}");
}
END_TEST

/* --- who has waited too long ---------------------------------------------------------- */

static const struct overflow_row {
    const char *script, *info;
    const char *mount; /* NULL: none */
    const char *body;  /* its beginning */
} overflow_rows[] = {
    { "/v1", "/chat/completions", "/v1", "{\"error\":{\"message\":" },
    { "/api/v1/openai", "/chat/completions", "/api/v1/openai", "{\"error\":\"SERVICE_UNAVAILABLE\"," },
    { "/v1/chat/completions", NULL, "/v1", "{\"error\":{\"message\":" },
    { "/livez", NULL, NULL, "{\"error\":{\"message\":" },
    { NULL, NULL, NULL, "{\"error\":{\"message\":" },
};

enum { N_OVERFLOWS = sizeof(overflow_rows) / sizeof(overflow_rows[0]) };

/* The one event in the spool. */
static const char *spooled(void)
{
    struct span raw;
    const char *path = arena_printf(arena, "%s/spool/llm-router.00000001.jsonl", dir);
    int r = file_read(path, 65536, arena, &raw, &e);
    ck_assert_msg(r == 0, "%s", e.text);
    return raw.ptr;
}

START_TEST(who_is_shed_is_told_in_the_form_of_the_mount_and_recorded)
{
    const struct overflow_row *row = &overflow_rows[_i];

    init_voice();
    const char *reply =
        answer(false, (const char *const[]){ "REQUEST_METHOD", "POST", "SCRIPT_NAME", row->script,
                                             "PATH_INFO", row->info, "HTTP_X_REQUEST_ID", "id-7", NULL });
    expect_text(reply, "Status: 503 Service Unavailable\r\n");
    expect_text(reply, "\r\nRetry-After: 1\r\n");
    expect_text(reply, "\r\nx-request-id: id-7\r\n");
    ck_assert_msg(strstr(reply, "x-should-retry") == NULL, "a retry would help: %s", reply);
    ck_assert_msg(strncmp(body_of(reply), row->body, strlen(row->body)) == 0, "%s", reply);

    const char *event = spooled();
    expect_text(event, "\"request_id\":\"id-7\"");
    expect_text(event, "\"end\":\"overflow\"");
    expect_text(event, "\"status\":503");
    expect_text(event, "\"generation\":3");
    expect_text(event, arena_printf(arena, "\"instance\":\"%s\"", process.mapping->instance));
    if (row->mount != NULL)
        expect_text(event, arena_printf(arena, "\"mount\":\"%s\"", row->mount));
    else
        ck_assert_msg(strstr(event, "\"mount\"") == NULL, "%s", event);
}
END_TEST

START_TEST(who_is_shed_keeps_its_trace)
{
    settings.tracing = (struct trace_policy){ .is_tracecontext = true, .is_parent_based = true };
    init_voice();
    answer(false, (const char *const[]){ "SCRIPT_NAME", "/v1", "HTTP_TRACEPARENT",
                                         "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", NULL });
    const char *event = spooled();
    expect_text(event, "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"span_id\":\"");
    expect_text(event, "\"parent_span_id\":\"00f067aa0ba902b7\",\"sampled\":true");
}
END_TEST

START_TEST(who_is_shed_without_one_begins_a_trace)
{
    init_voice();
    answer(false, (const char *const[]){ "SCRIPT_NAME", "/v1", NULL });
    const char *event = spooled();
    expect_text(event, "\"trace_id\":\"");
    ck_assert_msg(strstr(event, "parent_span_id") == NULL, "%s", event);
}
END_TEST

START_TEST(one_who_has_no_right_to_the_health_pages_does_not_get_them_by_waiting)
{
    init_voice();
    const char *const pairs[] = { "REQUEST_METHOD", "GET", "SCRIPT_NAME", "/status", NULL };
    expect_text(answer(false, pairs), "Status: 503 ");
}
END_TEST

START_TEST(a_path_of_any_length_is_answered)
{
    char path[5000];
    memset(path, 'p', sizeof(path));
    memcpy(path, "/v1/", 4);
    path[sizeof(path) - 1] = '\0';
    init_voice();
    const char *const pairs[] = { "SCRIPT_NAME", path, "PATH_INFO", path, NULL };
    expect_text(answer(false, pairs), "Status: 503 ");
}
END_TEST

START_TEST(without_a_spool_everybody_is_answered_all_the_same)
{
    mute();
    spool_plan.state_dir = "/proc/no/such/place";
    init_voice();
    const char *const pairs[] = { "REQUEST_METHOD", "POST", "SCRIPT_NAME", "/v1", NULL };
    expect_text(answer(false, pairs), "Status: 503 ");
    buf_clear(&cgi);
    edge_voice.answer(&process, &reader, true, &cgi);
    expect_text(arena_span(arena, buf_span(&cgi)), "Status: 404 ");
}
END_TEST

/* --- both -------------------------------------------------------------------------------- */

static const struct id_row {
    bool is_health;
    const char *given;
    bool is_kept;
} id_rows[] = {
    { true, "id-1", true },  { true, NULL, false },  { true, "a b", false },
    { false, "id-1", true }, { false, NULL, false }, { false, "a\r\nSet-Cookie: x", false },
};

enum { N_IDS = sizeof(id_rows) / sizeof(id_rows[0]) };

START_TEST(every_reply_carries_a_request_id)
{
    const struct id_row *row = &id_rows[_i];
    char id[REQUEST_ID_MAX + 1];

    init_voice();
    const char *reply =
        answer(row->is_health, (const char *const[]){ "REQUEST_METHOD", "GET", "SCRIPT_NAME", "/livez",
                                                      "HTTP_X_REQUEST_ID", row->given, NULL });
    const char *header = strstr(reply, "\r\nx-request-id: ");
    ck_assert_msg(header != NULL, "it has none: %s", reply);
    ck_assert_int_eq(sscanf(header, "\r\nx-request-id: %128[^\r]\r\n", id), 1);
    if (row->is_kept)
        ck_assert_str_eq(id, row->given);
    else
        ck_assert_msg(strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32, "\"%s\"", id);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("overflow_voice");
    TCase *tcase = tcase_create("overflow_voice");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, each_page_is_found_by_the_end_of_its_path, 0, N_PAGES);
    tcase_add_loop_test(tcase, metrics_and_status_are_for_those_who_are_listed_and_for_administrators, 0,
                        N_ACCESS);
    tcase_add_test(tcase, a_refusal_has_the_mounts_form_and_no_hint);
    tcase_add_test(tcase, an_address_that_was_pushed_out_by_long_headers_is_not_missing);
    tcase_add_test(tcase, who_is_not_ready_says_503);
    tcase_add_test(tcase, a_full_house_fits_on_the_status_page);
    tcase_add_loop_test(tcase, who_is_shed_is_told_in_the_form_of_the_mount_and_recorded, 0, N_OVERFLOWS);
    tcase_add_test(tcase, who_is_shed_keeps_its_trace);
    tcase_add_test(tcase, who_is_shed_without_one_begins_a_trace);
    tcase_add_test(tcase, one_who_has_no_right_to_the_health_pages_does_not_get_them_by_waiting);
    tcase_add_test(tcase, a_path_of_any_length_is_answered);
    tcase_add_test(tcase, without_a_spool_everybody_is_answered_all_the_same);
    tcase_add_loop_test(tcase, every_reply_carries_a_request_id, 0, N_IDS);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
