/* One HTTP exchange against a scripted server: endings, clocks, departures, kept connections. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/upstream/exchange.h"
#include "core/upstream/exchange_internal.h"
#include "tests/unit/run_exchange.h"
#include "tests/unit/scripted_server.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Takes a reply and wants what the test says. */
struct receiver {
    struct buf body;
    int heads, pieces;
    int status;
    char type[64], retry_after[32], retry_after_ms[32], amzn_error_type[64], reason[300], trace[64];
    enum exchange_want head_wants, data_wants;
    const char *lingers_after, *content_from; /* bytes that make it want that */
    unsigned sleep_ms;                        /* at every piece */
    unsigned beat_interval_ms;                /* set when it lingers */
};

/* What is to be done now and then, and how often it was. */
struct metronome {
    unsigned interval_ms; /* 0: not as things stand */
    uint64_t last_us;
    unsigned runs, fails_at; /* the run that fails, from 1 */
    unsigned sleep_ms;
};

static struct server server;
static struct metronome metronome, other_metronome;
static struct exchange_client *client;
static struct receiver receiver;
static struct exchange_clocks clocks;
static const char *const *extra_headers;
static const char *trace_header;
static bool is_get;
static int caller_fd;
static struct look {
    unsigned gone_at; /* which look finds that the caller has left; 0: nobody looks */
    unsigned looks;
    uint64_t first_us, last_us;
} look;
static uint64_t took_us;

static void set_up(void)
{
    struct error e;
    ck_assert_int_eq(exchange_init_master(&e), 0);
    ck_assert_int_eq(exchange_open(NULL, &client, &e), 0);
    receiver = (struct receiver){ .data_wants = EXCHANGE_CONTENT };
    clocks = (struct exchange_clocks){
        .connect_ms = 10000,
        .first_content_ms = 10000,
        .idle_ms = 10000,
        .chain_us = clock_monotonic_us() + 30 * US_PER_S,
    };
    metronome = other_metronome = (struct metronome){ 0 };
    extra_headers = NULL;
    trace_header = NULL;
    is_get = false;
    caller_fd = -1;
    look = (struct look){ .gone_at = 0 };
}

static void tear_down(void)
{
    exchange_close(client);
    buf_free(&receiver.body);
    buf_free(&server.last_request);
}

static void pause_ms(unsigned ms)
{
    if (ms > 0)
        poll(NULL, 0, (int)ms);
}

static void copy(char *out, size_t room, struct span text)
{
    snprintf(out, room, "%.*s", (int)text.len, text.len > 0 ? text.ptr : "");
}

static enum exchange_want on_head(void *ctx, const struct exchange_head *head)
{
    struct receiver *r = ctx;
    r->heads++;
    r->status = head->status;
    copy(r->type, sizeof(r->type), head->content_type);
    copy(r->retry_after, sizeof(r->retry_after), head->retry_after);
    copy(r->retry_after_ms, sizeof(r->retry_after_ms), head->retry_after_ms);
    copy(r->amzn_error_type, sizeof(r->amzn_error_type), head->amzn_error_type);
    copy(r->reason, sizeof(r->reason), head->reason);
    copy(r->trace, sizeof(r->trace), head->trace);
    return r->head_wants;
}

static bool has(const struct buf *body, const char *word)
{
    return memmem(body->data, body->len, word, strlen(word)) != NULL;
}

static enum exchange_want on_data(void *ctx, struct span piece)
{
    struct receiver *r = ctx;
    r->pieces++;
    buf_append_span(&r->body, piece);
    pause_ms(r->sleep_ms);
    if (r->lingers_after != NULL && has(&r->body, r->lingers_after)) {
        metronome.interval_ms = r->beat_interval_ms;
        return EXCHANGE_LINGER;
    }
    if (r->content_from != NULL && !has(&r->body, r->content_from))
        return EXCHANGE_MORE;
    return r->data_wants;
}

static uint64_t due_us(void *ctx)
{
    const struct metronome *m = ctx;
    return m->interval_ms == 0 ? UINT64_MAX : m->last_us + m->interval_ms * US_PER_MS;
}

static int run_beat(void *ctx)
{
    struct metronome *m = ctx;
    ck_assert_uint_ge(clock_monotonic_us(), due_us(m));
    pause_ms(m->sleep_ms);
    m->last_us = clock_monotonic_us();
    return ++m->runs == m->fails_at ? ERR_CLIENT_GONE : 0;
}

static bool has_caller_left(void *ctx)
{
    (void)ctx;
    look.last_us = clock_monotonic_us();
    if (look.looks == 0)
        look.first_us = look.last_us;
    return ++look.looks == look.gone_at;
}

/* POSTs `body`, with one of its bytes replaced, so that it is in pieces. */
static struct exchange_result post_to(const char *url, struct span body)
{
    const struct exchange_receiver calls = { .ctx = &receiver, .on_head = on_head, .on_data = on_data };
    const struct exchange_beat beats[] = {
        { .ctx = &metronome, .due_us = due_us, .run = run_beat },
        { .ctx = &other_metronome, .due_us = due_us, .run = run_beat },
    };
    static const char *const no_headers[] = { NULL };
    struct exchange_result result;
    struct splice splice;
    splice_init(&splice, body);
    ck_assert_int_eq(splice_add(&splice, 1, 1, span_cstr("[...]")), 0);
    const struct exchange_request request = {
        .url = url,
        .headers = extra_headers != NULL ? extra_headers : no_headers,
        .body = is_get ? NULL : &splice,
        .trace_header = trace_header,
        .clocks = clocks,
        .beats = beats,
        .n_beats = COUNT(beats),
        .caller_fd = caller_fd,
        .has_caller_left = look.gone_at > 0 ? has_caller_left : NULL,
    };
    buf_free(&receiver.body);
    buf_init(&receiver.body, REQUEST_BYTES_MAX);
    receiver.heads = receiver.pieces = 0;
    uint64_t begin = clock_monotonic_us();
    metronome.last_us = other_metronome.last_us = begin;
    run_exchange(client, &request, &calls, &result);
    took_us = clock_monotonic_us() - begin;
    return result;
}

#define START(...)                                        \
    static const struct reply script[] = { __VA_ARGS__ }; \
    server_start(&server, script, COUNT(script))

static struct exchange_result post(void)
{
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/v1/chat?x=1", server.port);
    return post_to(url, span_cstr("{x}"));
}

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#define OK_REPLY OK_HEAD "Content-Length: 5\r\n\r\nhello"
#define CHUNKED_HEAD \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHUNKS_END "0\r\n\r\n"

static void expect_end(const struct exchange_result *result, enum exchange_end end)
{
    ck_assert_msg(result->end == end, "%s, expected %s", exchange_end_name(result->end),
                  exchange_end_name(end));
}

