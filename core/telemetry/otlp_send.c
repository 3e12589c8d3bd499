#include "core/telemetry/otlp_send.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/version.h"
#include "core/json/scan.h"
#include "core/log/log.h"
#include "core/telemetry/otlp.pb-c.h"
#include "core/telemetry/otlp_json.h"
#include "core/telemetry/sink.h"

enum {
    REQUEST_LIMIT_BYTES = 64 * 1024 * 1024, /* both as the specification of exporters says */
    REPLY_LIMIT_BYTES = 4 * 1024 * 1024,
    RETRY_AFTER_MAX_S = 600, /* of what a receiver may ask for */
    GZIP_WINDOW = 15 + 16,   /* zlib: with gzip's header */
    GZIP_MEMORY = 8,
    TROUBLE_BYTES = CURL_ERROR_SIZE,
};

struct otlp_sender {
    const struct otlp_settings *settings;
    const struct otlp_receiver *receiver;
    enum metric_signal signal;
    struct telemetry *telemetry;
    CURL *easy;
    struct curl_slist *headers;
    struct buf body, packed, reply;
    char detail[CURL_ERROR_SIZE];
    char trouble[TROUBLE_BYTES]; /* that was logged last; "": all is well */
};

/* --- what is sent --- */

static void append_header(struct otlp_sender *sender, const char *name, const char *value)
{
    struct arena *arena = arena_new();
    /* libcurl sends an empty header when the name ends in a semicolon. */
    char *line =
        value[0] != '\0' ? arena_printf(arena, "%s: %s", name, value) : arena_printf(arena, "%s;", name);
    struct curl_slist *longer = curl_slist_append(sender->headers, line);
    if (longer != NULL)
        sender->headers = longer;
    explicit_bzero(line, strlen(line));
    arena_free(arena);
}

static void append_headers(struct otlp_sender *sender)
{
    const struct otlp_receiver *receiver = sender->receiver;
    struct span rest = receiver->headers;
    struct arena *arena = arena_new();
    const char *name, *value;

    append_header(sender, "Content-Type", receiver->is_json ? "application/json" : "application/x-protobuf");
    if (receiver->has_gzip)
        append_header(sender, "Content-Encoding", "gzip");
    append_header(sender, "User-Agent",
                  "llm-router/" LLM_ROUTER_VERSION " OTel-OTLP-Exporter-C/" LLM_ROUTER_VERSION);
    sender->headers = curl_slist_append(sender->headers, "Expect:"); /* no round trip before the body */
    while (otlp_next_header(&rest, arena, &name, &value)) {
        append_header(sender, name, value);
        explicit_bzero((char *)(uintptr_t)value, strlen(value));
    }
    arena_free(arena);
}

/* protobuf-c's way to write into a buffer of ours. */
struct packing {
    ProtobufCBuffer base;
    struct buf *out;
};

static void on_packed(ProtobufCBuffer *buffer, size_t len, const uint8_t *bytes)
{
    struct packing *packing = (struct packing *)buffer;
    (void)buf_append(packing->out, bytes, len);
}

static int deflate_body(struct otlp_sender *sender)
{
    z_stream stream = { 0 };
    unsigned char chunk[16384];
    int r;

    buf_clear(&sender->packed);
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return ERR_SYSTEM;
    stream.next_in = (unsigned char *)sender->body.data;
    stream.avail_in = (uInt)sender->body.len;
    do {
        stream.next_out = chunk;
        stream.avail_out = sizeof(chunk);
        r = deflate(&stream, Z_FINISH);
        (void)buf_append(&sender->packed, chunk, sizeof(chunk) - stream.avail_out);
    } while (r == Z_OK);
    deflateEnd(&stream);
    return r == Z_STREAM_END && !sender->packed.overflowed ? 0 : ERR_SYSTEM;
}

static int encode(struct otlp_sender *sender, const ProtobufCMessage *message, struct span *out)
{
    buf_clear(&sender->body);
    if (sender->receiver->is_json) {
        struct json_writer w;
        jw_init(&w, &sender->body);
        otlp_json_write(message, &w);
    } else {
        struct packing packing = { .base = { on_packed }, .out = &sender->body };
        protobuf_c_message_pack_to_buffer(message, &packing.base);
    }
    if (sender->body.overflowed)
        return ERR_LIMIT;
    if (sender->receiver->has_gzip && deflate_body(sender) != 0)
        return ERR_LIMIT;
    *out = buf_span(sender->receiver->has_gzip ? &sender->packed : &sender->body);
    return 0;
}

/* --- the exchange --- */

/* A reply that is longer than one can be is not read on; its status counts. */
static size_t on_reply(char *bytes, size_t size, size_t count, void *ctx)
{
    struct otlp_sender *sender = ctx;
    return buf_append(&sender->reply, bytes, size * count) == 0 ? size * count : CURL_WRITEFUNC_ERROR;
}

