/*
 * The signatures, mostly through tests/data/signatures.json: provider failures
 * in the providers' own words, each with its verdict. Run from the repository's
 * root.
 */
#include <check.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/route/signature.h"
#include "core/route/signature_body.h"
#include "core/route/signature_table.h"

static const char data_path[] = "tests/data/signatures.json";

/* 2026-11-29T21:00:00Z */
enum { NOW_S = 1795986000 };

static struct arena *arena;
static struct json_object *failures;

static void set_up(void)
{
    arena = arena_new();
    failures = json_object_from_file(data_path);
    ck_assert_msg(json_object_is_type(failures, json_type_array), "%s is no JSON array", data_path);
}

static void tear_down(void)
{
    json_object_put(failures);
    arena_free(arena);
}

static struct span member(struct json_object *object, const char *name)
{
    struct json_object *value;
    if (!json_object_object_get_ex(object, name, &value))
        return span_of(NULL, 0);
    return span_of(json_object_get_string(value), (size_t)json_object_get_string_len(value));
}

static bool flag(struct json_object *object, const char *name)
{
    return json_object_get_boolean(json_object_object_get(object, name));
}

static struct reply_facts facts_of(struct json_object *failure)
{
    struct json_object *headers = json_object_object_get(failure, "headers");
    return (struct reply_facts){
        .provider = member(failure, "provider"),
        .status = json_object_get_int(json_object_object_get(failure, "status")),
        .in_band = flag(failure, "in_band"),
        .body = member(failure, "body"),
        .retry_after = member(headers, "retry-after"),
        .retry_after_ms = member(headers, "retry-after-ms"),
        .amzn_error_type = member(headers, "x-amzn-errortype"),
        .now_s = NOW_S,
    };
}

static const char *blame_name(enum blame blame)
{
    static const char *const names[] = { "nothing", "key", "key_model", "upstream" };
    return names[blame];
}

START_TEST(every_failure_of_the_data_gets_its_verdict_blame_and_proof)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < json_object_array_length(failures); i++) {
        struct json_object *failure = json_object_array_get_idx(failures, i);
        struct reply_facts facts = facts_of(failure);
        struct span verdict = member(failure, "verdict"), blame = member(failure, "blame");
        struct opinion opinion;
        if (span_is(verdict,
                    "ok")) /* whether there is an error to judge, the dialect says (test_chat_reply.c) */
            continue;
        signature_judge(&facts, arena, &opinion);
        if (span_is(verdict, verdict_row(opinion.verdict)->name) &&
            span_is(blame, blame_name(opinion.blame)) && opinion.is_proven == flag(failure, "proven"))
            continue;
        fprintf(stderr, "%s: expected %s/%s proven %d, found %s/%s proven %d by %s\n    %s %d %s\n",
                member(failure, "name").ptr, verdict.ptr, blame.ptr, flag(failure, "proven"),
                verdict_row(opinion.verdict)->name, blame_name(opinion.blame), opinion.is_proven,
                opinion.signature, facts.provider.ptr, facts.status, facts.body.ptr);
        wrong++;
    }
    ck_assert_msg(wrong == 0, "%u failures were judged otherwise", wrong);
}
END_TEST

static bool is_seen(char **seen, size_t n_seen, const char *name)
{
    for (size_t i = 0; i < n_seen; i++)
        if (strcmp(seen[i], name) == 0)
            return true;
    return false;
}

/* Whether a row of any field was seen deciding. */
static bool is_row_seen(char **seen, size_t n_seen, const struct signature_row *row)
{
    for (enum signature_field field = FIELD_REASON; field < FIELD_COUNT; field++) {
        const char *name = row->phrase != NULL ? arena_printf(arena, "%s:%s+%s", signature_field_name(field),
                                                              row->token, row->phrase)
                           : strcmp(row->token, "*") == 0
                               ? signature_field_name(field)
                               : arena_printf(arena, "%s:%s", signature_field_name(field), row->token);
        if ((row->field == field || (row->field == FIELD_ANY && field <= FIELD_CLASS)) &&
            is_seen(seen, n_seen, name))
            return true;
    }
    return false;
}

