#include "fcgi/edge/attempt_internal.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/version.h"
#include "core/route/signature.h"
#include "core/signal/memo.h"
#include "core/log/log.h"
#include "fcgi/edge/slots.h"

enum { FIXED_HEADERS = 5 };

/* --- the key and the headers --- */

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

    int r =
        envelope_decrypt(&shared->keys, snap_span(root, key->ciphertext), snap_span(root, key->aad), out, &e);
    if (r == 0 && !is_printable(out)) {
        secret_wipe(out);
        r = error_set(&e, ERR_FORMAT, "the decrypted key holds characters that no header may hold");
    }
    if (r == 0)
        return 0;
    telemetry_count_undecryptable(&a->errand->turn->worker->process->mapping->telemetry,
                                  a->candidate->upstream);
    struct json_writer *w = log_begin(LOG_ERROR, "decrypt_failed");
    jw_member_cstr(w, "request_id", a->errand->turn->request.id);
    jw_member_span(w, "model", snap_span(root, a->errand->model->name));
    jw_member_span(w, "upstream", snap_span(root, a->candidate->upstream->id));
    jw_member_span(w, "key", snap_span(root, key->id));
    jw_member_cstr(w, "message", e.text);
    log_end();
    return r;
}

int attempt_open_key(const struct attempt *a, const char *template, struct key_line *out)
{
    const char *place = strstr(template, "{KEY}");
    size_t before = place == NULL ? strlen(template) : (size_t)(place - template);
    struct secret secret;

    int r = open_key(a, &secret);
    if (r != 0)
        return r;
    const struct span pieces[] = {
        span_of(template, before),
        span_of(secret.bytes, secret.len),
        span_cstr(place == NULL ? NULL : place + 5),
    };
    out->text = arena_join(a->errand->turn->request.arena, pieces, 3);
    out->size = strlen(out->text) + 1;
    secret_wipe(&secret);
    return 0;
}

void attempt_wipe_key(struct key_line *line)
{
    explicit_bzero(line->text, line->size);
}

static const char *header_line(const struct attempt *a, const char *name, const char *value)
{
    const struct span pieces[] = { span_cstr(name), span_cstr(": "), span_cstr(value) };
    return arena_join(a->errand->turn->request.arena, pieces, 3);
}

/* A caller's baggage goes nowhere. */
size_t attempt_add_trace(const struct attempt *a, const char **headers)
{
    const struct turn *turn = a->errand->turn;
    const struct request_event *event = turn->event;
    struct span state = span_cstr(conn_param(turn->request.conn, "HTTP_TRACESTATE"));
    char span_id[SPAN_ID_TEXT_BYTES], parent[TRACEPARENT_TEXT_BYTES];
    size_t n = 0;

    if (!a->candidate->upstream->propagates_trace || !turn->worker->shared->settings->tracing.is_tracecontext)
        return 0;
    unsigned place = (unsigned)(a->event - event->attempts) + 1 + event->n_attempts_dropped;
    trace_attempt_span_id(event->trace.span_id, place, span_id);
    trace_write_parent(&event->trace, span_id, parent);
    headers[n++] = header_line(a, "traceparent", parent);
    if (event->trace.parent_span_id[0] != '\0' && trace_is_state(state))
        headers[n++] = arena_printf(turn->request.arena, "tracestate: %.*s", (int)state.len, state.ptr);
    return n;
}

static const char **make_headers(const struct attempt *a, const char *key_line)
{
    struct turn *turn = a->errand->turn;
    const struct request_facts *facts = a->errand->facts;
    const struct snap_vec extra = a->candidate->upstream->headers;
    const char **headers = arena_array_of(turn->request.arena, const char *,
                                          FIXED_HEADERS + ATTEMPT_TRACE_HEADERS + extra.count);
    size_t n = 0;

    headers[n++] = key_line;
    headers[n++] = header_line(a, "Content-Type", facts->content_type);
    headers[n++] = facts->is_stream    ? "Accept: text/event-stream"
                   : facts->wants_text ? "Accept: */*"
                                       : "Accept: application/json";
    headers[n++] = "User-Agent: llm-router/" LLM_ROUTER_VERSION;
    n += attempt_add_trace(a, headers + n);
    for (unsigned i = 0; i < extra.count; i++) {
        const struct snap_header_line *h = SNAP_ITEM(turn->root, extra, struct snap_header_line, i);
        headers[n++] = header_line(a, snap_cstr(turn->root, h->name), snap_cstr(turn->root, h->value));
    }
    return headers;
}

/* --- to the caller --- */

static int commit(void *ctx, struct span content_type, int64_t whole_bytes)
{
    struct attempt *a = ctx;
    if (a->learns != 0) {
        memo_note(&a->errand->turn->worker->process->mapping->memo, a->learns);
        attempt_note_lack_of_usage(a);
    }
    race_win(a);
    answer_commit(a->errand->answer, a->status, content_type, whole_bytes);
    return 0;
}

