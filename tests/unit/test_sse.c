#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/dialect/sse.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TEXT(literal)                \
    {                                \
        literal, sizeof(literal) - 1 \
    }
#define BOM "\xEF\xBB\xBF"

enum { LIMIT = 64 };

/* What a stream gave: the raw bytes, and each event as "name|data|flags;" with the flags
 * d(ata), c(omment), f(oreign). Parts of one large event are one "L;". Events of blank lines
 * only are left out: a LF that is cut off from its CR may join one. */
struct transcript {
    struct buf raw, events;
};

static int note_event(void *ctx, const struct sse_event *event)
{
    struct transcript *t = ctx;
    buf_append_span(&t->raw, event->raw);
    ck_assert(!event->is_last_part || event->is_part);
    if (event->is_part) {
        ck_assert(event->data.len == 0 && event->name.len == 0 && !event->has_data && !event->is_comment);
        return event->is_last_part ? buf_append_cstr(&t->events, "L;") : 0;
    }
    if (event->is_comment && span_trim(event->raw).len == 0)
        return 0;
    buf_append_span(&t->events, event->name);
    buf_append_cstr(&t->events, "|");
    buf_append_span(&t->events, event->data);
    return buf_printf(&t->events, "|%s%s%s;", event->has_data ? "d" : "", event->is_comment ? "c" : "",
                      event->is_foreign ? "f" : "");
}

static const struct {
    struct span stream;
    const char *events;
    const char *rest; /* held after the last piece, before sse_finish */
} STREAMS[] = {
    { TEXT("data: a\n\ndata: b\n\n"), "|a|d;|b|d;", "" },
    { TEXT("data: a\r\n\r\ndata: b\r\n\r\n"), "|a|d;|b|d;", "" },
    { TEXT("data: a\r\rdata: b\r\r"), "|a|d;|b|d;", "" },
    { TEXT("data: a\r\n\ndata: b\n\r\ndata: c\r\r\ndata: d\n\r"), "|a|d;|b|d;|c|d;|d|d;", "" },
    { TEXT("data:a\n\ndata:  a\n\ndata: \n\ndata:\n\ndata\n\n"), "|a|d;| a|d;||d;||d;||d;", "" },
    { TEXT("data: a\ndata: b\n\n"), "|a\nb|d;", "" },
    { TEXT("data\ndata\n\n"), "|\n|d;", "" },
    { TEXT("data\ndata:x\ndata\r\n\n"), "|\nx\n|d;", "" },
    { TEXT("event: ping\ndata: {}\n\n"), "ping|{}|d;", "" },
    { TEXT("event: a\nevent: b\ndata: 1\nid: 7\nretry: 10\n\n"), "b|1|d;", "" },
    { TEXT("event: only\n\n"), "only||;", "" },
    { TEXT(": keep-alive\n\n"), "||c;", "" },
    { TEXT(":\n\n"), "||c;", "" },
    { TEXT(": OPENROUTER PROCESSING\n\ndata: x\n\n"), "||c;|x|d;", "" },
    { TEXT(": c\ndata: x\n: d\n\n"), "|x|d;", "" },
    { TEXT("\n\n\ndata: x\n\n\n\n"), "|x|d;", "" },
    { TEXT(BOM "data: x\n\n"), "|x|d;", "" },
    { TEXT(BOM "\ndata: x\n\n"), "|x|d;", "" },
    { TEXT(BOM ": c\n\n" BOM "data: x\n\n"), "||c;||f;", "" },
    { TEXT("\xEF"
           "data: x\n\n"),
      "||f;", "" },
    { TEXT("unknown: x\n\n"), "||;", "" },
    { TEXT("{\"error\":{\"code\":1}}\n\n"), "||f;", "" },
    { TEXT("{\n  \"error\": 1\n}\n\n"), "||f;", "" },
    { TEXT("data: x\n{\"error\":1}\n\n"), "|x|df;", "" },
    { TEXT("<html>\n<h1>502</h1>\n\n"), "||f;", "" },
    { TEXT("upstream failed\n\n"), "||f;", "" },
    { TEXT(" data: x\n\n"), "||f;", "" },
    { TEXT("Data: x\n\n"), "||;", "" },
    { TEXT("data: [DONE]\n"), "|[DONE]|d;", "data: [DONE]\n" },
    { TEXT("data: [DONE]\r\n"), "|[DONE]|d;", "data: [DONE]\r\n" },
    { TEXT("data: a\n\ndata: [DO"), "|a|d;|[DO|d;", "data: [DO" },
    { TEXT("data: a\ndata: b"), "|a\nb|d;", "data: a\ndata: b" },
    { TEXT("{\"error\":1}"), "||f;", "{\"error\":1}" },
    { TEXT("{\"error\":1}\n"), "||f;", "{\"error\":1}\n" },
    { TEXT("data: 0123456789012345678901234567890123456789\n: 0123456789\n\n"),
      "|0123456789012345678901234567890123456789|d;", "" },
    { TEXT("data: 01234567890123456789012345678901234567890123456789\n: 0123456789\n\ndata: x\n\n"),
      "L;|x|d;", "" },
    { TEXT(": c\n\ndata: 0123456789012345678901234567890123456789012345678901234567890123456789\r\n\r\n: "
           "d\n\n"),
      "||c;L;||c;", "" },
    { TEXT("data: 0123456789012345678901234567890123456789012345678901234567890123456789"), "L;", "" },
    { TEXT("data: 0123456789012345678901234567890123456789012345678901234567890123456789\n"), "L;", "" },
    { TEXT(""), "", "" },
};

