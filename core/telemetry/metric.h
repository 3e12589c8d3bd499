/*
 * The registry of metrics: one table says of each its name, unit, labels and
 * buckets, when it moves, and what to do then. The cells, /metrics, OTLP and
 * llm-router-metrics(7) all come from it; to add a metric is to add a row.
 *
 * The labels of a series come from the configuration (those of its block) or from
 * closed lists, so that the tree bounds the number of series, not the traffic.
 */
#ifndef CORE_TELEMETRY_METRIC_H
#define CORE_TELEMETRY_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

enum metric_id {
    /* what happened to requests */
    METRIC_REQUESTS,
    METRIC_FALLBACK_COUNT,
    METRIC_FALLBACK_DEPTH,
    METRIC_ATTEMPTS,
    METRIC_HEDGES,
    METRIC_UPSTREAM_ERRORS,
    METRIC_UPSTREAM_REPLAYS,
    METRIC_KEY_EXHAUSTED,
    METRIC_DECRYPT_FAILURES,
    METRIC_STREAM_INTERRUPTED,
    METRIC_OVERHEAD,
    METRIC_QUEUE_DURATION,
    METRIC_OVERFLOW,
    METRIC_THROTTLED,
    METRIC_LIMITS_ALONE,
    METRIC_LIMITS_UNCOUNTED,
    /* pools of slots */
    METRIC_POOL_INFLIGHT,
    METRIC_POOL_CAPACITY,
    METRIC_POOL_SLOT_REJECTED,
    METRIC_POOL_SATURATION_MARKED,
    METRIC_POOL_WAIT,
    METRIC_POOLS_ALONE,
    METRIC_READ_ERRORS,
    /* GenAI conventions 1.41.1 */
    METRIC_TOKEN_USAGE,
    METRIC_OPERATION_DURATION,
    METRIC_REQUEST_DURATION,
    METRIC_TIME_TO_FIRST_TOKEN,
    METRIC_TIME_PER_OUTPUT_TOKEN,
    /* the configuration */
    METRIC_CONFIG_RELOAD,
    METRIC_CONFIG_REFUSALS,
    METRIC_CONFIG_INVALID_HMAC,
    METRIC_CONFIG_WRITE_COUNT,
    METRIC_CONFIG_VERSION_AGE,
    METRIC_CONFIG_GENERATION,
    METRIC_CONFIG_INFO,
    METRIC_STORE_UP,
    METRIC_REDIS_CONNECTIONS,
    /* the instance */
    METRIC_WORKERS,
    METRIC_WORKER_DEATHS,
    METRIC_CONNECTIONS_ACCEPTED,
    METRIC_QUEUE_LENGTH,
    METRIC_WAKEUPS_REPAIRED,
    METRIC_START_TIME,
    /* what leaves the machine */
    METRIC_SPOOL_BYTES,
    METRIC_SPOOL_LAG,
    METRIC_SPOOL_DROPPED,
    METRIC_EXPORT_DELIVERED,
    METRIC_EXPORT_FAILURES,
    METRIC_EXPORT_DROPPED,
    METRIC_SERIES_LOST,
    METRIC_COUNT,
};

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* What a block of series is about: each has cells for every metric of its kind. */
enum block_kind {
    BLOCK_INSTANCE, /* there is one */
    BLOCK_MODEL,    /* surface, model */
    BLOCK_PROVIDER, /* provider */
    BLOCK_KEY,      /* provider, the key's fingerprint */
    BLOCK_ROUTE,    /* operation, provider, model */
    BLOCK_POOL,     /* app id, or what else names the pool; provider */
    BLOCK_KINDS,
};

enum { BLOCK_LABELS_MAX = 3, CLOSED_LABELS_MAX = 2 };

/* Values that are known when the program is built. */
struct closed_list {
    const char *const *values;
    unsigned count;
};

/* A label whose values are a closed list's; list == NULL: there is none. */
struct closed_label {
    const char *name;
    const struct closed_list *list;
};

/* Upper bounds, inclusive, ascending, in a cell's unit; one bucket more has no bound. */
struct buckets {
    const uint64_t *bounds;
    unsigned count;
};

/* Programs that have the metric. */
enum { METRIC_OF_ROUTER = 1, METRIC_OF_ADMIN = 2, METRIC_OF_BOTH = 3 };

struct metric {
    const char *name; /* as OpenTelemetry has it */
    const char *unit; /* UCUM */
    enum metric_kind kind;
    enum block_kind block;
    const char *block_labels[BLOCK_LABELS_MAX]; /* what this metric calls its block's */
    struct closed_label closed[CLOSED_LABELS_MAX];
    const struct buckets *buckets; /* of a histogram */
    unsigned divisor;              /* a cell's value by this is in `unit`: 1000000 where cells hold µs */
    unsigned programs;
    bool names_instance; /* it has a label service_instance_id */
    bool may_be_unknown; /* of a gauge: a cell holds one more than its value, and 0 if there is none */
    bool names_version;  /* and one with the version of the tree in force */
    const char *help;    /* one sentence */
    const char *moves;   /* when it does */
    const char *advice;  /* what to do then; NULL: nothing */
};

const struct metric *metric_row(enum metric_id id);

/* Series of the metric in one block, and cells that each has: 1, or a histogram's
 * buckets and its sum behind them. */
unsigned metric_series_count(const struct metric *metric);
unsigned metric_series_cells(const struct metric *metric);

/* From the first cell of a block to the metric's first one; cells of a block. */
unsigned metric_offset(enum metric_id id);
unsigned block_cells(enum block_kind kind);

enum { METRIC_SURFACES = 6 }; /* as metric_surfaces.count */

/* Positions in closed lists. An unknown status, reason or name is "_other". */
unsigned metric_surface(const char *name); /* a dialect's, or an endpoint; or NULL */
unsigned metric_status(int status);        /* of a reply to a caller; 0: none was sent */
unsigned metric_reason(const char *reason,
                       int status); /* of a failed attempt: "timeout", …, else its status */
unsigned metric_verdict(const char *verdict);
unsigned metric_meter(const char *meter);
unsigned metric_operation(unsigned surface);

enum metric_error { METRIC_ERROR_NONE, METRIC_ERROR_TIMEOUT, METRIC_ERROR_CANCELLED, METRIC_ERROR_OTHER };
enum metric_scope { METRIC_SCOPE_KEY, METRIC_SCOPE_UPSTREAM, METRIC_SCOPES };
enum metric_stage { METRIC_STAGE_BEFORE_FIRST_CHUNK, METRIC_STAGE_MID_STREAM };
enum metric_token { METRIC_TOKEN_INPUT, METRIC_TOKEN_OUTPUT };
enum metric_write { METRIC_WRITE_SUCCESS, METRIC_WRITE_4XX, METRIC_WRITE_5XX };
enum metric_signal { METRIC_SIGNAL_TRACES, METRIC_SIGNAL_METRICS, METRIC_SIGNAL_LOGS, METRIC_SIGNAL_ROWS };

extern const struct closed_list metric_surfaces, metric_operations, metric_verdicts, metric_stages,
    metric_reload_sources, metric_signals;

/* A cell's value in its metric's unit: a decimal without an exponent or trailing zeros. */
void metric_write_value(struct buf *out, uint64_t value, unsigned divisor);

/* The metrics as mdoc source, for llm-router-metrics(7). */
void metric_manual(struct buf *out);

#endif