/* --- whole replies --- */

static const struct {
    struct reply reply;
    int status;
    const char *body, *type;
} whole[] = {
    { { { { 0, OK_REPLY } }, KEEP }, 200, "hello", "application/json" },
    { { { { 0, OK_HEAD "Content-Length: 0\r\n\r\n" } }, KEEP }, 200, "", "application/json" },
    { { { { 0, CHUNKED_HEAD }, { 20, "3\r\nhel\r\n" }, { 20, "2\r\nlo\r\n" }, { 20, CHUNKS_END } }, KEEP },
      200,
      "hello",
      "text/event-stream" },
    { { { { 0, CHUNKED_HEAD "5;ext=1\r\nhello\r\n0\r\nX-Trailer: a\r\nX-Other: b\r\n\r\n" } }, KEEP },
      200,
      "hello",
      "text/event-stream" },
    { { { { 0, OK_HEAD "Connection: close\r\n\r\nhel" }, { 20, "lo" } }, CLOSE },
      200,
      "hello",
      "application/json" },
    { { { { 0, "HTTP/1.0 200 OK\r\n\r\nhello" } }, CLOSE }, 200, "hello", "" },
    { { { { 0, "HTTP/1.1 100 Continue\r\n\r\n" },
          { 20, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK_REPLY } },
        KEEP },
      200,
      "hello",
      "application/json" },
    { { { { 0, "HTTP/1.1 2" }, { 20, "00 OK\r\nContent-" }, { 20, "Length: 5\r\n\r" }, { 20, "\nhello" } },
        KEEP },
      200,
      "hello",
      "" },
    { { { { 0, "HTTP/1.1 204 No Content\r\n\r\n" } }, KEEP }, 204, "", "" },
    { { { { 0,
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 2\r\n\r\nno" } },
        KEEP },
      401,
      "no",
      "" },
    { { { { 0, "HTTP/1.1 500 Internal\r\nContent-Length: 2\r\n\r\nno" } }, KEEP }, 500, "no", "" },
    /* not followed: there is one request */
    { { { { 0, "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\nno" } }, KEEP },
      302,
      "no",
      "" },
    { { { { 0, "HTTP/1.1 308 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n" } }, KEEP },
      308,
      "",
      "" },
};

START_TEST(a_whole_reply_is_given_as_it_is_with_its_head_once)
{
    server_start(&server, &whole[_i].reply, 1);
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
    ck_assert_int_eq(result.status, whole[_i].status);
    ck_assert_int_eq(receiver.status, whole[_i].status);
    ck_assert_int_eq(receiver.heads, 1);
    ck_assert_str_eq(receiver.type, whole[_i].type);
    ck_assert_msg(span_is(buf_span(&receiver.body), whole[_i].body), "body %.*s", (int)receiver.body.len,
                  receiver.body.data);
    ck_assert_uint_eq(result.bytes_in, strlen(whole[_i].body));
    ck_assert_uint_eq(server.requests, 1);
    ck_assert_uint_eq(result.replays, 0);
    ck_assert(!result.is_reused);
}
END_TEST

/* Each event is a chunk of its own; three that arrive together go to the caller in one write. */
START_TEST(small_chunks_that_arrive_together_are_given_together)
{
    START({ { { 0, CHUNKED_HEAD "5\r\ndata:\r\n2\r\n a\r\n4\r\n\n\nb\n\r\n" },
              { 100, "1\r\nc\r\n1\r\nd\r\n" CHUNKS_END } },
            KEEP });
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
    ck_assert(span_is(buf_span(&receiver.body), "data: a\n\nb\ncd"));
    ck_assert_int_eq(receiver.pieces, 2);
    ck_assert_uint_eq(result.bytes_in, receiver.body.len);
}
END_TEST

/* Around what is put together, and what is not: in their order, and none is lost. */
START_TEST(chunks_of_all_sizes_are_given_in_their_order)
{
    static const size_t sizes[] = { 1,  1023, 1024, 1025, 1,    4096, 4095, 1000, 1000,  1000, 1000,
                                    97, 5000, 3,    1024, 1024, 1024, 1024, 1024, 20000, 1 };
    struct buf reply, body;

    buf_init(&reply, 100000);
    buf_init(&body, 100000);
    buf_append_cstr(&reply, CHUNKED_HEAD);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        buf_printf(&reply, "%zx\r\n", sizes[i]);
        for (size_t n = 0; n < sizes[i]; n++) {
            buf_append_char(&reply, (char)('a' + i));
            buf_append_char(&body, (char)('a' + i));
        }
        buf_append_cstr(&reply, "\r\n");
    }
    buf_append(&reply, CHUNKS_END, sizeof(CHUNKS_END)); /* with its NUL */
    const struct reply script[] = { { { { 0, reply.data } }, KEEP } };
    server_start(&server, script, 1);
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
    ck_assert_uint_eq(receiver.body.len, body.len);
    ck_assert(span_eq(buf_span(&receiver.body), buf_span(&body)));
    buf_free(&reply);
    buf_free(&body);
}
END_TEST

START_TEST(the_headers_that_say_when_to_come_again_are_given)
{
    START({ { { 0, "HTTP/1.1 429 Slow\r\nretry-after: 7\r\nRetry-After-Ms: 6500\r\nx-amzn-ErrorType: "
                   "Throttling\r\n"
                   "Content-Length: 0\r\n\r\n" } },
            KEEP });
    post();
    server_stop(&server);
    ck_assert_str_eq(receiver.retry_after, "7");
    ck_assert_str_eq(receiver.retry_after_ms, "6500");
    ck_assert_str_eq(receiver.amzn_error_type, "Throttling");
}
END_TEST

/* Long: as long as a header may be, and a byte more. */
#define WORDS_16 "0123456789abcde "
#define WORDS_64 WORDS_16 WORDS_16 WORDS_16 WORDS_16
#define WORDS_255 WORDS_64 WORDS_64 WORDS_64 WORDS_16 WORDS_16 WORDS_16 "0123456789abcde"

static const struct {
    const char *line, *reason;
} reasons[] = {
    { "HTTP/1.1 403 Out of call volume quota", "Out of call volume quota" },
    { "HTTP/1.1 400 Unsupported voice en-US-X.", "Unsupported voice en-US-X." },
    { "HTTP/1.1 400 ", "" },
    { "HTTP/1.1 400", "" },
    { "HTTP/1.0 400 Old", "Old" },
    { "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 Bad", "Bad" },
    { "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 400 ", "" },
    { "HTTP/1.1 400 " WORDS_255 "!", WORDS_255 "!" },
    { "HTTP/1.1 400 " WORDS_255 "!!", "" },
    { "HTTP/1.1 400 a\x01"
      "b",
      "" },
    { "HTTP/1.1 400 Not\r\nHTTPS: 1\r\nhttp/x: 2", "Not" },
};

START_TEST(the_reason_phrase_of_the_last_status_line_is_given)
{
    char text[1024];
    snprintf(text, sizeof(text), "%s\r\nContent-Length: 0\r\n\r\n", reasons[_i].line);
    const struct reply reply = { { { 0, text } }, KEEP };
    server_start(&server, &reply, 1);
    post();
    server_stop(&server);
    ck_assert_msg(strcmp(receiver.reason, reasons[_i].reason) == 0, "%s: %s", reasons[_i].line,
                  receiver.reason);
}
END_TEST

START_TEST(a_header_by_which_the_upstream_finds_the_request_again_is_given_where_it_is_named)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nX-Tt-Logid: 20260101AB\r\nContent-Length: 0\r\n\r\n";
    START({ { { 0, head } }, KEEP }, { { { 0, head } }, KEEP });
    post();
    ck_assert_str_eq(receiver.trace, "");
    trace_header = "x-tt-logid";
    post();
    server_stop(&server);
    ck_assert_str_eq(receiver.trace, "20260101AB");
}
END_TEST

