/*
 * OpenAI's own POST /audio/speech, and whatever speaks it: the caller's body goes
 * on as it was written. What comes back is audio as it is, or a stream of events
 * with audio in them; we follow what came, not what was asked for.
 */
#include "adapters/providers.h"

#include "core/dialect/sse.h"
#include "core/json/scan.h"

enum mode { MODE_UNKNOWN, MODE_AUDIO, MODE_EVENTS, MODE_DOCUMENT };

struct state {
    enum mode mode;
    struct sse_framer framer;
    struct buf document; /* what came instead of audio */
    struct adapter_call *call;
    enum adapter_step step; /* of the events of one piece */
};

static const struct adapter_format formats[] = {
    { "mp3", "mp3", "audio/mpeg" },   { "opus", "opus", "audio/ogg" }, { "aac", "aac", "audio/aac" },
    { "flac", "flac", "audio/flac" }, { "wav", "wav", "audio/wav" },   { "pcm", "pcm", "audio/pcm" },
};

/* ---- the request ---- */

static const char *find_endpoint(const struct adapter_site *site, struct arena *arena,
                                 struct adapter_fault *fault)
{
    if (site->region.len > 0) {
        adapter_refuse(fault, arena, "region", "openai has no regions; \"baseURL\" says where it is");
        return NULL;
    }
    return site->base_url.len > 0 ? arena_span(arena, site->base_url)
                                  : "https://api.openai.com/v1/audio/speech";
}

static void free_framer(void *framer)
{
    sse_free(framer);
}

static void free_document(void *document)
{
    buf_free(document);
}

static void begin(struct adapter_call *call, struct adapter_exchange *out)
{
    static const char *const for_audio[] = { "Content-Type: application/json",
                                             "Accept: application/octet-stream", NULL };
    static const char *const for_events[] = { "Content-Type: application/json", "Accept: text/event-stream",
                                              NULL };
    const struct adapter_order *order = call->order;
    struct state *state = arena_new_of(call->arena, struct state);

    state->call = call;
    sse_init(&state->framer, ADAPTER_EVENT_BYTES);
    buf_init(&state->document, ADAPTER_FAILURE_BYTES);
    arena_on_reset(call->arena, free_framer, &state->framer);
    arena_on_reset(call->arena, free_document, &state->document);
    call->state = state;

    out->url = order->endpoint;
    out->key_header = "Authorization: Bearer {KEY}";
    out->headers = order->speech->wants_events ? for_events : for_audio;
    /* Three edits at most, and so no failure. */
    (void)speech_splice_request(order->speech, call->model.len > 0 ? call->model : order->asked_model,
                                call->voice, call->arena, &out->body);
}

/* ---- the reply ---- */

static bool is_document(struct span type)
{
    return type.len >= 5 && (strncasecmp(type.ptr, "text/", 5) == 0 ||
                             (type.len >= 16 && strncasecmp(type.ptr, "application/json", 16) == 0));
}

static enum adapter_step head(struct adapter_call *call, const struct adapter_reply *reply)
{
    struct span type = reply->content_type;
    struct state *state = call->state;

    if (type.len >= 17 && strncasecmp(type.ptr, "text/event-stream", 17) == 0)
        state->mode = MODE_EVENTS;
    else if (is_document(type))
        state->mode = MODE_DOCUMENT;
    else
        call->type = adapter_known_type(type);
    return ADAPTER_MORE;
}

/* No audio begins like JSON or HTML, except for samples, which may begin like anything. */
static void look_at_begin(struct adapter_call *call, struct span piece)
{
    struct state *state = call->state;
    bool is_bare = strcmp(call->format->name, "pcm") == 0;
    bool is_text = strchr("{[<", piece.ptr[0]) != NULL && piece.ptr[0] != '\0';

    state->mode = is_text && !is_bare ? MODE_DOCUMENT : MODE_AUDIO;
}

enum { WANT_TYPE, WANT_AUDIO, WANT_USAGE, WANT_ERROR, N_WANTS };

static const struct json_want event_wants[N_WANTS] = {
    [WANT_TYPE] = { "type", false },
    [WANT_AUDIO] = { "audio", false },
    [WANT_USAGE] = { "usage", false },
    [WANT_ERROR] = { "error", false },
};

static bool is_type(const struct json_value *type, const char *name)
{
    return type->kind == JSON_KIND_STRING && json_string_is(type->raw, name);
}

static enum adapter_step read_event(struct adapter_call *call, const struct sse_event *event)
{
    struct json_value found[N_WANTS];
    struct span data = span_trim(event->data);

    if (event->is_part)
        return adapter_fail(call, "event_too_large", (struct span){ NULL, 0 });
    if (event->is_foreign && !event->has_data)
        return adapter_fail(call, "error_event", event->raw);
    if (data.len == 0)
        return ADAPTER_MORE;
    if (span_is(data, "[DONE]"))
        return ADAPTER_DONE;
    if (json_find(data, event_wants, N_WANTS, 0, found, NULL) != 0)
        return adapter_fail(call, "error_event", data);
    if (span_is(event->name, "error") || is_type(&found[WANT_TYPE], "error") ||
        found[WANT_ERROR].kind == JSON_KIND_OBJECT || found[WANT_ERROR].kind == JSON_KIND_STRING)
        return adapter_fail(call, "error_event", data);
    if (is_type(&found[WANT_TYPE], "speech.audio.delta"))
        return adapter_give_base64(call, &found[WANT_AUDIO]);
    if (!is_type(&found[WANT_TYPE], "speech.audio.done"))
        return ADAPTER_MORE;
    if (found[WANT_USAGE].kind == JSON_KIND_OBJECT)
        usage_read(found[WANT_USAGE].raw, &call->usage);
    return ADAPTER_DONE;
}

