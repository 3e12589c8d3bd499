/*
 * What a failed reply means: a table of signatures comes before the status,
 * because many providers report a dead key or an empty account with a 400, a
 * 403, a 429, a 500 or a 200.
 *
 * A signature matches tokens of the provider's error object (code before type),
 * then phrases in its message only, without quoted parts: never text that a
 * caller could have put there.
 *
 * Pure; the body may be cut anywhere.
 */
#ifndef CORE_ROUTE_SIGNATURE_H
#define CORE_ROUTE_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/span.h"
#include "core/route/verdict.h"

enum { SIGNATURE_BODY_MAX = 8 * 1024 };

struct reply_facts {
    struct span provider;    /* the upstream's provider name; may be unknown to the table */
    int status;              /* HTTP; for an error inside a 2xx, that 2xx */
    bool in_band;            /* the body is an error object or event inside a 2xx */
    struct span body;        /* at most SIGNATURE_BODY_MAX are looked at */
    struct span retry_after; /* the header's value; empty if absent */
    struct span retry_after_ms;
    struct span amzn_error_type; /* x-amzn-ErrorType */
    int64_t now_s;               /* Unix time, for a Retry-After that is a date; 0: the clock's */
};

struct opinion {
    enum verdict verdict;
    enum blame blame;
    bool is_proven; /* a signature or an unambiguous status said so; false: an unrecognised 400, 415 or 422 */
    bool refuses_stream_options; /* a 400 or 422 that is about them */
    const char *signature;       /* which row matched, for the record: "code:invalid_api_key", "phrase:credit
                                    balance", "param", "html", "status"; of few values, in the arena or constant */
    char code[64];       /* the provider's token (code, type, status or reason), "" if none; for the record */
    struct span message; /* the provider's sentence, decoded, in the arena; for the log only: redact it */
    int inner_status;    /* a status inside the error object (300-599), else 0 */
    unsigned retry_after_s; /* a hint, rounded up, 1..3600; 0: none */
};

/* Never fails: what is not recognised falls back to the status. */
void signature_judge(const struct reply_facts *facts, struct arena *arena, struct opinion *out);

/* Of a finish_reason (decoded text): VERDICT_OK, or VERDICT_SERVER for "error",
 * "network_error", "insufficient_system_resource", or VERDICT_CLIENT for
 * "content_filter" and "sensitive". Unknown values are VERDICT_OK. */
enum verdict signature_finish_reason(struct span text);

#endif
