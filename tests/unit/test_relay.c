/* The relay: what a caller gets of a reply, when it is committed, and how it ends, however the bytes come. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/upstream/relay.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define EVENT(json) "data: " json "\n\n"
#define CHUNK(delta, reason) \
    EVENT("{\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":" reason "}]}")
#define ROLE CHUNK("{\"role\":\"assistant\",\"content\":\"\"}", "null")
#define HELLO CHUNK("{\"content\":\"h\xC3\xA9llo\"}", "null")
#define STOP CHUNK("{}", "\"stop\"")
#define USAGE EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}")
#define MARK EVENT("[DONE]")
#define PING ": keep-alive\n\n"
#define FAILED "{\"error\":{\"message\":\"overloaded\",\"code\":503}}"
#define ANSWER "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}"

enum { NEVER = -1, OUT_BYTES = 4 * 1024 * 1024 };

/* --- a caller --- */

struct caller {
    struct buf bytes;
    int commits, calls, fails_at; /* the call that fails, from 0 */
    bool has_failed, has_last;
    char type[128];
    int64_t whole_bytes;
};

static int answer_call(struct caller *caller)
{
    ck_assert_msg(!caller->has_failed, "the sink is called after it failed");
    caller->has_failed = caller->calls++ == caller->fails_at;
    return caller->has_failed ? ERR_CLIENT_GONE : 0;
}

static int on_commit(void *ctx, struct span content_type, int64_t whole_bytes)
{
    struct caller *caller = ctx;
    ck_assert_msg(caller->bytes.len == 0, "committed after the first bytes");
    caller->commits++;
    caller->whole_bytes = whole_bytes;
    snprintf(caller->type, sizeof(caller->type), "%.*s", (int)content_type.len, content_type.ptr);
    return answer_call(caller);
}

static int on_write(void *ctx, struct span bytes, bool is_last)
{
    struct caller *caller = ctx;
    ck_assert_msg(caller->commits == 1, "written before the commitment");
    ck_assert_msg(bytes.len > 0, "an empty write");
    ck_assert_msg(!caller->has_last, "written after the last bytes");
    caller->has_last = is_last;
    int r = answer_call(caller);
    if (r == 0)
        ck_assert_int_eq(buf_append_span(&caller->bytes, bytes), 0);
    return r;
}

/* --- a reply --- */

/* One relay and its caller. */
struct run {
    struct caller caller;
    struct relay_sink sink;
    struct relay relay;
    enum exchange_want want;
};

static void begin_of(struct run *run, const struct dialect *dialect, const struct request_facts *request,
                     bool hides_usage, const char *type, int fails_at)
{
    *run = (struct run){ .caller = { .fails_at = fails_at } };
    buf_init(&run->caller.bytes, OUT_BYTES);
    run->sink = (struct relay_sink){ .ctx = &run->caller, .commit = on_commit, .write = on_write };
    relay_init(&run->relay, dialect, request, hides_usage, span_cstr(type), &run->sink);
}

static void begin(struct run *run, bool is_stream, bool hides_usage, const char *type, int fails_at)
{
    const struct request_facts request = { .is_stream = is_stream };
    begin_of(run, &dialect_chat, &request, hides_usage, type, fails_at);
}

/* As an exchange does: nothing more once the relay has enough. The piece is a
 * copy that is gone afterwards, so that no later use of it goes unseen. */
static void feed(struct run *run, struct span piece)
{
    if (piece.len == 0 || (run->want != EXCHANGE_MORE && run->want != EXCHANGE_CONTENT))
        return;
    char *copy = xmalloc(piece.len);
    memcpy(copy, piece.ptr, piece.len);
    run->want = relay_feed(&run->relay, span_of(copy, piece.len));
    memset(copy, '#', piece.len);
    free(copy);
}

static void feed_in_pieces(struct run *run, struct span bytes, size_t piece_bytes)
{
    for (size_t from = 0; from < bytes.len; from += piece_bytes)
        feed(run, span_of(bytes.ptr + from, bytes.len - from < piece_bytes ? bytes.len - from : piece_bytes));
}

static void finish(struct run *run, bool is_whole)
{
    relay_finish(&run->relay, is_whole);
    ck_assert_int_ne(run->relay.end, RELAY_OPEN);
    ck_assert_int_eq(run->relay.is_committed,
                     run->caller.commits == 1 && !(run->caller.calls == 1 && run->caller.has_failed));
    ck_assert_uint_eq(run->relay.bytes_out, run->caller.bytes.len);
    ck_assert_msg(!run->caller.has_last || run->relay.end == RELAY_FINISHED || run->caller.has_failed,
                  "the last bytes of a reply that did not finish");
    ck_assert_msg(run->caller.has_last || run->relay.end != RELAY_FINISHED || run->relay.is_passing,
                  "a finished reply without last bytes");
}

static void end(struct run *run)
{
    relay_free(&run->relay);
    buf_free(&run->caller.bytes);
}

static size_t count_in(struct span text, const char *word)
{
    size_t n = 0, len = strlen(word);
    for (size_t i = 0; i + len <= text.len; i++)
        n += memcmp(text.ptr + i, word, len) == 0;
    return n;
}

/* A LF that was cut off from its CR belongs to the next event, which may be one
 * that the caller does not get: line ends are compared, not their spelling, and
 * two blank lines are one. */
static struct span with_plain_line_ends(struct span text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n' && i > 0 && text.ptr[i - 1] == '\r')
            continue;
        out[n++] = text.ptr[i] == '\r' ? '\n' : text.ptr[i];
        if (n > 2 && out[n - 1] == '\n' && out[n - 2] == '\n' && out[n - 3] == '\n')
            n--;
    }
    return span_of(out, n);
}

