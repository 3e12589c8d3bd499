#include "core/upstream/exchange.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/upstream/exchange_internal.h"
#include "core/upstream/resolver.h"
#include "core/upstream/wiping_alloc.h"

enum {
    KEPT_CONNECTION_S = 30, /* providers close idle ones after a minute or so: do not meet them there */
    LINGER_MS = 100,        /* for the end of a reply whose last event has come */
    CONNECTIONS_KEPT = 16,
    SMALL_BODY_BYTES = 16 * 1024,
    GATHERED_PIECE_BYTES = 1024,     /* what is larger is not put together with others */
    UPLOAD_BUFFER_BYTES = 16 * 1024, /* a TLS record; libcurl's 64 KiB would stay with every worker */
};

int exchange_init_master(struct error *e)
{
    if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, wiping_malloc, wiping_free, wiping_realloc, wiping_strdup,
                             wiping_calloc) != CURLE_OK)
        return error_set(e, ERR_SYSTEM, "libcurl cannot start");
    return 0;
}

int exchange_open(struct trust *trust, struct exchange_client **out, struct error *e)
{
    struct exchange_client *client = xcalloc(1, sizeof(*client));
    client->trust = trust;
    client->multi = curl_multi_init();
    client->exchanges[0].easy = curl_easy_init();
    if (client->multi == NULL || client->exchanges[0].easy == NULL) {
        exchange_close(client);
        return error_set(e, ERR_SYSTEM, "libcurl has no handle to give");
    }
    curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
    exchange_watch(client);
    *out = client;
    return 0;
}

static void forget_url(struct exchange *x)
{
    curl_url_cleanup(x->url);
    free(x->url_text);
    x->url = NULL;
    x->url_text = NULL;
}

void exchange_close(struct exchange_client *client)
{
    if (client == NULL)
        return;
    for (unsigned i = 0; i < EXCHANGES_MAX; i++) {
        curl_easy_cleanup(client->exchanges[i].easy);
        forget_url(&client->exchanges[i]);
    }
    curl_multi_cleanup(client->multi);
    free(client);
}

static size_t on_send(char *out, size_t size, size_t count, void *ctx)
{
    struct exchange *x = ctx;
    size_t n = splice_read(x->request->body, &x->sent, out, size * count);
    x->result->bytes_out += n;
    return n;
}

/* A replay reads the body from its beginning. */
static int on_seek(void *ctx, curl_off_t offset, int origin)
{
    struct exchange *x = ctx;
    if (offset != 0 || origin != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    x->sent = (struct splice_cursor){ 0, 0 };
    return CURL_SEEKFUNC_OK;
}

/* Called before each send. libcurl re-sends a POST when a kept connection turns
 * out to be closed, up to five times: after the first send only a fresh
 * connection will do, and on that it never re-sends. */
static int on_connected(void *ctx, char *remote, char *local, int remote_port, int local_port)
{
    struct exchange *x = ctx;
    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    if (++x->sends == 1)
        curl_easy_setopt(x->easy, CURLOPT_FRESH_CONNECT, 1L);
    else
        x->result->replays = x->sends - 1;
    return CURL_PREREQFUNC_OK;
}

/* Called before each lookup, and for addresses too, which need none. */
static int on_lookup(void *resolver, void *reserved, void *ctx)
{
    const struct exchange *x = ctx;
    (void)resolver;
    (void)reserved;
    return resolver_is_address(x->request->url) || resolver_may_start() ? 0 : 1;
}

/* Without a store of ours OpenSSL's own is left, which is empty: nobody is trusted. */
static CURLcode on_tls_context(CURL *easy, void *ctx, void *trust)
{
    const char *url = NULL;
    curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &url);
    if (trust != NULL)
        trust_apply(trust, ctx, span_cstr(url));
    return CURLE_OK;
}

void exchange_hold_clocks(struct exchange_client *client, uint64_t us)
{
    for (unsigned i = 0; i < client->n_running; i++)
        client->running[i]->result->receiver_us += us;
}

static bool take_want(struct exchange *x, enum exchange_want want, uint64_t entered_us)
{
    uint64_t now = clock_monotonic_us();
    exchange_hold_clocks(x->client, now - entered_us);
    x->last_byte_us =
        now - x->result->receiver_us; /* its own time is the clock without what receivers took */
    if ((want == EXCHANGE_CONTENT || want == EXCHANGE_LINGER) && x->result->first_content_us == 0)
        x->result->first_content_us = entered_us - x->start_us;
    if (want == EXCHANGE_LINGER && x->want != EXCHANGE_LINGER)
        x->linger_until_us = now + LINGER_MS * US_PER_MS;
    if (x->want != EXCHANGE_LINGER || want == EXCHANGE_ENOUGH || want == EXCHANGE_LEFT)
        x->want = want;
    x->has_stopped = want == EXCHANGE_ENOUGH || want == EXCHANGE_LEFT;
    return !x->has_stopped;
}

