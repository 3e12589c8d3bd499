#include "core/config/field.h"

#include <stdio.h>

#include "core/json/writer.h"

static void write_record(struct json_writer *w, const struct record *record);
static void write_type(struct json_writer *w, const struct field *field);

static void write_names(struct json_writer *w, const char *member, const char *const *names)
{
    jw_key(w, member);
    jw_begin_array(w);
    for (; *names != NULL; names++)
        jw_cstr(w, *names);
    jw_end_array(w);
}

static void write_text(struct json_writer *w, const struct text_rule *rule, long long min, long long max)
{
    /* JSON Schema counts characters, we count bytes: only the least is the same. */
    jw_member_cstr(w, "type", "string");
    jw_member_int(w, "minLength", min > 0 ? 1 : 0);
    jw_member_int(w, "maxLength", max);
    if (rule->pattern != NULL)
        jw_member_cstr(w, "pattern", rule->pattern);
}

static void write_whole_number(struct json_writer *w, const struct field *field)
{
    jw_member_cstr(w, "type", "integer");
    jw_member_int(w, "minimum", field->min);
    jw_member_int(w, "maximum", field->max);
}

static void write_number(struct json_writer *w, const char *name, double number)
{
    char text[32];
    snprintf(text, sizeof(text), "%.10g", number);
    jw_key(w, name);
    jw_raw(w, span_cstr(text));
}

static void write_members_of_map(struct json_writer *w, const struct field *field)
{
    jw_member_cstr(w, "type", "object");
    jw_member_int(w, "maxProperties", field->max);
    jw_key(w, "propertyNames");
    jw_begin_object(w);
    write_text(w, field->rule, 1, NAME_MAX_BYTES);
    jw_end_object(w);
    jw_key(w, "additionalProperties");
    jw_begin_object(w);
    write_record(w, field->record);
    jw_end_object(w);
}

static void write_headers(struct json_writer *w, const struct field *field)
{
    jw_member_cstr(w, "type", "object");
    jw_member_int(w, "maxProperties", field->max);
    jw_key(w, "propertyNames");
    jw_begin_object(w);
    write_text(w, &rule_header_name, 1, HEADER_NAME_MAX_BYTES);
    jw_end_object(w);
    jw_key(w, "additionalProperties");
    jw_begin_object(w);
    write_text(w, &rule_header_value, 0, HEADER_VALUE_MAX_BYTES);
    jw_end_object(w);
}

static void write_choices(struct json_writer *w, const struct field *field)
{
    jw_key(w, "enum");
    jw_begin_array(w);
    const char *choice;
    for (size_t i = 0; (choice = field_choice(field, i)) != NULL; i++)
        jw_cstr(w, choice);
    jw_end_array(w);
}

static void write_items(struct json_writer *w, const struct field *field)
{
    jw_member_cstr(w, "type", "array");
    if (field->kind != FIELD_CODES)
        jw_member_int(w, "maxItems", field->max);
    if (field->kind == FIELD_LIST)
        jw_member_int(w, "minItems", field->min);
    jw_key(w, "items");
    jw_begin_object(w);
    if (field->kind == FIELD_CODES)
        write_whole_number(w, field);
    else if (field->kind == FIELD_TEXTS)
        write_text(w, field->rule, 1, NAME_MAX_BYTES);
    else
        write_record(w, field->record);
    jw_end_object(w);
}

static void write_type(struct json_writer *w, const struct field *field)
{
    switch (field->kind) {
    case FIELD_TEXT:
        write_text(w, field->rule, field->min, field->max);
        break;
    case FIELD_SHA256:
        write_text(w, &rule_sha256, 64, 64);
        break;
    case FIELD_INT:
        write_whole_number(w, field);
        break;
    case FIELD_NUMBER:
        jw_member_cstr(w, "type", "number");
        write_number(w, "minimum", field->low);
        write_number(w, "maximum", field->high);
        break;
    case FIELD_BOOL:
        jw_member_cstr(w, "type", "boolean");
        break;
    case FIELD_ENUM:
        write_choices(w, field);
        break;
    case FIELD_CODES:
    case FIELD_TEXTS:
    case FIELD_LIST:
        write_items(w, field);
        break;
    case FIELD_HEADERS:
        write_headers(w, field);
        break;
    case FIELD_RECORD:
        write_record(w, field->record);
        break;
    case FIELD_MAP:
        write_members_of_map(w, field);
        break;
    case FIELD_PARAMS: /* which, is said where the provider is */
        jw_member_cstr(w, "type", "object");
        break;
    case FIELD_REFUSED:
    case FIELD_KINDS:
        break;
    }
    jw_member_cstr(w, "description", field->doc);
    if (field->preset != NULL) {
        jw_key(w, "default");
        jw_raw(w, span_cstr(field->preset));
    }
}

static void write_required(struct json_writer *w, const struct record *record)
{
    jw_key(w, "required");
    jw_begin_array(w);
    for (size_t i = 0; i < record->n_fields; i++)
        if (record->fields[i].is_required)
            jw_cstr(w, record->fields[i].name);
    jw_end_array(w);
    if (record->one_of == NULL)
        return;
    jw_key(w, "oneOf");
    jw_begin_array(w);
    for (size_t i = 0; record->one_of[i] != NULL; i++) {
        jw_begin_object(w);
        write_names(w, "required", (const char *const[]){ record->one_of[i], NULL });
        jw_end_object(w);
    }
    jw_end_array(w);
}

