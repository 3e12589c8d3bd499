/*
 * Requests of the chat dialect: a body that is read can be spliced, and the
 * result is JSON that asks the same of another model and differs from the body
 * in nothing else.
 *
 * Input: a byte for the upstream's model, a byte for the size of reads, the body.
 */
#include <json-c/json.h>

#include "core/base/buf.h"
#include "core/dialect/dialect.h"
#include "tests/fuzz/fuzz.h"

static const char *const models[] = { "gpt", "", "vendor/gpt-4", "q\"u\\o\nte", "gl\xC3\xBC\xE6\xA8\xA1",
                                      "auto" };

/* All of the splice, read in pieces of `room` bytes. */
static struct span read_all(const struct splice *splice, size_t room, struct arena *arena)
{
    struct splice_cursor cursor = { 0 };
    size_t size = splice_size(splice), have = 0, n;
    char *out = arena_alloc(arena, size + room), *piece = xmalloc(room);

    while ((n = splice_read(splice, &cursor, piece, room)) > 0) {
        fuzz_check(n <= room && have + n <= size, "a splice has the size that it says");
        memcpy(out + have, piece, n);
        have += n;
    }
    fuzz_check(have == size, "a splice has the size that it says");
    free(piece);
    return span_of(out, have);
}

static bool is_value(const struct splice_edit *edit, const struct json_value *value)
{
    return value->kind != JSON_KIND_ABSENT && edit->offset == value->offset && edit->len == value->raw.len;
}

/* What is left out of the body is one of our members' values, and the rest stands where it stood. */
static void check_edits(const struct request_facts *facts, const struct splice *splice, struct span result)
{
    size_t from = 0, to = 0;
    fuzz_check(splice->n_edits <= 2, "there are two edits at most");
    for (size_t i = 0; i <= splice->n_edits; i++) {
        const struct splice_edit *edit = &splice->edits[i];
        size_t kept = (i < splice->n_edits ? edit->offset : facts->body.len) - from;
        fuzz_check(to + kept <= result.len && memcmp(result.ptr + to, facts->body.ptr + from, kept) == 0,
                   "what is not edited is as it was");
        if (i == splice->n_edits)
            break;
        fuzz_check(
            edit->len == 0 || is_value(edit, &facts->model_value) || is_value(edit, &facts->include_usage) ||
                (facts->stream_options.kind == JSON_KIND_NULL && is_value(edit, &facts->stream_options)),
            "only values of our own members are replaced");
        from += kept + edit->len;
        to += kept + edit->with.len;
    }
}

/* The document without the members that are ours. */
static json_object *foreign_members(struct span text)
{
    struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX + 1);
    json_object *root = json_tokener_parse_ex(tokener, text.ptr, (int)text.len), *options = NULL;
    fuzz_check(json_tokener_get_error(tokener) == json_tokener_success, "json-c reads the body");
    json_tokener_free(tokener);
    json_object_object_del(root, "model");
    if (json_object_object_get_ex(root, "stream_options", &options) && options != NULL) {
        json_object_object_del(options, "include_usage");
        if (json_object_object_length(options) > 0)
            return root;
    }
    json_object_object_del(root, "stream_options");
    return root;
}

static void check_meaning(struct span body, struct span result)
{
    json_object *before = foreign_members(body), *after = foreign_members(result);
    fuzz_check(json_object_equal(before, after) == 1, "foreign members mean the same as before");
    json_object_put(before);
    json_object_put(after);
}

/* The one edit is the model's. */
static void check_without_usage(const struct request_facts *facts, struct span model, size_t room,
                                struct arena *arena)
{
    struct splice splice;
    struct request_facts then;
    struct request_fault fault;

    fuzz_check(dialect_chat.splice_request(facts, model, false, arena, &splice) == 0 && splice.n_edits <= 1,
               "without usage only the model is changed");
    struct span result = read_all(&splice, room, arena);
    fuzz_check(dialect_chat.read_request(result, span_cstr(dialect_chat.media_type), arena, &then, &fault) ==
                       0 &&
                   span_eq(then.model, model),
               "a body without usage asks for the upstream's model");
    fuzz_check(then.wants_usage == facts->wants_usage, "it asks for usage if the caller did");
}

static void check_spliced(const struct request_facts *facts, struct span model, size_t room,
                          struct arena *arena)
{
    struct splice splice, again;
    struct request_facts then;
    struct request_fault fault;

    fuzz_check(dialect_chat.splice_request(facts, model, true, arena, &splice) == 0,
               "a body that was read can be spliced");
    struct span result = read_all(&splice, room, arena);
    check_edits(facts, &splice, result);
    fuzz_check(dialect_chat.read_request(result, span_cstr(dialect_chat.media_type), arena, &then, &fault) ==
                   0,
               "a spliced body can be read");
    fuzz_check(span_eq(then.model, model), "a spliced body asks for the upstream's model");
    fuzz_check(then.is_stream == facts->is_stream, "a spliced body asks for a stream as the caller did");
    fuzz_check(then.wants_usage == facts->is_stream, "the spliced body of a stream asks for usage");
    check_meaning(facts->body, result);
    check_without_usage(facts, model, room, arena);
    fuzz_check(dialect_chat.splice_request(&then, model, true, arena, &again) == 0 && again.n_edits == 0,
               "a spliced body needs no further edit");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    struct span model = span_cstr(models[fuzz_take_choice(&in, sizeof(models) / sizeof(models[0]))]);
    size_t room = 1 + fuzz_take_byte(&in);
    struct span body = fuzz_rest(&in);
    struct arena *arena = arena_new();
    struct request_facts facts;
    struct request_fault fault = { .message = NULL };

    int r = dialect_chat.read_request(body, span_cstr(dialect_chat.media_type), arena, &facts, &fault);
    fuzz_check(r == 0 || fault.message != NULL, "a refusal says why");
    if (r == 0)
        check_spliced(&facts, model, room, arena);
    arena_free(arena);
    return 0;
}
