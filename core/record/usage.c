#include "core/record/usage.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

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
    { "input_tokens_details.cached_tokens", offsetof(struct usage, cached_read) },
    { "prompt_tokens_details.cached_tokens", offsetof(struct usage, cached_read) },
    { "cache_creation_input_tokens", offsetof(struct usage, cached_write) },
    { "prompt_tokens_details.cache_creation_input_tokens", offsetof(struct usage, cached_write) }, /* Qwen */
    { "prompt_tokens_details.cache_write_tokens", offsetof(struct usage, cached_write) }, /* OpenRouter */
    { "reasoning_tokens", offsetof(struct usage, reasoning) },                            /* Perplexity */
    { "output_tokens_details.reasoning_tokens", offsetof(struct usage, reasoning) },
    { "completion_tokens_details.reasoning_tokens", offsetof(struct usage, reasoning) },
    { "prompt_tokens_details.audio_tokens", offsetof(struct usage, audio_in) },
    { "input_token_details.audio_tokens", offsetof(struct usage, audio_in) }, /* of transcriptions */
    { "completion_tokens_details.audio_tokens", offsetof(struct usage, audio_out) },
};

enum { N_PLACES = sizeof(places) / sizeof(places[0]) };

enum { SECONDS_MAX = 10 * 365 * 86400 }; /* no audio is longer */

/* No request has more: what says so is no usage, and could not be added up. */
#define COUNT_MAX INT64_C(1000000000000000)

void usage_read_seconds(struct span number, struct usage *usage)
{
    double seconds;

    if (!json_number(number, &seconds) || seconds < 0 || seconds > SECONDS_MAX)
        return;
    usage->audio_ms = (int64_t)(seconds * 1000 + 0.5);
    usage->present = true;
}

static struct json_want wants[N_PLACES + 1]; /* the counts' places, and "seconds" */
static struct json_paths paths;
static pthread_once_t paths_once = PTHREAD_ONCE_INIT;

static void take_paths_apart(void)
{
    for (size_t i = 0; i < N_PLACES; i++)
        wants[i] = (struct json_want){ .path = places[i].path };
    wants[N_PLACES] = (struct json_want){ .path = "seconds" };
    json_paths_init(&paths, wants, N_PLACES + 1);
}

struct reading {
    int64_t counts[N_PLACES]; /* -1: it has none there */
    struct span seconds;
};

static int on_value(void *ctx, const struct json_value *value)
{
    struct reading *r = ctx;
    bool is_number = value->kind == JSON_KIND_NUMBER;
    long long count;

    if (value->path == N_PLACES)
        r->seconds = is_number ? value->raw : (struct span){ NULL, 0 };
    else
        r->counts[value->path] =
            is_number && json_int(value->raw, &count) && count >= 0 && count <= COUNT_MAX ? count : -1;
    return 0;
}

void usage_read(struct span object, struct usage *usage)
{
    struct reading r = { .seconds = { NULL, 0 } };

    (void)pthread_once(&paths_once, take_paths_apart);
    for (size_t i = 0; i < N_PLACES; i++)
        r.counts[i] = -1;
    if (json_scan_paths(object, &paths, 0, on_value, &r, NULL) != 0)
        return;
    if (r.seconds.len > 0)
        usage_read_seconds(r.seconds, usage);
    for (size_t i = 0; i < N_PLACES; i++) {
        if (r.counts[i] < 0)
            continue;
        *(int64_t *)(void *)((char *)usage + places[i].count) = r.counts[i];
        usage->present = true;
    }
}

/* --- estimates --- */

enum { QUARTERS_OF_NARROW = 1, QUARTERS_OF_WIDE = 3, WIDE_FROM = 0x2E80 };

static unsigned quarters_of(unsigned code)
{
    return code < WIDE_FROM ? QUARTERS_OF_NARROW : QUARTERS_OF_WIDE;
}

/* Of the character behind "\\u". The second half of a pair adds nothing to the first. */
static unsigned quarters_of_escape(const char *digits)
{
    unsigned code = 0;
    for (size_t i = 0; i < 4; i++) {
        unsigned c = (unsigned char)digits[i];
        code = code * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return code >= 0xDC00 && code <= 0xDFFF ? 0 : quarters_of(code);
}

/* Eight bytes that are eight characters of ASCII, none of them a backslash. */
static bool is_plain(const char *bytes)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
    uint64_t x;

    memcpy(&x, bytes, sizeof(x));
    return ((x | ((x ^ (ones * '\\')) - ones)) & highs) == 0;
}

/* By its first two bytes, which tell enough; of those that follow, nothing. */
static unsigned quarters_of_utf8(struct span text)
{
    unsigned first = (unsigned char)text.ptr[0];
    if ((first & 0xC0) == 0x80)
        return 0;
    if (first < 0xE0 || text.len < 2)
        return QUARTERS_OF_NARROW;
    unsigned second = (unsigned char)text.ptr[1];
    return quarters_of(first < 0xF0 ? (first & 0x0F) << 12 | (second & 0x3F) << 6 : WIDE_FROM);
}

uint64_t usage_estimate_text(struct span text)
{
    uint64_t quarters = 0;
    size_t i = 0;

    while (i < text.len) {
        struct span rest = span_of(text.ptr + i, text.len - i);
        if (rest.len >= 8 && is_plain(rest.ptr)) {
            quarters += 8 * QUARTERS_OF_NARROW;
            i += 8;
        } else if (rest.len >= 6 && rest.ptr[0] == '\\' && rest.ptr[1] == 'u') {
            quarters += quarters_of_escape(rest.ptr + 2);
            i += 6;
        } else if (rest.ptr[0] == '\\') {
            quarters += QUARTERS_OF_NARROW;
            i += 2;
        } else {
            quarters += quarters_of_utf8(rest);
            i++;
        }
    }
    return quarters;
}

static bool fill(int64_t *count, uint64_t quarters)
{
    if (*count >= 0 || quarters == 0)
        return false;
    *count = (int64_t)((quarters + 3) / 4);
    return true;
}

bool usage_fill(struct usage *usage, uint64_t input_quarters, uint64_t output_quarters)
{
    bool has_input = fill(&usage->input, input_quarters);
    bool has_output = fill(&usage->output, output_quarters);
    usage->present = usage->present || has_input || has_output;
    return has_input || has_output;
}
