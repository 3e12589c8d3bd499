/* Audio in JSON and in events, whole, byte by byte, and cut at every place. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/json_audio.h"
#include "adapters/event_reader.h"
#include "core/base/err.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const DATA_PATH[] = { "data", NULL };
static const char *const DEEP_PATH[] = { "output", "audio", "data", NULL };

/* What was read, as text: the audio, and behind it in braces each object with the number of its bytes. */
struct transcript {
    struct buf text;
};

static int note_audio(void *ctx, struct span bytes)
{
    struct transcript *t = ctx;
    return buf_append_span(&t->text, bytes);
}

static int note_object(void *ctx, struct span text, uint64_t audio_bytes)
{
    struct transcript *t = ctx;
    buf_append_span(&t->text, text);
    return buf_printf(&t->text, "#%u;", (unsigned)audio_bytes);
}

/* Reads the text in pieces: the first of `first` bytes, the others of `further`. 0, or the error. */
static int read_pieces(const char *const *path, struct span text, size_t first, size_t further,
                       struct transcript *t)
{
    const struct json_audio_sink sink = { .ctx = t, .on_audio = note_audio, .on_object = note_object };
    struct json_audio reader;
    int r = 0;
    size_t n = first;
    json_audio_init(&reader, path);
    buf_init(&t->text, 1 << 20);
    while (text.len > 0 && r == 0) {
        n = n < text.len ? n : text.len;
        r = json_audio_feed(&reader, span_of(text.ptr, n), &sink);
        text = span_of(text.ptr + n, text.len - n);
        n = further;
    }
    if (r == 0 && !json_audio_is_between(&reader))
        r = ERR_STOPPED;
    json_audio_free(&reader);
    return r;
}

static const struct {
    const char *const *path;
    const char *text, *read;
    int result; /* ERR_STOPPED: the text ends inside an object */
} TEXTS[] = {
    { DATA_PATH, "", "", 0 },
    { DATA_PATH, "{\"data\":\"aGVsbG8=\"}", "hello{\"data\":\"\"}#5;", 0 },
    { DATA_PATH, "{\"code\":3000,\"data\":\"aGk=\",\"x\":[1,{\"data\":\"no\"}]}\n",
      "hi{\"code\":3000,\"data\":\"\",\"x\":[1,{\"data\":\"no\"}]}#2;", 0 },
    { DATA_PATH, "{\"data\":\"aGk=\"}\n{\"data\":null}{\"code\":1} \r\n\t{\"data\":\"\"}",
      "hi{\"data\":\"\"}#2;{\"data\":null}#0;{\"code\":1}#0;{\"data\":\"\"}#0;", 0 },
    /* Only the place counts. */
    { DEEP_PATH,
      "{\"data\":\"a\",\"output\":{\"data\":\"b\",\"audio\":{\"x\":{\"data\":\"c\"},\"data\":\"aGk=\"}}}",
      "hi{\"data\":\"a\",\"output\":{\"data\":\"b\",\"audio\":{\"x\":{\"data\":\"c\"},\"data\":\"\"}}}#2;",
      0 },
    { DEEP_PATH, "{\"audio\":{\"data\":\"x\"},\"output\":[{\"audio\":{\"data\":\"y\"}}]}",
      "{\"audio\":{\"data\":\"x\"},\"output\":[{\"audio\":{\"data\":\"y\"}}]}#0;", 0 },
    { DEEP_PATH, "{\"output\":{\"audio\":\"data\"}}", "{\"output\":{\"audio\":\"data\"}}#0;", 0 },
    { DATA_PATH, "{\"x\":\"data\",\"y\":\"data\"}", "{\"x\":\"data\",\"y\":\"data\"}#0;", 0 },
    { DATA_PATH, "{\"data\":{\"data\":\"x\"}}", "{\"data\":{\"data\":\"x\"}}#0;", 0 },
    { DATA_PATH, "{\"data\":[\"eA==\"]}", "{\"data\":[\"eA==\"]}#0;", 0 },
    /* However it is spelled. */
    { DATA_PATH, "{\"d\\u0061ta\" : \"a\\u0047k=\"}", "hi{\"d\\u0061ta\" : \"\"}#2;", 0 },
    { DATA_PATH, "{\"data\":\"\\/\\u002b\\u002B\\/\"}", "\xFF\xEF\xBF{\"data\":\"\"}#3;", 0 },
    { DATA_PATH, "{\"m\":\"a\\\"}{\\\\\",\"data\":\"aGk\"}", "hi{\"m\":\"a\\\"}{\\\\\",\"data\":\"\"}#2;",
      0 },
    /* What is none of it. */
    { DATA_PATH, "{\"data\":\"aGk", "", ERR_STOPPED },
    { DATA_PATH, "{\"code\":1", "", ERR_STOPPED },
    { DATA_PATH, "<html>", "", ERR_FORMAT },
    { DATA_PATH, "[]", "", ERR_FORMAT },
    { DATA_PATH, "null", "", ERR_FORMAT },
    { DATA_PATH, "{\"a\":1]", "", ERR_FORMAT },
    { DATA_PATH, "{]}", "", ERR_FORMAT },
    { DATA_PATH, "{\"a\":tru}", "", ERR_FORMAT },
    { DATA_PATH, "{\"a\":1,\"a\":2}", "", ERR_CONFLICT },
    { DATA_PATH, "{\"data\":\"aGk=\",\"d\\u0061ta\":\"aGk=\"}", "", ERR_CONFLICT },
    { DATA_PATH, "{\"data\":\"a\"}", "", ERR_FORMAT },
    { DATA_PATH, "{\"data\":\"aGk=aGk=\"}", "", ERR_FORMAT },
    { DATA_PATH, "{\"data\":\"aGk==\"}", "", ERR_FORMAT },
    { DATA_PATH, "{\"data\":\"aG==\"}{\"data\":\"a===\"}", "", ERR_FORMAT },
    { DATA_PATH, "{\"data\":\"aG k\"}", "", ERR_FORMAT },
    { DATA_PATH, "{\"data\":\"aG-_\"}", "", ERR_FORMAT },
    { DATA_PATH, "{\"data\":\"aG\\nk\"}", "", ERR_FORMAT },
    { DATA_PATH, "{\"data\":\"aG\\u00e9\"}", "", ERR_FORMAT },
    { DATA_PATH, "{\"data\":\"aG\\u00zz\"}", "", ERR_FORMAT },
    { DATA_PATH, "{\"d\\u00zz\":\"aGk=\"}", "", ERR_FORMAT },
};