/* --- replies, in pieces of every kind --- */

enum form { PLAIN, STREAM, STREAM_HIDING_USAGE };

static const struct {
    enum form form;
    const char *reply;
    bool is_whole;
    const char *caller_gets; /* NULL: nothing is committed */
    enum relay_end end;
    const char *why;
    const char *failure; /* what is kept of it */
} replies[] = {
    /* whole streams */
    { STREAM, ROLE HELLO STOP USAGE MARK, true, ROLE HELLO STOP USAGE MARK, RELAY_FINISHED, NULL, "" },
    { STREAM_HIDING_USAGE, ROLE HELLO STOP USAGE MARK, true, ROLE HELLO STOP MARK, RELAY_FINISHED, NULL, "" },
    { STREAM_HIDING_USAGE, USAGE HELLO USAGE STOP MARK, true, HELLO STOP MARK, RELAY_FINISHED, NULL, "" },
    { STREAM, PING "\n" ROLE PING HELLO PING STOP MARK, true, PING "\n" ROLE PING HELLO PING STOP MARK,
      RELAY_FINISHED, NULL, "" },
    { STREAM, "\xEF\xBB\xBF" HELLO STOP MARK, true, "\xEF\xBB\xBF" HELLO STOP MARK, RELAY_FINISHED, NULL,
      "" },
    { STREAM, "\n \n" HELLO STOP MARK, true, "\n \n" HELLO STOP MARK, RELAY_FINISHED, NULL, "" },
    { STREAM, HELLO MARK, true, HELLO MARK, RELAY_FINISHED, NULL, "" },
    { STREAM, ROLE STOP MARK, true, ROLE STOP MARK, RELAY_FINISHED, NULL, "" },
    { STREAM, HELLO STOP MARK, false, HELLO STOP MARK, RELAY_FINISHED, NULL,
      "" }, /* what follows a mark is transport */
    { STREAM, HELLO STOP MARK MARK HELLO, true, HELLO STOP MARK, RELAY_FINISHED, NULL, "" },
    { STREAM, HELLO STOP MARK ": a trailing comment without its end", true, HELLO STOP MARK, RELAY_FINISHED,
      NULL, "" },
    { STREAM, HELLO STOP MARK EVENT(FAILED), true, HELLO STOP MARK, RELAY_FINISHED, NULL, "" },
    { STREAM,
      "data: {\"choices\":[{\"index\":0,\r\ndata: \"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: "
      "[DONE]\r\n\r\n",
      true,
      "data: {\"choices\":[{\"index\":0,\r\ndata: \"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: "
      "[DONE]\r\n\r\n",
      RELAY_FINISHED, NULL, "" },
    { STREAM_HIDING_USAGE,
      ": c\r\n\r\nevent: x\r\n" HELLO "data: {\"usage\":{\"prompt_tokens\":1}}\r\n\r\ndata: [DONE]\r\n\r\n",
      true, ": c\r\n\r\nevent: x\r\n" HELLO "data: [DONE]\r\n\r\n", RELAY_FINISHED, NULL, "" },
    /* without the mark: added after a clean finish */
    { STREAM, ROLE HELLO STOP, true, ROLE HELLO STOP MARK, RELAY_FINISHED, "mark_added", "" },
    { STREAM, HELLO STOP USAGE, true, HELLO STOP USAGE MARK, RELAY_FINISHED, "mark_added", "" },
    { STREAM_HIDING_USAGE, HELLO STOP USAGE, true, HELLO STOP MARK, RELAY_FINISHED, "mark_added", "" },
    { STREAM, HELLO STOP PING, true, HELLO STOP PING MARK, RELAY_FINISHED, "mark_added", "" },
    /* the last event without its blank line, or without its line's end */
    { STREAM, HELLO STOP "data: [DONE]\n", true, HELLO STOP MARK, RELAY_FINISHED, NULL, "" },
    { STREAM, HELLO STOP "data: [DONE]", true, HELLO STOP MARK, RELAY_FINISHED, NULL, "" },
    { STREAM, HELLO "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}", true,
      HELLO "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n" MARK, RELAY_FINISHED, "mark_added", "" },
    { STREAM, HELLO "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n", true,
      HELLO "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n\n" MARK, RELAY_FINISHED, "mark_added",
      "" },
    { STREAM, HELLO "data: " FAILED, true, HELLO, RELAY_ERROR, "error_event", FAILED },
    { STREAM, "data: " FAILED "\n", true, NULL, RELAY_ERROR, "error_event", FAILED },
    /* an end that is none */
    { STREAM, HELLO, true, HELLO, RELAY_CUT, "no_finish", "" },
    { STREAM, HELLO USAGE, true, HELLO USAGE, RELAY_CUT, "no_finish", "" },
    { STREAM, HELLO, false, HELLO, RELAY_CUT, "cut", "" },
    { STREAM, HELLO STOP, false, HELLO STOP, RELAY_CUT, "cut", "" },
    { STREAM, HELLO "data: {\"choices\":[{\"ind", false, HELLO, RELAY_CUT, "cut", "" },
    { STREAM, HELLO "data: [DONE]\n", false, HELLO, RELAY_CUT, "cut", "" },
    { STREAM, "", false, NULL, RELAY_CUT, "cut", "" },
    { STREAM, PING ROLE, false, NULL, RELAY_CUT, "cut", "" },
    { STREAM, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n", false, NULL, RELAY_CUT,
      "cut", "" },
    /* no answer */
    { STREAM, "", true, NULL, RELAY_UNUSABLE, "empty_stream", "" },
    { STREAM, "\n\n", true, NULL, RELAY_UNUSABLE, "empty_stream", "" },
    { STREAM, PING PING, true, NULL, RELAY_UNUSABLE, "empty_stream", "" },
    { STREAM, PING ROLE ROLE, true, NULL, RELAY_UNUSABLE, "empty_stream", "" },
    { STREAM, MARK, true, NULL, RELAY_UNUSABLE, "empty_stream", "" },
    { STREAM, ROLE USAGE MARK, true, NULL, RELAY_UNUSABLE, "empty_stream", "" },
    { STREAM_HIDING_USAGE, ROLE USAGE MARK, true, NULL, RELAY_UNUSABLE, "empty_stream", "" },
    /* failures inside a 2xx */
    { STREAM, EVENT(FAILED), true, NULL, RELAY_ERROR, "error_event", FAILED },
    { STREAM, PING ROLE EVENT(FAILED) MARK, true, NULL, RELAY_ERROR, "error_event", FAILED },
    { STREAM, ROLE HELLO EVENT(FAILED) MARK, true, ROLE HELLO, RELAY_ERROR, "error_event", FAILED },
    { STREAM, HELLO EVENT(FAILED) HELLO EVENT("{\"error\":\"other\"}"), false, HELLO, RELAY_ERROR,
      "error_event", FAILED },
    { STREAM, HELLO FAILED "\n\n", true, HELLO, RELAY_ERROR, "error_event", FAILED "\n\n" },
    { STREAM, HELLO EVENT("broken json"), true, HELLO, RELAY_ERROR, "error_event", "broken json" },
    { STREAM, HELLO "event: error\n\n", true, HELLO, RELAY_ERROR, "error_event", "event: error\n\n" },
    { STREAM, "oops\n\n", true, NULL, RELAY_ERROR, "error_event", "oops\n\n" },
    /* a document instead of a stream */
    { STREAM, FAILED, true, NULL, RELAY_ERROR, "error_in_reply", FAILED },
    { STREAM, ANSWER, true, NULL, RELAY_UNUSABLE, "not_a_stream", ANSWER },
    { STREAM, "{}", true, NULL, RELAY_UNUSABLE, "no_choices", "{}" },
    { STREAM, "[" FAILED "]", true, NULL, RELAY_UNUSABLE, "no_choices", "[" FAILED "]" },
    { STREAM, "<html>no</html>", true, NULL, RELAY_UNUSABLE, "not_json", "<html>no</html>" },
    { STREAM, "\"busy\"", true, NULL, RELAY_UNUSABLE, "no_choices", "\"busy\"" },
    { STREAM, FAILED, false, NULL, RELAY_CUT, "cut", "" },
    /* plain replies */
    { PLAIN, ANSWER, true, ANSWER, RELAY_FINISHED, NULL, "" },
    { PLAIN, "\n\n  " ANSWER "\n", true, "\n\n  " ANSWER "\n", RELAY_FINISHED, NULL, "" },
    { PLAIN, ANSWER, false, NULL, RELAY_CUT, "cut", "" },
    { PLAIN, FAILED, true, NULL, RELAY_ERROR, "error_in_reply", FAILED },
    { PLAIN, "\n" FAILED, true, NULL, RELAY_ERROR, "error_in_reply", "\n" FAILED },
    { PLAIN, "", true, NULL, RELAY_UNUSABLE, "empty_reply", "" },
    { PLAIN, "\n\n", true, NULL, RELAY_UNUSABLE, "empty_reply", "\n\n" },
    { PLAIN, "\n\n", false, NULL, RELAY_CUT, "cut", "" },
    { PLAIN, "{\"choices\":[]}", true, NULL, RELAY_UNUSABLE, "no_choices", "{\"choices\":[]}" },
    { PLAIN, "<html>", true, NULL, RELAY_UNUSABLE, "not_json", "<html>" },
    { PLAIN, HELLO STOP MARK, true, NULL, RELAY_UNUSABLE, "not_json", HELLO STOP MARK },
};

