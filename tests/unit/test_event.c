/* The request event: names, what is left out, and its bound. */
#include <check.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/json/scan.h"
#include "core/record/event.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct buf line;
static struct request_event event;

static void set_up(void)
{
    buf_init(&line, EVENT_LIMIT_BYTES);
    event_begin(&event);
}

static void tear_down(void)
{
    buf_free(&line);
}

/* The event as a reader gets it. The caller gives it back with json_object_put. */
static json_object *written(void)
{
    struct json_fault fault = { 0 };
    buf_clear(&line);
    event_write(&event, &line);
    ck_assert_msg(!line.overflowed, "the event has more than %d bytes", EVENT_LIMIT_BYTES);
    ck_assert_msg(json_scan(buf_span(&line), NULL, 0, JSON_SCAN_UNIQUE, NULL, NULL, &fault) == 0,
                  "%s at byte %zu: %.*s", fault.what, fault.offset, (int)line.len, line.data);
    ck_assert_ptr_null(memchr(line.data, '\n', line.len));
    buf_append_char(&line, '\0');
    json_object *object = json_tokener_parse(line.data);
    ck_assert_ptr_nonnull(object);
    return object;
}

static json_object *member(json_object *object, const char *name)
{
    json_object *value = NULL;
    ck_assert_msg(json_object_object_get_ex(object, name, &value), "no %s in %s", name,
                  json_object_to_json_string(object));
    return value;
}

static void expect_names(json_object *object, const char *names)
{
    char found[1024] = "";
    json_object_object_foreach(object, name, value)
    {
        (void)value;
        size_t len = strlen(found);
        snprintf(found + len, sizeof(found) - len, "%s%s", len > 0 ? " " : "", name);
    }
    ck_assert_str_eq(found, names);
}

static void fill_attempt(struct attempt_event *attempt)
{
    *attempt = (struct attempt_event){
        .upstream = span_cstr("u-1"),
        .upstream_index = 2,
        .provider = span_cstr("openai"),
        .account = span_cstr("acme"),
        .supplier_model = span_cstr("gpt"),
        .host = span_cstr("api.example"),
        .url = span_cstr("https://api.example/v1/chat/completions"),
        .dialect = span_cstr("chat"),
        .key_fp = "01234567",
        .start_us = 10,
        .dns_us = 11,
        .connect_us = 12,
        .tls_us = 13,
        .send_us = 14,
        .first_byte_us = 15,
        .first_content_us = 16,
        .last_byte_us = 17,
        .is_reused = true,
        .is_resumed = true,
        .replays = 1,
        .status = 200,
        .provider_code = "code",
        .verdict = "ok",
        .reason = "status",
        .fault = "none",
        .counts_for_health = true,
        .retry_after_s = 3,
        .bytes_in = 18,
        .bytes_out = 19,
        .held_events = 2,
    };
}

static void fill(void)
{
    event.instance = "i";
    event.worker = 3;
    event.generation = 7;
    event.request_id = "r";
    event.trace = (struct trace_context){
        .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
        .span_id = "00f067aa0ba902b7",
        .parent_span_id = "b7ad6b7169203331",
        .is_sampled = true,
    };
    event.key_id = "0123456789abcdef";
    event.remote_user = "fedcba9876543210";
    event.owner = span_cstr("o");
    event.mount = "/v1";
    event.endpoint = "chat/completions";
    event.dialect = "chat";
    event.has_stream = event.is_stream = true;
    event.model = span_cstr("asked");
    event.model_routed = span_cstr("routed");
    event.body_bytes = 20;
    event.text_utf16 = 12;
    event.client = "openai-python";
    fill_attempt(event_add_attempt(&event));
    event.end = EVENT_END_DONE;
    event.status = 200;
    event.code = "upstream_unavailable";
    event.is_committed = true;
    event.fallback_reason = "auth";
    event.response_model = "gpt-1";
    event.finish_reason = "stop";
    event.ttft_us = 21;
    event.total_us = 100;
    event.upstream_us = 60;
    event.client_wait_us = 30;
    event.usage = (struct usage){ true, 1, 2, 3, 4, 5, 6, 7, 8 };
}

