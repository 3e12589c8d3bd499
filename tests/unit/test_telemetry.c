#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/route/verdict.h"
#include "core/telemetry/prometheus.h"

static struct telemetry *t;

static void set_up(void)
{
    t = calloc(1, sizeof(*t));
    ck_assert_ptr_nonnull(t);
    telemetry_init(t);
}

static void tear_down(void)
{
    free(t);
}

/* --- an image with two models of `llm`, of two upstreams each, and one of `tts` --- */

static char image[4096];
static uint32_t image_used;

static struct snap_str text(const char *value)
{
    uint32_t len = (uint32_t)strlen(value), at = image_used;
    memcpy(image + at, value, len + 1);
    image_used += (len + 8) / 8 * 8;
    return (struct snap_str){ at, len };
}

static struct snap_vec vector(const void *items, uint32_t count, uint32_t size)
{
    uint32_t at = image_used;
    memcpy(image + at, items, (size_t)count * size);
    image_used += (count * size + 7) / 8 * 8;
    return (struct snap_vec){ at, count };
}

static struct snap_vec make_upstream(const char *dialect, const char *provider, const char *fingerprint)
{
    struct snap_key key = { .id = text("k") };
    snprintf(key.fingerprint, sizeof(key.fingerprint), "%s", fingerprint);
    struct snap_upstream upstream = { .dialect = text(dialect), .provider = text(provider) };
    upstream.keys = vector(&key, 1, sizeof(key));
    return vector(&upstream, 1, sizeof(upstream));
}

static struct snap_root *make_tree(const char *model, const char *provider, const char *fingerprint)
{
    struct snap_root *root = (struct snap_root *)(void *)image;

    memset(image, 0, sizeof(image));
    image_used = sizeof(*root);
    struct snap_model made = { .name = text(model),
                               .upstreams = make_upstream("chat", provider, fingerprint) };
    struct snap_vec models = vector(&made, 1, sizeof(made));
    struct snap_model spoken = { .name = text("voice"),
                                 .upstreams = make_upstream("speech", "azure", "00000002") };
    struct snap_vec tts_models = vector(&spoken, 1, sizeof(spoken));
    root->models = models;
    root->tts_models = tts_models;
    return root;
}

static const struct snap_model *model_of(const struct snap_root *root)
{
    return SNAP_ITEM(root, root->models, struct snap_model, 0);
}

static const struct snap_upstream *upstream_of(const struct snap_root *root)
{
    return SNAP_ITEM(root, model_of(root)->upstreams, struct snap_upstream, 0);
}

static const struct snap_key *key_of(const struct snap_root *root)
{
    return SNAP_ITEM(root, upstream_of(root)->keys, struct snap_key, 0);
}

/* --- reading --- */

struct search {
    const char *series;
    uint64_t value, count;
    unsigned found;
};

static void look(void *ctx, const struct series *series)
{
    struct search *search = ctx;
    char name[512];
    int len = snprintf(name, sizeof(name), "%s", series->metric->name);

    for (unsigned i = 0; i < series->n_labels; i++)
        len += snprintf(name + len, sizeof(name) - (size_t)len, " %s=%s", series->labels[i].name,
                        series->labels[i].value);
    if (strcmp(name, search->series) != 0)
        return;
    search->found++;
    search->value = series_cell(series, 0);
    if (series->metric->kind == METRIC_HISTOGRAM) {
        for (unsigned i = 0; i <= series->metric->buckets->count; i++)
            search->count += series_cell(series, i);
        search->value = series_cell(series, series->metric->buckets->count + 1);
    }
}

static struct search look_for(const char *series)
{
    const struct series_facts facts = { METRIC_OF_ROUTER, "instance", "v1" };
    struct search search = { .series = series };
    telemetry_visit(t, &facts, look, &search);
    return search;
}

static struct search find(const char *series)
{
    struct search search = look_for(series);
    ck_assert_msg(search.found == 1, "%s is there %u times", series, search.found);
    return search;
}

static void expect_none(const char *series)
{
    ck_assert_msg(look_for(series).found == 0, "%s is there", series);
}

static void expect(const char *series, uint64_t value)
{
    uint64_t found = find(series).value;
    ck_assert_msg(found == value, "%s is %llu, not %llu", series, (unsigned long long)found,
                  (unsigned long long)value);
}

#define GATEWAY "airi.gen_ai.gateway."

/* --- the registry --- */

