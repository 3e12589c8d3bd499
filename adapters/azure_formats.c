/* The output formats of Azure's speech service, as it documents them. */
#include "adapters/azure_formats.h"

#include <stddef.h>

/* What OpenAI's names stand for comes first; its pcm is exactly the one named here. */
const struct adapter_format azure_formats[AZURE_FORMATS_COUNT] = {
    { "mp3", "audio-24khz-96kbitrate-mono-mp3", "audio/mpeg" },
    { "opus", "ogg-24khz-16bit-mono-opus", "audio/ogg" },
    { "wav", "riff-24khz-16bit-mono-pcm", "audio/wav" },
    { "pcm", "raw-24khz-16bit-mono-pcm", "audio/pcm" },
    { "audio-16khz-16bit-32kbps-mono-opus", "audio-16khz-16bit-32kbps-mono-opus", "audio/opus" },
    { "audio-16khz-32kbitrate-mono-mp3", "audio-16khz-32kbitrate-mono-mp3", "audio/mpeg" },
    { "audio-16khz-64kbitrate-mono-mp3", "audio-16khz-64kbitrate-mono-mp3", "audio/mpeg" },
    { "audio-16khz-128kbitrate-mono-mp3", "audio-16khz-128kbitrate-mono-mp3", "audio/mpeg" },
    { "audio-24khz-16bit-24kbps-mono-opus", "audio-24khz-16bit-24kbps-mono-opus", "audio/opus" },
    { "audio-24khz-16bit-48kbps-mono-opus", "audio-24khz-16bit-48kbps-mono-opus", "audio/opus" },
    { "audio-24khz-48kbitrate-mono-mp3", "audio-24khz-48kbitrate-mono-mp3", "audio/mpeg" },
    { "audio-24khz-96kbitrate-mono-mp3", "audio-24khz-96kbitrate-mono-mp3", "audio/mpeg" },
    { "audio-24khz-160kbitrate-mono-mp3", "audio-24khz-160kbitrate-mono-mp3", "audio/mpeg" },
    { "audio-48khz-96kbitrate-mono-mp3", "audio-48khz-96kbitrate-mono-mp3", "audio/mpeg" },
    { "audio-48khz-192kbitrate-mono-mp3", "audio-48khz-192kbitrate-mono-mp3", "audio/mpeg" },
    { "ogg-16khz-16bit-mono-opus", "ogg-16khz-16bit-mono-opus", "audio/ogg" },
    { "ogg-24khz-16bit-mono-opus", "ogg-24khz-16bit-mono-opus", "audio/ogg" },
    { "ogg-48khz-16bit-mono-opus", "ogg-48khz-16bit-mono-opus", "audio/ogg" },
    { "webm-16khz-16bit-mono-opus", "webm-16khz-16bit-mono-opus", "audio/webm" },
    { "webm-24khz-16bit-24kbps-mono-opus", "webm-24khz-16bit-24kbps-mono-opus", "audio/webm" },
    { "webm-24khz-16bit-mono-opus", "webm-24khz-16bit-mono-opus", "audio/webm" },
    { "riff-8khz-8bit-mono-alaw", "riff-8khz-8bit-mono-alaw", "audio/wav" },
    { "riff-8khz-8bit-mono-mulaw", "riff-8khz-8bit-mono-mulaw", "audio/wav" },
    { "riff-8khz-16bit-mono-pcm", "riff-8khz-16bit-mono-pcm", "audio/wav" },
    { "riff-22050hz-16bit-mono-pcm", "riff-22050hz-16bit-mono-pcm", "audio/wav" },
    { "riff-24khz-16bit-mono-pcm", "riff-24khz-16bit-mono-pcm", "audio/wav" },
    { "riff-44100hz-16bit-mono-pcm", "riff-44100hz-16bit-mono-pcm", "audio/wav" },
    { "riff-48khz-16bit-mono-pcm", "riff-48khz-16bit-mono-pcm", "audio/wav" },
    { "riff-16khz-16bit-mono-pcm", "riff-16khz-16bit-mono-pcm", "audio/wav" },
    { "raw-8khz-8bit-mono-alaw", "raw-8khz-8bit-mono-alaw", "audio/x-alaw-basic" },
    { "raw-8khz-8bit-mono-mulaw", "raw-8khz-8bit-mono-mulaw", "audio/x-mulaw-basic" },
    { "raw-8khz-16bit-mono-pcm", "raw-8khz-16bit-mono-pcm", "audio/pcm;rate=8000" },
    { "raw-16khz-16bit-mono-pcm", "raw-16khz-16bit-mono-pcm", "audio/pcm;rate=16000" },
    { "raw-16khz-16bit-mono-truesilk", "raw-16khz-16bit-mono-truesilk", "audio/silk" },
    { "raw-22050hz-16bit-mono-pcm", "raw-22050hz-16bit-mono-pcm", "audio/pcm;rate=22050" },
    { "raw-24khz-16bit-mono-pcm", "raw-24khz-16bit-mono-pcm", "audio/pcm" },
    { "raw-24khz-16bit-mono-truesilk", "raw-24khz-16bit-mono-truesilk", "audio/silk" },
    { "raw-44100hz-16bit-mono-pcm", "raw-44100hz-16bit-mono-pcm", "audio/pcm;rate=44100" },
    { "raw-48khz-16bit-mono-pcm", "raw-48khz-16bit-mono-pcm", "audio/pcm;rate=48000" },
    { "amr-wb-16000hz", "amr-wb-16000hz", "audio/amr-wb" },
    { "g722-16khz-64kbps", "g722-16khz-64kbps", "audio/G722" },
};

