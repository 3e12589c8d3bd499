/*
 * Token counts and lengths of audio, as providers report them in their various shapes
 * (`usage` of OpenAI and its compatibles, DeepSeek, Moonshot, Anthropic); and the one rule
 * by which tokens are estimated where a reply broke off before its upstream had counted.
 *
 * The rule: a character is a quarter of a token; one from U+2E80 on (Chinese, Japanese,
 * Korean, emoji) is three quarters; the sum is rounded up. Of the reply the texts count
 * that went to the caller (content, refusal, reasoning, names and arguments of calls), of the
 * request those of its messages and the definitions of its tools. What the upstream did count
 * stays. It is near what is published, 4 characters of English a token (OpenAI, "What are
 * tokens and how to count them?") and 0.6 tokens a Chinese character (DeepSeek, "Token & Token
 * Usage"), and near what o200k_base makes of article 1 of the Universal Declaration of Human
 * Rights: tokens a character 0.19 of English, 0.24 of German, 0.26 of Russian, 0.81 of Chinese,
 * 0.85 of Japanese, 0.59 of Korean.
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

/* What a text adds to an estimate, in quarters of a token. The text is a JSON string's, as
 * written, without its quotes: an escape is the character that it stands for. */
uint64_t usage_estimate_text(struct span text);

/* Puts an estimate, in quarters of a token, where the provider counted nothing; 0: there is
 * nothing to go by. Whether it put any. */
bool usage_fill(struct usage *usage, uint64_t input_quarters, uint64_t output_quarters);

#endif
