/*
 * The signatures as data: what an operator or a maintainer extends when a
 * provider words a failure in a new way. Private to core/route.
 *
 * Tables are asked in this order, and in each the rows of the reply's own
 * provider before those of nobody; the first row that fits decides:
 *
 *   signature_providers   exact tokens of one provider     signature_providers.c
 *   signature_tokens      exact tokens anybody may use     signature_table.c
 *   signature_alone       statuses that need no words      signature_table.c
 *   signature_phrases     words of the message             signature_phrases.c
 *   (an error inside the error, through all of the above)
 *   signature_classes     tokens that only name a class    signature_table.c
 *   signature_fallback    the bare status                  signature_table.c
 */
#ifndef CORE_ROUTE_SIGNATURE_TABLE_H
#define CORE_ROUTE_SIGNATURE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/route/verdict.h"

/* What a token of the error object is called there, the most telling first. */
enum signature_field {
    FIELD_ANY,    /* in a row: FIELD_REASON to FIELD_CLASS, tried in this order */
    FIELD_REASON, /* details[].reason, quotaId, details.error_code, limit_source, error_type, innererror.code
                   */
    FIELD_CODE,
    FIELD_STATUS,
    FIELD_TYPE,
    FIELD_CLASS, /* a token that the message carries: "litellm.CLASS: …", "… (1008)" */
    FIELD_PARAM,
    FIELD_LOC,    /* an element of a validator's detail[].loc */
    FIELD_MEMBER, /* a member that is there, whatever it holds; the token is its path */
    FIELD_FINISH, /* choices[].finish_reason */
    FIELD_COUNT,
};

/* The field's name in a signature's name: "code" in "code:invalid_api_key". */
const char *signature_field_name(enum signature_field field);

/* A row fits when everything it names fits. A token is compared whole and with
 * its case; "*" stands for any bytes. */
struct signature_row {
    const char *provider; /* NULL: any */
    enum signature_field field;
    const char *token;
    int status;         /* 0: any */
    const char *phrase; /* as below; NULL: none needed */
    enum verdict verdict;
    enum blame blame;
};

/* A phrase is lower case, begins where a word begins, and is looked for in the
 * message without its quoted parts; "*" stands for at most 80 bytes, and "$" at
 * the end for the end of the message. */
struct signature_phrase {
    const char *provider; /* NULL: any */
    int status;           /* 0: any */
    const char *phrase;
    enum verdict verdict;
    enum blame blame;
};

struct signature_status {
    const char *provider; /* NULL: any */
    int first, last;
    const char *phrase;    /* NULL: none needed */
    bool with_retry_after; /* only beside a Retry-After header */
    enum verdict verdict;
    enum blame blame;
};

/* A program that passes other providers' failures on, known by its replies. */
struct signature_gateway {
    enum signature_field field; /* FIELD_ANY: the message */
    const char *pattern;        /* as a token */
    const char *provider;       /* whose rows apply beside the configured one's */
    bool relays;                /* the failure is of a key of the gateway's, not of ours */
};

struct signature_alias {
    const char *alias, *provider;
};

struct signature_finish {
    const char *reason;
    enum verdict verdict;
};

extern const struct signature_row signature_providers[], signature_tokens[], signature_classes[];
extern const size_t signature_providers_count, signature_tokens_count, signature_classes_count;

extern const struct signature_phrase signature_phrases[];
extern const size_t signature_phrases_count;

extern const struct signature_status signature_alone[], signature_html[], signature_fallback[];
extern const size_t signature_alone_count, signature_html_count, signature_fallback_count;

extern const struct signature_gateway signature_gateways[];
extern const size_t signature_gateways_count;

/* Other names of providers, as operators and OpenTelemetry write them. */
extern const struct signature_alias signature_aliases[];
extern const size_t signature_aliases_count;

/* Values of finish_reason that are failures. */
extern const struct signature_finish signature_finishes[];
extern const size_t signature_finishes_count;

#endif