/* The attempt is over for the caller, though its exchange may go on for a moment. */
static void record_finished(struct attempt *a)
{
    struct attempt_outcome outcome = { .status = a->status, .is_committed = true };

    attempt_note_exchange(a, clock_monotonic_us());
    attempt_judge_finished(a, &outcome);
    attempt_note_outcome(a, &outcome, (struct span){ NULL, 0 });
    a->errand->turn->event->end = EVENT_END_DONE;
    a->is_recorded = true;
}

static int write_out(void *ctx, struct span bytes, bool is_last)
{
    struct attempt *a = ctx;
    if (is_last && !a->is_recorded)
        record_finished(a); /* the event is appended before these bytes leave */
    return answer_write(a->errand->answer, bytes, is_last);
}

static uint64_t heartbeat_due_us(void *ctx)
{
    const struct attempt *a = ctx;
    if (a->is_relaying && !relay_is_between_events(&a->relay))
        return UINT64_MAX;
    return answer_heartbeat_due_us(a->errand->answer);
}

static int send_heartbeat(void *ctx)
{
    const struct attempt *a = ctx;
    return answer_heartbeat(a->errand->answer);
}

/* --- from the upstream --- */

struct span attempt_keep(const struct attempt *a, struct span text)
{
    return span_of(arena_span(a->errand->turn->request.arena, text), text.len);
}

void attempt_keep_head(struct attempt *a, const struct exchange_head *head)
{
    a->status = head->status;
    a->content_type = attempt_keep(a, head->content_type);
    a->retry_after = attempt_keep(a, head->retry_after);
    a->retry_after_ms = attempt_keep(a, head->retry_after_ms);
    a->amzn_error_type = attempt_keep(a, head->amzn_error_type);
}

enum exchange_want attempt_keep_failed(struct attempt *a, struct span piece)
{
    size_t room = SIGNATURE_BODY_MAX - a->failed.len;
    buf_append(&a->failed, piece.ptr, piece.len < room ? piece.len : room);
    a->is_failed_cut = piece.len > room;
    return a->is_failed_cut ? EXCHANGE_ENOUGH : EXCHANGE_MORE;
}

static enum exchange_want on_head(void *ctx, const struct exchange_head *head)
{
    struct attempt *a = ctx;
    const struct errand *errand = a->errand;

    attempt_keep_head(a, head);
    a->is_relaying = head->status >= 200 && head->status < 300;
    if (a->is_relaying) {
        relay_init(&a->relay, errand->dialect, errand->facts, a->asks_usage, head->content_type, &a->sink);
    }
    return EXCHANGE_MORE;
}

static enum exchange_want on_data(void *ctx, struct span piece)
{
    struct attempt *a = ctx;
    if (a->is_relaying)
        return relay_feed(&a->relay, piece);
    return attempt_keep_failed(a, piece);
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
    if (!a->relay.is_stream) {
        a->errand->is_cut_short = true;
        return;
    }
    const struct stream_error error = {
        .message =
            event->end == EVENT_END_CUT ? "The upstream's reply broke off." : failure_message(&failure),
        .type = failure_type(&failure),
        .code = failure_code(&failure),
    };
    if (relay_fail(&a->relay, &error) != 0)
        event->end = EVENT_END_CLIENT_GONE;
}

/* --- the attempt --- */

/* While bytes go out, a write says that nobody takes them. Only the first look is needed all
 * the same: a connection that was never seen is not missed. */
bool attempt_has_caller_left(void *ctx)
{
    const struct errand *errand = ctx;
    const struct turn *turn = errand->turn;

    if (turn->reply.is_started && turn->request.conn->caller.was_seen &&
        clock_monotonic_us() - errand->answer->quiet_since_us < EXCHANGE_LOOK_MS * US_PER_MS)
        return false;
    return conn_has_caller_left(turn->request.conn);
}

