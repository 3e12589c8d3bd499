/*
 * Replies of the chat dialect: OpenAI's chat.completion and
 * chat.completion.chunk, and what compatible providers make of them.
 */
#include "core/dialect/chat.h"

#include <pthread.h>

#include "core/dialect/body_internal.h"
#include "core/json/writer.h"

const struct dialect dialect_chat = {
    .name = "chat",
    .endpoint = "chat/completions",
    .media_type = "application/json",
    .stream_type = "text/event-stream",
    .terminal_mark = "data: [DONE]\n\n",
    .heartbeat = ": heartbeat\n\n",
    .read_request = chat_read_request,
    .splice_request = chat_splice_request,
    .estimate_request = chat_estimate_request,
    .judge_event = chat_judge_event,
    .is_finished = chat_is_finished,
    .judge_plain = chat_judge_plain,
    .read_tail = chat_read_tail,
    .write_error_event = chat_write_error_event,
    .write_refusal_event = chat_write_refusal_event,
};

enum {
    WANT_WHOLE,
    WANT_ERROR,
    WANT_CHOICES,
    WANT_CHOICE_MEMBER,
    WANT_DELTA_MEMBER,
    WANT_CALL,
    WANT_CHOICE,
    WANT_CHOICE_USAGE,
    WANT_USAGE,
    WANT_GROQ_USAGE,
    WANT_GROQ_ERROR,
    WANT_TYPE,
    WANT_OBJECT,
    WANT_CODE,
    WANT_MESSAGE,
    WANT_ERROR_CODE,
    WANT_BASE_STATUS,
    WANT_TENCENT_ERROR,
    WANT_MODEL,
    N_WANTS,
};

static const struct json_want wants[N_WANTS] = {
    [WANT_WHOLE] = { "", false },
    [WANT_ERROR] = { "error", false },
    [WANT_CHOICES] = { "choices", false },
    [WANT_CHOICE_MEMBER] = { "choices.*.*", false },
    [WANT_DELTA_MEMBER] = { "choices.*.delta.*", false },
    [WANT_CALL] = { "choices.*.delta.tool_calls.*.function.*", false },
    [WANT_CHOICE] = { "choices.*", false },
    [WANT_CHOICE_USAGE] = { "choices.*.usage", false },
    [WANT_USAGE] = { "usage", false },
    [WANT_GROQ_USAGE] = { "x_groq.usage", false },
    [WANT_GROQ_ERROR] = { "x_groq.error", false },
    [WANT_TYPE] = { "type", false },
    [WANT_OBJECT] = { "object", false },
    [WANT_CODE] = { "code", false },
    [WANT_MESSAGE] = { "message", false },
    [WANT_ERROR_CODE] = { "error_code", false },
    [WANT_BASE_STATUS] = { "base_resp.status_code", false }, /* MiniMax */
    [WANT_TENCENT_ERROR] = { "Response.Error", false },
    [WANT_MODEL] = { "model", false },
};

static pthread_once_t paths_once = PTHREAD_ONCE_INIT;
static struct json_paths paths; /* of wants: they are asked for in each chunk */

static void take_paths_apart(void)
{
    json_paths_init(&paths, wants, N_WANTS);
}

/* Members of a choice that carry no content whatever their value. */
static const char *const silent_members[] = {
    "index",
    "delta",
    "finish_reason",
    "native_finish_reason",
    "stop_reason",
    "logprobs",
    "usage",
    "matched_stop",
    "content_filter_results",
    "content_filter_offsets",
    "token_ids",
    "flag",
    "ban_round",
    "seed",
    "message",
};

/* finish_reason values by which providers report that the generation broke off. */
static const char *const failed_reasons[] = { "error", "network_error", "insufficient_system_resource" };

static bool is_one_of(struct span text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (span_is(text, list[i]))
            return true;
    }
    return false;
}

/* What one JSON object of a reply holds. */
struct reading {
    bool is_object;
    bool has_error; /* in one of the shapes providers use */
    bool has_code, has_message;
    bool has_choices_member;
    size_t n_choices;
    bool has_content;        /* a delta or an unknown member that says something */
    bool has_message_object; /* choices.*.message: a whole answer */
    struct stream_state *state;
    /* of the choice being read, applied when it ends */
    long long index;
    bool has_index, has_finish, has_failed_reason, any_finish, any_failed_reason;
    char finish_reason[32];
    uint64_t reasoning_quarters;
};

static void read_finish_reason(struct reading *r, const struct json_value *v)
{
    if (v->kind != JSON_KIND_STRING || v->raw.len <= 2)
        return; /* null, or "" of older Ollama: not finished */
    struct span text = span_of(v->raw.ptr + 1, v->raw.len - 2);
    r->has_finish = true;
    r->has_failed_reason =
        is_one_of(text, failed_reasons, sizeof(failed_reasons) / sizeof(failed_reasons[0]));
    span_copy_text(text, r->finish_reason, sizeof(r->finish_reason));
}

