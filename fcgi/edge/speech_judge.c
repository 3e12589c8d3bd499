/* How an attempt at speech ended: the adapter's word for it comes first, for it
 * knows the provider's; then what any reply of that status means; then the
 * transport's. */
#include "fcgi/edge/speech_internal.h"

#include "core/json/scan.h"
#include "core/log/log.h"
#include "core/route/signature.h"

enum { MESSAGE_BYTES = 512 }; /* of a provider's sentence, for a caller */

static const struct {
    enum verdict verdict;
    enum blame blame;
} classes[] = {
    [ADAPTER_AUTH] = { VERDICT_AUTH, BLAME_KEY },
    [ADAPTER_QUOTA] = { VERDICT_QUOTA, BLAME_KEY },
    [ADAPTER_RATE] = { VERDICT_RATE, BLAME_KEY },
    [ADAPTER_SERVER] = { VERDICT_SERVER, BLAME_UPSTREAM },
    [ADAPTER_CONFIG] = { VERDICT_CONFIG, BLAME_UPSTREAM },
    [ADAPTER_CLIENT] = { VERDICT_CLIENT, BLAME_NOTHING },
};

/* The caller's mistake, in the form of its mount. */
static void write_refusal(struct speech_attempt *s, const struct adapter_opinion *opinion,
                          struct attempt_outcome *out)
{
    const struct turn *turn = s->base.errand->turn;
    struct failure failure = { .kind = FAILURE_INVALID_REQUEST, .param = opinion->param };
    struct buf body;

    failure.message = opinion->message.len > 0 ? attempt_redact(&s->base, opinion->message, MESSAGE_BYTES)
                                               : "The provider refused the request.";
    buf_init(&body, 8 * (size_t)MESSAGE_BYTES);
    failure_write(&failure, turn->mount->form, &body);
    out->refusal_status = failure_status(&failure, turn->mount->form);
    out->refusal_type = span_cstr("application/json");
    out->refusal_body = attempt_keep(&s->base, buf_span(&body));
    buf_free(&body);
}

/* The same in the provider's own status and words, without what looks like a
 * credential. False: these are no refusal as callers know them. */
static bool pass_refusal(struct speech_attempt *s, struct span body, struct attempt_outcome *out)
{
    static const struct json_want want = { "error.message", false };
    struct json_value message;
    struct buf clean;

    if (!s->order.adapter->speaks_as_callers || s->base.is_failed_cut)
        return false;
    buf_init(&clean, 2 * SIGNATURE_BODY_MAX);
    log_redact(&clean, body, clean.limit);
    bool is_one =
        json_find(buf_span(&clean), &want, 1, 0, &message, NULL) == 0 && message.kind == JSON_KIND_STRING;
    if (is_one) {
        out->refusal_status = s->base.status;
        out->refusal_type = span_cstr("application/json");
        out->refusal_body = attempt_keep(&s->base, buf_span(&clean));
    }
    buf_free(&clean);
    return is_one;
}

/* A reply that says it failed, inside a 2xx or not. */
static void judge_reply(struct speech_attempt *s, struct span body, bool is_in_band,
                        struct attempt_outcome *out, struct span *message)
{
    const struct attempt *a = &s->base;
    const struct turn *turn = a->errand->turn;
    struct arena *arena = turn->request.arena;
    const struct adapter_failure failure = {
        .status = a->status,
        .reason = s->reason,
        .content_type = a->content_type,
        .body = body,
    };
    const struct reply_facts facts = {
        .provider = snap_span(turn->root, a->candidate->upstream->provider),
        .status = a->status,
        .in_band = is_in_band,
        .body = body,
        .retry_after = a->retry_after,
        .retry_after_ms = a->retry_after_ms,
    };
    struct adapter_opinion opinion;
    struct opinion common;

    signature_judge(&facts, arena, &common);
    adapter_classify(s->order.adapter, &failure, arena, &opinion);
    bool is_known = opinion.class != ADAPTER_UNKNOWN;
    if (opinion.message.len == 0)
        opinion.message = common.message;
    if (opinion.code.len == 0)
        opinion.code = span_cstr(common.code);
    out->verdict = is_known ? classes[opinion.class].verdict : common.verdict;
    out->blame = is_known ? classes[opinion.class].blame : common.blame;
    out->is_proven = is_known ? !opinion.is_doubtful : common.is_proven;
    out->retry_after_s = common.retry_after_s;
    if (is_in_band)
        out->last_status = "invalid";
    a->event->reason = is_known ? opinion.rule : common.signature;
    a->event->provider_code = attempt_redact(a, opinion.code, LOG_TEXT_BYTES);
    *message = attempt_keep(a, opinion.message);
    if (out->verdict == VERDICT_CLIENT && (is_in_band || !pass_refusal(s, body, out)))
        write_refusal(s, &opinion, out);
}

static void judge_audio(struct speech_attempt *s, bool is_whole, struct attempt_outcome *out,
                        struct span *message)
{
    switch (s->step) {
    case ADAPTER_DONE:
        out->verdict = VERDICT_OK;
        return;
    case ADAPTER_LEFT:
        out->verdict = VERDICT_CANCELLED;
        return;
    case ADAPTER_FAILED:
        if (s->call->failure.len > 0) {
            judge_reply(s, buf_span(&s->call->failure), true, out, message);
            return;
        }
        break;
    default:
        break;
    }
    out->verdict = VERDICT_SERVER;
    out->blame = BLAME_UPSTREAM;
    out->last_status = "invalid";
    s->base.event->reason = is_whole && s->call->why != NULL ? s->call->why : "cut";
}

void speech_judge(struct speech_attempt *s, enum exchange_end end, struct attempt_outcome *out,
                  struct span *message)
{
    if (attempt_judge_transport(&s->base, end, out))
        return;
    if (s->base.is_relaying)
        judge_audio(s, end != EXCHANGE_END_CUT, out, message);
    else
        judge_reply(s, buf_span(&s->base.failed), false, out, message);
}
