/*
 * The JSON scanner: what it reports lies where it says, however the text looks,
 * and what it takes for JSON json-c takes for the same.
 *
 * Input: a byte of scan flags, the text.
 */
#include <json-c/json.h>

#include "core/base/err.h"
#include "core/json/scan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/utf8.h"

enum { N_WANTS = 11 };

/* Two levels of names that are easily met, every kind of star, and one path of the greatest length. */
static const struct json_want wants[N_WANTS] = {
    { "", false },
    { "a", true },
    { "a.b", true },
    { "a.*.b", false },
    { "a.*", true },
    { "*", false },
    { "*.*", false },
    { "b.*.*", false },
    { "c", false },
    { "b.c", true },
    { "a.a.a.a.a.a.a.a", true },
};
_Static_assert(sizeof(wants) / sizeof(wants[0]) == N_WANTS, "one row each");

struct scan {
    struct span text;
    struct arena *arena;
    struct json_value last[N_WANTS];
    size_t read; /* the end of the last value */
};

static void check_string(struct scan *s, struct span raw)
{
    struct span text = json_decode(s->arena, raw);
    fuzz_check(raw.len >= 2 && raw.ptr[0] == '"' && raw.ptr[raw.len - 1] == '"', "a string has its quotes");
    fuzz_check(text.ptr[text.len] == '\0' && text.len <= raw.len - 2,
               "a decoded text has its NUL, and is no longer");
    fuzz_check(is_utf8(text), "a decoded text is UTF-8");
    fuzz_check(json_string_is(raw, text.ptr) == (strlen(text.ptr) == text.len),
               "a string is its decoded text");
}

static void check_number(struct span raw)
{
    long long value;
    char text[32];
    if (!json_int(raw, &value))
        return;
    snprintf(text, sizeof(text), "%lld", value);
    fuzz_check(span_is(raw, text) || span_is(raw, "-0"), "an integer is what is written");
}

static int on_value(void *ctx, const struct json_value *v)
{
    struct scan *s = ctx;
    size_t end = v->offset + v->raw.len;

    fuzz_check(v->path < N_WANTS && v->kind != JSON_KIND_ABSENT, "a value belongs to a wanted path");
    fuzz_check(v->raw.len > 0 && fuzz_lies_inside(v->raw, s->text), "a value lies inside the text");
    fuzz_check(v->raw.ptr == s->text.ptr + v->offset, "a value lies at its offset");
    fuzz_check(end >= s->read, "values are reported in the order of their ends");
    fuzz_check(json_scan(v->raw, NULL, 0, 0, NULL, NULL, NULL) == 0, "a value is JSON by itself");
    if (v->key.ptr != NULL) {
        fuzz_check(v->key.ptr == s->text.ptr + v->key_offset + 1, "a name lies at its offset");
        check_string(s, span_of(v->key.ptr - 1, v->key.len + 2));
    }
    if (v->kind == JSON_KIND_STRING)
        check_string(s, v->raw);
    if (v->kind == JSON_KIND_NUMBER)
        check_number(v->raw);
    s->read = end;
    s->last[v->path] = *v;
    return 0;
}

static int scan(struct span text, unsigned flags, struct json_fault *fault)
{
    return json_scan(text, NULL, 0, flags, NULL, NULL, fault);
}

/* What stands before a fault is the beginning of some text. */
static void check_fault(struct span text, unsigned flags, int r, const struct json_fault *fault)
{
    fuzz_check(r == ERR_FORMAT || r == ERR_LIMIT || r == ERR_CONFLICT, "a refusal is one of three");
    fuzz_check(r != ERR_CONFLICT || flags != 0, "what is not asked for is not refused");
    fuzz_check(fault->what != NULL && fault->offset <= text.len, "a fault has a place and a phrase");
    struct span before = fuzz_copy(span_of(text.ptr, fault->offset));
    fuzz_check(scan(before, JSON_SCAN_CUT, NULL) == 0, "what stands before a fault is well-formed");
    fuzz_free_copy(before);
}

static void check_values(struct span text, unsigned flags)
{
    struct scan s = { .text = text, .arena = arena_new() };
    struct json_value found[N_WANTS];
    struct json_fault fault = { 0, NULL };

    int r = json_scan(text, wants, N_WANTS, flags, on_value, &s, &fault);
    fuzz_check(json_find(text, wants, N_WANTS, flags, found, NULL) == r, "both ways of scanning agree");
    if (r != 0)
        fuzz_check(fault.what != NULL && fault.offset <= text.len, "a fault has a place and a phrase");
    for (size_t i = 0; r == 0 && i < N_WANTS; i++)
        fuzz_check(found[i].kind == s.last[i].kind && found[i].offset == s.last[i].offset,
                   "the last value of a path is the one that is found");
    arena_free(s.arena);
}

/* --- json-c --------------------------------------------------------------- */

static bool json_c_accepts(struct span text, json_object **out)
{
    struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX + 1);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    *out = json_tokener_parse_ex(tokener, text.ptr, (int)text.len);
    /* A bare number is known to end only by what follows it. */
    if (json_tokener_get_error(tokener) == json_tokener_continue)
        *out = json_tokener_parse_ex(tokener, "", 1);
    bool accepts = json_tokener_get_error(tokener) == json_tokener_success;
    json_tokener_free(tokener);
    return accepts;
}

