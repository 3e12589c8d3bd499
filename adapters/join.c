#include "adapters/join_internal.h"

enum { PCM16_BYTES = 2 };

int join_samples_feed(struct join_samples *samples, struct span piece, const struct join_sink *sink)
{
    int r = 0;
    while (samples->n_part > 0 && samples->n_part < samples->sample_bytes && piece.len > 0) {
        samples->part[samples->n_part++] = (unsigned char)piece.ptr[0];
        piece = span_of(piece.ptr + 1, piece.len - 1);
    }
    if (samples->n_part == samples->sample_bytes) {
        r = join_give(sink, span_of((const char *)samples->part, samples->n_part));
        samples->n_part = 0;
    }
    if (r != 0 || piece.len == 0)
        return r;
    size_t rest = piece.len % samples->sample_bytes;
    memcpy(samples->part, piece.ptr + piece.len - rest, rest);
    samples->n_part = rest;
    return join_give(sink, span_of(piece.ptr, piece.len - rest));
}

static void pcm_init(struct join *join)
{
    join->u.samples.sample_bytes = PCM16_BYTES;
}

static void pcm_free(struct join *join)
{
    join->u.samples.n_part = 0;
}

static int pcm_feed(struct join *join, struct span piece, const struct join_sink *sink)
{
    return join_samples_feed(&join->u.samples, piece, sink);
}

static int pcm_end_clip(struct join *join, bool is_last, const struct join_sink *sink)
{
    (void)is_last;
    (void)sink;
    join->u.samples.n_part = 0; /* half a sample is nothing */
    return 0;
}

static const struct join_functions join_pcm = { pcm_init, pcm_free, pcm_feed, pcm_end_clip };

static const struct join_functions *const FORMATS[] = {
    [JOIN_PCM16] = &join_pcm,
    [JOIN_MP3] = &join_mp3,
    [JOIN_WAV] = &join_wav,
    [JOIN_OGG_OPUS] = &join_ogg,
};

void join_init(struct join *join, enum join_format format)
{
    memset(join, 0, sizeof(*join));
    join->format = format;
    join->is_first = true;
    FORMATS[format]->init(join);
}

void join_free(struct join *join)
{
    FORMATS[join->format]->free(join);
}

int join_feed(struct join *join, struct span piece, const struct join_sink *sink)
{
    return piece.len == 0 ? 0 : FORMATS[join->format]->feed(join, piece, sink);
}

int join_end_clip(struct join *join, bool is_last, const struct join_sink *sink)
{
    int r = FORMATS[join->format]->end_clip(join, is_last, sink);
    join->is_first = false;
    return r;
}