static void check_text(int row, size_t first, size_t further)
{
    struct transcript t;
    struct span text = span_cstr(TEXTS[row].text);
    int expected = TEXTS[row].result;
    int r = read_pieces(TEXTS[row].path, text, first, further, &t);
    ck_assert_msg(r == expected, "%s in pieces of %zu and %zu bytes: expected %d, found %d", TEXTS[row].text,
                  first, further, expected, r);
    if (r == 0)
        ck_assert_msg(span_is(buf_span(&t.text), TEXTS[row].read), "%s: expected %s, found %.*s",
                      TEXTS[row].text, TEXTS[row].read, (int)t.text.len, t.text.data);
    buf_free(&t.text);
}

START_TEST(audio_is_taken_out_of_objects_in_whatever_pieces_they_come)
{
    size_t len = strlen(TEXTS[_i].text);
    check_text(_i, len, len);
    check_text(_i, 1, 1);
    for (size_t first = 1; first < len; first++)
        check_text(_i, first, len);
}
END_TEST

START_TEST(a_clip_of_megabytes_in_one_line_is_not_held)
{
    enum { BYTES = 4 * 1024 * 1024 };
    struct transcript t = { 0 };
    const struct json_audio_sink sink = { .ctx = &t, .on_audio = note_audio, .on_object = note_object };
    struct json_audio reader;
    json_audio_init(&reader, DATA_PATH);
    buf_init(&t.text, BYTES * 2);
    char digits[4096];
    memset(digits, 'Q', sizeof(digits));
    ck_assert_int_eq(json_audio_feed(&reader, span_cstr("{\"data\":\""), &sink), 0);
    for (size_t n = 1; n <= BYTES / sizeof(digits); n++) {
        ck_assert_int_eq(json_audio_feed(&reader, span_of(digits, sizeof(digits)), &sink), 0);
        ck_assert_uint_eq(t.text.len, n * sizeof(digits) / 4 * 3);
    }
    ck_assert_uint_le(reader.text.capacity, JSON_AUDIO_BYTES);
    ck_assert_int_eq(json_audio_feed(&reader, span_cstr("\"}"), &sink), 0);
    ck_assert(json_audio_is_between(&reader));
    json_audio_free(&reader);
    buf_free(&t.text);
}
END_TEST

START_TEST(what_is_around_the_audio_has_bounds)
{
    struct transcript t;
    struct buf text;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < JSON_AUDIO_DEPTH + 1; i++)
        buf_append_cstr(&text, "{\"a\":");
    ck_assert_int_eq(read_pieces(DATA_PATH, buf_span(&text), 7, 7, &t), ERR_LIMIT);
    buf_free(&t.text);
    buf_clear(&text);
    buf_append_cstr(&text, "{\"message\":\"");
    for (int i = 0; i < JSON_AUDIO_BYTES; i++)
        buf_append_char(&text, 'x');
    ck_assert_int_eq(read_pieces(DATA_PATH, buf_span(&text), 1000, 1000, &t), ERR_LIMIT);
    buf_free(&t.text);
    buf_free(&text);
}
END_TEST

static int refuse_audio(void *ctx, struct span bytes)
{
    (void)ctx;
    (void)bytes;
    return ERR_CLIENT_GONE;
}

START_TEST(a_sink_that_fails_ends_the_reading)
{
    struct transcript t = { 0 };
    const struct json_audio_sink sink = { .ctx = &t, .on_audio = refuse_audio, .on_object = note_object };
    struct json_audio reader;
    json_audio_init(&reader, DATA_PATH);
    ck_assert_int_eq(json_audio_feed(&reader, span_cstr("{\"data\":\"aGk=\"}"), &sink), ERR_CLIENT_GONE);
    json_audio_free(&reader);
}
END_TEST

