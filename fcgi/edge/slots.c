#include "fcgi/edge/slots.h"

#include <errno.h>
#include <poll.h>

#include "core/admit/pools.h"
#include "core/base/clock.h"
#include "core/json/writer.h"
#include "core/log/log.h"
#include "core/upstream/exchange.h"

enum {
    ASK_FIRST_MS = 5,  /* from one question of who is first in a queue to the next */
    ASK_BEHIND_MS = 5, /* more for each before it */
    ASK_MAX_MS = 100,
    BEAT_MS = 1000, /* to look whether the lease is to be renewed */
    SATURATED_MIN_MS = 1000,
    SATURATED_MAX_MS = 60 * 1000, /* a provider's wish beyond it is asked anew */
    DETAILS_BYTES = 4096,
};

/* The places of leases. */
enum { FIRST, BESIDE };

_Static_assert((int)POOLS_MAX >= (int)SNAPSHOT_UPSTREAMS_MAX, "all pools of a model are asked for at once");

/* An upstream of the plan. */
struct choice {
    const struct snap_upstream *upstream;
    unsigned upstream_index;
    bool was_full; /* it was found so, and is counted */
};

struct slots {
    struct pools *pools;
    struct plan *plan;
    struct choice *choices;    /* n, in the document's order */
    struct slot_pool *asked;   /* their pools */
    struct pool_state *states; /* as they stood */
    size_t n;
    size_t held[POOL_HOLDS];              /* whose slot it is, while the lease is taken */
    struct pool_lease leases[POOL_HOLDS]; /* of the attempt, and of one beside it */
    size_t last;             /* whose slot was taken last, or is left after the other was given back */
    enum pool_answer answer; /* of the question at the beginning */
    uint64_t waited_us;
    uint64_t kept_us; /* monotonic; the lease was renewed, or was not due */
    bool is_alone;    /* Redis did not answer, and is there */
    bool is_settled;
};

/* --- what is asked --- */

static bool has_limit(const struct snap_root *root, const struct snap_model *model)
{
    for (unsigned i = 0; i < model->upstreams.count; i++) {
        if (SNAP_ITEM(root, model->upstreams, struct snap_upstream, i)->max_concurrency > 0)
            return true;
    }
    return false;
}

static struct slots *make_slots(const struct errand *errand, struct plan *plan)
{
    struct turn *turn = errand->turn;
    struct arena *arena = turn->request.arena;
    struct slots *s = arena_new_of(arena, struct slots);

    s->pools = &turn->worker->pools;
    s->plan = plan;
    s->leases[BESIDE].hold = BESIDE;
    s->choices = arena_array_of(arena, struct choice, errand->model->upstreams.count);
    s->asked = arena_array_of(arena, struct slot_pool, errand->model->upstreams.count);
    s->states = arena_array_of(arena, struct pool_state, errand->model->upstreams.count);
    for (size_t i = 0; i < plan->count; i++) {
        const struct candidate *c = &plan->items[i];
        if (s->n > 0 && s->choices[s->n - 1].upstream == c->upstream)
            continue;
        s->choices[s->n] = (struct choice){ .upstream = c->upstream, .upstream_index = c->upstream_index };
        s->asked[s->n++] = (struct slot_pool){ .id = snap_span(turn->root, c->upstream->pool),
                                               .hash = c->upstream->pool_hash,
                                               .capacity = c->upstream->max_concurrency };
    }
    return s;
}

static void report_redis(const struct turn *turn, struct slots *s, const struct pool_lease *lease)
{
    struct telemetry *telemetry = &turn->worker->process->mapping->telemetry;

    if (lease->redis == REDIS_LOST)
        log_line(LOG_WARN, "pools_alone", "Redis: %s; %s", redis_client_trouble(s->pools->redis),
                 s->pools->refuses_alone ? "no slots are given out until it answers"
                                         : "this instance counts slots of pools alone");
    else if (lease->redis == REDIS_BACK)
        log_line(LOG_INFO, "pools_shared", "Redis counts slots of pools again");
    if (s->pools->redis != NULL && !lease->is_in_redis && !s->is_alone) {
        s->is_alone = true;
        telemetry_add(telemetry, METRIC_POOLS_ALONE, 0, 1);
    }
}

