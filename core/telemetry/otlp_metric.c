#include "core/telemetry/otlp_metric.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/telemetry/otlp_attributes.h"

enum { CELLS_MAX = 64 }; /* of a histogram: its buckets and the sum */

struct otlp_meter {
    const struct otlp_settings *settings;
    const struct telemetry *telemetry;
    const char *instance;
    uint64_t since_us, taken_us; /* wall clock: of the interval's start, of the last request */
    /* Of each cell, at these two moments; NULL unless deltas are wanted. */
    uint64_t *passed, *taken;
};

static void read_cells(const struct telemetry *t, uint64_t *out)
{
    for (size_t i = 0; i < TELEMETRY_CELLS; i++)
        out[i] = atomic_load_explicit(&t->cells[i], memory_order_relaxed);
}

struct otlp_meter *otlp_meter_new(const struct otlp_settings *settings, const struct telemetry *telemetry,
                                  const char *instance)
{
    struct otlp_meter *meter = xcalloc(1, sizeof(*meter));

    meter->settings = settings;
    meter->telemetry = telemetry;
    meter->instance = instance;
    meter->since_us = telemetry->started_us;
    if (settings->is_delta) {
        meter->passed = xcalloc(TELEMETRY_CELLS, sizeof(*meter->passed));
        meter->taken = xcalloc(TELEMETRY_CELLS, sizeof(*meter->taken));
        read_cells(telemetry, meter->passed);
        meter->since_us = clock_wall_us();
    }
    return meter;
}

void otlp_meter_free(struct otlp_meter *meter)
{
    free(meter->passed);
    free(meter->taken);
    free(meter);
}

void otlp_meter_advance(struct otlp_meter *meter)
{
    if (meter->taken == NULL)
        return;
    uint64_t *passed = meter->passed;
    meter->passed = meter->taken;
    meter->taken = passed;
    meter->since_us = meter->taken_us;
}

/* A request on its way. */
struct telling {
    struct otlp_meter *meter;
    struct arena *arena;
    Otlp__ScopeMetrics *scope;
    void **points; /* of the metric that is being told */
    size_t n_points, max_points, n_all_points;
    const struct metric *metric;
};

/* The series' cells as they are told; false: none has moved. */
static bool read_series(const struct telling *t, const struct series *series, unsigned n,
                        uint64_t out[CELLS_MAX])
{
    struct otlp_meter *meter = t->meter;
    size_t first = (size_t)(series->cells - meter->telemetry->cells);
    bool has_moved = false;

    for (unsigned i = 0; i < n; i++) {
        out[i] = series_cell(series, i);
        if (meter->taken == NULL || series->metric->kind == METRIC_GAUGE)
            continue;
        meter->taken[first + i] = out[i];
        out[i] -= meter->passed[first + i];
        has_moved |= out[i] != 0;
    }
    return has_moved || meter->taken == NULL || series->metric->kind == METRIC_GAUGE;
}

static void set_attributes(const struct telling *t, const struct series *series, struct otlp_attributes *a)
{
    otlp_attributes_begin(a, t->arena, OTLP_NO_LIMIT, OTLP_NO_LIMIT);
    for (unsigned i = 0; i < series->n_labels; i++)
        otlp_add_text(a, series->labels[i].name, series->labels[i].value);
}

static void *new_number(const struct telling *t, const struct series *series, uint64_t value)
{
    Otlp__NumberDataPoint *point = arena_new_of(t->arena, Otlp__NumberDataPoint);
    struct otlp_attributes a;

    otlp__number_data_point__init(point);
    set_attributes(t, series, &a);
    point->n_attributes = a.n;
    point->attributes = otlp_attributes_list(&a);
    point->start_time_unix_nano = series->metric->kind == METRIC_GAUGE ? 0 : t->meter->since_us * 1000;
    point->time_unix_nano = t->meter->taken_us * 1000;
    if (series->metric->divisor == 1) {
        point->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_INT;
        point->as_int = (int64_t)value;
    } else {
        point->value_case = OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
        point->as_double = (double)value / series->metric->divisor;
    }
    return point;
}

static void *new_histogram(const struct telling *t, const struct series *series, const uint64_t *values)
{
    const struct buckets *buckets = series->metric->buckets;
    double divisor = series->metric->divisor;
    Otlp__HistogramDataPoint *point = arena_new_of(t->arena, Otlp__HistogramDataPoint);
    struct otlp_attributes a;

    otlp__histogram_data_point__init(point);
    set_attributes(t, series, &a);
    point->n_attributes = a.n;
    point->attributes = otlp_attributes_list(&a);
    point->start_time_unix_nano = t->meter->since_us * 1000;
    point->time_unix_nano = t->meter->taken_us * 1000;
    point->n_explicit_bounds = buckets->count;
    point->explicit_bounds = arena_array_of(t->arena, double, buckets->count);
    point->n_bucket_counts = buckets->count + 1;
    point->bucket_counts = arena_array_of(t->arena, uint64_t, point->n_bucket_counts);
    for (unsigned i = 0; i < buckets->count; i++)
        point->explicit_bounds[i] = (double)buckets->bounds[i] / divisor;
    for (unsigned i = 0; i <= buckets->count; i++) {
        point->bucket_counts[i] = values[i];
        point->count += values[i];
    }
    point->optional_sum_case = OTLP__HISTOGRAM_DATA_POINT__OPTIONAL_SUM_SUM;
    point->sum = (double)values[buckets->count + 1] / divisor;
    return point;
}

