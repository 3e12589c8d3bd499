/* Requests of the chat dialect: what is read from a body, and the body that an upstream gets. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/dialect/chat.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { SPLICED_BYTES = 64 * 1024 };

static struct arena *arena;

static void set_up(void)
{
    arena = arena_new();
}

static void tear_down(void)
{
    arena_free(arena);
}

static const struct {
    const char *body;
    const char *model; /* decoded */
    bool is_stream, wants_usage;
} accepted[] = {
    { "{}", "", false, false },
    { " \r\n\t{ }\n", "", false, false },
    { "{\"model\":\"gpt\"}", "gpt", false, false },
    { "{\"model\":null}", "", false, false },
    { "{\"model\":\"\"}", "", false, false },
    { "{\"model\":\"auto\"}", "auto", false, false },
    { "{\"mod\\u0065l\":\"g\\u0070t\"}", "gpt", false, false },
    { "{\"model\":\"a\\/b\\\"c\"}", "a/b\"c", false, false },
    { "{\"model\":\"gl\xC3\xBC\xE6\xA8\xA1\xF0\x9F\x98\x80\"}", "gl\xC3\xBC\xE6\xA8\xA1\xF0\x9F\x98\x80",
      false, false },
    { "{\"model\":\"\\ud83d\\ude00\"}", "\xF0\x9F\x98\x80", false, false },
    { "{\"model\":\"gpt\",\"stream\":true}", "gpt", true, false },
    { "{\"model\":\"gpt\",\"stream\":false}", "gpt", false, false },
    { "{\"model\":\"gpt\",\"stream\":null}", "gpt", false, false },
    { "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}", "", true, true },
    { "{\"stream\":true,\"stream_options\":{\"include_usage\":false}}", "", true, false },
    { "{\"stream\":true,\"stream_options\":{\"include_usage\":null}}", "", true, false },
    { "{\"stream\":true,\"stream_options\":{\"include\\u005fusage\":true}}", "", true, true },
    { "{\"stream\":true,\"stream_options\":{}}", "", true, false },
    { "{\"stream\":true,\"stream_options\":null}", "", true, false },
    { "{\"stream\":false,\"stream_options\":{\"include_usage\":true}}", "", false, false },
    { "{\"stream_options\":{\"include_usage\":true}}", "", false, false },
    /* What only looks like ours: deeper, in a text, in another case, repeated elsewhere. */
    { "{\"messages\":[{\"model\":\"x\",\"stream\":true}],\"model\":\"gpt\"}", "gpt", false, false },
    { "{\"messages\":[{\"content\":\"\\\"model\\\":\\\"x\\\"\"}],\"model\":\"gpt\"}", "gpt", false, false },
    { "{\"models\":\"x\",\"model\":\"gpt\",\"STREAM\":true}", "gpt", false, false },
    { "{\"metadata\":{\"Model\":\"x\"},\"model\":\"gpt\"}", "gpt", false, false },
    { "{\"seed\":1,\"seed\":2,\"model\":\"gpt\"}", "gpt", false, false },
};

START_TEST(a_body_says_its_model_and_whether_it_wants_a_stream_and_usage)
{
    struct request_facts facts;
    struct request_fault fault = { 0 };
    const char *body = accepted[_i].body;
    int r = chat_read_request(span_cstr(body), span_cstr(dialect_chat.media_type), arena, &facts, &fault);
    ck_assert_msg(r == 0, "%s: %s", body, fault.message);
    ck_assert_msg(span_is(facts.model, accepted[_i].model), "%s: model \"%.*s\"", body, (int)facts.model.len,
                  facts.model.ptr);
    ck_assert_msg(facts.is_stream == accepted[_i].is_stream, "%s: is_stream %d", body, facts.is_stream);
    ck_assert_msg(facts.wants_usage == accepted[_i].wants_usage, "%s: wants_usage %d", body,
                  facts.wants_usage);
    ck_assert(span_is(facts.body, body));
}
END_TEST

