/* The registry's data: closed lists, buckets, and the table of metrics. */
#include "core/telemetry/metric_internal.h"

#define GATEWAY "airi.gen_ai.gateway."

#define LIST_OF(values)                              \
    {                                                \
        values, sizeof(values) / sizeof((values)[0]) \
    }

/* --- closed lists --- */

static const char *const surface_names[] = {
    "chat", "speech", "transcription", "models", "voices", "_other"
};
static const char *const operation_names[] = { "chat", "text_to_speech", "speech_to_text" };
static const char *const verdict_names[] = { "ok",      "auth",   "quota",  "rate",  "server",    "timeout",
                                             "connect", "config", "client", "other", "cancelled", "_other" };
static const char *const stage_names[] = { "free", "idle", "reading", "waiting", "streaming", "finishing" };
static const char *const source_names[] = { "ttl", "file", "pubsub", "reconnect", "signal" };
static const char *const signal_names[] = { "traces", "metrics", "logs", "rows" };
static const char *const status_names[] = { "200", "304", "400", "401", "403", "404",  "405",
                                            "408", "411", "412", "413", "415", "422",  "429",
                                            "431", "500", "502", "503", "504", "none", "_other" };
static const char *const reason_names[] = {
    "200", "400", "401", "402", "403", "404",     "408",     "409",   "413",     "422",   "429",
    "500", "502", "503", "504", "529", "timeout", "connect", "reset", "invalid", "_other"
};
static const char *const error_names[] = { "", "timeout", "cancelled", "_OTHER" };
static const char *const scope_names[] = { "key", "upstream" };
static const char *const interruption_names[] = { "before_first_chunk", "mid_stream" };
static const char *const token_names[] = { "input", "output" };
static const char *const write_names[] = { "success", "4xx", "5xx" };
static const char *const hedge_names[] = { "won", "lost", "failed", "cancelled", "busy", "no_slot" };
static const char *const meter_names[] = { "concurrency", "requests", "tokens" };

static const char *const read_names[] = { GATEWAY "pool.inflight" };

const struct closed_list metric_surfaces = LIST_OF(surface_names);
const struct closed_list metric_operations = LIST_OF(operation_names);
const struct closed_list metric_verdicts = LIST_OF(verdict_names);
const struct closed_list metric_stages = LIST_OF(stage_names);
const struct closed_list metric_reload_sources = LIST_OF(source_names);
const struct closed_list metric_signals = LIST_OF(signal_names);
const struct closed_list metric_statuses = LIST_OF(status_names);
const struct closed_list metric_reasons = LIST_OF(reason_names);
const struct closed_list metric_meters = LIST_OF(meter_names);
static const struct closed_list gauges_read = LIST_OF(read_names);
static const struct closed_list errors = LIST_OF(error_names);
static const struct closed_list scopes = LIST_OF(scope_names);
static const struct closed_list hedges = LIST_OF(hedge_names);
static const struct closed_list interruptions = LIST_OF(interruption_names);
static const struct closed_list tokens = LIST_OF(token_names);
static const struct closed_list write_results = LIST_OF(write_names);

/* --- buckets --- */

/* The conventions' bounds, in µs, and three more: a generation may take ten minutes. */
static const uint64_t duration_bounds[] = { 10000,    20000,    40000,     80000,     160000,   320000,
                                            640000,   1280000,  2560000,   5120000,   10240000, 20480000,
                                            40960000, 81920000, 163840000, 327680000, 655360000 };
/* And three more: a model that reasons may be silent for minutes. */
static const uint64_t first_token_bounds[] = { 1000,     5000,     10000,    20000,    40000,
                                               60000,    80000,    100000,   250000,   500000,
                                               750000,   1000000,  2500000,  5000000,  7500000,
                                               10000000, 30000000, 60000000, 120000000 };
static const uint64_t output_token_bounds[] = { 10000,  25000,  50000,  75000,  100000,  150000, 200000,
                                                300000, 400000, 500000, 750000, 1000000, 2500000 };
static const uint64_t token_bounds[] = { 1,     4,     16,     64,      256,     1024,     4096,
                                         16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864 };
static const uint64_t depth_bounds[] = { 0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50 };
static const uint64_t overhead_bounds[] = { 50,   100,   200,   400,   800,    1600,   3200,
                                            6400, 12800, 25600, 51200, 102400, 1000000 };
/* A tick of the overflow process is 20 ms: it sees nothing finer. */
static const uint64_t queue_bounds[] = { 20000,   40000,   100000,  200000,  400000,
                                         1000000, 2000000, 5000000, 10000000 };

