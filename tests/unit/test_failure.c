/* What a caller is told when we answer: statuses, codes and the two forms of the body. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/json/scan.h"
#include "core/route/failure.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { BODY_BYTES = 4096 };

/* Statuses and codes of the seeds' form are theirs; of the other, OpenAI's. */
static const struct {
    enum failure_kind kind;
    int status, status_coded;
    const char *coded, *type, *code;
    bool can_retry;
} kinds[] = {
    { FAILURE_INVALID_JSON, 400, 400, "BAD_REQUEST", "invalid_request_error", "invalid_json", false },
    { FAILURE_INVALID_REQUEST, 400, 400, "BAD_REQUEST", "invalid_request_error", "invalid_request", false },
    { FAILURE_UNKNOWN_MODEL, 404, 400, "BAD_REQUEST", "invalid_request_error", "model_not_found", false },
    { FAILURE_MISSING_MODEL, 400, 400, "MISSING_MODEL", "invalid_request_error", "missing_model", false },
    { FAILURE_UNAUTHORIZED, 401, 401, "UNAUTHORIZED", "invalid_request_error", "invalid_api_key", false },
    { FAILURE_FORBIDDEN, 403, 403, "FORBIDDEN", "invalid_request_error", "forbidden", false },
    { FAILURE_NOT_FOUND, 404, 404, "NOT_FOUND", "invalid_request_error", "not_found", false },
    { FAILURE_METHOD_NOT_ALLOWED, 405, 405, "METHOD_NOT_ALLOWED", "invalid_request_error",
      "method_not_allowed", false },
    { FAILURE_BODY_TOO_LARGE, 413, 413, "PAYLOAD_TOO_LARGE", "invalid_request_error", "body_too_large",
      false },
    { FAILURE_BODY_INCOMPLETE, 400, 400, "BAD_REQUEST", "invalid_request_error", "body_incomplete", false },
    { FAILURE_BODY_MEMORY_FULL, 503, 503, "SERVICE_UNAVAILABLE", "server_error", "body_memory_full", true },
    { FAILURE_UNSUPPORTED_MEDIA_TYPE, 415, 415, "UNSUPPORTED_MEDIA_TYPE", "invalid_request_error",
      "unsupported_media_type", false },
    { FAILURE_HEADERS_TOO_LARGE, 431, 431, "HEADERS_TOO_LARGE", "invalid_request_error", "headers_too_large",
      false },
    { FAILURE_PRECONDITION_REQUIRED, 412, 412, "PRECONDITION_REQUIRED", "invalid_request_error",
      "precondition_required", false },
    { FAILURE_CONFLICT, 409, 409, "CONFLICT", "invalid_request_error", "conflict", false },
    { FAILURE_CONFIG_NOT_SET, 503, 503, "CONFIG_NOT_SET", "server_error", "config_not_set", false },
    { FAILURE_STORE_DOWN, 503, 503, "CONFIG_UNAVAILABLE", "server_error", "config_unavailable", true },
    { FAILURE_DECRYPT_FAILED, 503, 503, "DECRYPT_FAILED", "server_error", "decrypt_failed", false },
    { FAILURE_UPSTREAM_UNAVAILABLE, 502, 502, "BAD_GATEWAY", "server_error", "upstream_unavailable", true },
    { FAILURE_UPSTREAM_RATE_LIMITED, 503, 503, "SERVICE_UNAVAILABLE", "server_error", "upstream_rate_limited",
      true },
    { FAILURE_UPSTREAM_TIMEOUT, 504, 504, "GATEWAY_TIMEOUT", "server_error", "upstream_timeout", true },
    { FAILURE_CALLER_THROTTLED, 429, 429, "TOO_MANY_REQUESTS", "rate_limit_error", "rate_limit_exceeded",
      true },
    { FAILURE_ALL_SKIPPED, 503, 503, "SERVICE_UNAVAILABLE", "server_error", "no_candidate_free", true },
    { FAILURE_SPEECH_SATURATED, 503, 503, "TTS_POOL_SATURATED", "server_error", "tts_pool_saturated", true },
    { FAILURE_MODEL_BUSY, 503, 503, "SERVICE_UNAVAILABLE", "server_error", "model_busy", true },
    { FAILURE_OVERLOADED, 503, 503, "SERVICE_UNAVAILABLE", "server_error", "overloaded", true },
    { FAILURE_INTERNAL, 500, 500, "INTERNAL_SERVER_ERROR", "server_error", "internal_error", true },
};

static struct buf body;

static void set_up(void)
{
    buf_init(&body, BODY_BYTES);
}

static void tear_down(void)
{
    buf_free(&body);
}

static const char *written(const struct failure *failure, enum error_form form)
{
    buf_clear(&body);
    failure_write(failure, form, &body);
    buf_append_char(&body, '\0');
    ck_assert(!body.overflowed);
    return body.data;
}