static void write_others(struct json_writer *w, const struct record *record)
{
    if (record->other == NULL) {
        jw_member_bool(w, "additionalProperties", false);
        return;
    }
    jw_key(w, "propertyNames");
    jw_begin_object(w);
    write_text(w, record->other_name, 1, NAME_MAX_BYTES);
    jw_end_object(w);
    jw_key(w, "additionalProperties");
    jw_begin_object(w);
    write_type(w, record->other);
    jw_end_object(w);
}

/* ---- parameters, by the adapters' tables ---- */

static void write_param_text(struct json_writer *w, const struct adapter_param *param)
{
    jw_member_cstr(w, "type", "string");
    jw_member_int(w, "minLength", param->min > 0 ? 1 : 0); /* of characters, as above */
    jw_member_int(w, "maxLength", (long long)param->max);
    jw_member_cstr(w, "pattern",
                   param->kind == PARAM_NAME ? "^[!-~]*$" : "^[^\\u0000-\\u001f\\u007f-\\u009f]*$");
}

static void write_param(struct json_writer *w, const struct adapter_param *param)
{
    switch (param->kind) {
    case PARAM_TEXT:
    case PARAM_NAME:
        write_param_text(w, param);
        break;
    case PARAM_CHOICE:
        write_names(w, "enum", param->choices);
        break;
    case PARAM_WHOLE:
    case PARAM_NUMBER:
        jw_member_cstr(w, "type", param->kind == PARAM_WHOLE ? "integer" : "number");
        write_number(w, "minimum", param->min);
        write_number(w, "maximum", param->max);
        break;
    case PARAM_BOOL:
        jw_member_cstr(w, "type", "boolean");
        break;
    case PARAM_JSON:
        write_names(w, "type", (const char *const[]){ "object", "array", NULL });
        break;
    }
    jw_member_cstr(w, "description", param->doc);
}

static void write_params(struct json_writer *w, const struct adapter *adapter)
{
    const struct adapter_param *param;
    jw_key(w, "properties");
    jw_begin_object(w);
    for (size_t i = 0; (param = adapter_param(adapter, i)) != NULL; i++) {
        if ((param->right & PARAM_BY_OPERATOR) == 0)
            continue;
        jw_key(w, param->name);
        jw_begin_object(w);
        write_param(w, param);
        jw_end_object(w);
    }
    jw_end_object(w);
    jw_member_bool(w, "additionalProperties", false);
}

static bool leads_to_params(const struct field *field)
{
    for (size_t i = 0; field->record != NULL && i < field->record->n_fields; i++)
        if (leads_to_params(&field->record->fields[i]))
            return true;
    return field->kind == FIELD_PARAMS;
}

/* The members of a record that lead to parameters, down to these. */
static void write_way_to_params(struct json_writer *w, const struct record *record,
                                const struct adapter *adapter)
{
    jw_key(w, "properties");
    jw_begin_object(w);
    for (size_t i = 0; i < record->n_fields; i++) {
        const struct field *field = &record->fields[i];
        if (!leads_to_params(field))
            continue;
        jw_key(w, field->name);
        jw_begin_object(w);
        if (field->kind == FIELD_PARAMS) {
            write_params(w, adapter);
        } else {
            jw_key(w, "items");
            jw_begin_object(w);
            write_way_to_params(w, field->record, adapter);
            jw_end_object(w);
        }
        jw_end_object(w);
    }
    jw_end_object(w);
}

/* One condition for each adapter: if the record names it, its table holds. */
static void write_adapters(struct json_writer *w, const struct record *record)
{
    const char *name;
    jw_key(w, "allOf");
    jw_begin_array(w);
    for (size_t i = 0; (name = adapter_name(i)) != NULL; i++) {
        jw_begin_object(w);
        jw_key(w, "if");
        jw_begin_object(w);
        jw_key(w, "properties");
        jw_begin_object(w);
        jw_key(w, record->adapter_member);
        jw_begin_object(w);
        jw_member_cstr(w, "const", name);
        jw_end_object(w);
        jw_end_object(w);
        write_names(w, "required", (const char *const[]){ record->adapter_member, NULL });
        jw_end_object(w);
        jw_key(w, "then");
        jw_begin_object(w);
        write_way_to_params(w, record, adapter_find(span_cstr(name)));
        jw_end_object(w);
        jw_end_object(w);
    }
    jw_end_array(w);
}

/* ---- records ---- */

static void write_record(struct json_writer *w, const struct record *record)
{
    jw_member_cstr(w, "type", "object");
    jw_key(w, "properties");
    jw_begin_object(w);
    for (size_t i = 0; i < record->n_fields; i++) {
        if (record->fields[i].kind == FIELD_REFUSED)
            continue; /* as any other member that is not in the list */
        jw_key(w, record->fields[i].name);
        jw_begin_object(w);
        write_type(w, &record->fields[i]);
        jw_end_object(w);
    }
    jw_end_object(w);
    write_others(w, record);
    write_required(w, record);
    if (record->adapter_member != NULL)
        write_adapters(w, record);
}

void entry_schema(enum entry_id id, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_member_cstr(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
    jw_member_cstr(&w, "title", entry_name(id));
    write_type(&w, entry_row(id)->field);
    jw_end_object(&w);
}
