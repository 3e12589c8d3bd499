#include "core/admit/admit.h"

#include <string.h>

#include "core/admit/shared_windows.h"
#include "core/base/clock.h"

const char *meter_name(enum meter meter)
{
    static const char *const names[METERS] = {
        [METER_CONCURRENCY] = "concurrency",
        [METER_REQUESTS] = "requests",
        [METER_TOKENS] = "tokens",
    };
    return names[meter];
}

void admit_init(struct admit_shared *shared)
{
    windows_init(&shared->windows);
}

uint64_t admit_caller(const uint8_t sha256[32])
{
    uint64_t caller;
    memcpy(&caller, sha256, sizeof(caller));
    return caller != 0 ? caller : 1;
}

bool admit_is_limited(const uint64_t limits[METERS])
{
    bool is_limited = false;
    for (size_t i = 0; i < METERS; i++)
        is_limited = is_limited || limits[i] > 0;
    return is_limited;
}

/* --- places --- */

static uint64_t count_leases(const struct leases *leases, uint64_t caller)
{
    const char *at = (const char *)leases->first;
    uint64_t count = 0;

    for (unsigned i = 0; i < leases->n; i++, at += leases->record_bytes)
        count += atomic_load((const _Atomic uint64_t *)(const void *)at) == caller ? 1 : 0;
    return count;
}

/* With the caller's set locked, of two who ask for the last place one gets it; without, both may. */
static bool take_place(const struct admit *admit, uint64_t caller, struct admission *out)
{
    uint64_t limit = out->limits[METER_CONCURRENCY];
    uint64_t others = limit > 0 ? count_leases(&admit->leases, caller) : 0;

    out->used[METER_CONCURRENCY] = others;
    if (limit > 0 && others >= limit) {
        out->refused = METER_CONCURRENCY;
        return false;
    }
    atomic_store(admit->lease, caller);
    out->used[METER_CONCURRENCY] = others + 1;
    return true;
}

static void leave_place(const struct admit *admit)
{
    atomic_store(admit->lease, 0);
}

/* --- minutes --- */

static bool has_window(const uint64_t limits[METERS])
{
    return limits[METER_REQUESTS] > 0 || limits[METER_TOKENS] > 0;
}

static struct window_amounts window_limits(const uint64_t limits[METERS])
{
    return (struct window_amounts){ limits[METER_REQUESTS], limits[METER_TOKENS] };
}

static void note_window(const struct window *window, struct admission *out)
{
    out->used[METER_REQUESTS] = window->requests;
    out->used[METER_TOKENS] = window->tokens;
    out->window_id = window->id;
    out->window_left_us = window_left_us(window, clock_monotonic_us());
}

static void note_taking(enum window_refusal refusal, const struct window *window, struct admission *out)
{
    static const enum meter refused[] = {
        [WINDOW_TAKEN] = METERS,
        [WINDOW_NO_REQUESTS] = METER_REQUESTS,
        [WINDOW_NO_TOKENS] = METER_TOKENS,
    };
    out->refused = refused[refusal];
    note_window(window, out);
}

/* With the caller's set locked, as the next one; NULL: it is not to be had, and who asks is let in,
 * uncounted. */
static void look_here(const struct window_set *set, uint64_t caller, struct admission *out)
{
    uint64_t now_us = clock_monotonic_us();
    struct window window = { .ends_us = now_us + WINDOW_US };

    if (set != NULL)
        window_read(set, caller, now_us, &window);
    note_window(&window, out);
}

static void take_here(struct window_set *set, uint64_t caller, const struct window_amounts *wanted,
                      struct admission *out)
{
    const struct window_amounts limits = window_limits(out->limits);
    struct window window;

    if (set == NULL) {
        look_here(NULL, caller, out);
        out->is_uncounted = true;
        return;
    }
    enum window_refusal refusal = window_take(set, caller, clock_monotonic_us(), &limits, wanted, &window);
    note_taking(refusal, &window, out);
}

/* False: Redis does not answer. What it says is kept, to go on from when it ceases to. */
static bool take_in_redis(const struct admit *admit, uint64_t caller, const struct window_amounts *wanted,
                          struct admission *out)
{
    const struct window_amounts limits = window_limits(out->limits);
    enum window_refusal refusal;
    struct window window;