START_TEST(an_event_that_says_everything_has_the_names_of_its_specification)
{
    fill();
    json_object *object = written();
    expect_names(
        object,
        "v id time instance worker generation request_id trace_id span_id parent_span_id sampled "
        "key_id remote_user owner mount dialect "
        "endpoint stream "
        "model model_routed body_bytes text_utf16 client attempts end status code committed fallback_depth "
        "fallback_reason response_model finish_reason ttft_us total_us upstream_us client_wait_us "
        "overhead_us usage");
    expect_names(
        json_object_array_get_idx(member(object, "attempts"), 0),
        "n upstream upstream_index provider account supplier_model key_fp dialect host url start_us dns_us "
        "connect_us tls_us send_us "
        "first_byte_us first_content_us last_byte_us reused resumed replayed status provider_code verdict "
        "reason "
        "fault "
        "counts_for_health retry_after_s bytes_in bytes_out held_events");
    expect_names(member(object, "usage"),
                 "input output cached_read cached_write reasoning audio_in audio_out audio_ms source");
    json_object_put(object);
}
END_TEST

/* --- an attempt beside another --- */

static const char *const chains[][3] = { { "cancelled", "ok" },     { "ok", "cancelled" },
                                         { "server", "ok" },        { "ok", "server" },
                                         { "server", "server" },    { "server", "server", "ok" },
                                         { "timeout", "cancelled" } };

static const struct {
    const char *const *verdicts; /* of attempts; the second one was begun beside the first */
    unsigned decided_by;
    enum event_hedge hedge;
    const char *name;
    unsigned decided, depth; /* what the line says */
} hedges[] = {
    { chains[0], 2, EVENT_HEDGE_WON, "won", 1, 0 },
    { chains[1], 1, EVENT_HEDGE_LOST, "lost", 0, 0 },
    { chains[2], 2, EVENT_HEDGE_WON, "won", 1, 1 },
    { chains[3], 1, EVENT_HEDGE_FAILED, "failed", 0, 0 },
    { chains[4], 0, EVENT_HEDGE_FAILED, "failed", 1, 1 },
    { chains[5], 3, EVENT_HEDGE_FAILED, "failed", 2, 2 },
    { chains[6], 1, EVENT_HEDGE_CANCELLED, "cancelled", 0, 0 },
};

START_TEST(of_an_attempt_beside_another_it_is_told_which_it_is_which_decided_and_how_long_each_took)
{
    for (unsigned i = 0; i < 3 && hedges[_i].verdicts[i] != NULL; i++) {
        struct attempt_event *attempt = event_add_attempt(&event);
        attempt->verdict = hedges[_i].verdicts[i];
        attempt->is_hedged = i == 1;
        attempt->took_us = 100 + i;
    }
    event.hedge = hedges[_i].hedge;
    event.decided_by = hedges[_i].decided_by;
    json_object *object = written(), *attempts = member(object, "attempts");
    ck_assert_str_eq(json_object_get_string(member(object, "hedge")), hedges[_i].name);
    ck_assert_int_eq(json_object_get_int(member(object, "fallback_depth")), (int)hedges[_i].depth);
    ck_assert_ptr_eq(event_deciding_attempt(&event), &event.attempts[hedges[_i].decided]);
    for (unsigned i = 0; i < event.n_attempts; i++) {
        json_object *attempt = json_object_array_get_idx(attempts, i);
        ck_assert_int_eq(json_object_object_get_ex(attempt, "hedged", NULL), i == 1);
        ck_assert_msg(json_object_object_get_ex(attempt, "decided", NULL) == (i == hedges[_i].decided),
                      "row %d: attempt %u", _i, i);
        ck_assert_int_eq(json_object_get_int(member(attempt, "took_us")), (int)(100 + i));
    }
    json_object_put(object);
}
END_TEST

