/* Replies of the chat dialect: what an event of a stream is, where usage stands, what a plain reply is. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dialect/chat.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define EVENT(json) "data: " json "\n\n"
#define DELTA(json) EVENT("{\"choices\":[{\"index\":0,\"delta\":" json ",\"finish_reason\":null}]}")
#define HELLO DELTA("{\"content\":\"hello\"}")
#define STOP EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}")

/* A letter per class, in the order of enum event_class. */
static const char letters[] = "-CUET";

/* The classes of all events of a stream. */
struct judged {
    char classes[32];
    size_t n;
    struct stream_state state;
};

static int on_event(void *ctx, const struct sse_event *event)
{
    struct judged *judged = ctx;
    ck_assert_uint_lt(judged->n, sizeof(judged->classes) - 1);
    judged->classes[judged->n++] = letters[chat_judge_event(event, &judged->state)];
    return 0;
}

static struct judged judge(const char *stream)
{
    struct judged judged = { .n = 0 };
    struct sse_framer framer;
    usage_init(&judged.state.usage);
    sse_init(&framer, 64 * 1024);
    ck_assert_int_eq(sse_feed(&framer, span_cstr(stream), on_event, &judged), 0);
    ck_assert_uint_eq(sse_rest(&framer).len, 0);
    sse_free(&framer);
    return judged;
}