static void read_choice_member(struct reading *r, const struct json_value *v)
{
    if (span_is(v->key, "index"))
        r->has_index = v->kind == JSON_KIND_NUMBER && json_int(v->raw, &r->index);
    else if (span_is(v->key, "finish_reason"))
        read_finish_reason(r, v);
    else if (span_is(v->key, "message"))
        r->has_message_object = r->has_message_object || body_says_something(v);
    if (!is_one_of(v->key, silent_members, sizeof(silent_members) / sizeof(silent_members[0])))
        r->has_content = r->has_content || body_says_something(v);
}

static uint64_t quarters_in(const struct json_value *v)
{
    return v->kind == JSON_KIND_STRING ? usage_estimate_text(span_of(v->raw.ptr + 1, v->raw.len - 2)) : 0;
}

/* Some say their reasoning twice, in the members of two fashions. */
static void read_delta_member(struct reading *r, const struct json_value *v)
{
    if (span_is(v->key, "role"))
        return;
    r->has_content = r->has_content || body_says_something(v);
    if (span_is(v->key, "content") || span_is(v->key, "refusal")) {
        r->state->said_quarters += quarters_in(v);
    } else if (span_is(v->key, "reasoning_content") || span_is(v->key, "reasoning")) {
        uint64_t quarters = quarters_in(v);
        r->reasoning_quarters = quarters > r->reasoning_quarters ? quarters : r->reasoning_quarters;
    }
}

static void end_choice(struct reading *r, const struct json_value *v)
{
    long long index = r->has_index ? r->index : (long long)v->element;
    r->n_choices++;
    r->state->said_quarters += r->reasoning_quarters;
    r->reasoning_quarters = 0;
    if (index < 0 || index >= STREAM_CHOICES_MAX) {
        r->state->has_untracked_choice = true;
    } else {
        r->state->choices_seen |= UINT64_C(1) << index;
        if (r->has_finish)
            r->state->choices_finished |= UINT64_C(1) << index;
    }
    if (r->has_finish)
        memcpy(r->state->finish_reason, r->finish_reason, sizeof(r->finish_reason));
    r->any_finish = r->any_finish || r->has_finish;
    r->any_failed_reason = r->any_failed_reason || r->has_failed_reason;
    r->has_index = r->has_finish = r->has_failed_reason = false;
}

static int on_value(void *ctx, const struct json_value *v)
{
    struct reading *r = ctx;
    switch (v->path) {
    case WANT_WHOLE:
        r->is_object = v->kind == JSON_KIND_OBJECT;
        break;
    case WANT_ERROR:
    case WANT_TENCENT_ERROR:
    case WANT_GROQ_ERROR:
        r->has_error = r->has_error || (body_says_something(v) && v->kind != JSON_KIND_FALSE);
        break;
    case WANT_CHOICES:
        r->has_choices_member = true; /* also null: MiniMax, Zhipu */
        break;
    case WANT_CHOICE_MEMBER:
        read_choice_member(r, v);
        break;
    case WANT_DELTA_MEMBER:
        read_delta_member(r, v);
        break;
    case WANT_CALL:
        r->state->said_quarters += quarters_in(v);
        break;
    case WANT_CHOICE:
        end_choice(r, v);
        break;
    case WANT_CHOICE_USAGE:
    case WANT_USAGE:
    case WANT_GROQ_USAGE:
        if (v->kind == JSON_KIND_OBJECT)
            usage_read(v->raw, &r->state->usage);
        break;
    case WANT_TYPE:
    case WANT_OBJECT:
        r->has_error = r->has_error || (v->kind == JSON_KIND_STRING && json_string_is(v->raw, "error"));
        break;
    case WANT_MODEL:
        if (v->kind == JSON_KIND_STRING && r->state->model[0] == '\0')
            json_copy(v->raw, r->state->model, sizeof(r->state->model));
        break;
    case WANT_CODE:
        r->has_code = body_says_something(v);
        break;
    case WANT_MESSAGE:
        r->has_message = v->kind == JSON_KIND_STRING;
        break;
    case WANT_ERROR_CODE:
    case WANT_BASE_STATUS:
        r->has_error = r->has_error || (body_says_something(v) && !span_is(v->raw, "0"));
        break;
    default:
        break;
    }
    return 0;
}

static int read_object(struct span text, struct stream_state *state, struct reading *r)
{
    *r = (struct reading){ .state = state };
    (void)pthread_once(&paths_once, take_paths_apart);
    int result = json_scan_paths(text, &paths, 0, on_value, r, NULL);
    if (result == 0 && r->n_choices == 0 && r->has_code && r->has_message)
        r->has_error = true; /* DashScope, SiliconFlow: {code, message} at the top */
    return result;
}

enum event_class chat_judge_event(const struct sse_event *event, struct stream_state *state)
{
    struct reading r;
    bool had_usage = state->usage.present;

    if (event->is_part)
        return EVENT_CONTENT; /* too large to judge, and so large that it says something */
    if (event->is_foreign && !event->has_data)
        return EVENT_ERROR; /* Gemini breaks off with bare JSON; proxies with HTML */
    if (!event->has_data)
        return span_is(event->name, "error") ? EVENT_ERROR : EVENT_NOTHING;
    struct span data = span_trim(event->data);
    if (span_is(data, "[DONE]"))
        return EVENT_TERMINAL;
    if (data.len == 0)
        return span_is(event->name, "error") ? EVENT_ERROR : EVENT_NOTHING;