START_TEST(one_that_was_not_made_is_told_without_an_attempt)
{
    static const struct {
        enum event_hedge hedge;
        const char *name;
    } rows[] = { { EVENT_HEDGE_BUSY, "busy" }, { EVENT_HEDGE_NO_SLOT, "no_slot" } };
    fill_attempt(event_add_attempt(&event));
    event.decided_by = 1;
    event.hedge = rows[_i].hedge;
    json_object *object = written();
    ck_assert_str_eq(json_object_get_string(member(object, "hedge")), rows[_i].name);
    json_object *attempt = json_object_array_get_idx(member(object, "attempts"), 0);
    ck_assert(!json_object_object_get_ex(attempt, "decided", NULL));
    ck_assert(!json_object_object_get_ex(attempt, "took_us", NULL));
    json_object_put(object);
}
END_TEST

START_TEST(an_event_with_nothing_to_say_leaves_it_out)
{
    json_object *object = written();
    expect_names(object, "v id time worker attempts end committed total_us overhead_us");
    ck_assert_uint_eq(json_object_array_length(member(object, "attempts")), 0);
    json_object_put(object);
}
END_TEST

START_TEST(a_count_of_nought_is_said_where_it_can_occur)
{
    event_add_attempt(&event);
    event.usage = (struct usage){ true, 0, -1, -1, -1, -1, -1, -1, -1 };
    event.has_stream = true;
    json_object *object = written();
    expect_names(json_object_array_get_idx(member(object, "attempts"), 0),
                 "n upstream_index start_us reused counts_for_health bytes_in bytes_out");
    expect_names(member(object, "usage"), "input source");
    ck_assert_int_eq(json_object_get_int(member(object, "fallback_depth")), 0);
    ck_assert(!json_object_get_boolean(member(object, "stream")));
    json_object_put(object);
}
END_TEST

static const struct {
    bool has_tokens, is_estimated;
    const char *names, *source;
} characters[] = {
    { false, true, "characters source", "estimated" },
    { false, false, "characters source", "upstream" },
    { true, false, "input characters source", "upstream" },
    { true, true, "input characters source", "estimated" },
};

START_TEST(characters_are_said_where_a_text_was_spoken_and_who_counted_them)
{
    usage_init(&event.usage);
    if (characters[_i].has_tokens)
        event.usage = (struct usage){ true, 3, -1, -1, -1, -1, -1, -1, -1 };
    event.characters = 12;
    event.is_usage_estimated = characters[_i].is_estimated;
    json_object *object = written(), *usage = member(object, "usage");
    expect_names(usage, characters[_i].names);
    ck_assert_int_eq(json_object_get_int(member(usage, "characters")), 12);
    ck_assert_str_eq(json_object_get_string(member(usage, "source")), characters[_i].source);
    json_object_put(object);
}
END_TEST

START_TEST(a_trace_that_begins_here_has_no_parent_and_says_that_it_is_not_sampled)
{
    event.trace = (struct trace_context){ .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
                                          .span_id = "00f067aa0ba902b7" };
    json_object *object = written();
    expect_names(object,
                 "v id time worker trace_id span_id sampled attempts end committed total_us overhead_us");
    ck_assert(!json_object_get_boolean(member(object, "sampled")));
    json_object_put(object);
}
END_TEST

/* 2026-01-01 .. 2100-01-01 */
START_TEST(an_event_is_identified_by_its_time)
{
    json_object *object = written();
    int64_t time_us = json_object_get_int64(member(object, "time"));
    const char *id = json_object_get_string(member(object, "id"));
    char digits[13];
    ck_assert_int_gt(time_us, INT64_C(1767225600000000));
    ck_assert_int_lt(time_us, INT64_C(4102444800000000));
    ck_assert_uint_eq(strlen(id), UUID_TEXT_BYTES - 1);
    snprintf(digits, sizeof(digits), "%.8s%.4s", id, id + 9);
    ck_assert_uint_eq(strtoull(digits, NULL, 16), (uint64_t)time_us / US_PER_MS); /* UUIDv7 */
    ck_assert_int_eq(id[14], '7');
    json_object_put(object);
}
END_TEST