const char *const azure_format_names[] = {
    "audio-16khz-16bit-32kbps-mono-opus",
    "audio-16khz-32kbitrate-mono-mp3",
    "audio-16khz-64kbitrate-mono-mp3",
    "audio-16khz-128kbitrate-mono-mp3",
    "audio-24khz-16bit-24kbps-mono-opus",
    "audio-24khz-16bit-48kbps-mono-opus",
    "audio-24khz-48kbitrate-mono-mp3",
    "audio-24khz-96kbitrate-mono-mp3",
    "audio-24khz-160kbitrate-mono-mp3",
    "audio-48khz-96kbitrate-mono-mp3",
    "audio-48khz-192kbitrate-mono-mp3",
    "ogg-16khz-16bit-mono-opus",
    "ogg-24khz-16bit-mono-opus",
    "ogg-48khz-16bit-mono-opus",
    "webm-16khz-16bit-mono-opus",
    "webm-24khz-16bit-24kbps-mono-opus",
    "webm-24khz-16bit-mono-opus",
    "riff-8khz-8bit-mono-alaw",
    "riff-8khz-8bit-mono-mulaw",
    "riff-8khz-16bit-mono-pcm",
    "riff-22050hz-16bit-mono-pcm",
    "riff-24khz-16bit-mono-pcm",
    "riff-44100hz-16bit-mono-pcm",
    "riff-48khz-16bit-mono-pcm",
    "riff-16khz-16bit-mono-pcm",
    "raw-8khz-8bit-mono-alaw",
    "raw-8khz-8bit-mono-mulaw",
    "raw-8khz-16bit-mono-pcm",
    "raw-16khz-16bit-mono-pcm",
    "raw-16khz-16bit-mono-truesilk",
    "raw-22050hz-16bit-mono-pcm",
    "raw-24khz-16bit-mono-pcm",
    "raw-24khz-16bit-mono-truesilk",
    "raw-44100hz-16bit-mono-pcm",
    "raw-48khz-16bit-mono-pcm",
    "amr-wb-16000hz",
    "g722-16khz-64kbps",
    NULL,
};

const struct adapter_format *azure_format_find(struct span name)
{
    for (size_t i = 0; i < AZURE_FORMATS_COUNT; i++)
        if (span_is(name, azure_formats[i].name))
            return &azure_formats[i];
    return NULL;
}
