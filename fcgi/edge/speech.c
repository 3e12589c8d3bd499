#include "fcgi/edge/speech_internal.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/version.h"
#include "core/crypto/digest.h"
#include "core/route/signature.h"
#include "fcgi/edge/slots.h"

enum {
    FIXED_HEADERS = 3,
    DELTA_BYTES = 48 * 1024, /* of audio in one event */
    EVENT_BYTES = 2 * DELTA_BYTES,
    TRACE_BYTES = 64,
};

/* --- which upstream, and what is ordered of it --- */

static struct adapter_order make_order(const struct errand *errand, const struct snap_upstream *upstream)
{
    const struct snap_root *root = errand->turn->root;
    return (struct adapter_order){
        .adapter = adapter_find(snap_span(root, upstream->provider)),
        .speech = errand->facts->speech,
        .asked_model = snap_span(root, errand->model->name),
        .params = snap_span(root, upstream->adapter_params),
        .endpoint = snap_cstr(root, upstream->url),
    };
}

bool speech_can_serve(void *ctx, const struct snap_upstream *upstream)
{
    struct errand *errand = ctx;
    struct arena *keep = errand->turn->request.arena, *arena = arena_new(), *scratch = arena_new();
    const struct adapter_order order = make_order(errand, upstream);
    struct adapter_fault fault = { .message = NULL };

    bool can = order.adapter != NULL && adapter_call_new(&order, arena, scratch, &fault) != NULL;
    if (!can && fault.message != NULL && errand->unserved_message == NULL) {
        errand->unserved_param = arena_strdup(keep, fault.param);
        errand->unserved_message = arena_strdup(keep, fault.message);
    }
    arena_free(scratch);
    arena_free(arena);
    return can;
}

/* --- to the caller --- */

static int write_events(struct speech_attempt *s, struct span audio)
{
    int r = 0;
    while (r == 0 && audio.len > 0) {
        size_t len = audio.len < DELTA_BYTES ? audio.len : DELTA_BYTES;
        buf_clear(&s->event);
        speech_write_delta_event(&s->event, span_of(audio.ptr, len));
        r = answer_write(s->base.errand->answer, buf_span(&s->event), false);
        audio = span_of(audio.ptr + len, audio.len - len);
    }
    return r;
}

static int write_audio(void *ctx, struct span audio)
{
    struct speech_attempt *s = ctx;
    const struct errand *errand = s->base.errand;
    bool wants_events = errand->facts->speech->wants_events;

    if (!s->is_committed) {
        race_win(&s->base);
        const char *type = wants_events ? errand->dialect->stream_type : adapter_call_type(s->call, audio);
        answer_commit(errand->answer, 200, span_cstr(type), -1);
        s->is_committed = true;
    }
    return wants_events ? write_events(s, audio) : answer_write(errand->answer, audio, false);
}

/* --- from the upstream --- */

static enum exchange_want want_now(const struct speech_attempt *s)
{
    switch (s->step) {
    case ADAPTER_MORE:
        return s->is_committed ? EXCHANGE_CONTENT : EXCHANGE_MORE;
    case ADAPTER_DONE:
        return EXCHANGE_LINGER;
    case ADAPTER_LEFT:
        return EXCHANGE_LEFT;
    default:
        return EXCHANGE_ENOUGH;
    }
}

/* What may be logged as it is: hex digits and hyphens, perhaps behind a prefix, as
 * providers' ids are, and not the key sent back. */
static struct span keep_trace(const struct speech_attempt *s, struct span trace)
{
    char print[SNAPSHOT_FP_BYTES];
    size_t from = span_starts(trace, "req_") ? 4 : 0;

    if (trace.len == 0 || trace.len > TRACE_BYTES)
        return (struct span){ NULL, 0 };
    for (size_t i = from; i < trace.len; i++)
        if (strchr("0123456789abcdefABCDEF-", trace.ptr[i]) == NULL || trace.ptr[i] == '\0')
            return (struct span){ NULL, 0 };
    fingerprint(trace, SNAPSHOT_FP_BYTES - 1, print);
    if (strcmp(print, s->base.candidate->key->fingerprint) == 0)
        return (struct span){ NULL, 0 };
    return attempt_keep(&s->base, trace);
}

static enum exchange_want on_head(void *ctx, const struct exchange_head *head)
{
    struct speech_attempt *s = ctx;

    attempt_keep_head(&s->base, head);
    s->reason = attempt_keep(&s->base, head->reason);
    s->base.trace = keep_trace(s, head->trace);
    s->base.is_relaying = head->status >= 200 && head->status < 300;
    if (!s->base.is_relaying)
        return s->is_committed ? EXCHANGE_ENOUGH : EXCHANGE_MORE;
    const struct adapter_reply reply = { .status = head->status, .content_type = head->content_type };
    s->step = adapter_call_head(s->call, &reply);
    return want_now(s);
}