START_TEST(without_a_body_it_is_a_get)
{
    static const char *const headers[] = { "Accept: audio/mpeg", NULL };
    char expected[256];
    START({ { { 0, OK_REPLY } }, KEEP }, { { { 0, OK_REPLY } }, KEEP });
    extra_headers = headers;
    post(); /* what a POST leaves in the handle must not show */
    is_get = true;
    struct exchange_result result = post();
    server_stop(&server);
    snprintf(expected, sizeof(expected),
             "GET /v1/chat?x=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: audio/mpeg\r\n\r\n", server.port);
    ck_assert_msg(span_is(buf_span(&server.last_request), expected), "%.*s", (int)server.last_request.len,
                  server.last_request.data);
    ck_assert_uint_eq(result.bytes_out, 0);
    expect_end(&result, EXCHANGE_END_WHOLE);
    ck_assert(span_is(buf_span(&receiver.body), "hello"));
}
END_TEST

START_TEST(the_upstream_gets_the_spliced_body_our_headers_and_no_others)
{
    static const char *const headers[] = { "Authorization: Bearer k", "Content-Type: application/json",
                                           NULL };
    char expected[256];
    START({ { { 0, OK_REPLY } }, KEEP });
    extra_headers = headers;
    struct exchange_result result = post();
    server_stop(&server);
    snprintf(expected, sizeof(expected),
             "POST /v1/chat?x=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: */*\r\nAuthorization: Bearer k\r\n"
             "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{[...]}",
             server.port);
    ck_assert_msg(span_is(buf_span(&server.last_request), expected), "%.*s", (int)server.last_request.len,
                  server.last_request.data);
    ck_assert_uint_eq(result.bytes_out, strlen("{[...]}"));
}
END_TEST

START_TEST(the_times_of_an_exchange_are_in_order)
{
    START({ { { 60, CHUNKED_HEAD "5\r\nhello\r\n" }, { 60, "5\r\nworld\r\n" CHUNKS_END } }, KEEP });
    receiver.content_from = "world";
    struct exchange_result r = post();
    server_stop(&server);
    ck_assert_uint_gt(r.connect_us, 0);
    ck_assert_uint_eq(r.tls_us, 0);
    ck_assert_uint_ge(r.connect_us, r.dns_us);
    ck_assert_uint_ge(r.send_us, r.connect_us);
    ck_assert_uint_ge(r.first_byte_us, r.send_us);
    ck_assert_uint_ge(r.first_byte_us, 50 * US_PER_MS);
    ck_assert_uint_ge(r.first_content_us, r.first_byte_us + 50 * US_PER_MS);
    ck_assert_uint_ge(r.last_byte_us, r.first_content_us);
    ck_assert_uint_le(r.last_byte_us, took_us);
    ck_assert_uint_lt(r.receiver_us, took_us);
}
END_TEST

/* libcurl would wait a second for "100 Continue" that no provider sends. */
START_TEST(a_large_body_is_sent_without_waiting_to_be_asked_for_it)
{
    enum { BODY = 3 * 1024 * 1024 };
    static char body[BODY];
    char url[64];
    START({ { { 0, OK_REPLY } }, KEEP });
    memset(body, 'x', BODY);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", server.port);
    struct exchange_result result = post_to(url, span_of(body, BODY));
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
    ck_assert_uint_eq(result.bytes_out, BODY + 4);
    ck_assert_ptr_null(memmem(server.last_request.data, 500, "Expect", 6));
    ck_assert_msg(result.first_byte_us < 900 * US_PER_MS, "%lu us", (unsigned long)result.first_byte_us);
}
END_TEST

START_TEST(proxies_of_the_environment_are_not_used)
{
    START({ { { 0, OK_REPLY } }, KEEP });
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
}
END_TEST

/* --- replies that are none --- */

static const struct {
    struct reply reply;
    enum exchange_end end;
    int status;
} broken[] = {
    { { { { 0, OK_HEAD "Content-Length: 9\r\n\r\nhello" } }, CLOSE }, EXCHANGE_END_CUT, 200 },
    { { { { 0, OK_HEAD "Content-Length: 9\r\n\r\nhello" } }, RESET }, EXCHANGE_END_CUT, 200 },
    { { { { 0, OK_HEAD "Content-Length: 9\r\n\r\n" } }, CLOSE }, EXCHANGE_END_CUT, 200 },
    { { { { 0, CHUNKED_HEAD "5\r\nhello\r\n" } }, CLOSE }, EXCHANGE_END_CUT, 200 },
    { { { { 0, CHUNKED_HEAD "9\r\nhello" } }, CLOSE }, EXCHANGE_END_CUT, 200 },
    { { { { 0, CHUNKED_HEAD "5\r\nhello\r\n" }, { 20, "" } }, RESET }, EXCHANGE_END_CUT, 200 },
    { { { { 0, CHUNKED_HEAD "no chunk" } }, KEEP }, EXCHANGE_END_CUT, 200 },
    { { { { 0, OK_HEAD "\r\nhello" }, { 20, "" } }, RESET }, EXCHANGE_END_CUT, 200 },
    { { { { 0, "" } }, CLOSE }, EXCHANGE_END_RESET, 0 },
    { { { { 20, "" } }, RESET }, EXCHANGE_END_RESET, 0 },
    { { { { 0, "HTTP/1.1 200 OK\r\nContent-Ty" } }, CLOSE }, EXCHANGE_END_RESET, 0 },
    { { { { 0, "HTTP/1.1 100 Continue\r\n\r\n" } }, CLOSE }, EXCHANGE_END_RESET, 0 },
    { { { { 0, "hello, this is no HTTP\r\n\r\n" } }, CLOSE }, EXCHANGE_END_INVALID, 0 },
    { { { { 0, "HTTP/1.1 abc\r\n\r\n" } }, CLOSE }, EXCHANGE_END_INVALID, 0 },
};

