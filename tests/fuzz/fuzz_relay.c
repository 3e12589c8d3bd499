/*
 * The relay: whatever an upstream sends, in whatever pieces, a caller gets the
 * same bytes; none before the commitment, none after an end, and never the
 * looks of a whole stream when it was not one.
 *
 * Input: a byte of modes, one for the sink's call that fails, the sizes of the
 * pieces, the reply.
 */
#include "core/base/buf.h"
#include "core/upstream/relay.h"
#include "tests/fuzz/fuzz.h"

enum { OUT_BYTES = 2 * 1024 * 1024, NEVER = 0 };

enum mode {
    MODE_STREAM = 1,
    MODE_HIDES_USAGE = 2,
    MODE_WHOLE = 4,  /* the reply ends as HTTP says it must */
    MODE_FILLED = 8, /* a stream begins with nearly as much as is held back */
    MODE_LARGE = 16, /* a stream begins inside an event that is too large to be judged */
};

/* --- a caller ------------------------------------------------------------- */

struct caller {
    struct buf bytes;
    unsigned calls, fails_at; /* the call that fails, from 1 */
    bool is_committed, has_failed, has_ended, has_last;
};

static int answer_call(struct caller *caller)
{
    fuzz_check(!caller->has_failed, "a caller that has gone is left alone");
    fuzz_check(!caller->has_ended, "nothing is written after an end");
    caller->has_failed = ++caller->calls == caller->fails_at;
    return caller->has_failed ? ERR_CLIENT_GONE : 0;
}

static int on_commit(void *ctx, struct span content_type, int64_t whole_bytes)
{
    struct caller *caller = ctx;
    fuzz_check(!caller->is_committed, "a reply is committed once");
    fuzz_check(content_type.len > 0 && whole_bytes >= -1, "a reply has a type and a length, known or not");
    caller->is_committed = true;
    return answer_call(caller);
}

static int on_write(void *ctx, struct span bytes, bool is_last)
{
    struct caller *caller = ctx;
    fuzz_check(caller->is_committed, "nothing is written before the commitment");
    fuzz_check(bytes.len > 0, "no write is empty");
    fuzz_check(!caller->has_last, "nothing is written after the last bytes");
    caller->has_last = is_last;
    int r = answer_call(caller);
    if (r == 0)
        fuzz_check(buf_append_span(&caller->bytes, bytes) == 0, "a caller gets no more than there was");
    return r;
}

/* --- a reply -------------------------------------------------------------- */

struct run {
    struct caller caller;
    struct relay_sink sink;
    struct relay relay;
    enum exchange_want want;
};

/* As an exchange does: nothing more once the relay has enough. */
static void feed(struct run *run, struct span piece)
{
    if (run->want != EXCHANGE_MORE && run->want != EXCHANGE_CONTENT)
        return;
    struct span copy = fuzz_copy(piece);
    run->want = relay_feed(&run->relay, copy);
    fuzz_free_copy(copy);
    run->caller.has_ended = run->relay.end != RELAY_OPEN;
    fuzz_check(run->relay.end == RELAY_OPEN || (run->want != EXCHANGE_MORE && run->want != EXCHANGE_CONTENT),
               "a relay that has ended wants no more");
}

static void run_reply(struct run *run, unsigned mode, unsigned fails_at, struct fuzz_pieces *pieces,
                      struct span filler, struct span reply)
{
    *run = (struct run){ .caller = { .fails_at = fails_at } };
    buf_init(&run->caller.bytes, OUT_BYTES);
    run->sink = (struct relay_sink){ .ctx = &run->caller, .commit = on_commit, .write = on_write };
    const struct request_facts request = { .is_stream = (mode & MODE_STREAM) != 0 };
    relay_init(&run->relay, &dialect_chat, &request, (mode & MODE_HIDES_USAGE) != 0, span_cstr(""),
               &run->sink);
    if (filler.len > 0)
        feed(run, filler);
    while (reply.len > 0) {
        struct span piece = reply;
        if (pieces != NULL)
            piece = fuzz_next_piece(pieces, &reply);
        else
            reply.len = 0;
        feed(run, piece);
    }
    relay_finish(&run->relay, (mode & MODE_WHOLE) != 0);
    fuzz_check(run->relay.end != RELAY_OPEN, "a finished relay has an end");
    fuzz_check(run->relay.end != RELAY_CALLER_LEFT || run->caller.has_failed,
               "a caller leaves when its sink fails");
    fuzz_check(run->relay.end != RELAY_FINISHED || !run->caller.has_failed,
               "a caller that left has not got all");
    fuzz_check(run->relay.end == RELAY_CALLER_LEFT || run->relay.is_committed == run->caller.is_committed,
               "the relay knows whether it has committed");
    fuzz_check(run->relay.bytes_out == run->caller.bytes.len, "what is written is counted");
    fuzz_check(run->relay.end != RELAY_FINISHED || run->relay.is_committed,
               "what has finished was committed");
    fuzz_check(run->relay.end != RELAY_FINISHED || run->caller.has_last || run->relay.is_passing,
               "what has finished had last bytes");
}

/* --- what a client makes of it -------------------------------------------- */

struct reading {
    struct stream_state state;
    size_t n_marks, n_errors;
    enum event_class last;
};