START_TEST(rows_are_whole)
{
    for (unsigned i = 0; i < METRIC_COUNT; i++) {
        const struct metric *m = metric_row((enum metric_id)i);
        ck_assert_msg(m->name != NULL && m->unit != NULL && m->help != NULL && m->moves != NULL, "row %u", i);
        ck_assert_msg(m->divisor > 0 && m->programs != 0, "%s", m->name);
        ck_assert_msg((m->kind == METRIC_HISTOGRAM) == (m->buckets != NULL), "%s", m->name);
        ck_assert_msg(m->help[strlen(m->help) - 1] == '.', "%s", m->name);
        for (unsigned b = 1; m->buckets != NULL && b < m->buckets->count; b++)
            ck_assert_msg(m->buckets->bounds[b - 1] < m->buckets->bounds[b], "%s, bound %u", m->name, b);
        for (unsigned j = 0; j < i; j++)
            ck_assert_str_ne(m->name, metric_row((enum metric_id)j)->name);
    }
}
END_TEST

START_TEST(verdicts_are_called_as_in_the_record)
{
    ck_assert_uint_eq(metric_verdicts.count, VERDICT_COUNT + 1);
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        ck_assert_str_eq(metric_verdicts.values[i], verdict_row((enum verdict)i)->name);
    ck_assert_uint_eq(metric_surfaces.count, METRIC_SURFACES);
}
END_TEST

START_TEST(cells_of_a_block_do_not_overlap)
{
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        unsigned used = 0;
        for (unsigned i = 0; i < METRIC_COUNT; i++) {
            const struct metric *m = metric_row((enum metric_id)i);
            if ((int)m->block != kind)
                continue;
            ck_assert_uint_eq(metric_offset((enum metric_id)i), used);
            used += metric_series_count(m) * metric_series_cells(m);
        }
        ck_assert_uint_eq(block_cells((enum block_kind)kind), used);
    }
}
END_TEST

/* --- series --- */

START_TEST(every_series_that_can_exist_is_there_as_zero)
{
    telemetry_assign(t, make_tree("m", "openai", "0000000a"));
    expect(GATEWAY "requests surface=chat model=m status_code=200", 0);
    expect(GATEWAY "requests surface=transcription model=m status_code=503", 0);
    expect(GATEWAY "requests surface=speech model=voice status_code=200", 0);
    expect(GATEWAY "fallback.count provider=openai from_key=0000000a reason=429 scope=upstream", 0);
    expect(GATEWAY "upstream.errors provider=azure.speech key_id=00000002 status_code=timeout", 0);
    expect(GATEWAY "key.exhausted.count provider=azure.speech status_code=401 surface=speech", 0);
    expect("gen_ai.client.token.usage gen_ai.operation.name=chat gen_ai.provider.name=openai "
           "gen_ai.request.model=m gen_ai.token.type=input",
           0);
    expect("gen_ai.server.request.duration gen_ai.operation.name=text_to_speech "
           "gen_ai.provider.name=azure.speech gen_ai.request.model=voice error.type=timeout",
           0);
    expect(GATEWAY "config.reload source=pubsub service_instance_id=instance", 0);
    expect(GATEWAY "config.info service_instance_id=instance version=v1", 1);
}
END_TEST

START_TEST(a_block_keeps_its_cells_through_every_tree)
{
    const struct snap_root *root = make_tree("m", "openai", "0000000a");
    telemetry_assign(t, (struct snap_root *)(void *)image);
    const struct snap_model first_model = *model_of(root);
    const struct snap_upstream first_upstream = *upstream_of(root);
    const struct snap_key first_key = *key_of(root);

    telemetry_assign(t, make_tree("another", "groq", "0000000b"));
    ck_assert_uint_ne(model_of(root)->series[SNAP_WAY_FIRST], first_model.series[SNAP_WAY_FIRST]);
    ck_assert_uint_ne(key_of(root)->series, first_key.series);
    telemetry_assign(t, make_tree("m", "openai", "0000000a"));
    ck_assert_uint_eq(model_of(root)->series[SNAP_WAY_FIRST], first_model.series[SNAP_WAY_FIRST]);
    ck_assert_uint_eq(upstream_of(root)->series, first_upstream.series);
    ck_assert_uint_eq(key_of(root)->series, first_key.series);
    ck_assert_uint_eq(upstream_of(root)->route_series[SNAP_WAY_FIRST],
                      first_upstream.route_series[SNAP_WAY_FIRST]);
    expect(GATEWAY "upstream.errors provider=groq key_id=0000000b status_code=401", 0);
}
END_TEST