START_TEST(a_broken_reply_is_cut_reset_or_invalid_and_never_sent_again)
{
    server_start(&server, &broken[_i].reply, 1);
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, broken[_i].end);
    ck_assert_int_eq(result.status, broken[_i].status);
    ck_assert_uint_eq(server.requests, 1);
    ck_assert_uint_eq(result.replays, 0);
}
END_TEST

static const struct {
    const char *url;
    enum exchange_end end;
} unreachable[] = {
    { "http://127.0.0.1:%d/", EXCHANGE_END_REFUSED },    { "http://a..b/", EXCHANGE_END_UNRESOLVED },
    { "ftp://127.0.0.1:%d/", EXCHANGE_END_INVALID },     { "file:///etc/hostname", EXCHANGE_END_INVALID },
    { "gopher://127.0.0.1:%d/", EXCHANGE_END_INVALID },  { "http://", EXCHANGE_END_INVALID },
    { "http://127.0.0.1:99999/", EXCHANGE_END_INVALID }, { "", EXCHANGE_END_INVALID },
};

START_TEST(what_cannot_be_reached_says_how)
{
    char url[64];
    int port;
    close(listen_somewhere(1, &port)); /* a port where nobody listens */
    memset(url, 0, sizeof(url));
    const char *mark = strstr(unreachable[_i].url, "%d");
    if (mark == NULL)
        snprintf(url, sizeof(url), "%s", unreachable[_i].url);
    else
        snprintf(url, sizeof(url), "%.*s%d/", (int)(mark - unreachable[_i].url), unreachable[_i].url, port);
    struct exchange_result result = post_to(url, span_cstr("{x}"));
    expect_end(&result, unreachable[_i].end);
    ck_assert_int_eq(receiver.heads, 0);
    ck_assert_int_eq(result.status, 0);
}
END_TEST

START_TEST(what_does_not_speak_tls_is_not_trusted_with_a_request)
{
    char url[64];
    server_start(&server, NULL, 0);
    snprintf(url, sizeof(url), "https://127.0.0.1:%d/", server.port);
    struct exchange_result result = post_to(url, span_cstr("{x}"));
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_TLS);
    ck_assert_uint_eq(server.requests, 0);
    ck_assert_uint_eq(result.bytes_out, 0);
}
END_TEST

/* --- clocks: each has its end; a clock that is not at stake is left at 10 s --- */

enum { CLOCK_MS = 200, LATE_MS = 1500 /* for a machine that is busy */ };

static void expect_timeout(const struct exchange_result *result, enum exchange_end end)
{
    expect_end(result, end);
    ck_assert_msg(took_us >= CLOCK_MS * US_PER_MS, "after %lu us", (unsigned long)took_us);
    ck_assert_msg(took_us < (CLOCK_MS + LATE_MS) * US_PER_MS, "after %lu us", (unsigned long)took_us);
}

START_TEST(the_clock_of_the_connection_counts_tls)
{
    char url[64];
    int port, listener = listen_somewhere(8, &port); /* takes the connection, and says nothing */
    snprintf(url, sizeof(url), "https://127.0.0.1:%d/", port);
    clocks.connect_ms = CLOCK_MS;
    struct exchange_result result = post_to(url, span_cstr("{x}"));
    expect_timeout(&result, EXCHANGE_END_TIMEOUT_CONNECT);
    close(listener);
}
END_TEST

START_TEST(the_clock_of_the_connection_counts_tcp)
{
    char url[64];
    int port, listener = listen_somewhere(0, &port), others[4];
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    for (size_t i = 0; i < COUNT(others); i++) { /* fill its queue */
        others[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(others[i], (struct sockaddr *)&address, sizeof(address));
    }
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", port);
    clocks.connect_ms = CLOCK_MS;
    struct exchange_result result = post_to(url, span_cstr("{x}"));
    expect_timeout(&result, EXCHANGE_END_TIMEOUT_CONNECT);
    for (size_t i = 0; i < COUNT(others); i++)
        close(others[i]);
    close(listener);
}
END_TEST

START_TEST(the_clock_of_the_connection_stops_when_it_stands)
{
    START({ { { 2 * CLOCK_MS, OK_REPLY } }, KEEP });
    clocks.connect_ms = CLOCK_MS;
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
}
END_TEST

START_TEST(the_clock_of_the_first_content_counts_what_says_nothing)
{
    START({ { { 0, CHUNKED_HEAD },
              { 70, "3\r\n:\n\n\r\n" },
              { 70, "3\r\n:\n\n\r\n" },
              { 70, "3\r\n:\n\n\r\n" } },
            KEEP });
    clocks.first_content_ms = CLOCK_MS;
    clocks.idle_ms = 100;
    receiver.data_wants = EXCHANGE_MORE;
    struct exchange_result result = post();
    server_stop(&server);
    expect_timeout(&result, EXCHANGE_END_TIMEOUT_FIRST_CONTENT);
    ck_assert_int_eq(result.status, 200);
    ck_assert_uint_eq(result.first_content_us, 0);
}
END_TEST

START_TEST(the_clock_of_the_first_content_counts_a_missing_head)
{
    server_start(&server, NULL, 0);
    clocks.first_content_ms = CLOCK_MS;
    struct exchange_result result = post();
    server_stop(&server);
    expect_timeout(&result, EXCHANGE_END_TIMEOUT_FIRST_CONTENT);
    ck_assert_int_eq(result.status, 0);
}
END_TEST

START_TEST(the_clock_of_silence_runs_from_byte_to_byte_after_content)
{
    START({ { { 0, CHUNKED_HEAD "1\r\na\r\n" }, { 120, "1\r\nb\r\n" }, { 120, "1\r\nc\r\n" } }, KEEP });
    clocks.idle_ms = CLOCK_MS;
    clocks.first_content_ms = CLOCK_MS;
    struct exchange_result result = post();
    server_stop(&server);
    expect_timeout(&result, EXCHANGE_END_TIMEOUT_IDLE);
    ck_assert(span_is(buf_span(&receiver.body), "abc"));
    ck_assert_uint_ge(took_us, (240 + CLOCK_MS) * US_PER_MS);
}
END_TEST

START_TEST(the_clock_of_the_chain_ends_an_exchange_without_content)
{
    server_start(&server, NULL, 0);
    clocks.chain_us = clock_monotonic_us() + CLOCK_MS * US_PER_MS;
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_TIMEOUT_CHAIN);
    ck_assert_uint_ge(clock_monotonic_us(), clocks.chain_us);
    ck_assert_uint_lt(took_us, (CLOCK_MS + LATE_MS) * US_PER_MS);
}
END_TEST

