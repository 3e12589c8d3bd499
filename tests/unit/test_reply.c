#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "fcgi/engine/reply.h"
#include "tests/unit/fcgi_client.h"

static struct conn conn;
static struct reply reply;
static struct arena *arena;
static int front;

/* Over this kind of socket one read of the front end gets exactly one write. */
static void set_up(void)
{
    static const char *const get[] = { "REQUEST_METHOD", "GET", NULL };
    struct buf wire;
    int pair[2];

    arena = arena_new();
    conn_init(&conn);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    front = pair[0];
    buf_init(&wire, 1000);
    wire_head(&wire, get);
    wire_end(&wire, FCGI_STDIN);
    wire_send(front, &wire);
    buf_free(&wire);
    ck_assert_int_eq(conn_begin(&conn, pair[1], 1000), 0);
    ck_assert_int_eq(conn_read_end(&conn), 0);
    reply_init(&reply, &conn);
    reply.request_id = "id-1";
}

static void tear_down(void)
{
    reply_free(&reply);
    close(front);
    conn_close(&conn);
    conn_free(&conn);
    arena_free(arena);
}

/* What the next write of the reply carried, as text; *has_end tells of END_REQUEST. */
static const char *next_write(bool *has_end)
{
    struct client_reply got = { .error = 0 };
    char bytes[65536];

    buf_init(&got.bytes, sizeof(bytes));
    buf_init(&got.out, sizeof(bytes));
    ssize_t n = recv(front, bytes, sizeof(bytes), MSG_DONTWAIT);
    ck_assert_msg(n > 0, "nothing was written");
    buf_append(&got.bytes, bytes, (size_t)n);
    reply_parse(&got);
    ck_assert(!got.is_invalid);
    *has_end = got.has_end;
    const char *text = arena_span(arena, buf_span(&got.out));
    client_reply_free(&got);
    return text;
}

static void expect_write(const char *text, bool is_last)
{
    bool has_end;
    ck_assert_str_eq(next_write(&has_end), text);
    ck_assert_msg(has_end == is_last, "\"%s\" %s the end", text, has_end ? "has" : "has not");
}

