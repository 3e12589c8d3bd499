#include "core/upstream/relay.h"

#include <string.h>

/* Upstreams name a stream's type with parameters of their own or not at all. */
static bool may_be_stream(const struct dialect *dialect, struct span content_type)
{
    return content_type.len == 0 || span_starts(content_type, dialect->stream_type);
}

void relay_init(struct relay *relay, const struct dialect *dialect, const struct request_facts *request,
                bool hides_usage, struct span content_type, const struct relay_sink *sink)
{
    bool is_stream =
        request->is_stream && (!dialect->may_answer_whole || may_be_stream(dialect, content_type));

    *relay = (struct relay){
        .dialect = dialect,
        .sink = sink,
        .is_stream = is_stream,
        .wants_text = request->wants_text,
        .hides_usage = hides_usage,
    };
    usage_init(&relay->state.usage);
    span_copy_text(content_type, relay->content_type_text, sizeof(relay->content_type_text));
    sse_init(&relay->framer, RELAY_EVENT_BYTES);
    buf_init(&relay->held, is_stream ? RELAY_HOLD_BYTES : RELAY_PLAIN_BYTES);
    buf_init(&relay->failure, RELAY_FAILURE_BYTES);
    buf_init(&relay->tail, 2 * RELAY_TAIL_BYTES);
}

void relay_free(struct relay *relay)
{
    sse_free(&relay->framer);
    buf_free(&relay->held);
    buf_free(&relay->failure);
    buf_free(&relay->tail);
}

/* The first end counts: what comes after it is not looked at. But to a caller
 * that has left nothing else has happened. */
static void end_with(struct relay *relay, enum relay_end end, const char *why)
{
    if (relay->end != RELAY_OPEN && end != RELAY_CALLER_LEFT)
        return;
    relay->end = end;
    relay->why = why;
}

static void keep_failure(struct relay *relay, struct span bytes)
{
    size_t room = relay->failure.limit - relay->failure.len;
    buf_append(&relay->failure, bytes.ptr, bytes.len < room ? bytes.len : room);
    relay->failure.overflowed = bytes.len > room;
}

static struct span type_for_caller(const struct relay *relay)
{
    struct span type = span_cstr(relay->content_type_text);
    if (relay->is_stream)
        return span_starts(type, relay->dialect->stream_type) ? type : span_cstr(relay->dialect->stream_type);
    if (type.len > 0)
        return type;
    return span_cstr(relay->wants_text ? "text/plain; charset=utf-8" : "application/json");
}

static int put(struct relay *relay, struct span bytes, bool is_last)
{
    if (bytes.len == 0)
        return 0;
    int r = relay->sink->write(relay->sink->ctx, bytes, is_last);
    if (r != 0)
        end_with(relay, RELAY_CALLER_LEFT, NULL);
    else
        relay->bytes_out += bytes.len;
    return r;
}

/* From here on bytes go out as they come; first those that were held. */
static int commit(struct relay *relay, int64_t whole_bytes)
{
    int r = relay->sink->commit(relay->sink->ctx, type_for_caller(relay), whole_bytes);
    if (r != 0) {
        end_with(relay, RELAY_CALLER_LEFT, NULL);
        return r;
    }
    relay->is_committed = true;
    r = put(relay, buf_span(&relay->held), whole_bytes >= 0);
    buf_free(&relay->held);
    return r;
}

static int flush(struct relay *relay, bool is_last)
{
    struct span bytes = relay->pending;
    relay->pending = (struct span){ NULL, 0 };
    return put(relay, bytes, is_last);
}

/* Whether what is pending ends with the terminal mark, whole. */
static bool ends_with_mark(const struct relay *relay)
{
    return relay->end == RELAY_FINISHED && !relay->misses_lf;
}

/* An event on its way out. Events that lie side by side in a piece leave in one write. */
static int pass(struct relay *relay, struct span raw)
{
    if (relay->pending.len > 0 && relay->pending.ptr + relay->pending.len == raw.ptr) {
        relay->pending.len += raw.len;
        return 0;
    }
    int r = flush(relay, false);
    relay->pending = raw;
    return r;
}