START_TEST(every_row_of_the_tables_decides_some_failure_of_the_data)
{
    size_t n = json_object_array_length(failures);
    char **seen = arena_array_of(arena, char *, n);
    for (size_t i = 0; i < n; i++) {
        struct reply_facts facts = facts_of(json_object_array_get_idx(failures, i));
        struct opinion opinion;
        signature_judge(&facts, arena, &opinion);
        seen[i] = arena_strdup(arena, opinion.signature);
    }
    const struct {
        const struct signature_row *rows;
        size_t count;
    } tables[] = {
        { signature_providers, signature_providers_count },
        { signature_tokens, signature_tokens_count },
        { signature_classes, signature_classes_count },
    };
    unsigned missing = 0;
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (size_t r = 0; r < tables[t].count; r++) {
            if (is_row_seen(seen, n, &tables[t].rows[r]))
                continue;
            fprintf(stderr, "no failure for %s %s\n", signature_field_name(tables[t].rows[r].field),
                    tables[t].rows[r].token);
            missing++;
        }
    }
    for (size_t r = 0; r < signature_phrases_count; r++) {
        if (is_seen(seen, n, arena_printf(arena, "phrase:%s", signature_phrases[r].phrase)))
            continue;
        fprintf(stderr, "no failure for the phrase \"%s\"\n", signature_phrases[r].phrase);
        missing++;
    }
    ck_assert_msg(missing == 0, "%u rows are not exercised by %s", missing, data_path);
}
END_TEST

START_TEST(a_body_may_be_cut_anywhere)
{
    for (size_t i = 0; i < json_object_array_length(failures); i++) {
        struct reply_facts facts = facts_of(json_object_array_get_idx(failures, i));
        struct span whole = facts.body;
        for (size_t len = 0; len <= whole.len; len += len < 64 || whole.len - len < 64 ? 1 : 7) {
            struct opinion opinion;
            char *exact = malloc(len == 0 ? 1 : len); /* so that a read behind the end is seen */
            ck_assert_ptr_nonnull(exact);
            if (len > 0)
                memcpy(exact, whole.ptr, len);
            facts.body = span_of(exact, len);
            signature_judge(&facts, arena, &opinion);
            free(exact);
            ck_assert_msg(opinion.verdict < VERDICT_COUNT && opinion.signature != NULL &&
                              (opinion.retry_after_s <= 3600) && opinion.code[63] == '\0',
                          "cut at %zu: %s", len, whole.ptr);
            arena_reset(arena);
        }
    }
}
END_TEST

START_TEST(a_body_longer_than_the_bound_is_judged_by_its_beginning)
{
    static const char start[] = "{\"error\":{\"code\":\"invalid_api_key\",\"message\":\"no\"},\"padding\":\"";
    size_t len = 1024 * 1024;
    char *body = arena_alloc(arena, len);
    memset(body, 'x', len);
    memcpy(body, start, sizeof(start) - 1);
    struct reply_facts facts = { .status = 400, .body = span_of(body, len) };
    struct opinion opinion;
    signature_judge(&facts, arena, &opinion);
    ck_assert_str_eq(verdict_row(opinion.verdict)->name, "auth");
}
END_TEST

static const struct {
    const char *provider;
    int status;
    const char *body, *signature, *code;
    int inner_status;
} records[] = {
    { "openai", 401, "{\"error\":{\"code\":\"invalid_api_key\",\"message\":\"no\"}}", "code:invalid_api_key",
      "invalid_api_key", 0 },
    { "anthropic", 400,
      "{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"Your credit balance is too low\"}}",
      "phrase:credit balance", "invalid_request_error", 0 },
    { "", 429, "{\"error\":{\"code\":\"429\",\"message\":\"no\"}}", "status", "", 429 },
    { "", 400, "{\"error\":{\"param\":\"top_p\",\"message\":\"no\"}}", "param", "", 0 },
    { "", 400, "{\"error\":{\"param\":\"stream_options\",\"code\":\"unknown_parameter\"}}", "stream_options",
      "unknown_parameter", 0 },
    { "", 422, "{\"detail\":[{\"loc\":[\"body\",\"stream_options\"],\"type\":\"missing\"}]}",
      "stream_options", "missing", 0 },
    { "", 400, "{\"message\":\"'stream_options' is refused\"}", "stream_options", "", 0 },
    { "", 401, "{\"error\":{\"code\":\"invalid_api_key\",\"message\":\"'stream_options'\"}}",
      "code:invalid_api_key", "invalid_api_key", 0 },
    { "", 503, "<html><title>Bad</title></html>", "html", "", 0 },
    { "", 500, "{\"error\":{\"code\":\"caf\u00E9\\nbar\"}}", "status", "cafbar", 0 },
    { "", 400, "{\"error\":{\"code\":400,\"message\":\"no\",\"http_code\":\"503\"}}", "status", "", 400 },
};