START_TEST(what_finds_no_room_counts_as_other)
{
    char name[32];
    struct request_event e = { .dialect = "chat", .status = 200 };

    for (unsigned i = 0; telemetry_get(t, METRIC_SERIES_LOST, 0) == 0; i++) {
        ck_assert_uint_lt(i, TELEMETRY_BLOCKS);
        snprintf(name, sizeof(name), "model-%u", i);
        telemetry_assign(t, make_tree(name, "openai", "0000000a"));
    }
    const struct snap_root *root = (const struct snap_root *)(const void *)image;
    ck_assert_uint_ne(key_of(root)->series, 0); /* keys come first */
    ck_assert_uint_eq(upstream_of(root)->route_series[SNAP_WAY_TRANSCRIPTION], 0);
    e.attempts[e.n_attempts++] = (struct attempt_event){ .verdict = "ok", .status = 200, .took_us = 7 };
    telemetry_count(t, &e);
    expect(GATEWAY "requests surface=chat model=_other status_code=200", 1);
    expect("gen_ai.client.operation.duration gen_ai.operation.name=chat gen_ai.provider.name=_other "
           "gen_ai.request.model=_other",
           7);
}
END_TEST

START_TEST(a_position_outside_the_cells_is_not_followed)
{
    struct request_event e = { .dialect = "chat", .status = 200, .series = UINT32_MAX - 7 };
    e.attempts[e.n_attempts++] = (struct attempt_event){
        .verdict = "ok",
        .series = { TELEMETRY_CELLS - 1, TELEMETRY_CELLS, TELEMETRY_CELLS - 2 },
    };
    telemetry_count(t, &e); /* AddressSanitizer sees the rest */
    ck_assert_uint_eq(find(GATEWAY "fallback.depth surface=chat").count, 1);
}
END_TEST

/* --- counting --- */

static struct request_event event_of(const struct snap_root *root)
{
    return (struct request_event){
        .dialect = "chat",
        .series = model_of(root)->series[SNAP_WAY_FIRST],
    };
}

static void add_attempt(struct request_event *e, const struct snap_root *root, const char *upstream,
                        const char *verdict, int status, const char *failure)
{
    e->attempts[e->n_attempts++] = (struct attempt_event){
        .upstream = span_cstr(upstream),
        .verdict = verdict,
        .status = status,
        .failure = failure,
        .took_us = 1000,
        .series = { key_of(root)->series, upstream_of(root)->series,
                    upstream_of(root)->route_series[SNAP_WAY_FIRST] },
    };
}

START_TEST(ae1_a_key_that_is_rate_limited_is_a_fallback_of_depth_one)
{
    const struct snap_root *root = make_tree("m", "openai", "0000000a");
    telemetry_assign(t, (struct snap_root *)(void *)image);
    struct request_event e = event_of(root);

    add_attempt(&e, root, "u", "rate", 429, NULL);
    add_attempt(&e, root, "u", "ok", 200, NULL);
    e.status = 200;
    e.is_stream = true;
    e.ttft_us = 30000;
    e.total_us = 530000;
    e.upstream_us = 529000;
    e.usage = (struct usage){ .present = true, .input = 20, .output = 51 };
    telemetry_count(t, &e);
    expect(GATEWAY "requests surface=chat model=m status_code=200", 1);
    expect(GATEWAY "fallback.count provider=openai from_key=0000000a reason=429 scope=key", 1);
    expect(GATEWAY "attempts provider=openai verdict=rate", 1);
    expect(GATEWAY "attempts provider=openai verdict=ok", 1);
    expect(GATEWAY "upstream.errors provider=openai key_id=0000000a status_code=429", 1);
    expect(GATEWAY "key.exhausted.count provider=openai status_code=429 surface=chat", 0);
    expect(GATEWAY "overhead.duration surface=chat", 1000);
    ck_assert_uint_eq(find(GATEWAY "fallback.depth surface=chat").value, 1);
#define ROUTE "gen_ai.operation.name=chat gen_ai.provider.name=openai gen_ai.request.model=m"
    expect("gen_ai.client.token.usage " ROUTE " gen_ai.token.type=input", 20);
    expect("gen_ai.client.token.usage " ROUTE " gen_ai.token.type=output", 51);
    expect("gen_ai.server.request.duration " ROUTE, 530000);
    expect("gen_ai.server.time_to_first_token " ROUTE, 30000);
    expect("gen_ai.server.time_per_output_token " ROUTE, 10000);
    ck_assert_uint_eq(find("gen_ai.client.operation.duration " ROUTE).count, 1);
    ck_assert_uint_eq(find("gen_ai.client.operation.duration " ROUTE " error.type=_OTHER").count, 1);
}
END_TEST

