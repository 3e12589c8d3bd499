#include "admin/ctl/event_line.h"

#include "core/json/scan.h"

enum kind { TEXT, NUMBER };

/* Where each member of the event goes. */
static const struct place {
    enum kind kind;
    size_t offset; /* in struct event_line, or of an attempt in struct attempt_line */
} places[] = {
    { TEXT, offsetof(struct event_line, request_id) },
    { TEXT, offsetof(struct event_line, trace_id) },
    { TEXT, offsetof(struct event_line, model) },
    { TEXT, offsetof(struct event_line, end) },
    { TEXT, offsetof(struct event_line, code) },
    { NUMBER, offsetof(struct event_line, time_us) },
    { NUMBER, offsetof(struct event_line, total_us) },
    { NUMBER, offsetof(struct event_line, ttft_us) },
    { NUMBER, offsetof(struct event_line, status) },
    { NUMBER, offsetof(struct event_line, fallback_depth) },
    { TEXT, offsetof(struct attempt_line, upstream) },
    { TEXT, offsetof(struct attempt_line, provider) },
    { TEXT, offsetof(struct attempt_line, key_fp) },
    { TEXT, offsetof(struct attempt_line, verdict) },
    { TEXT, offsetof(struct attempt_line, reason) },
    { NUMBER, offsetof(struct attempt_line, status) },
    { NUMBER, offsetof(struct attempt_line, first_byte_us) },
};

enum { N_PLACES = sizeof(places) / sizeof(places[0]), FIRST_OF_ATTEMPT = 10 };

/* In the order of `places`. */
static const struct json_want wants[N_PLACES] = {
    { "request_id", false },
    { "trace_id", false },
    { "model", false },
    { "end", false },
    { "code", false },
    { "time", false },
    { "total_us", false },
    { "ttft_us", false },
    { "status", false },
    { "fallback_depth", false },
    { "attempts.*.upstream", false },
    { "attempts.*.provider", false },
    { "attempts.*.key_fp", false },
    { "attempts.*.verdict", false },
    { "attempts.*.reason", false },
    { "attempts.*.status", false },
    { "attempts.*.first_byte_us", false },
};

struct reading {
    struct arena *arena;
    struct event_line *event;
};

static int take(void *ctx, const struct json_value *value)
{
    const struct reading *reading = ctx;
    const struct place *place = &places[value->path];
    char *base = (char *)reading->event;
    long long number;

    if (value->path >= FIRST_OF_ATTEMPT) {
        if (value->element >= EVENT_ATTEMPTS_MAX)
            return ERR_FORMAT;
        if (value->element >= reading->event->n_attempts)
            reading->event->n_attempts = value->element + 1;
        base = (char *)&reading->event->attempts[value->element];
    }
    if (place->kind == TEXT && value->kind == JSON_KIND_STRING) {
        const char *text = json_decode(reading->arena, value->raw).ptr;
        memcpy(base + place->offset, &text, sizeof(text));
    } else if (place->kind == NUMBER && value->kind == JSON_KIND_NUMBER && json_int(value->raw, &number) &&
               number >= 0) {
        uint64_t n = (uint64_t)number;
        memcpy(base + place->offset, &n, sizeof(n));
    } else {
        return ERR_FORMAT;
    }
    return 0;
}

int event_line_read(struct span line, struct arena *arena, struct event_line *out)
{
    static const struct attempt_line silent = { "", "", "", "", "", 0, 0 };
    const struct reading reading = { arena, out };

    *out = (struct event_line){ "", "", "", "", "", 0, 0, 0, 0, -1, .n_attempts = 0 };
    for (size_t i = 0; i < EVENT_ATTEMPTS_MAX; i++)
        out->attempts[i] = silent;
    int r = json_scan(line, wants, N_PLACES, 0, take, (void *)(uintptr_t)&reading, NULL);
    return r == 0 && out->time_us != 0 ? 0 : ERR_FORMAT;
}
