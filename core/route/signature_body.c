#include "core/route/signature_body.h"

#include <string.h>

#include "core/json/scan.h"

/* What a value means that stands at a path, besides a token of a field. */
enum role {
    ROLE_TOKEN,
    ROLE_PRESENCE, /* a token of FIELD_MEMBER: its path */
    ROLE_MESSAGE,
    ROLE_STATUS,
    ROLE_INNER,
    ROLE_RETRY_DELAY,
    ROLE_RESET_MS,
};

struct path_row {
    const char *path;
    enum role role;
    enum signature_field field;
};

/*
 * Where providers put what. Never listed: failed_generation, flagged_input's
 * text, detail[].input: they quote the caller or the model. Of two messages
 * the one listed first counts.
 */
static const struct path_row nested_paths[] = {
    { "error.message", ROLE_MESSAGE, FIELD_ANY },
    { "error", ROLE_MESSAGE, FIELD_ANY }, /* a string: xAI, vLLM, Ollama */
    { "error.code", ROLE_TOKEN, FIELD_CODE },
    { "error.type", ROLE_TOKEN, FIELD_TYPE },
    { "error.status", ROLE_TOKEN, FIELD_STATUS },
    { "error.param", ROLE_TOKEN, FIELD_PARAM },
    { "error.http_code", ROLE_STATUS, FIELD_ANY },
    { "error.details.*.reason", ROLE_TOKEN, FIELD_REASON },
    { "error.details.*.violations.*.quotaId", ROLE_TOKEN, FIELD_REASON },
    { "error.details.*.retryDelay", ROLE_RETRY_DELAY, FIELD_ANY },
    { "error.details.error_code", ROLE_TOKEN, FIELD_REASON },
    { "error.innererror.code", ROLE_TOKEN, FIELD_REASON },
    { "error.metadata.limit_source", ROLE_TOKEN, FIELD_REASON },
    { "error.metadata.error_type", ROLE_TOKEN, FIELD_REASON },
    { "error.metadata.provider_name", ROLE_PRESENCE, FIELD_MEMBER },
    { "error.metadata.reasons.*", ROLE_PRESENCE, FIELD_MEMBER },
    { "error.metadata.flagged_input", ROLE_PRESENCE, FIELD_MEMBER },
    { "error.metadata.patterns.*", ROLE_PRESENCE, FIELD_MEMBER },
    { "error.metadata.raw.data", ROLE_INNER, FIELD_ANY },
    { "error.metadata.raw", ROLE_INNER, FIELD_ANY },
    { "error.metadata.headers.X-RateLimit-Reset", ROLE_RESET_MS, FIELD_ANY },
    { "errors.*.message", ROLE_MESSAGE, FIELD_ANY },
    { "errors.*.code", ROLE_TOKEN, FIELD_CODE },
    { "Response.Error.Code", ROLE_TOKEN, FIELD_CODE },
    { "Response.Error.Message", ROLE_MESSAGE, FIELD_ANY },
    { "response.error.code", ROLE_TOKEN, FIELD_CODE },
    { "response.error.message", ROLE_MESSAGE, FIELD_ANY },
    { "x_groq.error", ROLE_MESSAGE, FIELD_ANY },
    { "choices.*.finish_reason", ROLE_TOKEN, FIELD_FINISH },
};

/* The same without an `error` around it. */
static const struct path_row flat_paths[] = {
    { "base_resp.status_code", ROLE_PRESENCE, FIELD_MEMBER },
    { "base_resp.status_code", ROLE_TOKEN, FIELD_CODE },
    { "base_resp.status_msg", ROLE_MESSAGE, FIELD_ANY },
    { "message", ROLE_MESSAGE, FIELD_ANY },
    { "Message", ROLE_MESSAGE, FIELD_ANY }, /* AWS */
    { "msg", ROLE_MESSAGE, FIELD_ANY },
    { "error_msg", ROLE_MESSAGE, FIELD_ANY },
    { "detail", ROLE_MESSAGE, FIELD_ANY },
    { "detail.message", ROLE_MESSAGE, FIELD_ANY },
    { "detail.*.msg", ROLE_MESSAGE, FIELD_ANY },
    { "message.detail.*.msg", ROLE_MESSAGE, FIELD_ANY },
    { "title", ROLE_MESSAGE, FIELD_ANY },
    { "code", ROLE_TOKEN, FIELD_CODE },
    { "error_code", ROLE_TOKEN, FIELD_CODE },
    { "status", ROLE_TOKEN, FIELD_STATUS },
    { "type", ROLE_TOKEN, FIELD_TYPE },
    { "__type", ROLE_TOKEN, FIELD_TYPE },
    { "param", ROLE_TOKEN, FIELD_PARAM },
    { "raw_status_code", ROLE_STATUS, FIELD_ANY },
    { "detail.code", ROLE_TOKEN, FIELD_CODE },
    { "detail.*.type", ROLE_TOKEN, FIELD_TYPE },
    { "detail.*.loc.*", ROLE_TOKEN, FIELD_LOC },
    { "message.detail.*.type", ROLE_TOKEN, FIELD_TYPE },
    { "message.detail.*.loc.*", ROLE_TOKEN, FIELD_LOC },
    { "cloudflare_error", ROLE_PRESENCE, FIELD_MEMBER },
};

