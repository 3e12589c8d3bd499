#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "fcgi/engine/record.h"
#include "tests/unit/fcgi_client.h"

static struct record_reader reader;
static struct buf wire;

static void set_up(void)
{
    record_reader_init(&reader);
    buf_init(&wire, WIRE_BYTES);
}

static void tear_down(void)
{
    record_reader_free(&reader);
    buf_free(&wire);
}

/* From a copy whose memory ends where the bytes do, so that a read beyond is seen. */
static int feed(const void *bytes, size_t len)
{
    char *copy = xmalloc(len);
    if (len > 0)
        memcpy(copy, bytes, len);
    int r = record_reader_feed(&reader, span_of(copy, len));
    free(copy);
    return r;
}

static int feed_wire(void)
{
    return feed(wire.data, wire.len);
}

static void expect_param(const char *name, const char *value)
{
    const char *found = record_param(&reader, name);
    ck_assert_msg(value != NULL ? found != NULL && strcmp(found, value) == 0 : found == NULL,
                  "%s is \"%s\", expected %s", name, found != NULL ? found : "none",
                  value != NULL ? value : "none");
}

/* --- a request in pieces ------------------------------------------------------------ */

/* Lengths of one byte and of four, records of many sizes, padding, a body. */
static void write_request(void)
{
    char long_value[300];
    struct buf params;

    memset(long_value, 'v', sizeof(long_value));
    buf_init(&params, WIRE_BYTES);
    params_add(&params, span_cstr("REQUEST_METHOD"), span_cstr("POST"));
    params_add(&params, span_cstr("EMPTY"), span_cstr(""));
    params_add(&params, span_cstr("LONG"), span_of(long_value, sizeof(long_value)));
    params_add(&params, span_cstr("PATH_INFO"), span_cstr("/chat/completions"));
    wire_begin(&wire);
    wire_stream(&wire, FCGI_PARAMS, buf_span(&params), 61);
    wire_end(&wire, FCGI_PARAMS);
    wire_stream(&wire, FCGI_STDIN, span_cstr("{\"model\":\"m\"}"), 5);
    wire_end(&wire, FCGI_STDIN);
    buf_free(&params);
}

static void expect_whole_request(size_t cut)
{
    ck_assert_msg(reader.has_begun && reader.has_params && reader.has_ended, "cut at %zu: it has not ended",
                  cut);
    ck_assert_uint_eq(reader.request_id, CLIENT_REQUEST_ID);
    ck_assert_uint_eq(strlen(record_param(&reader, "LONG")), 300);
    expect_param("REQUEST_METHOD", "POST");
    expect_param("EMPTY", "");
    expect_param("PATH_INFO", "/chat/completions");
    expect_param("NONE", NULL);
}

START_TEST(a_request_is_the_same_wherever_it_is_cut)
{
    write_request();
    for (size_t cut = 0; cut <= wire.len; cut++) {
        ck_assert_int_eq(feed(wire.data, cut), 0);
        ck_assert_int_eq(feed(wire.data + cut, wire.len - cut), 0);
        expect_whole_request(cut);
        record_reader_free(&reader);
        record_reader_init(&reader);
    }
}
END_TEST

START_TEST(a_request_may_come_byte_by_byte)
{
    write_request();
    for (size_t i = 0; i < wire.len; i++)
        ck_assert_int_eq(feed(wire.data + i, 1), 0);
    expect_whole_request(1);
}
END_TEST

