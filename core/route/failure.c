#include "core/route/failure.h"

#include <stdlib.h>

#include "core/json/writer.h"

/* Statuses and codes of the seeds' form: the documents' error table; types of
 * the other: OpenAI's API reference, "Error codes". */
static const struct row {
    int status;
    int status_coded;  /* at the seeds' mount, where it differs; else 0 */
    const char *coded; /* the seeds' CODE */
    const char *type;
    const char *code;
    const char *message;
    bool can_retry;
} rows[FAILURE_KIND_COUNT] = {
    [FAILURE_INVALID_JSON] = { 400, 0, "BAD_REQUEST", "invalid_request_error", "invalid_json",
                               "The body is not valid JSON.", false },
    [FAILURE_INVALID_REQUEST] = { 400, 0, "BAD_REQUEST", "invalid_request_error", "invalid_request",
                                  "The request is not valid.", false },
    [FAILURE_UNKNOWN_MODEL] = { 404, 400, "BAD_REQUEST", "invalid_request_error", "model_not_found",
                                "unknown_model", false },
    [FAILURE_MISSING_MODEL] = { 400, 0, "MISSING_MODEL", "invalid_request_error", "missing_model",
                                "A model must be named: there is no default.", false },
    [FAILURE_UNAUTHORIZED] = { 401, 0, "UNAUTHORIZED", "invalid_request_error", "invalid_api_key",
                               "A valid key is required: Authorization: Bearer KEY.", false },
    [FAILURE_FORBIDDEN] = { 403, 0, "FORBIDDEN", "invalid_request_error", "forbidden",
                            "This is not allowed for you.", false },
    [FAILURE_NOT_FOUND] = { 404, 0, "NOT_FOUND", "invalid_request_error", "not_found",
                            "There is nothing here.", false },
    [FAILURE_METHOD_NOT_ALLOWED] = { 405, 0, "METHOD_NOT_ALLOWED", "invalid_request_error",
                                     "method_not_allowed", "This method is not allowed here.", false },
    [FAILURE_BODY_TOO_LARGE] = { 413, 0, "PAYLOAD_TOO_LARGE", "invalid_request_error", "body_too_large",
                                 "The body is too large.", false },
    [FAILURE_BODY_INCOMPLETE] = { 400, 0, "BAD_REQUEST", "invalid_request_error", "body_incomplete",
                                  "The body ended before its Content-Length.", false },
    [FAILURE_BODY_MEMORY_FULL] = { 503, 0, "SERVICE_UNAVAILABLE", "server_error", "body_memory_full",
                                   "The gateway has no memory for a body of this size now.", true },
    [FAILURE_UNSUPPORTED_MEDIA_TYPE] = { 415, 0, "UNSUPPORTED_MEDIA_TYPE", "invalid_request_error",
                                         "unsupported_media_type", "The body must be application/json.",
                                         false },
    [FAILURE_HEADERS_TOO_LARGE] = { 431, 0, "HEADERS_TOO_LARGE", "invalid_request_error", "headers_too_large",
                                    "The request's headers are too large.", false },
    [FAILURE_PRECONDITION_REQUIRED] = { 412, 0, "PRECONDITION_REQUIRED", "invalid_request_error",
                                        "precondition_required",
                                        "An If-Match header with the current version is required.", false },
    [FAILURE_CONFLICT] = { 409, 0, "CONFLICT", "invalid_request_error", "conflict",
                           "Somebody else changed it first.", false },
    [FAILURE_CONFIG_NOT_SET] = { 503, 0, "CONFIG_NOT_SET", "server_error", "config_not_set",
                                 "The gateway has no configuration for this yet.", false },
    [FAILURE_STORE_DOWN] = { 503, 0, "CONFIG_UNAVAILABLE", "server_error", "config_unavailable",
                             "The store cannot be used now.", true },
    [FAILURE_DECRYPT_FAILED] = { 503, 0, "DECRYPT_FAILED", "server_error", "decrypt_failed",
                                 "A provider key of this model cannot be decrypted.", false },
    [FAILURE_UPSTREAM_UNAVAILABLE] = { 502, 0, "BAD_GATEWAY", "server_error", "upstream_unavailable",
                                       "Upstream unavailable", true },
    [FAILURE_UPSTREAM_RATE_LIMITED] = { 503, 0, "SERVICE_UNAVAILABLE", "server_error",
                                        "upstream_rate_limited", "Upstream rate-limited", true },
    [FAILURE_UPSTREAM_TIMEOUT] = { 504, 0, "GATEWAY_TIMEOUT", "server_error", "upstream_timeout",
                                   "Upstream timeout", true },
    [FAILURE_CALLER_THROTTLED] = { 429, 0, "TOO_MANY_REQUESTS", "rate_limit_error", "rate_limit_exceeded",
                                   "Your limit is reached.", true },
    [FAILURE_ALL_SKIPPED] = { 503, 0, "SERVICE_UNAVAILABLE", "server_error", "no_candidate_free",
                              "Every upstream is busy.", true },
    [FAILURE_SPEECH_SATURATED] = { 503, 0, "TTS_POOL_SATURATED", "server_error", "tts_pool_saturated",
                                   "Every upstream is busy.", true },
    [FAILURE_MODEL_BUSY] = { 503, 0, "SERVICE_UNAVAILABLE", "server_error", "model_busy",
                             "Too many requests of this model are in hand.", true },
    [FAILURE_OVERLOADED] = { 503, 0, "SERVICE_UNAVAILABLE", "server_error", "overloaded",
                             "The gateway is busy.", true },
    [FAILURE_INTERNAL] = { 500, 0, "INTERNAL_SERVER_ERROR", "server_error", "internal_error",
                           "The gateway failed.", true },
};

