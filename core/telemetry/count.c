/* What a request that has ended adds to the cells. */
#include "core/telemetry/cells_internal.h"

#include <string.h>

static void add(_Atomic uint64_t *cell, uint64_t n)
{
    atomic_fetch_add_explicit(cell, n, memory_order_relaxed);
}

static _Atomic uint64_t *cell_at(struct telemetry *t, uint32_t block, enum metric_id id, unsigned series)
{
    return &t->cells[block + metric_offset(id) + series * metric_series_cells(metric_row(id))];
}

static void observe(struct telemetry *t, uint32_t block, enum metric_id id, unsigned series, uint64_t value,
                    uint64_t n)
{
    const struct buckets *buckets = metric_row(id)->buckets;
    _Atomic uint64_t *cells = cell_at(t, block, id, series);
    unsigned i = 0;

    while (i < buckets->count && value > buckets->bounds[i])
        i++;
    add(&cells[i], n);
    add(&cells[buckets->count + 1], value * n);
}

void telemetry_add(struct telemetry *t, enum metric_id id, unsigned series, uint64_t n)
{
    add(cell_at(t, 0, id, series), n);
}

void telemetry_set(struct telemetry *t, enum metric_id id, unsigned series, uint64_t value)
{
    atomic_store_explicit(cell_at(t, 0, id, series), value, memory_order_relaxed);
}

uint64_t telemetry_get(const struct telemetry *t, enum metric_id id, unsigned series)
{
    return atomic_load_explicit(cell_at((struct telemetry *)t, 0, id, series), memory_order_relaxed);
}

void telemetry_observe(struct telemetry *t, enum metric_id id, unsigned series, uint64_t value, uint64_t n)
{
    observe(t, 0, id, series, value, n);
}

uint64_t telemetry_observed(const struct telemetry *t, enum metric_id id, unsigned series)
{
    const _Atomic uint64_t *cells = cell_at((struct telemetry *)t, 0, id, series);
    uint64_t count = 0;

    for (unsigned i = 0; i <= metric_row(id)->buckets->count; i++)
        count += atomic_load_explicit(&cells[i], memory_order_relaxed);
    return count;
}

/* The block, or the one named "_other" where the tree's thing has none. A snapshot
 * is a file: what it says must lie in the cells. */
static uint32_t block_or(const struct telemetry *t, uint32_t block, unsigned other)
{
    unsigned cells = block_cells((enum block_kind)t->blocks[other].kind);
    return block != 0 && block <= TELEMETRY_CELLS - cells ? block : t->blocks[other].cell;
}

void telemetry_count_undecryptable(struct telemetry *t, const struct snap_upstream *upstream)
{
    add(cell_at(t, block_or(t, upstream->series, FIRST_BLOCK_PROVIDER), METRIC_DECRYPT_FAILURES, 0), 1);
}

/* --- pools --- */

static void count_of_pool(struct telemetry *t, enum metric_id id, const struct snap_upstream *upstream)
{
    add(cell_at(t, block_or(t, upstream->pool_series, FIRST_BLOCK_POOL), id, 0), 1);
}

void telemetry_count_slot_rejected(struct telemetry *t, const struct snap_upstream *upstream)
{
    count_of_pool(t, METRIC_POOL_SLOT_REJECTED, upstream);
}

void telemetry_count_saturation(struct telemetry *t, const struct snap_upstream *upstream)
{
    count_of_pool(t, METRIC_POOL_SATURATION_MARKED, upstream);
}

static void set_gauge(struct telemetry *t, uint32_t block, enum metric_id id, bool is_known, uint64_t value)
{
    atomic_store_explicit(cell_at(t, block, id, 0), is_known ? value + 1 : 0, memory_order_relaxed);
}

void telemetry_set_pools(struct telemetry *t, const struct pool_reading *readings, size_t n)
{
    uint32_t n_blocks = atomic_load_explicit(&t->n_blocks, memory_order_acquire);

    for (uint32_t i = 0; i < n_blocks; i++) {
        const struct series_block *block = &t->blocks[i];
        const struct pool_reading *found = NULL;
        if (block->kind != BLOCK_POOL)
            continue;
        for (size_t k = 0; k < n && found == NULL; k++)
            found = readings[k].series == block->cell ? &readings[k] : NULL;
        bool has_limit = found != NULL && found->capacity > 0;
        set_gauge(t, block->cell, METRIC_POOL_CAPACITY, has_limit, has_limit ? found->capacity : 0);
        set_gauge(t, block->cell, METRIC_POOL_INFLIGHT, has_limit && found->is_known,
                  has_limit ? found->held : 0);
    }
}

/* --- a request --- */

static bool is_verdict(const struct attempt_event *a, const char *verdict)
{
    return a->verdict != NULL && strcmp(a->verdict, verdict) == 0;
}

/* The caller's own mistakes and departures say nothing about a key. */
static bool is_error(const struct attempt_event *a)
{
    return !is_verdict(a, "ok") && !is_verdict(a, "client") && !is_verdict(a, "cancelled");
}

static enum metric_error error_of_attempt(const struct attempt_event *a)
{
    if (is_verdict(a, "ok"))
        return METRIC_ERROR_NONE;
    if (is_verdict(a, "timeout"))
        return METRIC_ERROR_TIMEOUT;
    return is_verdict(a, "cancelled") ? METRIC_ERROR_CANCELLED : METRIC_ERROR_OTHER;
}

static enum metric_error error_of_request(const struct request_event *e, const struct attempt_event *last)
{
    if (e->end == EVENT_END_DONE)
        return METRIC_ERROR_NONE;
    if (e->end == EVENT_END_CLIENT_GONE)
        return METRIC_ERROR_CANCELLED;
    return is_verdict(last, "timeout") ? METRIC_ERROR_TIMEOUT : METRIC_ERROR_OTHER;
}

