#include "core/telemetry/otlp_trace.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/record/trace_context.h"
#include "core/telemetry/otlp_attributes.h"

enum {
    ID_BYTES_MAX = 16,
    FLAG_SAMPLED = 0x1,
    FLAG_HAS_IS_REMOTE = 0x100, /* we know of the parent … */
    FLAG_IS_REMOTE = 0x200,     /* … that it is another process's */
};

#define GATEWAY "airi.gen_ai.gateway."

/* What each endpoint is called by the conventions. "generation" there is ours, as no value for
 * speech is agreed on yet. */
static const struct operation {
    const char *endpoint, *method, *name, *output; /* name NULL: it is none of a model */
} operations[] = {
    { "chat/completions", "POST", "chat", "text" },
    { "audio/speech", "POST", "text_to_speech", "speech" },
    { "audio/transcriptions", "POST", "speech_to_text", "text" },
    { "audio/voices", "GET", NULL, NULL },
    { "voice-packs", "GET", NULL, NULL },
    { "voice-packs/*/snapshot", "POST", NULL, NULL },
    { "models", "GET", NULL, NULL },
};

/* --- members of an event --- */

static json_object *member(json_object *object, const char *name)
{
    json_object *value = NULL;
    json_object_object_get_ex(object, name, &value);
    return value;
}

