#include "admin/ctl/http_get.h"

#include <curl/curl.h>

#include "core/base/buf.h"
#include "core/base/version.h"
#include "core/upstream/exchange.h"

enum { CONNECT_S = 10, TOTAL_S = 60, STATUS_LINE_BYTES = 256 };

struct get {
    struct buf body;
    char status_line[STATUS_LINE_BYTES];
};

static size_t on_header(char *bytes, size_t size, size_t count, void *ctx)
{
    struct get *get = ctx;
    struct span line = span_trim(span_of(bytes, size * count));
    if (span_starts(line, "HTTP/") && line.len < STATUS_LINE_BYTES) {
        memcpy(get->status_line, line.ptr, line.len);
        get->status_line[line.len] = '\0';
    }
    return count;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct get *get = ctx;
    return buf_append(&get->body, bytes, size * count) == 0 ? count : CURL_WRITEFUNC_ERROR;
}

static void set_up(CURL *easy, const char *url, struct curl_slist *headers, struct get *get)
{
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* which has a reason phrase */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "llm-routerctl/" LLM_ROUTER_VERSION);
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)TOTAL_S);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, get);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, get);
}

static int judge(CURL *easy, CURLcode code, const struct get *get, struct error *e)
{
    long status = 0;
    if (get->body.overflowed)
        return error_set(e, ERR_LIMIT, "the reply has more than %zu bytes", get->body.limit);
    if (code != CURLE_OK)
        return error_set(e, ERR_SYSTEM, "no reply: %s", curl_easy_strerror(code));
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status == 200 ? 0 : error_set(e, ERR_SYSTEM, "the provider said %s", get->status_line);
}

int http_get(const char *url, const char *header, size_t limit, struct arena *arena, struct span *out,
             struct error *e)
{
    struct get get = { .status_line = "nothing" };
    struct curl_slist *headers = NULL;
    CURL *easy = NULL;
    int r = exchange_init_master(e); /* for its allocators, which wipe */

    buf_init(&get.body, limit);
    if (r == 0 && ((headers = curl_slist_append(NULL, header)) == NULL || (easy = curl_easy_init()) == NULL))
        r = error_set(e, ERR_SYSTEM, "libcurl cannot start");
    if (r == 0) {
        set_up(easy, url, headers, &get);
        r = judge(easy, curl_easy_perform(easy), &get, e);
    }
    if (r == 0)
        *out = span_of(arena_span(arena, buf_span(&get.body)), get.body.len);
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    buf_free(&get.body);
    curl_global_cleanup();
    return r;
}