static bool holds(struct span text, const char *word)
{
    return text.len > 0 && memmem(text.ptr, text.len, word, strlen(word)) != NULL;
}

static enum json_kind kind_of(json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return JSON_KIND_NULL;
    case json_type_boolean:
        return json_object_get_boolean(value) ? JSON_KIND_TRUE : JSON_KIND_FALSE;
    case json_type_double:
    case json_type_int:
        return JSON_KIND_NUMBER;
    case json_type_object:
        return JSON_KIND_OBJECT;
    case json_type_array:
        return JSON_KIND_ARRAY;
    default:
        return JSON_KIND_STRING;
    }
}

static void check_same(json_object *theirs, const struct json_value *ours)
{
    struct arena *arena = arena_new();
    fuzz_check(kind_of(theirs) == ours->kind, "a value is of the kind that json-c finds");
    if (ours->kind == JSON_KIND_STRING) {
        struct span text = json_decode(arena, ours->raw);
        fuzz_check(span_eq(text, span_of(json_object_get_string(theirs),
                                         (size_t)json_object_get_string_len(theirs))),
                   "a string decodes to what json-c makes of it");
    }
    arena_free(arena);
}

/* What json-c 0.16 lets pass even when it is told to be strict: 1. and 01, NaN
 * and Infinity, overlong UTF-8, control characters in strings, and anything
 * behind a NUL. */
static bool is_known_laxity(struct span text, const struct json_fault *fault)
{
    char before = fault->offset > 0 ? text.ptr[fault->offset - 1] : ' ';
    char at = fault->offset < text.len ? text.ptr[fault->offset] : ' ';
    return strchr("0123456789.+-eE", before) != NULL || strchr("NI", at) != NULL ||
           strcmp(fault->what, "not UTF-8") == 0 ||
           strcmp(fault->what, "a control character in a string") == 0;
}

/* How many values stand at a path. */
static size_t count_values(json_object *value, const char *path)
{
    size_t len = strcspn(path, "."), n = 0;
    bool is_star = len == 1 && path[0] == '*';
    const char *rest = path + len + (path[len] == '.');

    if (path[0] == '\0')
        return 1;
    if (json_object_is_type(value, json_type_object)) {
        struct json_object_iterator end = json_object_iter_end(value);
        for (struct json_object_iterator i = json_object_iter_begin(value); !json_object_iter_equal(&i, &end);
             json_object_iter_next(&i)) {
            struct span name = span_cstr(json_object_iter_peek_name(&i));
            if (is_star || span_eq(name, span_of(path, len)))
                n += count_values(json_object_iter_peek_value(&i), rest);
        }
    } else if (is_star && json_object_is_type(value, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(value); i++)
            n += count_values(json_object_array_get_idx(value, i), rest);
    }
    return n;
}

static int count_value(void *ctx, const struct json_value *v)
{
    size_t *counts = ctx;
    counts[v->path]++;
    return 0;
}

/* Only where no member is repeated: json-c keeps the last one. */
static void compare_counts(struct span text, json_object *root)
{
    size_t counts[N_WANTS] = { 0 };
    if (json_scan(text, wants, N_WANTS, JSON_SCAN_UNIQUE, count_value, counts, NULL) != 0)
        return;
    for (size_t i = 0; i < N_WANTS; i++)
        fuzz_check(counts[i] == count_values(root, wants[i].path),
                   "a path has the values that json-c has there");
}

static void compare_with_json_c(struct span text)
{
    static const struct json_want tops[] = { { "", false }, { "a", false }, { "c", false } };
    struct json_value found[3];
    struct json_fault fault = { 0, NULL };
    json_object *root = NULL, *member;

    int r = json_find(text, tops, 3, 0, found, &fault);
    if (r == ERR_LIMIT)
        return;
    bool accepts = json_c_accepts(text, &root);
    if (r == 0)
        fuzz_check(accepts, "what the scanner accepts json-c accepts");
    else if (accepts)
        fuzz_check(is_known_laxity(text, &fault), "what json-c accepts the scanner accepts");
    if (r == 0 && !holds(text, "\\u0000")) { /* json-c cuts a name at a NUL */
        check_same(root, &found[0]);
        compare_counts(text, root);
        for (int i = 1; i < 3; i++) {
            bool is_there = json_object_is_type(root, json_type_object) &&
                            json_object_object_get_ex(root, tops[i].path, &member);
            fuzz_check(is_there == (found[i].kind != JSON_KIND_ABSENT),
                       "a member is found where json-c finds it");
            if (is_there)
                check_same(member, &found[i]);
        }
    }
    json_object_put(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    unsigned flags = fuzz_take_byte(&in) & (JSON_SCAN_CUT | JSON_SCAN_UNIQUE);
    struct span text = fuzz_rest(&in);
    struct json_fault fault = { 0, NULL };

    int r = scan(text, flags, &fault);
    if (r != 0)
        check_fault(text, flags, r, &fault);
    else if (flags != 0)
        fuzz_check((flags & JSON_SCAN_CUT) != 0 || scan(text, 0, NULL) == 0,
                   "a stricter scan accepts no more");
    if (flags == 0 && r == 0)
        fuzz_check(scan(text, JSON_SCAN_CUT, NULL) == 0, "a whole text is one that may have been cut");
    check_values(text, flags);
    compare_with_json_c(text);
    return 0;
}
