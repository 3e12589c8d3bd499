/*
 * What a caller is told when we, not an upstream, answer: one table from the
 * kind of failure to status, codes and words, and the two forms in which a
 * mount writes them.
 *
 *   /v1               {"error":{"message","type","param","code","details"?}}
 *   /api/v1/openai    {"error":CODE,"message","details"?}
 */
#ifndef CORE_ROUTE_FAILURE_H
#define CORE_ROUTE_FAILURE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"
#include "core/base/span.h"

enum failure_kind {
    FAILURE_INVALID_JSON,
    FAILURE_INVALID_REQUEST,
    FAILURE_UNKNOWN_MODEL, /* 404 in /v1, 400 at the seeds' mount */
    FAILURE_MISSING_MODEL, /* none was named, and there is no default */
    FAILURE_UNAUTHORIZED,
    FAILURE_FORBIDDEN,
    FAILURE_NOT_FOUND,
    FAILURE_METHOD_NOT_ALLOWED,
    FAILURE_BODY_TOO_LARGE,
    FAILURE_BODY_INCOMPLETE,
    FAILURE_BODY_MEMORY_FULL, /* of all requests together */
    FAILURE_UNSUPPORTED_MEDIA_TYPE,
    FAILURE_HEADERS_TOO_LARGE,
    FAILURE_PRECONDITION_REQUIRED,
    FAILURE_CONFLICT,
    FAILURE_CONFIG_NOT_SET,
    FAILURE_STORE_DOWN, /* for administrators: callers need no store */
    FAILURE_DECRYPT_FAILED,
    FAILURE_UPSTREAM_UNAVAILABLE,
    FAILURE_UPSTREAM_RATE_LIMITED,
    FAILURE_UPSTREAM_TIMEOUT,
    FAILURE_CALLER_THROTTLED,
    FAILURE_ALL_SKIPPED,      /* every upstream has in hand what it may */
    FAILURE_SPEECH_SATURATED, /* the same, of a model that speaks */
    FAILURE_MODEL_BUSY,       /* its share of the workers is taken */
    FAILURE_OVERLOADED,       /* waited too long for a worker */
    FAILURE_INTERNAL,
    FAILURE_KIND_COUNT,
};

enum error_form {
    ERROR_FORM_OPENAI, /* of /v1 */
    ERROR_FORM_CODED,  /* of /api/v1/openai and /api/admin */
};

enum { FAILURE_STATUS_TEXT_BYTES = 16 };

struct failure {
    enum failure_kind kind;
    const char *message;    /* NULL: the table's */
    const char *param;      /* the member at fault, or NULL */
    unsigned retry_after_s; /* 0: no Retry-After */
    bool no_retry;          /* a retry cannot help: x-should-retry: false */
    const char *allow;      /* methods, for FAILURE_METHOD_NOT_ALLOWED */

    /* Exhaustion: details are exactly these three. */
    bool has_attempts;
    unsigned tried_keys, tried_upstreams;
    char last_status[FAILURE_STATUS_TEXT_BYTES]; /* digits, or timeout, connect, reset, invalid */

    /* Other details, as JSON; empty if none. */
    struct span details;
};

int failure_status(const struct failure *failure, enum error_form form);

/* "upstream_unavailable": the event's `code`, and error.code in /v1. */
const char *failure_code(const struct failure *failure);

/* Whether the caller may get another answer by asking again: as the table has it, unless no_retry. */
bool failure_can_retry(const struct failure *failure);

const char *failure_message(const struct failure *failure);
const char *failure_type(const struct failure *failure);

/* The body. */
void failure_write(const struct failure *failure, enum error_form form, struct buf *out);

#endif