static const uint64_t slot_wait_bounds[] = { 10000,    20000,    50000,    100000,  200000,
                                             500000,   1000000,  2000000,  5000000, 10000000,
                                             20000000, 60000000, 600000000 };

static const struct buckets durations = LIST_OF(duration_bounds);
static const struct buckets first_tokens = LIST_OF(first_token_bounds);
static const struct buckets output_tokens = LIST_OF(output_token_bounds);
static const struct buckets token_counts = LIST_OF(token_bounds);
static const struct buckets depths = LIST_OF(depth_bounds);
static const struct buckets overheads = LIST_OF(overhead_bounds);
static const struct buckets queue_times = LIST_OF(queue_bounds);
static const struct buckets slot_waits = LIST_OF(slot_wait_bounds);

/* --- the table --- */

enum { MICRO = 1000000 };

#define GENAI_LABELS                                                            \
    {                                                                           \
        "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model" \
    }

/* clang-format off: its layout of such a table is unreadable. */
const struct metric metric_rows[METRIC_COUNT] = {
    [METRIC_REQUESTS] = {
        .name = GATEWAY "requests", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_MODEL,
        .block_labels = { "surface", "model" }, .closed = { { "status_code", &metric_statuses } },
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Requests that have ended, by the status the caller was sent.",
        .moves = "A request has ended. Probes are not counted. The model is the one that served, or "
                 "\"_other\" for a request without one; the status is \"none\" if the caller left "
                 "before one was sent, or the worker died.",
        .advice = "The denominator of error ratios; of fallback ratios it is fallback.depth's count.",
    },
    [METRIC_FALLBACK_COUNT] = {
        .name = GATEWAY "fallback.count", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_KEY,
        .block_labels = { "provider", "from_key" },
        .closed = { { "reason", &metric_reasons }, { "scope", &scopes } }, .divisor = 1,
        .programs = METRIC_OF_ROUTER,
        .help = "Requests that needed more than one attempt, by their first failure.",
        .moves = "A request has ended in which attempts failed before the one that decided: once, whatever "
                 "their number; not for one that was cancelled since another answered. "
                 "The scope is \"upstream\" if any attempt went to another upstream than the one "
                 "before it.",
        .advice = "Find from_key as keyFingerprint in the tree; mend or remove it.",
    },
    [METRIC_FALLBACK_DEPTH] = {
        .name = GATEWAY "fallback.depth", .unit = "{attempt}", .kind = METRIC_HISTOGRAM, .block = BLOCK_INSTANCE,
        .closed = { { "surface", &metric_surfaces } }, .buckets = &depths, .divisor = 1,
        .programs = METRIC_OF_ROUTER,
        .help = "Attempts that failed before the one that decided, of requests that made any.",
        .moves = "A request has ended that made an attempt.",
        .advice = "A mean above 0.5 for a day says that dead keys are tried first: reorder the tree.",
    },
    [METRIC_ATTEMPTS] = {
        .name = GATEWAY "attempts", .unit = "{attempt}", .kind = METRIC_COUNTER, .block = BLOCK_PROVIDER,
        .block_labels = { "provider" }, .closed = { { "verdict", &metric_verdicts } }, .divisor = 1,
        .programs = METRIC_OF_ROUTER,
        .help = "Attempts by how they were judged.",
        .moves = "With its request's end, for each attempt. \"cancelled\": the caller left, or another "
                 "attempt beside it answered.",
    },
    [METRIC_HEDGES] = {
        .name = GATEWAY "hedge.count", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_MODEL,
        .block_labels = { "surface", "model" }, .closed = { { "outcome", &hedges } }, .divisor = 1,
        .programs = METRIC_OF_ROUTER,
        .help = "Requests whose first attempt had produced nothing after hedgeAfterMs, by what became of "
                "the attempt beside it.",
        .moves = "With the request's end. \"won\": it answered; \"lost\": the first one did; \"failed\"; "
                 "\"cancelled\": the caller left, or the chain ended without it. It was not made, as "
                 "connections waited for a worker: \"busy\"; or as its pool had no slot: \"no_slot\".",
        .advice = "Of all of them over requests: more than a few in a hundred say that hedgeAfterMs is too "
                  "short. Mostly \"lost\": what was paid for twice was seldom needed.",
    },
    [METRIC_UPSTREAM_ERRORS] = {
        .name = GATEWAY "upstream.errors", .unit = "{attempt}", .kind = METRIC_COUNTER, .block = BLOCK_KEY,
        .block_labels = { "provider", "key_id" }, .closed = { { "status_code", &metric_reasons } },
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Failed attempts, by key and by the upstream's status, or what came instead of one.",
        .moves = "With its request's end, for each attempt that failed; not for the caller's own "
                 "mistakes, nor for those that were cancelled. \"200\" is an error that was said with a "
                 "200.",
        .advice = "Find key_id as keyFingerprint in the tree.",
    },
    [METRIC_UPSTREAM_REPLAYS] = {
        .name = GATEWAY "upstream.replays", .unit = "{attempt}", .kind = METRIC_COUNTER, .block = BLOCK_PROVIDER,
        .block_labels = { "provider" }, .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Attempts that were sent a second time because a kept connection had been closed.",
        .moves = "With its request's end.",
    },
    [METRIC_KEY_EXHAUSTED] = {
        .name = GATEWAY "key.exhausted.count", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_PROVIDER,
        .block_labels = { "provider" },
        .closed = { { "status_code", &metric_reasons }, { "surface", &metric_surfaces } }, .divisor = 1,
        .programs = METRIC_OF_ROUTER,
        .help = "Requests that failed because every candidate had failed, by the last one.",
        .moves = "A request has been answered with an error and no candidate was left to try. Never "
                 "for one that a later upstream answered.",
        .advice = "Users see errors. Give the model a live key now.",
    },
    [METRIC_DECRYPT_FAILURES] = {
        .name = GATEWAY "decrypt.failures", .unit = "{attempt}", .kind = METRIC_COUNTER, .block = BLOCK_PROVIDER,
        .block_labels = { "provider" }, .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Provider keys that did not decrypt with the master key when they were needed.",
        .moves = "At once.",
        .advice = "The master key of this instance is not the one the tree was written with.",
    },
    [METRIC_STREAM_INTERRUPTED] = {
        .name = GATEWAY "stream.interrupted", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .closed = { { "stage", &interruptions } }, .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Streams that did not end as they should, by whether content had been sent.",
        .moves = "A stream has ended because every attempt failed, the upstream broke off or said "
                 "an error, or the caller left.",
    },
    [METRIC_OVERHEAD] = {
        .name = GATEWAY "overhead.duration", .unit = "s", .kind = METRIC_HISTOGRAM, .block = BLOCK_INSTANCE,
        .closed = { { "surface", &metric_surfaces } }, .buckets = &overheads, .divisor = MICRO,
        .programs = METRIC_OF_ROUTER,
        .help = "Our own time: a request's, without the waiting for upstream and caller.",
        .moves = "A request has ended.",
    },
    [METRIC_QUEUE_DURATION] = {
        .name = GATEWAY "queue.duration", .unit = "s", .kind = METRIC_HISTOGRAM, .block = BLOCK_INSTANCE,
        .buckets = &queue_times, .divisor = MICRO, .programs = METRIC_OF_ROUTER,
        .help = "How long connections waited to be accepted, to 20 ms.",
        .moves = "At the tick of the overflow process after each was accepted; where ticks came "
                 "late, with as long as is known for certain.",
        .advice = "More workers, or fewer requests.",
    },
    [METRIC_OVERFLOW] = {
        .name = GATEWAY "overflow.count", .unit = "{connection}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Connections answered 503 because they had waited too long.",
        .moves = "At once.",
        .advice = "More workers, or fewer requests.",
    },
    [METRIC_THROTTLED] = {
        .name = GATEWAY "throttled", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .closed = { { "meter", &metric_meters } }, .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Requests answered 429 because their caller had reached a limit of its own, by the limit.",
        .moves = "With the request's end. No attempt was made.",
        .advice = "The event's key_id says whose; limits in CALLER_KEYS says which.",
    },
    [METRIC_LIMITS_ALONE] = {
        .name = GATEWAY "limits.alone", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Requests of callers with limits that only this instance counted, since Redis did not answer.",
        .moves = "At once. Other instances let the caller have as much again meanwhile.",
        .advice = "Look after Redis; the log says how it fails.",
    },
    [METRIC_LIMITS_UNCOUNTED] = {
        .name = GATEWAY "limits.uncounted", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Requests of callers with limits that were let in without being counted in their minute, since a "
                "worker that does not go on keeps it from the others.",
        .moves = "At once. Limits of a minute do not hold for these callers meanwhile; those of requests in hand do.",
        .advice = "Find the worker that is stopped (ps: state T or t), and let it go on, or kill it.",
    },
    [METRIC_POOL_INFLIGHT] = {
        .name = GATEWAY "pool.inflight", .unit = "{request}", .kind = METRIC_GAUGE, .block = BLOCK_POOL,
        .block_labels = { "app_id" }, .divisor = 1, .programs = METRIC_OF_ROUTER, .may_be_unknown = true,
        .help = "Requests of all instances that have a slot of the pool.",
        .moves = "Every 5 s, by the shipper. Nothing is reported when it could not be read.",
        .advice = "Instances that share a Redis say the same: take the maximum, never the sum.",
    },
    [METRIC_POOL_CAPACITY] = {
        .name = GATEWAY "pool.capacity", .unit = "{request}", .kind = METRIC_GAUGE, .block = BLOCK_POOL,
        .block_labels = { "app_id" }, .divisor = 1, .programs = METRIC_OF_ROUTER, .may_be_unknown = true,
        .help = "Slots that the pool has: maxConcurrency, the largest where several models name the pool.",
        .moves = "With pool.inflight. Nothing is reported of pools without limit.",
        .advice = "As of pool.inflight: the maximum, never the sum.",
    },
    [METRIC_POOL_SLOT_REJECTED] = {
        .name = GATEWAY "pool.slot_rejected", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_POOL,
        .block_labels = { "app_id", "provider" }, .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Requests that found all slots of the pool in use.",
        .moves = "At once, once for each request and pool, also where another pool had a slot.",
        .advice = "If requests are answered 503, more capacity is needed: another app.",
    },
    [METRIC_POOL_SATURATION_MARKED] = {
        .name = GATEWAY "pool.saturation_marked", .unit = "{attempt}", .kind = METRIC_COUNTER,
        .block = BLOCK_POOL, .block_labels = { "app_id", "provider" }, .divisor = 1,
        .programs = METRIC_OF_ROUTER,
        .help = "Attempts after which the pool was left alone for a while: its provider said that it has "
                "too much in hand.",
        .moves = "At once.",
        .advice = "maxConcurrency is more than the provider allows, or the app is used by others too.",
    },
    [METRIC_POOL_WAIT] = {
        .name = GATEWAY "pool.wait.duration", .unit = "s", .kind = METRIC_HISTOGRAM, .block = BLOCK_INSTANCE,
        .buckets = &slot_waits, .divisor = MICRO, .programs = METRIC_OF_ROUTER,
        .help = "How long requests waited for a slot, of those that had to and whose model lets them.",
        .moves = "With the request's end, whether or not it got one.",
    },
    [METRIC_POOLS_ALONE] = {
        .name = GATEWAY "pools.alone", .unit = "{request}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Requests whose slots Redis did not count, since it did not answer: this instance counted them "
                "alone, or gave none out.",
        .moves = "At once.",
        .advice = "Look after Redis; the log says how it fails.",
    },
    [METRIC_READ_ERRORS] = {
        .name = "airi.observability.read_errors", .unit = "{read}", .kind = METRIC_COUNTER,
        .block = BLOCK_INSTANCE, .closed = { { "metric", &gauges_read } }, .divisor = 1,
        .programs = METRIC_OF_ROUTER,
        .help = "Readings of a gauge that failed.",
        .moves = "At once. The gauge says nothing until it can be read again.",
        .advice = "Of pool.inflight: look after Redis.",
    },
    [METRIC_TOKEN_USAGE] = {
        .name = "gen_ai.client.token.usage", .unit = "{token}", .kind = METRIC_HISTOGRAM, .block = BLOCK_ROUTE,
        .block_labels = GENAI_LABELS, .closed = { { "gen_ai.token.type", &tokens } },
        .buckets = &token_counts, .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Tokens per request, as the upstream counted them.",
        .moves = "A request has ended whose usage is known.",
    },
    [METRIC_OPERATION_DURATION] = {
        .name = "gen_ai.client.operation.duration", .unit = "s", .kind = METRIC_HISTOGRAM, .block = BLOCK_ROUTE,
        .block_labels = GENAI_LABELS, .closed = { { "error.type", &errors } }, .buckets = &durations,
        .divisor = MICRO, .programs = METRIC_OF_ROUTER,
        .help = "Duration of attempts.",
        .moves = "With its request's end, for each attempt. error.type is absent for one that "
                 "answered, \"timeout\" where a clock of ours ran out, \"cancelled\" where the "
                 "caller left or another attempt answered, else \"_OTHER\".",
    },
    [METRIC_REQUEST_DURATION] = {
        .name = "gen_ai.server.request.duration", .unit = "s", .kind = METRIC_HISTOGRAM, .block = BLOCK_ROUTE,
        .block_labels = GENAI_LABELS, .closed = { { "error.type", &errors } }, .buckets = &durations,
        .divisor = MICRO, .programs = METRIC_OF_ROUTER,
        .help = "Duration of requests that made an attempt; the provider is that of the one that decided.",
        .moves = "A request has ended.",
    },
    [METRIC_TIME_TO_FIRST_TOKEN] = {
        .name = "gen_ai.server.time_to_first_token", .unit = "s", .kind = METRIC_HISTOGRAM, .block = BLOCK_ROUTE,
        .block_labels = GENAI_LABELS, .buckets = &first_tokens, .divisor = MICRO,
        .programs = METRIC_OF_ROUTER,
        .help = "From a request's start to its first content, with every attempt before it.",
        .moves = "A request has ended that sent content.",
    },
    [METRIC_TIME_PER_OUTPUT_TOKEN] = {
        .name = "gen_ai.server.time_per_output_token", .unit = "s", .kind = METRIC_HISTOGRAM, .block = BLOCK_ROUTE,
        .block_labels = GENAI_LABELS, .buckets = &output_tokens, .divisor = MICRO,
        .programs = METRIC_OF_ROUTER,
        .help = "Time from the first content to the end, by the output tokens after the first.",
        .moves = "A stream has ended whose usage is known.",
    },
    [METRIC_CONFIG_RELOAD] = {
        .name = GATEWAY "config.reload", .unit = "{reload}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .closed = { { "source", &metric_reload_sources } }, .divisor = 1, .programs = METRIC_OF_ROUTER,
        .names_instance = true,
        .help = "Configurations that came into force, by what they were found with.",
        .moves = "At once.",
    },
    [METRIC_CONFIG_REFUSALS] = {
        .name = GATEWAY "config.refusals", .unit = "{configuration}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Configurations that were found and refused; the last good one stays in force.",
        .moves = "At once.",
        .advice = "The log says what is wrong with it.",
    },
    [METRIC_CONFIG_INVALID_HMAC] = {
        .name = GATEWAY "config.invalid_hmac", .unit = "{message}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "News of changes that did not verify, or were malformed or too long.",
        .moves = "At once.",
        .advice = "Somebody else writes to the channel, or an instance has another master key.",
    },
    [METRIC_CONFIG_WRITE_COUNT] = {
        .name = GATEWAY "config.write_count", .unit = "{write}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .closed = { { "result", &write_results } }, .divisor = 1, .programs = METRIC_OF_ADMIN,
        .help = "Requests of administrators that would change the configuration, by how they ended.",
        .moves = "One has been answered; a dry run is none.",
    },
    [METRIC_CONFIG_VERSION_AGE] = {
        .name = GATEWAY "config.version.age", .unit = "s", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .divisor = MICRO, .programs = METRIC_OF_ROUTER, .names_instance = true,
        .help = "How long the version of the tree has been in force.",
        .moves = "It grows, and begins again with each version.",
    },
    [METRIC_CONFIG_GENERATION] = {
        .name = GATEWAY "config.generation", .unit = "{generation}", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER, .names_instance = true,
        .help = "Generation of the configuration in force; 0: there is none.",
        .moves = "With each configuration that comes into force.",
    },
    [METRIC_CONFIG_INFO] = {
        .name = GATEWAY "config.info", .unit = "1", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER, .names_instance = true, .names_version = true,
        .help = "Always 1; its label says which version of the tree is in force.",
        .moves = "Never; the series of a version that was replaced ends.",
        .advice = "More than one version for longer than five seconds: see config.version.age of "
                  "each instance.",
    },
    [METRIC_STORE_UP] = {
        .name = GATEWAY "store.up", .unit = "1", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "1 while the keeper can read the store.",
        .moves = "With each look at the store.",
        .advice = "Requests go on with the last good configuration; changes do not arrive.",
    },
    [METRIC_REDIS_CONNECTIONS] = {
        .name = GATEWAY "redis.connections", .unit = "{connection}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Subscriptions to Redis that stood.",
        .moves = "At once. One that keeps counting is a connection that does not last.",
    },
    [METRIC_WORKERS] = {
        .name = GATEWAY "workers", .unit = "{worker}", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .closed = { { "state", &metric_stages } }, .divisor = 1, .programs = METRIC_OF_BOTH,
        .help = "Workers by what they are doing; \"free\" is a place without one.",
        .moves = "Read when it is asked for.",
        .advice = "None idle for long: see queue.duration.",
    },
    [METRIC_WORKER_DEATHS] = {
        .name = GATEWAY "worker.deaths", .unit = "{worker}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_BOTH,
        .help = "Workers that died unasked.",
        .moves = "At once.",
        .advice = "The log says how, and in the middle of which request. Report it.",
    },
    [METRIC_CONNECTIONS_ACCEPTED] = {
        .name = GATEWAY "connections.accepted", .unit = "{connection}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_BOTH,
        .help = "Connections taken by workers and overflow.",
        .moves = "At once.",
    },
    [METRIC_QUEUE_LENGTH] = {
        .name = GATEWAY "queue.length", .unit = "{connection}", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Connections that wait for a worker.",
        .moves = "Every 20 ms.",
    },
    [METRIC_WAKEUPS_REPAIRED] = {
        .name = GATEWAY "wakeups.repaired", .unit = "{wakeup}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Wake-ups that died with a worker and were repaired.",
        .moves = "At once.",
    },
    [METRIC_START_TIME] = {
        .name = "process.start_time", .unit = "s", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .divisor = MICRO, .programs = METRIC_OF_BOTH,
        .help = "When the cells began to count, in seconds since 1970.",
        .moves = "With a new master; not with a reload.",
    },
    [METRIC_SPOOL_BYTES] = {
        .name = GATEWAY "spool.bytes", .unit = "By", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_BOTH,
        .help = "Size of the spool's segments on disk.",
        .moves = "Read every second.",
        .advice = "It grows while a sink does not take what it is sent: see spool.lag and "
                  "export.failures.",
    },
    [METRIC_SPOOL_LAG] = {
        .name = GATEWAY "spool.lag", .unit = "s", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .closed = { { "signal", &metric_signals } }, .divisor = MICRO, .programs = METRIC_OF_BOTH,
        .help = "Age of the oldest event that a sink has not been given; 0: it has them all, or is "
                "not configured.",
        .moves = "Read every second.",
    },
    [METRIC_SPOOL_DROPPED] = {
        .name = GATEWAY "spool.dropped", .unit = "{event}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_BOTH,
        .help = "Events that could not be written: the disk is full, or the spool has its bound.",
        .moves = "At once. Requests are served all the same, and counted.",
        .advice = "Make room, or mend the sink; what was dropped is in no log, trace or row.",
    },
    [METRIC_EXPORT_DELIVERED] = {
        .name = GATEWAY "export.delivered", .unit = "{item}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .closed = { { "signal", &metric_signals } }, .divisor = 1, .programs = METRIC_OF_BOTH,
        .help = "Spans, data points, log records and rows that a receiver has taken.",
        .moves = "A receiver has confirmed a batch.",
    },
    [METRIC_EXPORT_FAILURES] = {
        .name = GATEWAY "export.failures", .unit = "{batch}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .closed = { { "signal", &metric_signals } }, .divisor = 1, .programs = METRIC_OF_BOTH,
        .help = "Batches that were not delivered at one try; they are tried again.",
        .moves = "A receiver could not be reached, was too slow, or asked for patience.",
        .advice = "Nothing is lost while the spool has room.",
    },
    [METRIC_EXPORT_DROPPED] = {
        .name = GATEWAY "export.dropped", .unit = "{item}", .kind = METRIC_COUNTER, .block = BLOCK_INSTANCE,
        .closed = { { "signal", &metric_signals } }, .divisor = 1, .programs = METRIC_OF_BOTH,
        .help = "Items that a receiver refused for good.",
        .moves = "A partial success, a status that may not be retried, or an event that a table "
                 "cannot hold.",
        .advice = "The log has the receiver's words.",
    },
    [METRIC_SERIES_LOST] = {
        .name = GATEWAY "series.lost", .unit = "{block}", .kind = METRIC_GAUGE, .block = BLOCK_INSTANCE,
        .divisor = 1, .programs = METRIC_OF_ROUTER,
        .help = "Models, providers, keys and routes of the tree in force that found no cells; they "
                "count as \"_other\".",
        .moves = "A configuration comes into force with more of them than there is room for.",
        .advice = "Restart the instance: cells of what the tree no longer has are free then.",
    },
};
/* clang-format on */