START_TEST(what_has_come_is_told_as_it_comes)
{
    wire_begin(&wire);
    ck_assert_int_eq(feed(wire.data, wire.len - 1), 0);
    ck_assert(!reader.has_begun);
    ck_assert_int_eq(feed(wire.data + wire.len - 1, 1), 0);
    ck_assert(reader.has_begun && !reader.has_params);

    buf_clear(&wire);
    wire_record(&wire, FCGI_PARAMS, span_of("\1\1ab", 4));
    ck_assert_int_eq(feed_wire(), 0);
    ck_assert(!reader.has_params);

    buf_clear(&wire);
    wire_end(&wire, FCGI_PARAMS);
    ck_assert_int_eq(feed_wire(), 0);
    ck_assert(reader.has_params && !reader.has_ended);
    expect_param("a", "b");

    buf_clear(&wire);
    wire_record(&wire, FCGI_STDIN, span_cstr("body"));
    ck_assert_int_eq(feed_wire(), 0);
    ck_assert(!reader.has_ended);

    buf_clear(&wire);
    wire_end(&wire, FCGI_STDIN);
    ck_assert_int_eq(feed_wire(), 0);
    ck_assert(reader.has_ended);
}
END_TEST

START_TEST(a_body_is_not_kept)
{
    static const char piece[60000];
    wire_head(&wire, (const char *const[]){ "A", "1", NULL });
    ck_assert_int_eq(feed_wire(), 0);
    size_t len = reader.params_len, room = reader.params_room;

    for (int i = 0; i < 100; i++) {
        buf_clear(&wire);
        wire_record(&wire, FCGI_STDIN, span_of(piece, sizeof(piece)));
        ck_assert_int_eq(feed_wire(), 0);
    }
    ck_assert_uint_eq(reader.params_len, len);
    ck_assert_uint_eq(reader.params_room, room);
    expect_param("A", "1");
}
END_TEST

/* --- what is no request --------------------------------------------------------------- */

/* Records in short: version, type, request id, content length, padding length, reserved. */
#define BEGIN "\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
#define NO_PARAMS "\1\4\0\1\0\0\0\0"
#define NO_STDIN "\1\5\0\1\0\0\0\0"
#define BYTES(text) text, sizeof(text) - 1

static const struct hostile_row {
    const char *what;
    const char *bytes;
    size_t len;
    int error;
} hostile_rows[] = {
    { "a version of 0", BYTES("\0\1\0\1\0\10\0\0"), ERR_FORMAT },
    { "a version of 2", BYTES("\2\1\0\1\0\10\0\0"), ERR_FORMAT },
    { "HTTP", BYTES("GET / HTTP/1.1\r\n\r\n"), ERR_FORMAT },
    { "TLS", BYTES("\x16\3\1\2\0\1\0\1\xfc\3\3"), ERR_FORMAT },
    { "a management record", BYTES("\1\11\0\0\0\0\0\0"), ERR_FORMAT },
    { "parameters first", BYTES(NO_PARAMS), ERR_FORMAT },
    { "an abort first", BYTES("\1\2\0\1\0\0\0\0"), ERR_FORMAT },
    { "a beginning of 7 bytes", BYTES("\1\1\0\1\0\7\1\0"), ERR_FORMAT },
    { "a beginning of 65535 bytes", BYTES("\1\1\0\1\xff\xff\0\0"), ERR_FORMAT },
    { "an authorizer", BYTES("\1\1\0\1\0\10\0\0\0\2\0\0\0\0\0\0"), ERR_FORMAT },
    { "role 257", BYTES("\1\1\0\1\0\10\0\0\1\1\0\0\0\0\0\0"), ERR_FORMAT },
    { "a second beginning", BYTES(BEGIN BEGIN), ERR_FORMAT },
    { "another request's parameters", BYTES(BEGIN "\1\4\0\2\0\0\0\0"), ERR_FORMAT },
    { "another request's beginning", BYTES(BEGIN "\1\1\0\2\0\10\0\0"), ERR_FORMAT },
    { "an id of 0 later", BYTES(BEGIN "\1\4\0\0\0\0\0\0"), ERR_FORMAT },
    { "a body before the parameters' end", BYTES(BEGIN NO_STDIN), ERR_FORMAT },
    { "parameters after their end", BYTES(BEGIN NO_PARAMS "\1\4\0\1\0\1\0\0"), ERR_FORMAT },
    { "an end of the parameters twice", BYTES(BEGIN NO_PARAMS NO_PARAMS), ERR_FORMAT },
    { "a reply", BYTES(BEGIN "\1\6\0\1\0\0\0\0"), ERR_FORMAT },
    { "FCGI_DATA", BYTES(BEGIN NO_PARAMS "\1\10\0\1\0\0\0\0"), ERR_FORMAT },
    { "a body after its end", BYTES(BEGIN NO_PARAMS NO_STDIN "\1\5\0\1\0\1\0\0"), ERR_FORMAT },
    { "an end of the body twice", BYTES(BEGIN NO_PARAMS NO_STDIN NO_STDIN), ERR_FORMAT },
    { "an abort", BYTES(BEGIN "\1\2\0\1\0\0\0\0"), ERR_STOPPED },
    { "an abort inside the body", BYTES(BEGIN NO_PARAMS "\1\2\0\1\0\0\0\0"), ERR_STOPPED },
    { "an abort after the body", BYTES(BEGIN NO_PARAMS NO_STDIN "\1\2\0\1\0\0\0\0"), ERR_STOPPED },
};