/* The first, or one that takes its place in the record. */
static void begin_exchange(struct attempt *a)
{
    struct errand *errand = a->errand;
    struct turn *turn = errand->turn;
    const struct snap_upstream *upstream = a->candidate->upstream;
    bool is_plain = !errand->facts->is_stream;
    struct span model = snap_has(upstream->override_model) ? snap_span(turn->root, upstream->override_model)
                                                           : snap_span(turn->root, errand->model->name);

    a->is_relaying = a->is_failed_cut = a->refuses_usage = false;
    a->status = 0;
    a->event->reason = a->event->provider_code = NULL;
    attempt_note_begin(a);
    if (errand->dialect->splice_request(errand->facts, model, a->asks_usage, turn->request.arena, &a->body) !=
        0) {
        a->result = (struct exchange_result){ .end = EXCHANGE_END_INVALID };
        return;
    }
    a->beats[0] = (struct exchange_beat){ .ctx = a, .due_us = heartbeat_due_us, .run = send_heartbeat };
    a->beats[1] = slots_beat(turn);
    a->request = (struct exchange_request){
        .url = a->url,
        .headers = a->headers,
        .body = &a->body,
        .clocks = {
            .connect_ms = upstream->connect_timeout_ms,
            .first_content_ms = is_plain && upstream->plain_timeout_ms != 0 ? upstream->plain_timeout_ms
                                                                            : upstream->timeout_ms,
            .idle_ms = errand->model->stream_idle_timeout_ms,
            .chain_us = errand->deadline_us,
        },
        .beats = a->beats,
        .n_beats = ATTEMPT_BEATS,
        .caller_fd = conn_watch_fd(turn->request.conn),
        .has_caller_left = attempt_has_caller_left,
        .caller = errand,
    };
    a->receiver = (struct exchange_receiver){ .ctx = a, .on_head = on_head, .on_data = on_data };
    a->exchange = exchange_begin(turn->worker->client, &a->request, &a->receiver, &a->result);
}

static void free_reply(struct attempt *a)
{
    if (a->is_relaying)
        relay_free(&a->relay);
    buf_free(&a->failed);
}

/* That this upstream refuses `stream_options` for this model, as of this tree. */
static uint64_t refusal_of_usage(const struct attempt *a)
{
    const struct snap_root *root = a->errand->turn->root;
    const struct span texts[] = {
        span_cstr("refuses stream_options"),
        span_cstr(root->tree_version),
        snap_span(root, a->errand->model->name),
        snap_span(root, a->candidate->upstream->id),
    };
    return memo_fact(texts, sizeof(texts) / sizeof(texts[0]));
}

/* We ask for the usage of a stream whether or not the caller does. An upstream
 * that does not know the member is asked again without it, and if it answers
 * then, is no longer asked with it: the answer is the proof. A caller that
 * provokes such a refusal must not make all streams go uncounted. */
static void choose_usage(struct attempt *a)
{
    const struct memo *memo = &a->errand->turn->worker->process->mapping->memo;
    bool adds_usage = a->errand->facts->is_stream && !a->errand->facts->wants_usage;

    a->lacks_usage = adds_usage && memo_has(memo, refusal_of_usage(a));
    a->asks_usage = adds_usage && !a->lacks_usage;
}

static void begin_without_usage(struct attempt *a)
{
    free_reply(a);
    buf_init(&a->failed, SIGNATURE_BODY_MAX);
    a->lacks_usage = true;
    a->asks_usage = false;
    a->learns = refusal_of_usage(a);
    begin_exchange(a);
}

static struct attempt *begin(struct errand *errand, const struct candidate *candidate)
{
    struct turn *turn = errand->turn;
    struct arena *arena = turn->request.arena;
    const struct snap_upstream *upstream = candidate->upstream;
    struct attempt *a = arena_new_of(arena, struct attempt);
    const struct span url[] = { snap_span(turn->root, upstream->url), span_cstr("/"),
                                span_cstr(errand->dialect->endpoint) };

    a->errand = errand;
    a->candidate = candidate;
    buf_init(&a->failed, SIGNATURE_BODY_MAX);
    const char *template = header_line(a, snap_cstr(turn->root, upstream->header_name),
                                       snap_cstr(turn->root, upstream->header_template));
    if (attempt_open_key(a, template, &a->key_line) != 0)
        return a;
    a->url = arena_join(arena, url, 3);
    a->sink = (struct relay_sink){ .ctx = a, .commit = commit, .write = write_out };
    a->event = event_add_attempt(turn->event);
    attempt_note_candidate(a);
    if (!turn->reply.is_started)
        scoreboard_enter(turn->worker->process->record, STAGE_WAITING);
    a->headers = make_headers(a, a->key_line.text);
    choose_usage(a);
    begin_exchange(a);
    return a;
}

static bool go_on(struct attempt *a, struct attempt_outcome *out)
{
    struct span message = { NULL, 0 };
    uint64_t now_us = clock_monotonic_us();

    *out = (struct attempt_outcome){ .verdict = VERDICT_CONFIG };
    attempt_judge(a, a->result.end, out, &message);
    if (!a->is_recorded)
        attempt_note_exchange(a, now_us);
    if (a->asks_usage && a->refuses_usage && !out->is_committed) {
        begin_without_usage(a);
        return true;
    }
    if (!a->is_recorded)
        attempt_note_outcome(a, out, message);
    a->is_recorded = true;
    if (out->is_committed)
        end_committed(a, out);
    return false;
}

const struct attempt_kind attempts_of_dialect = { .begin = begin, .go_on = go_on, .end = free_reply };