START_TEST(the_clock_of_the_chain_leaves_a_reply_alone_that_has_content)
{
    START({ { { 0, CHUNKED_HEAD "1\r\na\r\n" }, { 2 * CLOCK_MS, "1\r\nb\r\n" CHUNKS_END } }, KEEP });
    clocks.chain_us = clock_monotonic_us() + CLOCK_MS * US_PER_MS;
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
}
END_TEST

/* The receiver may be blocked on the caller: that is not the upstream's time. */
START_TEST(the_clocks_stand_still_while_the_receiver_is_at_work)
{
    enum { SLEEP_MS = 600, PAUSE_MS = 650, OWN_MS = 500 };
    START({ { { 0, CHUNKED_HEAD "1\r\na\r\n" },
              { PAUSE_MS, "1\r\nb\r\n" },
              { PAUSE_MS, "1\r\nc\r\n" CHUNKS_END } },
            KEEP });
    clocks.idle_ms = clocks.first_content_ms = OWN_MS;
    clocks.chain_us = clock_monotonic_us() + OWN_MS * US_PER_MS;
    receiver.sleep_ms = SLEEP_MS;
    receiver.content_from = "ab";
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
    ck_assert_uint_ge(result.receiver_us, 3 * SLEEP_MS * US_PER_MS);
    ck_assert_uint_le(result.receiver_us, took_us);
}
END_TEST

/* --- the caller leaves --- */

static const struct reply slow_replies[] = {
    { { { 5000, OK_REPLY } }, KEEP },
    { { { 0, CHUNKED_HEAD }, { 5000, CHUNKS_END } }, KEEP },
    { { { 0, CHUNKED_HEAD "1\r\na\r\n" }, { 5000, CHUNKS_END } }, KEEP },
};

enum { LEAVES_AFTER_MS = 100, NOTICED_MS = 1000 };

static void *leave(void *arg)
{
    pause_ms(LEAVES_AFTER_MS);
    close(*(int *)arg);
    return NULL;
}

/* Ends of a connection as the caller's is, and as CGI's standard output is. */
static void connect_caller(int kind, int *ours, int *theirs)
{
    int fds[2];
    if (kind == 0)
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    else
        ck_assert_int_eq(pipe(fds), 0);
    *ours = fds[1];
    *theirs = fds[0];
}

START_TEST(a_caller_that_leaves_is_noticed_in_every_phase)
{
    pthread_t caller;
    int theirs;
    connect_caller(_i % 2, &caller_fd, &theirs);
    server_start(&server, &slow_replies[_i / 2], 1);
    ck_assert_int_eq(pthread_create(&caller, NULL, leave, &theirs), 0);
    struct exchange_result result = post();
    uint64_t took = took_us;
    pthread_join(caller, NULL);
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_CALLER_LEFT);
    ck_assert_msg(took < (LEAVES_AFTER_MS + NOTICED_MS) * US_PER_MS, "after %lu us", (unsigned long)took);
    ck_assert_uint_ge(took, LEAVES_AFTER_MS * US_PER_MS / 2);
    close(caller_fd);
}
END_TEST

START_TEST(a_caller_is_looked_for_until_it_is_gone)
{
    look.gone_at = 3;
    server_start(&server, NULL, 0);
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_CALLER_LEFT);
    ck_assert_uint_eq(look.looks, 3);
    ck_assert_uint_ge(look.last_us - look.first_us, 2 * EXCHANGE_LOOK_MS * US_PER_MS);
    ck_assert_uint_ge(took_us, (EXCHANGE_FIRST_LOOK_MS + 2 * EXCHANGE_LOOK_MS) * US_PER_MS);
    ck_assert_uint_lt(took_us, (EXCHANGE_FIRST_LOOK_MS + 2 * EXCHANGE_LOOK_MS + LATE_MS) * US_PER_MS);
}
END_TEST

START_TEST(a_caller_is_looked_for_in_every_phase)
{
    look.gone_at = 4;
    server_start(&server, &slow_replies[_i], 1);
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_CALLER_LEFT);
    ck_assert_uint_lt(took_us, (EXCHANGE_FIRST_LOOK_MS + 3 * EXCHANGE_LOOK_MS + LATE_MS) * US_PER_MS);
}
END_TEST

START_TEST(a_caller_that_left_before_is_noticed_at_once)
{
    int theirs;
    connect_caller(0, &caller_fd, &theirs);
    close(theirs);
    server_start(&server, NULL, 0);
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_CALLER_LEFT);
    ck_assert_uint_lt(took_us, NOTICED_MS * US_PER_MS);
    close(caller_fd);
}
END_TEST

START_TEST(a_receiver_that_stops_stops_the_exchange)
{
    static const struct {
        enum exchange_want head, data;
        enum exchange_end end;
    } rows[] = {
        { EXCHANGE_ENOUGH, EXCHANGE_MORE, EXCHANGE_END_ENOUGH },
        { EXCHANGE_LEFT, EXCHANGE_MORE, EXCHANGE_END_CALLER_LEFT },
        { EXCHANGE_MORE, EXCHANGE_ENOUGH, EXCHANGE_END_ENOUGH },
        { EXCHANGE_MORE, EXCHANGE_LEFT, EXCHANGE_END_CALLER_LEFT },
    };
    START({ { { 0, CHUNKED_HEAD "1\r\na\r\n" } }, KEEP }, { { { 0, OK_REPLY } }, KEEP });
    receiver.head_wants = rows[_i].head;
    receiver.data_wants = rows[_i].data;
    struct exchange_result result = post();
    ck_assert_int_eq(receiver.pieces, rows[_i].head == EXCHANGE_MORE ? 1 : 0);
    receiver.head_wants = EXCHANGE_MORE;
    receiver.data_wants = EXCHANGE_CONTENT;
    struct exchange_result next = post();
    server_stop(&server);
    expect_end(&result, rows[_i].end);
    expect_end(&next, EXCHANGE_END_WHOLE);
    ck_assert(!next.is_reused); /* what was left of the reply is in the old connection */
    ck_assert_uint_eq(server.connections, 2);
}
END_TEST

/* --- the beat --- */

enum { BEAT_MS = 50 };

START_TEST(a_beat_runs_whenever_it_is_due_before_a_reply_and_within_it)
{
    START({ { { 4 * BEAT_MS, CHUNKED_HEAD }, { 4 * BEAT_MS, "1\r\na\r\n" }, { 4 * BEAT_MS, CHUNKS_END } },
            KEEP });
    metronome.interval_ms = BEAT_MS;
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
    ck_assert_uint_le(metronome.runs, took_us / (BEAT_MS * US_PER_MS));
    ck_assert_msg(metronome.runs >= 6, "%u runs in %lu us", metronome.runs, (unsigned long)took_us);
}
END_TEST