static const struct {
    const char *body;
    const char *param;
    bool is_syntax;
    const char *word; /* stands in the message */
} refused[] = {
    { "", NULL, true, "at byte 0" },
    { "   ", NULL, true, "at byte 3" },
    { "{", NULL, true, "JSON" },
    { "{\"model\":\"gpt\"", NULL, true, "JSON" },
    { "{\"model\":\"gpt\"}x", NULL, true, "at byte 15" },
    { "{\"model\":\"gpt\",}", NULL, true, "JSON" },
    { "{'model':'gpt'}", NULL, true, "JSON" },
    { "{\"model\":\"\xFF\"}", NULL, true, "UTF-8" },
    { "\xEF\xBB\xBF{}", NULL, true, "at byte 0" },
    { "null", NULL, false, "object" },
    { "[]", NULL, false, "object" },
    { "\"model\"", NULL, false, "object" },
    { "1", NULL, false, "object" },
    { "{\"model\":1}", "model", false, "string" },
    { "{\"model\":true}", "model", false, "string" },
    { "{\"model\":[\"gpt\"]}", "model", false, "string" },
    { "{\"model\":{}}", "model", false, "string" },
    { "{\"stream\":1}", "stream", false, "boolean" },
    { "{\"stream\":\"true\"}", "stream", false, "boolean" },
    { "{\"stream\":{}}", "stream", false, "boolean" },
    { "{\"stream_options\":true}", "stream_options", false, "object" },
    { "{\"stream_options\":[]}", "stream_options", false, "object" },
    { "{\"stream_options\":\"\"}", "stream_options", false, "object" },
    { "{\"stream_options\":{\"include_usage\":1}}", "stream_options.include_usage", false, "boolean" },
    { "{\"stream_options\":{\"include_usage\":\"yes\"}}", "stream_options.include_usage", false, "boolean" },
    /* Two readers of one body could each believe another of these. */
    { "{\"model\":\"a\",\"model\":\"b\"}", NULL, false, "a repeated member at byte 13" },
    { "{\"model\":\"a\",\"mod\\u0065l\":\"a\"}", NULL, false, "repeated" },
    { "{\"stream\":true,\"stream\":true}", NULL, false, "repeated" },
    { "{\"model\":\"a\",\"Model\":\"b\"}", "model", false, "at byte 13" },
    { "{\"MODEL\":\"b\",\"model\":\"a\"}", "model", false, "case" },
    { "{\"mo\\u0044el\":\"b\"}", "model", false, "case" },
    { "{\"stream_options\":{},\"stream_options\":{}}", NULL, false, "repeated" },
    { "{\"stream_options\":{\"include_usage\":true,\"include_usage\":true}}", NULL, false, "repeated" },
};

START_TEST(a_body_that_cannot_be_meant_is_refused_with_its_place)
{
    struct request_facts facts;
    struct request_fault fault = { 0 };
    const char *body = refused[_i].body, *param = refused[_i].param;
    int r = chat_read_request(span_cstr(body), span_cstr(dialect_chat.media_type), arena, &facts, &fault);
    ck_assert_msg(r == ERR_FORMAT, "%s: %d", body, r);
    ck_assert_msg(fault.is_syntax == refused[_i].is_syntax, "%s: is_syntax %d", body, fault.is_syntax);
    ck_assert_msg(strstr(fault.message, refused[_i].word) != NULL, "%s: \"%s\" does not say \"%s\"", body,
                  fault.message, refused[_i].word);
    ck_assert_msg((param == NULL) == (fault.param == NULL) &&
                      (param == NULL || strcmp(param, fault.param) == 0),
                  "%s: param %s", body, fault.param);
}
END_TEST

