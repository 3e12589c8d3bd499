#include "core/record/usage.h"

#include <stddef.h>

#include "core/json/scan.h"

void usage_init(struct usage *usage)
{
    *usage = (struct usage){ false, -1, -1, -1, -1, -1, -1, -1 };
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
    { "completion_tokens_details.audio_tokens", offsetof(struct usage, audio_out) },
};

enum { N_PLACES = sizeof(places) / sizeof(places[0]) };

void usage_read(struct span object, struct usage *usage)
{
    struct json_want wants[N_PLACES];
    struct json_value found[N_PLACES];

    for (size_t i = 0; i < N_PLACES; i++)
        wants[i] = (struct json_want){ .path = places[i].path };
    if (json_find(object, wants, N_PLACES, 0, found, NULL) != 0)
        return;
    for (size_t i = 0; i < N_PLACES; i++) {
        long long count;
        if (found[i].kind != JSON_KIND_NUMBER || !json_int(found[i].raw, &count) || count < 0)
            continue;
        *(int64_t *)(void *)((char *)usage + places[i].count) = count;
        usage->present = true;
    }
}