START_TEST(ae2_only_the_end_of_the_chain_is_an_exhaustion)
{
    const struct snap_root *root = make_tree("m", "openai", "0000000a");
    telemetry_assign(t, (struct snap_root *)(void *)image);
    struct request_event e = event_of(root);

    for (int i = 0; i < 3; i++)
        add_attempt(&e, root, "u", "auth", 401, NULL);
    e.status = 502;
    e.end = EVENT_END_ERROR_BEFORE;
    e.is_exhausted = true;
    telemetry_count(t, &e);
    expect(GATEWAY "key.exhausted.count provider=openai status_code=401 surface=chat", 1);
    expect(GATEWAY "upstream.errors provider=openai key_id=0000000a status_code=401", 3);
    expect(GATEWAY "fallback.count provider=openai from_key=0000000a reason=401 scope=key", 1);
    expect(GATEWAY "requests surface=chat model=m status_code=502", 1);
    expect(GATEWAY "stream.interrupted stage=before_first_chunk", 0);
    e.is_stream = true;
    telemetry_count(t, &e);
    expect(GATEWAY "stream.interrupted stage=before_first_chunk", 1);
}
END_TEST

/* Adds everything that is not a request's own count. */
struct sum {
    uint64_t total;
};

static void add_up(void *ctx, const struct series *series)
{
    static const enum metric_id ids[] = { METRIC_FALLBACK_COUNT, METRIC_UPSTREAM_ERRORS, METRIC_KEY_EXHAUSTED,
                                          METRIC_ATTEMPTS };
    struct sum *sum = ctx;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        sum->total += series->id == ids[i] ? series_cell(series, 0) : 0;
}

START_TEST(ae3_a_refused_request_adds_to_no_fallback_error_or_exhaustion)
{
    const struct series_facts facts = { METRIC_OF_ROUTER, "instance", "" };
    struct request_event e = { .dialect = "chat", .status = 400, .end = EVENT_END_REFUSED };
    struct sum sum = { 0 };

    telemetry_assign(t, make_tree("m", "openai", "0000000a"));
    telemetry_count(t, &e);
    telemetry_visit(t, &facts, add_up, &sum);
    ck_assert_uint_eq(sum.total, 0);
    expect(GATEWAY "requests surface=chat model=_other status_code=400", 1);
    ck_assert_uint_eq(find(GATEWAY "fallback.depth surface=chat").count, 0);
}
END_TEST

START_TEST(a_throttled_request_counts_by_the_meter_that_refused_it)
{
    struct request_event e = { .dialect = "chat", .status = 429, .end = EVENT_END_THROTTLED };

    telemetry_assign(t, make_tree("m", "openai", "0000000a"));
    e.is_stream = true;
    e.n_admissions = 3;
    e.admissions[0] = (struct admission_event){ "concurrency", 0, 0, "", "scoreboard" };
    e.admissions[1] = (struct admission_event){ "requests", 0, 0, "", "redis" };
    e.admissions[2] = (struct admission_event){ "tokens", 0, 0, "refused", "redis" };
    telemetry_count(t, &e);
    expect(GATEWAY "throttled meter=tokens", 1);
    expect(GATEWAY "throttled meter=requests", 0);
    expect(GATEWAY "throttled meter=concurrency", 0);
    expect(GATEWAY "stream.interrupted stage=before_first_chunk", 0);
    expect(GATEWAY "requests surface=chat model=_other status_code=429", 1);
}
END_TEST

/* --- pools --- */

/* The tree's upstream of chat, whose pool has this many slots. */
static struct snap_upstream *make_pool(uint32_t capacity)
{
    struct snap_root *root = make_tree("m", "openai", "0000000a");
    struct snap_upstream *upstream = (struct snap_upstream *)(uintptr_t)upstream_of(root);
    upstream->pool = text("llm:pool:model:[\"m\",\"id\",\"a\"]");
    upstream->max_concurrency = capacity;
    telemetry_assign(t, root);
    return upstream;
}

#define POOL "app_id=llm:pool:model:[\"m\",\"id\",\"a\"]"

START_TEST(a_full_and_a_saturated_pool_are_counted_by_app_and_provider)
{
    const struct snap_upstream *upstream = make_pool(3);
    telemetry_count_slot_rejected(t, upstream);
    telemetry_count_slot_rejected(t, upstream);
    telemetry_count_saturation(t, upstream);
    expect(GATEWAY "pool.slot_rejected " POOL " provider=openai", 2);
    expect(GATEWAY "pool.saturation_marked " POOL " provider=openai", 1);
}
END_TEST

