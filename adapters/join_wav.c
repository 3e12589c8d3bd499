/*
 * WAV: the data of all clips behind one head. Its lengths are left open, because
 * they are known only when the last clip has come, and the first goes out before.
 */
#include "core/base/err.h"

#include "adapters/join_internal.h"
#include "adapters/wav.h"

enum {
    HEAD_BYTES = 64 * 1024, /* of a clip up to its data: some write lists of texts there */
    RIFF_BYTES = 12,
    CHUNK_BYTES = 8,
    FORMAT_BYTES_MIN = 16,
    OPEN_BYTES_MIN = 0x7FFF0000, /* no length at all: half a day of speech */
};

static void wav_init(struct join *join)
{
    buf_init(&join->u.wav.held, HEAD_BYTES);
}

static void wav_free(struct join *join)
{
    buf_free(&join->u.wav.held);
}

static uint32_t get(const char *p, size_t bytes)
{
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint32_t)(unsigned char)p[i] << 8 * i;
    return value;
}

/* Takes the clip's format; only the first one's is written. */
static int take_format(struct join *join, struct span format, const struct join_sink *sink)
{
    struct join_wav *wav = &join->u.wav;
    if (!join->is_first)
        return span_eq(format, span_of((const char *)wav->format, wav->format_len)) ? 0 : ERR_FORMAT;
    if (format.len < FORMAT_BYTES_MIN || format.len > sizeof(wav->format))
        return ERR_FORMAT;
    size_t sample_bytes = get(format.ptr + 12, 2);
    if (sample_bytes == 0 || sample_bytes > sizeof(wav->samples.part))
        return ERR_FORMAT;
    memcpy(wav->format, format.ptr, format.len);
    wav->format_len = format.len;
    wav->samples.sample_bytes = sample_bytes;

    struct buf head;
    buf_init(&head, HEAD_BYTES);
    wav_write_head(&head, format);
    int r = join_give(sink, buf_span(&head));
    buf_free(&head);
    return r;
}

/* Looks through what is held of a clip's head; *data_at is where its data begins, 0 if that has not come. */
static int read_head(struct join *join, const struct join_sink *sink, size_t *data_at)
{
    struct join_wav *wav = &join->u.wav;
    struct span head = buf_span(&wav->held), format = span_of(NULL, 0);
    size_t at = RIFF_BYTES;

    *data_at = 0;
    if (head.len < RIFF_BYTES)
        return 0;
    if (memcmp(head.ptr, "RIFF", 4) != 0 || memcmp(head.ptr + 8, "WAVE", 4) != 0)
        return ERR_FORMAT;
    while (head.len - at >= CHUNK_BYTES) {
        const char *chunk = head.ptr + at;
        size_t size = get(chunk + 4, 4);
        at += CHUNK_BYTES;
        if (memcmp(chunk, "data", 4) == 0) {
            *data_at = at;
            /* Nothing or nonsense where its writer could not go back: then it is all that follows. */
            wav->left = size == 0 || size >= OPEN_BYTES_MIN ? UINT64_MAX : size;
            return format.len == 0 ? ERR_FORMAT : take_format(join, format, sink);
        }
        if (size > head.len - at || head.len - at - size < size % 2)
            return size > HEAD_BYTES ? ERR_FORMAT : 0;
        if (memcmp(chunk, "fmt ", 4) == 0)
            format = span_of(head.ptr + at, size);
        at += size + size % 2;
    }
    return 0;
}

/* What follows the data of a clip is passed over. */
static int feed_data(struct join_wav *wav, struct span piece, const struct join_sink *sink)
{
    struct span data = span_of(piece.ptr, piece.len < wav->left ? piece.len : (size_t)wav->left);
    if (wav->left != UINT64_MAX)
        wav->left -= data.len;
    return join_samples_feed(&wav->samples, data, sink);
}

static int wav_feed(struct join *join, struct span piece, const struct join_sink *sink)
{
    struct join_wav *wav = &join->u.wav;
    size_t data_at;

    if (wav->is_in_data)
        return feed_data(wav, piece, sink);
    /* A byte beyond the bound is enough to know that this is no head. */
    size_t room = wav->held.limit - wav->held.len;
    size_t n = piece.len < room ? piece.len : room;
    buf_append(&wav->held, piece.ptr, n);
    int r = read_head(join, sink, &data_at);
    if (r != 0 || data_at == 0)
        return r == 0 && n < piece.len ? ERR_FORMAT : r;
    wav->is_in_data = true;
    struct span held = buf_span(&wav->held);
    r = feed_data(wav, span_of(held.ptr + data_at, held.len - data_at), sink);
    buf_clear(&wav->held);
    return r == 0 ? feed_data(wav, span_of(piece.ptr + n, piece.len - n), sink) : r;
}

static int wav_end_clip(struct join *join, bool is_last, const struct join_sink *sink)
{
    struct join_wav *wav = &join->u.wav;
    bool has_data = wav->is_in_data;
    (void)is_last;
    (void)sink;
    wav->is_in_data = false;
    wav->samples.n_part = 0;
    buf_clear(&wav->held);
    return has_data ? 0 : ERR_FORMAT;
}

const struct join_functions join_wav = { wav_init, wav_free, wav_feed, wav_end_clip };