enum { N_HOSTILE = sizeof(hostile_rows) / sizeof(hostile_rows[0]) };

START_TEST(what_is_no_responder_request_is_refused)
{
    const struct hostile_row *row = &hostile_rows[_i];
    int r = feed(row->bytes, row->len);
    ck_assert_msg(r == row->error, "%s: %s, expected %s", row->what, err_name(r), err_name(row->error));
}
END_TEST

START_TEST(it_is_refused_all_the_same_when_it_comes_byte_by_byte)
{
    const struct hostile_row *row = &hostile_rows[_i];
    int r = 0;
    for (size_t i = 0; i < row->len && r == 0; i++)
        r = feed(row->bytes + i, 1);
    ck_assert_msg(r == row->error, "%s: %s, expected %s", row->what, err_name(r), err_name(row->error));
}
END_TEST

START_TEST(a_body_of_an_ended_request_does_not_open_it_again)
{
    ck_assert_int_eq(feed(BYTES(BEGIN NO_PARAMS NO_STDIN)), 0);
    ck_assert(reader.has_ended);
    feed(BYTES("\1\5\0\1\0\1\0\0x"));
    ck_assert(reader.has_ended);
}
END_TEST

START_TEST(padding_may_be_of_any_length)
{
    static const char padded[] = "\1\4\0\1\0\4\xff\0\1\1ab";
    static const char padding[255];
    ck_assert_int_eq(feed(BYTES(BEGIN)), 0);
    ck_assert_int_eq(feed(BYTES(padded)), 0);
    ck_assert_int_eq(feed(padding, sizeof(padding)), 0);
    ck_assert_int_eq(feed(BYTES(NO_PARAMS)), 0);
    ck_assert(reader.has_params);
    expect_param("a", "b");
}
END_TEST

/* Fed whole or in pieces, the same is kept: what lies within the limit. */
START_TEST(parameters_beyond_the_limit_are_dropped)
{
    char *large = xmalloc(RECORD_PARAMS_MAX);
    struct buf params;

    memset(large, 'v', RECORD_PARAMS_MAX);
    buf_init(&params, WIRE_BYTES);
    params_add(&params, span_cstr("FIRST"), span_cstr("1"));
    params_add(&params, span_cstr("LARGE"), span_of(large, RECORD_PARAMS_MAX - 100));
    params_add(&params, span_cstr("CUT"), span_of(large, 100));
    params_add(&params, span_cstr("A"), span_cstr("b"));
    wire_begin(&wire);
    wire_stream(&wire, FCGI_PARAMS, buf_span(&params), 60000);
    wire_end(&wire, FCGI_PARAMS);
    wire_end(&wire, FCGI_STDIN);
    size_t step = _i == 0 ? wire.len : 97;
    for (size_t at = 0; at < wire.len; at += step)
        ck_assert_int_eq(feed(wire.data + at, step < wire.len - at ? step : wire.len - at), 0);
    ck_assert(reader.has_params && reader.has_ended && reader.is_params_cut);
    ck_assert_uint_le(reader.params_room, RECORD_PARAMS_MAX);
    expect_param("FIRST", "1");
    ck_assert_uint_eq(strlen(record_param(&reader, "LARGE")), RECORD_PARAMS_MAX - 100);
    expect_param("CUT", NULL);
    expect_param("A", NULL);
    buf_free(&params);
    free(large);
}
END_TEST