static void check_reply(int row, const struct run *run, const char *how, size_t at)
{
    const char *gets = replies[row].caller_gets, *why = replies[row].why, *reply = replies[row].reply;
    const struct relay *relay = &run->relay;
    struct span got = buf_span(&run->caller.bytes), expected = span_cstr(gets);
    struct span failure = span_trim(buf_span(&relay->failure));
    char got_lines[2048], expected_lines[2048];

    ck_assert_uint_lt(strlen(reply), sizeof(got_lines) - 64);
    ck_assert_msg(relay->end == replies[row].end, "%s\n%s %zu: end %d", reply, how, at, relay->end);
    ck_assert_msg(relay->is_committed == (gets != NULL), "%s\n%s %zu: is_committed %d", reply, how, at,
                  relay->is_committed);
    if (strchr(reply, '\r') != NULL && at > 0) {
        got = with_plain_line_ends(got, got_lines);
        expected = with_plain_line_ends(expected, expected_lines);
    }
    ck_assert_msg(span_eq(got, expected), "%s\n%s %zu: the caller gets\n%.*s", reply, how, at, (int)got.len,
                  got.ptr);
    ck_assert_msg((why == NULL) == (relay->why == NULL) && (why == NULL || strcmp(why, relay->why) == 0),
                  "%s\n%s %zu: why %s", reply, how, at, relay->why);
    ck_assert_msg(span_eq(failure, span_trim(span_cstr(replies[row].failure))), "%s\n%s %zu: failure %.*s",
                  reply, how, at, (int)failure.len, failure.ptr);
}

static void begin_row(struct run *run, int row)
{
    begin(run, replies[row].form != PLAIN, replies[row].form == STREAM_HIDING_USAGE, "", NEVER);
}

START_TEST(a_reply_reaches_the_caller_as_it_was_written_and_ends_as_it_ended)
{
    struct run run;
    begin_row(&run, _i);
    feed(&run, span_cstr(replies[_i].reply));
    finish(&run, replies[_i].is_whole);
    check_reply(_i, &run, "in one piece", 0);
    end(&run);
}
END_TEST

