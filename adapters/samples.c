#include "adapters/samples.h"

#include "adapters/wav.h"

enum { HEAD_BYTES = 64 };

enum adapter_step samples_give(struct adapter_call *call, struct span samples, uint32_t rate_hz)
{
    enum adapter_step step = ADAPTER_MORE;
    if (samples.len > 0 && call->audio_bytes == 0 && strcmp(call->format->name, "wav") == 0) {
        struct buf head;
        buf_init(&head, HEAD_BYTES);
        wav_write_pcm16_head(&head, rate_hz);
        step = adapter_give(call, buf_span(&head));
        buf_free(&head);
    }
    return step == ADAPTER_MORE ? adapter_give(call, samples) : step;
}

const char *samples_type(uint32_t rate_hz)
{
    static const struct {
        uint32_t rate_hz;
        const char *type;
    } rows[] = {
        { 8000, "audio/pcm;rate=8000" },   { 16000, "audio/pcm;rate=16000" },
        { 22050, "audio/pcm;rate=22050" }, { 32000, "audio/pcm;rate=32000" },
        { 44100, "audio/pcm;rate=44100" }, { 48000, "audio/pcm;rate=48000" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].rate_hz == rate_hz)
            return rows[i].type;
    return NULL;
}
