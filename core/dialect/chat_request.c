/* Requests of the chat dialect: OpenAI's POST /chat/completions. */
#include "core/dialect/chat.h"

#include "core/base/err.h"
#include "core/json/writer.h"

enum { WANT_BODY, WANT_MODEL, WANT_STREAM, WANT_OPTIONS, WANT_USAGE, WANT_MEMBER, N_WANTS };

static const struct json_want wants[N_WANTS] = {
    [WANT_BODY] = { "", false },
    [WANT_MODEL] = { "model", true },
    [WANT_STREAM] = { "stream", true },
    [WANT_OPTIONS] = { "stream_options", true },
    [WANT_USAGE] = { "stream_options.include_usage", true },
    [WANT_MEMBER] = { "*", false },
};

struct reading {
    struct json_value found[N_WANTS];
    struct arena *arena;
    bool has_rival;
    size_t rival_offset;
};

/* Go's decoder, and with it many a gateway and server, takes a name in any case for
 * the one it knows, and the last one wins: "Model" could name another model there
 * than the one that was looked up, allowed to this caller and spliced here. */
static bool is_rival(struct span name, struct arena *arena)
{
    if (name.len > 0 && memchr(name.ptr, '\\', name.len) != NULL)
        name = json_decode(arena, span_of(name.ptr - 1, name.len + 2));
    return span_is_nocase(name, "model") && !span_is(name, "model");
}

static int on_value(void *ctx, const struct json_value *value)
{
    struct reading *reading = ctx;
    reading->found[value->path] = *value;
    if (value->path == WANT_MEMBER && is_rival(value->key, reading->arena)) {
        reading->has_rival = true;
        reading->rival_offset = value->key_offset;
    }
    return 0;
}

static int refuse(struct request_fault *fault, const char *param, const char *message)
{
    *fault = (struct request_fault){ .message = message, .param = param };
    return ERR_FORMAT;
}

/* A repeated member and too deep a nesting are JSON, but nothing that can be read in one way only. */
static int refuse_text(struct request_fault *fault, int code, const struct json_fault *syntax,
                       struct arena *arena)
{
    const char *problem = code == ERR_FORMAT ? "is not valid JSON" : "cannot be used";
    *fault = (struct request_fault){
        .message = arena_printf(arena, "The body %s: %s at byte %zu.", problem, syntax->what, syntax->offset),
        .is_syntax = code == ERR_FORMAT,
    };
    return ERR_FORMAT;
}

int chat_read_request(struct span body, struct arena *arena, struct request_facts *facts,
                      struct request_fault *fault)
{
    struct reading reading = { .arena = arena }; /* zero is JSON_KIND_ABSENT */
    const struct json_value *found = reading.found;
    struct json_fault syntax = { 0 };

    int r = json_scan(body, wants, N_WANTS, 0, on_value, &reading, &syntax);
    if (r != 0)
        return refuse_text(fault, r, &syntax, arena);
    if (found[WANT_BODY].kind != JSON_KIND_OBJECT)
        return refuse(fault, NULL, "The body must be a JSON object.");
    if (reading.has_rival)
        return refuse(fault, "model",
                      arena_printf(arena,
                                   "The body cannot be used: a member that differs from `model` in its case "
                                   "only, at byte %zu.",
                                   reading.rival_offset));

    const struct json_value *model = &found[WANT_MODEL];
    const struct json_value *stream = &found[WANT_STREAM];
    const struct json_value *options = &found[WANT_OPTIONS];
    const struct json_value *usage = &found[WANT_USAGE];

    if (model->kind != JSON_KIND_ABSENT && model->kind != JSON_KIND_NULL && model->kind != JSON_KIND_STRING)
        return refuse(fault, "model", "`model` must be a string.");
    if (stream->kind > JSON_KIND_TRUE)
        return refuse(fault, "stream", "`stream` must be a boolean.");
    if (options->kind != JSON_KIND_ABSENT && options->kind != JSON_KIND_NULL &&
        options->kind != JSON_KIND_OBJECT)
        return refuse(fault, "stream_options", "`stream_options` must be an object.");
    if (usage->kind > JSON_KIND_TRUE)
        return refuse(fault, "stream_options.include_usage",
                      "`stream_options.include_usage` must be a boolean.");

    *facts = (struct request_facts){
        .body = body,
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

/* `member` becomes a member of the object whose "{" stands at `brace`. */
static int insert_member(const struct request_facts *facts, size_t brace, const char *member,
                         struct arena *arena, struct splice *out)
{
    size_t next = brace + 1;
    while (next < facts->body.len && strchr(" \t\r\n", facts->body.ptr[next]) != NULL)
        next++;
    const char *comma = facts->body.ptr[next] == '}' ? "" : ",";
    return splice_add(out, brace + 1, 0, span_cstr(arena_printf(arena, "%s%s", member, comma)));
}

static const char *quoted(struct arena *arena, struct span text)
{
    struct buf buf;
    struct json_writer w;
    buf_init(&buf, text.len * 6 + 2);
    jw_init(&w, &buf);
    jw_string(&w, text);
    const char *copy = arena_span(arena, buf_span(&buf));
    buf_free(&buf);
    return copy;
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
        return insert_member(facts, options->offset, "\"include_usage\":true", arena, out);
    if (options->kind == JSON_KIND_NULL)
        return splice_add(out, options->offset, options->raw.len, span_cstr("{\"include_usage\":true}"));
    return insert_member(facts, (size_t)(span_trim(facts->body).ptr - facts->body.ptr),
                         "\"stream_options\":{\"include_usage\":true}", arena, out);
}

int chat_splice_request(const struct request_facts *facts, struct span model, bool asks_usage,
                        struct arena *arena, struct splice *out)
{
    splice_init(out, facts->body);
    int r = asks_usage ? ask_usage(facts, arena, out) : 0;
    if (r != 0)
        return r;
    const char *name = quoted(arena, model);
    if (facts->model_value.kind != JSON_KIND_ABSENT) {
        if (facts->model_value.kind == JSON_KIND_STRING && span_eq(facts->model, model))
            return 0; /* as the caller wrote it */
        return splice_add(out, facts->model_value.offset, facts->model_value.raw.len, span_cstr(name));
    }
    return insert_member(facts, (size_t)(span_trim(facts->body).ptr - facts->body.ptr),
                         arena_printf(arena, "\"model\":%s", name), arena, out);
}