/* The metric whose points have been gathered becomes one of the request. */
static void end_metric(struct telling *t)
{
    const struct metric *row = t->metric;
    Otlp__AggregationTemporality temporality =
        t->meter->settings->is_delta ? OTLP__AGGREGATION_TEMPORALITY__AGGREGATION_TEMPORALITY_DELTA
                                     : OTLP__AGGREGATION_TEMPORALITY__AGGREGATION_TEMPORALITY_CUMULATIVE;
    if (row == NULL || t->n_points == 0)
        return;
    void **points = arena_array_of(t->arena, void *, t->n_points);
    memcpy(points, t->points, t->n_points * sizeof(*points));
    Otlp__Metric *metric = arena_new_of(t->arena, Otlp__Metric);
    otlp__metric__init(metric);
    metric->name = (char *)(uintptr_t)row->name;
    metric->description = (char *)(uintptr_t)row->help;
    metric->unit = (char *)(uintptr_t)row->unit;
    switch (row->kind) {
    case METRIC_COUNTER:
        metric->data_case = OTLP__METRIC__DATA_SUM;
        metric->sum = arena_new_of(t->arena, Otlp__Sum);
        otlp__sum__init(metric->sum);
        metric->sum->is_monotonic = 1;
        metric->sum->aggregation_temporality = temporality;
        metric->sum->n_data_points = t->n_points;
        metric->sum->data_points = (Otlp__NumberDataPoint **)points;
        break;
    case METRIC_GAUGE:
        metric->data_case = OTLP__METRIC__DATA_GAUGE;
        metric->gauge = arena_new_of(t->arena, Otlp__Gauge);
        otlp__gauge__init(metric->gauge);
        metric->gauge->n_data_points = t->n_points;
        metric->gauge->data_points = (Otlp__NumberDataPoint **)points;
        break;
    case METRIC_HISTOGRAM:
        metric->data_case = OTLP__METRIC__DATA_HISTOGRAM;
        metric->histogram = arena_new_of(t->arena, Otlp__Histogram);
        otlp__histogram__init(metric->histogram);
        metric->histogram->aggregation_temporality = temporality;
        metric->histogram->n_data_points = t->n_points;
        metric->histogram->data_points = (Otlp__HistogramDataPoint **)points;
        break;
    }
    t->scope->metrics[t->scope->n_metrics++] = metric;
    t->n_all_points += t->n_points;
    t->n_points = 0;
}

/* Series come metric by metric. */
static void tell(void *ctx, const struct series *series)
{
    struct telling *t = ctx;
    unsigned n = metric_series_cells(series->metric);
    uint64_t values[CELLS_MAX] = { 0 };

    if (series->metric != t->metric)
        end_metric(t);
    t->metric = series->metric;
    if (n > CELLS_MAX || !read_series(t, series, n, values))
        return;
    if (t->n_points == t->max_points) {
        t->max_points = t->max_points == 0 ? 256 : 2 * t->max_points;
        t->points = xrealloc(t->points, t->max_points * sizeof(*t->points));
    }
    t->points[t->n_points++] = series->metric->kind == METRIC_HISTOGRAM ? new_histogram(t, series, values)
                                                                        : new_number(t, series, values[0]);
}

Otlp__MetricsRequest *otlp_metrics_request(struct otlp_meter *meter, const struct series_facts *facts,
                                           struct arena *arena, size_t *n_points)
{
    Otlp__ScopeMetrics *scope = arena_new_of(arena, Otlp__ScopeMetrics);
    Otlp__ResourceMetrics *resource = arena_new_of(arena, Otlp__ResourceMetrics);
    Otlp__MetricsRequest *request = arena_new_of(arena, Otlp__MetricsRequest);
    struct telling t = { .meter = meter, .arena = arena, .scope = scope };

    if (meter->taken != NULL)
        memcpy(meter->taken, meter->passed, TELEMETRY_CELLS * sizeof(*meter->taken));
    meter->taken_us = clock_wall_us();
    if (meter->since_us > meter->taken_us)
        meter->since_us = meter->taken_us; /* the clock was set back: nothing ends before it begins */
    otlp__scope_metrics__init(scope);
    scope->scope = &otlp_scope;
    scope->metrics = arena_array_of(arena, Otlp__Metric *, METRIC_COUNT);
    telemetry_visit(meter->telemetry, facts, tell, &t);
    end_metric(&t);
    free(t.points);
    if (scope->n_metrics == 0)
        return NULL;
    otlp__resource_metrics__init(resource);
    resource->resource = otlp_resource(meter->settings, meter->instance, arena);
    resource->schema_url = (char *)(uintptr_t)OTLP_SCHEMA_URL;
    resource->n_scope_metrics = 1;
    resource->scope_metrics = arena_array_of(arena, Otlp__ScopeMetrics *, 1);
    resource->scope_metrics[0] = scope;
    otlp__metrics_request__init(request);
    request->n_resource_metrics = 1;
    request->resource_metrics = arena_array_of(arena, Otlp__ResourceMetrics *, 1);
    request->resource_metrics[0] = resource;
    *n_points = t.n_all_points;
    return request;
}