START_TEST(an_opinion_names_what_decided_and_the_providers_token)
{
    struct reply_facts facts = { .provider = span_cstr(records[_i].provider),
                                 .status = records[_i].status,
                                 .body = span_cstr(records[_i].body) };
    struct opinion opinion;
    signature_judge(&facts, arena, &opinion);
    ck_assert_msg(strcmp(opinion.signature, records[_i].signature) == 0,
                  "%s: signature \"%s\", expected \"%s\"", records[_i].body, opinion.signature,
                  records[_i].signature);
    ck_assert_msg(strcmp(opinion.code, records[_i].code) == 0, "%s: code \"%s\", expected \"%s\"",
                  records[_i].body, opinion.code, records[_i].code);
    ck_assert(opinion.refuses_stream_options == (strcmp(records[_i].signature, "stream_options") == 0));
    ck_assert_msg(opinion.inner_status == records[_i].inner_status, "%s: inner status %d, expected %d",
                  records[_i].body, opinion.inner_status, records[_i].inner_status);
}
END_TEST

START_TEST(the_message_is_the_providers_sentence_decoded)
{
    struct reply_facts facts = { .status = 500,
                                 .body = span_cstr("{\"error\":{\"message\":\"caf\\u00e9 \\\"x\\\"\"}}") };
    struct opinion opinion;
    signature_judge(&facts, arena, &opinion);
    ck_assert_str_eq(opinion.message.ptr, "caf\u00E9 \"x\"");
    facts.body = span_cstr("<html><head><title> 502 Bad Gateway </title></head></html>");
    signature_judge(&facts, arena, &opinion);
    ck_assert_str_eq(opinion.message.ptr, "502 Bad Gateway");
}
END_TEST

static const struct {
    const char *retry_after_ms, *retry_after, *body;
    unsigned expected_s;
} hints[] = {
    { "", "", "", 0 },
    { "", "17", "", 17 },
    { "", " 17 ", "", 17 },
    { "", "0", "", 1 },
    { "", "1.2", "", 2 },
    { "", "86400", "", 3600 },
    { "", "99999999999999999999999999", "", 3600 },
    { "", "-5", "", 0 },
    { "", "soon", "", 0 },
    { "", "17 apples", "", 0 },
    { "", "Sun, 29 Nov 2026 21:00:30 GMT", "", 30 },
    { "", "Sunday, 29-Nov-26 21:00:30 GMT", "", 30 },
    { "", "Sun, 29 Nov 2026 20:00:00 GMT", "", 1 },
    { "", "Mon, 30 Nov 2026 21:00:00 GMT", "", 3600 },
    { "1500", "60", "", 2 },
    { "20", "", "", 1 },
    { "x", "9", "", 9 },
    { "", "9", "{\"message\":\"Please try again in 20s.\"}", 9 },
    { "", "", "{\"message\":\"Please try again in 20s.\"}", 20 },
    { "", "", "{\"message\":\"Please try again in 9m38.016s.\"}", 579 },
    { "", "", "{\"message\":\"Please try again in 120ms.\"}", 1 },
    { "", "", "{\"message\":\"Please try again in 1h2m3s\"}", 3600 },
    { "", "", "{\"message\":\"try again in 6 minutes, or 3 days\"}", 360 },
    { "", "", "{\"message\":\"Please retry after 26 seconds.\"}", 26 },
    { "", "", "{\"message\":\"Please retry after 86400 seconds.\"}", 3600 },
    { "", "", "{\"message\":\"please try again after 1 seconds\"}", 1 },
    { "", "", "{\"message\":\"Please retry in 36.43s\"}", 37 },
    { "", "", "{\"message\":\"try again in a moment\"}", 0 },
    { "", "", "{\"message\":\"he said 'try again in 20s'\"}", 0 },
    { "", "", "{\"error\":{\"details\":[{\"retryDelay\":\"45.837906927s\"}]}}", 46 },
    { "", "",
      "{\"error\":{\"details\":[{\"violations\":[{\"quotaId\":\"XPerDayY\"}]},{\"retryDelay\":\"36s\"}]}}",
      0 },
    { "", "", "{\"error\":{\"metadata\":{\"headers\":{\"X-RateLimit-Reset\":\"1795986090000\"}}}}", 90 },
    { "", "", "{\"error\":{\"metadata\":{\"headers\":{\"X-RateLimit-Reset\":\"1795985000000\"}}}}", 0 },
    { "", "", "{\"error\":{\"details\":[{\"retryDelay\":\"999999999999999999999s\"}]}}", 3600 },
};

