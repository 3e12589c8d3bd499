/* OTLP's messages of events and cells, as JSON: each test compares the whole text, or what stands at one
 * place in it. */
#include <check.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/telemetry/otlp_attributes.h"
#include "core/telemetry/otlp_json.h"
#include "core/telemetry/otlp_log.h"
#include "core/telemetry/otlp_metric.h"
#include "core/telemetry/otlp_trace.h"

enum { JSON_BYTES = 16 * 1024 * 1024 };

static struct arena *arena;
static struct buf text;
static json_object *tree;
static const struct otlp_attribute name_of_service = { "service.name", "llm-router" };
static struct otlp_settings settings;

static void set_up(void)
{
    arena = arena_new();
    buf_init(&text, JSON_BYTES);
    settings = (struct otlp_settings){ .resource = &name_of_service,
                                       .n_resource = 1,
                                       .span_value_limit = OTLP_NO_LIMIT,
                                       .span_count_limit = 128,
                                       .log_value_limit = OTLP_NO_LIMIT,
                                       .log_count_limit = 128 };
}

static void tear_down(void)
{
    json_object_put(tree);
    tree = NULL;
    buf_free(&text);
    arena_free(arena);
}

static const char *json_of(const ProtobufCMessage *message)
{
    struct json_writer w;
    buf_clear(&text);
    jw_init(&w, &text);
    otlp_json_write(message, &w);
    buf_append_char(&text, '\0');
    ck_assert(!text.overflowed);
    json_object_put(tree);
    tree = json_tokener_parse(text.data);
    ck_assert_msg(tree != NULL, "not JSON: %s", text.data);
    return text.data;
}

/* --- the walk --- */

START_TEST(names_ids_enums_and_64_bit_numbers_are_written_as_otlp_wants_them)
{
    uint8_t id[] = { 0, 0x1f, 0xa0, 0xff };
    Otlp__Span span = OTLP__SPAN__INIT;
    Otlp__Status status = OTLP__STATUS__INIT;
    span.trace_id = (ProtobufCBinaryData){ sizeof(id), id };
    span.start_time_unix_nano = UINT64_MAX;
    span.kind = OTLP__SPAN__KIND__SPAN_KIND_CLIENT;
    span.name = "quote \" and \xc3\xa9";
    span.flags = 0x301;
    status.code = OTLP__STATUS__CODE__STATUS_CODE_ERROR;
    span.status = &status;
    ck_assert_str_eq(json_of(&span.base),
                     "{\"traceId\":\"001fa0ff\",\"name\":\"quote \\\" and \xc3\xa9\",\"kind\":3,"
                     "\"startTimeUnixNano\":\"18446744073709551615\",\"status\":{\"code\":2},"
                     "\"flags\":769}");
}
END_TEST