START_TEST(pools_of_models_without_limits_have_no_series)
{
    const struct snap_upstream *upstream = make_pool(0);
    expect_none(GATEWAY "pool.slot_rejected " POOL " provider=openai");
    telemetry_count_saturation(t, upstream);
    expect(GATEWAY "pool.saturation_marked app_id=_other provider=_other", 1);
}
END_TEST

START_TEST(a_gauge_of_a_pool_says_nothing_before_it_is_read_when_it_cannot_be_and_when_the_pool_is_gone)
{
    struct pool_reading reading = { make_pool(3)->pool_series, 0, 3, true };
    static const char inflight[] = GATEWAY "pool.inflight " POOL, capacity[] = GATEWAY "pool.capacity " POOL;

    expect_none(inflight);
    expect_none(capacity);
    telemetry_set_pools(t, &reading, 1);
    expect(inflight, 0);
    expect(capacity, 3);
    reading.held = 2;
    telemetry_set_pools(t, &reading, 1);
    expect(inflight, 2);
    reading.is_known = false;
    telemetry_set_pools(t, &reading, 1);
    expect_none(inflight);
    expect(capacity, 3);
    reading.is_known = true;
    telemetry_set_pools(t, &reading, 1);
    expect(inflight, 2);
    telemetry_set_pools(t, NULL, 0);
    expect_none(inflight);
    expect_none(capacity);
}
END_TEST

START_TEST(ae7_a_chain_over_two_upstreams_is_one_fallback_of_its_whole_depth)
{
    const struct snap_root *root = make_tree("m", "openai", "0000000a");
    telemetry_assign(t, (struct snap_root *)(void *)image);
    struct request_event e = event_of(root);

    add_attempt(&e, root, "a", "timeout", 0, "timeout");
    add_attempt(&e, root, "a", "connect", 0, "connect");
    add_attempt(&e, root, "b", "ok", 200, NULL);
    e.status = 200;
    telemetry_count(t, &e);
    expect(GATEWAY "fallback.count provider=openai from_key=0000000a reason=timeout scope=upstream", 1);
    expect(GATEWAY "fallback.count provider=openai from_key=0000000a reason=timeout scope=key", 0);
    expect(GATEWAY "fallback.count provider=openai from_key=0000000a reason=connect scope=upstream", 0);
    ck_assert_uint_eq(find(GATEWAY "fallback.depth surface=chat").value, 2);
    ck_assert_uint_eq(find("gen_ai.client.operation.duration " ROUTE " error.type=timeout").count, 1);
}
END_TEST

START_TEST(the_callers_mistakes_and_departures_are_no_errors_of_a_key)
{
    static const char *const verdicts[] = { "client", "cancelled" };
    const struct series_facts facts = { METRIC_OF_ROUTER, "instance", "" };
    const struct snap_root *root = make_tree("m", "openai", "0000000a");
    struct sum sum = { 0 };

    telemetry_assign(t, (struct snap_root *)(void *)image);
    for (size_t i = 0; i < 2; i++) {
        struct request_event e = event_of(root);
        add_attempt(&e, root, "u", verdicts[i], 400, NULL);
        telemetry_count(t, &e);
    }
    telemetry_visit(t, &facts, add_up, &sum);
    ck_assert_uint_eq(sum.total, 2); /* attempts */
    expect(GATEWAY "requests surface=chat model=m status_code=none", 2);
}
END_TEST

START_TEST(who_lost_to_an_attempt_beside_it_is_no_failure_and_no_fallback)
{
    const struct snap_root *root = make_tree("m", "openai", "0000000a");
    telemetry_assign(t, (struct snap_root *)(void *)image);
    struct request_event e = event_of(root);

    add_attempt(&e, root, "u", "cancelled", 0, NULL);
    add_attempt(&e, root, "v", "ok", 200, NULL);
    e.attempts[1].is_hedged = true;
    e.hedge = EVENT_HEDGE_WON;
    e.decided_by = 2;
    e.status = 200;
    telemetry_count(t, &e);
    expect(GATEWAY "hedge.count surface=chat model=m outcome=won", 1);
    expect(GATEWAY "hedge.count surface=chat model=m outcome=lost", 0);
    expect(GATEWAY "attempts provider=openai verdict=cancelled", 1);
    expect(GATEWAY "upstream.errors provider=openai key_id=0000000a status_code=_other", 0);
    expect(GATEWAY "fallback.count provider=openai from_key=0000000a reason=_other scope=upstream", 0);
    ck_assert_uint_eq(find(GATEWAY "fallback.depth surface=chat").count, 1);
    ck_assert_uint_eq(find(GATEWAY "fallback.depth surface=chat").value, 0);
}
END_TEST

