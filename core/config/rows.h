/*
 * Shorthands for rows of the field tables, and what several tables need.
 */
#ifndef CORE_CONFIG_ROWS_H
#define CORE_CONFIG_ROWS_H

#include "core/config/field.h"

enum {
    TIMEOUT_MAX_MS = 3600 * 1000,
    HEDGE_MIN_MS = 50, /* below it most requests would be asked twice */
    CONCURRENCY_MAX = 100000,
    CIPHERTEXT_MAX_BYTES = 12000, /* the envelope's own bound is tighter */
};

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define PLAINTEXT_REFUSED \
    "a plaintext key is never stored: encrypt it with llm-routerctl encrypt, or PUT it to llm-router-admin"

/* Of a model. */
#define WORKER_SHARE                                                                                   \
    {                                                                                                  \
        .name = "maxWorkerShare", .kind = FIELD_INT, .min = 1, .max = 100, .preset = "100",            \
        .land = offsetof(struct snap_model, worker_share_percent),                                     \
        .doc = "The percentage of an instance's workers, but at least one, that may have requests of " \
               "this model in hand; beyond it, 503."                                                   \
    }

/* Of a model; checked by model_check_hedging. */
#define HEDGE_AFTER                                                                                         \
    {                                                                                                       \
        .name = "hedgeAfterMs", .kind = FIELD_INT, .min = HEDGE_MIN_MS, .max = TIMEOUT_MAX_MS,              \
        .land = offsetof(struct snap_model, hedge_after_ms),                                                \
        .doc = "How long the first attempt of a request may produce nothing until the next candidate is "   \
               "asked beside it: see HEDGING. Less than the timeouts of the model's upstreams; if absent, " \
               "nobody is asked beside another."                                                            \
    }

/* A timeout that falls back on `from` of the document's defaults. */
#define TIMEOUT(field_name, place, from, text)                                                     \
    {                                                                                              \
        .name = (field_name), .kind = FIELD_INT, .min = 1, .max = TIMEOUT_MAX_MS, .land = (place), \
        .inherits = (from), .doc = (text)                                                          \
    }

/* A text that is only shown or sent. */
#define LABEL(field_name, place, text)                                                                  \
    {                                                                                                   \
        .name = (field_name), .kind = FIELD_TEXT, .rule = &rule_label, .min = 1, .max = NAME_MAX_BYTES, \
        .land = (place), .doc = (text)                                                                  \
    }

/* Of an upstream, whoever adapts to it. */
#define PROPAGATE_TRACE                                                                                  \
    {                                                                                                    \
        .name = "propagateTrace", .kind = FIELD_BOOL, .inherits = "propagateTrace",                      \
        .land = offsetof(struct snap_upstream, propagates_trace),                                        \
        .doc = "Whether the upstream is told the request's trace (headers traceparent and tracestate): " \
               "for servers that send traces where ours go, and seldom for somebody else's."             \
    }

/* Of an upstream: how many slots its pool has. */
#define MAX_CONCURRENCY                                                                                 \
    {                                                                                                   \
        .name = "maxConcurrency", .kind = FIELD_INT, .min = 1, .max = CONCURRENCY_MAX,                  \
        .land = offsetof(struct snap_upstream, max_concurrency),                                        \
        .doc = "How many requests of all instances together the upstream may have in hand: its pool's " \
               "slots; without limit if absent."                                                        \
    }

/* A member of a feature that is not built yet. */
#define RESERVED(field_name)                                                       \
    {                                                                              \
        .name = (field_name), .kind = FIELD_REFUSED, .doc = "is not supported yet" \
    }

extern const struct record upstream_record, key_record, trigger_record, tts_record;

/* Of an upstream that names none: made of what names it, so that it outlives a
 * change of its place, keys and timeouts, and is another when it becomes another
 * endpoint. `model` is the name it has there; may be empty. */
struct snap_str upstream_derive_id(struct reader *r, const struct snap_upstream *u, struct span url,
                                   struct span model);

/* Names the upstream's pool, of the part "tts" or "llm": by its app id, so that all models that use the
 * app share its slots; without one by model and upstream, whose id has landed. */
void upstream_name_pool(struct reader *r, struct snap_upstream *u, const char *part, struct span app_id);

/* Faults for keys of an upstream, and upstreams of a model, that have one id.
 * `derived_from`: what two upstreams without one have in common. */
void upstream_check_key_ids(struct reader *r, const struct snap_upstream *u);
void upstream_check_ids(struct reader *r, const struct snap_model *model, json_object *object,
                        const char *derived_from);

/* A fault where the time to ask another candidate would never come, since a timeout comes first. */
void model_check_hedging(struct reader *r, const struct snap_model *model);

/* A member that is a string; {NULL, 0} otherwise. */
struct span member_text(json_object *object, const char *name);

#endif
