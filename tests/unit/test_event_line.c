#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/ctl/event_line.h"

static struct arena *arena;
static struct event_line line;

static void set_up(void)
{
    arena = arena_new();
}

static void tear_down(void)
{
    arena_free(arena);
}

/* As the programs write it. */
START_TEST(what_an_event_says_is_read_from_its_line)
{
    static struct request_event event;
    struct buf text;

    event_begin(&event);
    event.request_id = "r-1";
    event.model = span_cstr("gpt \"4\"\n");
    event.end = EVENT_END_ERROR_BEFORE;
    event.status = 502;
    event.code = "upstream_unavailable";
    event.ttft_us = 17;
    event.total_us = 40;
    *event_add_attempt(&event) = (struct attempt_event){
        .upstream = span_cstr("a"), .key_fp = "0a1b2c3d", .status = 401, .verdict = "auth", .reason = "code:x"
    };
    *event_add_attempt(&event) =
        (struct attempt_event){ .upstream = span_cstr("b"), .verdict = "connect", .first_byte_us = 9 };
    buf_init(&text, EVENT_LIMIT_BYTES);
    event_write(&event, &text);
    ck_assert_int_eq(event_line_read(buf_span(&text), arena, &line), 0);
    buf_free(&text);
    ck_assert_str_eq(line.request_id, "r-1");
    ck_assert_str_eq(line.model, "gpt \"4\"\n");
    ck_assert_str_eq(line.end, "error_before");
    ck_assert_str_eq(line.code, "upstream_unavailable");
    ck_assert_uint_eq(line.status, 502);
    ck_assert_uint_eq(line.time_us, event.time_us);
    ck_assert_uint_eq(line.total_us, 40);
    ck_assert_uint_eq(line.ttft_us, 17);
    ck_assert_int_eq(line.fallback_depth, 1);
    ck_assert_uint_eq(line.n_attempts, 2);
    ck_assert_str_eq(line.attempts[0].upstream, "a");
    ck_assert_str_eq(line.attempts[0].key_fp, "0a1b2c3d");
    ck_assert_str_eq(line.attempts[0].verdict, "auth");
    ck_assert_str_eq(line.attempts[0].reason, "code:x");
    ck_assert_uint_eq(line.attempts[0].status, 401);
    ck_assert_uint_eq(line.attempts[0].first_byte_us, 0);
    ck_assert_str_eq(line.attempts[1].upstream, "b");
    ck_assert_str_eq(line.attempts[1].key_fp, "");
    ck_assert_uint_eq(line.attempts[1].first_byte_us, 9);
}
END_TEST

START_TEST(what_an_event_does_not_say_is_empty)
{
    ck_assert_int_eq(
        event_line_read(span_cstr("{\"v\":1,\"time\":5,\"attempts\":[],\"later\":{}}"), arena, &line), 0);
    ck_assert_str_eq(line.request_id, "");
    ck_assert_str_eq(line.trace_id, "");
    ck_assert_uint_eq(line.n_attempts, 0);
    ck_assert_int_eq(line.fallback_depth, -1);
}
END_TEST

START_TEST(the_most_attempts_that_an_event_has_are_read)
{
    char *text = arena_strdup(arena, "{\"time\":1,\"attempts\":[");
    for (int i = 0; i < EVENT_ATTEMPTS_MAX; i++)
        text = arena_printf(arena, "%s%s{\"upstream\":\"u%d\"}", text, i == 0 ? "" : ",", i);
    ck_assert_int_eq(event_line_read(span_cstr(arena_printf(arena, "%s]}", text)), arena, &line), 0);
    ck_assert_uint_eq(line.n_attempts, EVENT_ATTEMPTS_MAX);
    ck_assert_str_eq(line.attempts[EVENT_ATTEMPTS_MAX - 1].upstream, "u63");
    ck_assert_int_eq(
        event_line_read(span_cstr(arena_printf(arena, "%s,{\"upstream\":\"u\"}]}", text)), arena, &line),
        ERR_FORMAT);
}
END_TEST

static const char *const refused[] = {
    "",
    "{",
    "{\"v\":1}", /* without a time it is no event */
    "{\"time\":0}",
    "{\"time\":\"5\"}",
    "{\"time\":-5}",
    "{\"time\":1,\"end\":7}",
    "{\"time\":1,\"status\":2.5}",
    "{\"time\":1,\"attempts\":[{\"upstream\":[]}]}",
    "{\"time\":1} ,",
    "[1]",
    "\"upstream\":\"rest\"}",
};

START_TEST(what_is_no_event_is_refused)
{
    int r = event_line_read(span_cstr(refused[_i]), arena, &line);
    ck_assert_msg(r == ERR_FORMAT, "%s: %d", refused[_i], r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_line");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_an_event_says_is_read_from_its_line);
    tcase_add_test(tcase, what_an_event_does_not_say_is_empty);
    tcase_add_test(tcase, the_most_attempts_that_an_event_has_are_read);
    tcase_add_loop_test(tcase, what_is_no_event_is_refused, 0, sizeof(refused) / sizeof(refused[0]));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
