#include "core/record/event.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/json/writer.h"

enum {
    TEXT_BYTES = 256,     /* of one text; six times that when every byte is escaped */
    OUTCOME_BYTES = 4096, /* kept free for what follows the attempts */
    ATTEMPT_BYTES = 2048, /* of one; usually a quarter of it */
};

const char *event_end_name(enum event_end end)
{
    static const char *const names[] = {
        [EVENT_END_DONE] = "done",
        [EVENT_END_ERROR_BEFORE] = "error_before",
        [EVENT_END_ERROR_MID] = "error_mid",
        [EVENT_END_CUT] = "cut",
        [EVENT_END_CLIENT_GONE] = "client_gone",
        [EVENT_END_REFUSED] = "refused",
        [EVENT_END_THROTTLED] = "throttled",
        [EVENT_END_OVERFLOW] = "overflow",
        [EVENT_END_WORKER_DIED] = "worker_died",
    };
    return names[end];
}

const char *event_hedge_name(enum event_hedge hedge)
{
    static const char *const names[] = {
        [EVENT_HEDGE_NONE] = NULL,
        [EVENT_HEDGE_WON] = "won",
        [EVENT_HEDGE_LOST] = "lost",
        [EVENT_HEDGE_FAILED] = "failed",
        [EVENT_HEDGE_CANCELLED] = "cancelled",
        [EVENT_HEDGE_BUSY] = "busy",
        [EVENT_HEDGE_NO_SLOT] = "no_slot",
    };
    return names[hedge];
}

void event_begin(struct request_event *event)
{
    memset(event, 0, offsetof(struct request_event, attempts));
    memset(&event->n_attempts, 0, sizeof(*event) - offsetof(struct request_event, n_attempts));
    event->time_us = clock_wall_us();
    ids_uuid7(event->time_us, event->id);
    usage_init(&event->usage);
}

struct attempt_event *event_add_attempt(struct request_event *event)
{
    if (event->n_attempts == EVENT_ATTEMPTS_MAX) {
        event->n_attempts--;
        event->n_attempts_dropped++;
    }
    struct attempt_event *attempt = &event->attempts[event->n_attempts++];
    *attempt = (struct attempt_event){ 0 };
    return attempt;
}

static unsigned deciding_place(const struct request_event *event)
{
    return (event->decided_by > 0 ? event->decided_by : event->n_attempts) - 1;
}

const struct attempt_event *event_deciding_attempt(const struct request_event *event)
{
    return &event->attempts[deciding_place(event)];
}

unsigned event_fallback_depth(const struct request_event *event)
{
    unsigned place = deciding_place(event), depth = event->n_attempts_dropped;

    for (unsigned i = 0; i < place; i++)
        depth += event->attempts[i].verdict == NULL || strcmp(event->attempts[i].verdict, "cancelled") != 0;
    return depth;
}

void event_add_skip(struct request_event *event, struct span upstream, const char *reason)
{
    if (event->n_skips == EVENT_SKIPS_MAX)
        event->n_skips_dropped++;
    else
        event->skips[event->n_skips++] = (struct skip_event){ upstream, reason };
}

/* Callers choose some of the texts: none may fill the record. Cut between characters. */
static struct span cut(struct span value)
{
    size_t n = TEXT_BYTES;
    if (value.len <= n)
        return value;
    while (n > TEXT_BYTES - 4 && ((unsigned char)value.ptr[n] & 0xC0) == 0x80)
        n--;
    return span_of(value.ptr, n);
}

static void span(struct json_writer *w, const char *name, struct span value)
{
    if (value.len > 0)
        jw_member_span(w, name, cut(value));
}

static void text(struct json_writer *w, const char *name, const char *value)
{
    span(w, name, span_cstr(value));
}

static void number(struct json_writer *w, const char *name, uint64_t value)
{
    if (value != 0)
        jw_member_uint(w, name, value);
}

static void count(struct json_writer *w, const char *name, int64_t value)
{
    if (value >= 0)
        jw_member_int(w, name, value);
}

static void write_trace(const struct trace_context *trace, struct json_writer *w)
{
    if (trace->trace_id[0] == '\0')
        return;
    jw_member_cstr(w, "trace_id", trace->trace_id);
    jw_member_cstr(w, "span_id", trace->span_id);
    text(w, "parent_span_id", trace->parent_span_id);
    jw_member_bool(w, "sampled", trace->is_sampled);
}

