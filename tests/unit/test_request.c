#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "fcgi/engine/request.h"
#include "tests/unit/fcgi_client.h"

enum { STALL_MS = 200, MAX_HEADER_BYTES = 1000, MAX_BODY_BYTES = 20000 };

static struct error e;
static struct conn conn;
static struct arena *arena;
static int front;
static struct request request;
static struct failure failure;

static void set_up(void)
{
    int pair[2];
    arena = arena_new();
    conn_init(&conn);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    front = pair[0];
    conn.fd = pair[1];
    failure = (struct failure){ .kind = FAILURE_KIND_COUNT };
}

static void tear_down(void)
{
    close(front);
    conn_close(&conn);
    conn_free(&conn);
    arena_free(arena);
}

/* A request with these parameters and this body; its STDIN ends only if `is_whole`. */
static int read_request(const char *const *pairs, struct span body, bool is_whole)
{
    struct buf wire;

    buf_init(&wire, WIRE_BYTES);
    wire_head(&wire, pairs);
    wire_stream(&wire, FCGI_STDIN, body, 65535);
    if (is_whole)
        wire_end(&wire, FCGI_STDIN);
    wire_send(front, &wire);
    buf_free(&wire);
    ck_assert_int_eq(conn_begin(&conn, conn.fd, STALL_MS), 0);
    return request_read(&request, &conn, arena, MAX_HEADER_BYTES, MAX_BODY_BYTES, &failure);
}

static int read_one(const char *name, const char *value)
{
    const char *const pairs[] = { name, value, NULL };
    return read_request(pairs, span_of(NULL, 0), true);
}

/* --- id, method, path ---------------------------------------------------------- */

#define SIXTEEN "0123456789abcdef"
#define HUNDRED_AND_TWENTY_EIGHT SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN

static const struct id_row {
    const char *given;
    bool is_kept;
} id_rows[] = {
    { "a", true },
    { "A-b_c.9", true },
    { HUNDRED_AND_TWENTY_EIGHT, true },
    { HUNDRED_AND_TWENTY_EIGHT "x", false },
    { NULL, false },
    { "", false },
    { "a b", false },
    { "a\nb", false },
    { "a\"b", false },
    { "a/b", false },
    { "\xc3\xa9", false },
};

START_TEST(a_well_formed_request_id_is_kept_and_any_other_replaced)
{
    const struct id_row *row = &id_rows[_i];

    ck_assert_int_eq(read_one("HTTP_X_REQUEST_ID", row->given), 0);
    if (row->is_kept) {
        ck_assert_str_eq(request.id, row->given);
    } else {
        ck_assert_msg(strlen(request.id) == 32 && strspn(request.id, "0123456789abcdef") == 32,
                      "\"%s\" became \"%s\"", row->given, request.id);
    }
}
END_TEST

/* As the overflow process has it: bytes that a NUL does not end. */
START_TEST(an_id_may_be_chosen_from_bytes_alone)
{
    char id[REQUEST_ID_MAX + 1];

    request_choose_id(span_of("abcdef", 3), id);
    ck_assert_str_eq(id, "abc");
    request_choose_id(span_of("a\0b", 3), id);
    ck_assert_msg(strlen(id) == 32, "a NUL was kept: \"%s\"", id);
    request_choose_id(span_of(NULL, 0), id);
    ck_assert_uint_eq(strlen(id), 32);
}
END_TEST

static const struct path_row {
    const char *method, *script, *info;
    const char *path;
} path_rows[] = {
    { "POST", "/v1", "/chat/completions", "/v1/chat/completions" },
    { "GET", "/v1/models", NULL, "/v1/models" },
    { "GET", NULL, "/v1/models", "/v1/models" },
    { "GET", "", "", "" },
    { NULL, NULL, NULL, "" },
};

START_TEST(method_and_path_come_from_the_parameters_and_are_never_null)
{
    const struct path_row *row = &path_rows[_i];
    const char *pairs[8] = { NULL };
    size_t n = 0;
    const char *const given[][2] = { { "REQUEST_METHOD", row->method },
                                     { "SCRIPT_NAME", row->script },
                                     { "PATH_INFO", row->info } };

    for (size_t i = 0; i < 3; i++) {
        pairs[n++] = given[i][0];
        pairs[n++] = given[i][1];
    }
    ck_assert_int_eq(read_request(pairs, span_of(NULL, 0), true), 0);
    ck_assert_str_eq(request.method, row->method != NULL ? row->method : "");
    ck_assert_str_eq(request.path, row->path);
}
END_TEST

/* --- headers --------------------------------------------------------------------- */