static enum exchange_want on_data(void *ctx, struct span piece)
{
    struct speech_attempt *s = ctx;

    if (!s->base.is_relaying)
        return attempt_keep_failed(&s->base, piece);
    s->step = adapter_call_feed(s->call, piece);
    return want_now(s);
}

/* --- the exchanges --- */

static const char **make_headers(const struct speech_attempt *s, const struct adapter_exchange *exchange,
                                 const char *key_line)
{
    size_t n = 0, extra = 0;
    while (exchange->headers != NULL && exchange->headers[extra] != NULL)
        extra++;
    const char **headers =
        arena_array_of(s->arena, const char *, FIXED_HEADERS + ATTEMPT_TRACE_HEADERS + extra);
    if (key_line != NULL) { /* else it is not the upstream itself that is asked */
        headers[n++] = key_line;
        n += attempt_add_trace(&s->base, headers + n);
    }
    headers[n++] = "User-Agent: llm-router/" LLM_ROUTER_VERSION;
    for (size_t i = 0; i < extra; i++)
        headers[n++] = exchange->headers[i];
    return headers;
}

/* Clocks of an attempt's exchange. The first content of the attempt is waited for
 * over all of them; after it there is only silence to be bounded. */
static struct exchange_clocks make_clocks(const struct speech_attempt *s)
{
    const struct errand *errand = s->base.errand;
    const struct snap_upstream *upstream = s->base.candidate->upstream;
    uint64_t spent_ms = (clock_monotonic_us() - s->base.start_us) / US_PER_MS;
    uint32_t idle_ms = errand->model->stream_idle_timeout_ms;

    if (s->is_committed)
        return (struct exchange_clocks){ upstream->connect_timeout_ms, idle_ms, idle_ms, UINT64_MAX };
    return (struct exchange_clocks){
        .connect_ms = upstream->connect_timeout_ms,
        .first_content_ms = spent_ms < upstream->timeout_ms ? upstream->timeout_ms - (uint32_t)spent_ms : 1,
        .idle_ms = idle_ms,
        .chain_us = errand->deadline_us,
    };
}

/* Adds a further exchange to the attempt's result so far. */
static void add_result(struct exchange_result *sum, const struct exchange_result *one, uint64_t offset_us)
{
    sum->end = one->end;
    sum->status = one->status;
    sum->detail = one->detail;
    if (sum->first_content_us == 0 && one->first_content_us != 0)
        sum->first_content_us = offset_us + one->first_content_us;
    sum->last_byte_us = offset_us + one->last_byte_us;
    sum->receiver_us += one->receiver_us;
    sum->bytes_in += one->bytes_in;
    sum->bytes_out += one->bytes_out;
    sum->replays += one->replays;
}

/* The attempt's first, or a further one. */
static void begin_exchange(struct speech_attempt *s)
{
    struct attempt *a = &s->base;
    struct turn *turn = a->errand->turn;

    a->beats[0] = slots_beat(turn);
    a->request = (struct exchange_request){
        .url = s->ask.url,
        .headers = make_headers(s, &s->ask, s->ask.key_header != NULL ? a->key_line.text : NULL),
        .body = s->ask.is_get ? NULL : &s->ask.body,
        .trace_header = s->order.adapter->trace_header,
        .clocks = make_clocks(s),
        .beats = a->beats,
        .n_beats = 1,
        .caller_fd = conn_watch_fd(turn->request.conn),
        .has_caller_left = attempt_has_caller_left,
        .caller = a->errand,
    };
    a->receiver = (struct exchange_receiver){ .ctx = s, .on_head = on_head, .on_data = on_data };
    a->status = 0;
    a->is_relaying = false;
    s->exchange_us = clock_monotonic_us();
    a->exchange = exchange_begin(turn->worker->client, &a->request, &a->receiver,
                                 s->n_exchanges++ == 0 ? &a->result : &s->one);
}

static void take_result(struct speech_attempt *s)
{
    struct exchange_result *sum = &s->base.result;

    if (s->n_exchanges > 1)
        add_result(sum, &s->one, s->exchange_us - s->base.start_us);
    if (s->is_committed && sum->end == EXCHANGE_END_TIMEOUT_FIRST_CONTENT)
        sum->end = EXCHANGE_END_TIMEOUT_IDLE;
}

/* Whether the exchange that is over is followed by another. */
static bool has_more(struct speech_attempt *s)
{
    if (s->base.result.end != EXCHANGE_END_WHOLE || !s->base.is_relaying || s->step != ADAPTER_MORE)
        return false;
    s->step = adapter_call_finish(s->call, &s->ask);
    return s->step == ADAPTER_AGAIN;
}

/* --- the end --- */