START_TEST(each_of_two_beats_runs_when_it_is_due)
{
    START({ { { 8 * BEAT_MS, OK_REPLY } }, KEEP });
    metronome.interval_ms = 3 * BEAT_MS;
    other_metronome.interval_ms = BEAT_MS;
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
    ck_assert_uint_le(metronome.runs, took_us / (3 * BEAT_MS * US_PER_MS));
    ck_assert_uint_le(other_metronome.runs, took_us / (BEAT_MS * US_PER_MS));
    ck_assert_msg(metronome.runs >= 1 && other_metronome.runs > metronome.runs, "%u and %u runs in %lu us",
                  metronome.runs, other_metronome.runs, (unsigned long)took_us);
}
END_TEST

START_TEST(a_beat_that_is_not_due_does_not_run)
{
    START({ { { 2 * BEAT_MS, OK_REPLY } }, KEEP }, { { { 2 * BEAT_MS, OK_REPLY } }, KEEP });
    post();
    metronome.interval_ms = 5000;
    post();
    server_stop(&server);
    ck_assert_uint_eq(metronome.runs, 0);
    ck_assert_uint_lt(took_us, LATE_MS * US_PER_MS);
}
END_TEST

START_TEST(a_beat_puts_off_no_clock)
{
    static const struct reply waits[] = { { { { 0, CHUNKED_HEAD } }, KEEP },
                                          { { { 0, CHUNKED_HEAD "1\r\na\r\n" } }, KEEP } };
    server_start(&server, &waits[_i], 1);
    clocks.idle_ms = clocks.first_content_ms = CLOCK_MS;
    metronome.interval_ms = BEAT_MS;
    struct exchange_result result = post();
    server_stop(&server);
    expect_timeout(&result, _i == 0 ? EXCHANGE_END_TIMEOUT_FIRST_CONTENT : EXCHANGE_END_TIMEOUT_IDLE);
    ck_assert_uint_ge(metronome.runs, 2);
}
END_TEST

START_TEST(the_clocks_stand_still_while_a_beat_runs)
{
    START({ { { 6 * CLOCK_MS, OK_REPLY } }, KEEP });
    clocks.first_content_ms = 3 * CLOCK_MS;
    metronome.interval_ms = BEAT_MS;
    metronome.sleep_ms = 3 * BEAT_MS;
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_WHOLE);
    ck_assert_uint_ge(result.receiver_us, metronome.runs * 3 * BEAT_MS * US_PER_MS);
}
END_TEST

START_TEST(a_beat_that_finds_the_caller_gone_ends_the_exchange)
{
    server_start(&server, NULL, 0);
    metronome.interval_ms = BEAT_MS;
    metronome.fails_at = 2;
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_CALLER_LEFT);
    ck_assert_uint_eq(metronome.runs, 2);
    ck_assert_uint_lt(took_us, (2 * BEAT_MS + LATE_MS) * US_PER_MS);
}
END_TEST

START_TEST(nothing_beats_once_all_has_come)
{
    START({ { { 0, CHUNKED_HEAD "7\r\na[DONE]\r\n" } }, KEEP });
    receiver.lingers_after = "[DONE]";
    receiver.beat_interval_ms = 10; /* from the mark on; it lingers for longer */
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, EXCHANGE_END_ENOUGH);
    ck_assert_uint_ge(took_us, 50 * US_PER_MS);
    ck_assert_uint_eq(metronome.interval_ms, 10);
    ck_assert_uint_eq(metronome.runs, 0);
}
END_TEST

/* --- kept connections --- */

START_TEST(a_connection_is_kept_for_the_next_exchange)
{
    START({ { { 0, OK_REPLY } }, KEEP }, { { { 0, CHUNKED_HEAD CHUNKS_END } }, KEEP },
          { { { 0, OK_REPLY } }, KEEP });
    struct exchange_result first = post(), second = post(), third = post();
    server_stop(&server);
    ck_assert(!first.is_reused && second.is_reused && third.is_reused);
    ck_assert_uint_eq(server.connections, 1);
    ck_assert_uint_eq(server.requests, 3);
    ck_assert_uint_eq(third.replays, 0);
}
END_TEST

/* This process's end of the connection to the port; -1: there is none. */
static int find_connection_to(int port)
{
    enum { FDS_MAX = 256 };

    for (int fd = 0; fd < FDS_MAX; fd++) {
        struct sockaddr_in peer = { .sin_port = 0 };
        socklen_t len = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == port)
            return fd;
    }
    return -1;
}

START_TEST(what_is_sent_does_not_wait_for_the_upstreams_acknowledgement)
{
    int is_on = 0;
    socklen_t len = sizeof(is_on);

    START({ { { 0, OK_REPLY } }, KEEP });
    post();
    int fd = find_connection_to(server.port);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &is_on, &len), 0);
    ck_assert_int_ne(is_on, 0);
    server_stop(&server);
}
END_TEST

START_TEST(a_connection_that_was_closed_meanwhile_is_not_used)
{
    START({ { { 0, OK_REPLY } }, CLOSE }, { { { 0, OK_REPLY } }, KEEP });
    post();
    pause_ms(50);
    struct exchange_result second = post();
    server_stop(&server);
    expect_end(&second, EXCHANGE_END_WHOLE);
    ck_assert(!second.is_reused);
    ck_assert_uint_eq(second.replays, 0);
    ck_assert_uint_eq(server.requests, 2);
}
END_TEST

/* The server closes while our request is on its way: nobody knows whether it was read. */
START_TEST(a_kept_connection_that_turns_out_to_be_closed_is_replaced)
{
    START({ { { 0, OK_REPLY } }, KEEP }, { { { 0, "" } }, CLOSE }, { { { 0, OK_REPLY } }, KEEP },
          { { { 0, OK_REPLY } }, KEEP });
    post();
    struct exchange_result second = post(), third = post();
    server_stop(&server);
    expect_end(&second, EXCHANGE_END_WHOLE);
    ck_assert_uint_eq(second.replays, 1);
    ck_assert(!second.is_reused);
    ck_assert(span_is(buf_span(&receiver.body), "hello"));
    ck_assert(third.is_reused); /* a replay's connection is as good as any */
    ck_assert_uint_eq(third.replays, 0);
    ck_assert_uint_eq(server.requests, 4);
    ck_assert_uint_eq(server.connections, 2);
    ck_assert(memmem(server.last_request.data, server.last_request.len, "{[...]}", 7) != NULL);
}
END_TEST

START_TEST(a_request_is_sent_twice_at_most)
{
    START({ { { 0, OK_REPLY } }, KEEP }, { { { 0, "" } }, CLOSE }, { { { 0, "" } }, CLOSE },
          { { { 0, OK_REPLY } }, KEEP });
    post();
    struct exchange_result second = post();
    server_stop(&server);
    expect_end(&second, EXCHANGE_END_RESET);
    ck_assert_uint_eq(second.replays, 1);
    ck_assert_uint_eq(server.requests, 3);
    ck_assert_uint_eq(server.connections, 2);
}
END_TEST