static const struct {
    const char *stream, *classes;
} streams[] = {
    /* promises nothing */
    { ": keep-alive\n\n", "-" },
    { ": OPENROUTER PROCESSING\n\n", "-" },
    { "\n\n", "--" },
    { "event: ping\n\n", "-" },
    { "id: 7\nretry: 10\n\n", "-" },
    { "data:\n\n", "-" },
    { "data:  \n\n", "-" },
    { DELTA("{}"), "-" },
    { DELTA("null"), "-" },
    { DELTA("{\"role\":\"assistant\"}"), "-" },
    { DELTA("{\"role\":\"assistant\",\"content\":\"\"}"), "-" },
    { DELTA("{\"role\":\"assistant\",\"content\":null,\"refusal\":null}"), "-" },
    { DELTA("{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":null,\"tool_calls\":[]}"), "-" },
    { EVENT("{\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
            "\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}"),
      "-" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"\"}]}"),
      "-" },                                                                             /* Ollama */
    { EVENT("{\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0}]}"), "-" }, /* Azure */
    { EVENT("{\"choices\":null}"), "-" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"flag\":0,\"ban_round\":0}]}"),
      "-" }, /* Qianfan */
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"content_filter_results\":{\"hate\":{\"filtered\":"
            "false}}}]}"),
      "-" },
    /* content */
    { HELLO, "C" },
    { DELTA("{\"content\":\" \"}"), "C" },
    { DELTA("{\"content\":\"\\n\"}"), "C" },
    { DELTA("{\"role\":\"assistant\",\"content\":\"a\"}"), "C" },
    { DELTA("{\"content\":null,\"reasoning_content\":\"hm\"}"), "C" },
    { DELTA("{\"content\":\"\",\"reasoning\":\"hm\"}"), "C" },
    { DELTA("{\"refusal\":\"no\"}"), "C" },
    { DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}"),
      "C" },
    { DELTA("{\"function_call\":{\"name\":\"f\"}}"), "C" },
    { DELTA("{\"audio\":{\"id\":\"a\"}}"), "C" },
    { EVENT("{\"choices\":[{\"index\":1,\"text\":\"a\"}]}"), "C" },
    { EVENT("{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}"), "C" },
    { EVENT("{\"choices\":[{\"index\":null,\"delta\":{\"content\":\"a\"}}]}"), "C" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":null},"
            "{\"index\":1,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}"),
      "C" },
    { STOP, "C" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"something_new\"}]}"), "C" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"content_filter\"}]}"), "C" },
    { EVENT("{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"},"
            "\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":1}}"),
      "C" }, /* Perplexity */
    { "event: message\ndata: {\"choices\":[{\"index\":0,\r\ndata: \"delta\":{\"content\":\"a\"}}]}\r\n\r\n",
      "C" },
    { EVENT("{\"something\":\"new\"}"), "C" },
    { EVENT("{}"), "C" },
    { EVENT("[1]"), "C" },
    { EVENT("\"text\""), "C" },
    /* the usage chunk, and what is not only that */
    { EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}"), "U" },
    { EVENT("{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}"), "U" },
    { EVENT("{\"choices\":null,\"usage\":{\"prompt_tokens\":1}}"), "U" },
    { EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"cost\":0.0001}}"), "U" }, /* OpenRouter */
    { EVENT("{\"choices\":[],\"usage\":null}"), "-" },
    { EVENT("{\"choices\":[],\"usage\":{}}"), "-" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}],\"usage\":{\"prompt_tokens\":1}}"),
      "-" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"usage\":{\"prompt_tokens\":"
            "1}}]}"),
      "C" }, /* Moonshot */
    /* the mark */
    { EVENT("[DONE]"), "T" },
    { "data:[DONE]\n\n", "T" },
    { "data: [DONE] \r\n\r\n", "T" },
    { "event: done\ndata: [DONE]\n\n", "T" },
    { EVENT("\"[DONE]\""), "C" },
    /* failures */
    { EVENT("{\"error\":{\"message\":\"m\"}}"), "E" },
    { EVENT("{\"error\":\"m\"}"), "E" },
    { EVENT("{\"error\":{\"code\":429},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"), "E" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}"), "E" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"network_error\"}]}"), "E" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"insufficient_system_resource\"}]}"),
      "E" },
    { EVENT("{\"x_groq\":{\"id\":\"i\",\"error\":\"overloaded\"},\"choices\":[]}"), "E" },
    { EVENT("{\"type\":\"error\",\"message\":\"m\"}"), "E" },
    { EVENT("{\"object\":\"error\",\"message\":\"m\",\"code\":null}"), "E" },
    { EVENT("{\"code\":\"Throttling\",\"message\":\"m\",\"request_id\":\"r\"}"), "E" },
    { EVENT("{\"code\":20015,\"message\":\"m\",\"data\":null}"), "E" },
    { EVENT("{\"Response\":{\"Error\":{\"Code\":\"c\",\"Message\":\"m\"},\"RequestId\":\"r\"}}"), "E" },
    { EVENT("{\"error_code\":17,\"error_msg\":\"m\"}"), "E" },
    { EVENT("{\"base_resp\":{\"status_code\":1004,\"status_msg\":\"m\"},\"choices\":null}"), "E" },
    { "event: error\ndata: {\"message\":\"m\"}\n\n", "E" },
    { "event: error\ndata: overloaded\n\n", "E" },
    { "event: error\n\n", "E" },
    { "event: error\ndata:\n\n", "E" },
    { "{\"error\":{\"code\":500}}\n\n", "E" },
    { "{\n  \"error\": {\n    \"code\": 500\n  }\n}\n\n", "E" },
    { "<html><body>502 Bad Gateway</body></html>\n\n", "E" },
    { "upstream connect error\n\n", "E" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"cut"), "E" },
    { EVENT("Internal Server Error"), "E" },
    { EVENT("{\"choices\":[]}{}"), "E" },
    /* errors that say nothing are none */
    { EVENT("{\"error\":null,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"), "C" },
    { EVENT("{\"error\":{},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"), "C" },
    { EVENT("{\"error\":\"\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"), "C" },
    { EVENT("{\"error\":false,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"), "C" },
    { EVENT("{\"base_resp\":{\"status_code\":0},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"),
      "C" },
    { EVENT("{\"error_code\":0,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"), "C" },
    { EVENT("{\"code\":0,\"message\":\"ok\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"),
      "C" },
    { EVENT("{\"type\":1,\"object\":7,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"), "C" },
    { EVENT("{\"type\":[],\"object\":{},\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}"), "C" },
    { DELTA("{\"content\":\"{\\\"error\\\":{\\\"code\\\":500}}\"}"), "C" },
    { DELTA("{\"error\":{\"code\":500}}"), "C" },
    /* several */
    { DELTA("{\"role\":\"assistant\"}") HELLO STOP EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":1}}")
          EVENT("[DONE]"),
      "-CCUT" },
    { HELLO EVENT("{\"error\":{\"code\":500}}") EVENT("[DONE]"), "CET" }, /* vLLM */
};

