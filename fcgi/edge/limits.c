#include "fcgi/edge/limits.h"

#include <inttypes.h>

#include "core/base/clock.h"
#include "core/log/log.h"

enum { WINDOW_S = WINDOW_US / 1000000, QUARTERS = 4 };

/* How each meter is shown. */
static const struct meter_row {
    const char *unit;    /* of the draft's registry, or our own */
    bool is_per_minute;  /* its limit is of a window */
    const char *refusal; /* of printf, for the limit and the seconds to wait */
} meters[METERS] = {
    [METER_CONCURRENCY] = { "concurrent-requests", false,
                            "Your key may have %" PRIu64 " requests in hand at the same time: try again "
                            "when one has ended." },
    [METER_REQUESTS] = { "requests", true,
                         "Your key may make %" PRIu64 " requests a minute: try again in %u s." },
    [METER_TOKENS] = { "tokens", true, "Your key may use %" PRIu64 " tokens a minute: try again in %u s." },
};

/* --- what replies say --- */

/* Whole seconds until the window ends; of concurrency nobody knows. */
static unsigned reset_s(const struct admission *admission)
{
    return (unsigned)((admission->window_left_us + US_PER_S - 1) / US_PER_S);
}

static void write_policy(const struct admission *admission, enum meter meter, struct buf *head)
{
    buf_printf(head, "\"%s\";q=%" PRIu64, meter_name(meter), admission->limits[meter]);
    if (meters[meter].is_per_minute)
        buf_printf(head, ";w=%d", WINDOW_S);
    buf_printf(head, ";qu=\"%s\"", meters[meter].unit);
}

static void write_state(const struct admission *admission, enum meter meter, struct buf *head)
{
    buf_printf(head, "\"%s\";r=%" PRIu64, meter_name(meter), admission_remaining(admission, meter));
    if (meters[meter].is_per_minute)
        buf_printf(head, ";t=%u", reset_s(admission));
}

/* One line, with what `write` says of each meter that is limited. */
static void write_list(const char *name, const struct admission *admission, struct buf *head,
                       void (*write)(const struct admission *admission, enum meter meter, struct buf *head))
{
    const char *separator = ": ";

    buf_append_cstr(head, name);
    for (enum meter i = METER_CONCURRENCY; i < METERS; i++) {
        if (admission->limits[i] == 0)
            continue;
        buf_append_cstr(head, separator);
        write(admission, i, head);
        separator = ", ";
    }
    buf_append_cstr(head, "\r\n");
}

/* Of the minute's limits, the one of which the smallest part is left. METERS: there is none. */
static enum meter find_nearest(const struct admission *admission)
{
    enum meter nearest = METERS;
    for (enum meter i = METER_CONCURRENCY; i < METERS; i++) {
        uint64_t limit = admission->limits[i];
        if (limit > 0 && meters[i].is_per_minute &&
            (nearest == METERS || admission_remaining(admission, i) * admission->limits[nearest] <
                                      admission_remaining(admission, nearest) * limit))
            nearest = i;
    }
    return nearest;
}

static void write_draft_three(const struct admission *admission, struct buf *head)
{
    enum meter nearest = find_nearest(admission);
    if (nearest != METERS)
        buf_printf(head,
                   "RateLimit-Limit: %" PRIu64 "\r\nRateLimit-Remaining: %" PRIu64
                   "\r\nRateLimit-Reset: %u\r\n",
                   admission->limits[nearest], admission_remaining(admission, nearest), reset_s(admission));
}

static void write_openai(const struct admission *admission, struct buf *head)
{
    for (enum meter i = METER_CONCURRENCY; i < METERS; i++) {
        const char *name = meter_name(i);
        if (meters[i].is_per_minute && admission->limits[i] > 0)
            buf_printf(head,
                       "x-ratelimit-limit-%s: %" PRIu64 "\r\nx-ratelimit-remaining-%s: %" PRIu64
                       "\r\nx-ratelimit-reset-%s: %us\r\n",
                       name, admission->limits[i], name, admission_remaining(admission, i), name,
                       reset_s(admission));
    }
}

static void read_limits(const struct snap_principal *principal, uint64_t out[METERS])
{
    out[METER_CONCURRENCY] = principal->limits.concurrency;
    out[METER_REQUESTS] = principal->limits.requests_per_minute;
    out[METER_TOKENS] = principal->limits.tokens_per_minute;
}

