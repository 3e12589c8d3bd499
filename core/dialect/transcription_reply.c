/*
 * Replies of the transcription dialect: OpenAI's JSON, its text formats and its
 * stream of events, and what compatible servers make of them.
 */
#include "core/dialect/transcription.h"

#include "core/dialect/body_internal.h"
#include "core/dialect/chat.h"
#include "core/dialect/speech.h"

/* A whole reply may come where a stream was asked for: OpenAI's whisper-1 knows no
 * streams, and ignores who asks for one. No mark is put behind a stream without:
 * OpenAI's own may end with the event that has the whole text. */
const struct dialect dialect_transcription = {
    .name = "transcription",
    .endpoint = "audio/transcriptions",
    .media_type = "multipart/form-data",
    .body_bytes = TRANSCRIPTION_BODY_BYTES,
    .stream_type = "text/event-stream",
    .heartbeat = ": heartbeat\n\n",
    .needs_model = true,
    .may_answer_whole = true,
    .read_request = transcription_read_request,
    .splice_request = transcription_splice_request,
    .judge_event = transcription_judge_event,
    .is_finished = transcription_is_finished,
    .judge_plain = transcription_judge_plain,
    .judge_text = transcription_judge_text,
    .read_tail = chat_read_tail,                   /* usage stands where it does there */
    .write_error_event = speech_write_error_event, /* events have a type, as there */
    .write_refusal_event = chat_write_refusal_event,
};

enum {
    WANT_WHOLE,
    WANT_ERROR,
    WANT_TYPE,
    WANT_OBJECT,
    WANT_CODE,
    WANT_MESSAGE,
    WANT_TEXT,
    WANT_DELTA,
    WANT_SEGMENTS,
    WANT_DURATION,
    WANT_USAGE,
    N_WANTS,
};

static const struct json_want wants[N_WANTS] = {
    [WANT_WHOLE] = { "", false },
    [WANT_ERROR] = { "error", false },
    [WANT_TYPE] = { "type", false },
    [WANT_OBJECT] = { "object", false },
    [WANT_CODE] = { "code", false },
    [WANT_MESSAGE] = { "message", false },
    [WANT_TEXT] = { "text", false },
    [WANT_DELTA] = { "delta", false },
    [WANT_SEGMENTS] = { "segments", false },
    [WANT_DURATION] = { "duration", false },
    [WANT_USAGE] = { "usage", false },
};

static bool is_text(const struct json_value *v, const char *text)
{
    return v->kind == JSON_KIND_STRING && json_string_is(v->raw, text);
}

/* In the shapes of OpenAI and its compatibles; {code, message} is SiliconFlow's. */
static bool has_error(const struct json_value *found)
{
    const struct json_value *error = &found[WANT_ERROR];

    return (body_says_something(error) && error->kind != JSON_KIND_FALSE) ||
           is_text(&found[WANT_TYPE], "error") || is_text(&found[WANT_OBJECT], "error") ||
           (body_says_something(&found[WANT_CODE]) && found[WANT_MESSAGE].kind == JSON_KIND_STRING);
}

/* --- events --- */

/* Events of OpenAI's that say nothing by themselves are those with an empty delta.
 * The last one is content whatever it says: silence has been heard, and no word. */
enum event_class transcription_judge_event(const struct sse_event *event, struct stream_state *state)
{
    struct json_value found[N_WANTS];
    bool is_named_error = span_is(event->name, "error");

    if (event->is_part)
        return EVENT_CONTENT; /* too large to judge, and so large that it says something */
    if (event->is_foreign && !event->has_data)
        return EVENT_ERROR; /* bare JSON, HTML */
    struct span data = span_trim(event->data);
    if (data.len == 0)
        return is_named_error ? EVENT_ERROR : EVENT_NOTHING;
    if (span_is(data, "[DONE]"))
        return EVENT_TERMINAL;
    if (json_find(data, wants, N_WANTS, 0, found, NULL) != 0 || has_error(found) || is_named_error)
        return EVENT_ERROR;
    if (found[WANT_USAGE].kind == JSON_KIND_OBJECT)
        usage_read(found[WANT_USAGE].raw, &state->usage);
    if (is_text(&found[WANT_TYPE], "transcript.text.delta") && found[WANT_DELTA].kind == JSON_KIND_STRING)
        state->said_quarters +=
            usage_estimate_text(span_of(found[WANT_DELTA].raw.ptr + 1, found[WANT_DELTA].raw.len - 2));
    if (is_text(&found[WANT_TYPE], "transcript.text.done"))
        state->is_done = true;
    else if (is_text(&found[WANT_TYPE], "transcript.text.delta") && !body_says_something(&found[WANT_DELTA]))
        return EVENT_NOTHING;
    return EVENT_CONTENT;
}

bool transcription_is_finished(const struct stream_state *state)
{
    return state->is_done;
}

/* --- whole replies --- */

/* What verbose_json says where nobody counts: seconds of audio. */
static void read_duration(const struct json_value *duration, struct usage *usage)
{
    if (usage->audio_ms < 0 && duration->kind == JSON_KIND_NUMBER)
        usage_read_seconds(duration->raw, usage);
}

void transcription_judge_plain(struct span body, struct plain_facts *facts)
{
    struct json_value found[N_WANTS];

    *facts = (struct plain_facts){ .is_usable = false };
    usage_init(&facts->usage);
    if (span_trim(body).len == 0) {
        facts->why = "empty_reply";
        return;
    }
    if (json_find(body, wants, N_WANTS, 0, found, NULL) != 0) {
        facts->why = "not_json";
        return;
    }
    if (found[WANT_USAGE].kind == JSON_KIND_OBJECT)
        usage_read(found[WANT_USAGE].raw, &facts->usage);
    read_duration(&found[WANT_DURATION], &facts->usage);
    facts->is_error = has_error(found);
    facts->is_usable = !facts->is_error && (found[WANT_TEXT].kind == JSON_KIND_STRING ||
                                            found[WANT_SEGMENTS].kind == JSON_KIND_ARRAY);
    if (!facts->is_usable)
        facts->why = facts->is_error ? "error_in_reply" : "no_text";
}

static bool starts_nocase(struct span text, const char *prefix)
{
    size_t len = strlen(prefix);
    return text.len >= len && span_is_nocase(span_of(text.ptr, len), prefix);
}

/* Any text may be what was said, and a blank one is what silence leaves of text and
 * srt. A page is a proxy's, and JSON with an error in it an upstream's. */
void transcription_judge_text(struct span body, struct plain_facts *facts)
{
    struct json_value found[N_WANTS];
    struct span text = span_trim(body);

    *facts = (struct plain_facts){ .is_usable = false };
    usage_init(&facts->usage);
    if (body.len == 0)
        facts->why = "empty_reply";
    else if (starts_nocase(text, "<!doctype") || starts_nocase(text, "<html"))
        facts->why = "not_text";
    else if (text.len > 0 && text.ptr[0] == '{' && json_find(text, wants, N_WANTS, 0, found, NULL) == 0 &&
             has_error(found))
        facts->why = "error_in_reply";
    facts->is_usable = facts->why == NULL;
    facts->is_error = !facts->is_usable && text.len > 0 && text.ptr[0] == '{';
}
