#include "core/config/field.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/config/faults.h"
#include "core/config/nearest.h"

enum { QUOTED_BYTES = 32, MESSAGE_BYTES = 1024 };

static void read_field(struct reader *r, const struct field *field, json_object *value, void *into);

static struct span span_of_json(json_object *text)
{
    return span_of(json_object_get_string(text), (size_t)json_object_get_string_len(text));
}

static void fault_va(struct reader *r, const char *format, va_list args)
{
    char message[MESSAGE_BYTES];
    vsnprintf(message, sizeof(message), format, args);
    if (r->faults != NULL)
        fault_add(r->faults, r->arena, buf_span(&r->path), "%s", message);
}

void reader_fault(struct reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fault_va(r, format, args);
    va_end(args);
}

void reader_fault_at(struct reader *r, const char *member, const char *format, ...)
{
    va_list args;
    size_t mark = fault_path_push_name(&r->path, span_cstr(member));
    va_start(args, format);
    fault_va(r, format, args);
    va_end(args);
    fault_path_pop(&r->path, mark);
}

/* Texts are counted, not quoted: a provider key may have been put anywhere. */
static const char *describe(struct reader *r, json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return "null";
    case json_type_boolean:
        return json_object_get_boolean(value) ? "true" : "false";
    case json_type_int:
    case json_type_double:
        return arena_printf(r->arena, "the number %.40s", json_object_to_json_string(value));
    case json_type_string:
        return arena_printf(r->arena, "a text of %d bytes", json_object_get_string_len(value));
    case json_type_array:
        return arena_printf(r->arena, "a list of %zu", json_object_array_length(value));
    case json_type_object:
        return arena_printf(r->arena, "an object of %d members", json_object_object_length(value));
    }
    return "something else";
}

static void fault_unexpected(struct reader *r, const struct field *field, json_object *value)
{
    reader_fault(r, "found %s, expected %s", describe(r, value), field_expectation(field, r->arena));
}

static bool is_int_within(json_object *value, long long min, long long max)
{
    return json_object_is_type(value, json_type_int) && json_object_get_int64(value) >= min &&
           json_object_get_int64(value) <= max;
}

/* Whether a text obeys length and rule; a fault if not. */
static bool text_fits(struct reader *r, const struct text_rule *rule, struct span text, long long min,
                      long long max)
{
    if ((long long)text.len < min || (long long)text.len > max) {
        reader_fault(r, "found a text of %zu bytes, expected %s, %lld to %lld bytes", text.len, rule->words,
                     min, max);
        return false;
    }
    const char *problem = rule->problem(text);
    if (problem != NULL)
        reader_fault(r, "%s; expected %s", problem, rule->words);
    return problem == NULL;
}

static void read_text(struct reader *r, const struct field *field, json_object *value, void *into)
{
    if (!json_object_is_type(value, json_type_string))
        fault_unexpected(r, field, value);
    else if (text_fits(r, field->rule, span_of_json(value), field->min, field->max) && into != NULL)
        *(struct snap_str *)into = image_text(r->image, span_of_json(value));
}

static void read_int(struct reader *r, const struct field *field, json_object *value, void *into)
{
    if (!is_int_within(value, field->min, field->max))
        fault_unexpected(r, field, value);
    else if (into != NULL)
        *(uint32_t *)into = (uint32_t)json_object_get_int64(value);
}

static void read_number(struct reader *r, const struct field *field, json_object *value, void *into)
{
    bool is_number =
        json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
    double number = is_number ? json_object_get_double(value) : 0;
    if (!is_number || !(number >= field->low && number <= field->high))
        fault_unexpected(r, field, value);
    else if (into != NULL)
        *(struct voice_pack_number *)into = (struct voice_pack_number){ number, true };
}

static void read_bool(struct reader *r, const struct field *field, json_object *value, void *into)
{
    if (!json_object_is_type(value, json_type_boolean))
        fault_unexpected(r, field, value);
    else if (into != NULL)
        *(uint32_t *)into = json_object_get_boolean(value) ? 1 : 0;
}

