#include "admin/ctl/top_recent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"

void recent_init(struct recent *recent, struct arena *arena)
{
    recent->requests.samples = arena_array_of(arena, struct recent_sample, RECENT_SAMPLES);
    recent->attempts.samples = arena_array_of(arena, struct recent_sample, RECENT_SAMPLES);
    recent_clear(recent, 0);
}

void recent_clear(struct recent *recent, uint64_t known_from_us)
{
    recent->requests.n = recent->requests.next = 0;
    recent->attempts.n = recent->attempts.next = 0;
    recent->n_upstreams = 0;
    recent->known_from_us = known_from_us;
}

static enum recent_ending ending_of(const char *end)
{
    static const struct {
        const char *end;
        enum recent_ending ending;
    } rows[] = {
        { "done", RECENT_DONE },
        { "refused", RECENT_REFUSED },
        { "throttled", RECENT_REFUSED },
        { "client_gone", RECENT_LEFT },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(end, rows[i].end) == 0)
            return rows[i].ending;
    return RECENT_FAILED;
}

static enum recent_finding finding_of(const struct attempt_line *attempt)
{
    if (strcmp(attempt->verdict, "ok") == 0 || strcmp(attempt->verdict, "client") == 0)
        return RECENT_NOTHING;
    if (strcmp(attempt->verdict, "cancelled") != 0)
        return RECENT_FAILURE;
    return strcmp(attempt->reason, "hedge_lost") == 0 ? RECENT_BEATEN : RECENT_NOTHING;
}

static uint16_t index_of(struct recent *recent, const char *upstream)
{
    char name[RECENT_NAME_BYTES];
    size_t i;

    snprintf(name, sizeof(name), "%s", upstream);
    for (i = 0; i < recent->n_upstreams; i++)
        if (strcmp(recent->upstreams[i], name) == 0)
            return (uint16_t)i;
    if (i == RECENT_UPSTREAMS_MAX)
        return RECENT_UPSTREAMS_MAX - 1;
    snprintf(recent->upstreams[i], RECENT_NAME_BYTES, "%s", i == RECENT_UPSTREAMS_MAX - 1 ? "_other" : name);
    recent->n_upstreams++;
    return (uint16_t)i;
}

static void put(struct recent *recent, struct recent_ring *ring, const struct recent_sample *sample)
{
    struct recent_sample *place = &ring->samples[ring->next];

    if (ring->n == RECENT_SAMPLES && place->end_us > recent->known_from_us)
        recent->known_from_us = place->end_us;
    *place = *sample;
    ring->next = (ring->next + 1) % RECENT_SAMPLES;
    if (ring->n < RECENT_SAMPLES)
        ring->n++;
}

static uint32_t clamp(uint64_t us)
{
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

void recent_add(struct recent *recent, const struct event_line *event)
{
    struct recent_sample sample = {
        .end_us = event->time_us + event->total_us,
        .first_byte_us = clamp(event->ttft_us),
        .ending = (uint8_t)ending_of(event->end),
    };
    put(recent, &recent->requests, &sample);
    for (size_t i = 0; i < event->n_attempts; i++) {
        const struct attempt_line *attempt = &event->attempts[i];
        sample.first_byte_us = clamp(attempt->first_byte_us);
        sample.upstream = index_of(recent, attempt->upstream);
        sample.ending = (uint8_t)finding_of(attempt);
        put(recent, &recent->attempts, &sample);
    }
}

static int compare_times(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Nearest rank; sorts `times`. */
static struct recent_times summarise(uint32_t *times, size_t n)
{
    if (n == 0)
        return (struct recent_times){ 0, 0 };
    qsort(times, n, sizeof(times[0]), compare_times);
    return (struct recent_times){ times[(n - 1) / 2], times[(n * 95 + 99) / 100 - 1] };
}

static int compare_upstreams(const void *a, const void *b)
{
    const struct recent_upstream *x = a, *y = b;
    if (x->attempts != y->attempts)
        return x->attempts < y->attempts ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void look_at_requests(const struct recent *recent, uint64_t from_us, uint32_t *times,
                             struct recent_view *out)
{
    size_t n_times = 0;

    for (size_t i = 0; i < recent->requests.n; i++) {
        const struct recent_sample *sample = &recent->requests.samples[i];
        if (sample->end_us < from_us)
            continue;
        out->endings[sample->ending]++;
        if (sample->first_byte_us != 0)
            times[n_times++] = sample->first_byte_us;
    }
    out->first_byte = summarise(times, n_times);
}

static void look_at_upstream(const struct recent *recent, size_t upstream, uint64_t from_us, uint32_t *times,
                             struct recent_upstream *out)
{
    size_t n_times = 0;

    *out = (struct recent_upstream){ .name = recent->upstreams[upstream] };
    for (size_t i = 0; i < recent->attempts.n; i++) {
        const struct recent_sample *sample = &recent->attempts.samples[i];
        if (sample->upstream != upstream || sample->end_us < from_us)
            continue;
        out->attempts++;
        out->failures += sample->ending == RECENT_FAILURE;
        out->beaten += sample->ending == RECENT_BEATEN;
        if (sample->first_byte_us != 0)
            times[n_times++] = sample->first_byte_us;
    }
    out->first_byte = summarise(times, n_times);
}

void recent_look(const struct recent *recent, uint64_t now_us, struct arena *arena, struct recent_view *out)
{
    uint32_t *times = arena_array_of(arena, uint32_t, RECENT_SAMPLES);
    uint64_t from_us = now_us - RECENT_SECONDS * US_PER_S;

    if (recent->known_from_us > from_us)
        from_us = recent->known_from_us < now_us ? recent->known_from_us : now_us;
    *out = (struct recent_view){ .seconds = (unsigned)((now_us - from_us) / US_PER_S) };
    out->upstreams = arena_array_of(arena, struct recent_upstream, RECENT_UPSTREAMS_MAX);
    look_at_requests(recent, from_us, times, out);
    for (size_t i = 0; i < recent->n_upstreams; i++) {
        look_at_upstream(recent, i, from_us, times, &out->upstreams[out->n_upstreams]);
        if (out->upstreams[out->n_upstreams].attempts > 0)
            out->n_upstreams++;
    }
    qsort(out->upstreams, out->n_upstreams, sizeof(out->upstreams[0]), compare_upstreams);
}