/* More than any web server sends: they are found, and the next request does not pay for them. */
START_TEST(many_parameters_are_listed_in_their_order_and_then_forgotten)
{
    enum { MANY = 5000 };
    struct span name, value;
    struct buf params;
    char text[16];

    buf_init(&params, WIRE_BYTES);
    for (int i = 0; i < MANY; i++) {
        int len = snprintf(text, sizeof(text), "N%d", i);
        params_add(&params, span_of(text, (size_t)len), span_of(text + 1, i % 2 == 0 ? (size_t)len - 1 : 0));
    }
    wire_begin(&wire);
    wire_stream(&wire, FCGI_PARAMS, buf_span(&params), 60000);
    wire_end(&wire, FCGI_PARAMS);
    ck_assert_int_eq(feed_wire(), 0);
    for (int i = 0; i < MANY; i++) {
        int len = snprintf(text, sizeof(text), "N%d", i);
        const char *wanted = i % 2 == 0 ? text + 1 : "";
        ck_assert_msg(record_param_at(&reader, (size_t)i, &name, &value) && span_is(name, text) &&
                          span_is(value, wanted),
                      "parameter %d is not \"%.*s\" with \"%s\"", i, len, text, wanted);
        expect_param(text, wanted);
    }
    ck_assert(!record_param_at(&reader, MANY, &name, &value));
    record_reader_reset(&reader);
    ck_assert(!record_param_at(&reader, 0, &name, &value));
    ck_assert_uint_eq(reader.places_room, 0);
    buf_free(&params);
}
END_TEST

/* A body is given out in place, in pieces of no more than is asked for. */
START_TEST(a_body_is_taken_in_pieces)
{
    static const char sent[] = "{\"model\":\"m\"}";
    struct span left, body;
    size_t total = 0;

    write_request();
    left = buf_span(&wire);
    while (left.len > 0) {
        ck_assert_int_eq(record_reader_take(&reader, &left, 3, &body), 0);
        ck_assert_uint_le(body.len, 3);
        if (body.len > 0) {
            ck_assert(body.ptr > wire.data && body.ptr < wire.data + wire.len);
            ck_assert(total + body.len < sizeof(sent) && span_eq(body, span_of(sent + total, body.len)));
        }
        total += body.len;
    }
    ck_assert_uint_eq(total, 13);
    ck_assert(reader.has_ended);
}
END_TEST

START_TEST(a_body_that_nobody_wants_yet_stays_where_it_is)
{
    struct span left, body;

    wire_head(&wire, (const char *const[]){ "A", "1", NULL });
    wire_record(&wire, FCGI_STDIN, span_cstr("body"));
    left = buf_span(&wire);
    ck_assert_int_eq(record_reader_take(&reader, &left, 0, &body), 0);
    ck_assert(reader.has_params);
    ck_assert_uint_eq(body.len, 0);
    ck_assert_uint_eq(left.len, 8); /* with its padding */
    ck_assert_uint_eq(record_reader_body_next(&reader), 4);
    record_reader_skip_body(&reader, 3);
    ck_assert_uint_eq(record_reader_body_next(&reader), 1);
}
END_TEST

START_TEST(a_reader_that_is_reset_keeps_its_memory_and_none_of_its_bytes)
{
    /* Lengths of four bytes are more than the NUL that takes their place: what follows moves. */
    char text[129] = { 0 };
    memset(text, 'v', 128);
    wire_head(&wire, (const char *const[]){ "X", text, "Y", text, "Z", text, "A", "canary", NULL });
    ck_assert_int_eq(feed_wire(), 0);
    char *memory = reader.params;
    size_t room = reader.params_room;
    record_reader_reset(&reader);
    ck_assert_ptr_eq(reader.params, memory);
    ck_assert_ptr_null(memmem(memory, room, "canary", 6));
    ck_assert(!reader.has_begun && !reader.has_params);
    ck_assert_int_eq(feed_wire(), 0);
    expect_param("A", "canary");
}
END_TEST