START_TEST(the_member_of_a_oneof_stands_also_with_its_default)
{
    static const struct {
        Otlp__AnyValue value;
        const char *expected;
    } rows[] = {
        { OTLP__ANY_VALUE__INIT, "{}" },
        { { PROTOBUF_C_MESSAGE_INIT(&otlp__any_value__descriptor),
            OTLP__ANY_VALUE__VALUE_INT_VALUE,
            { .int_value = 0 } },
          "{\"intValue\":\"0\"}" },
        { { PROTOBUF_C_MESSAGE_INIT(&otlp__any_value__descriptor),
            OTLP__ANY_VALUE__VALUE_INT_VALUE,
            { .int_value = INT64_MIN } },
          "{\"intValue\":\"-9223372036854775808\"}" },
        { { PROTOBUF_C_MESSAGE_INIT(&otlp__any_value__descriptor),
            OTLP__ANY_VALUE__VALUE_BOOL_VALUE,
            { .bool_value = 0 } },
          "{\"boolValue\":false}" },
        { { PROTOBUF_C_MESSAGE_INIT(&otlp__any_value__descriptor),
            OTLP__ANY_VALUE__VALUE_STRING_VALUE,
            { .string_value = "" } },
          "{\"stringValue\":\"\"}" },
        { { PROTOBUF_C_MESSAGE_INIT(&otlp__any_value__descriptor),
            OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE,
            { .double_value = 0.25 } },
          "{\"doubleValue\":0.25}" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_str_eq(json_of(&rows[i].value.base), rows[i].expected);
}
END_TEST

START_TEST(a_histograms_lists_are_strings_and_numbers)
{
    uint64_t counts[] = { 0, UINT64_MAX };
    double bounds[] = { 0.5 };
    Otlp__HistogramDataPoint point = OTLP__HISTOGRAM_DATA_POINT__INIT;
    point.n_bucket_counts = 2;
    point.bucket_counts = counts;
    point.n_explicit_bounds = 1;
    point.explicit_bounds = bounds;
    point.optional_sum_case = OTLP__HISTOGRAM_DATA_POINT__OPTIONAL_SUM_SUM;
    ck_assert_str_eq(
        json_of(&point.base),
        "{\"sum\":0,\"bucketCounts\":[\"0\",\"18446744073709551615\"],\"explicitBounds\":[0.5]}");
}
END_TEST

/* --- spans --- */

#define IDS \
    "\"trace_id\":\"0123456789abcdef0123456789abcdef\",\"span_id\":\"0123456789abcdef\",\"sampled\":true"

static const char *value_text(json_object *value)
{
    json_object_object_foreach(value, kind, one)
    {
        if (strcmp(kind, "arrayValue") == 0)
            return json_object_to_json_string(one);
        return json_object_get_string(one);
    }
    return "";
}

/* An attribute of a span or a record as text; NULL: there is none. */
static const char *attribute(json_object *holder, const char *name)
{
    json_object *list = NULL, *key, *value;
    json_object_object_get_ex(holder, "attributes", &list);
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        json_object *pair = json_object_array_get_idx(list, i);
        json_object_object_get_ex(pair, "key", &key);
        if (strcmp(json_object_get_string(key), name) != 0)
            continue;
        json_object_object_get_ex(pair, "value", &value);
        return value_text(value);
    }
    return NULL;
}

static json_object *at(json_object *object, const char *name)
{
    json_object *value = NULL;
    json_object_object_get_ex(object, name, &value);
    return value;
}

/* Their only list of spans or records. */
static json_object *items(const char *resources, const char *scopes, const char *name)
{
    json_object *resource = json_object_array_get_idx(at(tree, resources), 0);
    return at(json_object_array_get_idx(at(resource, scopes), 0), name);
}

/* The spans of one event; NULL: there are none. */
static json_object *spans_of(const char *event)
{
    struct span line = span_cstr(event);
    Otlp__TraceRequest *request = otlp_trace_request(&settings, "i", &line, 1, arena);
    if (request == NULL)
        return NULL;
    json_of(&request->base);
    return items("resourceSpans", "scopeSpans", "spans");
}

static const struct told_row {
    const char *what, *event;
    unsigned span;                           /* 0: the SERVER span */
    const char *name, *attribute, *expected; /* of the span; expected NULL: there is no such attribute */
    int64_t status;
} told[] = {
    { "a request",
      "{" IDS ",\"mount\":\"/v1\",\"endpoint\":\"chat/completions\",\"status\":200,\"end\":\"done\"}", 0,
      "POST /v1/chat/completions", "http.route", "/v1/chat/completions", 0 },
    { "its operation", "{" IDS ",\"mount\":\"/v1\",\"endpoint\":\"audio/speech\",\"status\":200}", 0,
      "POST /v1/audio/speech", "gen_ai.operation.name", "text_to_speech", 0 },
    { "a transcription", "{" IDS ",\"mount\":\"/v1\",\"endpoint\":\"audio/transcriptions\",\"status\":200}",
      0, "POST /v1/audio/transcriptions", "gen_ai.operation.name", "speech_to_text", 0 },
    { "a list", "{" IDS ",\"mount\":\"/v1\",\"endpoint\":\"models\",\"status\":200}", 0, "GET /v1/models",
      "gen_ai.operation.name", NULL, 0 },
    { "a method that is not told", "{" IDS ",\"mount\":\"/v1\",\"endpoint\":\"models\",\"status\":405}", 0,
      "HTTP /v1/models", "http.request.method", "_OTHER", 0 },
    { "no endpoint", "{" IDS ",\"status\":404}", 0, "HTTP", "http.route", NULL, 0 },
    { "the caller's mistake", "{" IDS ",\"status\":400,\"end\":\"refused\"}", 0, "HTTP", "error.type", NULL,
      0 },
    { "our failure", "{" IDS ",\"status\":502,\"end\":\"error_before\"}", 0, "HTTP", "error.type", "502", 2 },
    { "a worker's death", "{" IDS ",\"end\":\"worker_died\"}", 0, "HTTP", "error.type", "worker_died", 2 },
    { "a cut stream", "{" IDS ",\"status\":200,\"end\":\"cut\",\"stream\":true}", 0, "HTTP",
      "airi.gen_ai.stream_interrupted", "true", 2 },
    { "a caller who left", "{" IDS ",\"end\":\"client_gone\"}", 0, "HTTP", "airi.gen_ai.gateway.end",
      "client_gone", 0 },
    { "depth", "{" IDS ",\"fallback_depth\":2,\"fallback_reason\":\"429\"}", 0, "HTTP",
      "airi.gen_ai.gateway.fallback.depth", "2", 0 },
    { "its reason", "{" IDS ",\"fallback_depth\":2,\"fallback_reason\":\"429\"}", 0, "HTTP",
      "airi.gen_ai.gateway.fallback.reason", "429", 0 },
    { "no depth without attempts", "{" IDS ",\"status\":400}", 0, "HTTP",
      "airi.gen_ai.gateway.fallback.depth", NULL, 0 },
    { "a caller whom the web server knows",
      "{" IDS ",\"endpoint\":\"models\",\"remote_user\":\"0123456789abcdef\",\"attempts\":[]}", 0,
      "GET /models", "airi.gen_ai.gateway.caller.remote_user", "0123456789abcdef", 0 },
    { "an attempt",
      "{" IDS
      ",\"endpoint\":\"chat/completions\",\"model\":\"m\",\"attempts\":[{\"n\":1,\"verdict\":\"ok\"}]}",
      1, "chat m", "gen_ai.request.model", "m", 0 },
    { "its own model",
      "{" IDS ",\"endpoint\":\"chat/completions\",\"model\":\"m\",\"attempts\":[{\"n\":1,"
      "\"model\":\"real\",\"verdict\":\"ok\"}]}",
      1, "chat real", "gen_ai.request.model", "real", 0 },
    { "an address with a port",
      "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"ok\",\"url\":\"https://h.example:8443/v1\"}]}", 1,
      "request ", "server.port", "8443", 0 },
    { "a host without one", "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"ok\",\"host\":\"h.example\"}]}", 1,
      "request ", "server.address", "h.example", 0 },
    { "an IPv6 address",
      "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"ok\",\"url\":\"http://[::1]:9/v1\"}]}", 1, "request ",
      "server.address", "[::1]", 0 },
    { "a port that the scheme says",
      "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"ok\",\"url\":\"https://h.example\"}]}", 1, "request ",
      "server.port", "443", 0 },
    { "an IPv6 address and its port",
      "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"ok\",\"url\":\"http://[::1]:9/v1\"}]}", 1, "request ",
      "server.port", "9", 0 },
    { "a refused attempt", "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"rate\",\"status\":429}]}", 1,
      "request ", "error.type", "429", 2 },
    { "a timeout",
      "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"timeout\",\"reason\":\"timeout_connect\"}]}", 1,
      "request ", "error.type", "timeout_connect", 2 },
    { "an error said with a 200", "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"quota\",\"status\":200}]}",
      1, "request ", "error.type", "quota", 2 },
    { "an attempt of which the caller left", "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"cancelled\"}]}",
      1, "request ", "error.type", NULL, 0 },
    { "the second attempt",
      "{" IDS ",\"fallback_reason\":\"429\",\"attempts\":[{\"n\":1,\"verdict\":\"rate\",\"status\":429},"
      "{\"n\":2,\"verdict\":\"ok\"}]}",
      2, "request ", "http.request.resend_count", "1", 0 },
    { "its reason",
      "{" IDS ",\"fallback_reason\":\"429\",\"attempts\":[{\"n\":1,\"verdict\":\"rate\",\"status\":429},"
      "{\"n\":2,\"verdict\":\"ok\"}]}",
      2, "request ", "airi.gen_ai.gateway.fallback.reason", "429", 0 },
    { "usage of the attempt that served",
      "{" IDS ",\"usage\":{\"output\":0,\"source\":\"upstream\"},\"attempts\":["
      "{\"n\":1,\"verdict\":\"ok\"}]}",
      1, "request ", "gen_ai.usage.output_tokens", "0", 0 },
    { "no usage on one that did not",
      "{" IDS ",\"usage\":{\"output\":0},\"attempts\":[{\"n\":1,\"verdict\":\"rate\"},"
      "{\"n\":2,\"verdict\":\"ok\"}]}",
      1, "request ", "gen_ai.usage.output_tokens", NULL, 2 },
    { "what became of a hedge", "{" IDS ",\"hedge\":\"lost\"}", 0, "HTTP", "airi.gen_ai.gateway.hedge",
      "lost", 0 },
    { "an attempt that was begun beside another",
      "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"ok\",\"decided\":true},"
      "{\"n\":2,\"hedged\":true,\"verdict\":\"cancelled\"}]}",
      2, "request ", "airi.gen_ai.gateway.hedged", "true", 0 },
    { "one that was begun beside another is no fallback",
      "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"cancelled\"},"
      "{\"n\":2,\"hedged\":true,\"verdict\":\"ok\",\"decided\":true}]}",
      2, "request ", "airi.gen_ai.gateway.fallback.depth", "0", 0 },
    { "one behind both is, of both",
      "{" IDS
      ",\"attempts\":[{\"n\":1,\"verdict\":\"server\"},{\"n\":2,\"hedged\":true,\"verdict\":\"server\"},"
      "{\"n\":3,\"verdict\":\"ok\",\"decided\":true}]}",
      3, "request ", "airi.gen_ai.gateway.fallback.depth", "2", 0 },
    { "who lost to another has no error",
      "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"cancelled\",\"reason\":\"hedge_lost\"},"
      "{\"n\":2,\"hedged\":true,\"verdict\":\"ok\",\"decided\":true}]}",
      1, "request ", "error.type", NULL, 0 },
    { "but says that it has",
      "{" IDS ",\"attempts\":[{\"n\":1,\"verdict\":\"cancelled\",\"reason\":\"hedge_lost\"},"
      "{\"n\":2,\"hedged\":true,\"verdict\":\"ok\",\"decided\":true}]}",
      1, "request ", "airi.gen_ai.gateway.reason", "hedge_lost", 0 },
    { "usage of the first, which decided",
      "{" IDS ",\"usage\":{\"output\":5},\"attempts\":[{\"n\":1,\"verdict\":\"ok\",\"decided\":true},"
      "{\"n\":2,\"hedged\":true,\"verdict\":\"cancelled\"}]}",
      1, "request ", "gen_ai.usage.output_tokens", "5", 0 },
    { "none of one that lost to it",
      "{" IDS ",\"committed\":true,\"usage\":{\"output\":5},\"attempts\":["
      "{\"n\":1,\"verdict\":\"ok\",\"decided\":true},{\"n\":2,\"hedged\":true,\"verdict\":\"cancelled\"}]}",
      2, "request ", "gen_ai.usage.output_tokens", NULL, 0 },
    { "a finish reason", "{" IDS ",\"finish_reason\":\"stop\",\"attempts\":[{\"n\":1,\"verdict\":\"ok\"}]}",
      1, "request ", "gen_ai.response.finish_reasons", "{ \"values\": [ { \"stringValue\": \"stop\" } ] }",
      0 },
};

START_TEST(spans_say_what_the_event_says_in_the_conventions_words)
{
    const struct told_row *row = &told[_i];
    json_object *spans = spans_of(row->event);
    ck_assert_msg(spans != NULL, "%s: no span", row->what);
    json_object *span = json_object_array_get_idx(spans, row->span);
    const char *found = attribute(span, row->attribute), *name = json_object_get_string(at(span, "name"));
    ck_assert_msg(strcmp(name, row->name) == 0, "%s: the name is \"%s\"", row->what, name);
    ck_assert_msg(row->expected == NULL ? found == NULL : found != NULL && strcmp(found, row->expected) == 0,
                  "%s: %s is %s", row->what, row->attribute, found);
    ck_assert_msg(json_object_get_int64(at(at(span, "status"), "code")) == row->status,
                  "%s: the status is %s", row->what, json_object_to_json_string(at(span, "status")));
    ck_assert_int_eq(json_object_get_int64(at(span, "kind")), row->span == 0 ? 2 : 3);
}
END_TEST

static const char *const untold[] = {
    "{}",
    "{\"event\":\"airi.gen_ai.gateway.config.write\"}",
    "{\"trace_id\":\"0123456789abcdef0123456789abcdef\",\"span_id\":\"0123456789abcdef\",\"sampled\":false}",
    "{\"trace_id\":\"0123456789abcdef0123456789abcdef\",\"span_id\":\"0123456789abcdef\"}",
    "{\"trace_id\":\"0123456789abcdef\",\"span_id\":\"0123456789abcdef\",\"sampled\":true}",
    "{\"trace_id\":\"0123456789abcdef0123456789abcdeX\",\"span_id\":\"0123456789abcdef\",\"sampled\":true}",
    "{\"trace_id\":\"0123456789abcdef0123456789abcdef\",\"sampled\":true}",
    "{\"trace_id\":7,\"span_id\":[],\"sampled\":true}",
};

START_TEST(what_is_no_sampled_request_has_no_span)
{
    ck_assert_msg(spans_of(untold[_i]) == NULL, "%s", untold[_i]);
}
END_TEST

START_TEST(an_attempt_stands_below_its_request_with_an_id_that_its_number_decides)
{
    json_object *spans =
        spans_of("{" IDS ",\"parent_span_id\":\"fedcba9876543210\",\"attempts\":[{\"n\":1},{\"n\":2}]}");
    json_object *server = json_object_array_get_idx(spans, 0), *second = json_object_array_get_idx(spans, 2);
    ck_assert_str_eq(json_object_get_string(at(server, "parentSpanId")), "fedcba9876543210");
    ck_assert_int_eq(json_object_get_int64(at(server, "flags")), 0x301);
    ck_assert_str_eq(json_object_get_string(at(second, "parentSpanId")), "0123456789abcdef");
    ck_assert_int_eq(json_object_get_int64(at(second, "flags")), 0x101);
    /* printf 0123456789abcdef/2 | sha256sum */
    ck_assert_str_eq(json_object_get_string(at(second, "spanId")), "b2189c4c66a0a67f");
}
END_TEST

static const struct time_row {
    const char *what, *attempts;
    const char *start, *end; /* of the first attempt, ns; the request begins at 1 s and takes 900 µs */
} times[] = {
    { "one that served ends with its last byte",
      "{\"n\":1,\"start_us\":10,\"last_byte_us\":80,\"verdict\":\"ok\"}", "1000010000", "1000090000" },
    { "one that failed ends when the next begins",
      "{\"n\":1,\"start_us\":10,\"verdict\":\"timeout\"},{\"n\":2,\"start_us\":500}", "1000010000",
      "1000500000" },
    { "one beside which another ran ends when it is said",
      "{\"n\":1,\"start_us\":10,\"took_us\":700,\"last_byte_us\":80,\"verdict\":\"ok\"},"
      "{\"n\":2,\"start_us\":500,\"took_us\":210}",
      "1000010000", "1000710000" },
    { "the last one that failed ends with the request", "{\"n\":1,\"start_us\":10,\"verdict\":\"timeout\"}",
      "1000010000", "1000900000" },
};

START_TEST(attempts_have_their_times)
{
    const struct time_row *row = &times[_i];
    json_object *spans = spans_of(
        arena_printf(arena, "{" IDS ",\"time\":1000000,\"total_us\":900,\"attempts\":[%s]}", row->attempts));
    json_object *span = json_object_array_get_idx(spans, 1);
    ck_assert_str_eq(json_object_get_string(at(span, "startTimeUnixNano")), row->start);
    ck_assert_msg(strcmp(json_object_get_string(at(span, "endTimeUnixNano")), row->end) == 0, "%s: %s",
                  row->what, json_object_get_string(at(span, "endTimeUnixNano")));
}
END_TEST

START_TEST(attributes_are_cut_between_characters_and_dropped_ones_counted)
{
    settings.span_value_limit = 3;
    settings.span_count_limit = 2;
    json_object *spans = spans_of(
        "{" IDS ",\"mount\":\"/\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\",\"endpoint\":\"x\",\"status\":200}");
    json_object *server = json_object_array_get_idx(spans, 0);
    ck_assert_str_eq(attribute(server, "http.route"), "/\xe4\xb8\xad\xe6\x96\x87");
    ck_assert_uint_eq(json_object_array_length(at(server, "attributes")), 2);
    ck_assert_int_eq(json_object_get_int64(at(server, "droppedAttributesCount")), 1);
}
END_TEST

/* --- log records --- */

START_TEST(a_write_of_an_administrator_becomes_a_record_and_a_request_does_not)
{
    struct span lines[] = {
        span_cstr("{" IDS "}"),
        span_cstr("{\"v\":1,\"event\":\"airi.gen_ai.gateway.config.write\",\"time\":5,\"actor_email\":\"ada@"
                  "example.org\","
                  "\"version\":\"7\",\"key_count\":2,\"other\":{\"x\":1}}"),
    };
    ck_assert_ptr_null(otlp_logs_request(&settings, "i", lines, 1, arena));
    json_of(&otlp_logs_request(&settings, "i", lines, 2, arena)->base);
    json_object *records = items("resourceLogs", "scopeLogs", "logRecords");
    ck_assert_uint_eq(json_object_array_length(records), 1);
    json_object *record = json_object_array_get_idx(records, 0);
    ck_assert_str_eq(json_object_get_string(at(record, "eventName")), "airi.gen_ai.gateway.config.write");
    ck_assert_str_eq(json_object_get_string(at(record, "timeUnixNano")), "5000");
    ck_assert_int_eq(json_object_get_int64(at(record, "severityNumber")), 9);
    ck_assert_str_eq(attribute(record, "actor_email"), "ada@example.org");
    ck_assert_str_eq(attribute(record, "version"), "7");
    ck_assert_str_eq(attribute(record, "key_count"), "2");
    ck_assert_uint_eq(json_object_array_length(at(record, "attributes")), 3);
}
END_TEST

/* --- metrics --- */

static struct telemetry *cells;
static const struct series_facts facts = { .program = METRIC_OF_ROUTER, .instance = "i", .tree_version = "" };

static void set_up_cells(void)
{
    set_up();
    cells = aligned_alloc(64, sizeof(*cells));
    memset(cells, 0, sizeof(*cells));
    telemetry_init(cells);
}

static void tear_down_cells(void)
{
    free(cells);
    tear_down();
}

/* The metric in the request that is made now; NULL: it is not in it. */
static json_object *metric(struct otlp_meter *meter, const char *name)
{
    size_t n = 0;
    Otlp__MetricsRequest *request = otlp_metrics_request(meter, &facts, arena, &n);
    if (request == NULL)
        return NULL;
    json_of(&request->base);
    json_object *metrics = items("resourceMetrics", "scopeMetrics", "metrics");
    for (size_t i = 0; i < json_object_array_length(metrics); i++) {
        json_object *one = json_object_array_get_idx(metrics, i);
        if (strcmp(json_object_get_string(at(one, "name")), name) == 0)
            return one;
    }
    return NULL;
}

/* The value of the point with this attribute. */
static const char *point_value(json_object *data, const char *name, const char *value)
{
    json_object *points = at(data, "dataPoints");
    for (size_t i = 0; i < json_object_array_length(points); i++) {
        json_object *point = json_object_array_get_idx(points, i);
        const char *found = attribute(point, name);
        if (found != NULL && strcmp(found, value) == 0)
            return json_object_get_string(at(point, at(point, "asInt") != NULL ? "asInt" : "asDouble"));
    }
    return NULL;
}

#define DELIVERED "airi.gen_ai.gateway.export.delivered"

START_TEST(cumulative_counters_have_every_series_and_grow)
{
    struct otlp_meter *meter = otlp_meter_new(&settings, cells, "i");
    for (int i = 0; i < 2; i++) {
        telemetry_add(cells, METRIC_EXPORT_DELIVERED, METRIC_SIGNAL_LOGS, 5);
        json_object *sum = at(metric(meter, DELIVERED), "sum");
        ck_assert(json_object_get_boolean(at(sum, "isMonotonic")));
        ck_assert_int_eq(json_object_get_int64(at(sum, "aggregationTemporality")), 2);
        ck_assert_str_eq(point_value(sum, "signal", "logs"), i == 0 ? "5" : "10");
        ck_assert_str_eq(point_value(sum, "signal", "traces"), "0");
        otlp_meter_advance(meter);
    }
    otlp_meter_free(meter);
}
END_TEST

START_TEST(deltas_count_once_from_one_delivery_to_the_next)
{
    settings.is_delta = true;
    telemetry_add(cells, METRIC_EXPORT_DELIVERED, METRIC_SIGNAL_LOGS,
                  100); /* told by an earlier process, or never */
    struct otlp_meter *meter = otlp_meter_new(&settings, cells, "i");
    ck_assert_ptr_null(metric(meter, DELIVERED));
    telemetry_add(cells, METRIC_EXPORT_DELIVERED, METRIC_SIGNAL_LOGS, 5);
    json_object *sum = at(metric(meter, DELIVERED), "sum");
    ck_assert_int_eq(json_object_get_int64(at(sum, "aggregationTemporality")), 1);
    ck_assert_str_eq(point_value(sum, "signal", "logs"), "5");
    ck_assert_ptr_null(point_value(sum, "signal", "traces"));
    telemetry_add(cells, METRIC_EXPORT_DELIVERED, METRIC_SIGNAL_LOGS, 2); /* that one did not arrive */
    ck_assert_str_eq(point_value(at(metric(meter, DELIVERED), "sum"), "signal", "logs"), "7");
    telemetry_add(cells, METRIC_EXPORT_DELIVERED, METRIC_SIGNAL_LOGS,
                  1); /* this one does; what came meanwhile is next */
    otlp_meter_advance(meter);
    ck_assert_str_eq(point_value(at(metric(meter, DELIVERED), "sum"), "signal", "logs"), "1");
    otlp_meter_advance(meter);
    ck_assert_ptr_null(metric(meter, DELIVERED));
    otlp_meter_free(meter);
}
END_TEST

START_TEST(a_histogram_has_a_bucket_more_than_bounds_and_their_sum_as_count)
{
    struct otlp_meter *meter = otlp_meter_new(&settings, cells, "i");
    telemetry_observe(cells, METRIC_OVERHEAD, 0, 60, 3);
    telemetry_observe(cells, METRIC_OVERHEAD, 0, 5000000, 1);
    json_object *one = metric(meter, "airi.gen_ai.gateway.overhead.duration");
    ck_assert_str_eq(json_object_get_string(at(one, "unit")), "s");
    json_object *point = json_object_array_get_idx(at(at(one, "histogram"), "dataPoints"), 0);
    json_object *bounds = at(point, "explicitBounds"), *counts = at(point, "bucketCounts");
    ck_assert_uint_eq(json_object_array_length(counts), json_object_array_length(bounds) + 1);
    ck_assert_double_eq(json_object_get_double(json_object_array_get_idx(bounds, 0)), 50e-6);
    ck_assert_str_eq(json_object_get_string(json_object_array_get_idx(counts, 1)), "3");
    ck_assert_str_eq(json_object_get_string(at(point, "count")), "4");
    ck_assert_double_eq_tol(json_object_get_double(at(point, "sum")), 5.00018, 1e-9);
    otlp_meter_free(meter);
}
END_TEST

START_TEST(a_gauge_is_in_its_unit_whatever_the_temporality)
{
    settings.is_delta = true;
    struct otlp_meter *meter = otlp_meter_new(&settings, cells, "i");
    telemetry_set(cells, METRIC_SPOOL_LAG, METRIC_SIGNAL_TRACES, 1500000);
    for (int i = 0; i < 2; i++) {
        json_object *gauge = at(metric(meter, "airi.gen_ai.gateway.spool.lag"), "gauge");
        ck_assert_str_eq(point_value(gauge, "signal", "traces"), "1.5");
        otlp_meter_advance(meter);
    }
    otlp_meter_free(meter);
}
END_TEST

START_TEST(a_gauge_is_exported_while_it_is_known)
{
    static const char name[] = "airi.gen_ai.gateway.pool.inflight";
    struct otlp_meter *meter = otlp_meter_new(&settings, cells, "i");
    struct pool_reading reading = { .held = 0, .capacity = 5, .is_known = true };
    for (uint32_t i = 0; i < cells->n_blocks; i++) {
        if (cells->blocks[i].kind == BLOCK_POOL)
            reading.series = cells->blocks[i].cell;
    }
    ck_assert_ptr_null(metric(meter, name));
    telemetry_set_pools(cells, &reading, 1);
    ck_assert_str_eq(point_value(at(metric(meter, name), "gauge"), "app_id", "_other"), "0");
    reading.held = 4;
    telemetry_set_pools(cells, &reading, 1);
    ck_assert_str_eq(point_value(at(metric(meter, name), "gauge"), "app_id", "_other"), "4");
    reading.is_known = false;
    telemetry_set_pools(cells, &reading, 1);
    ck_assert_ptr_null(metric(meter, name));
    otlp_meter_free(meter);
}
END_TEST

START_TEST(every_metric_of_the_program_is_exported)
{
    struct otlp_meter *meter = otlp_meter_new(&settings, cells, "i");
    for (int id = 0; id < METRIC_COUNT; id++) {
        const struct metric *row = metric_row((enum metric_id)id);
        bool is_expected =
            (row->programs & METRIC_OF_ROUTER) != 0 && !row->names_version && !row->may_be_unknown;
        ck_assert_msg((metric(meter, row->name) != NULL) == is_expected, "%s", row->name);
        arena_reset(arena);
    }
    otlp_meter_free(meter);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("otlp_messages");
    TCase *tcase = tcase_create("events");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, names_ids_enums_and_64_bit_numbers_are_written_as_otlp_wants_them);
    tcase_add_test(tcase, the_member_of_a_oneof_stands_also_with_its_default);
    tcase_add_test(tcase, a_histograms_lists_are_strings_and_numbers);
    tcase_add_loop_test(tcase, spans_say_what_the_event_says_in_the_conventions_words, 0,
                        sizeof(told) / sizeof(told[0]));
    tcase_add_loop_test(tcase, what_is_no_sampled_request_has_no_span, 0, sizeof(untold) / sizeof(untold[0]));
    tcase_add_test(tcase, an_attempt_stands_below_its_request_with_an_id_that_its_number_decides);
    tcase_add_loop_test(tcase, attempts_have_their_times, 0, sizeof(times) / sizeof(times[0]));
    tcase_add_test(tcase, attributes_are_cut_between_characters_and_dropped_ones_counted);
    tcase_add_test(tcase, a_write_of_an_administrator_becomes_a_record_and_a_request_does_not);
    suite_add_tcase(suite, tcase);
    TCase *metrics = tcase_create("cells");
    tcase_set_timeout(metrics, 60);
    tcase_add_checked_fixture(metrics, set_up_cells, tear_down_cells);
    tcase_add_test(metrics, cumulative_counters_have_every_series_and_grow);
    tcase_add_test(metrics, deltas_count_once_from_one_delivery_to_the_next);
    tcase_add_test(metrics, a_histogram_has_a_bucket_more_than_bounds_and_their_sum_as_count);
    tcase_add_test(metrics, a_gauge_is_in_its_unit_whatever_the_temporality);
    tcase_add_test(metrics, a_gauge_is_exported_while_it_is_known);
    tcase_add_test(metrics, every_metric_of_the_program_is_exported);
    suite_add_tcase(suite, metrics);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