START_TEST(a_reply_that_comes_byte_by_byte_is_the_same)
{
    struct run run;
    begin_row(&run, _i);
    feed_in_pieces(&run, span_cstr(replies[_i].reply), 1);
    finish(&run, replies[_i].is_whole);
    check_reply(_i, &run, "in pieces of", 1);
    end(&run);
}
END_TEST

START_TEST(a_reply_that_is_cut_into_two_pieces_anywhere_is_the_same)
{
    struct span reply = span_cstr(replies[_i].reply);
    for (size_t at = 1; at < reply.len; at++) {
        struct run run;
        begin_row(&run, _i);
        feed(&run, span_of(reply.ptr, at));
        feed(&run, span_of(reply.ptr + at, reply.len - at));
        finish(&run, replies[_i].is_whole);
        check_reply(_i, &run, "cut at", at);
        end(&run);
    }
}
END_TEST

static const struct stream_error cut_error = {
    .message = "The reply broke off.",
    .type = "server_error",
    .code = "upstream_unavailable",
};

/* What ends honestly: the mark once, or the error event once, and never both. */
START_TEST(a_committed_stream_has_one_end)
{
    struct run run;
    begin_row(&run, _i);
    feed_in_pieces(&run, span_cstr(replies[_i].reply), 7);
    finish(&run, replies[_i].is_whole);
    bool is_finished = run.relay.end == RELAY_FINISHED;
    if (run.relay.is_committed && run.relay.is_stream && !is_finished) {
        ck_assert_int_eq(relay_fail(&run.relay, &cut_error), 0);
        ck_assert_msg(run.caller.has_last, "nothing follows the error event");
    }
    struct span got = buf_span(&run.caller.bytes);
    if (run.relay.is_committed && run.relay.is_stream) {
        char lines[2048];
        struct span plain = with_plain_line_ends(got, lines);
        ck_assert_uint_eq(count_in(got, "[DONE]"), is_finished ? 1 : 0);
        ck_assert_uint_eq(count_in(got, "data: {\"error\":"), is_finished ? 0 : 1);
        ck_assert(span_is(span_of(plain.ptr + plain.len - 2, 2), "\n\n"));
    }
    end(&run);
}
END_TEST

/* A caller that leaves at any call hears no further one, and nothing is called finished. */
START_TEST(a_sink_that_fails_ends_the_relay_whenever_it_does)
{
    struct run run;
    begin_row(&run, _i);
    feed_in_pieces(&run, span_cstr(replies[_i].reply), 9);
    finish(&run, replies[_i].is_whole);
    int calls = run.caller.calls;
    end(&run);
    for (int at = 0; at < calls; at++) {
        begin(&run, replies[_i].form != PLAIN, replies[_i].form == STREAM_HIDING_USAGE, "", at);
        feed_in_pieces(&run, span_cstr(replies[_i].reply), 9);
        finish(&run, replies[_i].is_whole);
        ck_assert_msg(run.relay.end == RELAY_CALLER_LEFT || run.relay.end == RELAY_ERROR,
                      "%s\ncall %d: end %d", replies[_i].reply, at, run.relay.end);
        ck_assert(run.relay.end == RELAY_CALLER_LEFT || replies[_i].end == RELAY_ERROR);
        end(&run);
    }
}
END_TEST

/* --- what the exchange is told --- */

static const struct {
    bool is_stream;
    const char *pieces[4];
    enum exchange_want wants[4];
} conversations[] = {
    { true,
      { PING, ROLE, HELLO, MARK },
      { EXCHANGE_MORE, EXCHANGE_MORE, EXCHANGE_CONTENT, EXCHANGE_LINGER } },
    { true,
      { USAGE, HELLO, PING, STOP },
      { EXCHANGE_MORE, EXCHANGE_CONTENT, EXCHANGE_CONTENT, EXCHANGE_CONTENT } },
    { true, { HELLO STOP MARK }, { EXCHANGE_LINGER } },
    { true, { ROLE, EVENT(FAILED) }, { EXCHANGE_MORE, EXCHANGE_ENOUGH } },
    { true, { HELLO, EVENT(FAILED) }, { EXCHANGE_CONTENT, EXCHANGE_ENOUGH } },
    { true, { MARK }, { EXCHANGE_ENOUGH } },
    /* a document is no content of a stream */
    { true, { "\n", "{", "}" }, { EXCHANGE_MORE, EXCHANGE_MORE, EXCHANGE_MORE } },
    { false,
      { "\n", " \n", "{", "}" },
      { EXCHANGE_MORE, EXCHANGE_MORE, EXCHANGE_CONTENT, EXCHANGE_CONTENT } },
};

START_TEST(the_exchange_hears_when_content_came_and_when_there_is_enough)
{
    struct run run;
    begin(&run, conversations[_i].is_stream, false, "", NEVER);
    for (size_t i = 0; i < COUNT(conversations[_i].pieces) && conversations[_i].pieces[i] != NULL; i++) {
        feed(&run, span_cstr(conversations[_i].pieces[i]));
        ck_assert_msg(run.want == conversations[_i].wants[i], "conversation %d, piece %zu: %d", _i, i,
                      run.want);
    }
    end(&run);
}
END_TEST

START_TEST(a_caller_that_left_stops_the_exchange)
{
    struct run run;
    begin(&run, true, false, "", 1);
    feed(&run, span_cstr(ROLE HELLO));
    ck_assert_int_eq(run.want, EXCHANGE_LEFT);
    finish(&run, false);
    ck_assert_int_eq(run.relay.end, RELAY_CALLER_LEFT);
    end(&run);
}
END_TEST