static void feed(struct sse_framer *framer, struct transcript *t, struct span piece)
{
    /* A copy of its own, so that a read beyond the piece is seen. */
    char *copy = malloc(piece.len + (piece.len == 0));
    ck_assert_ptr_nonnull(copy);
    if (piece.len > 0)
        memcpy(copy, piece.ptr, piece.len);
    ck_assert_int_eq(sse_feed(framer, span_of(copy, piece.len), note_event, t), 0);
    free(copy);
}

/* The stream in pieces that end at the given places. */
static void check_stream(int row, const size_t *ends, size_t n_ends)
{
    struct sse_framer framer;
    struct transcript t;
    struct span stream = STREAMS[row].stream;
    size_t from = 0;
    buf_init(&t.raw, 4096);
    buf_init(&t.events, 4096);
    sse_init(&framer, LIMIT);
    for (size_t i = 0; i < n_ends; i++) {
        feed(&framer, &t, span_of(stream.ptr + from, ends[i] - from));
        from = ends[i];
        ck_assert_uint_le(framer.held.len, LIMIT);
    }
    feed(&framer, &t, span_of(stream.ptr + from, stream.len - from));
    struct span rest = sse_rest(&framer);
    ck_assert_msg(span_is(rest, STREAMS[row].rest), "row %d, first cut %zu: rest %.*s", row,
                  n_ends > 0 ? ends[0] : 0, (int)rest.len, rest.ptr);
    bool is_open = rest.len > 0 || framer.in_large;
    ck_assert_int_eq(sse_finish(&framer, note_event, &t), 0);
    ck_assert_uint_eq(sse_rest(&framer).len, 0);
    if (is_open && t.raw.len > stream.len)
        t.raw.len -= 2; /* the LFs that were missing */
    ck_assert_msg(span_eq(buf_span(&t.raw), stream), "row %d, first cut %zu: raw bytes %.*s", row,
                  n_ends > 0 ? ends[0] : 0, (int)t.raw.len, t.raw.data);
    ck_assert_msg(span_is(buf_span(&t.events), STREAMS[row].events), "row %d, first cut %zu: %.*s, not %s",
                  row, n_ends > 0 ? ends[0] : 0, (int)t.events.len, t.events.data, STREAMS[row].events);
    sse_free(&framer);
    buf_free(&t.raw);
    buf_free(&t.events);
}

START_TEST(finds_the_events_of_a_stream_in_one_piece)
{
    check_stream(_i, NULL, 0);
}
END_TEST

START_TEST(finds_the_same_events_wherever_the_stream_is_cut)
{
    size_t len = STREAMS[_i].stream.len;
    for (size_t first = 0; first <= len; first++)
        for (size_t second = first; second <= len; second++)
            check_stream(_i, (const size_t[]){ first, second }, 2);
}
END_TEST

START_TEST(finds_the_same_events_byte_by_byte)
{
    size_t ends[256];
    size_t len = STREAMS[_i].stream.len;
    ck_assert_uint_le(len, COUNT(ends));
    for (size_t i = 0; i < len; i++)
        ends[i] = i + 1;
    check_stream(_i, ends, len);
}
END_TEST

static int keep_event(void *ctx, const struct sse_event *event)
{
    *(struct sse_event *)ctx = *event;
    return 0;
}

START_TEST(does_not_copy_an_event_that_lies_in_one_piece)
{
    static const char piece[] = "data: one\n\ndata: tw";
    struct sse_framer framer;
    struct sse_event event = { 0 };
    sse_init(&framer, LIMIT);
    ck_assert_int_eq(sse_feed(&framer, span_cstr(piece), keep_event, &event), 0);
    ck_assert_ptr_eq(event.raw.ptr, piece);
    ck_assert_uint_eq(event.raw.len, strlen("data: one\n\n"));
    ck_assert_ptr_eq(event.data.ptr, piece + strlen("data: "));
    sse_free(&framer);
}
END_TEST