START_TEST(a_hint_to_come_back_is_read_from_headers_then_from_the_body)
{
    struct reply_facts facts = { .status = 429,
                                 .retry_after_ms = span_cstr(hints[_i].retry_after_ms),
                                 .retry_after = span_cstr(hints[_i].retry_after),
                                 .body = span_cstr(hints[_i].body),
                                 .now_s = NOW_S };
    struct opinion opinion;
    signature_judge(&facts, arena, &opinion);
    ck_assert_msg(opinion.retry_after_s == hints[_i].expected_s,
                  "ms \"%s\", Retry-After \"%s\", %s: %u, expected %u", hints[_i].retry_after_ms,
                  hints[_i].retry_after, hints[_i].body, opinion.retry_after_s, hints[_i].expected_s);
}
END_TEST

static const struct {
    const char *reason;
    enum verdict expected;
} finishes[] = {
    { "stop", VERDICT_OK },
    { "length", VERDICT_OK },
    { "tool_calls", VERDICT_OK },
    { "", VERDICT_OK },
    { "something_new", VERDICT_OK },
    { "errors", VERDICT_OK },
    { "error", VERDICT_SERVER },
    { "network_error", VERDICT_SERVER },
    { "insufficient_system_resource", VERDICT_SERVER },
    { "content_filter", VERDICT_CLIENT },
    { "sensitive", VERDICT_CLIENT },
};

START_TEST(a_finish_reason_is_a_failure_only_if_it_is_known_as_one)
{
    enum verdict found = signature_finish_reason(span_cstr(finishes[_i].reason));
    ck_assert_msg(found == finishes[_i].expected, "\"%s\": %s, expected %s", finishes[_i].reason,
                  verdict_row(found)->name, verdict_row(finishes[_i].expected)->name);
}
END_TEST

static const struct {
    const char *message, *expected;
} texts[] = {
    { "", "" },
    { "  Plain\r\n\tTEXT  ", "plain text" },
    { "a 'b' c", "a c" },
    { "a `b` c", "a c" },
    { "a \"b\" c", "a c" },
    { "a \u201Cb\u201D c", "a c" },
    { "a \u2018b\u2019 c", "a c" },
    { "a \u300Cb\u300D c", "a c" },
    { "it doesn't and can't", "it doesn't and can't" },
    { "it doesn\u2019t", "it doesn\u2019t" },
    { "the users' key", "the users' key" },
    { "a 'b' c 'd' e", "a e" },
    { "a 'b c", "a" },
    { "a 'b it's c' d", "a d" },
    { "'a", "" },
    { "\"", "" },
    { "a \"b 'c\" d' e", "a d' e" },
};

START_TEST(the_searched_text_leaves_quoted_parts_out)
{
    struct span text = signature_text(span_cstr(texts[_i].message), arena);
    ck_assert_msg(span_is(text, texts[_i].expected), "%s: \"%.*s\", expected \"%s\"", texts[_i].message,
                  (int)text.len, text.ptr, texts[_i].expected);
}
END_TEST

START_TEST(the_searched_text_is_bounded)
{
    char *message = arena_alloc(arena, 5000);
    memset(message, 'x', 5000);
    ck_assert_uint_eq(signature_text(span_of(message, 5000), arena).len, SIGNATURE_TEXT_MAX);
}
END_TEST