/* libcurl ends a value at a CR, LF or NUL: any other control character may stand in it. */
static bool is_sound(struct span value)
{
    for (size_t i = 0; i < value.len && i <= EXCHANGE_HEADER_BYTES; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return value.len <= EXCHANGE_HEADER_BYTES;
}

static struct span header(CURL *easy, const char *name)
{
    struct curl_header *h = NULL;
    if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK || !is_sound(span_cstr(h->value)))
        return (struct span){ NULL, 0 };
    return span_cstr(h->value);
}

static uint64_t time_of(CURL *easy, CURLINFO info)
{
    curl_off_t us = 0;
    curl_easy_getinfo(easy, info, &us);
    return us > 0 ? (uint64_t)us : 0;
}

/* Of the connection, as long as the handle has it. */
static bool has_resumed(CURL *easy)
{
    const struct curl_tlssessioninfo *tls = NULL;
    return curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &tls) == CURLE_OK && tls->internals != NULL &&
           SSL_session_reused(tls->internals) == 1;
}

static void measure(struct exchange *x)
{
    struct exchange_result *r = x->result;
    long connects = 0;

    r->dns_us = time_of(x->easy, CURLINFO_NAMELOOKUP_TIME_T);
    r->connect_us = time_of(x->easy, CURLINFO_CONNECT_TIME_T);
    r->tls_us = time_of(x->easy, CURLINFO_APPCONNECT_TIME_T);
    r->send_us = time_of(x->easy, CURLINFO_PRETRANSFER_TIME_T);
    curl_easy_getinfo(x->easy, CURLINFO_NUM_CONNECTS, &connects);
    if (x->small_body != NULL) /* else on_send counts, or there is none */
        r->bytes_out = time_of(x->easy, CURLINFO_SIZE_UPLOAD_T);
    r->is_reused = x->sends > 0 && connects == 0;
    if (r->tls_us > 0 && !r->is_reused && has_resumed(x->easy))
        r->is_resumed = true;
}

/* "HTTP/1.1 403 Out of call volume quota": libcurl keeps the number only. */
static void keep_reason(struct exchange *x, struct span line)
{
    struct span rest = span_trim(line);
    for (int blanks = 0; blanks < 2; blanks++) {
        const char *blank = rest.len == 0 ? NULL : memchr(rest.ptr, ' ', rest.len);
        size_t skip = blank == NULL ? rest.len : (size_t)(blank - rest.ptr) + 1;
        rest = span_of(rest.ptr + skip, rest.len - skip);
    }
    x->reason[0] = '\0';
    if (rest.len > 0 && is_sound(rest)) {
        memcpy(x->reason, rest.ptr, rest.len);
        x->reason[rest.len] = '\0';
    }
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct exchange *x = ctx;
    size_t len = size * count;
    long status = 0;

    if (len > 5 && memcmp(line, "HTTP/", 5) == 0)
        keep_reason(x, span_of(line, len));
    if (len > 2 || len == 0 || (line[0] != '\r' && line[0] != '\n'))
        return len; /* the empty line ends the head */
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || x->want == EXCHANGE_LINGER)
        return len; /* 100 Continue and the like; or it was cancelled a moment ago */
    struct exchange_head head = {
        .status = (int)status,
        .reason = span_cstr(x->reason),
        .content_type = header(x->easy, "content-type"),
        .retry_after = header(x->easy, "retry-after"),
        .retry_after_ms = header(x->easy, "retry-after-ms"),
        .amzn_error_type = header(x->easy, "x-amzn-errortype"),
    };
    if (x->request->trace_header != NULL)
        head.trace = header(x->easy, x->request->trace_header);
    uint64_t entered = clock_monotonic_us();
    x->result->status = (int)status;
    x->result->first_byte_us = entered - x->start_us;
    measure(x); /* the receiver may want it before the end */
    return take_want(x, x->receiver->on_head(x->receiver->ctx, &head), entered) ? len : 0;
}

bool exchange_hand_over(struct exchange *x, struct span piece)
{
    uint64_t entered = clock_monotonic_us();

    x->n_gathered = 0;
    if (piece.len == 0)
        return true;
    x->result->last_byte_us = entered - x->start_us;
    if (x->want == EXCHANGE_LINGER)
        return true;
    return take_want(x, x->receiver->on_data(x->receiver->ctx, piece), entered);
}