static const struct {
    bool is_stream;
    const char *type, *caller_gets;
} types[] = {
    { true, "text/event-stream", "text/event-stream" },
    { true, "text/event-stream; charset=utf-8", "text/event-stream; charset=utf-8" },
    { true, "", "text/event-stream" },
    { true, "application/json", "text/event-stream" },
    { false, "application/json; charset=utf-8", "application/json; charset=utf-8" },
    { false, "", "application/json" },
};

START_TEST(the_caller_gets_a_media_type_that_fits)
{
    struct run run;
    begin(&run, types[_i].is_stream, false, types[_i].type, NEVER);
    feed(&run, span_cstr(types[_i].is_stream ? HELLO STOP : ANSWER));
    finish(&run, true);
    ck_assert_str_eq(run.caller.type, types[_i].caller_gets);
    ck_assert_int_eq(run.caller.whole_bytes, types[_i].is_stream ? -1 : (int64_t)strlen(ANSWER));
    end(&run);
}
END_TEST

/* Replies to requests for transcriptions: an upstream may answer who asked for a
 * stream with a whole reply, a plain reply may be text, and no mark is added. */
#define HEARD "data: {\"type\":\"transcript.text.delta\",\"delta\":\"Hi\"}\n\n"
#define HEARD_ALL "data: {\"type\":\"transcript.text.done\",\"text\":\"Hi\"}\n\n"
#define HEARD_NOTHING "data: {\"type\":\"transcript.text.delta\",\"delta\":\"\"}\n\n"

static const struct transcript {
    bool is_stream, wants_text;
    const char *type, *reply;
    enum relay_end end;
    const char *why;
    const char *caller_type; /* NULL: the caller gets nothing; else all of the reply */
    bool is_whole;           /* its length is known before */
} transcripts[] = {
    { true, false, "text/event-stream", HEARD HEARD_ALL, RELAY_FINISHED, NULL, "text/event-stream", false },
    { true, false, "", HEARD HEARD_ALL, RELAY_FINISHED, NULL, "text/event-stream", false },
    { true, false, "text/event-stream", HEARD HEARD_ALL MARK, RELAY_FINISHED, NULL, "text/event-stream",
      false },
    { true, false, "text/event-stream", HEARD, RELAY_CUT, "no_finish", "text/event-stream", false },
    { true, false, "text/event-stream", HEARD_NOTHING, RELAY_UNUSABLE, "empty_stream", NULL, false },
    { true, false, "application/json", "{\"text\":\"Hi\"}", RELAY_FINISHED, NULL, "application/json", true },
    { true, false, "application/json", "\n{\"text\":\"Hi\"}", RELAY_FINISHED, NULL, "application/json",
      true },
    { true, false, "application/json", "{\"error\":\"no\"}", RELAY_ERROR, "error_in_reply", NULL, false },
    { true, false, "application/json", HEARD HEARD_ALL, RELAY_UNUSABLE, "not_json", NULL, false },
    { true, true, "text/plain", "1\n00:00:00,000 --> 00:00:01,000\nHi\n", RELAY_FINISHED, NULL, "text/plain",
      true },
    { false, false, "application/json", "{\"text\":\"\"}", RELAY_FINISHED, NULL, "application/json", true },
    { false, false, "text/plain", "Hi", RELAY_UNUSABLE, "not_json", NULL, false },
    { false, true, "", "Hi", RELAY_FINISHED, NULL, "text/plain; charset=utf-8", true },
    { false, true, "text/vtt", "WEBVTT\n\n", RELAY_FINISHED, NULL, "text/vtt", true },
    { false, true, "text/plain", "\n", RELAY_FINISHED, NULL, "text/plain", true },
    { false, true, "text/plain", "", RELAY_UNUSABLE, "empty_reply", NULL, false },
    { false, true, "text/html", "<HTML>Bad gateway</HTML>", RELAY_UNUSABLE, "not_text", NULL, false },
};

START_TEST(a_transcript_comes_as_text_as_json_or_as_events_whatever_was_asked_for)
{
    const struct transcript *row = &transcripts[_i];
    const struct request_facts request = { .is_stream = row->is_stream, .wants_text = row->wants_text };

    for (size_t piece = 1; piece < 200; piece = piece * 2 + 5) {
        struct run run;
        begin_of(&run, &dialect_transcription, &request, false, row->type, NEVER);
        feed_in_pieces(&run, span_cstr(row->reply), piece);
        relay_finish(&run.relay, true);
        ck_assert_msg(run.relay.end == row->end, "%s: end %d", row->reply, run.relay.end);
        ck_assert_pstr_eq(run.relay.why, row->why);
        ck_assert_msg(span_is(buf_span(&run.caller.bytes), row->caller_type == NULL ? "" : row->reply),
                      "%s: the caller got \"%.*s\"", row->reply, (int)run.caller.bytes.len,
                      run.caller.bytes.data);
        ck_assert_str_eq(run.caller.type, row->caller_type == NULL ? "" : row->caller_type);
        ck_assert_int_eq(row->is_whole, run.caller.commits == 1 && run.caller.whole_bytes >= 0);
        end(&run);
    }
}
END_TEST

START_TEST(what_came_before_content_is_counted_and_kept)
{
    struct run run;
    begin(&run, true, true, "", NEVER);
    feed(&run, span_cstr(PING PING ROLE USAGE HELLO PING STOP USAGE MARK));
    finish(&run, true);
    ck_assert_uint_eq(run.relay.held_events, 3);
    ck_assert_int_eq(run.relay.state.usage.input, 3);
    ck_assert_int_eq(run.relay.state.usage.output, 4);
    ck_assert_str_eq(run.relay.state.finish_reason, "stop");
    end(&run);
}
END_TEST

