#include "core/dialect/body_internal.h"

#include "core/base/err.h"
#include "core/json/writer.h"

bool body_is_rival(struct span name, struct arena *arena)
{
    if (name.len > 0 && memchr(name.ptr, '\\', name.len) != NULL)
        name = json_decode(arena, span_of(name.ptr - 1, name.len + 2));
    return span_is_nocase(name, "model") && !span_is(name, "model");
}

int body_refuse(struct request_fault *fault, const char *param, const char *message)
{
    *fault = (struct request_fault){ .message = message, .param = param };
    return ERR_FORMAT;
}

int body_refuse_rival(struct request_fault *fault, size_t offset, struct arena *arena)
{
    return body_refuse(fault, "model",
                       arena_printf(arena,
                                    "The body cannot be used: a member that differs from `model` in its case "
                                    "only, at byte %zu.",
                                    offset));
}

int body_refuse_text(struct request_fault *fault, int code, const struct json_fault *syntax,
                     struct arena *arena)
{
    const char *problem = code == ERR_FORMAT ? "is not valid JSON" : "cannot be used";
    *fault = (struct request_fault){
        .message = arena_printf(arena, "The body %s: %s at byte %zu.", problem, syntax->what, syntax->offset),
        .is_syntax = code == ERR_FORMAT,
    };
    return ERR_FORMAT;
}

size_t body_first_brace(struct span body)
{
    return (size_t)(span_trim(body).ptr - body.ptr);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int body_insert_member(struct span body, size_t brace, const char *member, struct arena *arena,
                       struct splice *out)
{
    size_t next = brace + 1;
    while (next < body.len && is_blank(body.ptr[next]))
        next++;
    const char *comma = body.ptr[next] == '}' ? "" : ",";
    return splice_add(out, brace + 1, 0, span_cstr(arena_printf(arena, "%s%s", member, comma)));
}

static const char *quoted(struct arena *arena, struct span text)
{
    struct buf buf;
    struct json_writer w;
    buf_init(&buf, text.len * 6 + 2);
    jw_init(&w, &buf);
    jw_string(&w, text);
    const char *copy = arena_span(arena, buf_span(&buf));
    buf_free(&buf);
    return copy;
}

int body_splice_json(struct span body, const char *name, const struct json_value *value, const char *json,
                     struct arena *arena, struct splice *out)
{
    if (value->kind != JSON_KIND_ABSENT)
        return splice_add(out, value->offset, value->raw.len, span_cstr(arena_strdup(arena, json)));
    return body_insert_member(body, body_first_brace(body), arena_printf(arena, "\"%s\":%s", name, json),
                              arena, out);
}

int body_splice_text(struct span body, const char *name, const struct json_value *value, struct span text,
                     struct arena *arena, struct splice *out)
{
    if (value->kind == JSON_KIND_STRING && span_eq(json_decode(arena, value->raw), text))
        return 0; /* as the caller wrote it */
    return body_splice_json(body, name, value, quoted(arena, text), arena, out);
}

static size_t skip_blanks(struct span body, size_t at)
{
    while (at < body.len && is_blank(body.ptr[at]))
        at++;
    return at;
}

/* Of what stands from..to, members with the commas between them. */
static int remove_run(struct span body, size_t from, size_t to, struct splice *out)
{
    size_t next = skip_blanks(body, to), before = from;

    while (before > 0 && is_blank(body.ptr[before - 1]))
        before--;
    if (next < body.len && body.ptr[next] == ',')
        to = next + 1;
    else if (before > 0 && body.ptr[before - 1] == ',')
        from = before - 1;
    return splice_add(out, from, to - from, span_of("", 0));
}

/* The first of the members that stands at or behind `at`; NULL: none does. */
static const struct json_value *find_next(const struct json_value *const *values, size_t n, size_t at)
{
    const struct json_value *next = NULL;
    for (size_t i = 0; i < n; i++)
        if (values[i]->kind != JSON_KIND_ABSENT && values[i]->key_offset >= at &&
            (next == NULL || values[i]->key_offset < next->key_offset))
            next = values[i];
    return next;
}

/* Neighbours go together: there is one comma too few to leave each out by itself. */
int body_remove_members(struct span body, const struct json_value *const *values, size_t n,
                        struct splice *out)
{
    const struct json_value *member = find_next(values, n, 0);
    int r = 0;

    while (r == 0 && member != NULL) {
        size_t from = member->key_offset, to;
        do {
            to = member->offset + member->raw.len;
            size_t comma = skip_blanks(body, to);
            member = find_next(values, n, to);
            if (member == NULL || skip_blanks(body, comma + 1) != member->key_offset)
                break;
        } while (true);
        r = remove_run(body, from, to, out);
    }
    return r;
}

bool body_says_something(const struct json_value *v)
{
    switch (v->kind) {
    case JSON_KIND_ABSENT:
    case JSON_KIND_NULL:
        return false;
    case JSON_KIND_STRING:
    case JSON_KIND_ARRAY:
    case JSON_KIND_OBJECT:
        return span_trim(span_of(v->raw.ptr + 1, v->raw.len - 2)).len > 0 ||
               (v->kind == JSON_KIND_STRING && v->raw.len > 2);
    default:
        return true;
    }
}