/* --- names and values ------------------------------------------------------------------- */

static const struct pair_row {
    const char *bytes; /* of the parameters, as they are on the wire */
    size_t len;
    int error;
    const char *value; /* of A; NULL: there is none */
} pair_rows[] = {
    { BYTES(""), 0, NULL },
    { BYTES("\1\1Ab"), 0, "b" },
    { BYTES("\1\0A"), 0, "" },
    { BYTES("\1\1Ax\1\1Ay"), 0, "x" },           /* the first of two */
    { BYTES("\2\1AAx\1\1Ay"), 0, "y" },          /* whole names only */
    { BYTES("\1\1ax\1\1Ay"), 0, "y" },           /* in their case */
    { BYTES("\0\0\0\1x\1\1Ay"), 0, "y" },        /* empty names */
    { BYTES("\1\1xA\1\1Ay"), 0, "y" },           /* a value that looks like a name */
    { BYTES("\x80\0\0\1\x80\0\0\1Ab"), 0, "b" }, /* more bytes than needed */
    { BYTES("\1\1AbA"), ERR_FORMAT, NULL },
    { BYTES("\1\1B"), ERR_FORMAT, NULL },                /* a value that is missing */
    { BYTES("\1"), ERR_FORMAT, NULL },                   /* one length only */
    { BYTES("\1\2Ab"), ERR_FORMAT, NULL },               /* a value that is cut */
    { BYTES("\5\0A"), ERR_FORMAT, NULL },                /* a name that is cut */
    { BYTES("\x80\0\0"), ERR_FORMAT, NULL },             /* a length that is cut */
    { BYTES("\1\x80\0\0"), ERR_FORMAT, NULL },           /* the other one */
    { BYTES("\xff\xff\xff\xff\1Ab"), ERR_FORMAT, NULL }, /* a name of 2 GiB */
    { BYTES("\1\xff\xff\xff\xff"                         /* a value of 2 GiB */
            "Ab"),
      ERR_FORMAT, NULL },
    { BYTES("\xff\xff\xff\xff\xff\xff\xff\xff" /* both: their sum is beyond 32 bits */
            "Ab"),
      ERR_FORMAT, NULL },
    { BYTES("\1\1Ab\xff\xff\xff\xff\xff\xff\xff\xff"), ERR_FORMAT, NULL }, /* behind a good one */
    { BYTES("\1\3A\0b\0"), ERR_FORMAT, NULL },                             /* a NUL in a value */
    { BYTES("\3\1A\0BC"), ERR_FORMAT, NULL },                              /* or a name */
};

enum { N_PAIRS = sizeof(pair_rows) / sizeof(pair_rows[0]) };

START_TEST(parameters_are_taken_whole_or_not_at_all)
{
    const struct pair_row *row = &pair_rows[_i];
    wire_begin(&wire);
    wire_stream(&wire, FCGI_PARAMS, span_of(row->bytes, row->len), 65535);
    wire_end(&wire, FCGI_PARAMS);
    int r = feed_wire();
    ck_assert_msg(r == row->error, "row %d: %s", _i, err_name(r));
    if (r == 0)
        expect_param("A", row->value);
}
END_TEST

/* --- replies ------------------------------------------------------------------------------ */

static const size_t reply_sizes[] = {
    0, 1, 7, 8, 9, 1000, RECORD_CONTENT_MAX - 1, RECORD_CONTENT_MAX, RECORD_CONTENT_MAX + 1, 300000,
};

enum { N_REPLIES = sizeof(reply_sizes) / sizeof(reply_sizes[0]) };

