/*
 * FastCGI from a front end: a request is the same in whatever pieces it comes,
 * nothing of it is kept but its parameters, what is found in them lies
 * there, and its body is given out byte for byte. A reply comes apart into what was put into it.
 *
 * Input: the sizes of the pieces, the bytes of the connection.
 */
#include "fcgi/engine/record.h"
#include "tests/fuzz/fuzz.h"

enum { REPLY_BYTES = 1024 * 1024, REQUEST_ID = 0xfedc };

static const char *const NAMES[] = { "", "A", "REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO" };

enum { N_NAMES = sizeof(NAMES) / sizeof(NAMES[0]) };

static void check_state(const struct record_reader *reader)
{
    fuzz_check(reader->params_len <= RECORD_PARAMS_MAX, "parameters stay within their limit");
    fuzz_check(!reader->has_params || reader->has_begun, "parameters end after the beginning");
    fuzz_check(!reader->has_ended || reader->has_params, "the body ends after the parameters");
}

/* Takes what there is in pieces of the body that are no longer than the input's pieces. */
static int take_all(struct record_reader *reader, struct span bytes, size_t max, struct buf *body)
{
    struct span piece;
    int r = 0;

    while (bytes.len > 0 && r == 0) {
        r = record_reader_take(reader, &bytes, max, &piece);
        fuzz_check(piece.len <= max, "no more of the body than was asked for");
        buf_append_span(body, piece);
    }
    return r;
}

/* Reads until the end or an error; the pieces are copies that are gone when the next one comes. */
static int read_all(struct span bytes, struct fuzz_pieces *pieces, struct record_reader *reader,
                    struct buf *body)
{
    bool had_ended = false;
    int r = 0;

    record_reader_init(reader);
    buf_init(body, bytes.len);
    while (bytes.len > 0 && r == 0) {
        struct span piece = bytes;
        if (pieces != NULL)
            piece = fuzz_next_piece(pieces, &bytes);
        else
            bytes.len = 0;
        struct span copy = fuzz_copy(piece);
        r = take_all(reader, copy, pieces == NULL ? SIZE_MAX : copy.len / 2 + 1, body);
        fuzz_free_copy(copy);
        check_state(reader);
        fuzz_check(!had_ended || reader->has_ended, "an ended request stays ended");
        had_ended = reader->has_ended;
    }
    fuzz_check(r == 0 || r == ERR_FORMAT || r == ERR_STOPPED, "an error is one of two");
    return r;
}

/* Reading stops at an error, so that both readers have taken the same bytes. */
static void check_same(int error, const struct record_reader *whole, const struct record_reader *cut)
{
    fuzz_check(whole->has_begun == cut->has_begun && whole->has_params == cut->has_params &&
                   whole->has_ended == cut->has_ended && whole->is_params_cut == cut->is_params_cut,
               "cuts change nothing of what has come");
    fuzz_check(whole->request_id == cut->request_id, "cuts change no request id");
    if (error == 0)
        fuzz_check(span_eq(span_of(whole->params, whole->params_len), span_of(cut->params, cut->params_len)),
                   "cuts change no parameter");
}

static void check_params(const struct record_reader *reader)
{
    struct span params = span_of(reader->params, reader->params_len), name, text;

    for (size_t i = 0; record_param_at(reader, i, &name, &text); i++) {
        fuzz_check(fuzz_lies_inside(span_of(name.ptr, name.len + 1), params) && strlen(name.ptr) == name.len,
                   "a name lies in the parameters, and ends");
        fuzz_check(fuzz_lies_inside(span_of(text.ptr, text.len + 1), params) && strlen(text.ptr) == text.len,
                   "a value lies in the parameters, and ends");
        fuzz_check(record_param(reader, name.ptr) != NULL, "what is listed is found");
    }
    for (int i = 0; i < N_NAMES; i++) {
        const char *value = record_param(reader, NAMES[i]);
        fuzz_check(value == NULL || fuzz_lies_inside(span_cstr(value), params),
                   "what is found is a parameter");
    }
}

/* An independent reading of our own records. */
static void check_reply(struct span cgi)
{
    struct buf out;
    struct span seen = cgi;

    buf_init(&out, REPLY_BYTES);
    const struct record_reader request = { .request_id = REQUEST_ID };
    record_write_reply(&out, &request, cgi);
    fuzz_check(!out.overflowed, "a reply needs little more than its bytes");
    const unsigned char *p = (const unsigned char *)out.data, *end = p + out.len;
    while (p[1] == RECORD_STDOUT) {
        size_t content = (size_t)(p[4] << 8 | p[5]), whole = RECORD_HEADER_BYTES + content + p[6];
        fuzz_check(p[0] == 1 && (p[2] << 8 | p[3]) == REQUEST_ID, "a record names its request");
        fuzz_check(whole < (size_t)(end - p), "a record is followed by another");
        fuzz_check(whole % 8 == 0, "records are padded");
        p += RECORD_HEADER_BYTES;
        fuzz_check(content <= seen.len && memcmp(p, seen.ptr, content) == 0,
                   "the records hold the bytes of the reply");
        if (content == 0)
            fuzz_check(seen.len == 0, "an empty record is the last");
        seen = span_of(seen.ptr + content, seen.len - content);
        p += whole - RECORD_HEADER_BYTES;
    }
    fuzz_check(p[1] == RECORD_END_REQUEST && end - p == 16, "the end of the request is the end");
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    struct fuzz_pieces pieces = fuzz_take_pieces(&in);
    struct span bytes = fuzz_rest(&in);
    struct record_reader whole, cut;
    struct buf body, body_of_cut;

    int error = read_all(bytes, NULL, &whole, &body);
    fuzz_check(read_all(bytes, &pieces, &cut, &body_of_cut) == error, "cuts change no error");
    fuzz_check(error != 0 || span_eq(buf_span(&body), buf_span(&body_of_cut)), "cuts change no body");
    check_same(error, &whole, &cut);
    check_params(&whole);
    check_params(&cut);
    record_reader_free(&whole);
    record_reader_free(&cut);
    buf_free(&body);
    buf_free(&body_of_cut);
    if (bytes.len > 0)
        check_reply(bytes);
    return 0;
}