static const struct {
    const char *phrase, *text;
    bool expected;
} phrases[] = {
    { "credit balance", "your credit balance is low", true },
    { "credit balance", "credit  balance", false },
    { "rate limit", "an accurate limit", false },
    { "rate limit", "(rate limits)", true },
    { "limit: 0", "limit: 0, model", true },
    { "limit: 0", "limit: 05", false },
    { "limit: 0", "limit: 20", false },
    { "model*not found", "model x was not found", true },
    { "model*not found", "not found model", false },
    { "model*not found", "model model x not found", true },
    { "model*not found",
      "model 0123456789012345678901234567890123456789012345678901234567890123456789012345678901 not found",
      false },
    { "invalid token$", "invalid token", true },
    { "invalid token$", "an invalid token. ", true },
    { "invalid token$", "invalid token in json", false },
    { "invalid token$", "invalid token in json, invalid token!", true },
    { "余额", "账户余额不够", true },
    { "x", "", false },
};

START_TEST(a_phrase_stands_at_the_beginning_of_a_word)
{
    bool found = signature_phrase_fits(phrases[_i].phrase, span_cstr(phrases[_i].text));
    ck_assert_msg(found == phrases[_i].expected, "\"%s\" in \"%s\": %d, expected %d", phrases[_i].phrase,
                  phrases[_i].text, found, phrases[_i].expected);
}
END_TEST

static const struct {
    const char *pattern, *token;
    bool expected;
} tokens[] = {
    { "abc", "abc", true },
    { "abc", "ABC", false },
    { "abc", "abcd", false },
    { "abc", "ab", false },
    { "abc*", "abc", true },
    { "abc*", "abcdef", true },
    { "*abc", "xabc", true },
    { "*abc", "abcx", false },
    { "*PerDay*", "GenerateRequestsPerDayPerProject", true },
    { "a*b*c", "a-b-b-c", true },
    { "a*b*c", "a-c-b", false },
    { "*", "", true },
    { "", "", true },
    { "", "x", false },
    { "*aab", "aaaaaaaaab", true },
};

START_TEST(a_token_is_compared_whole)
{
    bool found = signature_token_fits(tokens[_i].pattern, span_cstr(tokens[_i].token));
    ck_assert_msg(found == tokens[_i].expected, "\"%s\" against \"%s\": %d, expected %d", tokens[_i].pattern,
                  tokens[_i].token, found, tokens[_i].expected);
}
END_TEST

START_TEST(phrases_are_written_as_the_searched_text_is)
{
    for (size_t i = 0; i < signature_phrases_count; i++) {
        struct span phrase = span_cstr(signature_phrases[i].phrase);
        struct span text = signature_text(phrase, arena);
        ck_assert_msg(span_eq(phrase, text), "the phrase \"%s\" can never be found", phrase.ptr);
    }
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

int main(void)
{
    Suite *suite = suite_create("signature");
    TCase *tcase = tcase_create("judging");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, every_failure_of_the_data_gets_its_verdict_blame_and_proof);
    tcase_add_test(tcase, every_row_of_the_tables_decides_some_failure_of_the_data);
    tcase_add_test(tcase, a_body_may_be_cut_anywhere);
    tcase_add_test(tcase, a_body_longer_than_the_bound_is_judged_by_its_beginning);
    tcase_add_loop_test(tcase, an_opinion_names_what_decided_and_the_providers_token, 0, COUNT(records));
    tcase_add_test(tcase, the_message_is_the_providers_sentence_decoded);
    tcase_add_loop_test(tcase, a_hint_to_come_back_is_read_from_headers_then_from_the_body, 0, COUNT(hints));
    tcase_add_loop_test(tcase, a_finish_reason_is_a_failure_only_if_it_is_known_as_one, 0, COUNT(finishes));
    tcase_add_loop_test(tcase, the_searched_text_leaves_quoted_parts_out, 0, COUNT(texts));
    tcase_add_test(tcase, the_searched_text_is_bounded);
    tcase_add_loop_test(tcase, a_phrase_stands_at_the_beginning_of_a_word, 0, COUNT(phrases));
    tcase_add_loop_test(tcase, a_token_is_compared_whole, 0, COUNT(tokens));
    tcase_add_test(tcase, phrases_are_written_as_the_searched_text_is);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