/* Called at least every second: the process may be about to end. */
static int on_progress(void *end_us, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return clock_monotonic_us() >= atomic_load((const _Atomic uint64_t *)end_us) ? 1 : 0;
}

static void set_tls(CURL *easy, const struct otlp_receiver *receiver)
{
    if (receiver->certificate != NULL) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, receiver->certificate);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (receiver->client_certificate != NULL)
        curl_easy_setopt(easy, CURLOPT_SSLCERT, receiver->client_certificate);
    if (receiver->client_key != NULL)
        curl_easy_setopt(easy, CURLOPT_SSLKEY, receiver->client_key);
}

int otlp_sender_open(const struct otlp_settings *settings, enum metric_signal signal,
                     struct telemetry *telemetry, struct otlp_sender **out, struct error *e)
{
    struct otlp_sender *sender = xcalloc(1, sizeof(*sender));
    CURL *easy = sender->easy = curl_easy_init();

    if (easy == NULL) {
        free(sender);
        return error_set(e, ERR_SYSTEM, "libcurl has no handle to give");
    }
    sender->settings = settings;
    sender->receiver = &settings->receivers[signal];
    sender->signal = signal;
    sender->telemetry = telemetry;
    buf_init(&sender->body, REQUEST_LIMIT_BYTES);
    buf_init(&sender->packed, REQUEST_LIMIT_BYTES);
    buf_init(&sender->reply, REPLY_LIMIT_BYTES);
    append_headers(sender);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, sender->detail);
    curl_easy_setopt(easy, CURLOPT_URL, sender->receiver->url);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, sender->headers);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* as for upstreams: not the environment's */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* the process's end waits for no resolver */
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)sender->receiver->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_reply);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, sender);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    set_tls(easy, sender->receiver);
    *out = sender;
    return 0;
}

void otlp_sender_close(struct otlp_sender *sender)
{
    curl_easy_cleanup(sender->easy);
    for (struct curl_slist *header = sender->headers; header != NULL; header = header->next)
        explicit_bzero(header->data, strlen(header->data));
    curl_slist_free_all(sender->headers);
    buf_free(&sender->body);
    buf_free(&sender->packed);
    buf_free(&sender->reply);
    free(sender);
}

/* --- the reply --- */

/* What a reply says beside its status. */
struct reply {
    int64_t n_rejected;
    struct span message; /* from outside */
    struct arena *arena;
};

static void read_json(struct span body, struct reply *out)
{
    static const struct json_want wants[] = {
        { "partialSuccess.rejectedSpans", false },
        { "partialSuccess.rejectedDataPoints", false },
        { "partialSuccess.rejectedLogRecords", false },
        { "partialSuccess.errorMessage", false },
        { "message", false },
    };
    struct json_value found[5];
    long long n;

    if (json_find(body, wants, 5, 0, found, NULL) != 0)
        return;
    for (int i = 0; i < 3; i++) {
        struct span digits = found[i].raw; /* a 64-bit number is a string, but some write it as a number */
        if (found[i].kind == JSON_KIND_STRING)
            digits = json_decode(out->arena, digits);
        bool may_be_one = found[i].kind == JSON_KIND_STRING || found[i].kind == JSON_KIND_NUMBER;
        if (may_be_one && json_int(digits, &n) && n > out->n_rejected)
            out->n_rejected = n; /* a signal has one of them; a sum of what a receiver likes may overflow */
    }
    for (int i = 3; i < 5; i++)
        if (found[i].kind == JSON_KIND_STRING)
            out->message = json_decode(out->arena, found[i].raw);
}

static void read_protobuf(struct span body, bool is_success, struct reply *out)
{
    if (is_success) {
        Otlp__Reply *reply = otlp__reply__unpack(NULL, body.len, (const uint8_t *)body.ptr);
        if (reply != NULL && reply->partial_success != NULL) {
            out->n_rejected = reply->partial_success->rejected;
            out->message = span_cstr(arena_strdup(out->arena, reply->partial_success->error_message));
        }
        otlp__reply__free_unpacked(reply, NULL);
    } else {
        Otlp__Refusal *refusal = otlp__refusal__unpack(NULL, body.len, (const uint8_t *)body.ptr);
        if (refusal != NULL)
            out->message = span_cstr(arena_strdup(out->arena, refusal->message));
        otlp__refusal__free_unpacked(refusal, NULL);
    }
}

/* The content type of the reply says in which of the two forms it is. */
static void read_reply(struct otlp_sender *sender, bool is_success, struct reply *out)
{
    struct span body = buf_span(&sender->reply);
    char *type = NULL;

    curl_easy_getinfo(sender->easy, CURLINFO_CONTENT_TYPE, &type);
    if (body.len == 0 || type == NULL)
        return;
    if (span_starts(span_cstr(type), "application/json"))
        read_json(body, out);
    else if (span_starts(span_cstr(type), "application/x-protobuf"))
        read_protobuf(body, is_success, out);
}

/* --- what becomes of it --- */