static void expect_member(const char *text, const char *path, const char *expected)
{
    const struct json_want want = { path, false };
    struct json_value value;
    ck_assert_msg(json_find(span_cstr(text), &want, 1, JSON_SCAN_UNIQUE, &value, NULL) == 0, "%s", text);
    ck_assert_msg(value.kind == JSON_KIND_STRING && json_string_is(value.raw, expected), "%s is not %s in %s",
                  path, expected, text);
}

START_TEST(a_kind_of_failure_has_its_status_and_codes_in_both_forms)
{
    const struct failure failure = { .kind = kinds[_i].kind };
    ck_assert_int_eq(failure_status(&failure, ERROR_FORM_OPENAI), kinds[_i].status);
    ck_assert_int_eq(failure_status(&failure, ERROR_FORM_CODED), kinds[_i].status_coded);
    ck_assert_str_eq(failure_code(&failure), kinds[_i].code);
    ck_assert_str_eq(failure_type(&failure), kinds[_i].type);
    ck_assert_int_eq(failure_can_retry(&failure), kinds[_i].can_retry);
    ck_assert_uint_gt(strlen(failure_message(&failure)), 0);

    const char *openai = written(&failure, ERROR_FORM_OPENAI);
    expect_member(openai, "error.message", failure_message(&failure));
    expect_member(openai, "error.type", kinds[_i].type);
    expect_member(openai, "error.code", kinds[_i].code);
    const char *coded = written(&failure, ERROR_FORM_CODED);
    expect_member(coded, "error", kinds[_i].coded);
    expect_member(coded, "message", failure_message(&failure));
}
END_TEST

START_TEST(every_kind_is_in_the_table_once)
{
    ck_assert_uint_eq(COUNT(kinds), FAILURE_KIND_COUNT);
    for (size_t i = 0; i < COUNT(kinds); i++)
        ck_assert_uint_eq((size_t)kinds[i].kind, i);
}
END_TEST

static const struct {
    struct failure failure;
    enum error_form form;
    const char *body;
} bodies[] = {
    { { .kind = FAILURE_NOT_FOUND },
      ERROR_FORM_OPENAI,
      "{\"error\":{\"message\":\"There is nothing here.\",\"type\":\"invalid_request_error\",\"param\":null,"
      "\"code\":\"not_found\"}}" },
    { { .kind = FAILURE_NOT_FOUND },
      ERROR_FORM_CODED,
      "{\"error\":\"NOT_FOUND\",\"message\":\"There is nothing here.\"}" },
    { { .kind = FAILURE_INVALID_REQUEST, .message = "`model` \"x\" is wrong.", .param = "model" },
      ERROR_FORM_OPENAI,
      "{\"error\":{\"message\":\"`model` \\\"x\\\" is "
      "wrong.\",\"type\":\"invalid_request_error\",\"param\":\"model\","
      "\"code\":\"invalid_request\"}}" },
    /* a number when a status came, a word when none did */
    { { .kind = FAILURE_UPSTREAM_UNAVAILABLE,
        .has_attempts = true,
        .tried_keys = 3,
        .tried_upstreams = 2,
        .last_status = "401" },
      ERROR_FORM_CODED,
      "{\"error\":\"BAD_GATEWAY\",\"message\":\"Upstream unavailable\",\"details\":{\"triedKeys\":3,"
      "\"triedUpstreams\":2,\"lastStatusCode\":401}}" },
    { { .kind = FAILURE_UPSTREAM_TIMEOUT,
        .has_attempts = true,
        .tried_keys = 1,
        .tried_upstreams = 1,
        .last_status = "timeout" },
      ERROR_FORM_OPENAI,
      "{\"error\":{\"message\":\"Upstream timeout\",\"type\":\"server_error\",\"param\":null,\"code\":"
      "\"upstream_timeout\",\"details\":{\"triedKeys\":1,\"triedUpstreams\":1,\"lastStatusCode\":\"timeout\"}"
      "}}" },
    { { .kind = FAILURE_UNKNOWN_MODEL, .details = { "{\"requested\":\"x\",\"available\":[]}", 32 } },
      ERROR_FORM_CODED,
      "{\"error\":\"BAD_REQUEST\",\"message\":\"unknown_model\",\"details\":{\"requested\":\"x\","
      "\"available\":[]}}" },
};

START_TEST(a_failure_is_written_in_its_mounts_form)
{
    ck_assert_str_eq(written(&bodies[_i].failure, bodies[_i].form), bodies[_i].body);
}
END_TEST

START_TEST(where_a_retry_cannot_help_none_is_promised)
{
    const struct failure failure = { .kind = FAILURE_UPSTREAM_UNAVAILABLE, .no_retry = true };
    ck_assert(!failure_can_retry(&failure));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("failure");
    TCase *tcase = tcase_create("table");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_kind_of_failure_has_its_status_and_codes_in_both_forms, 0,
                        (int)COUNT(kinds));
    tcase_add_test(tcase, every_kind_is_in_the_table_once);
    tcase_add_loop_test(tcase, a_failure_is_written_in_its_mounts_form, 0, (int)COUNT(bodies));
    tcase_add_test(tcase, where_a_retry_cannot_help_none_is_promised);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