START_TEST(events_that_come_together_leave_together)
{
    struct run run;
    begin(&run, true, false, "", NEVER);
    feed(&run, span_cstr(ROLE HELLO HELLO HELLO STOP MARK));
    ck_assert_int_eq(run.caller.calls, 3); /* the commitment, what was held, the rest */
    end(&run);
}
END_TEST

/* --- bytes that are not the upstream's --- */

static const struct {
    bool is_stream;
    const char *piece;
    bool may_beat;
} moments[] = {
    { true, "", true },
    { true, PING ROLE, true },
    { true, HELLO, true },
    { true, HELLO "data: {\"choi", true }, /* of an event that has not ended, nothing has gone */
    { true, HELLO "data: x", true },
    { true, HELLO STOP, true },
    { true, HELLO STOP MARK, false },
    { true, HELLO "data: [DONE]\r\n\r", false },
    { true, HELLO EVENT(FAILED), false },
    { false, "{\"choices\":", true },
};

START_TEST(other_bytes_may_go_between_events_of_a_stream_that_goes_on)
{
    struct run run;
    begin(&run, moments[_i].is_stream, false, "", NEVER);
    feed(&run, span_cstr(moments[_i].piece));
    ck_assert_msg(relay_is_between_events(&run.relay) == moments[_i].may_beat, "after %s", moments[_i].piece);
    end(&run);
}
END_TEST

/* --- bounds --- */

static struct span repeat(const char *text, size_t at_least)
{
    size_t len = strlen(text), times = at_least / len + 1;
    char *bytes = xmalloc(times * len);
    for (size_t i = 0; i < times; i++)
        memcpy(bytes + i * len, text, len);
    return span_of(bytes, times * len);
}

/* before, `fill` bytes of x, after. */
static struct span around(const char *before, size_t fill, const char *after)
{
    size_t head = strlen(before), tail = strlen(after);
    char *bytes = xmalloc(head + fill + tail);
    memcpy(bytes, before, head);
    memset(bytes + head, 'x', fill);
    memcpy(bytes + head + fill, after, tail);
    return span_of(bytes, head + fill + tail);
}

static const size_t piece_sizes[] = { 1, 100, 1000, 16384, 65536, 1 << 21 };

START_TEST(what_is_held_back_is_bounded_and_then_sent_in_order)
{
    struct span pings = repeat(PING, RELAY_HOLD_BYTES);
    struct run run;
    begin(&run, true, false, "", NEVER);
    feed_in_pieces(&run, span_of(pings.ptr, pings.len - strlen(PING)), piece_sizes[_i]);
    ck_assert(!run.relay.is_committed);
    ck_assert_uint_le(run.relay.held.len, RELAY_HOLD_BYTES);
    feed(&run, span_cstr(PING));
    ck_assert(run.relay.is_committed);
    ck_assert_int_eq(run.want, EXCHANGE_MORE); /* still no content */
    ck_assert(span_eq(buf_span(&run.caller.bytes), pings));
    feed(&run, span_cstr(PING HELLO STOP MARK));
    finish(&run, true);
    ck_assert_int_eq(run.relay.end, RELAY_FINISHED);
    ck_assert_uint_eq(run.caller.bytes.len, pings.len + strlen(PING HELLO STOP MARK));
    end(&run);
    free((void *)(uintptr_t)pings.ptr);
}
END_TEST

START_TEST(a_stream_of_nothing_beyond_the_bound_is_no_answer_though_committed)
{
    struct span pings = repeat(PING, RELAY_HOLD_BYTES);
    struct run run;
    begin(&run, true, false, "", NEVER);
    feed(&run, pings);
    finish(&run, true);
    ck_assert_int_eq(run.relay.end, RELAY_UNUSABLE);
    ck_assert(run.relay.is_committed);
    end(&run);
    free((void *)(uintptr_t)pings.ptr);
}
END_TEST

#define LARGE_BEGIN "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\""
#define LARGE_END "\"},\"finish_reason\":null}]}\n\n"

START_TEST(an_event_beyond_the_bound_passes_unjudged_and_unchanged)
{
    struct span large = around(ROLE LARGE_BEGIN, 2 * RELAY_EVENT_BYTES, LARGE_END STOP MARK);
    struct run run;
    begin(&run, true, false, "", NEVER);
    feed_in_pieces(&run, large, piece_sizes[_i]);
    finish(&run, true);
    ck_assert_int_eq(run.relay.end, RELAY_FINISHED);
    ck_assert(span_eq(buf_span(&run.caller.bytes), large));
    end(&run);
    free((void *)(uintptr_t)large.ptr);
}
END_TEST

/* Not even where the parts of the large event pause at what looks like the end of a line. */
START_TEST(no_other_bytes_go_into_an_event_that_passes_in_parts)
{
    struct span large = around(HELLO LARGE_BEGIN, 2 * RELAY_EVENT_BYTES, "\n"), ping = span_cstr(PING);
    struct run run;
    begin(&run, true, false, "", NEVER);
    feed_in_pieces(&run, large, piece_sizes[_i]);
    ck_assert(!relay_is_between_events(&run.relay));
    feed(&run, span_cstr("\n"));
    ck_assert(relay_is_between_events(&run.relay));
    feed(&run, ping);
    ck_assert(relay_is_between_events(&run.relay));
    end(&run);
    free((void *)(uintptr_t)large.ptr);
}
END_TEST

START_TEST(no_other_bytes_go_into_a_plain_reply_that_passes)
{
    struct span large = around("{\"x\":\"", RELAY_PLAIN_BYTES, "");
    struct run run;
    begin(&run, false, false, "", NEVER);
    feed(&run, large);
    ck_assert(run.relay.is_committed);
    ck_assert(!relay_is_between_events(&run.relay));
    end(&run);
    free((void *)(uintptr_t)large.ptr);
}
END_TEST