/* A line's end is looked for in several bytes at once: of each byte there is, in front of it and behind. */
START_TEST(finds_a_lines_end_wherever_it_stands_and_whatever_stands_beside)
{
    static const char *const ends[] = { "\n\n", "\r\r", "\r\n\r\n" };
    for (unsigned byte = 0; byte < 256; byte++) {
        for (size_t len = 1; len < 20 && byte != '\n' && byte != '\r'; len++) {
            struct sse_framer framer;
            struct sse_event event = { 0 };
            char piece[64] = "data:.";
            memset(piece + 6, (int)byte, len);
            size_t size = 6 + len;
            for (const char *end = ends[(byte + len) % COUNT(ends)]; *end != '\0'; end++)
                piece[size++] = *end;
            memset(piece + size, (int)byte, sizeof(piece) - size);
            sse_init(&framer, LIMIT * 4);
            ck_assert_int_eq(sse_feed(&framer, span_of(piece, sizeof(piece)), keep_event, &event), 0);
            ck_assert_msg(span_eq(event.data, span_of(piece + 5, len + 1)) && event.raw.len == size,
                          "%zu bytes %02x: the data have %zu, the event %zu of %zu", len, byte,
                          event.data.len, event.raw.len, size);
            sse_free(&framer);
        }
    }
}
END_TEST

START_TEST(keeps_a_nul_in_the_data)
{
    static const char piece[] = "data: a\0b\n\n";
    struct sse_framer framer;
    struct sse_event event = { 0 };
    sse_init(&framer, LIMIT);
    ck_assert_int_eq(sse_feed(&framer, span_of(piece, sizeof(piece) - 1), keep_event, &event), 0);
    ck_assert(span_eq(event.data, span_of("a\0b", 3)));
    sse_free(&framer);
}
END_TEST

START_TEST(gives_an_event_at_its_last_cr_without_waiting_for_a_lf)
{
    struct sse_framer framer;
    struct sse_event event = { 0 };
    sse_init(&framer, LIMIT);
    ck_assert_int_eq(sse_feed(&framer, span_cstr("data: x\r\n\r"), keep_event, &event), 0);
    ck_assert(event.has_data && span_is(event.raw, "data: x\r\n\r"));
    ck_assert_uint_eq(sse_rest(&framer).len, 0);
    ck_assert_int_eq(sse_feed(&framer, span_cstr("\n"), keep_event, &event), 0);
    ck_assert_uint_eq(sse_rest(&framer).len, 0);
    ck_assert_int_eq(sse_feed(&framer, span_cstr("data: y\r\n\r\n"), keep_event, &event), 0);
    ck_assert(span_is(event.raw, "\ndata: y\r\n\r\n"));
    sse_free(&framer);
}
END_TEST

static int count_parts(void *ctx, const struct sse_event *event)
{
    size_t *sizes = ctx;
    ck_assert(event->is_part);
    sizes[0] += event->raw.len;
    sizes[1]++;
    return 0;
}

START_TEST(passes_a_large_event_on_as_it_comes)
{
    struct sse_framer framer;
    size_t sizes[2] = { 0, 0 };
    char piece[1000];
    memset(piece, 'x', sizeof(piece));
    memcpy(piece, "data: ", 6);
    sse_init(&framer, LIMIT);
    for (int i = 1; i <= 100; i++) {
        ck_assert_int_eq(sse_feed(&framer, span_of(piece, sizeof(piece)), count_parts, sizes), 0);
        ck_assert_uint_eq(sizes[0], (size_t)i * sizeof(piece));
    }
    ck_assert_uint_eq(sizes[1], 100);
    sse_free(&framer);
}
END_TEST

static int refuse_second(void *ctx, const struct sse_event *event)
{
    (void)event;
    return ++*(int *)ctx == 2 ? ERR_CLIENT_GONE : 0;
}

START_TEST(ends_when_the_caller_says_so)
{
    struct sse_framer framer;
    int calls = 0;
    sse_init(&framer, LIMIT);
    int r = sse_feed(&framer, span_cstr("data: a\n\ndata: b\n\ndata: c\n\n"), refuse_second, &calls);
    ck_assert_int_eq(r, ERR_CLIENT_GONE);
    ck_assert_int_eq(calls, 2);
    sse_free(&framer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sse");
    TCase *streams = tcase_create("streams"), *promises = tcase_create("promises");
    tcase_set_timeout(streams, 30);
    tcase_add_loop_test(streams, finds_the_events_of_a_stream_in_one_piece, 0, (int)COUNT(STREAMS));
    tcase_add_loop_test(streams, finds_the_same_events_wherever_the_stream_is_cut, 0, (int)COUNT(STREAMS));
    tcase_add_loop_test(streams, finds_the_same_events_byte_by_byte, 0, (int)COUNT(STREAMS));
    tcase_add_test(promises, does_not_copy_an_event_that_lies_in_one_piece);
    tcase_add_test(promises, finds_a_lines_end_wherever_it_stands_and_whatever_stands_beside);
    tcase_add_test(promises, keeps_a_nul_in_the_data);
    tcase_add_test(promises, gives_an_event_at_its_last_cr_without_waiting_for_a_lf);
    tcase_add_test(promises, passes_a_large_event_on_as_it_comes);
    tcase_add_test(promises, ends_when_the_caller_says_so);
    suite_add_tcase(suite, streams);
    suite_add_tcase(suite, promises);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
