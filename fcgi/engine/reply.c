#include "fcgi/engine/reply.h"

#include <string.h>

enum { HEAD_BYTES = 16 * 1024, FAILURE_BODY_BYTES = 1024 * 1024 };

void reply_init(struct reply *reply, struct conn *conn)
{
    memset(reply, 0, offsetof(struct reply, head_memory));
    reply->conn = conn;
    buf_init_in(&reply->head, reply->head_memory, sizeof(reply->head_memory), HEAD_BYTES);
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
        { 201, "Created" },
        { 304, "Not Modified" },
        { 308, "Permanent Redirect" },
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

static void write_header(struct buf *head, const char *name, struct span value)
{
    buf_append_cstr(head, name);
    buf_append(head, ": ", 2);
    buf_append_span(head, value);
    buf_append(head, "\r\n", 2);
}

static void write_head(struct buf *head, int status, struct span content_type, int64_t length,
                       const char *request_id)
{
    buf_append_cstr(head, "Status: ");
    buf_append_uint(head, (uint64_t)status);
    buf_append_char(head, ' ');
    buf_append_cstr(head, reason(status));
    buf_append(head, "\r\n", 2);
    if (content_type.len > 0)
        write_header(head, "Content-Type", content_type);
    if (length >= 0) {
        buf_append_cstr(head, "Content-Length: ");
        buf_append_uint(head, (uint64_t)length);
        buf_append(head, "\r\n", 2);
    }
    if (request_id != NULL)
        write_header(head, "x-request-id", span_cstr(request_id));
}

void reply_start(struct reply *reply, int status, struct span content_type, int64_t length)
{
    reply->is_started = true;
    reply->status = status;
    reply->length = length;
    reply->sent = 0;
    buf_clear(&reply->head);
    write_head(&reply->head, status, content_type, length, reply->request_id);
    if (reply->add_headers != NULL)
        reply->add_headers(reply->add_headers_ctx, &reply->head);
}

void reply_header(struct reply *reply, const char *name, struct span value)
{
    write_header(&reply->head, name, value);
}

/* At most REPLY_PIECES_MAX pieces of the body. */
static int send(struct reply *reply, const struct span *pieces, size_t n, bool is_last)
{
    struct span all[CONN_PIECES_MAX];
    size_t n_head = 0, bytes = 0;

    if (reply->head.len > 0) {
        all[n_head++] = buf_span(&reply->head);
        all[n_head++] = span_cstr("\r\n");
    }
    for (size_t i = 0; i < n; i++) {
        all[n_head + i] = pieces[i];
        bytes += pieces[i].len;
    }
    /* The end leaves with the last byte that was announced: a front end that
     * counts closes then, and would not take another record. */
    reply->sent += (int64_t)bytes;
    if (reply->is_started && reply->length >= 0 && reply->sent >= reply->length)
        is_last = true;
    if (reply->conn->is_ended && bytes == 0 && n_head == 0)
        return 0;
    if (is_last && reply->before_end != NULL) {
        void (*before_end)(void *ctx) = reply->before_end;
        reply->before_end = NULL;
        before_end(reply->before_end_ctx);
    }
    int r = conn_write(reply->conn, all, n_head + n, is_last);
    buf_clear(&reply->head);
    return r;
}

int reply_write(struct reply *reply, struct span bytes)
{
    return send(reply, &bytes, 1, false);
}

int reply_write_pieces(struct reply *reply, const struct span *pieces, size_t n)
{
    return send(reply, pieces, n, false);
}

int reply_finish(struct reply *reply, struct span bytes)
{
    return send(reply, &bytes, 1, true);
}

int reply_json(struct reply *reply, int status, struct span body)
{
    reply_start(reply, status, span_cstr("application/json"), (int64_t)body.len);
    return reply_finish(reply, body);
}

/* What a failure has in its head besides what every reply has. */
static void write_failure_headers(struct buf *head, const struct failure *failure, int status)
{
    if (failure->retry_after_s > 0)
        buf_printf(head, "Retry-After: %u\r\n", failure->retry_after_s);
    if (status >= 500 && !failure_can_retry(failure))
        write_header(head, "x-should-retry", span_cstr("false"));
    if (failure->allow != NULL)
        write_header(head, "Allow", span_cstr(failure->allow));
    if (failure->kind == FAILURE_UNAUTHORIZED)
        write_header(head, "WWW-Authenticate", span_cstr("Bearer"));
}

int reply_failure(struct reply *reply, const struct failure *failure, enum error_form form)
{
    int status = failure_status(failure, form);
    struct buf body;

    buf_init(&body, FAILURE_BODY_BYTES);
    failure_write(failure, form, &body);
    reply_start(reply, status, span_cstr("application/json"), (int64_t)body.len);
    write_failure_headers(&reply->head, failure, status);
    int r = reply_finish(reply, buf_span(&body));
    buf_free(&body);
    return r;
}

void reply_compose(struct buf *out, int status, struct span content_type, const char *request_id,
                   struct span body)
{
    write_head(out, status, content_type, (int64_t)body.len, request_id);
    buf_append_cstr(out, "\r\n");
    buf_append_span(out, body);
}

void reply_compose_failure(struct buf *out, const struct failure *failure, enum error_form form,
                           const char *request_id)
{
    int status = failure_status(failure, form);
    struct buf body;

    buf_init(&body, FAILURE_BODY_BYTES);
    failure_write(failure, form, &body);
    write_head(out, status, span_cstr("application/json"), (int64_t)body.len, request_id);
    write_failure_headers(out, failure, status);
    buf_append_cstr(out, "\r\n");
    buf_append_span(out, buf_span(&body));
    buf_free(&body);
}
