/* How an attempt ended: the upstream's word for it, else the transport's. */
#include "fcgi/edge/attempt_internal.h"

#include <string.h>

#include "core/json/writer.h"
#include "core/log/log.h"
#include "core/route/signature.h"

/* A provider that puts the key where its code should stand must not put it into
 * the record. */
const char *attempt_redact(const struct attempt *a, struct span text, size_t limit)
{
    char memory[LOG_TEXT_BYTES];
    struct buf clean;
    buf_init_in(&clean, memory, sizeof(memory), limit);
    log_redact(&clean, text, limit);
    const char *copy = arena_span(a->errand->turn->request.arena, buf_span(&clean));
    buf_free(&clean);
    return copy;
}

static void note_opinion(struct attempt *a, const struct opinion *opinion, struct attempt_outcome *out)
{
    out->verdict = opinion->verdict;
    out->blame = opinion->blame;
    out->is_proven = opinion->is_proven;
    out->retry_after_s = opinion->retry_after_s;
    a->refuses_usage = opinion->refuses_stream_options;
    a->event->reason = opinion->signature;
    a->event->provider_code = attempt_redact(a, span_cstr(opinion->code), LOG_TEXT_BYTES);
}

/* A refusal is passed on as the upstream wrote it; one that was too long to be
 * read whole, in the dialect's shape with the upstream's sentence and token. */
static void keep_refusal(struct attempt *a, int status, const struct opinion *opinion,
                         struct attempt_outcome *out)
{
    struct span body = a->is_relaying ? buf_span(&a->relay.failure) : buf_span(&a->failed);
    bool is_cut = a->is_relaying ? a->relay.failure.overflowed : a->is_failed_cut;
    struct json_writer w;
    struct buf short_body;

    out->refusal_status = status;
    out->refusal_type = a->is_relaying ? span_cstr("application/json") : a->content_type;
    if (!is_cut) {
        out->refusal_body = attempt_keep(a, body);
        return;
    }
    buf_init(&short_body, 2 * SIGNATURE_BODY_MAX);
    jw_init(&w, &short_body);
    jw_begin_object(&w);
    jw_key(&w, "error");
    jw_begin_object(&w);
    jw_member_span(&w, "message",
                   span_of(opinion->message.ptr, opinion->message.len > 1024 ? 1024 : opinion->message.len));
    jw_member_cstr(&w, "type", "invalid_request_error");
    jw_member_cstr(&w, "param", NULL);
    jw_member_cstr(&w, "code", opinion->code[0] != '\0' ? opinion->code : NULL);
    jw_end_object(&w);
    jw_end_object(&w);
    out->refusal_type = span_cstr("application/json");
    out->refusal_body = attempt_keep(a, buf_span(&short_body));
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
        .retry_after = a->retry_after,
        .retry_after_ms = a->retry_after_ms,
        .amzn_error_type = a->amzn_error_type,
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

void attempt_judge_finished(struct attempt *a, struct attempt_outcome *out)
{
    const char *reason = a->relay.state.finish_reason;

    a->event->reason = a->relay.why;
    out->verdict = signature_finish_reason(span_cstr(reason));
    if (out->verdict != VERDICT_OK)
        a->event->reason = arena_printf(a->errand->turn->request.arena, "finish_reason:%s", reason);
}

static void judge_relayed(struct attempt *a, bool is_whole, struct attempt_outcome *out, struct span *message)
{
    relay_finish(&a->relay, is_whole);
    a->event->reason = a->relay.why;
    switch (a->relay.end) {
    case RELAY_FINISHED:
        attempt_judge_finished(a, out);
        break;
    case RELAY_CALLER_LEFT:
        out->verdict = VERDICT_CANCELLED;
        break;
    case RELAY_ERROR:
        judge_in_band(a, out, message);
        break;
    case RELAY_UNUSABLE:
        if (a->relay.failure.len > 0) { /* a page or another document: it may say more */
            judge_in_band(a, out, message);
            break;
        }
        __attribute__((fallthrough));
    default: /* cut, or nothing at all */
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

bool attempt_judge_transport(struct attempt *a, enum exchange_end end, struct attempt_outcome *out)
{
    const struct transport_row *row = transport_row(end);
    bool has_failed_reply = a->status != 0 && !a->is_relaying;

    out->status = a->status;
    out->is_proven = true;
    if (row == NULL || (has_failed_reply && row->verdict != VERDICT_CANCELLED))
        return false; /* also one that did not end in time: the status is known */
    out->verdict = row->verdict;
    out->blame = row->verdict == VERDICT_CANCELLED ? BLAME_NOTHING : BLAME_UPSTREAM;
    out->last_status = row->last_status;
    out->is_unreachable = row->is_unreachable;
    out->status = 0; /* whatever its head said, it was no reply */
    a->event->reason = exchange_end_name(end);
    return true;
}

void attempt_judge(struct attempt *a, enum exchange_end end, struct attempt_outcome *out,
                   struct span *message)
{
    if (!attempt_judge_transport(a, end, out)) {
        if (a->status != 0 && !a->is_relaying)
            judge_failed(a, out, message);
        else
            judge_relayed(a, end != EXCHANGE_END_CUT, out, message);
    }
    out->is_committed = a->is_relaying && a->relay.is_committed;
}