/* libcurl counts what it sends again for as long as its handle lives, and gives up at five. */
START_TEST(a_client_survives_any_number_of_replays)
{
    static const struct reply kept = { { { 0, OK_REPLY } }, KEEP }, dead = { { { 0, "" } }, CLOSE };
    enum { REPLAYS = 7 };
    struct reply script[1 + 2 * REPLAYS] = { kept };

    for (size_t i = 0; i < REPLAYS; i++) {
        script[1 + 2 * i] = dead;
        script[2 + 2 * i] = kept;
    }
    server_start(&server, script, COUNT(script));
    post();
    for (unsigned i = 0; i < REPLAYS; i++) {
        struct exchange_result result = post();
        ck_assert_msg(result.end == EXCHANGE_END_WHOLE && result.replays == 1, "replay %u: %s, sent %u times",
                      i + 1, exchange_end_name(result.end), result.replays + 1);
    }
    server_stop(&server);
}
END_TEST

/* A kind of request: a body in one piece, one that is read as it is sent, none, another URL. */
static struct exchange_result ask_as(size_t kind, char expected[64])
{
    static char large[100 * 1024];
    static const char *const paths[] = { "/small", "/large", "/get", "/other?x=1" };
    char url[64];

    memset(large, 'x', sizeof(large));
    is_get = kind == 2;
    snprintf(url, sizeof(url), "http://127.0.0.1:%d%s#f", server.port, paths[kind]);
    snprintf(expected, 64, "%s %s HTTP/1.1\r\n", is_get ? "GET" : "POST", paths[kind]);
    return post_to(url, kind == 1 ? span_of(large, sizeof(large)) : span_cstr("{x}"));
}

/* A handle keeps what is set: each kind after each. */
START_TEST(an_exchange_is_the_same_whatever_came_before)
{
    static const uint64_t sent[] = { 7, 100 * 1024 + 4, 0, 7 };
    char expected[64];

    for (size_t i = 0; i < COUNT(sent) * COUNT(sent); i++) {
        size_t kind = i % COUNT(sent);
        START({ { { 0, OK_REPLY } }, KEEP }, { { { 0, OK_REPLY } }, KEEP });
        ask_as(i / COUNT(sent), expected);
        struct exchange_result result = ask_as(kind, expected);
        server_stop(&server);
        expect_end(&result, EXCHANGE_END_WHOLE);
        ck_assert(result.is_reused && span_is(buf_span(&receiver.body), "hello"));
        ck_assert_uint_eq(result.bytes_out, sent[kind]);
        ck_assert_msg(span_starts(buf_span(&server.last_request), expected), "%.40s instead of %s",
                      server.last_request.data, expected);
        buf_free(&server.last_request);
    }
    struct exchange_result unreadable = post_to("http://[::1", span_cstr("{x}"));
    expect_end(&unreadable, EXCHANGE_END_INVALID);
}
END_TEST

/* As many transfers at once as make as many connections, which are then kept. */
static void fill_the_pool(size_t connections)
{
    CURL *easies[4];
    char url[64];
    int running = 1;
    ck_assert_uint_le(connections, COUNT(easies));
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", server.port);
    for (size_t i = 0; i < connections; i++) {
        easies[i] = curl_easy_init();
        curl_easy_setopt(easies[i], CURLOPT_URL, url);
        curl_easy_setopt(easies[i], CURLOPT_NOBODY, 1L);
        ck_assert_int_eq(curl_multi_add_handle(client->multi, easies[i]), CURLM_OK);
    }
    while (running > 0) {
        ck_assert_int_eq(curl_multi_perform(client->multi, &running), CURLM_OK);
        ck_assert_int_eq(curl_multi_poll(client->multi, NULL, 0, 1000, NULL), CURLM_OK);
    }
    for (size_t i = 0; i < connections; i++) {
        curl_multi_remove_handle(client->multi, easies[i]);
        curl_easy_cleanup(easies[i]);
    }
}

/* Left alone, libcurl would try every kept connection, each with a send. */
START_TEST(a_pool_of_dead_connections_costs_one_replay)
{
    static const struct reply head = { { { 50, OK_HEAD "Content-Length: 5\r\n\r\n" } }, KEEP };
    const struct reply dead = { { { 0, "" } }, CLOSE }, answer_of_fresh = { { { 0, OK_REPLY } }, KEEP };
    const struct reply script[] = { head, head, head, head, dead, _i == 0 ? answer_of_fresh : dead,
                                    dead, dead, dead };
    server_start(&server, script, COUNT(script));
    fill_the_pool(4);
    struct exchange_result result = post();
    server_stop(&server);
    expect_end(&result, _i == 0 ? EXCHANGE_END_WHOLE : EXCHANGE_END_RESET);
    ck_assert_uint_eq(result.replays, 1);
    ck_assert_uint_eq(server.requests, 4 + 2);
    ck_assert_uint_eq(server.connections, 4 + 1);
}
END_TEST

START_TEST(a_replay_sends_the_body_from_its_beginning)
{
    START({ { { 0, OK_REPLY } }, KEEP }, { { { 0, "" } }, RESET }, { { { 0, OK_REPLY } }, KEEP });
    post();
    struct exchange_result second = post();
    server_stop(&server);
    expect_end(&second, EXCHANGE_END_WHOLE);
    ck_assert_uint_eq(second.replays, 1);
    const char *body = memmem(server.last_request.data, server.last_request.len, "\r\n\r\n", 4);
    ck_assert(body != NULL && strncmp(body + 4, "{[...]}", 7) == 0);
}
END_TEST

/* A stream's last event comes a moment before its transport's end. */
START_TEST(a_reply_of_which_all_has_come_is_read_to_its_end_for_the_connections_sake)
{
    START({ { { 0, CHUNKED_HEAD "6\r\na[DONE\r\n" }, { 20, "4\r\n]\n\n\n\r\n" }, { 20, CHUNKS_END } }, KEEP },
          { { { 0, OK_REPLY } }, KEEP });
    receiver.lingers_after = "[DONE]";
    struct exchange_result first = post();
    ck_assert(span_is(buf_span(&receiver.body), "a[DONE]\n\n\n"));
    receiver.lingers_after = NULL;
    struct exchange_result second = post();
    server_stop(&server);
    ck_assert(first.end == EXCHANGE_END_ENOUGH || first.end == EXCHANGE_END_WHOLE);
    ck_assert(second.is_reused);
    ck_assert_uint_eq(server.connections, 1);
}
END_TEST