START_TEST(an_event_just_within_the_bound_is_judged)
{
    const char before[] = "data: {\"error\":{\"message\":\"", after[] = "\"}}\n\n";
    struct span large = around(before, RELAY_EVENT_BYTES - strlen(before) - strlen(after), after);
    struct run run;
    begin(&run, true, false, "", NEVER);
    feed_in_pieces(&run, large, piece_sizes[_i]);
    finish(&run, true);
    ck_assert_int_eq(run.relay.end, RELAY_ERROR);
    ck_assert(!run.relay.is_committed);
    ck_assert_uint_eq(run.relay.failure.len, RELAY_FAILURE_BYTES); /* the beginning of it */
    ck_assert(run.relay.failure.overflowed);
    end(&run);
    free((void *)(uintptr_t)large.ptr);
}
END_TEST

/* The error event must not become a line of the event that was cut. */
START_TEST(a_large_event_that_is_cut_is_closed_before_the_error)
{
    struct span large = around(HELLO LARGE_BEGIN, 2 * RELAY_EVENT_BYTES, "");
    const char expected[] = "xxx\n\ndata: {\"error\":";
    struct run run;
    begin(&run, true, false, "", NEVER);
    feed_in_pieces(&run, large, piece_sizes[_i]);
    finish(&run, false);
    ck_assert_int_eq(run.relay.end, RELAY_CUT);
    ck_assert_int_eq(relay_fail(&run.relay, &cut_error), 0);
    ck_assert_uint_eq(count_in(buf_span(&run.caller.bytes), expected), 1);
    end(&run);
    free((void *)(uintptr_t)large.ptr);
}
END_TEST

/* Nor may the mark, when the stream ends without the large event's blank line. */
START_TEST(a_large_last_event_is_closed_before_the_mark)
{
    static const char *const ends[] = { "\"}}]}", "\"}}]}\n", "\"}}]}\r\n" };
    for (size_t i = 0; i < COUNT(ends); i++) {
        struct span large = around(HELLO STOP LARGE_BEGIN, 2 * RELAY_EVENT_BYTES, ends[i]);
        struct run run;
        begin(&run, true, false, "", NEVER);
        feed_in_pieces(&run, large, piece_sizes[_i]);
        finish(&run, true);
        struct span got = buf_span(&run.caller.bytes);
        ck_assert_int_eq(run.relay.end, RELAY_FINISHED);
        ck_assert_msg(count_in(got, "}\n\n" MARK) + count_in(got, "\n\n\n" MARK) == 1 ||
                          count_in(got, "}\r\n\n\n" MARK) == 1,
                      "end %zu: %.*s", i, 60, got.ptr + got.len - 60);
        end(&run);
        free((void *)(uintptr_t)large.ptr);
    }
}
END_TEST

START_TEST(a_document_beyond_the_bound_is_not_a_stream)
{
    struct span large = around("{\"x\":\"", 2 * RELAY_HOLD_BYTES, "\"}");
    struct run run;
    begin(&run, true, false, "", NEVER);
    feed_in_pieces(&run, large, piece_sizes[_i]);
    ck_assert_int_eq(run.want, EXCHANGE_ENOUGH);
    finish(&run, false);
    ck_assert_int_eq(run.relay.end, RELAY_UNUSABLE);
    ck_assert_str_eq(run.relay.why, "not_a_stream");
    ck_assert(!run.relay.is_committed);
    end(&run);
    free((void *)(uintptr_t)large.ptr);
}
END_TEST

#define PLAIN_BEGIN "{\"choices\":[{\"index\":0,\"message\":{\"content\":\""
#define PLAIN_END "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9}}"

enum { PLAIN_AROUND = sizeof(PLAIN_BEGIN PLAIN_END) - 1 };

START_TEST(a_plain_reply_up_to_the_bound_is_checked_and_has_its_length)
{
    struct span body = around(PLAIN_BEGIN, RELAY_PLAIN_BYTES - PLAIN_AROUND, PLAIN_END);
    struct run run;
    ck_assert_uint_eq(body.len, RELAY_PLAIN_BYTES);
    begin(&run, false, false, "", NEVER);
    feed_in_pieces(&run, body, piece_sizes[_i]);
    ck_assert(!run.relay.is_committed);
    finish(&run, true);
    ck_assert_int_eq(run.relay.end, RELAY_FINISHED);
    ck_assert_int_eq(run.caller.whole_bytes, RELAY_PLAIN_BYTES);
    ck_assert(span_eq(buf_span(&run.caller.bytes), body));
    ck_assert_int_eq(run.relay.state.usage.input, 9);
    end(&run);
    free((void *)(uintptr_t)body.ptr);
}
END_TEST

START_TEST(a_plain_reply_beyond_the_bound_passes_as_it_comes)
{
    struct span body = around(PLAIN_BEGIN, RELAY_PLAIN_BYTES - PLAIN_AROUND + 1, PLAIN_END);
    struct run run;
    begin(&run, false, false, "", NEVER);
    feed_in_pieces(&run, body, piece_sizes[_i]);
    ck_assert(run.relay.is_committed);
    ck_assert_int_eq(run.caller.whole_bytes, -1);
    finish(&run, true);
    ck_assert_int_eq(run.relay.end, RELAY_FINISHED);
    ck_assert(span_eq(buf_span(&run.caller.bytes), body));
    ck_assert_int_eq(run.relay.state.usage.input, 9); /* it stands at the end */
    end(&run);
    free((void *)(uintptr_t)body.ptr);
}
END_TEST