START_TEST(an_attempt_beside_the_first_that_failed_is_no_fallback_where_the_first_answered)
{
    const struct snap_root *root = make_tree("m", "openai", "0000000a");
    telemetry_assign(t, (struct snap_root *)(void *)image);
    struct request_event e = event_of(root);

    add_attempt(&e, root, "u", "ok", 200, NULL);
    add_attempt(&e, root, "v", "server", 500, NULL);
    e.attempts[1].is_hedged = true;
    e.hedge = EVENT_HEDGE_FAILED;
    e.decided_by = 1;
    telemetry_count(t, &e);
    expect(GATEWAY "hedge.count surface=chat model=m outcome=failed", 1);
    expect(GATEWAY "upstream.errors provider=openai key_id=0000000a status_code=500", 1);
    ck_assert_uint_eq(find(GATEWAY "fallback.depth surface=chat").value, 0);
}
END_TEST

START_TEST(what_became_of_each_hedge_is_counted)
{
    const struct snap_root *root = make_tree("m", "openai", "0000000a");
    telemetry_assign(t, (struct snap_root *)(void *)image);

    for (int hedge = EVENT_HEDGE_NONE; hedge < EVENT_HEDGES; hedge++) {
        struct request_event e = event_of(root);
        e.hedge = (enum event_hedge)hedge;
        for (int n = 0; n <= hedge; n++)
            telemetry_count(t, &e);
    }
    for (int hedge = EVENT_HEDGE_WON; hedge < EVENT_HEDGES; hedge++) {
        char series[128];
        snprintf(series, sizeof(series), GATEWAY "hedge.count surface=chat model=m outcome=%s",
                 event_hedge_name((enum event_hedge)hedge));
        expect(series, (uint64_t)hedge + 1);
    }
}
END_TEST

START_TEST(what_no_list_has_is_other)
{
    const struct snap_root *root = make_tree("m", "openai", "0000000a");
    telemetry_assign(t, (struct snap_root *)(void *)image);
    struct request_event e = event_of(root);

    add_attempt(&e, root, "u", "unheard-of", 599, NULL);
    e.status = 418;
    telemetry_count(t, &e);
    expect(GATEWAY "requests surface=chat model=m status_code=_other", 1);
    expect(GATEWAY "attempts provider=openai verdict=_other", 1);
    expect(GATEWAY "upstream.errors provider=openai key_id=0000000a status_code=_other", 1);
    e = (struct request_event){ .endpoint = "audio/voices", .status = 304 };
    telemetry_count(t, &e);
    expect(GATEWAY "requests surface=voices model=_other status_code=304", 1);
    e = (struct request_event){ .status = 404 };
    telemetry_count(t, &e);
    expect(GATEWAY "requests surface=_other model=_other status_code=404", 1);
}
END_TEST

START_TEST(a_value_on_a_bound_is_in_its_bucket)
{
    const struct buckets *buckets = metric_row(METRIC_QUEUE_DURATION)->buckets;
    for (unsigned i = 0; i < buckets->count; i++) {
        telemetry_observe(t, METRIC_QUEUE_DURATION, 0, buckets->bounds[i], 1);
        ck_assert_uint_eq(t->cells[metric_offset(METRIC_QUEUE_DURATION) + i], 1);
    }
    telemetry_observe(t, METRIC_QUEUE_DURATION, 0, buckets->bounds[buckets->count - 1] + 1, 5);
    ck_assert_uint_eq(t->cells[metric_offset(METRIC_QUEUE_DURATION) + buckets->count], 5);
}
END_TEST

START_TEST(a_histogram_knows_how_many_values_it_had)
{
    telemetry_observe(t, METRIC_OVERHEAD, 2, 0, 3);
    telemetry_observe(t, METRIC_OVERHEAD, 2, 100, 1);
    telemetry_observe(t, METRIC_OVERHEAD, 2, UINT32_MAX, 2);
    ck_assert_uint_eq(telemetry_observed(t, METRIC_OVERHEAD, 2), 6);
    ck_assert_uint_eq(telemetry_observed(t, METRIC_OVERHEAD, 1), 0);
    ck_assert_uint_eq(telemetry_observed(t, METRIC_OVERHEAD, 3), 0);
}
END_TEST

