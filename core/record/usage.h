/*
 * Token counts and lengths of audio, as providers report them in their various shapes
 * (`usage` of OpenAI and its compatibles, DeepSeek, Moonshot, Anthropic).
 */
#ifndef CORE_RECORD_USAGE_H
#define CORE_RECORD_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/span.h"

/* Counts of tokens, and the audio that was heard; -1 where the provider said nothing. */
struct usage {
    bool present;
    int64_t input, output;
    int64_t cached_read, cached_write;
    int64_t reasoning;
    int64_t audio_in, audio_out;
    int64_t audio_ms; /* not tokens: how long the audio is */
};

void usage_init(struct usage *usage);

/* Reads a usage object, or one of a duration: {"type":"duration","seconds"}. Later counts replace earlier
 * ones, never add: providers repeat running totals. An object that holds no known count changes nothing. */
void usage_read(struct span object, struct usage *usage);

/* A JSON number of seconds becomes audio_ms; what no audio lasts changes nothing. */
void usage_read_seconds(struct span number, struct usage *usage);

#endif