/* An event that comes before content. What exceeds the bound commits: it is
 * then better sent than kept. */
static int hold(struct relay *relay, struct span raw)
{
    relay->held_events++;
    if (buf_append_span(&relay->held, raw) == 0)
        return 0;
    int r = commit(relay, -1);
    return r != 0 ? r : put(relay, raw, false);
}

static int on_event(void *ctx, const struct sse_event *event)
{
    struct relay *relay = ctx;
    int r;

    if (relay->end != RELAY_OPEN)
        return 0;
    switch (relay->dialect->judge_event(event, &relay->state)) {
    case EVENT_ERROR:
        keep_failure(relay, event->has_data ? event->data : event->raw);
        end_with(relay, RELAY_ERROR, "error_event");
        return 0;
    case EVENT_TERMINAL:
        if (!relay->has_content) {
            end_with(relay, RELAY_UNUSABLE, "empty_stream");
            return 0;
        }
        end_with(relay, RELAY_FINISHED, NULL);
        relay->misses_lf =
            event->raw.len >= 3 && memcmp(event->raw.ptr + event->raw.len - 3, "\r\n\r", 3) == 0;
        break;
    case EVENT_USAGE:
        if (relay->hides_usage)
            return 0;
        break;
    case EVENT_CONTENT:
        relay->has_content = true;
        break;
    case EVENT_NOTHING:
        break;
    }
    if (!relay->is_committed && !relay->has_content)
        return hold(relay, event->raw);
    if (!relay->is_committed && (r = commit(relay, -1)) != 0)
        return r;
    r = pass(relay, event->raw);
    /* An event collected from several pieces lies in the framer's memory, for this call only. */
    if (r == 0 && event->raw.ptr == relay->framer.held.data)
        r = flush(relay, ends_with_mark(relay));
    return r;
}

static enum exchange_want want_now(const struct relay *relay)
{
    switch (relay->end) {
    case RELAY_OPEN:
        return relay->has_content ? EXCHANGE_CONTENT : EXCHANGE_MORE;
    case RELAY_FINISHED:
        return EXCHANGE_LINGER;
    case RELAY_CALLER_LEFT:
        return EXCHANGE_LEFT;
    default:
        return EXCHANGE_ENOUGH;
    }
}

/* The last bytes of a reply that is not kept whole: the usage stands there. */
static void keep_tail(struct relay *relay, struct span piece)
{
    if (piece.len > RELAY_TAIL_BYTES)
        piece = span_of(piece.ptr + piece.len - RELAY_TAIL_BYTES, RELAY_TAIL_BYTES);
    buf_append_span(&relay->tail, piece);
    if (relay->tail.len > RELAY_TAIL_BYTES)
        buf_consume(&relay->tail, relay->tail.len - RELAY_TAIL_BYTES);
}

/* A whole document is collected: a plain reply, or what came instead of a stream. */
static void feed_document(struct relay *relay, struct span piece)
{
    if (relay->is_passing) {
        keep_tail(relay, piece);
        put(relay, piece, false);
        return;
    }
    if (buf_append_span(&relay->held, piece) == 0) {
        relay->has_content = !relay->is_stream; /* generation has ended: what follows is transport */
        return;
    }
    if (relay->is_stream) {
        keep_failure(relay, buf_span(&relay->held));
        end_with(relay, RELAY_UNUSABLE, "not_a_stream");
        return;
    }
    relay->is_passing = true;
    keep_tail(relay, buf_span(&relay->held));
    keep_tail(relay, piece);
    if (commit(relay, -1) == 0)
        put(relay, piece, false);
}

/* White space before a plain reply keeps connections open (DeepSeek): it is no
 * content. A stream that begins like a document is one. */