START_TEST(a_body_nested_too_deeply_is_refused_but_not_called_malformed)
{
    struct request_facts facts;
    struct request_fault fault = { 0 };
    char body[2 * JSON_DEPTH_MAX + 32];
    size_t len = (size_t)snprintf(body, sizeof(body), "{\"a\":");
    memset(body + len, '[', JSON_DEPTH_MAX);
    memset(body + len + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    len += 2 * JSON_DEPTH_MAX;
    body[len++] = '}';
    ck_assert_int_eq(
        chat_read_request(span_of(body, len), span_cstr(dialect_chat.media_type), arena, &facts, &fault),
        ERR_FORMAT);
    ck_assert(!fault.is_syntax);
    ck_assert_msg(strstr(fault.message, "nested too deeply") != NULL, "%s", fault.message);
}
END_TEST

#define USAGE "\"include_usage\":true"
#define OPTIONS "\"stream_options\":{" USAGE "}"

static const struct {
    const char *body, *model, *expected;
} spliced[] = {
    /* the model */
    { "{\"model\":\"gpt\"}", "gpt", "{\"model\":\"gpt\"}" },
    { "{\"model\":\"gpt\"}", "vendor/gpt-4", "{\"model\":\"vendor/gpt-4\"}" },
    { "{\"model\":\"g\\u0070t\"}", "gpt", "{\"model\":\"g\\u0070t\"}" },
    { "{\"model\":\"g\\u0070t\"}", "gpu", "{\"model\":\"gpu\"}" },
    { "{\"mod\\u0065l\" : \"gpt\" }", "x", "{\"mod\\u0065l\" : \"x\" }" },
    { "{\"model\":null,\"n\":1}", "x", "{\"model\":\"x\",\"n\":1}" },
    { "{\"model\":\"\"}", "x", "{\"model\":\"x\"}" },
    { "{\"model\":\"auto\"}", "x", "{\"model\":\"x\"}" },
    { "{\"messages\":[],\"model\":\"gpt\"}", "x", "{\"messages\":[],\"model\":\"x\"}" },
    { "{}", "x", "{\"model\":\"x\"}" },
    { " { }\n", "x", " {\"model\":\"x\" }\n" },
    { "{\"n\":1}", "x", "{\"model\":\"x\",\"n\":1}" },
    { "{ \n \"n\":1}", "x", "{\"model\":\"x\", \n \"n\":1}" },
    { "{\"model\":\"a\"}", "q\"u\\o\nte", "{\"model\":\"q\\\"u\\\\o\\nte\"}" },
    { "{\"model\":\"a\"}", "gl\xC3\xBC\xE6\xA8\xA1", "{\"model\":\"gl\xC3\xBC\xE6\xA8\xA1\"}" },
    { "{\"messages\":[{\"model\":\"gpt\"}],\"model\":\"gpt\"}", "x",
      "{\"messages\":[{\"model\":\"gpt\"}],\"model\":\"x\"}" },
    /* every other byte is the caller's: spelling of numbers, order, repeated and unknown members */
    { "{\"temperature\":1.0e+0,\"zz\":[1.50,-0],\"model\" :\t\"a\",\"zz\":\"\\u00e9\\/\"}", "b",
      "{\"temperature\":1.0e+0,\"zz\":[1.50,-0],\"model\" :\t\"b\",\"zz\":\"\\u00e9\\/\"}" },
    /* usage of a stream */
    { "{\"model\":\"a\",\"stream\":true}", "a", "{" OPTIONS ",\"model\":\"a\",\"stream\":true}" },
    { "{\"model\":\"a\",\"stream\":true}", "b", "{" OPTIONS ",\"model\":\"b\",\"stream\":true}" },
    { "{\"stream\":true}", "b", "{" OPTIONS ",\"model\":\"b\",\"stream\":true}" },
    { "\n{\n  \"stream\": true\n}\n", "b", "\n{" OPTIONS ",\"model\":\"b\",\n  \"stream\": true\n}\n" },
    { "{\"model\":\"a\",\"stream\":true,\"stream_options\":{}}", "a",
      "{\"model\":\"a\",\"stream\":true,\"stream_options\":{" USAGE "}}" },
    { "{\"model\":\"a\",\"stream\":true,\"stream_options\":{ \n }}", "a",
      "{\"model\":\"a\",\"stream\":true,\"stream_options\":{" USAGE " \n }}" },
    { "{\"model\":\"a\",\"stream\":true,\"stream_options\":null}", "a",
      "{\"model\":\"a\",\"stream\":true,\"stream_options\":{" USAGE "}}" },
    { "{\"model\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":false}}", "a",
      "{\"model\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}" },
    { "{\"model\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\" : null }}", "a",
      "{\"model\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\" : true }}" },
    { "{\"model\":\"a\",\"stream\":true,\"stream_options\":{\"x\":{\"include_usage\":false}}}", "a",
      "{\"model\":\"a\",\"stream\":true,\"stream_options\":{" USAGE ",\"x\":{\"include_usage\":false}}}" },
    { "{\"model\":\"a\",\"stream\":true,\"str\\u0065am_options\":{\"include_us\\u0061ge\":false}}", "a",
      "{\"model\":\"a\",\"stream\":true,\"str\\u0065am_options\":{\"include_us\\u0061ge\":true}}" },
    { "{\"stream_options\":{\"x\":1,\"include_usage\":false,\"y\":2},\"stream\":true,\"model\":\"a\"}", "b",
      "{\"stream_options\":{\"x\":1,\"include_usage\":true,\"y\":2},\"stream\":true,\"model\":\"b\"}" },
    { "{\"stream_options\":null,\"stream\":true}", "b",
      "{\"model\":\"b\",\"stream_options\":{" USAGE "},\"stream\":true}" },
    { "{\"stream_options\":{\"x\":1},\"stream\":true}", "b",
      "{\"model\":\"b\",\"stream_options\":{" USAGE ",\"x\":1},\"stream\":true}" },
    /* where usage is asked for already, or there is no stream, nothing is added */
    { "{\"model\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}", "a",
      "{\"model\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}" },
    { "{\"model\":\"a\",\"stream\":false,\"stream_options\":{}}", "a",
      "{\"model\":\"a\",\"stream\":false,\"stream_options\":{}}" },
    { "{\"model\":\"a\",\"stream\":null}", "a", "{\"model\":\"a\",\"stream\":null}" },
};

