#include "fcgi/edge/attempt.h"

#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/version.h"
#include "core/json/writer.h"
#include "core/log/log.h"
#include "core/route/signature.h"
#include "core/upstream/relay.h"

enum { FIXED_HEADERS = 6 };

/* The state of the attempt that is running. */
struct attempt {
    struct errand *errand;
    const struct candidate *candidate;
    struct attempt_event *event;
    struct relay relay;
    struct relay_sink sink;
    bool is_relaying;    /* the head was a 2xx */
    struct buf failed;   /* the body of any other, at most SIGNATURE_BODY_MAX of it */
    bool is_failed_cut;  /* it was longer */
    struct span retry_after, retry_after_ms, amzn_error_type, content_type; /* arena copies */
    int status;
};

/* --- the key and the headers ------------------------------------------- */

static bool is_printable(const struct secret *secret)
{
    for (size_t i = 0; i < secret->len; i++) {
        unsigned char c = (unsigned char)secret->bytes[i];
        if (c < 0x21 || c == 0x7f)
            return false; /* it would end the header, or begin another */
    }
    return secret->len > 0;
}

static int open_key(const struct attempt *a, struct secret *out)
{
    const struct router_shared *shared = a->errand->turn->worker->shared;
    const struct snap_root *root = a->errand->turn->root;
    const struct snap_key *key = a->candidate->key;
    struct error e;

    int r = envelope_decrypt(&shared->keys, snap_span(root, key->ciphertext), snap_span(root, key->aad), out, &e);
    if (r == 0 && !is_printable(out)) {
        secret_wipe(out);
        r = error_set(&e, ERR_FORMAT, "the decrypted key holds characters that no header may hold");
    }
    if (r == 0)
        return 0;
    struct json_writer *w = log_begin(LOG_ERROR, "decrypt_failed");
    jw_member_cstr(w, "request_id", a->errand->turn->request.id);
    jw_member_span(w, "model", snap_span(root, a->errand->model->name));
    jw_member_span(w, "upstream", snap_span(root, a->candidate->upstream->id));
    jw_member_span(w, "key", snap_span(root, key->id));
    jw_member_cstr(w, "message", e.text);
    log_end();
    return r;
}

/* The line that carries the key, in memory that the caller wipes. */
static char *key_header(const struct attempt *a, const struct secret *secret, size_t *size)
{
    struct turn *turn = a->errand->turn;
    const char *name = snap_cstr(turn->root, a->candidate->upstream->header_name);
    const char *template = snap_cstr(turn->root, a->candidate->upstream->header_template);
    const char *place = strstr(template, "{KEY}");
    size_t before = place == NULL ? strlen(template) : (size_t)(place - template);
    const char *after = place == NULL ? "" : place + 5;

    *size = strlen(name) + 2 + strlen(template) + secret->len + 1;
    char *line = arena_alloc(turn->request.arena, *size);
    snprintf(line, *size, "%s: %.*s%s%s", name, (int)before, template, secret->bytes, after);
    return line;
}

static const char **make_headers(const struct attempt *a, const char *key_line)
{
    struct turn *turn = a->errand->turn;
    const struct snap_vec extra = a->candidate->upstream->headers;
    const char **headers = arena_array_of(turn->request.arena, const char *, FIXED_HEADERS + extra.count);
    size_t n = 0;

    headers[n++] = key_line;
    headers[n++] = "Content-Type: application/json";
    headers[n++] = a->errand->facts->is_stream ? "Accept: text/event-stream" : "Accept: application/json";
    headers[n++] = "User-Agent: llm-router/" LLM_ROUTER_VERSION;
    headers[n++] = "Expect:"; /* libcurl would wait a second for "100 Continue" */
    for (unsigned i = 0; i < extra.count; i++) {
        const struct snap_header_line *h = SNAP_ITEM(turn->root, extra, struct snap_header_line, i);
        headers[n++] = arena_printf(turn->request.arena, "%s: %s", snap_cstr(turn->root, h->name),
                                    snap_cstr(turn->root, h->value));
    }
    return headers;
}

/* --- to the caller ------------------------------------------------------ */