/* As things stood when the request was let in, or refused; of others, as they stand. */
static void add_headers(void *ctx, struct buf *head)
{
    struct turn *turn = ctx;
    struct admission *admission = &turn->admission;
    uint64_t limits[METERS];

    read_limits(turn->principal, limits);
    if (!turn->has_asked)
        admit_look(&turn->worker->admit, admit_caller(turn->principal->sha256), limits, admission);
    write_list("RateLimit-Policy", admission, head, write_policy);
    write_list("RateLimit", admission, head, write_state);
    write_draft_three(admission, head);
    write_openai(admission, head);
}

void limits_begin(struct turn *turn)
{
    uint64_t limits[METERS];

    read_limits(turn->principal, limits);
    if (!admit_is_limited(limits))
        return;
    turn->reply.add_headers = add_headers;
    turn->reply.add_headers_ctx = turn;
}

/* --- letting in --- */

static void report_counting(const struct turn *turn)
{
    struct telemetry *telemetry = &turn->worker->process->mapping->telemetry;
    const struct admit *admit = &turn->worker->admit;
    const struct admission *admission = &turn->admission;
    bool has_window = admission->limits[METER_REQUESTS] > 0 || admission->limits[METER_TOKENS] > 0;

    if (admission->redis == REDIS_LOST)
        log_line(LOG_WARN, "limits_alone", "Redis: %s; this instance counts callers' minutes alone",
                 redis_client_trouble(admit->redis));
    else if (admission->redis == REDIS_BACK)
        log_line(LOG_INFO, "limits_shared", "Redis counts callers' minutes again");
    if (admit->redis != NULL && has_window && admission->refused != METER_CONCURRENCY &&
        !admission->is_in_redis)
        telemetry_add(telemetry, METRIC_LIMITS_ALONE, 0, 1);
    if (admission->is_uncounted)
        telemetry_add(telemetry, METRIC_LIMITS_UNCOUNTED, 0, 1);
}

static void refuse(struct turn *turn)
{
    const struct admission *admission = &turn->admission;
    unsigned wait_s = admission_retry_after_s(admission);

    turn_fail(turn, &(struct failure){
                        .kind = FAILURE_CALLER_THROTTLED,
                        .message = arena_printf(turn->request.arena, meters[admission->refused].refusal,
                                                admission->limits[admission->refused], wait_s),
                        .retry_after_s = wait_s,
                    });
}

bool limits_admit(struct turn *turn, const struct dialect *dialect, const struct request_facts *facts)
{
    uint64_t limits[METERS], tokens = 0;

    if (turn->principal == NULL)
        return true;
    read_limits(turn->principal, limits);
    if (!admit_is_limited(limits))
        return true;
    if (limits[METER_TOKENS] > 0 && dialect->estimate_request != NULL)
        tokens = (dialect->estimate_request(facts) + QUARTERS - 1) / QUARTERS;
    turn->has_asked = true;
    bool is_admitted = admit_request(&turn->worker->admit, admit_caller(turn->principal->sha256), limits,
                                     tokens, &turn->admission);
    report_counting(turn);
    if (!is_admitted)
        refuse(turn);
    return is_admitted;
}

/* --- what it took --- */

static uint64_t count_tokens(const struct usage *usage)
{
    return (uint64_t)(usage->input > 0 ? usage->input : 0) +
           (uint64_t)(usage->output > 0 ? usage->output : 0);
}

static void note(struct request_event *event, const struct admission *admission, bool is_cancelled)
{
    const uint64_t settled[METERS] = { 1, 1, count_tokens(&event->usage) };

    for (enum meter i = METER_CONCURRENCY; i < METERS; i++) {
        bool is_refused = admission->refused != METERS;
        if (admission->limits[i] == 0)
            continue;
        struct admission_event *out = &event->admissions[event->n_admissions++];
        *out = (struct admission_event){ .meter = meter_name(i), .held = admission->taken[i] };
        if (!is_refused && !is_cancelled)
            out->settled = settled[i];
        if (is_refused)
            out->result = i == admission->refused ? "refused" : "";
        else
            out->result = is_cancelled ? "cancelled" : "settled";
        out->where = i == METER_CONCURRENCY ? "scoreboard" : admission->is_in_redis ? "redis" : "mapping";
    }
}

void limits_settle(struct turn *turn)
{
    const struct admit *admit = &turn->worker->admit;
    bool is_cancelled = turn->event->n_attempts == 0;

    if (!turn->has_asked)
        return;
    note(turn->event, &turn->admission, is_cancelled);
    if (is_cancelled)
        admit_cancel(admit, &turn->admission);
    else
        admit_settle(admit, &turn->admission, count_tokens(&turn->event->usage));
}