static const struct header_row {
    size_t bytes; /* of all headers, as HTTP writes them */
    int result;
} header_rows[] = {
    { MAX_HEADER_BYTES - 1, 0 },
    { MAX_HEADER_BYTES, 0 },
    { MAX_HEADER_BYTES + 1, ERR_LIMIT },
    { MAX_HEADER_BYTES + 60000, ERR_LIMIT },
};

START_TEST(a_header_block_over_the_limit_is_refused_with_its_size)
{
    const struct header_row *row = &header_rows[_i];
    /* "X: …\r\n" and "Y: 1\r\n"; what is no header does not count. */
    size_t value_bytes = row->bytes - 6 - 5;
    char *value = arena_alloc(arena, value_bytes + 1);
    memset(value, 'v', value_bytes);
    value[value_bytes] = '\0';
    const char *const pairs[] = { "HTTP_X", value,       "HTTP_Y", "1", "REQUEST_METHOD",
                                  "GET",    "PATH_INFO", value,    NULL };

    ck_assert_int_eq(read_request(pairs, span_of(NULL, 0), true), row->result);
    ck_assert_str_eq(request.method, "GET");
    ck_assert_uint_eq(strlen(request.id), 32);
    if (row->result != 0) {
        ck_assert_int_eq(failure.kind, FAILURE_HEADERS_TOO_LARGE);
        ck_assert_int_eq(failure_status(&failure, ERROR_FORM_OPENAI), 431);
        ck_assert_ptr_nonnull(strstr(failure.message, arena_printf(arena, "%zu", row->bytes)));
        ck_assert_ptr_nonnull(strstr(failure.message, "1000"));
    } else {
        ck_assert_int_eq(failure.kind, FAILURE_KIND_COUNT);
    }
}
END_TEST

/* Of the smallest ones, whose lengths and prefixes take the most room, beside a long path. */
START_TEST(as_many_bytes_of_headers_as_may_be_allowed_fit_into_the_parameters)
{
    enum { HEADERS = REQUEST_HEADER_BYTES_MAX / 5, PATH_BYTES = 8 * 1024 }; /* "X: \r\n" */
    char *path = arena_alloc(arena, PATH_BYTES + 1);
    const char **pairs = arena_array_of(arena, const char *, 2 * HEADERS + 5), **at = pairs;
    struct buf wire;

    memset(path, 'p', PATH_BYTES);
    path[PATH_BYTES] = '\0';
    for (int i = 0; i < HEADERS; i++) {
        *at++ = "HTTP_X";
        *at++ = "";
    }
    *at++ = "REQUEST_URI";
    *at++ = path;
    *at++ = "PATH_INFO";
    *at++ = path;
    *at = NULL;
    buf_init(&wire, WIRE_BYTES);
    wire_head(&wire, pairs);
    wire_end(&wire, FCGI_STDIN);
    wire_send(front, &wire);
    buf_free(&wire);
    ck_assert_int_eq(conn_begin(&conn, conn.fd, 10 * STALL_MS), 0);
    ck_assert_int_eq(request_read(&request, &conn, arena, REQUEST_HEADER_BYTES_MAX, MAX_BODY_BYTES, &failure),
                     0);
    ck_assert_uint_eq(strlen(request.path), PATH_BYTES);
    ck_assert_int_eq(request_read(&request, &conn, arena, (size_t)HEADERS * 5 - 1, MAX_BODY_BYTES, &failure),
                     ERR_LIMIT);
}
END_TEST

/* --- the query ------------------------------------------------------------------ */

static const struct query_row {
    const char *query; /* NULL: there is none */
    const char *value; /* of "model"; NULL: there is none */
} query_rows[] = {
    { "model=tts", "tts" },
    { "a=1&model=tts&b=2", "tts" },
    { "model=one&model=two", "one" },
    { "model=", "" },
    { "model", "" },
    { "&&model=x&", "x" },
    { "model=a=b", "a=b" },
    { "model=a+b%20c%2Bd", "a b c+d" },
    { "model=%e4%BD%a0", "\xE4\xBD\xA0" },
    { "mod%65l=x", "x" },
    { "model=100%", "100%" },
    { "model=%4", "%4" },
    { "model=%zz%4g%g4", "%zz%4g%g4" },
    { "model=%41", "A" },
    { "model=%&x=41", "%" },
    { NULL, NULL },
    { "", NULL },
    { "Model=x", NULL },
    { "models=x", NULL },
    { "mode=x", NULL },
    { "=model", NULL },
    { "x=model", NULL },
};

