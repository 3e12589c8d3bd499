/* What an attempt leaves in the request's event and in the log. */
#include "fcgi/edge/attempt_internal.h"

#include "core/base/clock.h"
#include "core/config/provider.h"
#include "core/log/log.h"

void attempt_note_in_hand(const struct attempt *a)
{
    const struct turn *turn = a->errand->turn;
    size_t place = (size_t)((const char *)a->candidate->upstream - (const char *)turn->root);

    atomic_store_explicit(&turn->worker->process->record->request.upstream, (uint32_t)place,
                          memory_order_relaxed);
}

void attempt_note_candidate(struct attempt *a)
{
    const struct snap_root *root = a->errand->turn->root;
    const struct snap_upstream *upstream = a->candidate->upstream;
    struct attempt_event *e = a->event;

    e->upstream = snap_span(root, upstream->id);
    e->upstream_index = a->candidate->upstream_index;
    e->provider = provider_in_telemetry(root, upstream);
    e->url = span_of(a->url, strcspn(a->url, "?")); /* an endpoint of speech may have a query */
    e->account = snap_span(root, upstream->account);
    e->model = snap_span(root, upstream->override_model);
    e->supplier_model = snap_span(root, upstream->supplier_model);
    e->host = snap_span(root, upstream->host);
    e->dialect = span_cstr(a->errand->dialect->name);
    e->key_fp = a->candidate->key->fingerprint;
    e->series = (struct attempt_series){
        .key = a->candidate->key->series,
        .provider = upstream->series,
        .route = upstream->route_series[a->errand->way],
    };
    attempt_note_in_hand(a);
}

void attempt_note_begin(struct attempt *a)
{
    struct errand *errand = a->errand;
    const struct turn *turn = errand->turn;

    a->start_us = clock_monotonic_us();
    a->event->start_us = a->start_us - turn->start_us;
    if (race_is_alone(a))
        errand->upstream_us = a->start_us;
}

/* Of two that run side by side, upstreams took the time from the first's begin to the last's end. */
static void note_upstream_time(struct attempt *a, uint64_t now_us)
{
    struct errand *errand = a->errand;
    uint64_t took_us = now_us > errand->upstream_us ? now_us - errand->upstream_us : 0;
    uint64_t receiver_us = a->result.receiver_us;

    errand->turn->event->upstream_us += took_us > receiver_us ? took_us - receiver_us : 0;
    errand->upstream_us = now_us;
}

void attempt_note_exchange(struct attempt *a, uint64_t now_us)
{
    const struct exchange_result *r = &a->result;
    struct attempt_event *e = a->event;

    a->detail = r->detail;
    e->dns_us = r->dns_us;
    e->connect_us = r->connect_us;
    e->tls_us = r->tls_us;
    e->send_us = r->send_us;
    e->first_byte_us = r->first_byte_us;
    e->first_content_us = r->first_content_us;
    e->last_byte_us = r->last_byte_us;
    e->is_reused = r->is_reused;
    e->is_resumed = r->is_resumed;
    e->replays = r->replays;
    e->bytes_in = r->bytes_in;
    e->bytes_out = r->bytes_out;
    e->took_us += now_us - a->start_us;
    note_upstream_time(a, now_us);
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
    if (a->trace.len > 0)
        jw_member_span(w, "upstream_trace", a->trace);
    if (a->detail != NULL)
        log_field_text(w, "detail", span_cstr(a->detail));
    if (message.len > 0)
        log_field_text(w, "upstream_message", message);
    log_end();
}

void attempt_note_lack_of_usage(const struct attempt *a)
{
    const struct turn *turn = a->errand->turn;
    struct json_writer *w = log_begin(LOG_WARN, "stream_options_refused");

    jw_member_cstr(w, "request_id", turn->request.id);
    jw_member_span(w, "model", snap_span(turn->root, a->errand->model->name));
    jw_member_span(w, "upstream", snap_span(turn->root, a->candidate->upstream->id));
    jw_member_cstr(w, "message", "usage of streams is not asked for there until the tree changes");
    log_end();
}

/* What providers say in their several languages, and what dashboards can count. */
static const char *known_finish_reason(struct span reason)
{
    static const char *const known[] = { "stop", "length", "tool_calls", "function_call", "content_filter" };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (span_is(reason, known[i]))
            return known[i];
    return reason.len > 0 ? "_OTHER" : NULL;
}

/* Of the reply that the caller got, or the part of it. What a stream had cost when it
 * broke off is estimated: who breaks it off must not have it for nothing. */
static void note_reply(const struct attempt *a)
{
    const struct errand *errand = a->errand;
    const struct stream_state *state = &a->relay.state;
    struct request_event *event = errand->turn->event;

    event->response_model = attempt_redact(a, span_cstr(state->model), REPLY_MODEL_BYTES - 1);
    event->finish_reason = known_finish_reason(span_cstr(state->finish_reason));
    event->usage = state->usage;
    if (!a->relay.is_stream || a->relay.end == RELAY_FINISHED)
        return;
    bool needs_input = event->usage.input < 0 && errand->dialect->estimate_request != NULL;
    uint64_t input_quarters = needs_input ? errand->dialect->estimate_request(errand->facts) : 0;
    event->is_usage_estimated = usage_fill(&event->usage, input_quarters, state->said_quarters);
}

void attempt_note_outcome(struct attempt *a, const struct attempt_outcome *out, struct span message)
{
    struct request_event *event = a->errand->turn->event;
    const struct verdict_row *row = verdict_row(out->verdict);
    struct attempt_event *e = a->event;

    e->status = a->status;
    e->failure = out->last_status;
    e->verdict = row->name;
    e->fault = row->fault;
    e->counts_for_health = row->counts_for_health;
    e->retry_after_s = out->retry_after_s;
    if (e->reason == NULL && a->lacks_usage)
        e->reason = "without_stream_options";
    if (a->is_relaying) {
        e->held_events = a->relay.held_events;
        if (a->relay.is_committed)
            note_reply(a);
    }
    if (event->fallback_reason == NULL && !out->is_committed && out->verdict != VERDICT_CANCELLED &&
        !(a->is_beside && !race_is_alone(a))) /* the other has not failed yet */
        event->fallback_reason = out->last_status != NULL
                                     ? out->last_status
                                     : arena_printf(a->errand->turn->request.arena, "%d", out->status);
    if (out->verdict != VERDICT_OK && out->verdict != VERDICT_CANCELLED)
        log_failure(a, out, message);
}