static struct request_facts read_body(struct span body)
{
    struct request_facts facts;
    struct request_fault fault = { 0 };
    int r = chat_read_request(body, span_cstr(dialect_chat.media_type), arena, &facts, &fault);
    ck_assert_msg(r == 0, "%.*s: %s", (int)body.len, body.ptr, fault.message);
    return facts;
}

static struct span whole(const struct splice *splice)
{
    struct splice_cursor cursor = { 0 };
    char *text = arena_alloc(arena, SPLICED_BYTES);
    size_t len = splice_read(splice, &cursor, text, SPLICED_BYTES);
    ck_assert_uint_eq(len, splice_size(splice));
    return span_of(text, len);
}

START_TEST(an_upstream_gets_the_callers_bytes_with_its_own_model_and_usage_asked_for)
{
    struct request_facts facts = read_body(span_cstr(spliced[_i].body));
    struct splice splice;
    ck_assert_int_eq(chat_splice_request(&facts, span_cstr(spliced[_i].model), true, arena, &splice), 0);
    struct span result = whole(&splice);
    ck_assert_msg(span_is(result, spliced[_i].expected), "%s with %s:\n     %.*s\nnot  %s", spliced[_i].body,
                  spliced[_i].model, (int)result.len, result.ptr, spliced[_i].expected);
}
END_TEST

START_TEST(what_an_upstream_gets_reads_back_as_what_was_meant)
{
    struct request_facts facts = read_body(span_cstr(spliced[_i].body)), again;
    struct splice splice;
    ck_assert_int_eq(chat_splice_request(&facts, span_cstr(spliced[_i].model), true, arena, &splice), 0);
    again = read_body(whole(&splice));
    ck_assert(span_is(again.model, spliced[_i].model));
    ck_assert(again.is_stream == facts.is_stream);
    ck_assert(again.wants_usage == again.is_stream);
}
END_TEST