START_TEST(an_upstream_that_never_ends_what_is_over_does_not_keep_us)
{
    START({ { { 0, CHUNKED_HEAD "7\r\na[DONE]\r\n" } }, KEEP }, { { { 0, OK_REPLY } }, KEEP });
    receiver.lingers_after = "[DONE]";
    struct exchange_result first = post();
    uint64_t took = took_us;
    receiver.lingers_after = NULL;
    struct exchange_result second = post();
    server_stop(&server);
    expect_end(&first, EXCHANGE_END_ENOUGH);
    ck_assert_uint_lt(took, LATE_MS * US_PER_MS);
    ck_assert_uint_gt(first.first_content_us, 0); /* content and end came in one piece */
    ck_assert(!second.is_reused);
}
END_TEST

START_TEST(what_comes_while_lingering_is_nobodys)
{
    START({ { { 0, CHUNKED_HEAD "7\r\na[DONE]\r\n" }, { 20, "4\r\nmore\r\n" }, { 20, CHUNKS_END } }, KEEP });
    receiver.lingers_after = "[DONE]";
    struct exchange_result result = post();
    server_stop(&server);
    ck_assert(span_is(buf_span(&receiver.body), "a[DONE]"));
    ck_assert_uint_eq(result.bytes_in, 11);
}
END_TEST

/* --- names --- */

START_TEST(every_end_has_a_name_of_its_own)
{
    for (enum exchange_end a = EXCHANGE_END_WHOLE; a <= EXCHANGE_END_CALLER_LEFT; a++) {
        ck_assert_ptr_nonnull(exchange_end_name(a));
        for (enum exchange_end b = EXCHANGE_END_WHOLE; b < a; b++)
            ck_assert_str_ne(exchange_end_name(a), exchange_end_name(b));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchange");
    TCase *replies = tcase_create("replies"), *ends = tcase_create("clocks and callers"),
          *kept = tcase_create("kept");
    TCase *all[] = { replies, ends, kept };
    for (size_t i = 0; i < COUNT(all); i++) {
        tcase_add_checked_fixture(all[i], set_up, tear_down);
        tcase_set_timeout(all[i], 20);
        suite_add_tcase(suite, all[i]);
    }
    tcase_add_loop_test(replies, a_whole_reply_is_given_as_it_is_with_its_head_once, 0, (int)COUNT(whole));
    tcase_add_test(replies, small_chunks_that_arrive_together_are_given_together);
    tcase_add_test(replies, chunks_of_all_sizes_are_given_in_their_order);
    tcase_add_test(replies, the_headers_that_say_when_to_come_again_are_given);
    tcase_add_loop_test(replies, the_reason_phrase_of_the_last_status_line_is_given, 0, (int)COUNT(reasons));
    tcase_add_test(replies,
                   a_header_by_which_the_upstream_finds_the_request_again_is_given_where_it_is_named);
    tcase_add_test(replies, without_a_body_it_is_a_get);
    tcase_add_test(replies, the_upstream_gets_the_spliced_body_our_headers_and_no_others);
    tcase_add_test(replies, the_times_of_an_exchange_are_in_order);
    tcase_add_test(replies, a_large_body_is_sent_without_waiting_to_be_asked_for_it);
    tcase_add_test(replies, proxies_of_the_environment_are_not_used);
    tcase_add_loop_test(replies, a_broken_reply_is_cut_reset_or_invalid_and_never_sent_again, 0,
                        (int)COUNT(broken));
    tcase_add_loop_test(replies, what_cannot_be_reached_says_how, 0, (int)COUNT(unreachable));
    tcase_add_test(replies, what_does_not_speak_tls_is_not_trusted_with_a_request);
    tcase_add_test(replies, every_end_has_a_name_of_its_own);
    tcase_add_test(ends, the_clock_of_the_connection_counts_tls);
    tcase_add_test(ends, the_clock_of_the_connection_counts_tcp);
    tcase_add_test(ends, the_clock_of_the_connection_stops_when_it_stands);
    tcase_add_test(ends, the_clock_of_the_first_content_counts_what_says_nothing);
    tcase_add_test(ends, the_clock_of_the_first_content_counts_a_missing_head);
    tcase_add_test(ends, the_clock_of_silence_runs_from_byte_to_byte_after_content);
    tcase_add_test(ends, the_clock_of_the_chain_ends_an_exchange_without_content);
    tcase_add_test(ends, the_clock_of_the_chain_leaves_a_reply_alone_that_has_content);
    tcase_add_test(ends, the_clocks_stand_still_while_the_receiver_is_at_work);
    tcase_add_loop_test(ends, a_caller_that_leaves_is_noticed_in_every_phase, 0,
                        2 * (int)COUNT(slow_replies));
    tcase_add_test(ends, a_caller_that_left_before_is_noticed_at_once);
    tcase_add_test(ends, a_caller_is_looked_for_until_it_is_gone);
    tcase_add_loop_test(ends, a_caller_is_looked_for_in_every_phase, 0,
                        sizeof(slow_replies) / sizeof(slow_replies[0]));
    tcase_add_loop_test(ends, a_receiver_that_stops_stops_the_exchange, 0, 4);
    tcase_add_test(ends, a_beat_runs_whenever_it_is_due_before_a_reply_and_within_it);
    tcase_add_test(ends, each_of_two_beats_runs_when_it_is_due);
    tcase_add_test(ends, a_beat_that_is_not_due_does_not_run);
    tcase_add_loop_test(ends, a_beat_puts_off_no_clock, 0, 2);
    tcase_add_test(ends, the_clocks_stand_still_while_a_beat_runs);
    tcase_add_test(ends, a_beat_that_finds_the_caller_gone_ends_the_exchange);
    tcase_add_test(ends, nothing_beats_once_all_has_come);
    tcase_add_test(kept, a_connection_is_kept_for_the_next_exchange);
    tcase_add_test(kept, what_is_sent_does_not_wait_for_the_upstreams_acknowledgement);
    tcase_add_test(kept, a_connection_that_was_closed_meanwhile_is_not_used);
    tcase_add_test(kept, a_kept_connection_that_turns_out_to_be_closed_is_replaced);
    tcase_add_test(kept, a_request_is_sent_twice_at_most);
    tcase_add_loop_test(kept, a_pool_of_dead_connections_costs_one_replay, 0, 2);
    tcase_add_test(kept, a_client_survives_any_number_of_replays);
    tcase_add_test(kept, an_exchange_is_the_same_whatever_came_before);
    tcase_add_test(kept, a_replay_sends_the_body_from_its_beginning);
    tcase_add_test(kept, a_reply_of_which_all_has_come_is_read_to_its_end_for_the_connections_sake);
    tcase_add_test(kept, an_upstream_that_never_ends_what_is_over_does_not_keep_us);
    tcase_add_test(kept, what_comes_while_lingering_is_nobodys);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