static void note_usage(const struct speech_attempt *s)
{
    struct request_event *event = s->base.errand->turn->event;

    event->usage = s->call->usage;
    event->is_usage_estimated = s->call->characters < 0 && !s->call->usage.present;
    event->characters =
        s->call->characters < 0 ? s->order.speech->input_characters : (uint64_t)s->call->characters;
}

/* The last event of a stream takes the end of the reply with it. */
static void finish_events(struct speech_attempt *s, const struct stream_error *error)
{
    struct errand *errand = s->base.errand;

    buf_clear(&s->event);
    if (error == NULL)
        speech_write_done_event(&s->event, &s->call->usage);
    else
        errand->dialect->write_error_event(&s->event, error);
    if (answer_write(errand->answer, buf_span(&s->event), true) != 0)
        errand->turn->event->end = EVENT_END_CLIENT_GONE;
}

/* A committed reply gets the honest end that is left: a stream an event that says
 * how it ended, a file that is not whole a broken transfer. */
static void end_committed(struct speech_attempt *s, const struct attempt_outcome *out)
{
    struct errand *errand = s->base.errand;
    struct request_event *event = errand->turn->event;
    struct failure failure = { .kind = FAILURE_UPSTREAM_UNAVAILABLE };
    bool is_stream = errand->facts->speech->wants_events;

    if (out->verdict == VERDICT_CANCELLED) {
        event->end = EVENT_END_CLIENT_GONE;
        return;
    }
    if (out->verdict == VERDICT_OK) {
        event->end = EVENT_END_DONE;
        if (is_stream)
            finish_events(s, NULL);
        return;
    }
    event->end = s->call->failure.len > 0 ? EVENT_END_ERROR_MID : EVENT_END_CUT;
    if (out->verdict == VERDICT_TIMEOUT)
        failure.kind = FAILURE_UPSTREAM_TIMEOUT;
    else if (out->verdict == VERDICT_RATE)
        failure.kind = FAILURE_UPSTREAM_RATE_LIMITED;
    event->code = failure_code(&failure);
    if (!is_stream) {
        errand->is_cut_short = true;
        return;
    }
    const struct stream_error error = {
        .message =
            event->end == EVENT_END_CUT ? "The upstream's reply broke off." : failure_message(&failure),
        .type = failure_type(&failure),
        .code = failure_code(&failure),
    };
    finish_events(s, &error);
}

/* --- the attempt --- */

static struct attempt *begin(struct errand *errand, const struct candidate *candidate)
{
    const struct snap_root *root = errand->turn->root;
    struct speech_attempt *s = arena_new_of(errand->turn->request.arena, struct speech_attempt);
    struct attempt *a = &s->base;
    struct adapter_fault fault;

    a->errand = errand;
    a->candidate = candidate;
    a->url = snap_cstr(root, candidate->upstream->url);
    s->order = make_order(errand, candidate->upstream);
    s->step = ADAPTER_MORE;
    s->arena = arena_new();
    s->scratch = arena_new();
    ids_request_id(s->id);
    s->order.id = s->id;
    s->sink = (struct audio_sink){ .ctx = s, .write = write_audio };
    buf_init(&s->event, EVENT_BYTES);
    buf_init(&a->failed, SIGNATURE_BODY_MAX);
    s->call = adapter_call_new(&s->order, s->arena, s->scratch, &fault);
    if (s->call == NULL)
        return a; /* the plan has none that cannot serve */
    s->call->sink = &s->sink;
    adapter_call_begin(s->call, &s->ask);
    if (attempt_open_key(a, s->ask.key_header, &a->key_line) != 0)
        return a;
    a->event = event_add_attempt(errand->turn->event);
    attempt_note_begin(a);
    attempt_note_candidate(a);
    scoreboard_enter(errand->turn->worker->process->record, STAGE_WAITING);
    begin_exchange(s);
    return a;
}

static bool go_on(struct attempt *a, struct attempt_outcome *out)
{
    struct speech_attempt *s = (struct speech_attempt *)a;
    struct span message = { NULL, 0 };

    take_result(s);
    if (has_more(s)) {
        begin_exchange(s);
        return true;
    }
    *out = (struct attempt_outcome){ .verdict = VERDICT_CONFIG };
    speech_judge(s, a->result.end, out, &message);
    out->is_committed = s->is_committed;
    attempt_note_exchange(a, clock_monotonic_us());
    if (s->is_committed)
        note_usage(s);
    a->is_relaying = false; /* what the record has of a relay, it has not */
    attempt_note_outcome(a, out, message);
    if (out->is_committed)
        end_committed(s, out);
    return false;
}

static void end(struct attempt *a)
{
    struct speech_attempt *s = (struct speech_attempt *)a;

    buf_free(&a->failed);
    buf_free(&s->event);
    arena_free(s->scratch);
    arena_free(s->arena);
}

const struct attempt_kind attempts_of_speech = { .begin = begin, .go_on = go_on, .end = end };