static int commit(void *ctx, struct span content_type, int64_t whole_bytes)
{
    struct attempt *a = ctx;
    struct turn *turn = a->errand->turn;

    turn->event->is_committed = true;
    turn->event->ttft_us = clock_monotonic_us() - turn->start_us;
    scoreboard_enter(turn->worker->process->record, STAGE_STREAMING);
    reply_start(&turn->reply, a->status, content_type, whole_bytes);
    if (a->errand->facts->is_stream) {
        reply_header(&turn->reply, "Cache-Control", span_cstr("no-cache"));
        reply_header(&turn->reply, "X-Accel-Buffering", span_cstr("no")); /* nginx: every chunk at once */
    }
    return 0;
}

static int write_out(void *ctx, struct span bytes)
{
    struct attempt *a = ctx;
    return reply_write(&a->errand->turn->reply, bytes);
}

/* --- from the upstream -------------------------------------------------- */

static struct span keep(struct attempt *a, struct span text)
{
    return span_of(arena_span(a->errand->turn->request.arena, text), text.len);
}

static enum exchange_want on_head(void *ctx, const struct exchange_head *head)
{
    struct attempt *a = ctx;
    const struct errand *errand = a->errand;

    a->status = head->status;
    a->is_relaying = head->status >= 200 && head->status < 300;
    if (a->is_relaying) {
        relay_init(&a->relay, errand->dialect, errand->facts->is_stream, !errand->facts->wants_usage,
                   head->content_type, &a->sink);
        return EXCHANGE_MORE;
    }
    a->content_type = keep(a, head->content_type);
    a->retry_after = keep(a, head->retry_after);
    a->retry_after_ms = keep(a, head->retry_after_ms);
    a->amzn_error_type = keep(a, head->amzn_error_type);
    return EXCHANGE_MORE;
}

static enum exchange_want on_data(void *ctx, struct span piece)
{
    struct attempt *a = ctx;
    if (a->is_relaying)
        return relay_feed(&a->relay, piece);
    size_t room = SIGNATURE_BODY_MAX - a->failed.len;
    buf_append(&a->failed, piece.ptr, piece.len < room ? piece.len : room);
    a->is_failed_cut = piece.len > room;
    return a->is_failed_cut ? EXCHANGE_ENOUGH : EXCHANGE_MORE;
}

/* --- judgement ---------------------------------------------------------- */

static void note_opinion(struct attempt *a, const struct opinion *opinion, struct attempt_outcome *out)
{
    out->verdict = opinion->verdict;
    out->blame = opinion->blame;
    out->is_proven = opinion->is_proven;
    out->retry_after_s = opinion->retry_after_s;
    a->event->reason = opinion->signature;
    if (opinion->code[0] != '\0')
        a->event->provider_code = arena_strdup(a->errand->turn->request.arena, opinion->code);
}

static void log_failure(const struct attempt *a, const struct attempt_outcome *out, struct span message)
{
    const struct turn *turn = a->errand->turn;
    struct json_writer *w = log_begin(LOG_WARN, "attempt_failed");

    jw_member_cstr(w, "request_id", turn->request.id);
    jw_member_span(w, "model", snap_span(turn->root, a->errand->model->name));
    jw_member_span(w, "upstream", snap_span(turn->root, a->candidate->upstream->id));
    jw_member_cstr(w, "key_fp", a->candidate->key->fingerprint);
    jw_member_cstr(w, "verdict", verdict_row(out->verdict)->name);
    jw_member_cstr(w, "reason", a->event->reason);
    if (out->status != 0)
        jw_member_int(w, "status", out->status);
    if (a->event->provider_code != NULL)
        log_field_text(w, "code", span_cstr(a->event->provider_code));
    if (message.len > 0)
        log_field_text(w, "upstream_message", message);
    log_end();
}

/* A refusal is passed on as the upstream wrote it; one that was too long to be
 * read whole, in the dialect's shape with the upstream's sentence and token. */