struct reading {
    const struct path_row *rows;
    struct arena *arena;
    struct signature_body *body;
    unsigned message_rank; /* position of its path; what is found later must be lower */
    unsigned inner_rank;
};

void signature_body_add(struct signature_body *body, enum signature_field field, struct span text)
{
    text = span_trim(text);
    /* Python's gateways write absent members as these words. */
    if (text.len == 0 || body->n_tokens == SIGNATURE_TOKENS_MAX || span_is(text, "None") ||
        span_is(text, "null"))
        return;
    body->tokens[body->n_tokens++] = (struct signature_token){ field, text };
}

static void note_status(struct signature_body *body, struct span digits)
{
    if (body->status != 0 || digits.len != 3)
        return;
    int status = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
            return;
        status = status * 10 + (digits.ptr[i] - '0');
    }
    if (status >= 300 && status <= 599)
        body->status = status;
}

static void note_message(struct reading *reading, unsigned rank, struct span text)
{
    if (span_trim(text).len == 0 || rank >= reading->message_rank)
        return;
    reading->message_rank = rank;
    reading->body->message = text;
}

static void note_inner(struct reading *reading, unsigned rank, struct span text)
{
    if (text.len == 0 || rank >= reading->inner_rank)
        return;
    reading->inner_rank = rank;
    reading->body->inner = text;
}

static int on_value(void *ctx, const struct json_value *value)
{
    struct reading *reading = ctx;
    struct signature_body *body = reading->body;
    const struct path_row *row = &reading->rows[value->path];
    bool is_text = value->kind == JSON_KIND_STRING;
    bool is_scalar = is_text || value->kind == JSON_KIND_NUMBER;

    if (row->role == ROLE_PRESENCE && value->kind != JSON_KIND_NULL)
        signature_body_add(body, row->field, span_cstr(row->path));
    else if (row->role == ROLE_INNER && value->kind == JSON_KIND_OBJECT)
        note_inner(reading, value->path, value->raw);
    if (!is_scalar || row->role == ROLE_PRESENCE)
        return 0;

    struct span text = is_text ? json_decode(reading->arena, value->raw) : value->raw;
    switch (row->role) {
    case ROLE_TOKEN:
        signature_body_add(body, row->field, text);
        if (row->field == FIELD_CODE || row->field == FIELD_STATUS)
            note_status(body, text);
        break;
    case ROLE_MESSAGE:
        if (is_text)
            note_message(reading, value->path, text);
        break;
    case ROLE_STATUS:
        note_status(body, text);
        break;
    case ROLE_INNER:
        if (is_text)
            note_inner(reading, value->path, text);
        break;
    case ROLE_RETRY_DELAY:
        body->retry_delay = text;
        break;
    case ROLE_RESET_MS:
        body->reset_ms = text;
        break;
    case ROLE_PRESENCE:
        break;
    }
    return 0;
}

static void read_paths(struct span json, const struct path_row *rows, size_t n_rows, struct arena *arena,
                       struct signature_body *body)
{
    struct json_want wants[JSON_WANTS_MAX];
    struct reading reading = { rows, arena, body, JSON_WANTS_MAX, JSON_WANTS_MAX };
    for (size_t i = 0; i < n_rows; i++)
        wants[i] = (struct json_want){ rows[i].path, false };
    /* What was read before a fault counts: bodies are cut, or followed by other bytes. */
    (void)json_scan(json, wants, n_rows, JSON_SCAN_CUT, on_value, &reading, NULL);
}

static void read_object(struct span json, struct arena *arena, struct signature_body *body)
{
    struct signature_body flat = { .is_html = false };
    _Static_assert(sizeof(nested_paths) / sizeof(nested_paths[0]) <= JSON_WANTS_MAX, "one scan");
    _Static_assert(sizeof(flat_paths) / sizeof(flat_paths[0]) <= JSON_WANTS_MAX, "one scan");

    read_paths(json, nested_paths, sizeof(nested_paths) / sizeof(nested_paths[0]), arena, body);
    read_paths(json, flat_paths, sizeof(flat_paths) / sizeof(flat_paths[0]), arena, &flat);
    for (size_t i = 0; i < flat.n_tokens; i++)
        signature_body_add(body, flat.tokens[i].field, flat.tokens[i].text);
    if (body->message.len == 0)
        body->message = flat.message;
    if (body->status == 0)
        body->status = flat.status;
}

