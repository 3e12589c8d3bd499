/*
 * Audio in JSON, also in events: it is what the member holds, in whatever pieces
 * the text comes, and what is around it stays JSON.
 *
 * Input: a byte (bit 0: in events; bit 1: three names deep), the sizes of the
 * pieces, the text.
 */
#include "adapters/json_audio.h"
#include "adapters/event_reader.h"
#include "core/crypto/digest.h"
#include "core/json/scan.h"
#include "tests/fuzz/fuzz.h"

enum { TRANSCRIPT_BYTES = 16 * 1024 * 1024, IN_EVENTS = 1, DEEP = 2 };

static const char *const shallow_path[] = { "data", NULL };
static const char *const deep_path[] = { "output", "audio", "data", NULL };

struct transcript {
    struct json_audio reader;
    struct buf audio, rest;
    size_t n_objects;
    int result;
};

static int on_audio(void *ctx, struct span bytes)
{
    struct transcript *t = ctx;
    fuzz_check(bytes.len > 0, "no empty audio is given");
    return buf_append_span(&t->audio, bytes);
}

static int on_object(void *ctx, struct span text, uint64_t audio_bytes)
{
    struct transcript *t = ctx;
    fuzz_check(text.len <= JSON_AUDIO_BYTES, "an object without its audio is within the bound");
    fuzz_check(json_scan(text, NULL, 0, 0, NULL, NULL, NULL) == 0, "what is left of an object is JSON");
    buf_append_span(&t->rest, text);
    t->n_objects++;
    return buf_printf(&t->rest, "#%u;", (unsigned)audio_bytes);
}

static int feed_text(void *ctx, struct span bytes)
{
    struct transcript *t = ctx;
    const struct json_audio_sink sink = { .ctx = t, .on_audio = on_audio, .on_object = on_object };
    return json_audio_feed(&t->reader, bytes, &sink);
}

static int on_event(void *ctx, const struct event_head *head)
{
    struct transcript *t = ctx;
    fuzz_check(head->name.len <= EVENT_READER_BYTES && head->status >= 0 && head->status <= 999,
               "what is kept of an event is little");
    return buf_printf(&t->rest, "!%.*s|%d;", (int)head->name.len, head->name.ptr, head->status);
}

static void read_text(unsigned flags, struct span text, struct fuzz_pieces *pieces, struct transcript *t)
{
    const struct event_sink sink = { .ctx = t, .on_data = feed_text, .on_event = on_event };
    struct event_reader reader = { 0 };

    *t = (struct transcript){ .result = 0 };
    json_audio_init(&t->reader, (flags & DEEP) != 0 ? deep_path : shallow_path);
    buf_init(&t->audio, TRANSCRIPT_BYTES);
    buf_init(&t->rest, TRANSCRIPT_BYTES);
    while (text.len > 0 && t->result == 0) {
        struct span piece = text;
        if (pieces != NULL)
            piece = fuzz_next_piece(pieces, &text);
        else
            text.len = 0;
        struct span copy = fuzz_copy(piece);
        t->result = (flags & IN_EVENTS) != 0 ? event_reader_feed(&reader, copy, &sink) : feed_text(t, copy);
        fuzz_free_copy(copy);
    }
    if (t->result == 0 && (flags & IN_EVENTS) != 0)
        t->result = event_reader_finish(&reader, &sink);
}

static void free_transcript(struct transcript *t)
{
    json_audio_free(&t->reader);
    buf_free(&t->audio);
    buf_free(&t->rest);
}

/* One whole object: the scanner finds the same audio in it. */
static void check_audio(unsigned flags, struct span text, const struct transcript *t)
{
    const struct json_want want = { (flags & DEEP) != 0 ? "output.audio.data" : "data", false };
    struct json_value found;
    struct arena *arena = arena_new();

    fuzz_check(json_find(text, &want, 1, 0, &found, NULL) == 0, "what is read is JSON");
    if (found.kind == JSON_KIND_STRING) {
        struct span digits = json_decode(arena, found.raw);
        unsigned char *bytes = arena_alloc(arena, digits.len + 1);
        long len = base64_decode(digits, bytes);
        if (len >= 0)
            fuzz_check(span_eq(buf_span(&t->audio), span_of((const char *)bytes, (size_t)len)),
                       "the audio is what the member holds");
    } else {
        fuzz_check(t->audio.len == 0, "without a member there is no audio");
    }
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    unsigned flags = fuzz_take_byte(&in);
    struct fuzz_pieces pieces = fuzz_take_pieces(&in);
    struct span text = fuzz_rest(&in);
    struct transcript whole, cut;

    if (text.len > TRANSCRIPT_BYTES / 8)
        return 0;
    read_text(flags, text, NULL, &whole);
    read_text(flags, text, &pieces, &cut);
    fuzz_check(whole.result == cut.result, "cuts change no end");
    fuzz_check(span_eq(buf_span(&whole.audio), buf_span(&cut.audio)) &&
                   span_eq(buf_span(&whole.rest), buf_span(&cut.rest)),
               "cuts change nothing");
    fuzz_check(json_audio_is_between(&whole.reader) == json_audio_is_between(&cut.reader),
               "cuts leave nothing open");
    if ((flags & IN_EVENTS) == 0 && whole.result == 0 && whole.n_objects == 1 &&
        json_audio_is_between(&whole.reader))
        check_audio(flags, text, &whole);
    free_transcript(&whole);
    free_transcript(&cut);
    return 0;
}