static void look_at_begin(struct relay *relay, struct span piece)
{
    struct span rest = span_trim(piece);
    if (rest.len == 0)
        return;
    relay->has_begun = true;
    relay->is_document = !relay->is_stream || strchr("{[<\"", rest.ptr[0]) != NULL;
}

enum exchange_want relay_feed(struct relay *relay, struct span piece)
{
    if (!relay->has_begun)
        look_at_begin(relay, piece);
    if (!relay->has_begun && !relay->is_stream) {
        if (buf_append_span(&relay->held, piece) != 0)
            end_with(relay, RELAY_UNUSABLE, "empty_reply");
    } else if (relay->is_document) {
        feed_document(relay, piece);
    } else {
        if (sse_feed(&relay->framer, piece, on_event, relay) == 0)
            flush(relay, ends_with_mark(relay));
        /* Nothing is read after the mark: if its last CR came alone, so does the LF. */
        if (relay->misses_lf && relay->end == RELAY_FINISHED)
            put(relay, span_cstr("\n"), true);
        relay->misses_lf = false;
    }
    return want_now(relay);
}

static void finish_stream(struct relay *relay, bool is_whole)
{
    if (is_whole && sse_finish(&relay->framer, on_event, relay) == 0)
        flush(relay, ends_with_mark(relay));
    if (relay->end != RELAY_OPEN)
        return;
    if (!is_whole) {
        end_with(relay, RELAY_CUT, "cut");
        return;
    }
    if (!relay->has_content) {
        end_with(relay, RELAY_UNUSABLE, "empty_stream");
        return;
    }
    if (!relay->dialect->is_finished(&relay->state)) {
        end_with(relay, RELAY_CUT, "no_finish");
        return;
    }
    if (relay->dialect->terminal_mark == NULL) {
        end_with(relay, RELAY_FINISHED, NULL);
        return;
    }
    end_with(relay, RELAY_FINISHED, "mark_added");
    put(relay, span_cstr(relay->dialect->terminal_mark), true);
}

static void finish_document(struct relay *relay, bool is_whole)
{
    struct plain_facts facts;

    if (!is_whole) {
        end_with(relay, RELAY_CUT, "cut");
        return;
    }
    if (relay->is_passing) {
        relay->dialect->read_tail(buf_span(&relay->tail), &relay->state.usage);
        end_with(relay, RELAY_FINISHED, NULL);
        return;
    }
    (relay->wants_text ? relay->dialect->judge_text : relay->dialect->judge_plain)(buf_span(&relay->held),
                                                                                   &facts);
    relay->state.usage = facts.usage;
    memcpy(relay->state.finish_reason, facts.finish_reason, sizeof(relay->state.finish_reason));
    memcpy(relay->state.model, facts.model, sizeof(relay->state.model));
    if (facts.is_usable && !relay->is_stream) {
        end_with(relay, RELAY_FINISHED, NULL);
        commit(relay, (int64_t)relay->held.len);
        return;
    }
    keep_failure(relay, buf_span(&relay->held));
    if (facts.is_error)
        end_with(relay, RELAY_ERROR, facts.why);
    else
        end_with(relay, RELAY_UNUSABLE, facts.is_usable ? "not_a_stream" : facts.why);
}

void relay_finish(struct relay *relay, bool is_whole)
{
    if (relay->end != RELAY_OPEN)
        return;
    if (relay->is_document || !relay->is_stream)
        finish_document(relay, is_whole);
    else
        finish_stream(relay, is_whole);
}

bool relay_is_between_events(const struct relay *relay)
{
    if (!relay->is_committed)
        return true;
    return relay->is_stream && relay->end == RELAY_OPEN && !relay->framer.in_large;
}

int relay_fail(struct relay *relay, const struct stream_error *error)
{
    struct buf event;
    buf_init(&event, RELAY_FAILURE_BYTES);
    if (relay->framer.in_large)
        buf_append_cstr(&event, "\n\n"); /* the cut event is over */
    relay->dialect->write_error_event(&event, error);
    int r = put(relay, buf_span(&event), true);
    buf_free(&event);
    return r;
}