int failure_status(const struct failure *failure, enum error_form form)
{
    const struct row *row = &rows[failure->kind];
    return form == ERROR_FORM_CODED && row->status_coded != 0 ? row->status_coded : row->status;
}

const char *failure_code(const struct failure *failure)
{
    return rows[failure->kind].code;
}

bool failure_can_retry(const struct failure *failure)
{
    return rows[failure->kind].can_retry && !failure->no_retry;
}

const char *failure_message(const struct failure *failure)
{
    return failure->message != NULL ? failure->message : rows[failure->kind].message;
}

const char *failure_type(const struct failure *failure)
{
    return rows[failure->kind].type;
}

static void write_details(const struct failure *failure, struct json_writer *w)
{
    if (failure->has_attempts) {
        char *end;
        long number = strtol(failure->last_status, &end, 10);
        jw_key(w, "details");
        jw_begin_object(w);
        jw_member_uint(w, "triedKeys", failure->tried_keys);
        jw_member_uint(w, "triedUpstreams", failure->tried_upstreams);
        if (*end == '\0' && end != failure->last_status)
            jw_member_int(w, "lastStatusCode", number);
        else
            jw_member_cstr(w, "lastStatusCode", failure->last_status);
        jw_end_object(w);
    } else if (failure->details.len > 0) {
        jw_key(w, "details");
        jw_raw(w, failure->details);
    }
}

void failure_write(const struct failure *failure, enum error_form form, struct buf *out)
{
    const struct row *row = &rows[failure->kind];
    struct json_writer w;

    jw_init(&w, out);
    jw_begin_object(&w);
    if (form == ERROR_FORM_CODED) {
        jw_member_cstr(&w, "error", row->coded);
        jw_member_cstr(&w, "message", failure_message(failure));
        write_details(failure, &w);
    } else {
        jw_key(&w, "error");
        jw_begin_object(&w);
        jw_member_cstr(&w, "message", failure_message(failure));
        jw_member_cstr(&w, "type", row->type);
        jw_member_cstr(&w, "param", failure->param);
        jw_member_cstr(&w, "code", row->code);
        write_details(failure, &w);
        jw_end_object(&w);
    }
    jw_end_object(&w);
}