START_TEST(a_reply_comes_apart_as_it_was_put_together)
{
    size_t size = reply_sizes[_i];
    struct client_reply got = { .error = 0 };
    char *body = xmalloc(size + 1);

    for (size_t i = 0; i < size; i++)
        body[i] = (char)(i * 7 + i / 251);
    buf_init(&got.bytes, WIRE_BYTES);
    buf_init(&got.out, WIRE_BYTES);
    const struct record_reader request = { .request_id = CLIENT_REQUEST_ID };
    record_write_reply(&got.bytes, &request, span_of(body, size));
    reply_parse(&got);
    client_expect_whole(&got);
    ck_assert_msg(span_eq(buf_span(&got.out), span_of(body, size)), "%zu bytes came as %zu", size,
                  got.out.len);
    ck_assert_uint_eq(got.records, (size + RECORD_CONTENT_MAX - 1) / RECORD_CONTENT_MAX);
    ck_assert_msg(got.bytes.len % 8 == 0, "%zu bytes are not padded to a multiple of 8", got.bytes.len);
    client_reply_free(&got);
    free(body);
}
END_TEST

START_TEST(only_who_would_keep_the_connection_gets_something_behind_the_end)
{
    static const unsigned char nothing[] = {
        1, RECORD_UNKNOWN_TYPE, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    };
    unsigned char end[RECORD_END_MAX];

    wire_begin_role(&wire, FCGI_RESPONDER, _i);
    ck_assert_int_eq(feed_wire(), 0);
    size_t n = record_put_end(end, &reader);
    ck_assert_uint_eq(n, (_i & FCGI_KEEP_CONN) != 0 ? 40 : 24);
    ck_assert_int_eq(end[RECORD_HEADER_BYTES + 1], RECORD_END_REQUEST);
    if (n == 40)
        ck_assert_mem_eq(end + 24, nothing, sizeof(nothing));
    record_reader_reset(&reader);
    ck_assert(!reader.is_to_keep);
}
END_TEST

START_TEST(a_header_has_each_field_in_its_place)
{
    unsigned char header[RECORD_HEADER_BYTES];
    record_put_header(header, RECORD_STDOUT, 0x0102, 0xfef0, 0x07);
    ck_assert_mem_eq(header, "\1\6\1\2\xfe\xf0\7\0", RECORD_HEADER_BYTES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("record");
    TCase *tcase = tcase_create("record");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_request_is_the_same_wherever_it_is_cut);
    tcase_add_test(tcase, a_request_may_come_byte_by_byte);
    tcase_add_test(tcase, what_has_come_is_told_as_it_comes);
    tcase_add_test(tcase, a_body_is_not_kept);
    tcase_add_loop_test(tcase, what_is_no_responder_request_is_refused, 0, N_HOSTILE);
    tcase_add_loop_test(tcase, it_is_refused_all_the_same_when_it_comes_byte_by_byte, 0, N_HOSTILE);
    tcase_add_test(tcase, a_body_of_an_ended_request_does_not_open_it_again);
    tcase_add_test(tcase, padding_may_be_of_any_length);
    tcase_add_loop_test(tcase, parameters_beyond_the_limit_are_dropped, 0, 2);
    tcase_add_test(tcase, many_parameters_are_listed_in_their_order_and_then_forgotten);
    tcase_add_test(tcase, a_body_is_taken_in_pieces);
    tcase_add_test(tcase, a_body_that_nobody_wants_yet_stays_where_it_is);
    tcase_add_test(tcase, a_reader_that_is_reset_keeps_its_memory_and_none_of_its_bytes);
    tcase_add_loop_test(tcase, parameters_are_taken_whole_or_not_at_all, 0, N_PAIRS);
    tcase_add_loop_test(tcase, a_reply_comes_apart_as_it_was_put_together, 0, N_REPLIES);
    tcase_add_loop_test(tcase, only_who_would_keep_the_connection_gets_something_behind_the_end, 0, 4);
    tcase_add_test(tcase, a_header_has_each_field_in_its_place);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