static void count_full(const struct turn *turn, struct slots *s, size_t i)
{
    if (s->choices[i].was_full)
        return;
    s->choices[i].was_full = true;
    telemetry_count_slot_rejected(&turn->worker->process->mapping->telemetry, s->choices[i].upstream);
}

static enum skip_reason reason_of(enum pool_answer answer, const struct pool_state *state)
{
    if (answer == POOL_AWAY)
        return SKIP_AWAY;
    return state->saturated_ms > 0 ? SKIP_SATURATED : SKIP_FULL;
}

/* --- waiting --- */

static uint32_t pause_ms(const struct slots *s)
{
    uint32_t ahead = UINT32_MAX;

    for (size_t i = 0; i < s->n; i++) {
        if (s->asked[i].capacity > 0 && s->states[i].ahead < ahead)
            ahead = s->states[i].ahead;
    }
    return ahead < (ASK_MAX_MS - ASK_FIRST_MS) / ASK_BEHIND_MS ? ASK_FIRST_MS + ahead * ASK_BEHIND_MS
                                                               : ASK_MAX_MS;
}

/* The shortest time until a provider may be asked again; 0: one may be now, but has no slot. */
static uint32_t saturated_ms(const struct slots *s)
{
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < s->n; i++) {
        if (s->states[i].saturated_ms < least)
            least = s->states[i].saturated_ms;
    }
    return least;
}

/* Waits for so long, or until the caller is seen to leave. */
static bool does_caller_leave(struct turn *turn, uint32_t wait_ms, uint64_t *look_us)
{
    struct pollfd watch = { .fd = conn_watch_fd(turn->request.conn), .events = POLLIN | POLLRDHUP };
    int r = poll(&watch, 1, (int)wait_ms);
    uint64_t now_us = clock_monotonic_us();

    if (r != 0)
        return r > 0 || errno != EINTR;
    if (now_us < *look_us)
        return false;
    *look_us = now_us + EXCHANGE_LOOK_MS * US_PER_MS;
    return conn_has_caller_left(turn->request.conn);
}

/* False: the caller has left. */
static bool wait_for_slot(struct errand *errand, struct slots *s)
{
    struct turn *turn = errand->turn;
    uint64_t begun_us = clock_monotonic_us(), now_us = begun_us;
    uint64_t until_us = begun_us + errand->model->pool_wait_ms * US_PER_MS;
    uint64_t look_us = begun_us + EXCHANGE_FIRST_LOOK_MS * US_PER_MS;
    bool is_there = true;

    if (until_us > errand->deadline_us)
        until_us = errand->deadline_us;
    scoreboard_enter(turn->worker->process->record, STAGE_WAITING);
    while (is_there && s->answer != POOL_TAKEN && now_us < until_us &&
           (s->answer != POOL_SATURATED || saturated_ms(s) * US_PER_MS <= until_us - now_us)) {
        uint64_t left_ms = (until_us - now_us + US_PER_MS - 1) / US_PER_MS;
        uint32_t wait_ms = pause_ms(s);
        is_there = !does_caller_leave(turn, wait_ms < left_ms ? wait_ms : (uint32_t)left_ms, &look_us);
        if (is_there) {
            s->answer = pools_take(s->pools, s->asked, s->n, true, &s->leases[FIRST], s->states);
            report_redis(turn, s, &s->leases[FIRST]);
        }
        now_us = clock_monotonic_us();
    }
    s->waited_us = now_us - begun_us;
    if (s->answer != POOL_TAKEN)
        pools_leave(s->pools, &s->leases[FIRST]); /* the queues */
    return is_there;
}

/* --- taking --- */

static void rank(const struct errand *errand, struct slots *s)
{
    struct arena *arena = errand->turn->request.arena;
    struct standing *standings = arena_array_of(arena, struct standing, errand->model->upstreams.count);

    for (size_t i = 0; i < s->n; i++)
        standings[s->choices[i].upstream_index] = (struct standing){
            .capacity = s->asked[i].capacity,
            .room = pool_room(&s->asked[i], &s->states[i]),
            .is_saturated = s->states[i].saturated_ms > 0,
        };
    plan_rank(standings, arena, s->plan);
}