    out->is_in_redis = shared_window_take(admit->redis, caller, &limits, wanted, &refusal, &window);
    out->redis = redis_rest_note(&admit->shared->redis_rest, out->is_in_redis);
    if (!out->is_in_redis)
        return false;
    struct window_set *set = windows_lock(&admit->shared->windows, caller);
    if (set != NULL)
        window_put(set, &window);
    windows_unlock(set);
    note_taking(refusal, &window, out);
    return true;
}

/* --- the whole --- */

bool admit_request(const struct admit *admit, uint64_t caller, const uint64_t limits[METERS], uint64_t tokens,
                   struct admission *out)
{
    uint64_t most = limits[METER_TOKENS], least = tokens > 0 ? tokens : 1;
    const struct window_amounts wanted = { 1, least < most || most == 0 ? least : most };

    *out = (struct admission){ .caller = caller, .refused = METERS };
    memcpy(out->limits, limits, sizeof(out->limits));
    bool is_asking =
        has_window(limits) && admit->redis != NULL && redis_rest_may_ask(&admit->shared->redis_rest);
    struct window_set *set = windows_lock(&admit->shared->windows, caller);
    bool has_place = take_place(admit, caller, out);
    if (!has_place)
        look_here(set, caller, out);
    else if (has_window(limits) && !is_asking)
        take_here(set, caller, &wanted, out);
    windows_unlock(set);
    if (has_place && is_asking && !take_in_redis(admit, caller, &wanted, out)) {
        set = windows_lock(&admit->shared->windows, caller);
        take_here(set, caller, &wanted, out);
        windows_unlock(set);
    }
    if (has_place && out->refused != METERS) {
        leave_place(admit);
        out->used[METER_CONCURRENCY]--;
    }
    if (out->refused != METERS)
        return false;
    out->is_unsettled = true;
    out->taken[METER_CONCURRENCY] = 1;
    out->taken[METER_REQUESTS] = wanted.requests;
    out->taken[METER_TOKENS] = wanted.tokens;
    return true;
}

static void finish(const struct admit *admit, struct admission *admission,
                   const struct window_amounts *instead)
{
    const struct window_amounts taken = { admission->taken[METER_REQUESTS], admission->taken[METER_TOKENS] };

    if (!admission->is_unsettled)
        return;
    admission->is_unsettled = false;
    if (has_window(admission->limits)) {
        struct window_set *set = windows_lock(&admit->shared->windows, admission->caller);
        if (set != NULL)
            window_correct(set, admission->caller, clock_monotonic_us(), admission->window_id, &taken,
                           instead);
        windows_unlock(set);
        if (admission->is_in_redis)
            shared_window_correct(admit->redis, admission->caller, admission->window_id, &taken, instead);
    }
    leave_place(admit);
}

void admit_settle(const struct admit *admit, struct admission *admission, uint64_t tokens)
{
    const struct window_amounts instead = { admission->taken[METER_REQUESTS], tokens };
    finish(admit, admission, &instead);
}

void admit_cancel(const struct admit *admit, struct admission *admission)
{
    const struct window_amounts instead = { 0, 0 };
    finish(admit, admission, &instead);
}

void admit_look(const struct admit *admit, uint64_t caller, const uint64_t limits[METERS],
                struct admission *out)
{
    *out = (struct admission){ .caller = caller, .refused = METERS };
    memcpy(out->limits, limits, sizeof(out->limits));
    struct window_set *set = windows_lock(&admit->shared->windows, caller);
    look_here(set, caller, out);
    windows_unlock(set);
    if (limits[METER_CONCURRENCY] > 0)
        out->used[METER_CONCURRENCY] = count_leases(&admit->leases, caller);
}

uint64_t admission_remaining(const struct admission *admission, enum meter meter)
{
    uint64_t limit = admission->limits[meter], used = admission->used[meter];
    return used < limit ? limit - used : 0;
}

unsigned admission_retry_after_s(const struct admission *admission)
{
    if (admission->refused == METER_CONCURRENCY)
        return 1;
    return (unsigned)((admission->window_left_us + US_PER_S - 1) / US_PER_S);
}
