/* Requests of the transcription dialect: OpenAI's POST /audio/transcriptions. */
#include "core/dialect/transcription.h"

#include "core/base/err.h"
#include "core/dialect/body_internal.h"
#include "core/dialect/multipart.h"

/* The fields that we read. Two readers could each believe another of two. */
enum { FIELD_MODEL, FIELD_STREAM, FIELD_FORMAT, N_FIELDS };

static const char *const field_names[N_FIELDS] = {
    [FIELD_MODEL] = "model",
    [FIELD_STREAM] = "stream",
    [FIELD_FORMAT] = "response_format",
};

struct reading {
    struct multipart_part found[N_FIELDS]; /* name.ptr NULL where nothing stands */
    struct span body;
    struct arena *arena;
    struct request_fault *fault;
};

static int on_part(void *ctx, const struct multipart_part *part)
{
    struct reading *r = ctx;

    if (body_is_rival(part->name, r->arena))
        return body_refuse_rival(r->fault, (size_t)(part->name.ptr - r->body.ptr), r->arena);
    for (size_t i = 0; i < N_FIELDS; i++) {
        const char *name = field_names[i];
        if (!span_is(part->name, name))
            continue;
        if (r->found[i].name.ptr != NULL)
            return body_refuse(r->fault, name, arena_printf(r->arena, "`%s` stands there twice.", name));
        if (part->is_file)
            return body_refuse(r->fault, name, arena_printf(r->arena, "`%s` must not be a file.", name));
        r->found[i] = *part;
    }
    return 0;
}

/* Frameworks read other words, too, each its own ones: what is none of these may be
 * one thing here and another there. */
static int read_stream(const struct reading *r, bool *is_stream)
{
    static const struct {
        const char *text;
        bool is_stream;
    } words[] = { { "true", true }, { "false", false }, { "1", true }, { "0", false }, { "", false } };
    struct span value = r->found[FIELD_STREAM].value;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (span_is_nocase(value, words[i].text)) {
            *is_stream = words[i].is_stream;
            return 0;
        }
    }
    return body_refuse(r->fault, "stream", "`stream` must be true or false.");
}

/* json, verbose_json, diarized_json, and what may come like them; else text of some kind. */
static bool is_text(struct span format)
{
    return format.len > 0 && !(format.len >= 4 && span_is(span_of(format.ptr + format.len - 4, 4), "json"));
}

static int refuse_form(const struct reading *r, const char *where, const struct multipart_fault *form)
{
    return body_refuse(r->fault, NULL,
                       arena_printf(r->arena, "The %s is not valid multipart/form-data: %s at byte %zu.",
                                    where, form->what, form->offset));
}

int transcription_read_request(struct span body, struct span type, struct arena *arena,
                               struct request_facts *facts, struct request_fault *fault)
{
    struct reading reading = { .body = body, .arena = arena, .fault = fault };
    struct multipart_fault form = { 0, NULL };
    struct request_facts read = { .body = body, .wants_usage = true };
    struct span boundary;

    if (multipart_boundary(type, &boundary, &form) != 0)
        return refuse_form(&reading, "Content-Type", &form);
    int r = multipart_scan(body, boundary, on_part, &reading, &form);
    if (r != 0)
        return form.what == NULL ? r : refuse_form(&reading, "body", &form);
    r = read_stream(&reading, &read.is_stream);
    if (r != 0)
        return r;
    read.model = reading.found[FIELD_MODEL].value;
    struct transcription_facts *ours = arena_new_of(arena, struct transcription_facts);
    ours->model_value = reading.found[FIELD_MODEL].value;
    ours->model_length = reading.found[FIELD_MODEL].length;
    read.transcription = ours;
    read.content_type = arena_span(arena, type);
    read.wants_text = is_text(reading.found[FIELD_FORMAT].value);
    *facts = read;
    return 0;
}

static int replace(struct splice *out, struct span what, struct span with)
{
    return splice_add(out, (size_t)(what.ptr - out->body.ptr), what.len, with);
}

int transcription_splice_request(const struct request_facts *facts, struct span model, bool asks_usage,
                                 struct arena *arena, struct splice *out)
{
    const struct transcription_facts *ours = facts->transcription;

    (void)asks_usage;
    splice_init(out, facts->body);
    if (span_eq(ours->model_value, model))
        return 0;
    int r = replace(out, ours->model_value, model);
    if (r == 0 && ours->model_length.len > 0)
        r = replace(out, ours->model_length, span_cstr(arena_printf(arena, "%zu", model.len)));
    return r;
}