/* --- the manual page --- */

START_TEST(the_manual_has_every_metric_by_both_names_with_its_labels)
{
    struct buf out;
    char line[256], name[METRIC_NAME_BYTES];

    buf_init(&out, 1024 * 1024);
    metric_manual(&out);
    ck_assert(!out.overflowed);
    buf_append_char(&out, '\0');
    const char *at = out.data;
    for (unsigned i = 0; i < METRIC_COUNT; i++) {
        const struct metric *m = metric_row((enum metric_id)i);
        const char *words[BLOCK_LABELS_MAX + CLOSED_LABELS_MAX];
        size_t n_words = 0;
        snprintf(line, sizeof(line), "\n.Ss %s\n", m->name);
        const char *section = i == 0 ? at : strstr(at, line);
        ck_assert_msg(section != NULL, "%s has no section", m->name);
        at = section + 1;
        const char *end = strstr(at, "\n.El\n");
        prometheus_name(m, name);
        snprintf(line, sizeof(line), "\n.Cm %s%s\n", name, m->kind == METRIC_COUNTER ? "_total" : "");
        const char *found = strstr(at, line);
        ck_assert_msg(found != NULL && found < end, "%s is not said of %s", line, m->name);
        for (size_t j = 0; j < BLOCK_LABELS_MAX; j++)
            words[n_words++] = m->block_labels[j];
        for (size_t j = 0; j < CLOSED_LABELS_MAX; j++)
            words[n_words++] = m->closed[j].name;
        for (size_t j = 0; j < n_words; j++) {
            snprintf(line, sizeof(line), "\n.It Label Cm %s\n", words[j]);
            found = words[j] != NULL ? strstr(at, line) : at;
            ck_assert_msg(found != NULL && found < end, "%s is not said of %s", line, m->name);
        }
    }
    buf_free(&out);
}
END_TEST

static const struct {
    uint64_t value;
    unsigned divisor;
    const char *text;
} values[] = {
    { 0, 1, "0" },
    { UINT64_MAX, 1, "18446744073709551615" },
    { 0, 1000000, "0" },
    { 1, 1000000, "0.000001" },
    { 50, 1000000, "0.00005" },
    { 1000000, 1000000, "1" },
    { 1500000, 1000000, "1.5" },
    { 655360000, 1000000, "655.36" },
    { 1700000000123456, 1000000, "1700000000.123456" },
};

START_TEST(a_value_is_the_shortest_decimal)
{
    struct buf out;

    buf_init(&out, 64);
    metric_write_value(&out, values[_i].value, values[_i].divisor);
    buf_append_char(&out, '\0');
    ck_assert_str_eq(out.data, values[_i].text);
    buf_free(&out);
}
END_TEST

/* --- Prometheus --- */

static const struct {
    enum metric_id id;
    const char *name;
} names[] = {
    { METRIC_REQUESTS, "airi_gen_ai_gateway_requests" },
    { METRIC_FALLBACK_COUNT, "airi_gen_ai_gateway_fallback_count" },
    { METRIC_OPERATION_DURATION, "gen_ai_client_operation_duration_seconds" },
    { METRIC_SPOOL_BYTES, "airi_gen_ai_gateway_spool_bytes" },
    { METRIC_START_TIME, "process_start_time_seconds" },
    { METRIC_CONFIG_INFO, "airi_gen_ai_gateway_config_info" },
};

START_TEST(names_are_as_the_compatibility_page_maps_them)
{
    char name[METRIC_NAME_BYTES];
    prometheus_name(metric_row(names[_i].id), name);
    ck_assert_str_eq(name, names[_i].name);
}
END_TEST

static const char *write_text(enum prometheus_format format, struct buf *out)
{
    const struct series_facts facts = { METRIC_OF_ROUTER, "instance", "a\"b\\c\nd" };
    buf_init(out, 16 * 1024 * 1024);
    prometheus_write(t, &facts, format, out);
    buf_append_char(out, '\0');
    return out->data;
}