static int on_event(void *ctx, const struct sse_event *event)
{
    struct state *state = ctx;
    if (state->step == ADAPTER_MORE)
        state->step = read_event(state->call, event);
    return 0;
}

static enum adapter_step feed(struct adapter_call *call, struct span piece)
{
    struct state *state = call->state;

    if (piece.len == 0)
        return ADAPTER_MORE;
    if (state->mode == MODE_UNKNOWN)
        look_at_begin(call, piece);
    switch (state->mode) {
    case MODE_EVENTS:
        sse_feed(&state->framer, piece, on_event, state);
        return state->step;
    case MODE_DOCUMENT:
        if (buf_append_span(&state->document, piece) == 0)
            return ADAPTER_MORE;
        return adapter_fail(call, "not_audio", buf_span(&state->document));
    default:
        return adapter_give(call, piece);
    }
}

static enum adapter_step finish(struct adapter_call *call, struct adapter_exchange *next)
{
    struct state *state = call->state;

    (void)next;
    if (state->mode == MODE_DOCUMENT)
        return adapter_fail(call, state->document.len > 0 ? "not_audio" : "no_audio",
                            buf_span(&state->document));
    if (state->mode != MODE_EVENTS)
        return ADAPTER_DONE;
    sse_finish(&state->framer, on_event, state);
    if (state->step != ADAPTER_MORE)
        return state->step;
    return adapter_fail(call, "no_end", (struct span){ NULL, 0 });
}

/* ---- failures ---- */

/* Tokens of `code`, else `type`, before the status: compatible servers report a
 * dead key or an empty account with statuses of their own. */
static const struct {
    const char *token;
    enum adapter_class class;
} tokens[] = {
    { "invalid_api_key", ADAPTER_AUTH },      { "invalid_authentication", ADAPTER_AUTH },
    { "authentication_error", ADAPTER_AUTH }, { "account_deactivated", ADAPTER_AUTH },
    { "insufficient_quota", ADAPTER_QUOTA },  { "billing_hard_limit_reached", ADAPTER_QUOTA },
    { "billing_not_active", ADAPTER_QUOTA },  { "rate_limit_exceeded", ADAPTER_RATE },
    { "rate_limit_error", ADAPTER_RATE },     { "server_error", ADAPTER_SERVER },
};

static const struct {
    int status;
    enum adapter_class class;
    bool is_doubtful;
} statuses[] = {
    { 400, ADAPTER_CLIENT, false }, { 401, ADAPTER_AUTH, false },   { 402, ADAPTER_QUOTA, false },
    { 404, ADAPTER_CLIENT, true }, /* a model that is not there may be the operator's slip */
    { 408, ADAPTER_SERVER, false }, { 409, ADAPTER_SERVER, false }, { 413, ADAPTER_CLIENT, false },
    { 422, ADAPTER_CLIENT, false }, { 429, ADAPTER_RATE, false },
};

enum { ERROR_CODE, ERROR_TYPE, ERROR_MESSAGE, ERROR_PARAM, N_ERROR_WANTS };

static const struct json_want error_wants[N_ERROR_WANTS] = {
    [ERROR_CODE] = { "error.code", false },
    [ERROR_TYPE] = { "error.type", false },
    [ERROR_MESSAGE] = { "error.message", false },
    [ERROR_PARAM] = { "error.param", false },
};

static int keep_value(void *ctx, const struct json_value *value)
{
    struct json_value *found = ctx;
    found[value->path] = *value;
    return 0;
}

static struct span text_of(const struct json_value *value, struct arena *arena)
{
    return value->kind == JSON_KIND_STRING ? json_decode(arena, value->raw) : (struct span){ NULL, 0 };
}

/* The caller knows its own members only. */
static const char *own_member(struct span param)
{
    static const char *const members[] = { "input", "voice",        "response_format",
                                           "speed", "instructions", "stream_format" };
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (span_is(param, members[i]))
            return members[i];
    return NULL;
}

static void classify(const struct adapter_failure *failure, struct arena *arena, struct adapter_opinion *out)
{
    struct json_value found[N_ERROR_WANTS] = { { .kind = JSON_KIND_ABSENT } };

    (void)json_scan(failure->body, error_wants, N_ERROR_WANTS, JSON_SCAN_CUT, keep_value, found, NULL);
    const struct span names[] = { text_of(&found[ERROR_CODE], arena), text_of(&found[ERROR_TYPE], arena) };
    out->code = names[0].len > 0 ? names[0] : names[1];
    out->message = text_of(&found[ERROR_MESSAGE], arena);
    out->param = own_member(text_of(&found[ERROR_PARAM], arena));
    for (size_t n = 0; n < 2; n++)
        for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
            if (span_is(names[n], tokens[i].token)) {
                out->class = tokens[i].class;
                out->rule = arena_printf(arena, "code:%s", tokens[i].token);
                return;
            }
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i].status == failure->status) {
            out->class = statuses[i].class;
            out->is_doubtful = statuses[i].is_doubtful;
            out->rule = "status";
        }
}

const struct adapter adapter_openai = {
    .name = "openai",
    .system = "openai",
    .catalog = "openai",
    .trace_header = "x-request-id",
    .formats = formats,
    .n_formats = sizeof(formats) / sizeof(formats[0]),
    .skills = ADAPTER_SPEED | ADAPTER_INSTRUCTIONS,
    .speaks_as_callers = true,
    .endpoint = find_endpoint,
    .begin = begin,
    .head = head,
    .feed = feed,
    .finish = finish,
    .classify = classify,
};
