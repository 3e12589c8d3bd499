#include "adapters/wav.h"

static const uint32_t UNKNOWN = UINT32_MAX;

/* Little endian. */
static void put(struct buf *out, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        buf_append_char(out, (char)(value >> 8 * i & 0xFF));
}

void wav_write_head(struct buf *out, struct span format)
{
    buf_append_cstr(out, "RIFF");
    put(out, UNKNOWN, 4);
    buf_append_cstr(out, "WAVEfmt ");
    put(out, (uint32_t)format.len, 4);
    buf_append_span(out, format);
    if (format.len % 2 != 0)
        put(out, 0, 1);
    buf_append_cstr(out, "data");
    put(out, UNKNOWN, 4);
}

void wav_write_pcm16_head(struct buf *out, uint32_t rate_hz)
{
    enum { FORMAT_BYTES = 16, PCM = 1, CHANNELS = 1, SAMPLE_BYTES = 2 };
    struct buf format;
    buf_init(&format, FORMAT_BYTES);
    put(&format, PCM, 2);
    put(&format, CHANNELS, 2);
    put(&format, rate_hz, 4);
    put(&format, rate_hz * SAMPLE_BYTES, 4);
    put(&format, SAMPLE_BYTES, 2);
    put(&format, SAMPLE_BYTES * 8, 2);
    wav_write_head(out, buf_span(&format));
    buf_free(&format);
}
