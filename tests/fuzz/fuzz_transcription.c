/*
 * A caller's request for a transcription: what is read of the form, and what an
 * upstream gets of it.
 *
 * Input: a byte for the model that is put in, a line that is the Content-Type, the
 * body.
 */
#include "core/dialect/multipart.h"
#include "core/dialect/transcription.h"
#include "tests/fuzz/fuzz.h"

static const char *const models[] = { "m", "", "whisper-1", "a;b=\"c\"" };

struct parts {
    struct span body;
    size_t count;
    size_t end; /* of the last value */
};

static int on_part(void *ctx, const struct multipart_part *part)
{
    struct parts *parts = ctx;

    fuzz_check(fuzz_lies_inside(part->name, parts->body) && fuzz_lies_inside(part->value, parts->body),
               "a part lies in the body");
    fuzz_check(part->length.len == 0 || fuzz_lies_inside(part->length, parts->body),
               "a part's length lies in the body");
    size_t start = (size_t)(part->value.ptr - parts->body.ptr);
    fuzz_check(start >= parts->end, "parts stand one behind the other");
    parts->end = start + part->value.len;
    parts->count++;
    return 0;
}

/* Lines that begin with the boundary, for a reader to which a CR or a LF alone ends a line. */
static size_t count_lines(struct span body, struct span boundary)
{
    size_t count = 0;

    for (size_t i = 0; i + 2 + boundary.len <= body.len; i++) {
        bool is_start = i == 0 || body.ptr[i - 1] == '\n' || body.ptr[i - 1] == '\r';
        if (is_start && memcmp(body.ptr + i, "--", 2) == 0 &&
            memcmp(body.ptr + i + 2, boundary.ptr, boundary.len) == 0)
            count++;
    }
    return count;
}

static void check_scan(struct span type, struct span body)
{
    struct multipart_fault fault = { 0, NULL };
    struct parts parts = { .body = body };
    struct span boundary;

    if (multipart_boundary(type, &boundary, &fault) != 0) {
        fuzz_check(fault.what != NULL && fault.offset <= type.len,
                   "a refusal of a header says why and where");
        return;
    }
    fuzz_check(boundary.len > 0 && boundary.len <= MULTIPART_BOUNDARY_BYTES, "a boundary has its length");
    if (multipart_scan(body, boundary, on_part, &parts, &fault) != 0) {
        fuzz_check(fault.what != NULL && fault.offset <= body.len, "a refusal of a body says why and where");
        return;
    }
    fuzz_check(count_lines(body, boundary) == parts.count + 1,
               "whatever ends a line for a reader, it finds the same parts");
}

/* What the upstream gets is the body, but for the model's name. */
static void check_splice(const struct request_facts *facts, struct span type, struct span model,
                         struct arena *arena)
{
    struct request_facts again = { .content_type = NULL };
    struct splice_cursor cursor = { 0, 0 };
    struct request_fault fault;
    struct splice splice;

    fuzz_check(transcription_splice_request(facts, model, false, arena, &splice) == 0,
               "there is room for our edits");
    size_t size = splice_size(&splice);
    char *text = arena_alloc(arena, size);
    fuzz_check(splice_read(&splice, &cursor, text, size) == size, "a splice is as long as it says");
    if (facts->transcription->model_length.len == 0) {
        struct span body = facts->body, value = facts->transcription->model_value;
        size_t before = (size_t)(value.ptr - body.ptr), after = body.len - before - value.len;
        fuzz_check(size == before + model.len + after && memcmp(text, body.ptr, before) == 0 &&
                       memcmp(text + before + model.len, value.ptr + value.len, after) == 0,
                   "every byte but the model's name is the caller's");
    }
    fuzz_check(transcription_read_request(span_of(text, size), type, arena, &again, &fault) == 0,
               "what is passed on can be read");
    fuzz_check(span_eq(again.model, model), "the model is the upstream's");
    fuzz_check(again.is_stream == facts->is_stream && again.wants_text == facts->wants_text,
               "what a caller says is passed on");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    struct span model = span_cstr(models[fuzz_take_choice(&in, 4)]);
    struct span type = fuzz_copy(fuzz_take_line(&in)), body = fuzz_copy(fuzz_rest(&in));
    struct arena *arena = arena_new();
    struct request_facts facts = { .content_type = NULL };
    struct request_fault fault = { .message = NULL };

    check_scan(type, body);
    if (transcription_read_request(body, type, arena, &facts, &fault) != 0)
        fuzz_check(fault.message != NULL && facts.content_type == NULL,
                   "a refusal says why, and nothing else");
    else if (facts.transcription->model_value.ptr != NULL)
        check_splice(&facts, type, model, arena);
    arena_free(arena);
    fuzz_free_copy(body);
    fuzz_free_copy(type);
    return 0;
}