START_TEST(a_second_event_in_the_same_memory_holds_nothing_of_the_first)
{
    char first[UUID_TEXT_BYTES];
    fill();
    memcpy(first, event.id, sizeof(first));
    event_begin(&event);
    ck_assert_str_ne(first, event.id);
    json_object *object = written();
    expect_names(object, "v id time worker attempts end committed total_us overhead_us");
    json_object_put(object);
}
END_TEST

START_TEST(overhead_is_what_neither_the_upstream_nor_the_caller_took)
{
    static const struct {
        uint64_t total_us, upstream_us, client_wait_us;
        int64_t overhead_us;
        uint64_t slot_wait_us;
    } rows[] = { { 100, 60, 30, 10, 0 },
                 { 100, 0, 0, 100, 0 },
                 { 100, 60, 40, 0, 0 },
                 { 100, 80, 40, 0, 0 },
                 { 100, 20, 30, 10, 40 } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        event.total_us = rows[i].total_us;
        event.upstream_us = rows[i].upstream_us;
        event.client_wait_us = rows[i].client_wait_us;
        event.pool.waited_us = rows[i].slot_wait_us;
        json_object *object = written();
        ck_assert_int_eq(json_object_get_int64(member(object, "overhead_us")), rows[i].overhead_us);
        json_object_put(object);
    }
}
END_TEST

START_TEST(of_a_dead_workers_request_nobody_knows_the_overhead)
{
    event.end = EVENT_END_WORKER_DIED;
    event.total_us = 100;
    json_object *object = written();
    expect_names(object, "v id time worker attempts end committed total_us");
    json_object_put(object);
}
END_TEST

START_TEST(what_became_of_each_limit_is_told)
{
    event.n_admissions = 2;
    event.admissions[0] = (struct admission_event){ "requests", 1, 1, "settled", "mapping" };
    event.admissions[1] = (struct admission_event){ "tokens", 0, 0, "", "redis" };
    json_object *object = written();
    ck_assert_str_eq(json_object_to_json_string_ext(member(object, "admission"), JSON_C_TO_STRING_PLAIN),
                     "[{\"meter\":\"requests\",\"held\":1,\"settled\":1,\"result\":\"settled\","
                     "\"where\":\"mapping\"},"
                     "{\"meter\":\"tokens\",\"held\":0,\"settled\":0,\"where\":\"redis\"}]");
    json_object_put(object);
}
END_TEST