START_TEST(without_usage_an_upstream_gets_the_callers_bytes_with_its_own_model_only)
{
    static const struct {
        const char *body, *expected;
    } rows[] = {
        { "{\"model\":\"a\",\"stream\":true}", "{\"model\":\"b\",\"stream\":true}" },
        { "{\"stream\":true,\"stream_options\":{\"x\":1},\"model\":\"a\"}",
          "{\"stream\":true,\"stream_options\":{\"x\":1},\"model\":\"b\"}" },
        { "{\"model\":\"b\",\"stream\":true,\"stream_options\":{\"include_usage\":false}}",
          "{\"model\":\"b\",\"stream\":true,\"stream_options\":{\"include_usage\":false}}" },
        { "{\"model\":\"b\",\"stream\":true,\"stream_options\":null}",
          "{\"model\":\"b\",\"stream\":true,\"stream_options\":null}" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct request_facts facts = read_body(span_cstr(rows[i].body));
        struct splice splice;
        ck_assert_int_eq(chat_splice_request(&facts, span_cstr("b"), false, arena, &splice), 0);
        struct span result = whole(&splice);
        ck_assert_msg(span_is(result, rows[i].expected), "%.*s\nnot  %s", (int)result.len, result.ptr,
                      rows[i].expected);
    }
}
END_TEST

/* White space of every kind at every place where it may stand. */
START_TEST(white_space_between_tokens_changes_nothing)
{
    static const char *const tokens[] = {
        "{", "\"stream\"", ":", "true", ",", "\"stream_options\"", ":", "{", "}",
        ",", "\"model\"",  ":", "null", "}"
    };
    static const char *const spaces[] = { " ", "\t", "\r\n", " \n \t" };
    for (size_t s = 0; s < COUNT(spaces); s++) {
        for (size_t at = 0; at <= COUNT(tokens); at++) {
            char *body = arena_strdup(arena, "");
            for (size_t t = 0; t <= COUNT(tokens); t++)
                body = arena_printf(arena, "%s%s%s", body, t == at ? spaces[s] : "",
                                    t < COUNT(tokens) ? tokens[t] : "");
            struct request_facts facts = read_body(span_cstr(body)), again;
            struct splice splice;
            ck_assert_int_eq(chat_splice_request(&facts, span_cstr("m"), true, arena, &splice), 0);
            again = read_body(whole(&splice));
            ck_assert_msg(again.wants_usage && span_is(again.model, "m"), "%s", body);
        }
    }
}
END_TEST

START_TEST(a_splice_fits_whatever_the_model_is_called)
{
    struct request_facts facts = read_body(span_cstr("{\"stream\":true}"));
    char model[2000];
    struct splice splice;
    memset(model, '\x01', sizeof(model)); /* six bytes each when escaped */
    ck_assert_int_eq(chat_splice_request(&facts, span_of(model, sizeof(model)), true, arena, &splice), 0);
    struct request_facts again = read_body(whole(&splice));
    ck_assert(span_eq(again.model, span_of(model, sizeof(model))));
}
END_TEST

static const struct {
    const char *body;
    unsigned quarters;
} texts[] = {
    { "{}", 0 },
    { "{\"messages\":[]}", 0 },
    { "{\"model\":\"gpt\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}", 5 },
    { "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"\\u4f60\"}]}",
      4 },
    { "{\"messages\":[{\"content\":[{\"type\":\"text\",\"text\":\"ab\"},{\"type\":\"image_url\",\"image_"
      "url\":{"
      "\"url\":\"data:image/png;base64,AAAA\"}},{\"type\":\"text\",\"text\":\"c\"}]}]}",
      3 },
    { "{\"messages\":[{\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\","
      "\"arguments\":"
      "\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"ok\"}]}",
      5 },
    { "{\"messages\":[{\"refusal\":\"no\"}]}", 2 },
    { "{\"messages\":[{\"content\":\"a\"}],\"tools\":[{\"x\":1}]}", 8 },
    { "{\"messages\":\"hello\",\"tools\":{}}", 0 },
    { "{\"messages\":[{\"content\":5}]}", 0 },
};

START_TEST(what_the_model_reads_is_estimated_from_texts_only)
{
    struct request_facts facts = read_body(span_cstr(texts[_i].body));
    uint64_t quarters = chat_estimate_request(&facts);
    ck_assert_msg(quarters == texts[_i].quarters, "%s: %llu, expected %u", texts[_i].body,
                  (unsigned long long)quarters, texts[_i].quarters);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chat_request");
    TCase *reading = tcase_create("reading"), *splicing = tcase_create("splicing");
    tcase_add_checked_fixture(reading, set_up, tear_down);
    tcase_add_checked_fixture(splicing, set_up, tear_down);
    tcase_add_loop_test(reading, a_body_says_its_model_and_whether_it_wants_a_stream_and_usage, 0,
                        (int)COUNT(accepted));
    tcase_add_loop_test(reading, a_body_that_cannot_be_meant_is_refused_with_its_place, 0,
                        (int)COUNT(refused));
    tcase_add_loop_test(reading, what_the_model_reads_is_estimated_from_texts_only, 0, (int)COUNT(texts));
    tcase_add_test(reading, a_body_nested_too_deeply_is_refused_but_not_called_malformed);
    tcase_add_loop_test(splicing, an_upstream_gets_the_callers_bytes_with_its_own_model_and_usage_asked_for,
                        0, (int)COUNT(spliced));
    tcase_add_loop_test(splicing, what_an_upstream_gets_reads_back_as_what_was_meant, 0, (int)COUNT(spliced));
    tcase_add_test(splicing, without_usage_an_upstream_gets_the_callers_bytes_with_its_own_model_only);
    tcase_add_test(splicing, white_space_between_tokens_changes_nothing);
    tcase_add_test(splicing, a_splice_fits_whatever_the_model_is_called);
    suite_add_tcase(suite, reading);
    suite_add_tcase(suite, splicing);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