static void keep_refusal(struct attempt *a, int status, const struct opinion *opinion, struct attempt_outcome *out)
{
    struct span body = a->is_relaying ? buf_span(&a->relay.failure) : buf_span(&a->failed);
    bool is_cut = a->is_relaying ? a->relay.failure.overflowed : a->is_failed_cut;
    struct json_writer w;
    struct buf short_body;

    out->refusal_status = status;
    out->refusal_type = a->is_relaying ? span_cstr("application/json") : a->content_type;
    if (!is_cut) {
        out->refusal_body = keep(a, body);
        return;
    }
    buf_init(&short_body, 2 * SIGNATURE_BODY_MAX);
    jw_init(&w, &short_body);
    jw_begin_object(&w);
    jw_key(&w, "error");
    jw_begin_object(&w);
    jw_member_span(&w, "message", span_of(opinion->message.ptr, opinion->message.len > 1024 ? 1024 : opinion->message.len));
    jw_member_cstr(&w, "type", "invalid_request_error");
    jw_member_cstr(&w, "param", NULL);
    jw_member_cstr(&w, "code", opinion->code[0] != '\0' ? opinion->code : NULL);
    jw_end_object(&w);
    jw_end_object(&w);
    out->refusal_type = span_cstr("application/json");
    out->refusal_body = keep(a, buf_span(&short_body));
    buf_free(&short_body);
}

/* A reply that is no 2xx, whole or not: the body says what the status means. */
static void judge_failed(struct attempt *a, struct attempt_outcome *out, struct span *message)
{
    struct turn *turn = a->errand->turn;
    struct opinion opinion;
    const struct reply_facts facts = {
        .provider = snap_span(turn->root, a->candidate->upstream->provider),
        .status = a->status,
        .body = buf_span(&a->failed),
        .retry_after = a->retry_after,
        .retry_after_ms = a->retry_after_ms,
        .amzn_error_type = a->amzn_error_type,
    };

    signature_judge(&facts, turn->request.arena, &opinion);
    note_opinion(a, &opinion, out);
    *message = opinion.message;
    if (out->verdict == VERDICT_CLIENT)
        keep_refusal(a, a->status, &opinion, out);
}

/* An error inside a 2xx. A refusal among them is told with a status that says so. */
static void judge_in_band(struct attempt *a, struct attempt_outcome *out, struct span *message)
{
    struct turn *turn = a->errand->turn;
    struct opinion opinion;
    const struct reply_facts facts = {
        .provider = snap_span(turn->root, a->candidate->upstream->provider),
        .status = a->status,
        .in_band = true,
        .body = buf_span(&a->relay.failure),
    };

    signature_judge(&facts, turn->request.arena, &opinion);
    note_opinion(a, &opinion, out);
    *message = opinion.message;
    out->last_status = "invalid";
    if (out->verdict == VERDICT_CLIENT) {
        int inner = opinion.inner_status;
        keep_refusal(a, inner >= 400 && inner < 500 ? inner : 400, &opinion, out);
    }
}

static void judge_relayed(struct attempt *a, bool is_whole, struct attempt_outcome *out, struct span *message)
{
    relay_finish(&a->relay, is_whole);
    a->event->reason = a->relay.why;
    switch (a->relay.end) {
    case RELAY_FINISHED:
        out->verdict = signature_finish_reason(span_cstr(a->relay.state.finish_reason));
        if (out->verdict != VERDICT_OK)
            a->event->reason = arena_printf(a->errand->turn->request.arena, "finish_reason:%s",
                                            a->relay.state.finish_reason);
        break;
    case RELAY_CALLER_LEFT:
        out->verdict = VERDICT_CANCELLED;
        break;
    case RELAY_ERROR:
        judge_in_band(a, out, message);
        break;
    default: /* cut, or no answer at all */
        out->verdict = VERDICT_SERVER;
        out->blame = BLAME_UPSTREAM;
        out->last_status = "invalid";
        break;
    }
}

/* How the exchange itself failed, where no reply says more. */
static const struct transport_row {
    enum exchange_end end;
    enum verdict verdict;
    const char *last_status;
    bool is_unreachable;
} transport[] = {
    { EXCHANGE_END_RESET, VERDICT_CONNECT, "reset", false },
    { EXCHANGE_END_REFUSED, VERDICT_CONNECT, "connect", true },
    { EXCHANGE_END_UNRESOLVED, VERDICT_CONNECT, "connect", true },
    { EXCHANGE_END_TLS, VERDICT_CONNECT, "connect", true },
    { EXCHANGE_END_INVALID, VERDICT_SERVER, "invalid", false },
    { EXCHANGE_END_TIMEOUT_CONNECT, VERDICT_TIMEOUT, "timeout", false },
    { EXCHANGE_END_TIMEOUT_FIRST_CONTENT, VERDICT_TIMEOUT, "timeout", false },
    { EXCHANGE_END_TIMEOUT_IDLE, VERDICT_TIMEOUT, "timeout", false },
    { EXCHANGE_END_TIMEOUT_CHAIN, VERDICT_TIMEOUT, "timeout", false },
    { EXCHANGE_END_CALLER_LEFT, VERDICT_CANCELLED, NULL, false },
};