/* libcurl gives each chunk of HTTP's by itself, and a provider's chunk is an event. What has arrived together
 * is put together, so that it leaves together: a copy costs less than a system call. */
static size_t on_receive(char *bytes, size_t size, size_t count, void *ctx)
{
    struct exchange *x = ctx;
    size_t len = size * count;
    bool is_small = len <= GATHERED_PIECE_BYTES;

    x->result->bytes_in += len;
    if ((!is_small || len > sizeof(x->gathered) - x->n_gathered) &&
        !exchange_hand_over(x, span_of(x->gathered, x->n_gathered)))
        return CURL_WRITEFUNC_ERROR;
    if (!is_small)
        return exchange_hand_over(x, span_of(bytes, len)) ? len : CURL_WRITEFUNC_ERROR;
    memcpy(x->gathered + x->n_gathered, bytes, len);
    x->n_gathered += len;
    return len;
}

/* libcurl sends a body that it has in one piece together with the head: one system
 * call and one packet less. */
static void hand_over_small_body(struct exchange *x)
{
    const struct splice *body = x->request->body;
    size_t size = splice_size(body);

    if (size > SMALL_BODY_BYTES)
        return;
    x->small_body = xmalloc(size);
    splice_read(body, &x->sent, x->small_body, size);
    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->small_body);
}

/* What is the same in all exchanges: set once, as the handle keeps it. */
static void prepare_handle(struct exchange *x)
{
    CURL *easy = x->easy;

    curl_easy_reset(easy); /* keeps the connections: they belong to the multi handle */
    curl_easy_setopt(easy, CURLOPT_PRIVATE, x);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, x->detail);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* not the environment's */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)KEPT_CONNECTION_S);
    curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, 300L); /* follow the provider's DNS */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);         /* no clock waits for a stuck resolver */
    curl_easy_setopt(easy, CURLOPT_RESOLVER_START_FUNCTION, on_lookup);
    curl_easy_setopt(easy, CURLOPT_RESOLVER_START_DATA, x);
    curl_easy_setopt(easy, CURLOPT_CAINFO, NULL); /* not the system's: `trust` is shared */
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_tls_context);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, x->client->trust);
    curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L); /* not this handle's: `trust` has all workers' */
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BUFFER_BYTES);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_send);
    curl_easy_setopt(easy, CURLOPT_READDATA, x);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, x);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_receive);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, x);
    x->is_prepared = true;
}

/* Where another URL than the last is asked, it is parsed: libcurl would parse it, and put it together again,
 * in each exchange. One that cannot be parsed is left to libcurl, which says so. */
static void set_url(struct exchange *x)
{
    const char *url = x->request->url;

    if (x->url_text != NULL && strcmp(x->url_text, url) == 0)
        return;
    forget_url(x);
    x->url = curl_url();
    x->url_text = xstrdup(url);
    if (x->url != NULL && curl_url_set(x->url, CURLUPART_URL, url, 0) != CURLUE_OK) {
        curl_url_cleanup(x->url);
        x->url = NULL;
    }
    curl_easy_setopt(x->easy, CURLOPT_URL, url);
    curl_easy_setopt(x->easy, CURLOPT_CURLU, x->url);
}

static void prepare(struct exchange *x)
{
    CURL *easy = x->easy;
    const struct splice *body = x->request->body;

    if (!x->is_prepared)
        prepare_handle(x);
    set_url(x);
    if (body != NULL) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)splice_size(body));
        hand_over_small_body(x);
    } else {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, x->headers);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)x->request->clocks.connect_ms + 1000);
}

enum exchange_end exchange_end_of(const struct exchange *x, CURLcode code)
{
    long cause = 0;

    if (x->want == EXCHANGE_LEFT)
        return EXCHANGE_END_CALLER_LEFT;
    if (x->has_stopped || x->want == EXCHANGE_LINGER)
        return EXCHANGE_END_ENOUGH;
    switch (code) {
    case CURLE_OK:
        return x->result->status != 0 ? EXCHANGE_END_WHOLE : EXCHANGE_END_RESET; /* within the head */
    case CURLE_COULDNT_RESOLVE_HOST:
        return EXCHANGE_END_UNRESOLVED;
    case CURLE_COULDNT_CONNECT:
        curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &cause);
        return cause == ETIMEDOUT ? EXCHANGE_END_TIMEOUT_CONNECT : EXCHANGE_END_REFUSED;
    case CURLE_OPERATION_TIMEDOUT:
        return EXCHANGE_END_TIMEOUT_CONNECT; /* the only clock that libcurl has from us */
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return EXCHANGE_END_TLS;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_WEIRD_SERVER_REPLY:
        return EXCHANGE_END_INVALID;
    default:
        return x->result->status != 0 ? EXCHANGE_END_CUT : EXCHANGE_END_RESET;
    }
}

