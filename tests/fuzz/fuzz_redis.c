/*
 * What a Redis sends: replies are the same in whatever pieces they come, and lie
 * within what we have room for.
 *
 * Input: the sizes of the pieces, then the bytes.
 */
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/store/redis_reply_internal.h"
#include "tests/fuzz/fuzz.h"

enum { SEEN_BYTES = 1024 * 1024 };

static void note(const struct redis_reader *reader, struct buf *seen)
{
    const struct redis_reply *reply = &reader->reply;
    fuzz_check(reply->n >= 1 && reply->n <= REDIS_ELEMENTS_MAX,
               "a reply has as many elements as there is room for");
    fuzz_check(reply->is_array || reply->n == 1, "what is no array is one element");
    buf_append_char(seen, reply->is_array ? '[' : '(');
    for (size_t i = 0; i < reply->n; i++) {
        const struct redis_element *element = &reply->element[i];
        bool has_text =
            element->kind == REDIS_TEXT || element->kind == REDIS_STATUS || element->kind == REDIS_ERROR;
        fuzz_check(has_text || element->text.len == 0, "only texts have a text");
        fuzz_check(element->text.len <= REDIS_TEXT_BYTES, "a text has room");
        fuzz_check(element->text.len == 0 ||
                       fuzz_lies_inside(element->text, span_of(reader->texts[i], REDIS_TEXT_BYTES)),
                   "a text is the reader's memory");
        fuzz_check(!element->is_too_long || (element->kind == REDIS_TEXT && element->text.len == 0),
                   "what was passed over is empty");
        buf_printf(seen, "%d %d %lld ", (int)element->kind, element->is_too_long,
                   (long long)element->integer);
        buf_append_span(seen, element->text);
    }
}

/* 0, or what ended it. */
static int read_all(struct span rest, struct fuzz_pieces *pieces, struct buf *seen)
{
    static struct redis_reader reader;
    redis_reader_init(&reader);
    while (rest.len > 0) {
        struct span piece = pieces == NULL ? rest : fuzz_next_piece(pieces, &rest);
        if (pieces == NULL)
            rest = span_of(rest.ptr + rest.len, 0);
        struct span copy = fuzz_copy(piece), left = copy;
        int r = 0;
        while (left.len > 0 && r >= 0) {
            size_t before = left.len;
            r = redis_reader_take(&reader, &left);
            fuzz_check(r == 1 || r == 0 || r == ERR_FORMAT, "a reply is whole, or not yet, or none");
            fuzz_check(r != 0 || left.len == 0, "who wants more has taken all");
            fuzz_check(r != 1 || left.len < before, "a reply has at least a byte");
            if (r == 1)
                note(&reader, seen);
        }
        fuzz_free_copy(copy);
        if (r < 0)
            return r;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    struct fuzz_pieces pieces = fuzz_take_pieces(&in);
    struct span wire = fuzz_rest(&in);
    struct buf whole, pieced;

    buf_init(&whole, SEEN_BYTES);
    buf_init(&pieced, SEEN_BYTES);
    int r = read_all(wire, NULL, &whole);
    fuzz_check(read_all(wire, &pieces, &pieced) == r, "pieces end as the whole does");
    fuzz_check(span_eq(buf_span(&whole), buf_span(&pieced)), "pieces give the replies of the whole");
    buf_free(&whole);
    buf_free(&pieced);
    return 0;
}
