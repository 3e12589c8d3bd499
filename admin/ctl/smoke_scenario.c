#include "admin/ctl/smoke_scenario.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/json/scan.h"

const char *smoke_result_name(enum smoke_result result)
{
    static const char *const names[SMOKE_RESULTS] = { "passed", "failed", "skipped" };
    return names[result];
}

/* --- judges --- */

static enum smoke_result fail(struct smoke_trial *trial, struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static enum smoke_result fail(struct smoke_trial *trial, struct arena *arena, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    trial->finding = arena_strdup(arena, text);
    return SMOKE_FAILED;
}

static enum smoke_result expect_status(struct smoke_trial *trial, struct arena *arena, long status)
{
    return trial->reply.status == status
               ? SMOKE_PASSED
               : fail(trial, arena, "the status is %ld instead of %ld", trial->reply.status, status);
}

/* Finds the values; absent ones too when the body is not JSON. */
static void find(const struct smoke_trial *trial, const struct json_want *wants, size_t n,
                 struct json_value *found)
{
    if (json_find(trial->reply.body, wants, n, 0, found, NULL) != 0)
        memset(found, 0, n * sizeof(found[0]));
}

static struct json_value find_one(const struct smoke_trial *trial, const char *path)
{
    const struct json_want want = { path, false };
    struct json_value found;
    find(trial, &want, 1, &found);
    return found;
}

static bool is_text(const struct smoke_trial *trial, const char *path, const char *text)
{
    const struct json_value found = find_one(trial, path);
    return found.kind == JSON_KIND_STRING && json_string_is(found.raw, text);
}

static enum smoke_result judge_livez(struct smoke_trial *trial, struct arena *arena)
{
    enum smoke_result result = expect_status(trial, arena, 200);
    if (result == SMOKE_PASSED && !is_text(trial, "status", "live"))
        result = fail(trial, arena, "the reply does not say {\"status\":\"live\"}");
    return result;
}

static int find_failing(void *ctx, const struct json_value *value)
{
    bool *has_failing = ctx;
    *has_failing = *has_failing || value->kind != JSON_KIND_STRING || !json_string_is(value->raw, "ok");
    return 0;
}

static enum smoke_result judge_readyz(struct smoke_trial *trial, struct arena *arena)
{
    static const struct json_want checks = { "checks.*", false };
    bool has_failing = false;
    enum smoke_result result = expect_status(trial, arena, 200);

    if (result == SMOKE_PASSED &&
        (!is_text(trial, "status", "ready") || find_one(trial, "checks").kind != JSON_KIND_OBJECT))
        result = fail(trial, arena, "the reply does not say {\"status\":\"ready\"} with its checks");
    if (result == SMOKE_PASSED)
        json_scan(trial->reply.body, &checks, 1, 0, find_failing, &has_failing, NULL);
    return has_failing ? fail(trial, arena, "a check is not ok") : result;
}

static enum smoke_result judge_chat(struct smoke_trial *trial, struct arena *arena)
{
    enum smoke_result result = expect_status(trial, arena, 200);
    if (result == SMOKE_PASSED && find_one(trial, "choices.*.message").kind != JSON_KIND_OBJECT)
        result = fail(trial, arena, "the reply has no choice with a message");
    return result;
}

static enum smoke_result judge_fallback(struct smoke_trial *trial, struct arena *arena)
{
    enum smoke_result result = judge_chat(trial, arena);
    if (result != SMOKE_PASSED)
        return result;
    if (trial->event == NULL) {
        trial->finding =
            "it was answered, but its event is not visible from here: whether it fell back is not known";
        return SMOKE_SKIPPED;
    }
    if (trial->event->fallback_depth < 1)
        return fail(trial, arena, "the first attempt did not fail: it did not fall back");
    return SMOKE_PASSED;
}

static enum smoke_result judge_stream(struct smoke_trial *trial, struct arena *arena)
{
    static const char mark[] = "data: [DONE]";
    struct span body = span_trim(trial->reply.body);
    enum smoke_result result = expect_status(trial, arena, 200);

    if (result != SMOKE_PASSED)
        return result;
    if (!span_starts(span_cstr(trial->reply.content_type), "text/event-stream"))
        return fail(trial, arena, "the reply is no stream of events but \"%.80s\"",
                    trial->reply.content_type);
    if (body.len < sizeof(mark) - 1 ||
        !span_is(span_of(body.ptr + body.len - (sizeof(mark) - 1), sizeof(mark) - 1), mark))
        return fail(trial, arena, "the stream does not end with [DONE]");
    if (memmem(body.ptr, body.len, "\"choices\"", sizeof("\"choices\"") - 1) == NULL)
        return fail(trial, arena, "the stream holds no choice");
    return SMOKE_PASSED;
}

static enum smoke_result judge_voices(struct smoke_trial *trial, struct arena *arena)
{
    static const struct json_want wants[] = { { "voices.*.id", false }, { "recommended.*", false } };
    struct json_value found[2];
    enum smoke_result result = expect_status(trial, arena, 200);

    if (result != SMOKE_PASSED)
        return result;
    find(trial, wants, 2, found);
    if (found[0].kind != JSON_KIND_STRING)
        return fail(trial, arena, "the list has no voice");
    trial->voice = json_decode(arena, found[1].kind == JSON_KIND_STRING ? found[1].raw : found[0].raw).ptr;
    return SMOKE_PASSED;
}

/* Whether the first bytes are those of what the reply says it is. */
static bool is_audio_of_its_type(const struct http_reply *reply)
{
    static const struct {
        const char *type, *magic, *mask; /* the mask's bytes have as many bits as are compared */
        size_t len;
    } rows[] = {
        { "audio/mpeg", "\xFF\xE0", "\xFF\xE0", 2 },     { "audio/mpeg", "ID3", "\xFF\xFF\xFF", 3 },
        { "audio/wav", "RIFF", "\xFF\xFF\xFF\xFF", 4 },  { "audio/ogg", "OggS", "\xFF\xFF\xFF\xFF", 4 },
        { "audio/flac", "fLaC", "\xFF\xFF\xFF\xFF", 4 }, { "audio/aac", "\xFF\xF0", "\xFF\xF0", 2 },
    };
    bool is_known = false;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = 0;
        if (!span_starts(span_cstr(reply->content_type), rows[i].type))
            continue;
        is_known = true;
        while (n < rows[i].len && n < reply->body.len &&
               ((reply->body.ptr[n] ^ rows[i].magic[n]) & rows[i].mask[n]) == 0)
            n++;
        if (n == rows[i].len)
            return true;
    }
    return !is_known;
}