static void read_enum(struct reader *r, const struct field *field, json_object *value, void *into)
{
    if (!json_object_is_type(value, json_type_string)) {
        fault_unexpected(r, field, value);
        return;
    }
    struct span text = span_of_json(value);
    const char *choice;
    for (size_t i = 0; (choice = field_choice(field, i)) != NULL; i++) {
        if (!span_is(text, choice))
            continue;
        if (into != NULL)
            *(struct snap_str *)into = image_text(r->image, text);
        return;
    }
    if (text.len > QUOTED_BYTES)
        fault_unexpected(r, field, value);
    else
        reader_fault(r, "found \"%.*s\", expected %s", (int)text.len, text.ptr,
                     field_expectation(field, r->arena));
}

static unsigned hex_value(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void read_sha256(struct reader *r, const struct field *field, json_object *value, void *into)
{
    struct span text = json_object_is_type(value, json_type_string) ? span_of_json(value) : span_of("", 0);
    if (text.len != 64 || rule_sha256.problem(text) != NULL) {
        fault_unexpected(r, field, value);
        return;
    }
    uint8_t *bytes = into;
    for (size_t i = 0; bytes != NULL && i < 32; i++)
        bytes[i] = (uint8_t)(hex_value(text.ptr[2 * i]) << 4 | hex_value(text.ptr[2 * i + 1]));
}

static void read_codes(struct reader *r, const struct field *field, json_object *value, void *into)
{
    if (!json_object_is_type(value, json_type_array)) {
        fault_unexpected(r, field, value);
        return;
    }
    size_t n = json_object_array_length(value);
    uint32_t *codes = arena_array_of(r->arena, uint32_t, n);
    for (size_t i = 0; i < n; i++) {
        json_object *code = json_object_array_get_idx(value, i);
        size_t mark = fault_path_push_index(&r->path, i);
        if (is_int_within(code, field->min, field->max))
            codes[i] = (uint32_t)json_object_get_int64(code);
        else
            reader_fault(r, "found %s, expected a whole number from %lld to %lld", describe(r, code),
                         field->min, field->max);
        fault_path_pop(&r->path, mark);
    }
    if (into != NULL)
        *(struct snap_vec *)into = image_vector(r->image, codes, n, sizeof(*codes));
}

static void read_texts(struct reader *r, const struct field *field, json_object *value, void *into)
{
    size_t n = json_object_is_type(value, json_type_array) ? json_object_array_length(value) : SIZE_MAX;
    if (n > (size_t)field->max) {
        fault_unexpected(r, field, value);
        return;
    }
    struct snap_str *texts = arena_array_of(r->arena, struct snap_str, n);
    struct field element = { .kind = FIELD_TEXT, .rule = field->rule, .min = 1, .max = NAME_MAX_BYTES };
    for (size_t i = 0; i < n; i++) {
        size_t mark = fault_path_push_index(&r->path, i);
        read_text(r, &element, json_object_array_get_idx(value, i), &texts[i]);
        fault_path_pop(&r->path, mark);
    }
    if (into != NULL)
        *(struct snap_vec *)into = image_vector(r->image, texts, n, sizeof(*texts));
}

static void read_headers(struct reader *r, const struct field *field, json_object *value, void *into)
{
    if (!json_object_is_type(value, json_type_object) || json_object_object_length(value) > field->max) {
        fault_unexpected(r, field, value);
        return;
    }
    size_t n = (size_t)json_object_object_length(value), i = 0;
    struct snap_header_line *lines = arena_array_of(r->arena, struct snap_header_line, n);
    struct field content = { .kind = FIELD_TEXT, .rule = &rule_header_value, .max = HEADER_VALUE_MAX_BYTES };
    struct json_object_iterator at = json_object_iter_begin(value), end = json_object_iter_end(value);
    for (; !json_object_iter_equal(&at, &end); json_object_iter_next(&at), i++) {
        struct span name = span_cstr(json_object_iter_peek_name(&at));
        size_t mark = fault_path_push_name(&r->path, name);
        if (text_fits(r, &rule_header_name, name, 1, HEADER_NAME_MAX_BYTES))
            lines[i].name = image_text(r->image, name);
        read_text(r, &content, json_object_iter_peek_value(&at), &lines[i].value);
        fault_path_pop(&r->path, mark);
    }
    if (into != NULL)
        *(struct snap_vec *)into = image_vector(r->image, lines, n, sizeof(*lines));
}

static void read_object(struct reader *r, const struct field *field, json_object *value, void *into)
{
    if (!json_object_is_type(value, json_type_object))
        fault_unexpected(r, field, value);
    else
        reader_read_record(r, field->record, value, into);
}

static void read_list(struct reader *r, const struct field *field, json_object *value, void *into)
{
    size_t n = json_object_is_type(value, json_type_array) ? json_object_array_length(value) : SIZE_MAX;
    if (n < (size_t)field->min || n > (size_t)field->max) {
        fault_unexpected(r, field, value);
        return;
    }
    size_t bytes = field->record->bytes;
    char *items = arena_calloc(r->arena, n, bytes);
    struct field element = { .kind = FIELD_RECORD, .record = field->record };
    for (size_t i = 0; i < n; i++) {
        size_t mark = fault_path_push_index(&r->path, i);
        read_object(r, &element, json_object_array_get_idx(value, i), items + i * bytes);
        fault_path_pop(&r->path, mark);
    }
    if (into != NULL)
        *(struct snap_vec *)into = image_vector(r->image, items, n, bytes);
}

static void read_map(struct reader *r, const struct field *field, json_object *value, void *into)
{
    if (!json_object_is_type(value, json_type_object) || json_object_object_length(value) > field->max) {
        fault_unexpected(r, field, value);
        return;
    }
    size_t n = (size_t)json_object_object_length(value), bytes = field->record->bytes, i = 0;
    char *items = arena_calloc(r->arena, n, bytes);
    struct field element = { .kind = FIELD_RECORD, .record = field->record };
    struct span outer = r->owner;
    struct json_object_iterator at = json_object_iter_begin(value), end = json_object_iter_end(value);
    for (; !json_object_iter_equal(&at, &end); json_object_iter_next(&at), i++) {
        struct span name = span_cstr(json_object_iter_peek_name(&at));
        char *item = items + i * bytes;
        size_t mark = fault_path_push_name(&r->path, name);
        if (text_fits(r, field->rule, name, 1, NAME_MAX_BYTES))
            *(struct snap_str *)(void *)(item + field->record->name_land) = image_text(r->image, name);
        r->owner = name;
        read_object(r, &element, json_object_iter_peek_value(&at), item);
        r->owner = outer;
        fault_path_pop(&r->path, mark);
    }
    if (into != NULL)
        *(struct snap_vec *)into = image_vector(r->image, items, n, bytes);
}

static void read_refused(struct reader *r, const struct field *field, json_object *value, void *into)
{
    (void)value;
    (void)into;
    reader_fault(r, "%s", field->doc);
}

static void fault_param(void *ctx, struct span member, const char *message)
{
    struct reader *r = ctx;
    size_t mark = fault_path_push_name(&r->path, member);
    reader_fault(r, "%s", message);
    fault_path_pop(&r->path, mark);
}

/* Without an adapter nobody knows what may stand there; that is told where it is named. */
static void read_params(struct reader *r, const struct field *field, json_object *value, void *into)
{
    if (!json_object_is_type(value, json_type_object)) {
        fault_unexpected(r, field, value);
        return;
    }
    struct span text = span_cstr(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
    if (r->adapter != NULL && adapter_read_params(r->adapter, text, r->arena, fault_param, r) == 0 &&
        into != NULL)
        *(struct snap_str *)into = image_text(r->image, text);
}

typedef void read_function(struct reader *, const struct field *, json_object *, void *);

static read_function *const readers[FIELD_KINDS] = {
    [FIELD_TEXT] = read_text,     [FIELD_INT] = read_int,         [FIELD_BOOL] = read_bool,
    [FIELD_ENUM] = read_enum,     [FIELD_SHA256] = read_sha256,   [FIELD_CODES] = read_codes,
    [FIELD_TEXTS] = read_texts,   [FIELD_HEADERS] = read_headers, [FIELD_RECORD] = read_object,
    [FIELD_LIST] = read_list,     [FIELD_MAP] = read_map,         [FIELD_REFUSED] = read_refused,
    [FIELD_PARAMS] = read_params, [FIELD_NUMBER] = read_number,
};

static void read_field(struct reader *r, const struct field *field, json_object *value, void *into)
{
    readers[field->kind](r, field, value, field->lands_nowhere ? NULL : (char *)into + field->land);
}

/* What a member is when it does not stand in the document. */
static void read_absent(struct reader *r, const struct field *field, void *into)
{
    if (field->inherits != NULL) {
        const struct field *from = field_of_defaults(field->inherits);
        size_t bytes = field->kind == FIELD_CODES ? sizeof(struct snap_vec) : sizeof(uint32_t);
        memcpy((char *)into + field->land, (const char *)r->defaults + from->land, bytes);
    } else if (field->preset != NULL) {
        json_object *value = json_tokener_parse(field->preset);
        read_field(r, field, value, into);
        json_object_put(value);
    } else if (field->kind == FIELD_RECORD && !field->lands_nowhere) {
        reader_read_record(r, field->record, NULL, (char *)into + field->land);
    }
}

static const struct field *find_field(const struct record *record, struct span name)
{
    for (size_t i = 0; i < record->n_fields; i++)
        if (span_is(name, record->fields[i].name))
            return &record->fields[i];
    return NULL;
}

static void fault_unknown(struct reader *r, const struct record *record, struct span name)
{
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < record->n_fields; i++) {
        struct span known = span_cstr(record->fields[i].name);
        size_t distance = name_distance(name, known);
        if (record->fields[i].kind != FIELD_REFUSED && distance < least && name_is_near(known, distance)) {
            nearest = record->fields[i].name;
            least = distance;
        }
    }
    size_t mark = fault_path_push_name(&r->path, name);
    if (nearest != NULL)
        reader_fault(r, "unknown member; the nearest known one is \"%s\"", nearest);
    else
        reader_fault(r, "unknown member");
    fault_path_pop(&r->path, mark);
}

static void check_one_of(struct reader *r, const struct record *record, json_object *object)
{
    size_t found = 0;
    const char *names = NULL;
    for (size_t i = 0; record->one_of[i] != NULL; i++) {
        found += json_object_object_get_ex(object, record->one_of[i], NULL) ? 1 : 0;
        names = names == NULL ? arena_printf(r->arena, "\"%s\"", record->one_of[i])
                              : arena_printf(r->arena, "%s, \"%s\"", names, record->one_of[i]);
    }
    if (found != 1)
        reader_fault(r, "found %s of %s, expected exactly one", found == 0 ? "none" : "more than one", names);
}

static void read_other(struct reader *r, const struct record *record, struct span name, json_object *value)
{
    size_t mark = fault_path_push_name(&r->path, name);
    if (text_fits(r, record->other_name, name, 1, NAME_MAX_BYTES))
        readers[record->other->kind](r, record->other, value, NULL);
    fault_path_pop(&r->path, mark);
}

void reader_read_record(struct reader *r, const struct record *record, json_object *object, void *into)
{
    if (record->prepare != NULL)
        record->prepare(r, object);
    if (object != NULL) {
        struct json_object_iterator at = json_object_iter_begin(object), end = json_object_iter_end(object);
        for (; !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
            struct span name = span_cstr(json_object_iter_peek_name(&at));
            const struct field *field = find_field(record, name);
            if (field == NULL && record->other != NULL)
                read_other(r, record, name, json_object_iter_peek_value(&at));
            else if (field == NULL)
                fault_unknown(r, record, name);
            if (field == NULL)
                continue;
            size_t mark = fault_path_push_name(&r->path, name);
            read_field(r, field, json_object_iter_peek_value(&at), into);
            fault_path_pop(&r->path, mark);
        }
    }
    for (size_t i = 0; i < record->n_fields; i++) {
        const struct field *field = &record->fields[i];
        if (object != NULL && json_object_object_get_ex(object, field->name, NULL))
            continue;
        if (object != NULL && field->is_required)
            reader_fault_at(r, field->name, "is missing; expected %s", field_expectation(field, r->arena));
        read_absent(r, field, into);
    }
    if (object != NULL && record->one_of != NULL)
        check_one_of(r, record, object);
    if (object != NULL && record->finish != NULL)
        record->finish(r, into, object);
}

void reader_read(struct reader *r, const struct field *field, void *into)
{
    if (r->document != NULL)
        read_field(r, field, r->document, into);
    else
        read_absent(r, field, into);
}