/* NULL: there is none. */
static const char *text(json_object *object, const char *name)
{
    json_object *value = member(object, name);
    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

static int64_t number(json_object *object, const char *name)
{
    json_object *value = member(object, name);
    return json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : 0;
}

static bool is_true(json_object *object, const char *name)
{
    return json_object_get_boolean(member(object, name));
}

static bool is(const char *a, const char *b)
{
    return a != NULL && strcmp(a, b) == 0;
}

/* --- spans --- */

/* An event on its way to its spans. */
struct telling {
    const struct otlp_settings *settings;
    struct arena *arena;
    json_object *event, *attempts;
    size_t n_attempts;
    const char *model;
    const struct operation *operation; /* NULL: the endpoint is none that we know */
    uint64_t started_us;
};

static int hex_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* An id of exactly `bytes` bytes; false: it is none. */
static bool read_id(const char *hex, size_t bytes, struct arena *arena, ProtobufCBinaryData *out)
{
    uint8_t *id = arena_alloc(arena, ID_BYTES_MAX);
    if (hex == NULL || strlen(hex) != 2 * bytes)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        int high = hex_of(hex[2 * i]), low = hex_of(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        id[i] = (uint8_t)(high * 16 + low);
    }
    *out = (ProtobufCBinaryData){ .len = bytes, .data = id };
    return true;
}

static Otlp__Span *new_span(struct arena *arena)
{
    Otlp__Span *span = arena_new_of(arena, Otlp__Span);
    otlp__span__init(span);
    return span;
}

static void set_times(Otlp__Span *span, uint64_t start_us, uint64_t end_us)
{
    span->start_time_unix_nano = start_us * 1000;
    span->end_time_unix_nano = (end_us > start_us ? end_us : start_us) * 1000;
}

static void set_error(Otlp__Span *span, struct arena *arena)
{
    span->status = arena_new_of(arena, Otlp__Status);
    otlp__status__init(span->status);
    span->status->code = OTLP__STATUS__CODE__STATUS_CODE_ERROR;
}

static void set_attributes(Otlp__Span *span, const struct otlp_attributes *attributes)
{
    span->n_attributes = attributes->n;
    span->attributes = otlp_attributes_list(attributes);
    span->dropped_attributes_count = attributes->n_dropped;
}

static const char *status_text(const struct telling *t, int64_t status)
{
    return arena_printf(t->arena, "%lld", (long long)status);
}

static void add_fallback(const struct telling *t, int64_t depth, struct otlp_attributes *a)
{
    otlp_add_int(a, GATEWAY "fallback.depth", depth);
    if (depth > 0)
        otlp_add_text(a, GATEWAY "fallback.reason", text(t->event, "fallback_reason"));
}

static void add_operation(const struct telling *t, struct otlp_attributes *a)
{
    if (t->operation == NULL || t->operation->name == NULL)
        return;
    otlp_add_text(a, "gen_ai.operation.name", t->operation->name);
    otlp_add_text(a, "gen_ai.output.type", t->operation->output);
}

/* --- the request --- */

/* What the conventions call an error of a server: its own failures, not the caller's. */
static const char *server_error(const struct telling *t)
{
    const char *end = text(t->event, "end");
    int64_t status = number(t->event, "status");

    if (is(end, "worker_died") || is(end, "cut") || is(end, "error_mid"))
        return end;
    return status >= 500 ? status_text(t, status) : NULL;
}

static void add_request(const struct telling *t, struct otlp_attributes *a)
{
    json_object *event = t->event;
    const char *end = text(event, "end");

    otlp_add_text(a, GATEWAY "request.id", text(event, "request_id"));
    otlp_add_text(a, GATEWAY "event.id", text(event, "id"));
    otlp_add_text(a, GATEWAY "end", end);
    otlp_add_text(a, GATEWAY "code", text(event, "code"));
    otlp_add_text(a, GATEWAY "caller.key.id", text(event, "key_id"));
    otlp_add_text(a, GATEWAY "caller.owner", text(event, "owner"));
    otlp_add_text(a, GATEWAY "caller.remote_user", text(event, "remote_user"));
    otlp_add_text(a, "gen_ai.request.model", t->model);
    otlp_add_text(a, GATEWAY "model.routed", text(event, "model_routed"));
    if (member(event, "stream") != NULL) {
        otlp_add_bool(a, "airi.gen_ai.stream", is_true(event, "stream"));
        otlp_add_bool(a, "airi.gen_ai.stream_interrupted", is(end, "cut") || is(end, "error_mid"));
    }
    if (member(event, "fallback_depth") != NULL)
        add_fallback(t, number(event, "fallback_depth"), a);
    otlp_add_text(a, GATEWAY "hedge", text(event, "hedge"));
    if (number(event, "attempts_dropped") > 0)
        otlp_add_int(a, GATEWAY "attempts.dropped", number(event, "attempts_dropped"));
}

static void name_request(const struct telling *t, struct otlp_attributes *a, Otlp__Span *span)
{
    const char *mount = text(t->event, "mount"), *endpoint = text(t->event, "endpoint");
    /* What came in another method is not told: it was refused. */
    bool is_known = t->operation != NULL && number(t->event, "status") != 405;
    const char *method = is_known ? t->operation->method : "HTTP";
    const char *route =
        endpoint == NULL ? NULL : arena_printf(t->arena, "%s/%s", mount == NULL ? "" : mount, endpoint);

    span->name = route == NULL ? (char *)(uintptr_t)method : arena_printf(t->arena, "%s %s", method, route);
    otlp_add_text(a, "http.request.method", is_known ? method : "_OTHER");
    otlp_add_text(a, "http.route", route);
    if (number(t->event, "status") > 0)
        otlp_add_int(a, "http.response.status_code", number(t->event, "status"));
}

static Otlp__Span *tell_request(const struct telling *t, const ProtobufCBinaryData *trace_id)
{
    Otlp__Span *span = new_span(t->arena);
    const char *parent = text(t->event, "parent_span_id"), *error = server_error(t);
    struct otlp_attributes a;

    if (!read_id(text(t->event, "span_id"), 8, t->arena, &span->span_id))
        return NULL;
    span->trace_id = *trace_id;
    span->flags = FLAG_SAMPLED | FLAG_HAS_IS_REMOTE;
    if (parent != NULL && read_id(parent, 8, t->arena, &span->parent_span_id))
        span->flags |= FLAG_IS_REMOTE;
    span->kind = OTLP__SPAN__KIND__SPAN_KIND_SERVER;
    set_times(span, t->started_us, t->started_us + (uint64_t)number(t->event, "total_us"));
    otlp_attributes_begin(&a, t->arena, t->settings->span_value_limit, t->settings->span_count_limit);
    name_request(t, &a, span);
    otlp_add_text(&a, "error.type", error);
    add_operation(t, &a);
    add_request(t, &a);
    set_attributes(span, &a);
    if (error != NULL)
        set_error(span, t->arena);
    return span;
}

/* --- attempts --- */

/* When an attempt was over, from the request's start: it is said where two ran side by side; else the
 * next one begins then, or it has had its last byte. */
static uint64_t attempt_end_us(const struct telling *t, size_t i, json_object *attempt)
{
    uint64_t start = (uint64_t)number(attempt, "start_us"), last = (uint64_t)number(attempt, "last_byte_us");
    json_object *next = json_object_array_get_idx(t->attempts, i + 1);

    if (member(attempt, "took_us") != NULL)
        return start + (uint64_t)number(attempt, "took_us");
    if (next != NULL && number(next, "n") == number(attempt, "n") + 1)
        return (uint64_t)number(next, "start_us");
    if (last > 0 && is(text(attempt, "verdict"), "ok"))
        return start + last;
    return (uint64_t)number(t->event, "total_us");
}

/* The upstream's status where that is the error, else what broke. */
static const char *attempt_error(const struct telling *t, json_object *attempt)
{
    const char *verdict = text(attempt, "verdict"), *reason = text(attempt, "reason");
    int64_t status = number(attempt, "status");

    if (is(verdict, "cancelled"))
        return NULL;
    if (verdict != NULL && !is(verdict, "ok"))
        return status >= 300 ? status_text(t, status) : reason != NULL ? reason : verdict;
    /* It was judged by its beginning, and broke off after that. */
    const char *end = text(t->event, "end");
    return is(end, "cut") || is(end, "error_mid") ? end : NULL;
}

/* What the upstream was asked for. */
static const char *attempt_model(const struct telling *t, json_object *attempt)
{
    const char *model = text(attempt, "model");
    if (model == NULL)
        model = text(t->event, "model_routed");
    return model != NULL ? model : t->model;
}

/* Where it went: of the URL, "scheme://host[:port]/path", else the host alone. */
static void add_address(const struct telling *t, json_object *attempt, struct otlp_attributes *a)
{
    const char *url = text(attempt, "url"), *host = url == NULL ? NULL : strstr(url, "://");

    if (host == NULL) {
        otlp_add_text(a, "server.address", text(attempt, "host"));
        return;
    }
    host += strlen("://");
    size_t len = strcspn(host, "/?#");
    const char *bracket = memchr(host, ']', len);
    size_t name = bracket != NULL ? (size_t)(bracket + 1 - host) : strcspn(host, ":/?#");
    otlp_add_text(a, "server.address", arena_span(t->arena, span_of(host, name)));
    if (name < len && host[name] == ':')
        otlp_add_int(a, "server.port", strtol(host + name + 1, NULL, 10));
    else
        otlp_add_int(a, "server.port", strncmp(url, "https:", 6) == 0 ? 443 : 80);
}

static void add_usage(const struct telling *t, struct otlp_attributes *a)
{
    static const struct {
        const char *member, *attribute;
    } counts[] = {
        { "input", "gen_ai.usage.input_tokens" },
        { "output", "gen_ai.usage.output_tokens" },
        { "cached_read", "gen_ai.usage.cache_read.input_tokens" },
        { "cached_write", "gen_ai.usage.cache_creation.input_tokens" },
        { "reasoning", "gen_ai.usage.reasoning.output_tokens" },
        { "characters", GATEWAY "usage.characters" },
        { "audio_ms", GATEWAY "usage.audio_ms" },
    };
    json_object *usage = member(t->event, "usage");

    for (size_t i = 0; usage != NULL && i < sizeof(counts) / sizeof(counts[0]); i++)
        if (member(usage, counts[i].member) != NULL)
            otlp_add_int(a, counts[i].attribute, number(usage, counts[i].member));
    if (usage != NULL)
        otlp_add_text(a, GATEWAY "usage.source", text(usage, "source"));
}

/* What the attempt that served brought. */
static void add_response(const struct telling *t, json_object *attempt, struct otlp_attributes *a)
{
    otlp_add_text(a, "gen_ai.response.model", text(t->event, "response_model"));
    otlp_add_text_list(a, "gen_ai.response.finish_reasons", text(t->event, "finish_reason"));
    if (number(attempt, "first_content_us") > 0)
        otlp_add_double(a, "gen_ai.response.time_to_first_chunk",
                        (double)number(attempt, "first_content_us") / 1e6);
    add_usage(t, a);
}

/* All before it, unless it was begun beside one of them that ran. */
static int64_t failed_before(json_object *attempt)
{
    int64_t before = number(attempt, "n") - (is_true(attempt, "hedged") ? 2 : 1);
    return before > 0 ? before : 0;
}

static void add_attempt(const struct telling *t, json_object *attempt, struct otlp_attributes *a)
{
    const char *provider = text(attempt, "provider");
    int64_t n = number(attempt, "n");

    add_operation(t, a);
    otlp_add_text(a, "gen_ai.provider.name", provider != NULL ? provider : text(attempt, "host"));
    otlp_add_text(a, "gen_ai.request.model", attempt_model(t, attempt));
    otlp_add_text(a, GATEWAY "supplier.model", text(attempt, "supplier_model"));
    if (member(t->event, "stream") != NULL)
        otlp_add_bool(a, "gen_ai.request.stream", is_true(t->event, "stream"));
    add_address(t, attempt, a);
    otlp_add_text(a, GATEWAY "upstream.id", text(attempt, "upstream"));
    otlp_add_text(a, GATEWAY "upstream.url", text(attempt, "url"));
    if (member(attempt, "upstream_index") != NULL)
        otlp_add_int(a, GATEWAY "upstream.index", number(attempt, "upstream_index"));
    otlp_add_text(a, GATEWAY "key.id", text(attempt, "key_fp"));
    otlp_add_text(a, GATEWAY "verdict", text(attempt, "verdict"));
    otlp_add_text(a, GATEWAY "reason", text(attempt, "reason"));
    otlp_add_text(a, GATEWAY "provider.code", text(attempt, "provider_code"));
    if (is_true(attempt, "hedged"))
        otlp_add_bool(a, GATEWAY "hedged", true);
    add_fallback(t, failed_before(attempt), a);
    if (n > 1)
        otlp_add_int(a, "http.request.resend_count", n - 1);
    if (number(attempt, "status") > 0)
        otlp_add_int(a, "http.response.status_code", number(attempt, "status"));
}

/* Whether it is the one that decided how the request ended: the last, unless it is said. */
static bool has_decided(const struct telling *t, size_t i)
{
    for (size_t k = 0; k < t->n_attempts; k++) {
        if (is_true(json_object_array_get_idx(t->attempts, k), "decided"))
            return k == i;
    }
    return i + 1 == t->n_attempts;
}

static Otlp__Span *tell_attempt(const struct telling *t, const Otlp__Span *server, size_t i)
{
    json_object *attempt = json_object_array_get_idx(t->attempts, i);
    const char *model = attempt_model(t, attempt), *error = attempt_error(t, attempt);
    Otlp__Span *span = new_span(t->arena);
    struct otlp_attributes a;
    char id[SPAN_ID_TEXT_BYTES];

    trace_attempt_span_id(text(t->event, "span_id"), (unsigned)number(attempt, "n"), id);
    read_id(id, 8, t->arena, &span->span_id);
    span->trace_id = server->trace_id;
    span->parent_span_id = server->span_id;
    span->flags = FLAG_SAMPLED | FLAG_HAS_IS_REMOTE;
    span->kind = OTLP__SPAN__KIND__SPAN_KIND_CLIENT;
    span->name =
        arena_printf(t->arena, "%s %s",
                     t->operation != NULL && t->operation->name != NULL ? t->operation->name : "request",
                     model != NULL      ? model
                     : t->model != NULL ? t->model
                                        : "");
    set_times(span, t->started_us + (uint64_t)number(attempt, "start_us"),
              t->started_us + attempt_end_us(t, i, attempt));
    otlp_attributes_begin(&a, t->arena, t->settings->span_value_limit, t->settings->span_count_limit);
    otlp_add_text(&a, "error.type", error);
    add_attempt(t, attempt, &a);
    if (has_decided(t, i) && (is(text(attempt, "verdict"), "ok") || is_true(t->event, "committed")))
        add_response(t, attempt, &a);
    set_attributes(span, &a);
    if (error != NULL)
        set_error(span, t->arena);
    return span;
}

/* --- events --- */

static const struct operation *find_operation(const char *endpoint)
{
    for (size_t i = 0; endpoint != NULL && i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strcmp(operations[i].endpoint, endpoint) == 0)
            return &operations[i];
    return NULL;
}

/* Puts the spans of one event behind those there are. */
static void tell(const struct otlp_settings *settings, json_object *event, struct arena *arena,
                 Otlp__ScopeSpans *spans)
{
    struct telling t = {
        .settings = settings,
        .arena = arena,
        .event = event,
        .attempts = member(event, "attempts"),
        .model = text(event, "model"),
        .operation = find_operation(text(event, "endpoint")),
        .started_us = (uint64_t)number(event, "time"),
    };
    ProtobufCBinaryData trace_id;

    if (!is_true(event, "sampled") || !read_id(text(event, "trace_id"), 16, arena, &trace_id))
        return;
    if (t.model == NULL)
        t.model = text(event, "model_routed");
    if (json_object_is_type(t.attempts, json_type_array))
        t.n_attempts = json_object_array_length(t.attempts);
    Otlp__Span *server = tell_request(&t, &trace_id);
    if (server == NULL)
        return;
    spans->spans[spans->n_spans++] = server;
    for (size_t i = 0; i < t.n_attempts; i++)
        spans->spans[spans->n_spans++] = tell_attempt(&t, server, i);
}

static size_t count_spans(json_object *event)
{
    json_object *attempts = member(event, "attempts");
    return 1 + (json_object_is_type(attempts, json_type_array) ? json_object_array_length(attempts) : 0);
}

static json_object *parse(struct json_tokener *tokener, struct span line)
{
    json_tokener_reset(tokener);
    json_object *event = json_tokener_parse_ex(tokener, line.ptr, (int)line.len);
    return event;
}

static void free_event(void *event)
{
    json_object_put(event);
}

Otlp__TraceRequest *otlp_trace_request(const struct otlp_settings *settings, const char *instance,
                                       const struct span *lines, size_t n, struct arena *arena)
{
    struct json_tokener *tokener = json_tokener_new();
    json_object **events = arena_array_of(arena, json_object *, n);
    Otlp__ScopeSpans *scope = arena_new_of(arena, Otlp__ScopeSpans);
    Otlp__ResourceSpans *resource = arena_new_of(arena, Otlp__ResourceSpans);
    Otlp__TraceRequest *request = arena_new_of(arena, Otlp__TraceRequest);
    size_t room = 0;

    for (size_t i = 0; i < n; i++) {
        events[i] = parse(tokener, lines[i]);
        arena_on_reset(arena, free_event, events[i]); /* texts of spans are the event's */
        room += count_spans(events[i]);
    }
    json_tokener_free(tokener);
    otlp__scope_spans__init(scope);
    scope->scope = &otlp_scope;
    scope->spans = arena_array_of(arena, Otlp__Span *, room);
    for (size_t i = 0; i < n; i++)
        tell(settings, events[i], arena, scope);
    if (scope->n_spans == 0)
        return NULL;
    otlp__resource_spans__init(resource);
    resource->resource = otlp_resource(settings, instance, arena);
    resource->schema_url = (char *)(uintptr_t)OTLP_SCHEMA_URL;
    resource->n_scope_spans = 1;
    resource->scope_spans = arena_array_of(arena, Otlp__ScopeSpans *, 1);
    resource->scope_spans[0] = scope;
    otlp__trace_request__init(request);
    request->n_resource_spans = 1;
    request->resource_spans = arena_array_of(arena, Otlp__ResourceSpans *, 1);
    request->resource_spans[0] = resource;
    return request;
}