static enum smoke_result judge_speech(struct smoke_trial *trial, struct arena *arena)
{
    const struct http_reply *reply = &trial->reply;
    enum smoke_result result = expect_status(trial, arena, 200);

    if (result != SMOKE_PASSED)
        return result;
    if (!span_starts(span_cstr(reply->content_type), "audio/"))
        return fail(trial, arena, "the reply is no audio but \"%.80s\"", reply->content_type);
    if (reply->body.len == 0)
        return fail(trial, arena, "the reply is empty");
    if (!is_audio_of_its_type(reply))
        return fail(trial, arena, "the reply does not begin as \"%.80s\" does", reply->content_type);
    return SMOKE_PASSED;
}

static enum smoke_result judge_unknown_v1(struct smoke_trial *trial, struct arena *arena)
{
    enum smoke_result result = expect_status(trial, arena, 404);
    if (result == SMOKE_PASSED && !is_text(trial, "error.code", "model_not_found"))
        result = fail(trial, arena, "error.code is not \"model_not_found\"");
    return result;
}

static enum smoke_result judge_unknown_coded(struct smoke_trial *trial, struct arena *arena)
{
    enum smoke_result result = expect_status(trial, arena, 400);
    if (result == SMOKE_PASSED &&
        (!is_text(trial, "error", "BAD_REQUEST") || !is_text(trial, "message", "unknown_model")))
        result = fail(trial, arena, "the reply is not the error BAD_REQUEST with the message unknown_model");
    if (result == SMOKE_PASSED && (!is_text(trial, "details.requested", SMOKE_UNKNOWN_MODEL) ||
                                   find_one(trial, "details.available").kind != JSON_KIND_ARRAY))
        result = fail(trial, arena, "the details do not name the model and those that there are");
    return result;
}

static int count_value(void *ctx, const struct json_value *value)
{
    (void)value;
    ++*(unsigned *)ctx;
    return 0;
}

