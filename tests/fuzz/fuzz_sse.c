/*
 * Event framing: a stream has the same events in whatever pieces it comes, and
 * no byte of it is lost.
 *
 * Input: a byte for the framer's limit, the sizes of the pieces, the stream.
 */
#include "core/base/buf.h"
#include "core/dialect/sse.h"
#include "tests/fuzz/fuzz.h"

enum { TRANSCRIPT_BYTES = 16 * 1024 * 1024 };

/* What a stream gave: its raw bytes, and of each event its name, its data and what it is. */
struct transcript {
    struct buf raw, events;
    size_t limit;
    size_t n_large, part_bytes; /* events in parts; bytes of the one that is not over */
};

static int note_event(void *ctx, const struct sse_event *event)
{
    struct transcript *t = ctx;
    buf_append_span(&t->raw, event->raw);
    fuzz_check(event->raw.len > 0, "an event has bytes");
    if (event->is_part) {
        fuzz_check(event->data.len == 0 && event->name.len == 0, "a part is not taken apart");
        t->part_bytes += event->raw.len;
        if (!event->is_last_part)
            return 0;
        fuzz_check(t->part_bytes > t->limit, "an event within the limit comes whole");
        t->part_bytes = 0;
        t->n_large++;
        return buf_append_cstr(&t->events, "L;");
    }
    fuzz_check(!event->is_last_part, "only a part is a last one");
    fuzz_check(event->raw.len <= t->limit + 2, "an event beyond the limit comes in parts");
    fuzz_check(event->has_data || event->data.len == 0, "an event without data has none");
    fuzz_check(!event->is_comment || (!event->has_data && event->name.len == 0), "a comment says nothing");
    /* A LF that is cut off from its CR may join an event of blank lines. */
    if (event->is_comment && span_trim(event->raw).len == 0)
        return 0;
    buf_append_span(&t->events, event->name);
    buf_append_char(&t->events, '|');
    buf_append_span(&t->events, event->data);
    return buf_printf(&t->events, "|%d%d%d;", event->has_data, event->is_comment, event->is_foreign);
}

/* Frames the stream; the pieces are copies that are gone when the next one comes. */
static void frame(struct span stream, size_t limit, struct fuzz_pieces *pieces, struct transcript *t)
{
    struct sse_framer framer;
    struct span rest = stream;

    *t = (struct transcript){ .limit = limit };
    buf_init(&t->raw, TRANSCRIPT_BYTES);
    buf_init(&t->events, TRANSCRIPT_BYTES);
    sse_init(&framer, limit);
    while (rest.len > 0) {
        struct span piece = rest;
        if (pieces != NULL)
            piece = fuzz_next_piece(pieces, &rest);
        else
            rest.len = 0;
        struct span copy = fuzz_copy(piece);
        fuzz_check(sse_feed(&framer, copy, note_event, t) == 0, "framing goes on while its receiver does");
        fuzz_free_copy(copy);
        fuzz_check(framer.held.len <= limit, "no more is held than the limit");
    }
    fuzz_check(t->raw.len + framer.held.len == stream.len, "what is fed is given or held");
    fuzz_check(sse_finish(&framer, note_event, t) == 0, "a stream can be finished");
    fuzz_check(sse_rest(&framer).len == 0, "nothing is left of a finished stream");
    sse_free(&framer);
}

static void check_raw(const struct transcript *t, struct span stream)
{
    struct span raw = buf_span(&t->raw);
    fuzz_check(raw.len == stream.len || raw.len == stream.len + 2,
               "a finished stream has two bytes more at most");
    fuzz_check(span_eq(span_of(raw.ptr, stream.len), stream), "the raw bytes are those of the stream");
    fuzz_check(raw.len == stream.len || (raw.ptr[raw.len - 1] == '\n' && raw.ptr[raw.len - 2] == '\n'),
               "what is added to a stream is a blank line");
}

static void free_transcript(struct transcript *t)
{
    buf_free(&t->raw);
    buf_free(&t->events);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    size_t limit = 8 + fuzz_take_byte(&in);
    struct fuzz_pieces pieces = fuzz_take_pieces(&in);
    struct span stream = fuzz_rest(&in);
    struct transcript whole, cut;

    frame(stream, limit, NULL, &whole);
    frame(stream, limit, &pieces, &cut);
    check_raw(&whole, stream);
    check_raw(&cut, stream);
    /* With a CR, a cut may move the byte that takes an event beyond the limit. */
    bool may_differ = (whole.n_large > 0 || cut.n_large > 0) && stream.len > 0 &&
                      memchr(stream.ptr, '\r', stream.len) != NULL;
    if (!may_differ)
        fuzz_check(span_eq(buf_span(&whole.events), buf_span(&cut.events)), "cuts change no event");
    free_transcript(&whole);
    free_transcript(&cut);
    return 0;
}