static void count_attempt(struct telemetry *t, unsigned surface, const struct attempt_event *a)
{
    uint32_t key = block_or(t, a->series.key, FIRST_BLOCK_KEY);
    uint32_t provider = block_or(t, a->series.provider, FIRST_BLOCK_PROVIDER);
    uint32_t route = block_or(t, a->series.route, FIRST_BLOCK_ROUTES + metric_operation(surface));

    add(cell_at(t, provider, METRIC_ATTEMPTS, metric_verdict(a->verdict)), 1);
    if (a->replays > 0)
        add(cell_at(t, provider, METRIC_UPSTREAM_REPLAYS, 0), a->replays);
    if (is_error(a))
        add(cell_at(t, key, METRIC_UPSTREAM_ERRORS, metric_reason(a->failure, a->status)), 1);
    observe(t, route, METRIC_OPERATION_DURATION, error_of_attempt(a), a->took_us, 1);
}

static void count_fallback(struct telemetry *t, const struct request_event *e)
{
    const struct attempt_event *first = &e->attempts[0];
    uint32_t key = block_or(t, first->series.key, FIRST_BLOCK_KEY);
    enum metric_scope scope = METRIC_SCOPE_KEY;

    for (unsigned i = 1; i < e->n_attempts; i++) {
        if (!span_eq(e->attempts[i].upstream, e->attempts[i - 1].upstream))
            scope = METRIC_SCOPE_UPSTREAM;
    }
    unsigned series = metric_reason(first->failure, first->status) * METRIC_SCOPES + scope;
    add(cell_at(t, key, METRIC_FALLBACK_COUNT, series), 1);
}

static void count_tokens(struct telemetry *t, uint32_t route, const struct request_event *e)
{
    const struct usage *usage = &e->usage;

    if (usage->input >= 0)
        observe(t, route, METRIC_TOKEN_USAGE, METRIC_TOKEN_INPUT, (uint64_t)usage->input, 1);
    if (usage->output >= 0)
        observe(t, route, METRIC_TOKEN_USAGE, METRIC_TOKEN_OUTPUT, (uint64_t)usage->output, 1);
    if (e->is_stream && usage->output > 1 && e->ttft_us > 0 && e->total_us > e->ttft_us)
        observe(t, route, METRIC_TIME_PER_OUTPUT_TOKEN, 0,
                (e->total_us - e->ttft_us) / ((uint64_t)usage->output - 1), 1);
}

/* Of a request that made attempts. */
static void count_chain(struct telemetry *t, unsigned surface, const struct request_event *e)
{
    const struct attempt_event *last = event_deciding_attempt(e);
    uint32_t provider = block_or(t, last->series.provider, FIRST_BLOCK_PROVIDER);
    uint32_t route = block_or(t, last->series.route, FIRST_BLOCK_ROUTES + metric_operation(surface));
    unsigned depth = event_fallback_depth(e);

    for (unsigned i = 0; i < e->n_attempts; i++)
        count_attempt(t, surface, &e->attempts[i]);
    observe(t, 0, METRIC_FALLBACK_DEPTH, surface, depth, 1);
    if (depth > 0)
        count_fallback(t, e);
    if (e->is_exhausted) {
        unsigned series = metric_reason(last->failure, last->status) * metric_surfaces.count + surface;
        add(cell_at(t, provider, METRIC_KEY_EXHAUSTED, series), 1);
    }
    observe(t, route, METRIC_REQUEST_DURATION, error_of_request(e, last), e->total_us, 1);
    if (e->ttft_us > 0)
        observe(t, route, METRIC_TIME_TO_FIRST_TOKEN, 0, e->ttft_us, 1);
    if (e->usage.present && !e->is_usage_estimated) /* the conventions: no number rather than a guessed one */
        count_tokens(t, route, e);
}

static void count_interruption(struct telemetry *t, const struct request_event *e)
{
    bool is_whole = e->end == EVENT_END_DONE || e->end == EVENT_END_REFUSED ||
                    e->end == EVENT_END_THROTTLED || e->end == EVENT_END_OVERFLOW;
    if (e->is_stream && !is_whole)
        telemetry_add(t, METRIC_STREAM_INTERRUPTED,
                      e->is_committed ? METRIC_STAGE_MID_STREAM : METRIC_STAGE_BEFORE_FIRST_CHUNK, 1);
}

static void count_throttled(struct telemetry *t, const struct request_event *e)
{
    for (unsigned i = 0; i < e->n_admissions; i++) {
        if (strcmp(e->admissions[i].result, "refused") == 0)
            telemetry_add(t, METRIC_THROTTLED, metric_meter(e->admissions[i].meter), 1);
    }
}

void telemetry_count(struct telemetry *t, const struct request_event *e)
{
    unsigned surface = metric_surface(e->dialect != NULL ? e->dialect : e->endpoint);
    uint32_t model = block_or(t, e->series, FIRST_BLOCK_MODELS + surface);
    uint64_t others_us = e->upstream_us + e->client_wait_us + e->pool.waited_us;
    bool is_time_known = e->end != EVENT_END_WORKER_DIED && e->end != EVENT_END_OVERFLOW;

    add(cell_at(t, model, METRIC_REQUESTS, metric_status(e->status)), 1);
    if (e->hedge != EVENT_HEDGE_NONE)
        add(cell_at(t, model, METRIC_HEDGES, e->hedge - EVENT_HEDGE_WON), 1);
    if (is_time_known)
        observe(t, 0, METRIC_OVERHEAD, surface, e->total_us > others_us ? e->total_us - others_us : 0, 1);
    count_interruption(t, e);
    count_throttled(t, e);
    if (e->n_attempts > 0)
        count_chain(t, surface, e);
}