/* --- events --- */

static int note_data(void *ctx, struct span bytes)
{
    struct transcript *t = ctx;
    return buf_append_span(&t->text, bytes);
}

static int note_event(void *ctx, const struct event_head *head)
{
    struct transcript *t = ctx;
    return buf_printf(&t->text, "|%.*s|%d;", (int)head->name.len, head->name.ptr, head->status);
}

static void read_events(struct span stream, size_t first, size_t further, struct transcript *t)
{
    const struct event_sink sink = { .ctx = t, .on_data = note_data, .on_event = note_event };
    struct event_reader reader = { 0 };
    size_t n = first;
    buf_init(&t->text, 1 << 20);
    while (stream.len > 0) {
        n = n < stream.len ? n : stream.len;
        ck_assert_int_eq(event_reader_feed(&reader, span_of(stream.ptr, n), &sink), 0);
        stream = span_of(stream.ptr + n, stream.len - n);
        n = further;
    }
    ck_assert_int_eq(event_reader_finish(&reader, &sink), 0);
}

static const struct {
    const char *stream, *events;
} STREAMS[] = {
    { "", "" },
    { "id:1\nevent:result\n:HTTP_STATUS/200\ndata:{\"a\":1}\n\n", "{\"a\":1}|result|200;" },
    { "id:1\r\nevent:result\r\n:HTTP_STATUS/200\r\ndata:{\"a\":1}\r\n\r\n", "{\"a\":1}|result|200;" },
    { "event:result\r:HTTP_STATUS/200\rdata:x\r\r", "x|result|200;" },
    { "data: a\n\ndata:b\n\n", "a||0;b||0;" },
    { "data:  a\n\n", " a||0;" },
    { "data:a\ndata:b\ndata\ndata:\n\n", "a\nb\n\n||0;" },
    { "event: error\nstatus: 429\ndata:{}\n\n", "{}|error|429;" },
    { ": HTTP_STATUS/500\n:HTTP_STATUS/\ndata:x\n\n", "x||0;" },
    { ":HTTP_STATUS/40099\ndata:x\n\n", "x||400;" },
    /* Without data there is no event, and nothing of it stays. */
    { "event:ping\n\n:HTTP_STATUS/500\n\ndata:x\n\n", "x||0;" },
    { "\n\n\ndata:x\n\n\n", "x||0;" },
    { "database:x\nxdata:y\ndata:z\n\n", "z||0;" },
    /* Ends without a blank line, or without a line end. */
    { "data:a\n", "a||0;" },
    { "data:a", "a||0;" },
    { "data:a\nevent:x", "a|x|0;" },
    { "event:x", "" },
};

static void check_stream(int row, size_t first, size_t further)
{
    struct transcript t;
    read_events(span_cstr(STREAMS[row].stream), first, further, &t);
    ck_assert_msg(span_is(buf_span(&t.text), STREAMS[row].events),
                  "%s in pieces of %zu and %zu bytes: expected %s, found %.*s", STREAMS[row].stream, first,
                  further, STREAMS[row].events, (int)t.text.len, t.text.data == NULL ? "" : t.text.data);
    buf_free(&t.text);
}

START_TEST(data_of_events_is_given_in_whatever_pieces_they_come)
{
    size_t len = strlen(STREAMS[_i].stream);
    check_stream(_i, len, len);
    check_stream(_i, 1, 1);
    for (size_t first = 1; first < len; first++)
        check_stream(_i, first, len);
}
END_TEST

START_TEST(a_long_line_is_read_and_only_its_beginning_is_kept)
{
    struct buf stream;
    struct transcript t;
    buf_init(&stream, 1 << 20);
    buf_append_cstr(&stream, "event:");
    for (int i = 0; i < 1000; i++)
        buf_append_char(&stream, 'x');
    buf_append_cstr(&stream, "\ndata:y\n\n");
    read_events(buf_span(&stream), 10, 100, &t);
    ck_assert_msg(t.text.len == strlen("y||0;") + EVENT_READER_BYTES - strlen("event:"), "%.*s",
                  (int)t.text.len, t.text.data);
    buf_free(&t.text);
    buf_free(&stream);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_audio");
    TCase *tests = tcase_create("json_audio");
    tcase_add_loop_test(tests, audio_is_taken_out_of_objects_in_whatever_pieces_they_come, 0,
                        (int)COUNT(TEXTS));
    tcase_add_test(tests, a_clip_of_megabytes_in_one_line_is_not_held);
    tcase_add_test(tests, what_is_around_the_audio_has_bounds);
    tcase_add_test(tests, a_sink_that_fails_ends_the_reading);
    suite_add_tcase(suite, tests);
    TCase *events = tcase_create("events");
    tcase_add_loop_test(events, data_of_events_is_given_in_whatever_pieces_they_come, 0, (int)COUNT(STREAMS));
    tcase_add_test(events, a_long_line_is_read_and_only_its_beginning_is_kept);
    suite_add_tcase(suite, events);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