START_TEST(an_event_is_content_or_nothing_or_usage_or_an_error_or_the_end)
{
    struct judged judged = judge(streams[_i].stream);
    ck_assert_msg(strcmp(judged.classes, streams[_i].classes) == 0, "%s: %s, expected %s", streams[_i].stream,
                  judged.classes, streams[_i].classes);
}
END_TEST

START_TEST(an_event_too_large_to_judge_is_content)
{
    struct stream_state state = { 0 };
    const struct sse_event event = { .raw = span_cstr("data: {\"error\""), .is_part = true };
    ck_assert_int_eq(chat_judge_event(&event, &state), EVENT_CONTENT);
}
END_TEST

/* Every choice that was seen has a finish_reason. */
static const struct {
    const char *stream;
    bool is_finished;
    const char *finish_reason;
} endings[] = {
    { "", false, "" },
    { HELLO, false, "" },
    { HELLO STOP, true, "stop" },
    { EVENT("[DONE]"), false, "" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"\"}]}"), false,
      "" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}]}"), true,
      "length" },
    { STOP HELLO, true, "stop" }, /* a proxy of Gemini's says stop on every chunk */
    { EVENT("{\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"},{\"index\":1,\"delta\":{\"content\":"
            "\"a\"}}]}"),
      false, "stop" },
    { EVENT("{\"choices\":[{\"index\":1,\"finish_reason\":\"stop\"}]}")
          EVENT("{\"choices\":[{\"index\":0,\"finish_reason\":\"tool_calls\"}]}"),
      true, "tool_calls" },
    { EVENT("{\"choices\":[{\"finish_reason\":\"stop\"},{\"finish_reason\":\"length\"}]}"), true, "length" },
    { EVENT("{\"choices\":[{\"index\":63,\"finish_reason\":\"stop\"}]}"), true, "stop" },
    { EVENT("{\"choices\":[{\"index\":64,\"finish_reason\":\"stop\"}]}"), false,
      "stop" }, /* not tracked: not known */
    { EVENT("{\"choices\":[{\"index\":-1,\"finish_reason\":\"stop\"}]}"), false, "stop" },
    { EVENT("{\"choices\":[{\"index\":0,\"finish_reason\":\"a_reason_of_more_than_thirty_one_bytes\"}]}"),
      true, "a_reason_of_more_than_thirty_on" },
    { HELLO STOP EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":1}}"), true, "stop" },
};

START_TEST(a_stream_is_finished_when_every_choice_is)
{
    struct judged judged = judge(endings[_i].stream);
    ck_assert_msg(chat_is_finished(&judged.state) == endings[_i].is_finished, "%s", endings[_i].stream);
    ck_assert_msg(strcmp(judged.state.finish_reason, endings[_i].finish_reason) == 0, "%s: %s",
                  endings[_i].stream, judged.state.finish_reason);
}
END_TEST

enum { NONE = -1 };

