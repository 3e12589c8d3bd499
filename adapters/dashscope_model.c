#include "adapters/dashscope_model.h"

#include <stddef.h>

#define SYNTHESIZER "/api/v1/services/audio/tts/SpeechSynthesizer"
#define GENERATION "/api/v1/services/aigc/multimodal-generation/generation"

/* Qwen-TTS's own bound of characters; the older qwen-tts counts tokens, which only it can. */
enum { QWEN_CHARACTERS = 600 };

/* The first that fits decides; the last fits all. */
static const struct dashscope_model models[] = {
    { "", "-realtime", DASHSCOPE_QWEN, NULL, false, 0 },
    { "sambert", "", DASHSCOPE_COSYVOICE, NULL, false, 0 },
    { "cosyvoice-v1", "", DASHSCOPE_COSYVOICE, NULL, false, 0 },
    { "cosyvoice-v2", "", DASHSCOPE_COSYVOICE, SYNTHESIZER, false, 0 },
    { "cosyvoice-", "", DASHSCOPE_COSYVOICE, SYNTHESIZER, true, 0 },
    { "qwen-audio-", "", DASHSCOPE_COSYVOICE, SYNTHESIZER, true, 0 },
    { "qwen3-tts-instruct", "", DASHSCOPE_QWEN, GENERATION, true, QWEN_CHARACTERS },
    { "qwen3-tts", "", DASHSCOPE_QWEN, GENERATION, false, QWEN_CHARACTERS },
    { "qwen-tts", "", DASHSCOPE_QWEN, GENERATION, false, 0 },
    { "", "", DASHSCOPE_COSYVOICE, SYNTHESIZER, true, 0 },
};

static bool span_ends(struct span text, const char *suffix)
{
    size_t len = strlen(suffix);
    return text.len >= len && (len == 0 || memcmp(text.ptr + text.len - len, suffix, len) == 0);
}

const struct dashscope_model *dashscope_model_of(struct span name)
{
    const struct dashscope_model *model = models;
    while (!span_starts(name, model->prefix) || !span_ends(name, model->suffix))
        model++;
    return model;
}