static void keep_slot(void *ctx)
{
    struct turn *turn = ctx;
    struct slots *s = turn->slots;

    s->kept_us = clock_monotonic_us();
    for (unsigned i = 0; i < POOL_HOLDS; i++)
        pools_renew(s->pools, &s->leases[i]);
}

static void begin_keeping(struct turn *turn)
{
    turn->slots->kept_us = clock_monotonic_us();
    conn_set_beat(turn->request.conn, BEAT_MS, keep_slot, turn);
}

/* Nobody has one to give: no upstream is tried. */
static void skip_all(struct slots *s)
{
    for (size_t i = 0; i < s->n; i++)
        plan_skip(s->plan, s->choices[i].upstream, reason_of(s->answer, &s->states[i]));
}

bool slots_take(struct errand *errand, struct plan *plan)
{
    struct turn *turn = errand->turn;
    bool waits = errand->model->pool_wait_ms > 0;

    if (!has_limit(turn->root, errand->model))
        return true;
    struct slots *s = turn->slots = make_slots(errand, plan);
    s->answer = pools_take(s->pools, s->asked, s->n, waits, &s->leases[FIRST], s->states);
    report_redis(turn, s, &s->leases[FIRST]);
    for (size_t i = 0; i < s->n && s->answer != POOL_AWAY; i++) {
        if (pool_room(&s->asked[i], &s->states[i]) == 0 && s->states[i].saturated_ms == 0)
            count_full(turn, s, i);
    }
    if (s->answer != POOL_TAKEN && waits && !wait_for_slot(errand, s)) {
        turn->event->end = EVENT_END_CLIENT_GONE;
        return false;
    }
    if (s->answer != POOL_TAKEN) {
        skip_all(s);
        slots_fail(errand);
        return false;
    }
    s->held[FIRST] = s->last = s->leases[FIRST].place;
    rank(errand, s);
    begin_keeping(turn);
    return true;
}

static size_t find(const struct slots *s, const struct snap_upstream *upstream)
{
    size_t i = 0;
    while (i + 1 < s->n && s->choices[i].upstream != upstream)
        i++;
    return i;
}

static enum pool_answer take_at_once(const struct turn *turn, size_t i, unsigned hold)
{
    struct slots *s = turn->slots;
    struct pool_lease *lease = &s->leases[hold];
    enum pool_answer answer = pools_take(s->pools, &s->asked[i], 1, false, lease, &s->states[i]);

    report_redis(turn, s, lease);
    if (answer == POOL_TAKEN)
        s->held[hold] = s->last = i;
    return answer;
}

enum skip_reason slots_admit(void *ctx, const struct candidate *candidate)
{
    const struct errand *errand = ctx;
    struct turn *turn = errand->turn;
    struct slots *s = turn->slots;

    if (s == NULL)
        return SKIP_NONE;
    size_t i = find(s, candidate->upstream);
    if (s->leases[FIRST].is_taken && s->held[FIRST] == i)
        return SKIP_NONE;
    enum pool_answer answer = take_at_once(turn, i, FIRST);
    if (answer == POOL_TAKEN) {
        begin_keeping(turn);
        return SKIP_NONE;
    }
    if (answer == POOL_FULL)
        count_full(turn, s, i);
    return reason_of(answer, &s->states[i]);
}

bool slots_admit_beside(struct errand *errand, const struct candidate *candidate)
{
    struct turn *turn = errand->turn;

    return turn->slots == NULL ||
           take_at_once(turn, find(turn->slots, candidate->upstream), BESIDE) == POOL_TAKEN;
}

void slots_give_back(struct turn *turn, bool is_beside)
{
    struct slots *s = turn->slots;

    if (s == NULL)
        return;
    pools_leave(s->pools, &s->leases[is_beside ? BESIDE : FIRST]);
    if (s->leases[is_beside ? FIRST : BESIDE].is_taken)
        s->last = s->held[is_beside ? FIRST : BESIDE];
}

/* --- what providers say --- */

static bool has_more_keys(const struct plan *plan, const struct snap_upstream *upstream)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->items[i].upstream == upstream && !plan->items[i].is_passed)
            return true;
    }
    return false;
}