/* Where providers put their counts: llm-error-signatures, section 4.1. */
static const struct {
    const char *provider, *stream;
    struct usage usage;
} usages[] = {
    { "nobody", HELLO STOP, { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "OpenAI",
      EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],\"usage\":null}") EVENT(
          "{\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":22,\"total_tokens\":33,"
          "\"prompt_tokens_details\":{\"cached_tokens\":4,\"audio_tokens\":1},"
          "\"completion_tokens_details\":{\"reasoning_tokens\":7,\"audio_tokens\":2,"
          "\"accepted_prediction_tokens\":0}}}"),
      { true, 11, 22, 4, NONE, 7, 1, 2, NONE } },
    { "Moonshot",
      EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"usage\":{\"prompt_tokens\":"
            "11,"
            "\"completion_tokens\":22,\"cached_tokens\":3}}]}"),
      { true, 11, 22, 3, NONE, NONE, NONE, NONE, NONE } },
    { "Moonshot, with a trailing chunk",
      EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"usage\":{\"prompt_tokens\":"
            "11,"
            "\"completion_tokens\":22}}]}") EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":11,"
                                                  "\"completion_tokens\":22,\"cached_tokens\":3}}"),
      { true, 11, 22, 3, NONE, NONE, NONE, NONE, NONE } },
    { "DeepSeek",
      STOP EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":22,"
                 "\"prompt_cache_hit_tokens\":8,\"prompt_cache_miss_tokens\":3,"
                 "\"completion_tokens_details\":{\"reasoning_tokens\":5}}}"),
      { true, 11, 22, 8, NONE, 5, NONE, NONE, NONE } },
    { "Groq",
      EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"id\":\"i\","
            "\"usage\":{\"queue_time\":0.1,\"prompt_tokens\":11,\"completion_tokens\":22}}}"),
      { true, 11, 22, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "xAI: later chunks without usage do not wipe it",
      EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":11,"
            "\"completion_tokens\":22}}") EVENT("{\"choices\":[]}") EVENT("{\"choices\":[],\"usage\":null}"),
      { true, 11, 22, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "Perplexity: running counts are not added up",
      EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":11,"
            "\"completion_tokens\":1}}")
          EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}],\"usage\":{\"prompt_tokens\":11,"
                "\"completion_tokens\":22},\"citations\":[]}"),
      { true, 11, 22, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "MiniMax: choices is null",
      EVENT("{\"choices\":null,\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":22}}"),
      { true, 11, 22, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "OpenRouter: with a choice beside it",
      EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":null}],\"usage\":{"
            "\"prompt_tokens\":11,\"completion_tokens\":22,\"cost\":0.5}}"),
      { true, 11, 22, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "Anthropic's names",
      EVENT(
          "{\"choices\":[],\"usage\":{\"input_tokens\":11,\"output_tokens\":22,\"cache_read_input_tokens\":6,"
          "\"cache_creation_input_tokens\":5}}"),
      { true, 11, 22, 6, 5, NONE, NONE, NONE, NONE } },
    { "none that can be a count",
      EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1.5,\"cached_tokens\":"
            "\"3\"}}"),
      { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "an error after it leaves it",
      EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":11}}") EVENT("{\"error\":\"x\"}"),
      { true, 11, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
};

static const char *usage_text(const struct usage *u, char out[160])
{
    snprintf(out, 160,
             "present %d input %" PRId64 " output %" PRId64 " cached %" PRId64 "/%" PRId64
             " reasoning %" PRId64 " audio %" PRId64 "/%" PRId64,
             u->present, u->input, u->output, u->cached_read, u->cached_write, u->reasoning, u->audio_in,
             u->audio_out);
    return out;
}

START_TEST(usage_is_found_wherever_a_provider_puts_it)
{
    struct judged judged = judge(usages[_i].stream);
    char found[160], expected[160];
    usage_text(&judged.state.usage, found);
    usage_text(&usages[_i].usage, expected);
    ck_assert_msg(strcmp(found, expected) == 0, "%s: %s, expected %s", usages[_i].provider, found, expected);
}
END_TEST

