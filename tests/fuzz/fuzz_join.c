/*
 * Clips joined to one file: the same file in whatever pieces they come; and a file
 * that was joined is one clip, which joined alone stays as it is.
 *
 * Input: a byte for the format, the sizes of the pieces, the clips, each but the
 * last behind its length in two bytes.
 */
#include "adapters/join.h"
#include "tests/fuzz/fuzz.h"

enum { OUT_BYTES = 16 * 1024 * 1024, CLIPS_MAX = 4 };

static int note(void *ctx, struct span bytes)
{
    fuzz_check(bytes.len > 0, "nothing empty is given");
    return buf_append_span(ctx, bytes);
}

static int join_all(enum join_format format, const struct span *clips, size_t n_clips,
                    struct fuzz_pieces *pieces, struct buf *out)
{
    const struct join_sink sink = { .ctx = out, .give = note };
    struct join join;
    int r = 0;

    buf_init(out, OUT_BYTES);
    join_init(&join, format);
    for (size_t i = 0; i < n_clips && r == 0; i++) {
        struct span rest = clips[i];
        while (rest.len > 0 && r == 0) {
            struct span piece = rest;
            if (pieces != NULL)
                piece = fuzz_next_piece(pieces, &rest);
            else
                rest.len = 0;
            struct span copy = fuzz_copy(piece);
            r = join_feed(&join, copy, &sink);
            fuzz_free_copy(copy);
        }
        if (r == 0)
            r = join_end_clip(&join, i + 1 == n_clips, &sink);
    }
    join_free(&join);
    return r;
}

static size_t take_clips(struct fuzz_input *in, struct span *clips)
{
    size_t n = 1 + fuzz_take_choice(in, CLIPS_MAX);
    for (size_t i = 0; i + 1 < n; i++) {
        size_t len = fuzz_take_byte(in) << 8;
        len |= fuzz_take_byte(in);
        clips[i] = fuzz_rest(in);
        clips[i].len = len < clips[i].len ? len : clips[i].len;
        for (size_t k = 0; k < clips[i].len; k++)
            (void)fuzz_take_byte(in);
    }
    clips[n - 1] = fuzz_rest(in);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    enum join_format format = (enum join_format)fuzz_take_choice(&in, JOIN_OGG_OPUS + 1);
    struct fuzz_pieces pieces = fuzz_take_pieces(&in);
    struct span clips[CLIPS_MAX];
    size_t n_clips = take_clips(&in, clips);
    struct buf whole, cut, again;

    int r = join_all(format, clips, n_clips, NULL, &whole);
    int r_cut = join_all(format, clips, n_clips, &pieces, &cut);
    fuzz_check(r == r_cut, "cuts change no end");
    fuzz_check(r != 0 || span_eq(buf_span(&whole), buf_span(&cut)), "cuts change no byte");
    /* MP3 frames that only look like a tag after the first pass may go in a second. */
    if (r == 0 && format != JOIN_MP3 && whole.len > 0) {
        struct span joined = buf_span(&whole);
        int r_again = join_all(format, &joined, 1, &pieces, &again);
        fuzz_check(r_again == 0 && span_eq(buf_span(&again), joined), "a joined file is one clip");
        buf_free(&again);
    }
    buf_free(&whole);
    buf_free(&cut);
    return 0;
}
