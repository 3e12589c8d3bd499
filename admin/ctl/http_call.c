#include "admin/ctl/http_call.h"

#include <curl/curl.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/version.h"
#include "core/upstream/exchange.h"

enum { CONNECT_S = 10 };

struct call {
    const struct http_request *request;
    struct http_reply *reply;
    struct buf body;
    uint64_t start_us;
};

static void keep(char *place, struct span text)
{
    size_t len = text.len < HTTP_TEXT_BYTES ? text.len : HTTP_TEXT_BYTES - 1;
    memcpy(place, text.ptr, len);
    place[len] = '\0';
}

/* The value, if the line is the header of this name. */
static bool is_header(struct span line, const char *name, struct span *value)
{
    size_t len = strlen(name);
    if (line.len <= len || line.ptr[len] != ':' || !span_is_nocase(span_of(line.ptr, len), name))
        return false;
    *value = span_trim(span_of(line.ptr + len + 1, line.len - len - 1));
    return true;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *ctx)
{
    struct http_reply *reply = ((struct call *)ctx)->reply;
    struct span line = span_trim(span_of(bytes, size * count)), value;

    if (span_starts(line, "HTTP/"))
        keep(reply->status_line, line);
    else if (is_header(line, "content-type", &value))
        keep(reply->content_type, value);
    else if (is_header(line, "x-request-id", &value))
        keep(reply->request_id, value);
    return count;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct call *call = ctx;
    if (call->reply->first_byte_us == 0)
        call->reply->first_byte_us = clock_monotonic_us() - call->start_us;
    return buf_append(&call->body, bytes, size * count) == 0 ? count : CURL_WRITEFUNC_ERROR;
}

static int on_progress(void *ctx, curl_off_t down_all, curl_off_t down, curl_off_t up_all, curl_off_t up)
{
    const struct call *call = ctx;
    (void)down_all, (void)down, (void)up_all, (void)up;
    call->request->on_progress(call->request->ctx, clock_monotonic_us() - call->start_us);
    return 0;
}

static void set_up(CURL *easy, struct curl_slist *headers, struct call *call)
{
    const struct http_request *request = call->request;

    curl_easy_setopt(easy, CURLOPT_URL, request->url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* which has a reason phrase */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "llm-routerctl/" LLM_ROUTER_VERSION);
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)request->timeout_s);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    if (strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.ptr);
    }
    if (request->on_progress != NULL) {
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(easy, CURLOPT_XFERINFODATA, call);
    }
}

static struct curl_slist *list_headers(const struct http_request *request)
{
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < HTTP_HEADERS_MAX && request->headers[i] != NULL; i++) {
        struct curl_slist *longer = curl_slist_append(list, request->headers[i]);
        if (longer == NULL) {
            curl_slist_free_all(list);
            return NULL;
        }
        list = longer;
    }
    return list;
}

static const char *perform(CURL *easy, struct call *call, struct arena *arena)
{
    CURLcode code = curl_easy_perform(easy);

    call->reply->total_us = clock_monotonic_us() - call->start_us;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &call->reply->status);
    if (call->body.overflowed)
        return arena_printf(arena, "the reply has more than %zu bytes", call->body.limit);
    if (code != CURLE_OK)
        return arena_printf(arena, "%s: %s", call->reply->status == 0 ? "no reply" : "no whole reply",
                            curl_easy_strerror(code));
    return NULL;
}

void http_call(const struct http_request *request, struct arena *arena, struct http_reply *out)
{
    struct call call = { .request = request, .reply = out };
    struct curl_slist *headers = NULL;
    CURL *easy = NULL;
    struct error e;

    *out = (struct http_reply){ .status_line = "nothing" };
    buf_init(&call.body, request->limit_bytes);
    if (exchange_init_master(&e) != 0) { /* for its allocators, which wipe */
        out->problem = arena_strdup(arena, e.text);
    } else if ((request->headers[0] != NULL && (headers = list_headers(request)) == NULL) ||
               (easy = curl_easy_init()) == NULL) {
        out->problem = "libcurl cannot start";
    } else {
        call.start_us = clock_monotonic_us();
        set_up(easy, headers, &call);
        out->problem = perform(easy, &call, arena);
    }
    out->body = span_of(arena_span(arena, buf_span(&call.body)), call.body.len);
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    buf_free(&call.body);
    curl_global_cleanup();
}
