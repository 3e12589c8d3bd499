#include "fcgi/engine/reply.h"

#include <stdio.h>
#include <string.h>

enum { HEAD_BYTES = 16 * 1024, FAILURE_BODY_BYTES = 1024 * 1024 };

void reply_init(struct reply *reply, struct conn *conn)
{
    *reply = (struct reply){ .conn = conn };
    buf_init(&reply->head, HEAD_BYTES);
}

void reply_free(struct reply *reply)
{
    buf_free(&reply->head);
}

/* RFC 9110, section 15: for people; programs read the number. */
static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        { 200, "OK" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 409, "Conflict" },
        { 412, "Precondition Failed" },
        { 413, "Content Too Large" },
        { 415, "Unsupported Media Type" },
        { 422, "Unprocessable Content" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 502, "Bad Gateway" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
    };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "";
}

void reply_start(struct reply *reply, int status, struct span content_type, int64_t length)
{
    reply->is_started = true;
    reply->status = status;
    reply->length = length;
    reply->sent = 0;
    buf_clear(&reply->head);
    buf_printf(&reply->head, "Status: %d %s\r\n", status, reason(status));
    if (content_type.len > 0)
        reply_header(reply, "Content-Type", content_type);
    if (length >= 0)
        buf_printf(&reply->head, "Content-Length: %lld\r\n", (long long)length);
    if (reply->request_id != NULL)
        reply_header(reply, "x-request-id", span_cstr(reply->request_id));
}

void reply_header(struct reply *reply, const char *name, struct span value)
{
    buf_printf(&reply->head, "%s: %.*s\r\n", name, (int)value.len, value.len > 0 ? value.ptr : "");
}

static int send(struct reply *reply, struct span bytes, bool is_last)
{
    struct span pieces[3] = { buf_span(&reply->head), { NULL, 0 }, bytes };

    /* The end leaves with the last byte that was announced: a front end that
     * counts closes then, and would not take another record. */
    reply->sent += (int64_t)bytes.len;
    if (reply->is_started && reply->length >= 0 && reply->sent >= reply->length)
        is_last = true;
    if (reply->conn->is_ended && bytes.len == 0 && reply->head.len == 0)
        return 0;
    if (reply->head.len > 0)
        pieces[1] = span_cstr("\r\n");
    int r = conn_write(reply->conn, pieces, 3, is_last);
    buf_clear(&reply->head);
    return r;
}

int reply_write(struct reply *reply, struct span bytes)
{
    return send(reply, bytes, false);
}

int reply_finish(struct reply *reply, struct span bytes)
{
    return send(reply, bytes, true);
}

int reply_json(struct reply *reply, int status, struct span body)
{
    reply_start(reply, status, span_cstr("application/json"), (int64_t)body.len);
    return reply_finish(reply, body);
}

int reply_failure(struct reply *reply, const struct failure *failure, enum error_form form)
{
    struct buf body;
    char seconds[16];

    buf_init(&body, FAILURE_BODY_BYTES);
    failure_write(failure, form, &body);
    int status = failure_status(failure, form);
    reply_start(reply, status, span_cstr("application/json"), (int64_t)body.len);
    if (failure->retry_after_s > 0) {
        snprintf(seconds, sizeof(seconds), "%u", failure->retry_after_s);
        reply_header(reply, "Retry-After", span_cstr(seconds));
    }
    if (status >= 500 && !failure_can_retry(failure))
        reply_header(reply, "x-should-retry", span_cstr("false"));
    if (failure->allow != NULL)
        reply_header(reply, "Allow", span_cstr(failure->allow));
    if (failure->kind == FAILURE_UNAUTHORIZED)
        reply_header(reply, "WWW-Authenticate", span_cstr("Bearer"));
    int r = reply_finish(reply, buf_span(&body));
    buf_free(&body);
    return r;
}
