#include "core/record/usage.h"

#include <stddef.h>

#include "core/json/scan.h"

void usage_init(struct usage *usage)
{
    *usage = (struct usage){ false, -1, -1, -1, -1, -1, -1, -1, -1 };
}

/* Where each count may stand; of several in one object the last row wins. */
static const struct {
    const char *path;
    size_t count;
} places[] = {
    { "input_tokens", offsetof(struct usage, input) },
    { "prompt_tokens", offsetof(struct usage, input) },
    { "output_tokens", offsetof(struct usage, output) },
    { "completion_tokens", offsetof(struct usage, output) },
    { "cached_tokens", offsetof(struct usage, cached_read) },           /* Moonshot */
    { "prompt_cache_hit_tokens", offsetof(struct usage, cached_read) }, /* DeepSeek */
    { "cache_read_input_tokens", offsetof(struct usage, cached_read) }, /* Anthropic */
    { "prompt_tokens_details.cached_tokens", offsetof(struct usage, cached_read) },
    { "cache_creation_input_tokens", offsetof(struct usage, cached_write) },
    { "completion_tokens_details.reasoning_tokens", offsetof(struct usage, reasoning) },
    { "prompt_tokens_details.audio_tokens", offsetof(struct usage, audio_in) },
    { "input_token_details.audio_tokens", offsetof(struct usage, audio_in) }, /* of transcriptions */
    { "completion_tokens_details.audio_tokens", offsetof(struct usage, audio_out) },
};

enum { N_PLACES = sizeof(places) / sizeof(places[0]) };

enum { SECONDS_MAX = 10 * 365 * 86400 }; /* no audio is longer */

void usage_read_seconds(struct span number, struct usage *usage)
{
    double seconds;

    if (!json_number(number, &seconds) || seconds < 0 || seconds > SECONDS_MAX)
        return;
    usage->audio_ms = (int64_t)(seconds * 1000 + 0.5);
    usage->present = true;
}

void usage_read(struct span object, struct usage *usage)
{
    struct json_want wants[N_PLACES + 1];
    struct json_value found[N_PLACES + 1];

    for (size_t i = 0; i < N_PLACES; i++)
        wants[i] = (struct json_want){ .path = places[i].path };
    wants[N_PLACES] = (struct json_want){ .path = "seconds" };
    if (json_find(object, wants, N_PLACES + 1, 0, found, NULL) != 0)
        return;
    if (found[N_PLACES].kind == JSON_KIND_NUMBER)
        usage_read_seconds(found[N_PLACES].raw, usage);
    for (size_t i = 0; i < N_PLACES; i++) {
        long long count;
        if (found[i].kind != JSON_KIND_NUMBER || !json_int(found[i].raw, &count) || count < 0)
            continue;
        *(int64_t *)(void *)((char *)usage + places[i].count) = count;
        usage->present = true;
    }
}