START_TEST(text_is_escaped_and_values_are_decimals)
{
    struct buf out;
    telemetry_observe(t, METRIC_OVERHEAD, metric_surface("chat"), 150, 2);
    const char *written = write_text(PROMETHEUS_TEXT, &out);
    static const char *const lines[] = {
        "\nairi_gen_ai_gateway_config_info{service_instance_id=\"instance\",version=\"a\\\"b\\\\c\\nd\"} 1\n",
        "\nairi_gen_ai_gateway_overhead_duration_seconds_bucket{surface=\"chat\",le=\"0.0001\"} 0\n",
        "\nairi_gen_ai_gateway_overhead_duration_seconds_bucket{surface=\"chat\",le=\"0.0002\"} 2\n",
        "\nairi_gen_ai_gateway_overhead_duration_seconds_bucket{surface=\"chat\",le=\"1\"} 2\n",
        "\nairi_gen_ai_gateway_overhead_duration_seconds_bucket{surface=\"chat\",le=\"+Inf\"} 2\n",
        "\nairi_gen_ai_gateway_overhead_duration_seconds_sum{surface=\"chat\"} 0.0003\n",
        "\nairi_gen_ai_gateway_overhead_duration_seconds_count{surface=\"chat\"} 2\n",
        "\n# TYPE airi_gen_ai_gateway_fallback_count_total counter\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        ck_assert_msg(strstr(written, lines[i]) != NULL, "no%sin:\n%s", lines[i], written);
    buf_free(&out);
}
END_TEST

START_TEST(openmetrics_names_families_and_has_an_end)
{
    struct buf out;
    const char *written = write_text(PROMETHEUS_OPENMETRICS, &out);
    ck_assert_ptr_nonnull(strstr(written, "\n# TYPE airi_gen_ai_gateway_fallback_count counter\n"));
    ck_assert_ptr_nonnull(strstr(written, "\n# UNIT gen_ai_client_operation_duration_seconds seconds\n"));
    ck_assert_str_eq(written + out.len - 7, "# EOF\n");
    buf_free(&out);
    ck_assert_int_eq(prometheus_format("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
                     PROMETHEUS_OPENMETRICS);
    ck_assert_int_eq(prometheus_format(NULL), PROMETHEUS_TEXT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("telemetry");
    TCase *tcase = tcase_create("telemetry");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, rows_are_whole);
    tcase_add_test(tcase, verdicts_are_called_as_in_the_record);
    tcase_add_test(tcase, cells_of_a_block_do_not_overlap);
    tcase_add_test(tcase, every_series_that_can_exist_is_there_as_zero);
    tcase_add_test(tcase, a_block_keeps_its_cells_through_every_tree);
    tcase_add_test(tcase, what_finds_no_room_counts_as_other);
    tcase_add_test(tcase, a_position_outside_the_cells_is_not_followed);
    tcase_add_test(tcase, ae1_a_key_that_is_rate_limited_is_a_fallback_of_depth_one);
    tcase_add_test(tcase, ae2_only_the_end_of_the_chain_is_an_exhaustion);
    tcase_add_test(tcase, ae3_a_refused_request_adds_to_no_fallback_error_or_exhaustion);
    tcase_add_test(tcase, a_throttled_request_counts_by_the_meter_that_refused_it);
    tcase_add_test(tcase, a_full_and_a_saturated_pool_are_counted_by_app_and_provider);
    tcase_add_test(tcase, pools_of_models_without_limits_have_no_series);
    tcase_add_test(
        tcase, a_gauge_of_a_pool_says_nothing_before_it_is_read_when_it_cannot_be_and_when_the_pool_is_gone);
    tcase_add_test(tcase, ae7_a_chain_over_two_upstreams_is_one_fallback_of_its_whole_depth);
    tcase_add_test(tcase, the_callers_mistakes_and_departures_are_no_errors_of_a_key);
    tcase_add_test(tcase, what_no_list_has_is_other);
    tcase_add_test(tcase, who_lost_to_an_attempt_beside_it_is_no_failure_and_no_fallback);
    tcase_add_test(tcase, an_attempt_beside_the_first_that_failed_is_no_fallback_where_the_first_answered);
    tcase_add_test(tcase, what_became_of_each_hedge_is_counted);
    tcase_add_test(tcase, a_value_on_a_bound_is_in_its_bucket);
    tcase_add_test(tcase, a_histogram_knows_how_many_values_it_had);
    tcase_add_test(tcase, the_manual_has_every_metric_by_both_names_with_its_labels);
    tcase_add_loop_test(tcase, a_value_is_the_shortest_decimal, 0, (int)(sizeof(values) / sizeof(values[0])));
    tcase_add_loop_test(tcase, names_are_as_the_compatibility_page_maps_them, 0,
                        (int)(sizeof(names) / sizeof(names[0])));
    tcase_add_test(tcase, text_is_escaped_and_values_are_decimals);
    tcase_add_test(tcase, openmetrics_names_families_and_has_an_end);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