START_TEST(a_parameter_of_the_query_is_found_and_decoded)
{
    const struct query_row *row = &query_rows[_i];
    struct span value = span_cstr("untouched");

    ck_assert_int_eq(read_one("QUERY_STRING", row->query), 0);
    bool is_there = request_query(&request, "model", &value);
    ck_assert_msg(is_there == (row->value != NULL), "\"%s\"", row->query);
    ck_assert_msg(span_is(value, is_there ? row->value : "untouched"), "\"%s\": \"%.*s\"", row->query,
                  (int)value.len, value.ptr);
}
END_TEST

static const struct bearer_row {
    const char *header, *key;
} bearer_rows[] = {
    { "Bearer key", "key" },
    { "bearer key", "key" },
    { "BEARER   key  ", "key" },
    { " Bearer a b", "a b" },
    { "Bearer ", "" },
    { "Bearer", "" },
    { "Bearerkey", "" },
    { "Basic key", "" },
    { "key", "" },
    { "", "" },
    { NULL, "" },
};

START_TEST(the_bearer_key_is_what_follows_the_scheme)
{
    const struct bearer_row *row = &bearer_rows[_i];
    ck_assert_int_eq(read_one("HTTP_AUTHORIZATION", row->header), 0);
    struct span key = request_bearer(&request);
    ck_assert_msg(span_is(key, row->key), "\"%s\" gave \"%.*s\"", row->header, (int)key.len, key.ptr);
}
END_TEST

/* --- the body -------------------------------------------------------------------- */

/* Reads a body sent with these two parameters. */
static int read_json(const char *type, const char *length, struct span body, bool is_whole, struct span *got)
{
    const char *const pairs[] = {
        "X",    "1", type == NULL ? "Y" : "CONTENT_TYPE", type == NULL ? "1" : type, "CONTENT_LENGTH",
        length, NULL
    };
    ck_assert_int_eq(read_request(pairs, body, is_whole), 0);
    return request_read_body(&request, "application/json", got, &failure);
}

static void expect_refusal(int r, enum failure_kind kind, int status)
{
    ck_assert_msg(r < 0, "it was read");
    ck_assert_int_eq(failure.kind, kind);
    ck_assert_int_eq(failure_status(&failure, ERROR_FORM_OPENAI), status);
}

static const struct type_row {
    const char *type;
    bool is_json;
} type_rows[] = {
    { "application/json", true },
    { "Application/JSON", true },
    { "application/json; charset=utf-8", true },
    { " application/json ;x", true },
    { "application/json;", true },
    { NULL, false },
    { "", false },
    { ";", false },
    { "application/jsonx", false },
    { "application/json-patch+json", false },
    { "text/json", false },
    { "text/plain; application/json", false },
    { "multipart/form-data; boundary=x", false },
    { "application/x-www-form-urlencoded", false },
};

START_TEST(only_json_is_read)
{
    const struct type_row *row = &type_rows[_i];
    struct span body = { NULL, 0 };
    int r = read_json(row->type, "2", span_cstr("{}"), true, &body);

    if (row->is_json) {
        ck_assert_msg(r == 0 && span_is(body, "{}"), "\"%s\"", row->type);
    } else {
        ck_assert_msg(failure.kind == FAILURE_UNSUPPORTED_MEDIA_TYPE, "\"%s\"", row->type);
        expect_refusal(r, FAILURE_UNSUPPORTED_MEDIA_TYPE, 415);
        ck_assert_ptr_null(body.ptr);
    }
}
END_TEST

START_TEST(another_media_type_is_read_where_it_is_asked_for)
{
    const char *const pairs[] = { "CONTENT_TYPE", "Application/Merge-Patch+json; x", "CONTENT_LENGTH", "2",
                                  NULL };
    struct span body = { NULL, 0 };
    ck_assert_int_eq(read_request(pairs, span_cstr("{}"), true), 0);
    request.media_type = "application/merge-patch+json";
    ck_assert_int_eq(request_read_body(&request, "application/json", &body, &failure), 0);
    ck_assert(span_is(body, "{}"));
}
END_TEST

static const struct length_row {
    const char *length;
    const char *body; /* NULL: the length is refused */
} length_rows[] = {
    { "5", "12345" }, { "005", "12345" }, { "0", "" },
    { "", "" },       { NULL, "" },       { "+5", NULL },
    { "-1", NULL },   { "-0", NULL },     { " 5", NULL },
    { "5 ", NULL },   { "5x", NULL },     { "0x5", NULL },
    { "5, 5", NULL }, { "five", NULL },   { "99999999999999999999999999", NULL },
};