/* The text between the end of `before` and the next `after`, or to the end. */
static struct span text_between(struct span text, const char *before, const char *after)
{
    const char *start = text.len == 0 ? NULL : memmem(text.ptr, text.len, before, strlen(before));
    if (start == NULL)
        return span_of(NULL, 0);
    start += strlen(before);
    size_t rest = (size_t)(text.ptr + text.len - start);
    const char *end = memmem(start, rest, after, strlen(after));
    return span_of(start, end == NULL ? rest : (size_t)(end - start));
}

/* Cloudflare names its own errors by a number, in a page or in one line of text. */
static void read_edge_number(struct span text, struct signature_body *body)
{
    static const char *const marks[] = { "cf-error-code\">", "error code: " };
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        struct span number = text_between(text, marks[i], "<");
        size_t digits = 0;
        while (digits < number.len && number.ptr[digits] >= '0' && number.ptr[digits] <= '9')
            digits++;
        if (digits != 4)
            continue;
        signature_body_add(body, FIELD_CODE, span_of(number.ptr, digits));
        signature_body_add(body, FIELD_MEMBER, span_cstr("cloudflare_error"));
        return;
    }
}

/* Tokens that only the message carries: "litellm.CLASS: …" and "… (1008)". */
static void read_message_tokens(struct signature_body *body)
{
    struct span message = span_trim(body->message);
    if (span_starts(message, "litellm.")) {
        struct span class = text_between(message, "litellm.", ":");
        if (class.len < message.len - strlen("litellm."))
            signature_body_add(body, FIELD_CLASS, class);
    }
    if (message.len > 2 && message.ptr[message.len - 1] == ')') {
        size_t start = message.len - 1;
        while (start > 0 && message.ptr[start - 1] >= '0' && message.ptr[start - 1] <= '9')
            start--;
        if (start > 0 && message.ptr[start - 1] == '(')
            signature_body_add(body, FIELD_CLASS, span_of(message.ptr + start, message.len - 1 - start));
    }
}

/*
 * Another error body inside the message. Only where the message is nothing
 * else, or LiteLLM wrapped it: further in, it may be the caller's own JSON that
 * a validator quotes.
 */
static void find_inner(struct signature_body *body)
{
    struct span message = span_trim(body->message);
    if (body->inner.len > 0 || message.len == 0)
        return;
    if (message.ptr[0] == '{' || message.ptr[0] == '[') {
        body->inner = message;
    } else if (span_starts(message, "litellm.")) {
        const char *brace = memchr(message.ptr, '{', message.len);
        if (brace != NULL)
            body->inner = span_of(brace, (size_t)(message.ptr + message.len - brace));
    }
}

/* Some providers answer a failure as an event stream: its first data line. */
static struct span skip_event_framing(struct span text)
{
    if (!span_starts(text, "event:") && !span_starts(text, "data:"))
        return text;
    struct span data = text_between(text, "data:", "\n\n");
    return data.len == 0 ? text : span_trim(data);
}

/* A body that is one JSON string: its text; cut or malformed, its bytes. */
static struct span read_string(struct span json, struct arena *arena)
{
    struct json_value value;
    const struct json_want whole = { "", false };
    if (json_find(json, &whole, 1, 0, &value, NULL) != 0 || value.kind != JSON_KIND_STRING)
        return json;
    return json_decode(arena, value.raw);
}

void signature_body_read(struct span body, struct arena *arena, struct signature_body *out)
{
    struct span text = span_trim(body);
    *out = (struct signature_body){ .is_html = false };
    if (span_starts(text, "\xEF\xBB\xBF"))
        text = span_trim(span_of(text.ptr + 3, text.len - 3));
    text = skip_event_framing(text);
    if (text.len > 0 && text.ptr[0] == '[')
        text = span_trim(span_of(text.ptr + 1, text.len - 1)); /* Gemini: the object is element 0 */
    if (text.len == 0)
        return;

    switch (text.ptr[0]) {
    case '<':
        out->is_html = true;
        out->message = span_trim(text_between(text, "<title>", "<"));
        read_edge_number(text, out);
        return;
    case '{':
        read_object(text, arena, out);
        break;
    case '"':
        out->message = read_string(text, arena);
        break;
    default:
        out->message = text;
        read_edge_number(text, out);
        break;
    }
    out->text = signature_text(out->message, arena);
    read_message_tokens(out);
    find_inner(out);
}