static int read_event(void *ctx, const struct sse_event *event)
{
    struct reading *reading = ctx;
    if (event->is_comment)
        return 0;
    fuzz_check(reading->n_marks == 0, "nothing follows the terminal mark");
    reading->last = dialect_chat.judge_event(event, &reading->state);
    reading->n_marks += reading->last == EVENT_TERMINAL;
    reading->n_errors += reading->last == EVENT_ERROR;
    return 0;
}

static void read_stream(struct span bytes, bool has_bom, struct reading *reading)
{
    struct sse_framer framer;
    *reading = (struct reading){ .last = EVENT_NOTHING };
    usage_init(&reading->state.usage);
    sse_init(&framer, RELAY_EVENT_BYTES);
    framer.at_start = has_bom;
    fuzz_check(sse_feed(&framer, bytes, read_event, reading) == 0, "a client reads on");
    fuzz_check(sse_finish(&framer, read_event, reading) == 0, "a client reads to the end");
    sse_free(&framer);
}

/* Every committed stream ends honestly. A byte order mark is one only where the
 * upstream's stream began with it, and not where what came before was not passed on. */
static void check_ending(struct run *run, bool has_bom)
{
    static const struct stream_error error = {
        .message = "broke off",
        .type = "server_error",
        .code = "upstream_unavailable",
    };
    struct reading reading;

    if (run->caller.has_failed || !run->relay.is_committed)
        return;
    if (run->relay.end == RELAY_FINISHED) {
        read_stream(buf_span(&run->caller.bytes), has_bom, &reading);
        fuzz_check(reading.n_marks == 1 && reading.n_errors == 0, "a finished stream has one terminal mark");
        return;
    }
    run->caller.has_ended = false;
    run->caller.fails_at = NEVER;
    fuzz_check(relay_fail(&run->relay, &error) == 0, "a failed stream can be ended");
    read_stream(buf_span(&run->caller.bytes), has_bom, &reading);
    fuzz_check(reading.n_marks == 0 && reading.last == EVENT_ERROR && reading.n_errors == 1,
               "a failed stream ends with its only error event, without a mark");
}

static void check_same(const struct run *whole, const struct run *cut)
{
    const struct relay *a = &whole->relay, *b = &cut->relay;
    fuzz_check(a->end == b->end && a->is_committed == b->is_committed, "cuts change no end");
    fuzz_check(span_eq(buf_span(&whole->caller.bytes), buf_span(&cut->caller.bytes)), "cuts change no byte");
    fuzz_check((a->why == NULL) == (b->why == NULL) && (a->why == NULL || strcmp(a->why, b->why) == 0),
               "cuts change no reason");
    fuzz_check(a->state.usage.input == b->state.usage.input &&
                   a->state.usage.output == b->state.usage.output &&
                   strcmp(a->state.finish_reason, b->state.finish_reason) == 0,
               "cuts change nothing that is recorded");
}

/* What is too long for an input. */
static struct span make_filler(unsigned mode, struct arena *arena)
{
    size_t size = (mode & MODE_LARGE) != 0 ? RELAY_EVENT_BYTES + 1 : RELAY_HOLD_BYTES - 128;
    if ((mode & MODE_STREAM) == 0 || (mode & (MODE_FILLED | MODE_LARGE)) == 0)
        return span_of(NULL, 0);
    char *filler = arena_alloc(arena, size);
    memset(filler, ':', size);
    if ((mode & MODE_LARGE) == 0)
        memcpy(filler + size - 2, "\n\n", 2);
    return span_of(filler, size);
}

static void end_run(struct run *run)
{
    relay_free(&run->relay);
    buf_free(&run->caller.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    unsigned mode = fuzz_take_byte(&in), fails_at = fuzz_take_byte(&in);
    struct fuzz_pieces pieces = fuzz_take_pieces(&in);
    struct span reply = fuzz_rest(&in);
    struct arena *arena = arena_new();
    struct span filler = make_filler(mode, arena);
    struct run whole, cut;

    run_reply(&whole, mode, NEVER, NULL, filler, reply);
    run_reply(&cut, mode, fails_at, &pieces, filler, reply);
    /* A LF that is cut off from its CR counts to the next event, which may be one that is not passed on. */
    bool may_differ = reply.len > 0 && memchr(reply.ptr, '\r', reply.len) != NULL;
    if (!may_differ && !cut.caller.has_failed)
        check_same(&whole, &cut);
    if (!may_differ && cut.caller.has_failed)
        fuzz_check(cut.caller.bytes.len <= whole.caller.bytes.len &&
                       memcmp(cut.caller.bytes.data == NULL ? "" : cut.caller.bytes.data,
                              whole.caller.bytes.data == NULL ? "" : whole.caller.bytes.data,
                              cut.caller.bytes.len) == 0,
                   "a caller that leaves has the beginning of the reply");
    if ((mode & MODE_STREAM) != 0) {
        bool has_bom = filler.len == 0 && span_starts(reply, "\xEF\xBB\xBF");
        check_ending(&whole, has_bom);
        check_ending(&cut, has_bom);
    }
    end_run(&whole);
    end_run(&cut);
    arena_free(arena);
    return 0;
}