static const struct transport_row *transport_row(enum exchange_end end)
{
    for (size_t i = 0; i < sizeof(transport) / sizeof(transport[0]); i++) {
        if (transport[i].end == end)
            return &transport[i];
    }
    return NULL; /* whole, enough, cut: the reply says it */
}

static void judge(struct attempt *a, enum exchange_end end, struct attempt_outcome *out, struct span *message)
{
    const struct transport_row *row = transport_row(end);
    bool has_failed_reply = a->status != 0 && !a->is_relaying;

    out->status = a->status;
    out->is_proven = true;
    if (has_failed_reply && (row == NULL || row->verdict != VERDICT_CANCELLED)) {
        judge_failed(a, out, message); /* also one that did not end in time: the status is known */
    } else if (row == NULL) {
        judge_relayed(a, end != EXCHANGE_END_CUT, out, message);
    } else {
        out->verdict = row->verdict;
        out->blame = row->verdict == VERDICT_CANCELLED ? BLAME_NOTHING : BLAME_UPSTREAM;
        out->last_status = row->last_status;
        out->is_unreachable = row->is_unreachable;
        out->status = 0; /* whatever its head said, it was no reply */
        a->event->reason = exchange_end_name(end);
    }
    out->is_committed = a->is_relaying && a->relay.is_committed;
}

/* A committed reply that did not finish gets the honest end that is left. */
static void end_committed(struct attempt *a, const struct attempt_outcome *out)
{
    struct request_event *event = a->errand->turn->event;
    struct failure failure = { .kind = FAILURE_UPSTREAM_UNAVAILABLE };

    if (out->verdict == VERDICT_CANCELLED) {
        event->end = EVENT_END_CLIENT_GONE;
        return;
    }
    if (a->relay.end == RELAY_FINISHED) {
        event->end = EVENT_END_DONE;
        return;
    }
    event->end = a->relay.end == RELAY_ERROR ? EVENT_END_ERROR_MID : EVENT_END_CUT;
    if (out->verdict == VERDICT_TIMEOUT)
        failure.kind = FAILURE_UPSTREAM_TIMEOUT;
    else if (out->verdict == VERDICT_RATE)
        failure.kind = FAILURE_UPSTREAM_RATE_LIMITED;
    event->code = failure_code(&failure);
    if (!a->errand->facts->is_stream) {
        a->errand->is_cut_short = true;
        return;
    }
    const struct stream_error error = {
        .message = event->end == EVENT_END_CUT ? "The upstream's reply broke off." : failure_message(&failure),
        .type = failure_type(&failure),
        .code = failure_code(&failure),
    };
    if (relay_fail(&a->relay, &error) != 0)
        event->end = EVENT_END_CLIENT_GONE;
}

/* --- the record --------------------------------------------------------- */

static void note_candidate(struct attempt *a)
{
    const struct snap_root *root = a->errand->turn->root;
    const struct snap_upstream *upstream = a->candidate->upstream;
    struct attempt_event *e = a->event;

    e->upstream = snap_span(root, upstream->id);
    e->account = snap_span(root, upstream->account);
    e->supplier_model = snap_span(root, upstream->supplier_model);
    e->host = snap_span(root, upstream->host);
    e->dialect = snap_span(root, upstream->dialect);
    e->key_fp = a->candidate->key->fingerprint;
}

