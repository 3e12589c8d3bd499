/* Requests of the chat dialect: OpenAI's POST /chat/completions. */
#include "core/dialect/chat.h"

#include <pthread.h>

#include "core/base/err.h"
#include "core/dialect/body_internal.h"

enum { WANT_BODY, WANT_MODEL, WANT_STREAM, WANT_OPTIONS, WANT_USAGE, WANT_MEMBER, N_WANTS };

static const struct json_want wants[N_WANTS] = {
    [WANT_BODY] = { "", false },
    [WANT_MODEL] = { "model", true },
    [WANT_STREAM] = { "stream", true },
    [WANT_OPTIONS] = { "stream_options", true },
    [WANT_USAGE] = { "stream_options.include_usage", true },
    [WANT_MEMBER] = { "*", false },
};

static pthread_once_t paths_once = PTHREAD_ONCE_INIT;
static struct json_paths paths;

static void take_paths_apart(void)
{
    json_paths_init(&paths, wants, N_WANTS);
}

struct reading {
    struct json_value found[N_WANTS];
    struct arena *arena;
    bool has_rival;
    size_t rival_offset;
};

static int on_value(void *ctx, const struct json_value *value)
{
    struct reading *reading = ctx;
    reading->found[value->path] = *value;
    if (value->path == WANT_MEMBER && body_is_rival(value->key, reading->arena)) {
        reading->has_rival = true;
        reading->rival_offset = value->key_offset;
    }
    return 0;
}

int chat_read_request(struct span body, struct span type, struct arena *arena, struct request_facts *facts,
                      struct request_fault *fault)
{
    struct reading reading = { .arena = arena }; /* zero is JSON_KIND_ABSENT */
    const struct json_value *found = reading.found;
    struct json_fault syntax = { 0 };

    (void)type;
    (void)pthread_once(&paths_once, take_paths_apart);
    int r = json_scan_paths(body, &paths, 0, on_value, &reading, &syntax);
    if (r != 0)
        return body_refuse_text(fault, r, &syntax, arena);
    if (found[WANT_BODY].kind != JSON_KIND_OBJECT)
        return body_refuse(fault, NULL, "The body must be a JSON object.");
    if (reading.has_rival)
        return body_refuse_rival(fault, reading.rival_offset, arena);

    const struct json_value *model = &found[WANT_MODEL];
    const struct json_value *stream = &found[WANT_STREAM];
    const struct json_value *options = &found[WANT_OPTIONS];
    const struct json_value *usage = &found[WANT_USAGE];

    if (model->kind != JSON_KIND_ABSENT && model->kind != JSON_KIND_NULL && model->kind != JSON_KIND_STRING)
        return body_refuse(fault, "model", "`model` must be a string.");
    if (stream->kind > JSON_KIND_TRUE)
        return body_refuse(fault, "stream", "`stream` must be a boolean.");
    if (options->kind != JSON_KIND_ABSENT && options->kind != JSON_KIND_NULL &&
        options->kind != JSON_KIND_OBJECT)
        return body_refuse(fault, "stream_options", "`stream_options` must be an object.");
    if (usage->kind > JSON_KIND_TRUE)
        return body_refuse(fault, "stream_options.include_usage",
                           "`stream_options.include_usage` must be a boolean.");

    *facts = (struct request_facts){
        .body = body,
        .content_type = "application/json",
        .model_value = *model,
        .stream_options = *options,
        .include_usage = *usage,
        .is_stream = stream->kind == JSON_KIND_TRUE,
        .wants_usage = stream->kind == JSON_KIND_TRUE && usage->kind == JSON_KIND_TRUE,
    };
    if (model->kind == JSON_KIND_STRING)
        facts->model = json_decode(arena, model->raw);
    return 0;
}

static int ask_usage(const struct request_facts *facts, struct arena *arena, struct splice *out)
{
    const struct json_value *options = &facts->stream_options;
    const struct json_value *usage = &facts->include_usage;

    if (!facts->is_stream || facts->wants_usage)
        return 0;
    if (usage->kind != JSON_KIND_ABSENT)
        return splice_add(out, usage->offset, usage->raw.len, span_cstr("true"));
    if (options->kind == JSON_KIND_OBJECT)
        return body_insert_member(facts->body, options->offset, "\"include_usage\":true", arena, out);
    if (options->kind == JSON_KIND_NULL)
        return splice_add(out, options->offset, options->raw.len, span_cstr("{\"include_usage\":true}"));
    return body_insert_member(facts->body, body_first_brace(facts->body),
                              "\"stream_options\":{\"include_usage\":true}", arena, out);
}

int chat_splice_request(const struct request_facts *facts, struct span model, bool asks_usage,
                        struct arena *arena, struct splice *out)
{
    splice_init(out, facts->body);
    int r = asks_usage ? ask_usage(facts, arena, out) : 0;
    if (r != 0)
        return r;
    return body_splice_text(facts->body, "model", &facts->model_value, model, arena, out);
}

/* --- an estimate of what the model reads --- */

enum { TEXT_CONTENT, TEXT_PART, TEXT_REFUSAL, TEXT_CALL, TEXT_TOOLS, N_TEXTS };

static const struct json_want texts[N_TEXTS] = {
    [TEXT_CONTENT] = { "messages.*.content", false },
    [TEXT_PART] = { "messages.*.content.*.text", false },
    [TEXT_REFUSAL] = { "messages.*.refusal", false },
    [TEXT_CALL] = { "messages.*.tool_calls.*.function.*", false },
    [TEXT_TOOLS] = { "tools", false },
};

static int add_text(void *ctx, const struct json_value *value)
{
    uint64_t *quarters = ctx;
    if (value->kind == JSON_KIND_STRING || (value->path == TEXT_TOOLS && value->kind == JSON_KIND_ARRAY))
        *quarters += usage_estimate_text(span_of(value->raw.ptr + 1, value->raw.len - 2));
    return 0;
}

uint64_t chat_estimate_request(const struct request_facts *facts)
{
    uint64_t quarters = 0;
    return json_scan(facts->body, texts, N_TEXTS, 0, add_text, &quarters, NULL) == 0 ? quarters : 0;
}
