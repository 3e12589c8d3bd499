/* The speech dialect's row, and the events of its streams. */
#include "core/dialect/speech.h"

#include "core/crypto/digest.h"
#include "core/json/writer.h"

/* Replies are audio in whatever way a provider sends it: adapters make of it what
 * goes to the caller, so nothing here judges them. */
const struct dialect dialect_speech = {
    .name = "speech",
    .endpoint = "audio/speech",
    .media_type = "application/json",
    .stream_type = "text/event-stream",
    .is_adapted = true,
    .read_request = speech_read_request,
    .write_error_event = speech_write_error_event,
    .write_refusal_event = speech_write_refusal_event,
};

void speech_write_delta_event(struct buf *out, struct span audio)
{
    enum { SLICE_BYTES = 3 * 1024 }; /* a multiple of 3 ends without padding */
    char text[SLICE_BYTES / 3 * 4 + 1];

    buf_append_cstr(out, "data: {\"type\":\"speech.audio.delta\",\"audio\":\"");
    while (audio.len > 0) {
        size_t len = audio.len < SLICE_BYTES ? audio.len : SLICE_BYTES;
        base64_encode(span_of(audio.ptr, len), text);
        buf_append_cstr(out, text);
        audio = span_of(audio.ptr + len, audio.len - len);
    }
    buf_append_cstr(out, "\"}\n\n");
}

static void begin_event(struct json_writer *w, struct buf *out, const char *type)
{
    buf_append_cstr(out, "data: ");
    jw_init(w, out);
    jw_begin_object(w);
    jw_member_cstr(w, "type", type);
}

static void end_event(struct json_writer *w, struct buf *out)
{
    jw_end_object(w);
    buf_append_cstr(out, "\n\n");
}

void speech_write_done_event(struct buf *out, const struct usage *usage)
{
    struct json_writer w;
    int64_t input = usage->input > 0 ? usage->input : 0, output = usage->output > 0 ? usage->output : 0;

    begin_event(&w, out, "speech.audio.done");
    if (usage->present) {
        jw_key(&w, "usage");
        jw_begin_object(&w);
        jw_member_int(&w, "input_tokens", input);
        jw_member_int(&w, "output_tokens", output);
        jw_member_int(&w, "total_tokens", input + output);
        jw_end_object(&w);
    }
    end_event(&w, out);
}

/* OpenAI's clients look for `error` in the data of an event, whatever its type. */
void speech_write_error_event(struct buf *out, const struct stream_error *error)
{
    struct json_writer w;

    begin_event(&w, out, "error");
    jw_key(&w, "error");
    jw_begin_object(&w);
    jw_member_cstr(&w, "message", error->message);
    jw_member_cstr(&w, "type", error->type);
    jw_member_cstr(&w, "param", NULL);
    jw_member_cstr(&w, "code", error->code);
    jw_end_object(&w);
    end_event(&w, out);
}

/* What the caller is told of a refusal is ours to word in this dialect, and stands in `error`. */
void speech_write_refusal_event(struct buf *out, struct span body, const struct stream_error *error)
{
    (void)body;
    speech_write_error_event(out, error);
}