/* What was said, in quarters of a token, and who says that he said it. */
static const struct {
    const char *stream;
    unsigned quarters;
    const char *model;
} said[] = {
    { "", 0, "" },
    { HELLO, 5, "" },
    { HELLO HELLO STOP EVENT("[DONE]"), 10, "" },
    { DELTA("{\"role\":\"assistant\",\"content\":\"\"}"), 0, "" },
    { DELTA("{\"role\":\"assistant\",\"content\":null}"), 0, "" },
    { DELTA("{\"content\":\"\\u4f60\\n\"}"), 4, "" },
    { DELTA("{\"refusal\":\"no\"}"), 2, "" },
    { DELTA("{\"reasoning_content\":\"hm\"}"), 2, "" },
    { DELTA("{\"reasoning\":\"hm\"}"), 2, "" },
    /* one reasoning, told in the fashions of two */
    { DELTA("{\"content\":\"a\",\"reasoning\":\"hmm\",\"reasoning_content\":\"hmm\",\"reasoning_details\":[{"
            "\"type\":\"reasoning.text\",\"text\":\"hmm\"}]}"),
      4, "" },
    { DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":"
            "\"f\","
            "\"arguments\":\"{\\\"a\\\":\"}}]}"),
      6, "" },
    { EVENT("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ab\",\"reasoning\":\"c\"}},{\"index\":1,"
            "\"delta\":{"
            "\"content\":\"de\",\"reasoning\":\"f\"}}]}"),
      6, "" },
    /* what is no text of the model's */
    { DELTA("{\"content\":[1],\"audio\":{\"data\":\"AAAA\"},\"x\":\"yyyy\"}"), 0, "" },
    /* models */
    { EVENT("{\"model\":\"gpt-1\",\"choices\":[]}") EVENT("{\"model\":\"gpt-2\",\"choices\":[]}"), 0,
      "gpt-1" },
    { EVENT("{\"model\":\"\",\"choices\":[]}") EVENT("{\"model\":null,\"choices\":[]}")
          EVENT("{\"model\":\"a\\/b\\u00e9\",\"choices\":[]}"),
      0, "a/b\xC3\xA9" },
    { EVENT("{\"model\":7,\"choices\":[{\"model\":\"x\"}]}"), 0, "" },
};

START_TEST(what_a_stream_said_is_counted_as_it_comes_and_its_model_is_kept)
{
    struct judged judged = judge(said[_i].stream);
    ck_assert_msg(judged.state.said_quarters == said[_i].quarters, "%s: %" PRIu64 ", expected %u",
                  said[_i].stream, judged.state.said_quarters, said[_i].quarters);
    ck_assert_str_eq(judged.state.model, said[_i].model);
}
END_TEST

START_TEST(a_plain_reply_says_its_model)
{
    struct plain_facts facts;
    chat_judge_plain(span_cstr("{\"choices\":[{\"message\":{\"content\":\"a\"}}],\"model\":\"gpt-1\"}"),
                     &facts);
    ck_assert_str_eq(facts.model, "gpt-1");
    chat_judge_plain(span_cstr("{\"choices\":[{\"message\":{\"content\":\"a\"}}]}"), &facts);
    ck_assert_str_eq(facts.model, "");
}
END_TEST

#define ANSWER                                                                                            \
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"finish_reason\":" \
    "\"stop\"}]"