START_TEST(a_content_length_is_digits_or_absent)
{
    const struct length_row *row = &length_rows[_i];
    struct span body = { NULL, 0 };
    int r = read_json("application/json", row->length, span_cstr(row->body), true, &body);

    if (row->body != NULL) {
        ck_assert_msg(r == 0 && span_is(body, row->body), "\"%s\": %s", row->length, err_name(r));
        ck_assert(conn.is_input_read);
    } else {
        ck_assert_msg(failure.kind == FAILURE_INVALID_REQUEST, "\"%s\"", row->length);
        expect_refusal(r, FAILURE_INVALID_REQUEST, 400);
    }
}
END_TEST

static const struct size_row {
    size_t announced, sent;
    int status; /* 0: it is read */
} size_rows[] = {
    { 1, 1, 0 },     { MAX_BODY_BYTES, MAX_BODY_BYTES, 0 },
    { 10, 9, 400 },  { 10, 0, 400 },
    { 10, 11, 400 }, { 10, 15000, 400 },
    { 0, 1, 400 },   { MAX_BODY_BYTES, MAX_BODY_BYTES - 1, 400 },
};

START_TEST(a_body_has_exactly_the_announced_length)
{
    const struct size_row *row = &size_rows[_i];
    char *bytes = arena_alloc(arena, row->sent + 1);
    struct span sent = { bytes, row->sent }, body = { NULL, 0 };

    for (size_t i = 0; i < row->sent; i++)
        bytes[i] = (char)('a' + i % 23);
    int r = read_json("application/json", arena_printf(arena, "%zu", row->announced), sent, true, &body);
    if (row->status == 0) {
        ck_assert_msg(r == 0 && span_eq(body, sent), "%zu bytes: %s", row->sent, err_name(r));
    } else {
        ck_assert_msg(failure.kind == FAILURE_BODY_INCOMPLETE, "%zu bytes of %zu", row->sent, row->announced);
        expect_refusal(r, FAILURE_BODY_INCOMPLETE, row->status);
        ck_assert_ptr_null(body.ptr);
    }
}
END_TEST

static const char *const too_long[] = { "20001", "33554433", "18446744073709551615" };

START_TEST(a_body_over_the_limit_is_refused_without_being_read)
{
    struct span body = { NULL, 0 };
    uint64_t start = clock_monotonic_us();
    /* None of it ever comes: reading would wait. */
    int r = read_json("application/json", too_long[_i], span_of(NULL, 0), false, &body);

    expect_refusal(r, FAILURE_BODY_TOO_LARGE, 413);
    ck_assert_int_eq(r, ERR_LIMIT);
    ck_assert_uint_lt(clock_monotonic_us() - start, STALL_MS * US_PER_MS);
    ck_assert(!conn.is_input_read);
    ck_assert_ptr_nonnull(strstr(failure.message, too_long[_i]));
    ck_assert_ptr_nonnull(strstr(failure.message, "20000"));
}
END_TEST

static const struct broken_row {
    const char *what;
    struct span body; /* of 4 bytes announced */
    bool leaves;
    int result;
} broken_rows[] = {
    { "a departure inside the body", { "ab", 2 }, true, ERR_CLIENT_GONE },
    { "a departure before the body's end", { "abcd", 4 }, true, ERR_CLIENT_GONE },
    { "silence inside the body", { "ab", 2 }, false, ERR_TIMEOUT },
    { "silence before the body's end", { "abcd", 4 }, false, ERR_TIMEOUT },
};

START_TEST(a_body_that_breaks_off_is_nobodys_mistake)
{
    const struct broken_row *row = &broken_rows[_i];
    const char *const pairs[] = { "CONTENT_TYPE", "application/json", "CONTENT_LENGTH", "4", NULL };
    struct span body = { NULL, 0 };

    ck_assert_int_eq(read_request(pairs, row->body, false), 0);
    if (row->leaves)
        shutdown(front, SHUT_WR);
    int r = request_read_body(&request, "application/json", &body, &failure);
    ck_assert_msg(r == row->result, "%s: %s", row->what, err_name(r));
    ck_assert_msg(failure.kind == FAILURE_KIND_COUNT, "%s gave a failure", row->what);
    ck_assert_msg(body.ptr == NULL, "%s gave a body", row->what);
}
END_TEST

enum { OVER_SMALL_BYTES = REQUEST_BODY_SMALL_BYTES + 1 };