static void count(const struct otlp_sender *sender, enum metric_id id, uint64_t n)
{
    telemetry_add(sender->telemetry, id, sender->signal, n);
}

/* Logs a trouble that is not the one that was logged last. */
static void report(struct otlp_sender *sender, const char *event, const char *trouble, uint64_t n_lost,
                   struct span message)
{
    if (strncmp(sender->trouble, trouble, sizeof(sender->trouble) - 1) == 0)
        return;
    snprintf(sender->trouble, sizeof(sender->trouble), "%s", trouble);
    struct json_writer *w = log_begin(LOG_WARN, event);
    jw_member_cstr(w, "signal", sink_name(sender->signal));
    log_field_text(w, "receiver", span_cstr(sender->receiver->place));
    log_field_text(w, "cause", span_cstr(trouble));
    if (n_lost > 0)
        jw_member_uint(w, "lost", n_lost);
    if (message.len > 0)
        log_field_text(w, "receiver_message", message);
    log_end();
}

static void recover(struct otlp_sender *sender)
{
    if (sender->trouble[0] == '\0')
        return;
    sender->trouble[0] = '\0';
    log_line(LOG_INFO, "export_resumed", "%s arrive again", sink_name(sender->signal));
}

static int accept_success(struct otlp_sender *sender, size_t n_items, const struct reply *reply)
{
    uint64_t n_rejected = reply->n_rejected > 0 ? (uint64_t)reply->n_rejected : 0;
    if (n_rejected > n_items)
        n_rejected = n_items;
    count(sender, METRIC_EXPORT_DELIVERED, n_items - n_rejected);
    count(sender, METRIC_EXPORT_DROPPED, n_rejected);
    if (n_rejected > 0 || reply->message.len > 0)
        report(sender, "export_partly_refused", "a partial success", n_rejected, reply->message);
    else
        recover(sender);
    return 0;
}

static int give_up(struct otlp_sender *sender, const char *why, size_t n_items, struct span message)
{
    count(sender, METRIC_EXPORT_DROPPED, n_items);
    report(sender, "export_refused", why, n_items, message);
    return 0;
}

static int try_again(struct otlp_sender *sender, const char *why, struct sink_turn *turn)
{
    count(sender, METRIC_EXPORT_FAILURES, 1);
    report(sender, "export_failed", why, 0, span_of(NULL, 0));
    return error_set(&turn->why, ERR_SYSTEM, "%s", why);
}

/* What the receiver asks for; 0: nothing. */
static uint64_t retry_after_ms(const struct otlp_sender *sender, long status)
{
    curl_off_t seconds = 0;
    if (status == 429 || status == 503)
        curl_easy_getinfo(sender->easy, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > RETRY_AFTER_MAX_S)
        seconds = RETRY_AFTER_MAX_S;
    return seconds > 0 ? (uint64_t)seconds * 1000 : 0;
}

static bool is_retryable(long status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

static int judge(struct otlp_sender *sender, CURLcode code, size_t n_items, struct sink_turn *turn)
{
    struct reply reply = { .arena = arena_new() };
    char why[TROUBLE_BYTES];
    long status = 0;
    int r;

    if (code == CURLE_ABORTED_BY_CALLBACK) { /* by us: the process ends */
        arena_free(reply.arena);
        return ERR_STOPPED;
    }
    curl_easy_getinfo(sender->easy, CURLINFO_RESPONSE_CODE, &status);
    /* A status whose body broke off, or was too long, has been said all the same. */
    bool is_answered = status >= 200 && (code == CURLE_OK || code == CURLE_WRITE_ERROR);
    if (is_answered && code == CURLE_OK)
        read_reply(sender, status < 300, &reply);
    if (!is_answered) {
        snprintf(why, sizeof(why), "%s",
                 sender->detail[0] != '\0' ? sender->detail : curl_easy_strerror(code));
        r = try_again(sender, why, turn);
    } else if (status < 300) {
        r = accept_success(sender, n_items, &reply);
    } else {
        snprintf(why, sizeof(why), "status %ld", status);
        turn->retry_after_ms = retry_after_ms(sender, status);
        r = is_retryable(status) ? try_again(sender, why, turn)
                                 : give_up(sender, why, n_items, reply.message);
    }
    arena_free(reply.arena);
    return r;
}

int otlp_send(struct otlp_sender *sender, const ProtobufCMessage *message, size_t n_items,
              struct sink_turn *turn)
{
    struct span body;

    if (encode(sender, message, &body) != 0)
        return give_up(sender, "the request would be larger than 64 MiB", n_items, span_of(NULL, 0));
    buf_clear(&sender->reply);
    sender->detail[0] = '\0';
    curl_easy_setopt(sender->easy, CURLOPT_POSTFIELDS, body.ptr);
    curl_easy_setopt(sender->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
    curl_easy_setopt(sender->easy, CURLOPT_XFERINFODATA, turn->end_us);
    CURLcode code = curl_easy_perform(sender->easy);
    return judge(sender, code, n_items, turn);
}