static const struct {
    const char *body;
    bool is_usable, is_error;
    const char *why; /* NULL: usable */
    const char *finish_reason;
} plains[] = {
    { "{" ANSWER "}", true, false, NULL, "stop" },
    { "\n\n\n{" ANSWER ",\"error\":null}\n", true, false, NULL, "stop" }, /* DeepSeek's blank lines */
    { "{" ANSWER ",\"code\":0,\"message\":\"ok\"}", true, false, NULL, "stop" },
    { "{" ANSWER ",\"base_resp\":{\"status_code\":0,\"status_msg\":\"\"}}", true, false, NULL, "stop" },
    { "{" ANSWER ",\"type\":1,\"object\":2}", true, false, NULL, "stop" },
    { "{" ANSWER ",\"error_code\":0}", true, false, NULL, "stop" },
    /* An answer without text is an answer. */
    { "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}", true, false,
      NULL, "stop" },
    { "{\"choices\":[{\"index\":0,\"message\":{\"content\":null,\"tool_calls\":[{\"id\":\"c\"}]},"
      "\"finish_reason\":\"tool_calls\"}]}",
      true, false, NULL, "tool_calls" },
    { "{\"choices\":[{\"message\":{\"content\":\"a\"}}]}", true, false, NULL, "" },
    { "{\"choices\":[{\"message\":{\"content\":\"a\"},\"finish_reason\":\"error\"},"
      "{\"message\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}",
      true, false, NULL, "stop" }, /* one of several: the other is worth having */
    { "", false, false, "empty_reply", "" },
    { " \r\n", false, false, "empty_reply", "" },
    { "<html></html>", false, false, "not_json", "" },
    { "{" ANSWER, false, false, "not_json", "" },
    { "{" ANSWER "}}", false, false, "not_json", "" },
    { "data: {" ANSWER "}\n\n", false, false, "not_json", "" },
    { "null", false, false, "no_choices", "" },
    { "[]", false, false, "no_choices", "" },
    { "{}", false, false, "no_choices", "" },
    { "{\"choices\":null}", false, false, "no_choices", "" },
    { "{\"choices\":[]}", false, false, "no_choices", "" },
    { "{\"choices\":[],\"usage\":{\"prompt_tokens\":1}}", false, false, "no_choices", "" },
    { "{\"detail\":\"Not Found\"}", false, false, "no_choices", "" },
    { "{\"error\":{\"message\":\"m\"}}", false, true, "error_in_reply", "" },
    { "{\"error\":\"m\"}", false, true, "error_in_reply", "" },
    { "{\"error\":{\"code\":502},\"choices\":[]}", false, true, "error_in_reply", "" }, /* OpenRouter */
    { "{\"error\":{\"code\":502}," ANSWER "}", false, true, "error_in_reply", "stop" },
    { "{\"object\":\"error\",\"message\":\"m\"}", false, true, "error_in_reply", "" },
    { "{\"type\":\"err\\u006fr\",\"x\":1}", false, true, "error_in_reply", "" },
    { "{\"code\":\"InvalidApiKey\",\"message\":\"m\"}", false, true, "error_in_reply", "" },
    { "{\"code\":50505,\"message\":\"m\",\"data\":null}", false, true, "error_in_reply", "" },
    { "{\"Response\":{\"Error\":{\"Code\":\"c\"}}}", false, true, "error_in_reply", "" },
    { "{\"error_code\":6,\"error_msg\":\"m\"}", false, true, "error_in_reply", "" },
    { "{\"base_resp\":{\"status_code\":1008},\"choices\":null}", false, true, "error_in_reply", "" },
    { "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"},\"finish_reason\":\"error\"}]}", false,
      true, "error_in_reply", "error" },
    { "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"},\"finish_reason\":\"insufficient_system_"
      "resource\"}]}",
      false, true, "error_in_reply", "insufficient_system_resource" },
};

START_TEST(a_plain_reply_answers_or_it_says_why_it_does_not)
{
    struct plain_facts facts;
    const char *body = plains[_i].body, *why = plains[_i].why;
    chat_judge_plain(span_cstr(body), &facts);
    ck_assert_msg(facts.is_usable == plains[_i].is_usable, "%s: is_usable %d", body, facts.is_usable);
    ck_assert_msg(facts.is_error == plains[_i].is_error, "%s: is_error %d", body, facts.is_error);
    ck_assert_msg((why == NULL) == (facts.why == NULL) && (why == NULL || strcmp(why, facts.why) == 0),
                  "%s: %s", body, facts.why);
    ck_assert_msg(strcmp(facts.finish_reason, plains[_i].finish_reason) == 0, "%s: %s", body,
                  facts.finish_reason);
}
END_TEST