/* --- one exchange --- */

/* The first header takes one away: libcurl would wait a second for "100 Continue". */
static void list_headers(struct exchange *x)
{
    static char no_expect[] = "Expect:";
    const char *const *headers = x->request->headers;

    x->headers[0] = (struct curl_slist){ .data = no_expect };
    for (size_t n = 0; n < EXCHANGE_HEADERS_MAX && headers[n] != NULL; n++) {
        x->headers[n + 1] = (struct curl_slist){ .data = (char *)(uintptr_t)headers[n] };
        x->headers[n].next = &x->headers[n + 1];
    }
}

static struct exchange *find_free(struct exchange_client *client)
{
    struct exchange *x = client->exchanges;

    while (x->request != NULL)
        x++;
    if (x->easy == NULL)
        x->easy = curl_easy_init();
    return x;
}

/* libcurl has no copy of the headers, and the key in them, but of a request it sends. */
static void forget(struct exchange *x)
{
    curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, NULL);
    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, NULL);
    free(x->small_body);
    if (x->sends > 1) { /* it counts what it sends again over a handle's life, and gives up at five */
        x->is_prepared = false;
        forget_url(x);
    }
    x->request = NULL;
}

struct exchange *exchange_begin(struct exchange_client *client, const struct exchange_request *request,
                                const struct exchange_receiver *receiver, struct exchange_result *out)
{
    struct exchange *x = find_free(client);

    *out = (struct exchange_result){ .end = EXCHANGE_END_INVALID };
    if (x->easy == NULL)
        return NULL;
    x->client = client;
    x->request = request;
    x->receiver = receiver;
    x->result = out;
    x->sent = (struct splice_cursor){ 0, 0 };
    x->small_body = NULL;
    x->reason[0] = x->detail[0] = '\0';
    x->start_us = x->last_byte_us = clock_monotonic_us();
    x->look_us =
        request->has_caller_left == NULL ? UINT64_MAX : x->start_us + EXCHANGE_FIRST_LOOK_MS * US_PER_MS;
    x->sends = 0;
    x->n_gathered = 0;
    x->want = EXCHANGE_MORE;
    x->has_stopped = false;
    list_headers(x);
    prepare(x);
    if (curl_multi_add_handle(client->multi, x->easy) != CURLM_OK) {
        forget(x);
        return NULL;
    }
    client->running[client->n_running++] = x;
    return x;
}

/* As one whose reply has ended: it takes in nothing more, and its time is up. */
void exchange_cancel(struct exchange *x)
{
    measure(x);
    x->want = EXCHANGE_LINGER;
    x->linger_until_us = 0;
}

void exchange_settle(struct exchange *x, enum exchange_end end)
{
    struct exchange_client *client = x->client;

    x->result->end = end;
    measure(x);
    /* An exchange that is not over is ended here: its connection is closed. */
    curl_multi_remove_handle(client->multi, x->easy);
    if (x->detail[0] != '\0')
        x->result->detail = x->detail;
    if (client->running[0] == x)
        client->running[0] = client->running[1];
    client->n_running--;
    forget(x);
}

const char *exchange_end_name(enum exchange_end end)
{
    static const char *const names[] = {
        [EXCHANGE_END_WHOLE] = "whole",
        [EXCHANGE_END_ENOUGH] = "enough",
        [EXCHANGE_END_CUT] = "cut",
        [EXCHANGE_END_RESET] = "reset",
        [EXCHANGE_END_REFUSED] = "refused",
        [EXCHANGE_END_UNRESOLVED] = "unresolved",
        [EXCHANGE_END_TLS] = "tls",
        [EXCHANGE_END_INVALID] = "invalid",
        [EXCHANGE_END_TIMEOUT_CONNECT] = "timeout_connect",
        [EXCHANGE_END_TIMEOUT_FIRST_CONTENT] = "timeout_first_content",
        [EXCHANGE_END_TIMEOUT_IDLE] = "timeout_idle",
        [EXCHANGE_END_TIMEOUT_CHAIN] = "timeout_chain",
        [EXCHANGE_END_CALLER_LEFT] = "caller_left",
    };
    return names[end];
}