/* Which statuses tell of an exhaustion whose last attempt ended so. */
static bool tells_of(long status, struct span last)
{
    static const struct {
        const char *last;
        long statuses[2];
    } rows[] = {
        { "429", { 503, 503 } },       { "\"timeout\"", { 504, 504 } }, { "\"connect\"", { 502, 504 } },
        { "\"reset\"", { 502, 504 } }, { "\"invalid\"", { 502, 502 } },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (span_is(last, rows[i].last))
            return status == rows[i].statuses[0] || status == rows[i].statuses[1];
    return status == 502; /* every other status of an upstream */
}

static enum smoke_result judge_exhausted(struct smoke_trial *trial, struct arena *arena)
{
    const char *at = trial->is_coded ? "details" : "error.details";
    const struct json_want wants[] = {
        { arena_printf(arena, "%s.triedKeys", at), false },
        { arena_printf(arena, "%s.triedUpstreams", at), false },
        { arena_printf(arena, "%s.lastStatusCode", at), false },
    };
    const struct json_want every = { arena_printf(arena, "%s.*", at), false };
    struct json_value found[3];
    unsigned n = 0;
    long long keys = 0, upstreams = 0;

    if (trial->reply.status < 502 || trial->reply.status > 504)
        return fail(trial, arena, "the status is %ld instead of 502, 503 or 504", trial->reply.status);
    find(trial, wants, 3, found);
    json_scan(trial->reply.body, &every, 1, 0, count_value, &n, NULL);
    if (n != 3 || !json_int(found[0].raw, &keys) || !json_int(found[1].raw, &upstreams) || keys < 1 ||
        upstreams < 1 || (found[2].kind != JSON_KIND_NUMBER && found[2].kind != JSON_KIND_STRING))
        return fail(trial, arena, "%s are not exactly triedKeys, triedUpstreams and lastStatusCode", at);
    if (!tells_of(trial->reply.status, found[2].raw))
        return fail(trial, arena, "the status is %ld after a last attempt that ended with %.*s",
                    trial->reply.status, (int)(found[2].raw.len < 40 ? found[2].raw.len : 40),
                    found[2].raw.ptr);
    return SMOKE_PASSED;
}

static enum smoke_result judge_wrong_key(struct smoke_trial *trial, struct arena *arena)
{
    return expect_status(trial, arena, 401);
}

/* What the event says has to be what the caller got. */
static enum smoke_result judge_event(struct smoke_trial *trial, struct arena *arena)
{
    const struct event_line *event = trial->event;

    if (strcmp(event->end, trial->scenario->end) != 0)
        return fail(trial, arena, "its event ends with \"%.40s\" instead of \"%s\"", event->end,
                    trial->scenario->end);
    if (event->status != (uint64_t)trial->reply.status)
        return fail(trial, arena, "its event says status %d", (int)event->status);
    if (strcmp(event->trace_id, trial->trace_id) != 0)
        return fail(trial, arena, "its event has the trace id \"%.40s\"", event->trace_id);
    return SMOKE_PASSED;
}

void smoke_judge(struct smoke_trial *trial, struct arena *arena)
{
    if (trial->reply.problem != NULL) {
        trial->finding = trial->reply.problem;
        trial->result = SMOKE_FAILED;
        return;
    }
    trial->result = trial->scenario->judge(trial, arena);
    if (trial->result == SMOKE_PASSED && trial->event != NULL)
        trial->result = judge_event(trial, arena);
}

/* --- the table --- */

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Say hello in one short sentence.\"}]"

const struct smoke_scenario smoke_scenarios[] = {
    { "livez", "7", "The instance is alive.", PLACE_ROOT, "/livez", NULL, SUBJECT_NONE, false, NULL,
      "200 with {\"status\":\"live\"}.", judge_livez },
    { "readyz", "8", "The instance is ready, and so is what it stands on.", PLACE_ROOT, "/readyz", NULL,
      SUBJECT_NONE, false, NULL, "200 with {\"status\":\"ready\"}, and each check is ok.", judge_readyz },
    { "chat", "1", "A chat completion.", PLACE_MOUNT, "/chat/completions", MESSAGES, SUBJECT_CHAT, false,
      "done", "200 with a choice that has a message.", judge_chat },
    { "chat-stream", "", "A chat completion as a stream.", PLACE_MOUNT, "/chat/completions",
      "\"stream\":true," MESSAGES, SUBJECT_CHAT, false, "done",
      "200, a stream of events with choices that ends with [DONE].", judge_stream },
    { "chat-fallback", "2", "A chat completion whose first key or upstream fails.", PLACE_MOUNT,
      "/chat/completions", MESSAGES, SUBJECT_FALLBACK, false, "done",
      "200 all the same, and the event has a fallback_depth of at least 1.", judge_fallback },
    { "voices", "6", "The voices of a model.", PLACE_MOUNT, "/audio/voices", NULL, SUBJECT_SPEECH, false,
      "done", "200 with at least one voice.", judge_voices },
    { "speech", "3-5", "Speech.", PLACE_MOUNT, "/audio/speech", "\"input\":\"Hello from llm-router.\"",
      SUBJECT_SPEECH, false, "done", "200 with audio that begins as its type says.", judge_speech },
    { "unknown-model", "9", "A model that does not exist, at /api/v1/openai.", PLACE_CODED,
      "/chat/completions", MESSAGES, SUBJECT_UNKNOWN, false, "refused",
      "400 BAD_REQUEST unknown_model, with the models that exist in the details.", judge_unknown_coded },
    { "unknown-model-v1", "9", "A model that does not exist, at /v1.", PLACE_V1, "/chat/completions",
      MESSAGES, SUBJECT_UNKNOWN, false, "refused", "404 model_not_found.", judge_unknown_v1 },
    { "exhausted", "10", "A chat completion of which every key fails.", PLACE_MOUNT, "/chat/completions",
      MESSAGES, SUBJECT_EXHAUSTED, false, "error_before",
      "502, 503 after a 429, or 504 after a timeout; the details are exactly triedKeys, triedUpstreams and "
      "lastStatusCode.",
      judge_exhausted },
    { "wrong-key", "", "A caller whose key does not exist.", PLACE_MOUNT, "/chat/completions", MESSAGES,
      SUBJECT_CHAT, true, "refused", "401.", judge_wrong_key },
};

const size_t smoke_n_scenarios = sizeof(smoke_scenarios) / sizeof(smoke_scenarios[0]);