START_TEST(a_plain_reply_has_its_usage)
{
    struct plain_facts facts;
    chat_judge_plain(span_cstr("{" ANSWER ",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}"),
                     &facts);
    ck_assert(facts.usage.present);
    ck_assert_int_eq(facts.usage.input, 3);
    ck_assert_int_eq(facts.usage.output, 4);
    ck_assert_int_eq(facts.usage.reasoning, -1);
    chat_judge_plain(span_cstr("{" ANSWER "}"), &facts);
    ck_assert(!facts.usage.present);
    ck_assert_int_eq(facts.usage.input, -1);
}
END_TEST

/* The end of a reply that was too large to be read whole. */
static const struct {
    const char *tail;
    bool present;
    int64_t input, output;
} tails[] = {
    { "x\"}}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}", true, 3, 4 },
    { "x\"}}], \"usage\" :\n { \"prompt_tokens\": 3 } , \"id\": \"i\" }\n", true, 3, NONE },
    { "\"usage\":{\"prompt_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":1},\"completion_tokens\":"
      "4}}",
      true, 3, 4 },
    { "\"usage\":{\"prompt_tokens\":1}},{\"usage\":{\"prompt_tokens\":3}}", true, 3, NONE },
    { "he said \\\"usage\\\":{\\\"prompt_tokens\\\":3}\"}}]}", false, NONE, NONE },
    { "\"usage\":{\"prompt_tokens\":3}},\"x\":\"\\\"usage\\\"\"}", true, 3, NONE },
    { "x\"}}],\"usage\":null}", false, NONE, NONE },
    { "x\"}}],\"usage\":{\"prompt_tokens\":3", false, NONE, NONE },
    { "x\"}}],\"usage\"", false, NONE, NONE },
    { "sage\":{\"prompt_tokens\":3}}", false, NONE, NONE },
    { "", false, NONE, NONE },
};

START_TEST(usage_is_found_in_the_tail_of_a_large_reply)
{
    struct usage usage;
    usage_init(&usage);
    chat_read_tail(span_cstr(tails[_i].tail), &usage);
    ck_assert_msg(usage.present == tails[_i].present && usage.input == tails[_i].input &&
                      usage.output == tails[_i].output,
                  "%s: present %d input %" PRId64 " output %" PRId64, tails[_i].tail, usage.present,
                  usage.input, usage.output);
}
END_TEST

START_TEST(an_error_event_is_whole_and_is_read_as_an_error)
{
    const struct stream_error error = { .message = "broke \"off\"\n", .type = "server_error", .code = "cut" };
    struct buf out;
    buf_init(&out, 4096);
    chat_write_error_event(&out, &error);
    buf_append_char(&out, '\0');
    ck_assert_str_eq(out.data,
                     "data: {\"error\":{\"message\":\"broke \\\"off\\\"\\n\",\"type\":\"server_error\","
                     "\"param\":null,\"code\":\"cut\"}}\n\n");
    ck_assert_str_eq(judge(out.data).classes, "E");
    buf_free(&out);
}
END_TEST

/* What a client of OpenAI's reads as an error it gets as it was written, on one line. */
static const struct {
    const char *body, *event;
} refusals[] = {
    { "{\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}",
      "data: {\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}\n\n" },
    { "\n{\r\n  \"error\": {\n    \"message\": \"a\\nb\"\n  }\n}\n",
      "data: {    \"error\": {     \"message\": \"a\\nb\"   } }\n\n" },
    { "{\"error\":\"too long\"}", "data: {\"error\":\"too long\"}\n\n" },
    { "{\"error\":{}}", "data: {\"error\":{\"message\":\"no\",\"type\":\"t\",\"param\":null,\"code\":\"c\","
                        "\"details\":{\"error\":{}}}}\n\n" },
    { "{\"error\":true}", "data: {\"error\":{\"message\":\"no\",\"type\":\"t\",\"param\":null,\"code\":\"c\","
                          "\"details\":{\"error\":true}}}\n\n" },
    { "{\"detail\":[\n{\"msg\":\"too long\"}]}",
      "data: {\"error\":{\"message\":\"no\",\"type\":\"t\",\"param\":null,\"code\":\"c\","
      "\"details\":{\"detail\":[ {\"msg\":\"too long\"}]}}}\n\n" },
    { "too long", "data: {\"error\":{\"message\":\"no\",\"type\":\"t\",\"param\":null,\"code\":\"c\"}}\n\n" },
    { "{\"error\":{\"message\":\"cu",
      "data: {\"error\":{\"message\":\"no\",\"type\":\"t\",\"param\":null,\"code\":\"c\"}}\n\n" },
    { "", "data: {\"error\":{\"message\":\"no\",\"type\":\"t\",\"param\":null,\"code\":\"c\"}}\n\n" },
};