static void write_attempt(const struct request_event *event, unsigned place, unsigned n,
                          struct json_writer *w)
{
    const struct attempt_event *a = &event->attempts[place];
    bool has_hedge = event->n_attempts > 1 && event->attempts[1].is_hedged;

    jw_begin_object(w);
    jw_member_uint(w, "n", n);
    if (a->is_hedged)
        jw_member_bool(w, "hedged", true);
    if (has_hedge && place == deciding_place(event))
        jw_member_bool(w, "decided", true);
    span(w, "upstream", a->upstream);
    jw_member_uint(w, "upstream_index", a->upstream_index);
    span(w, "provider", a->provider);
    span(w, "account", a->account);
    span(w, "model", a->model);
    span(w, "supplier_model", a->supplier_model);
    text(w, "key_fp", a->key_fp);
    span(w, "dialect", a->dialect);
    span(w, "host", a->host);
    span(w, "url", a->url);
    jw_member_uint(w, "start_us", a->start_us);
    if (has_hedge) /* else it ended when the next one began */
        jw_member_uint(w, "took_us", a->took_us);
    number(w, "dns_us", a->dns_us);
    number(w, "connect_us", a->connect_us);
    number(w, "tls_us", a->tls_us);
    number(w, "send_us", a->send_us);
    number(w, "first_byte_us", a->first_byte_us);
    number(w, "first_content_us", a->first_content_us);
    number(w, "last_byte_us", a->last_byte_us);
    jw_member_bool(w, "reused", a->is_reused);
    if (a->is_resumed)
        jw_member_bool(w, "resumed", true);
    if (a->replays > 0)
        jw_member_bool(w, "replayed", true);
    number(w, "status", (uint64_t)a->status);
    text(w, "provider_code", a->provider_code);
    text(w, "verdict", a->verdict);
    text(w, "reason", a->reason);
    text(w, "fault", a->fault);
    jw_member_bool(w, "counts_for_health", a->counts_for_health);
    number(w, "retry_after_s", a->retry_after_s);
    jw_member_uint(w, "bytes_in", a->bytes_in);
    jw_member_uint(w, "bytes_out", a->bytes_out);
    number(w, "held_events", a->held_events);
    jw_end_object(w);
}

/* Writes as many attempts as leave room for the outcome; the number left out.
 * The last attempt decides, so it has precedence over those before it. */
static unsigned write_attempts(const struct request_event *event, struct json_writer *w)
{
    unsigned dropped = event->n_attempts_dropped, before_last = event->n_attempts - (event->n_attempts > 0);
    char memory[ATTEMPT_BYTES];
    struct buf *out = w->out, last;
    struct json_writer last_writer;

    buf_init_in(&last, memory, sizeof(memory), EVENT_LIMIT_BYTES);
    jw_init(&last_writer, &last);
    if (event->n_attempts > 0)
        write_attempt(event, before_last, event->n_attempts + dropped, &last_writer);
    jw_key(w, "attempts");
    jw_begin_array(w);
    for (unsigned i = 0; i < before_last; i++) {
        size_t before = out->len;
        bool comma = w->need_comma;
        write_attempt(event, i, i + 1, w);
        if (out->overflowed || out->len + last.len + OUTCOME_BYTES > EVENT_LIMIT_BYTES) {
            out->len = before;
            out->overflowed = false;
            w->need_comma = comma;
            dropped++;
        }
    }
    if (event->n_attempts > 0)
        jw_raw(w, buf_span(&last));
    jw_end_array(w);
    buf_free(&last);
    return dropped;
}

static void write_decision(const struct request_event *event, struct json_writer *w)
{
    jw_key(w, "decision");
    jw_begin_object(w);
    jw_key(w, "candidates");
    jw_begin_array(w);
    for (unsigned i = 0; i < event->n_skips; i++) {
        jw_begin_object(w);
        span(w, "upstream", event->skips[i].upstream);
        jw_member_cstr(w, "state", "skipped");
        text(w, "reason", event->skips[i].reason);
        jw_end_object(w);
    }
    jw_end_array(w);
    number(w, "candidates_dropped", event->n_skips_dropped);
    jw_end_object(w);
}