    state->usage.present = false;
    int result = read_object(data, state, &r);
    bool has_usage = state->usage.present;
    state->usage.present = has_usage || had_usage;

    if (result != 0 || r.has_error || r.any_failed_reason || span_is(event->name, "error"))
        return EVENT_ERROR; /* not JSON: a client would fail on it, so it is no content */
    if (r.has_content || r.any_finish || r.has_message_object)
        return EVENT_CONTENT;
    if (!r.is_object)
        return EVENT_CONTENT;
    if (r.n_choices == 0 && has_usage)
        return EVENT_USAGE;
    if (r.n_choices == 0 && !r.has_choices_member)
        return EVENT_CONTENT; /* an object that nobody here recognises */
    return EVENT_NOTHING;
}

bool chat_is_finished(const struct stream_state *state)
{
    return state->choices_seen != 0 && !state->has_untracked_choice &&
           (state->choices_seen & ~state->choices_finished) == 0;
}

void chat_judge_plain(struct span body, struct plain_facts *facts)
{
    struct stream_state state = { 0 };
    struct reading r;

    usage_init(&state.usage);
    *facts = (struct plain_facts){ .usage = state.usage };
    if (span_trim(body).len == 0) {
        facts->why = "empty_reply";
        return;
    }
    if (read_object(body, &state, &r) != 0) {
        facts->why = "not_json";
        return;
    }
    facts->usage = state.usage;
    memcpy(facts->finish_reason, state.finish_reason, sizeof(facts->finish_reason));
    memcpy(facts->model, state.model, sizeof(facts->model));
    facts->is_error = r.has_error || (r.any_failed_reason && r.n_choices == 1);
    facts->is_usable = !facts->is_error && r.n_choices > 0;
    if (!facts->is_usable)
        facts->why = facts->is_error ? "error_in_reply" : "no_choices";
}

/* Up to the brace that closes the first one. Counts have no strings that could hold braces. */
static struct span leading_object(struct span text)
{
    size_t depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        depth += text.ptr[i] == '{' ? 1 : 0;
        if (text.ptr[i] == '}' && (depth == 0 || --depth == 0))
            return span_of(text.ptr, i + 1);
    }
    return (struct span){ NULL, 0 };
}

/* The last member of that name: inside a string its quotes would be escaped. */
void chat_read_tail(struct span tail, struct usage *usage)
{
    static const char name[] = "\"usage\"";
    const size_t len = sizeof(name) - 1;

    for (size_t i = tail.len; i-- > 0;) {
        if (tail.len - i < len || memcmp(tail.ptr + i, name, len) != 0 || (i > 0 && tail.ptr[i - 1] == '\\'))
            continue;
        struct span value = span_trim(span_of(tail.ptr + i + len, tail.len - i - len));
        if (value.len > 0 && value.ptr[0] == ':')
            usage_read(leading_object(span_trim(span_of(value.ptr + 1, value.len - 1))), usage);
        return;
    }
}

/* Line ends stand between tokens only, where a space is as good. */
static void write_data(struct buf *out, struct span json)
{
    buf_append_cstr(out, "data: ");
    for (size_t i = 0; i < json.len; i++)
        buf_append_char(out, json.ptr[i] == '\n' || json.ptr[i] == '\r' ? ' ' : json.ptr[i]);
    buf_append_cstr(out, "\n\n");
}

void chat_write_error_event(struct buf *out, const struct stream_error *error)
{
    struct json_writer w;
    struct buf json;

    buf_init(&json, out->limit);
    jw_init(&w, &json);
    jw_begin_object(&w);
    jw_key(&w, "error");
    jw_begin_object(&w);
    jw_member_cstr(&w, "message", error->message);
    jw_member_cstr(&w, "type", error->type);
    jw_member_cstr(&w, "param", NULL);
    jw_member_cstr(&w, "code", error->code);
    if (error->details.len > 0) {
        jw_key(&w, "details");
        jw_raw(&w, error->details);
    }
    jw_end_object(&w);
    jw_end_object(&w);
    write_data(out, buf_span(&json));
    buf_free(&json);
}

/* OpenAI's clients look for `error` in the data of an event. */
void chat_write_refusal_event(struct buf *out, struct span body, const struct stream_error *error)
{
    static const struct json_want error_member = { "error", false };
    struct stream_error with_details = *error;
    struct json_value found;
    struct span text = span_trim(body);

    if (json_find(text, &error_member, 1, 0, &found, NULL) != 0) {
        chat_write_error_event(out, error);
    } else if ((found.kind == JSON_KIND_OBJECT || found.kind == JSON_KIND_STRING) &&
               body_says_something(&found)) {
        write_data(out, text);
    } else {
        with_details.details = text;
        chat_write_error_event(out, &with_details);
    }
}