START_TEST(a_refusal_is_told_in_a_stream_in_the_upstreams_words_where_they_are_json)
{
    const struct stream_error error = { .message = "no", .type = "t", .code = "c" };
    struct buf out;
    buf_init(&out, 4096);
    chat_write_refusal_event(&out, span_cstr(refusals[_i].body), &error);
    buf_append_char(&out, '\0');
    ck_assert_str_eq(out.data, refusals[_i].event);
    ck_assert_str_eq(judge(out.data).classes, "E");
    buf_free(&out);
}
END_TEST

START_TEST(the_dialects_heartbeat_is_a_whole_event_that_says_nothing)
{
    ck_assert_str_eq(judge(dialect_chat.heartbeat).classes, "-");
    ck_assert_str_eq(dialect_chat.heartbeat + strlen(dialect_chat.heartbeat) - 2, "\n\n");
}
END_TEST

START_TEST(the_dialects_mark_is_read_as_its_end)
{
    ck_assert_str_eq(judge(dialect_chat.terminal_mark).classes, "T");
}
END_TEST

START_TEST(a_dialect_is_found_by_its_endpoint)
{
    ck_assert_ptr_eq(dialect_by_endpoint(span_cstr("chat/completions")), &dialect_chat);
    ck_assert_ptr_null(dialect_by_endpoint(span_cstr("/chat/completions")));
    ck_assert_ptr_null(dialect_by_endpoint(span_cstr("")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chat_reply");
    TCase *tcase = tcase_create("replies");
    tcase_add_loop_test(tcase, an_event_is_content_or_nothing_or_usage_or_an_error_or_the_end, 0,
                        (int)COUNT(streams));
    tcase_add_test(tcase, an_event_too_large_to_judge_is_content);
    tcase_add_loop_test(tcase, a_stream_is_finished_when_every_choice_is, 0, (int)COUNT(endings));
    tcase_add_loop_test(tcase, usage_is_found_wherever_a_provider_puts_it, 0, (int)COUNT(usages));
    tcase_add_loop_test(tcase, what_a_stream_said_is_counted_as_it_comes_and_its_model_is_kept, 0,
                        (int)COUNT(said));
    tcase_add_test(tcase, a_plain_reply_says_its_model);
    tcase_add_loop_test(tcase, a_plain_reply_answers_or_it_says_why_it_does_not, 0, (int)COUNT(plains));
    tcase_add_test(tcase, a_plain_reply_has_its_usage);
    tcase_add_loop_test(tcase, usage_is_found_in_the_tail_of_a_large_reply, 0, (int)COUNT(tails));
    tcase_add_test(tcase, an_error_event_is_whole_and_is_read_as_an_error);
    tcase_add_loop_test(tcase, a_refusal_is_told_in_a_stream_in_the_upstreams_words_where_they_are_json, 0,
                        (int)COUNT(refusals));
    tcase_add_test(tcase, the_dialects_heartbeat_is_a_whole_event_that_says_nothing);
    tcase_add_test(tcase, the_dialects_mark_is_read_as_its_end);
    tcase_add_test(tcase, a_dialect_is_found_by_its_endpoint);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