static const struct memory_row {
    uint64_t others_bytes, bytes; /* reserved by another worker; of this body */
    bool is_read;
} memory_rows[] = {
    { 0, OVER_SMALL_BYTES, true },
    { 300000 - OVER_SMALL_BYTES, OVER_SMALL_BYTES, true },
    { 300000 - OVER_SMALL_BYTES + 1, OVER_SMALL_BYTES, false },
    { 300000, OVER_SMALL_BYTES, false },
    { 300000, REQUEST_BODY_SMALL_BYTES, true }, /* small ones are not counted */
    { 0, 300001, false },
};

START_TEST(large_bodies_of_all_workers_share_a_bound)
{
    const struct memory_row *row = &memory_rows[_i];
    const char *length = arena_printf(arena, "%llu", (unsigned long long)row->bytes);
    const char *const pairs[] = { "CONTENT_TYPE", "application/json", "CONTENT_LENGTH", length, NULL };
    struct span body = { NULL, 0 };
    struct mapping *mapping = NULL;
    char dir[] = "/tmp/test_request.XXXXXX";

    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(mapping_create(dir, "prog", 2, &mapping, &e), 0);
    ck_assert_int_eq(unlink(arena_printf(arena, "%s/prog.map", dir)), 0);
    ck_assert_int_eq(rmdir(dir), 0);
    struct engine_process process = { .mapping = mapping, .record = &mapping->workers[0] };
    atomic_store(&mapping->workers[1].body_bytes, row->others_bytes);

    /* None of it ever comes: one that is read at all waits for it. */
    ck_assert_int_eq(read_request(pairs, span_of(NULL, 0), false), 0);
    request.max_body_bytes = 1000000;
    request.process = &process;
    request.body_memory_bytes = 300000;
    int r = request_read_body(&request, "application/json", &body, &failure);
    ck_assert_msg((r == ERR_TIMEOUT) == row->is_read, "%llu bytes beside %llu: %s",
                  (unsigned long long)row->bytes, (unsigned long long)row->others_bytes, err_name(r));
    if (row->is_read) {
        ck_assert_uint_eq(mapping->workers[0].body_bytes,
                          row->bytes > REQUEST_BODY_SMALL_BYTES ? row->bytes : 0);
    } else {
        expect_refusal(r, FAILURE_BODY_MEMORY_FULL, 503);
        ck_assert_uint_eq(failure.retry_after_s, 1);
        ck_assert_uint_eq(mapping->workers[0].body_bytes, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request");
    TCase *head = tcase_create("head"), *body = tcase_create("body");

    tcase_add_checked_fixture(head, set_up, tear_down);
    tcase_add_loop_test(head, a_well_formed_request_id_is_kept_and_any_other_replaced, 0,
                        sizeof(id_rows) / sizeof(id_rows[0]));
    tcase_add_test(head, an_id_may_be_chosen_from_bytes_alone);
    tcase_add_loop_test(head, method_and_path_come_from_the_parameters_and_are_never_null, 0,
                        sizeof(path_rows) / sizeof(path_rows[0]));
    tcase_add_test(head, as_many_bytes_of_headers_as_may_be_allowed_fit_into_the_parameters);
    tcase_add_loop_test(head, a_header_block_over_the_limit_is_refused_with_its_size, 0,
                        sizeof(header_rows) / sizeof(header_rows[0]));
    tcase_add_loop_test(head, a_parameter_of_the_query_is_found_and_decoded, 0,
                        sizeof(query_rows) / sizeof(query_rows[0]));
    tcase_add_loop_test(head, the_bearer_key_is_what_follows_the_scheme, 0,
                        sizeof(bearer_rows) / sizeof(bearer_rows[0]));
    suite_add_tcase(suite, head);

    tcase_add_checked_fixture(body, set_up, tear_down);
    tcase_add_test(body, another_media_type_is_read_where_it_is_asked_for);
    tcase_add_loop_test(body, only_json_is_read, 0, sizeof(type_rows) / sizeof(type_rows[0]));
    tcase_add_loop_test(body, a_content_length_is_digits_or_absent, 0,
                        sizeof(length_rows) / sizeof(length_rows[0]));
    tcase_add_loop_test(body, a_body_has_exactly_the_announced_length, 0,
                        sizeof(size_rows) / sizeof(size_rows[0]));
    tcase_add_loop_test(body, a_body_over_the_limit_is_refused_without_being_read, 0,
                        sizeof(too_long) / sizeof(too_long[0]));
    tcase_add_loop_test(body, a_body_that_breaks_off_is_nobodys_mistake, 0,
                        sizeof(broken_rows) / sizeof(broken_rows[0]));
    tcase_add_loop_test(body, large_bodies_of_all_workers_share_a_bound, 0,
                        sizeof(memory_rows) / sizeof(memory_rows[0]));
    suite_add_tcase(suite, body);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
