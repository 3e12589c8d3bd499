#include "fcgi/edge/answer.h"

#include "core/base/clock.h"

enum { EVENT_BYTES = 64 * 1024 }; /* of an error event: more than a refusal may have */

void answer_init(struct answer *answer, struct turn *turn, const struct dialect *dialect,
                 const struct snap_model *model, bool is_stream)
{
    *answer = (struct answer){
        .turn = turn,
        .dialect = dialect,
        .is_stream = is_stream,
        .is_live = is_stream || dialect->is_adapted,
        /* A heartbeat would promise a stream. */
        .beats_before_content = model->beats_before_content != 0 && !dialect->may_answer_whole,
        .quiet_since_us = turn->start_us,
    };
    if (is_stream && dialect->heartbeat != NULL)
        answer->interval_us = model->heartbeat_ms * US_PER_MS;
}

static void begin(struct answer *answer, int status, struct span content_type, int64_t whole_bytes)
{
    struct turn *turn = answer->turn;

    turn->event->is_committed = true;
    turn->worker->process->record->request.status = status;
    scoreboard_enter(turn->worker->process->record, STAGE_STREAMING);
    reply_start(&turn->reply, status, content_type, whole_bytes);
    if (answer->is_live) {
        reply_header(&turn->reply, "Cache-Control", span_cstr("no-cache"));
        reply_header(&turn->reply, "X-Accel-Buffering", span_cstr("no")); /* nginx: every chunk at once */
    }
}

void answer_commit(struct answer *answer, int status, struct span content_type, int64_t whole_bytes)
{
    answer->has_reply = true;
    answer->turn->event->ttft_us = clock_monotonic_us() - answer->turn->start_us;
    if (!answer->turn->reply.is_started)
        begin(answer, status, content_type, whole_bytes);
}

int answer_write(struct answer *answer, struct span bytes, bool is_last)
{
    struct reply *reply = &answer->turn->reply;
    int r = is_last ? reply_finish(reply, bytes) : reply_write(reply, bytes);
    answer->quiet_since_us = clock_monotonic_us();
    return r;
}

uint64_t answer_heartbeat_due_us(const struct answer *answer)
{
    if (answer->interval_us == 0 || !(answer->has_reply || answer->beats_before_content))
        return UINT64_MAX;
    return answer->quiet_since_us + answer->interval_us;
}

int answer_heartbeat(struct answer *answer)
{
    if (!answer->turn->reply.is_started)
        begin(answer, 200, span_cstr(answer->dialect->stream_type), -1);
    return answer_write(answer, span_cstr(answer->dialect->heartbeat), false);
}

static void finish(struct answer *answer, struct span bytes)
{
    if (reply_finish(&answer->turn->reply, bytes) != 0)
        answer->turn->event->end = EVENT_END_CLIENT_GONE;
}

void answer_fail(struct answer *answer, const struct failure *failure)
{
    struct request_event *event = answer->turn->event;
    struct buf text;

    if (!answer->turn->reply.is_started) {
        turn_fail(answer->turn, failure);
        return;
    }
    const struct stream_error error = {
        .message = failure_message(failure),
        .type = failure_type(failure),
        .code = failure_code(failure),
    };
    event->end = EVENT_END_ERROR_BEFORE;
    event->code = error.code;
    buf_init(&text, EVENT_BYTES);
    answer->dialect->write_error_event(&text, &error);
    finish(answer, buf_span(&text));
    buf_free(&text);
}

/* An upstream's refusal of the caller's request, as the upstream wrote it. */
void answer_refuse(struct answer *answer, const struct attempt_outcome *refusal)
{
    static const struct stream_error unreadable = {
        .message = "The upstream refused the request.",
        .type = "invalid_request_error",
        .code = "upstream_refused",
    };
    struct turn *turn = answer->turn;
    struct buf text;

    turn->event->end = EVENT_END_REFUSED;
    turn->event->code = unreadable.code;
    if (!turn->reply.is_started) {
        reply_start(&turn->reply, refusal->refusal_status, refusal->refusal_type,
                    (int64_t)refusal->refusal_body.len);
        finish(answer, refusal->refusal_body);
        return;
    }
    buf_init(&text, EVENT_BYTES);
    answer->dialect->write_refusal_event(&text, refusal->refusal_body, &unreadable);
    finish(answer, buf_span(&text));
    buf_free(&text);
}