static void note_exchange(struct attempt *a, const struct exchange_result *r, uint64_t took_us)
{
    struct request_event *event = a->errand->turn->event;
    struct attempt_event *e = a->event;

    e->dns_us = r->dns_us;
    e->connect_us = r->connect_us;
    e->tls_us = r->tls_us;
    e->send_us = r->send_us;
    e->first_byte_us = r->first_byte_us;
    e->first_content_us = r->first_content_us;
    e->last_byte_us = r->last_byte_us;
    e->is_reused = r->is_reused;
    e->replays = r->replays;
    e->bytes_in = r->bytes_in;
    e->bytes_out = r->bytes_out;
    event->upstream_us += took_us > r->receiver_us ? took_us - r->receiver_us : 0;
}

static void note_outcome(struct attempt *a, const struct attempt_outcome *out)
{
    struct request_event *event = a->errand->turn->event;
    const struct verdict_row *row = verdict_row(out->verdict);
    struct attempt_event *e = a->event;

    e->status = a->status;
    e->verdict = row->name;
    e->fault = row->fault;
    e->counts_for_health = row->counts_for_health;
    e->retry_after_s = out->retry_after_s;
    if (a->is_relaying) {
        e->held_events = a->relay.held_events;
        if (a->relay.is_committed)
            event->usage = a->relay.state.usage;
    }
    if (event->fallback_reason == NULL && !out->is_committed && out->verdict != VERDICT_CANCELLED)
        event->fallback_reason = row->name;
}

/* --- the attempt -------------------------------------------------------- */

static void exchange(struct attempt *a, const char *const *headers, struct exchange_result *result)
{
    struct errand *errand = a->errand;
    struct turn *turn = errand->turn;
    const struct snap_upstream *upstream = a->candidate->upstream;
    bool is_plain = !errand->facts->is_stream;
    struct span model = snap_has(upstream->override_model) ? snap_span(turn->root, upstream->override_model)
                                                           : snap_span(turn->root, errand->model->name);
    struct splice body;

    if (errand->dialect->splice_request(errand->facts, model, turn->request.arena, &body) != 0) {
        *result = (struct exchange_result){ .end = EXCHANGE_END_INVALID };
        return;
    }
    const struct exchange_request request = {
        .url = snap_cstr(turn->root, upstream->url),
        .headers = headers,
        .body = &body,
        .clocks = {
            .connect_ms = upstream->connect_timeout_ms,
            .first_content_ms = is_plain && upstream->plain_timeout_ms != 0 ? upstream->plain_timeout_ms
                                                                            : upstream->timeout_ms,
            .idle_ms = errand->model->stream_idle_timeout_ms,
            .chain_us = errand->deadline_us,
        },
        .caller_fd = turn->request.conn->fd,
    };
    const struct exchange_receiver receiver = { .ctx = a, .on_head = on_head, .on_data = on_data };
    exchange_run(turn->worker->client, &request, &receiver, result);
}

void attempt_run(void *ctx, const struct candidate *candidate, unsigned n, struct attempt_outcome *out)
{
    struct errand *errand = ctx;
    struct turn *turn = errand->turn;
    struct attempt a = { .errand = errand, .candidate = candidate };
    struct exchange_result result;
    struct secret secret;
    struct span message = { NULL, 0 };
    size_t key_line_size;
    (void)n;

    *out = (struct attempt_outcome){ .verdict = VERDICT_CONFIG, .is_undecryptable = true };
    if (open_key(&a, &secret) != 0)
        return;
    out->is_undecryptable = false;
    char *key_line = key_header(&a, &secret, &key_line_size);
    secret_wipe(&secret);

    a.sink = (struct relay_sink){ .ctx = &a, .commit = commit, .write = write_out };
    a.event = event_add_attempt(turn->event);
    buf_init(&a.failed, SIGNATURE_BODY_MAX);
    note_candidate(&a);
    scoreboard_enter(turn->worker->process->record, STAGE_WAITING);
    uint64_t start = clock_monotonic_us();
    a.event->start_us = start - turn->start_us;
    exchange(&a, make_headers(&a, key_line), &result);
    explicit_bzero(key_line, key_line_size);

    note_exchange(&a, &result, clock_monotonic_us() - start);
    judge(&a, result.end, out, &message);
    note_outcome(&a, out);
    if (out->verdict != VERDICT_OK && out->verdict != VERDICT_CANCELLED)
        log_failure(&a, out, message);
    if (out->is_committed)
        end_committed(&a, out);
    if (a.is_relaying)
        relay_free(&a.relay);
    buf_free(&a.failed);
}