START_TEST(a_large_plain_reply_that_is_cut_is_not_finished)
{
    struct span body = around(PLAIN_BEGIN, RELAY_PLAIN_BYTES + 3 * RELAY_TAIL_BYTES, "");
    struct run run;
    begin(&run, false, false, "", NEVER);
    feed_in_pieces(&run, body, piece_sizes[_i]);
    finish(&run, false);
    ck_assert_int_eq(run.relay.end, RELAY_CUT);
    ck_assert(run.relay.is_committed);
    end(&run);
    free((void *)(uintptr_t)body.ptr);
}
END_TEST

START_TEST(a_sink_that_fails_within_a_large_plain_reply_stops_it)
{
    struct span body = around(PLAIN_BEGIN, 2 * RELAY_PLAIN_BYTES, PLAIN_END);
    for (int at = 0; at < 4; at++) {
        struct run run;
        begin(&run, false, false, "", at);
        feed_in_pieces(&run, body, 16384);
        ck_assert_int_eq(run.want, EXCHANGE_LEFT);
        finish(&run, true);
        ck_assert_int_eq(run.relay.end, RELAY_CALLER_LEFT);
        end(&run);
    }
    free((void *)(uintptr_t)body.ptr);
}
END_TEST

START_TEST(white_space_alone_beyond_the_bound_is_no_answer)
{
    struct span spaces = repeat(" ", RELAY_PLAIN_BYTES + 1);
    struct run run;
    begin(&run, false, false, "", NEVER);
    feed_in_pieces(&run, spaces, piece_sizes[_i]);
    ck_assert_int_eq(run.want, EXCHANGE_ENOUGH);
    ck_assert_int_eq(run.relay.end, RELAY_UNUSABLE);
    end(&run);
    free((void *)(uintptr_t)spaces.ptr);
}
END_TEST

START_TEST(the_error_event_says_whether_the_caller_heard_it)
{
    struct run run;
    begin(&run, true, false, "", 2);
    feed(&run, span_cstr(HELLO));
    finish(&run, false);
    ck_assert_int_eq(relay_fail(&run.relay, &cut_error), ERR_CLIENT_GONE);
    end(&run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay");
    TCase *forms = tcase_create("replies"), *talk = tcase_create("conversation"),
          *bounds = tcase_create("bounds");
    int n = (int)COUNT(replies), sizes = (int)COUNT(piece_sizes);
    tcase_set_timeout(forms, 60);
    tcase_set_timeout(bounds, 60);
    tcase_add_loop_test(forms, a_reply_reaches_the_caller_as_it_was_written_and_ends_as_it_ended, 0, n);
    tcase_add_loop_test(forms, a_reply_that_comes_byte_by_byte_is_the_same, 0, n);
    tcase_add_loop_test(forms, a_reply_that_is_cut_into_two_pieces_anywhere_is_the_same, 0, n);
    tcase_add_loop_test(forms, a_committed_stream_has_one_end, 0, n);
    tcase_add_loop_test(forms, a_sink_that_fails_ends_the_relay_whenever_it_does, 0, n);
    tcase_add_loop_test(talk, the_exchange_hears_when_content_came_and_when_there_is_enough, 0,
                        (int)COUNT(conversations));
    tcase_add_test(talk, a_caller_that_left_stops_the_exchange);
    tcase_add_loop_test(talk, the_caller_gets_a_media_type_that_fits, 0, (int)COUNT(types));
    tcase_add_loop_test(talk, a_transcript_comes_as_text_as_json_or_as_events_whatever_was_asked_for, 0,
                        (int)COUNT(transcripts));
    tcase_add_test(talk, what_came_before_content_is_counted_and_kept);
    tcase_add_test(talk, events_that_come_together_leave_together);
    tcase_add_test(talk, the_error_event_says_whether_the_caller_heard_it);
    tcase_add_loop_test(talk, other_bytes_may_go_between_events_of_a_stream_that_goes_on, 0,
                        (int)COUNT(moments));
    tcase_add_loop_test(bounds, no_other_bytes_go_into_an_event_that_passes_in_parts, 0, sizes);
    tcase_add_test(bounds, no_other_bytes_go_into_a_plain_reply_that_passes);
    tcase_add_loop_test(bounds, what_is_held_back_is_bounded_and_then_sent_in_order, 0, sizes);
    tcase_add_test(bounds, a_stream_of_nothing_beyond_the_bound_is_no_answer_though_committed);
    tcase_add_loop_test(bounds, an_event_beyond_the_bound_passes_unjudged_and_unchanged, 0, sizes);
    tcase_add_loop_test(bounds, an_event_just_within_the_bound_is_judged, 0, sizes);
    tcase_add_loop_test(bounds, a_large_event_that_is_cut_is_closed_before_the_error, 0, sizes);
    tcase_add_loop_test(bounds, a_large_last_event_is_closed_before_the_mark, 0, sizes);
    tcase_add_loop_test(bounds, a_document_beyond_the_bound_is_not_a_stream, 0, sizes);
    tcase_add_loop_test(bounds, a_plain_reply_up_to_the_bound_is_checked_and_has_its_length, 0, sizes);
    tcase_add_loop_test(bounds, a_plain_reply_beyond_the_bound_passes_as_it_comes, 0, sizes);
    tcase_add_loop_test(bounds, a_large_plain_reply_that_is_cut_is_not_finished, 0, sizes);
    tcase_add_test(bounds, a_sink_that_fails_within_a_large_plain_reply_stops_it);
    tcase_add_loop_test(bounds, white_space_alone_beyond_the_bound_is_no_answer, 0, sizes);
    suite_add_tcase(suite, forms);
    suite_add_tcase(suite, talk);
    suite_add_tcase(suite, bounds);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