/* One key's trouble is not the pool's as long as there is another key. */
void slots_note_outcome(struct errand *errand, const struct candidate *candidate,
                        const struct attempt_outcome *outcome)
{
    struct turn *turn = errand->turn;
    struct slots *s = turn->slots;
    bool is_too_much = outcome->verdict == VERDICT_RATE || outcome->status == 429;

    if (s == NULL || !is_too_much ||
        (outcome->blame != BLAME_UPSTREAM && has_more_keys(s->plan, candidate->upstream)))
        return;
    uint64_t ms = outcome->retry_after_s > 0 ? outcome->retry_after_s * UINT64_C(1000) : POOL_SATURATED_MS;
    if (ms > SATURATED_MAX_MS)
        ms = SATURATED_MAX_MS;
    pools_mark_saturated(s->pools, &s->asked[find(s, candidate->upstream)],
                         ms > SATURATED_MIN_MS ? (uint32_t)ms : SATURATED_MIN_MS);
    telemetry_count_saturation(&turn->worker->process->mapping->telemetry, candidate->upstream);
}

/* --- the answer, if there is no slot --- */

static unsigned retry_after_s(const struct slots *s)
{
    uint32_t ms = s->answer == POOL_AWAY ? 0 : saturated_ms(s);
    return ms > 1000 ? (ms + 999) / 1000 : 1;
}

void slots_fail(struct errand *errand)
{
    struct turn *turn = errand->turn;
    const struct slots *s = turn->slots;
    bool is_speech = errand->facts->speech != NULL;
    struct failure failure = {
        .kind = is_speech ? FAILURE_SPEECH_SATURATED : FAILURE_ALL_SKIPPED,
        .retry_after_s = retry_after_s(s),
    };
    struct json_writer w;
    struct buf details;

    buf_init(&details, DETAILS_BYTES);
    jw_init(&w, &details);
    jw_begin_object(&w);
    jw_member_span(&w, "modelName", snap_span(turn->root, errand->model->name));
    jw_member_uint(&w, "pools", s->n); /* which they are is the operator's business */
    jw_end_object(&w);
    if (is_speech)
        failure.details = buf_span(&details);
    answer_fail(errand->answer, &failure);
    buf_free(&details);
}

/* --- keeping it, and giving it back --- */

static uint64_t keeping_due_us(void *ctx)
{
    const struct turn *turn = ctx;
    const struct slots *s = turn->slots;
    bool is_taken = s != NULL && (s->leases[FIRST].is_taken || s->leases[BESIDE].is_taken);

    return is_taken ? s->kept_us + BEAT_MS * US_PER_MS : UINT64_MAX;
}

static int keep(void *ctx)
{
    keep_slot(ctx);
    return 0;
}

struct exchange_beat slots_beat(struct turn *turn)
{
    return (struct exchange_beat){ .ctx = turn, .due_us = keeping_due_us, .run = keep };
}

static void note(const struct turn *turn, const struct slots *s)
{
    struct request_event *event = turn->event;
    struct pool_event *pool = &event->pool;

    pool->result = s->answer != POOL_TAKEN && event->end != EVENT_END_CLIENT_GONE ? "refused"
                   : event->n_attempts == 0                                       ? "cancelled"
                                                                                  : "settled";
    pool->where = s->leases[FIRST].is_in_redis ? "redis" : "mapping";
    pool->waited_us = s->waited_us;
    if (s->answer == POOL_TAKEN)
        pool->id = s->asked[s->last].id;
    for (size_t i = 0; i < s->plan->n_skips; i++)
        event_add_skip(event, snap_span(turn->root, s->plan->skips[i].upstream->id),
                       skip_reason_name(s->plan->skips[i].reason));
}

void slots_settle(struct turn *turn)
{
    struct slots *s = turn->slots;

    if (s == NULL || s->is_settled)
        return;
    s->is_settled = true;
    note(turn, s);
    if (s->waited_us > 0)
        telemetry_observe(&turn->worker->process->mapping->telemetry, METRIC_POOL_WAIT, 0, s->waited_us, 1);
    conn_set_beat(turn->request.conn, 0, NULL, NULL);
    for (unsigned i = 0; i < POOL_HOLDS; i++)
        pools_leave(s->pools, &s->leases[i]);
}