START_TEST(what_became_of_the_slot_is_told_behind_the_limits)
{
    static const struct {
        struct pool_event pool;
        const char *text;
    } rows[] = {
        { { "settled", "redis", { "tts:pool:1", 10 }, 250 },
          "{\"meter\":\"pool\",\"held\":1,\"settled\":1,\"result\":\"settled\",\"where\":\"redis\","
          "\"pool\":\"tts:pool:1\",\"waited_us\":250}" },
        { { "refused", "mapping", { NULL, 0 }, 0 },
          "{\"meter\":\"pool\",\"held\":0,\"settled\":0,\"result\":\"refused\",\"where\":\"mapping\"}" },
        { { "cancelled", "mapping", { "tts:pool:1", 10 }, 0 },
          "{\"meter\":\"pool\",\"held\":1,\"settled\":0,\"result\":\"cancelled\",\"where\":\"mapping\","
          "\"pool\":\"tts:pool:1\"}" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        event.n_admissions = i % 2 == 0 ? 1 : 0;
        event.admissions[0] = (struct admission_event){ "requests", 1, 1, "settled", "mapping" };
        event.pool = rows[i].pool;
        json_object *object = written();
        json_object *list = member(object, "admission");
        ck_assert_uint_eq(json_object_array_length(list), event.n_admissions + 1);
        ck_assert_str_eq(json_object_to_json_string_ext(json_object_array_get_idx(list, event.n_admissions),
                                                        JSON_C_TO_STRING_PLAIN),
                         rows[i].text);
        json_object_put(object);
    }
}
END_TEST

START_TEST(upstreams_that_were_passed_over_are_told_with_the_reason_and_the_rest_is_counted)
{
    event_add_skip(&event, span_cstr("a"), "pool_full");
    event_add_skip(&event, span_cstr("b"), "pool_saturated");
    json_object *object = written();
    ck_assert_str_eq(json_object_to_json_string_ext(member(object, "decision"), JSON_C_TO_STRING_PLAIN),
                     "{\"candidates\":[{\"upstream\":\"a\",\"state\":\"skipped\",\"reason\":\"pool_full\"},"
                     "{\"upstream\":\"b\",\"state\":\"skipped\",\"reason\":\"pool_saturated\"}]}");
    json_object_put(object);
    for (int i = 0; i < EVENT_SKIPS_MAX; i++)
        event_add_skip(&event, span_cstr("c"), "pool_full");
    object = written();
    json_object *decision = member(object, "decision");
    ck_assert_uint_eq(json_object_array_length(member(decision, "candidates")), EVENT_SKIPS_MAX);
    ck_assert_int_eq(json_object_get_int(member(decision, "candidates_dropped")), 2);
    json_object_put(object);
}
END_TEST

static const struct {
    enum event_end end;
    const char *name;
} ends[] = {
    { EVENT_END_DONE, "done" },
    { EVENT_END_ERROR_BEFORE, "error_before" },
    { EVENT_END_ERROR_MID, "error_mid" },
    { EVENT_END_CUT, "cut" },
    { EVENT_END_CLIENT_GONE, "client_gone" },
    { EVENT_END_REFUSED, "refused" },
    { EVENT_END_THROTTLED, "throttled" },
    { EVENT_END_OVERFLOW, "overflow" },
    { EVENT_END_WORKER_DIED, "worker_died" },
};

START_TEST(an_end_has_the_name_of_the_specification)
{
    event.end = ends[_i].end;
    json_object *object = written();
    ck_assert_str_eq(json_object_get_string(member(object, "end")), ends[_i].name);
    json_object_put(object);
}
END_TEST

/* --- the bound --- */

static char long_name[201];

static void add_attempts(unsigned count, const char *name)
{
    for (unsigned i = 0; i < count; i++) {
        struct attempt_event *attempt = event_add_attempt(&event);
        fill_attempt(attempt);
        attempt->upstream = attempt->account = attempt->supplier_model = attempt->host = span_cstr(name);
        attempt->start_us = i + 1;
    }
}

static void expect_attempts(unsigned made)
{
    json_object *object = written(), *attempts = member(object, "attempts"), *dropped = NULL;
    size_t kept = json_object_array_length(attempts);
    json_object_object_get_ex(object, "attempts_dropped", &dropped);
    ck_assert_uint_ge(kept, 1);
    ck_assert_uint_eq(kept + (size_t)json_object_get_int64(dropped), made);
    ck_assert_int_eq(json_object_get_int64(member(object, "fallback_depth")), made - 1);
    /* In order, each with its number, and the last one is there. */
    for (size_t i = 0; i < kept; i++) {
        json_object *attempt = json_object_array_get_idx(attempts, i);
        int64_t n = json_object_get_int64(member(attempt, "n"));
        ck_assert_int_eq(n, i + 1 < kept ? (int64_t)i + 1 : made);
        ck_assert_int_eq(json_object_get_int64(member(attempt, "start_us")), n);
    }
    json_object_put(object);
}

START_TEST(as_many_attempts_as_fit_are_kept_and_the_last_one_always)
{
    static const unsigned counts[] = { 1, 2, 40, EVENT_ATTEMPTS_MAX, EVENT_ATTEMPTS_MAX + 1, 200 };
    memset(long_name, _i == 0 ? 'x' : _i == 1 ? '"' : '\x01', sizeof(long_name) - 1);
    for (size_t i = 0; i < COUNT(counts); i++) {
        event_begin(&event);
        fill();
        event.n_attempts = 0;
        add_attempts(counts[i], long_name);
        expect_attempts(counts[i]);
    }
}
END_TEST

START_TEST(short_attempts_are_all_kept)
{
    add_attempts(EVENT_ATTEMPTS_MAX, "u");
    json_object *object = written();
    ck_assert_uint_eq(json_object_array_length(member(object, "attempts")), EVENT_ATTEMPTS_MAX);
    json_object_put(object);
}
END_TEST

/* The asked model is the caller's text: no length of it may cost us the record. */
START_TEST(a_text_of_any_length_leaves_room_for_the_rest)
{
    enum { LONG = 1 << 20 };
    static char text[LONG + 1];
    memset(text, _i == 0 ? 'x' : '\x01', LONG);
    fill();
    event.model = event.model_routed = event.owner = span_of(text, LONG);
    event.request_id = event.client = event.code = text;
    add_attempts(3, text);
    json_object *object = written();
    ck_assert_str_eq(json_object_get_string(member(object, "end")), "done");
    ck_assert_int_eq(json_object_get_int64(member(object, "total_us")), 100);
    ck_assert_uint_ge(json_object_array_length(member(object, "attempts")), 1);
    const char *model = json_object_get_string(member(object, "model"));
    ck_assert_uint_gt(strlen(model), 0);
    ck_assert_int_eq(strncmp(model, text, strlen(model)), 0);
    json_object_put(object);
}
END_TEST

START_TEST(a_text_that_is_cut_stays_text)
{
    char model[1024];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(model, 'x', shift);
        for (size_t i = shift; i + 4 <= sizeof(model); i += 4)
            memcpy(model + i, "\xF0\x9F\x98\x80", 4);
        event.model = span_of(model, sizeof(model) - 4);
        json_object *object = written();
        const char *kept = json_object_get_string(member(object, "model"));
        ck_assert_uint_gt(strlen(kept), 100);
        ck_assert_int_eq(strncmp(kept, model, strlen(kept)), 0); /* no U+FFFD at its end */
        json_object_put(object);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event");
    TCase *names = tcase_create("names"), *bound = tcase_create("bound");
    tcase_add_checked_fixture(names, set_up, tear_down);
    tcase_add_checked_fixture(bound, set_up, tear_down);
    tcase_add_test(names, an_event_that_says_everything_has_the_names_of_its_specification);
    tcase_add_test(names, an_event_with_nothing_to_say_leaves_it_out);
    tcase_add_loop_test(
        names, of_an_attempt_beside_another_it_is_told_which_it_is_which_decided_and_how_long_each_took, 0,
        COUNT(hedges));
    tcase_add_loop_test(names, one_that_was_not_made_is_told_without_an_attempt, 0, 2);
    tcase_add_test(names, a_count_of_nought_is_said_where_it_can_occur);
    tcase_add_loop_test(names, characters_are_said_where_a_text_was_spoken_and_who_counted_them, 0,
                        (int)COUNT(characters));
    tcase_add_test(names, an_event_is_identified_by_its_time);
    tcase_add_test(names, a_trace_that_begins_here_has_no_parent_and_says_that_it_is_not_sampled);
    tcase_add_test(names, a_second_event_in_the_same_memory_holds_nothing_of_the_first);
    tcase_add_test(names, overhead_is_what_neither_the_upstream_nor_the_caller_took);
    tcase_add_test(names, of_a_dead_workers_request_nobody_knows_the_overhead);
    tcase_add_test(names, what_became_of_each_limit_is_told);
    tcase_add_test(names, what_became_of_the_slot_is_told_behind_the_limits);
    tcase_add_test(names, upstreams_that_were_passed_over_are_told_with_the_reason_and_the_rest_is_counted);
    tcase_add_loop_test(names, an_end_has_the_name_of_the_specification, 0, (int)COUNT(ends));
    tcase_add_loop_test(bound, as_many_attempts_as_fit_are_kept_and_the_last_one_always, 0, 3);
    tcase_add_test(bound, short_attempts_are_all_kept);
    tcase_add_loop_test(bound, a_text_of_any_length_leaves_room_for_the_rest, 0, 2);
    tcase_add_test(bound, a_text_that_is_cut_stays_text);
    suite_add_tcase(suite, names);
    suite_add_tcase(suite, bound);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