static void expect_nothing(void)
{
    char byte;
    ck_assert_msg(recv(front, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN, "something was written");
}

START_TEST(a_whole_reply_leaves_in_one_write)
{
    ck_assert_int_eq(reply_json(&reply, 200, span_cstr("{\"a\":1}")), 0);
    expect_write("Status: 200 OK\r\n"
                 "Content-Type: application/json\r\n"
                 "Content-Length: 7\r\n"
                 "x-request-id: id-1\r\n"
                 "\r\n"
                 "{\"a\":1}",
                 true);
    expect_nothing();
    ck_assert(reply.is_started);
    ck_assert_int_eq(reply.status, 200);
}
END_TEST

START_TEST(the_head_waits_for_the_first_bytes_and_leaves_with_them)
{
    reply_start(&reply, 200, span_cstr("text/event-stream"), -1);
    reply_header(&reply, "Cache-Control", span_cstr("no-cache"));
    ck_assert(reply.is_started);
    expect_nothing();
    ck_assert_int_eq(reply_write(&reply, span_cstr("one")), 0);
    expect_write("Status: 200 OK\r\n"
                 "Content-Type: text/event-stream\r\n"
                 "x-request-id: id-1\r\n"
                 "Cache-Control: no-cache\r\n"
                 "\r\n"
                 "one",
                 false);
    ck_assert_int_eq(reply_write(&reply, span_cstr("two")), 0);
    expect_write("two", false);
    ck_assert_int_eq(reply_finish(&reply, span_cstr("three")), 0);
    expect_write("three", true);
    expect_nothing();
}
END_TEST

START_TEST(pieces_leave_in_one_write_and_the_last_of_them_with_the_end)
{
    const struct span pieces[] = { span_cstr("on"), span_of(NULL, 0), span_cstr("e"), span_cstr("two") };
    reply.request_id = NULL;
    reply_start(&reply, 200, span_of(NULL, 0), 10);
    ck_assert_int_eq(reply_write_pieces(&reply, pieces, 4), 0);
    expect_write("Status: 200 OK\r\nContent-Length: 10\r\n\r\nonetwo", false);
    ck_assert_int_eq(reply_write_pieces(&reply, pieces + 2, 2), 0);
    expect_write("etwo", true);
    expect_nothing();
}
END_TEST

START_TEST(as_many_pieces_as_are_allowed_leave_with_the_head)
{
    struct span pieces[REPLY_PIECES_MAX];
    struct buf expected;
    buf_init(&expected, 1000);
    buf_append_cstr(&expected, "Status: 200 OK\r\n\r\n");
    for (size_t i = 0; i < REPLY_PIECES_MAX; i++) {
        pieces[i] = span_cstr(i % 2 == 0 ? "a" : "bc");
        buf_append_span(&expected, pieces[i]);
    }
    reply.request_id = NULL;
    reply_start(&reply, 200, span_of(NULL, 0), -1);
    ck_assert_int_eq(reply_write_pieces(&reply, pieces, REPLY_PIECES_MAX), 0);
    expect_write(arena_span(arena, buf_span(&expected)), false);
    buf_free(&expected);
}
END_TEST

START_TEST(a_reply_without_a_body_is_its_head)
{
    reply.request_id = NULL;
    reply_start(&reply, 200, span_of(NULL, 0), 0);
    ck_assert_int_eq(reply_finish(&reply, span_of(NULL, 0)), 0);
    expect_write("Status: 200 OK\r\nContent-Length: 0\r\n\r\n", true);
}
END_TEST

START_TEST(a_stream_that_ends_without_more_bytes_still_ends)
{
    reply_start(&reply, 200, span_cstr("text/plain"), -1);
    ck_assert_int_eq(reply_write(&reply, span_cstr("all")), 0);
    ck_assert_int_eq(reply_finish(&reply, span_of(NULL, 0)), 0);
    bool has_end;
    next_write(&has_end);
    expect_write("", true);
}
END_TEST

START_TEST(a_reply_may_be_started_anew_before_its_first_bytes)
{
    reply_start(&reply, 200, span_cstr("text/plain"), -1);
    reply_header(&reply, "X-Old", span_cstr("1"));
    ck_assert_int_eq(reply_json(&reply, 502, span_cstr("{}")), 0);
    expect_write("Status: 502 Bad Gateway\r\n"
                 "Content-Type: application/json\r\n"
                 "Content-Length: 2\r\n"
                 "x-request-id: id-1\r\n"
                 "\r\n"
                 "{}",
                 true);
    ck_assert_int_eq(reply.status, 502);
}
END_TEST

START_TEST(a_reply_to_one_who_left_fails)
{
    shutdown(front, SHUT_RDWR);
    reply_start(&reply, 200, span_cstr("text/plain"), -1);
    ck_assert_int_eq(reply_write(&reply, span_cstr("one")), ERR_CLIENT_GONE);
    ck_assert_int_eq(reply_finish(&reply, span_of(NULL, 0)), ERR_CLIENT_GONE);
}
END_TEST

/* --- failures -------------------------------------------------------------------- */

static const struct failure_row {
    struct failure failure;
    enum error_form form;
    const char *status;  /* line */
    const char *headers; /* besides type, length and id, in their order */
    const char *body;
} failure_rows[] = {
    { { .kind = FAILURE_INVALID_JSON, .message = "No \"JSON\"." },
      ERROR_FORM_OPENAI,
      "400 Bad Request",
      "",
      "{\"error\":{\"message\":\"No \\\"JSON\\\".\",\"type\":\"invalid_request_error\",\"param\":null,"
      "\"code\":\"invalid_json\"}}" },
    { { .kind = FAILURE_INVALID_JSON, .message = "No JSON." },
      ERROR_FORM_CODED,
      "400 Bad Request",
      "",
      "{\"error\":\"BAD_REQUEST\",\"message\":\"No JSON.\"}" },
    { { .kind = FAILURE_UNKNOWN_MODEL, .message = "m", .param = "model" },
      ERROR_FORM_OPENAI,
      "404 Not Found",
      "",
      "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":\"model\","
      "\"code\":\"model_not_found\"}}" },
    { { .kind = FAILURE_UNKNOWN_MODEL, .details = { "{\"requested\":\"x\"}", 17 } },
      ERROR_FORM_CODED,
      "400 Bad Request",
      "",
      "{\"error\":\"BAD_REQUEST\",\"message\":\"unknown_model\",\"details\":{\"requested\":\"x\"}}" },
    { { .kind = FAILURE_UNAUTHORIZED, .message = "m" },
      ERROR_FORM_CODED,
      "401 Unauthorized",
      "WWW-Authenticate: Bearer\r\n",
      "{\"error\":\"UNAUTHORIZED\",\"message\":\"m\"}" },
    { { .kind = FAILURE_METHOD_NOT_ALLOWED, .message = "m", .allow = "GET, PUT" },
      ERROR_FORM_CODED,
      "405 Method Not Allowed",
      "Allow: GET, PUT\r\n",
      "{\"error\":\"METHOD_NOT_ALLOWED\",\"message\":\"m\"}" },
    { { .kind = FAILURE_CALLER_THROTTLED, .message = "m", .retry_after_s = 30 },
      ERROR_FORM_CODED,
      "429 Too Many Requests",
      "Retry-After: 30\r\n",
      "{\"error\":\"TOO_MANY_REQUESTS\",\"message\":\"m\"}" },
    { { .kind = FAILURE_UPSTREAM_UNAVAILABLE,
        .message = "m",
        .has_attempts = true,
        .tried_keys = 3,
        .tried_upstreams = 2,
        .last_status = "502" },
      ERROR_FORM_OPENAI,
      "502 Bad Gateway",
      "",
      "{\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,\"code\":\"upstream_"
      "unavailable\","
      "\"details\":{\"triedKeys\":3,\"triedUpstreams\":2,\"lastStatusCode\":502}}}" },
    { { .kind = FAILURE_UPSTREAM_UNAVAILABLE, .message = "m", .no_retry = true },
      ERROR_FORM_CODED,
      "502 Bad Gateway",
      "x-should-retry: false\r\n",
      "{\"error\":\"BAD_GATEWAY\",\"message\":\"m\"}" },
    { { .kind = FAILURE_UPSTREAM_RATE_LIMITED, .message = "m", .retry_after_s = 3600 },
      ERROR_FORM_CODED,
      "503 Service Unavailable",
      "Retry-After: 3600\r\n",
      "{\"error\":\"SERVICE_UNAVAILABLE\",\"message\":\"m\"}" },
    { { .kind = FAILURE_CONFIG_NOT_SET, .message = "m" },
      ERROR_FORM_CODED,
      "503 Service Unavailable",
      "x-should-retry: false\r\n",
      "{\"error\":\"CONFIG_NOT_SET\",\"message\":\"m\"}" },
    { { .kind = FAILURE_UPSTREAM_TIMEOUT, .message = "m", .has_attempts = true, .last_status = "timeout" },
      ERROR_FORM_CODED,
      "504 Gateway Timeout",
      "",
      "{\"error\":\"GATEWAY_TIMEOUT\",\"message\":\"m\",\"details\":{\"triedKeys\":0,\"triedUpstreams\":0,"
      "\"lastStatusCode\":\"timeout\"}}" },
};

START_TEST(a_failure_is_told_in_the_form_of_its_mount)
{
    const struct failure_row *row = &failure_rows[_i];
    ck_assert_int_eq(reply_failure(&reply, &row->failure, row->form), 0);
    expect_write(arena_printf(arena,
                              "Status: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                              "x-request-id: id-1\r\n%s\r\n%s",
                              row->status, strlen(row->body), row->headers, row->body),
                 true);
}
END_TEST

/* For a process that writes to no struct conn: the same bytes. */
START_TEST(a_composed_failure_is_the_one_that_is_sent)
{
    const struct failure_row *row = &failure_rows[_i];
    struct buf composed;
    bool has_end;

    buf_init(&composed, 65536);
    reply_compose_failure(&composed, &row->failure, row->form, "id-1");
    ck_assert_int_eq(reply_failure(&reply, &row->failure, row->form), 0);
    ck_assert_str_eq(arena_span(arena, buf_span(&composed)), next_write(&has_end));
    buf_free(&composed);
}
END_TEST

START_TEST(a_composed_reply_has_head_and_body)
{
    struct buf composed;

    buf_init(&composed, 65536);
    reply_compose(&composed, 503, span_cstr("text/plain"), "id-2", span_of("a\0b", 3));
    static const char text[] = "Status: 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
                               "Content-Length: 3\r\nx-request-id: id-2\r\n\r\na\0b";
    ck_assert(span_eq(buf_span(&composed), span_of(text, sizeof(text) - 1)));
    buf_clear(&composed);
    reply_compose(&composed, 200, span_of(NULL, 0), NULL, span_of(NULL, 0));
    ck_assert(span_is(buf_span(&composed), "Status: 200 OK\r\nContent-Length: 0\r\n\r\n"));
    buf_free(&composed);
}
END_TEST

/* Every kind in both forms: whole, and with a reason phrase. */
START_TEST(every_failure_has_its_status_and_a_body_of_the_announced_length)
{
    const struct failure failure = { .kind = (enum failure_kind)(_i / 2) };
    enum error_form form = _i % 2 == 0 ? ERROR_FORM_OPENAI : ERROR_FORM_CODED;
    size_t length;
    int status;
    char phrase[64];
    bool has_end;

    ck_assert_int_eq(reply_failure(&reply, &failure, form), 0);
    const char *text = next_write(&has_end);
    ck_assert(has_end);
    ck_assert_int_eq(sscanf(text, "Status: %d %63[A-Za-z ]\r\n", &status, phrase), 2);
    ck_assert_int_eq(status, failure_status(&failure, form));
    const char *header = strstr(text, "Content-Length: "), *body = strstr(text, "\r\n\r\n");
    ck_assert_ptr_nonnull(header);
    ck_assert_ptr_nonnull(body);
    ck_assert_int_eq(sscanf(header, "Content-Length: %zu", &length), 1);
    ck_assert_uint_eq(length, strlen(body + 4));
    bool says_no_retry = strstr(text, "x-should-retry: false\r\n") != NULL;
    ck_assert_int_eq(says_no_retry, status >= 500 && !failure_can_retry(&failure));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reply");
    TCase *tcase = tcase_create("reply");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_whole_reply_leaves_in_one_write);
    tcase_add_test(tcase, the_head_waits_for_the_first_bytes_and_leaves_with_them);
    tcase_add_test(tcase, pieces_leave_in_one_write_and_the_last_of_them_with_the_end);
    tcase_add_test(tcase, as_many_pieces_as_are_allowed_leave_with_the_head);
    tcase_add_test(tcase, a_reply_without_a_body_is_its_head);
    tcase_add_test(tcase, a_stream_that_ends_without_more_bytes_still_ends);
    tcase_add_test(tcase, a_reply_may_be_started_anew_before_its_first_bytes);
    tcase_add_test(tcase, a_reply_to_one_who_left_fails);
    tcase_add_loop_test(tcase, a_failure_is_told_in_the_form_of_its_mount, 0,
                        sizeof(failure_rows) / sizeof(failure_rows[0]));
    tcase_add_loop_test(tcase, a_composed_failure_is_the_one_that_is_sent, 0,
                        sizeof(failure_rows) / sizeof(failure_rows[0]));
    tcase_add_test(tcase, a_composed_reply_has_head_and_body);
    tcase_add_loop_test(tcase, every_failure_has_its_status_and_a_body_of_the_announced_length, 0,
                        2 * FAILURE_KIND_COUNT);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