static void write_pool(const struct pool_event *pool, struct json_writer *w)
{
    bool is_settled = strcmp(pool->result, "settled") == 0;

    jw_begin_object(w);
    jw_member_cstr(w, "meter", "pool");
    jw_member_uint(w, "held", pool->id.len > 0);
    jw_member_uint(w, "settled", is_settled);
    text(w, "result", pool->result);
    text(w, "where", pool->where);
    span(w, "pool", pool->id);
    number(w, "waited_us", pool->waited_us);
    jw_end_object(w);
}

static void write_admissions(const struct request_event *event, struct json_writer *w)
{
    jw_key(w, "admission");
    jw_begin_array(w);
    for (unsigned i = 0; i < event->n_admissions; i++) {
        const struct admission_event *a = &event->admissions[i];
        jw_begin_object(w);
        text(w, "meter", a->meter);
        jw_member_uint(w, "held", a->held);
        jw_member_uint(w, "settled", a->settled);
        text(w, "result", a->result);
        text(w, "where", a->where);
        jw_end_object(w);
    }
    if (event->pool.result != NULL)
        write_pool(&event->pool, w);
    jw_end_array(w);
}

static void write_usage(const struct request_event *event, struct json_writer *w)
{
    const struct usage *usage = &event->usage;

    jw_key(w, "usage");
    jw_begin_object(w);
    count(w, "input", usage->input);
    count(w, "output", usage->output);
    count(w, "cached_read", usage->cached_read);
    count(w, "cached_write", usage->cached_write);
    count(w, "reasoning", usage->reasoning);
    count(w, "audio_in", usage->audio_in);
    count(w, "audio_out", usage->audio_out);
    number(w, "characters", event->characters);
    count(w, "audio_ms", usage->audio_ms);
    jw_member_cstr(w, "source", event->is_usage_estimated ? "estimated" : "upstream");
    jw_end_object(w);
}

static void write_outcome(const struct request_event *event, struct json_writer *w)
{
    uint64_t others_us = event->upstream_us + event->client_wait_us + event->pool.waited_us;

    jw_member_cstr(w, "end", event_end_name(event->end));
    number(w, "status", (uint64_t)event->status);
    text(w, "code", event->code);
    jw_member_bool(w, "committed", event->is_committed);
    if (event->n_attempts > 0)
        jw_member_uint(w, "fallback_depth", event_fallback_depth(event));
    text(w, "fallback_reason", event->fallback_reason);
    text(w, "hedge", event_hedge_name(event->hedge));
    text(w, "response_model", event->response_model);
    text(w, "finish_reason", event->finish_reason);
    number(w, "ttft_us", event->ttft_us);
    jw_member_uint(w, "total_us", event->total_us);
    number(w, "upstream_us", event->upstream_us);
    number(w, "client_wait_us", event->client_wait_us);
    if (event->end != EVENT_END_WORKER_DIED) /* then nobody knows what the others took */
        jw_member_uint(w, "overhead_us", event->total_us > others_us ? event->total_us - others_us : 0);
}

void event_write(const struct request_event *event, struct buf *out)
{
    struct json_writer w;

    jw_init(&w, out);
    jw_begin_object(&w);
    jw_member_int(&w, "v", 1);
    text(&w, "id", event->id);
    jw_member_uint(&w, "time", event->time_us);
    text(&w, "instance", event->instance);
    jw_member_uint(&w, "worker", event->worker);
    number(&w, "generation", event->generation);
    text(&w, "request_id", event->request_id);
    write_trace(&event->trace, &w);

    text(&w, "key_id", event->key_id);
    text(&w, "remote_user", event->remote_user);
    span(&w, "owner", event->owner);

    text(&w, "mount", event->mount);
    text(&w, "dialect", event->dialect);
    text(&w, "endpoint", event->endpoint);
    if (event->has_stream)
        jw_member_bool(&w, "stream", event->is_stream);
    span(&w, "model", event->model);
    span(&w, "model_routed", event->model_routed);
    number(&w, "body_bytes", event->body_bytes);
    number(&w, "text_utf16", event->text_utf16);
    text(&w, "client", event->client);

    if (event->n_skips > 0)
        write_decision(event, &w);
    unsigned dropped = write_attempts(event, &w);
    number(&w, "attempts_dropped", dropped);
    if (event->n_admissions > 0 || event->pool.result != NULL)
        write_admissions(event, &w);
    write_outcome(event, &w);
    if (event->usage.present || event->characters > 0)
        write_usage(event, &w);
    jw_end_object(&w);
}
