#include "core/base/mdoc.h"
#include "core/config/field.h"

static void write_field(struct buf *out, struct arena *arena, const struct field *field)
{
    buf_printf(out, ".It Cm %s\n", field->name);
    mdoc_write_text(out, field->doc);
    const char *expectation = field_expectation(field, arena);
    if (field->is_required)
        mdoc_write_text(out, arena_printf(arena, "Required: %s.", expectation));
    else if (field->inherits != NULL)
        mdoc_write_text(out, arena_printf(arena, "Optional: %s; by default what defaults.%s says.",
                                          expectation, field->inherits));
    else if (field->preset != NULL)
        mdoc_write_text(out, arena_printf(arena, "Optional: %s; by default %s.", expectation, field->preset));
    else
        mdoc_write_text(out, arena_printf(arena, "Optional: %s.", expectation));
}

static void write_reserved(struct buf *out, const struct record *record)
{
    size_t n = 0;
    for (size_t i = 0; i < record->n_fields; i++) {
        if (record->fields[i].kind != FIELD_REFUSED)
            continue;
        buf_append_cstr(out, n++ == 0 ? ".Pp\nKnown, but refused: " : ", ");
        buf_append_cstr(out, record->fields[i].name);
    }
    if (n > 0)
        buf_append_cstr(out, ".\n");
}

static void write_param(struct buf *out, struct arena *arena, const struct adapter_param *param)
{
    static const char *const rights[] = {
        [PARAM_BY_OPERATOR] = "",
        [PARAM_BY_CALLER] = "Only in a request's extra_body.",
        [PARAM_BY_BOTH] = "A request's extra_body may say otherwise.",
    };
    buf_printf(out, ".It Cm %s\n", param->name);
    mdoc_write_text(out, param->doc);
    mdoc_write_text(out, arena_printf(arena, "Optional: %s.", adapter_param_expectation(param, arena)));
    if (rights[param->right][0] != '\0')
        mdoc_write_text(out, rights[param->right]);
}

/* The parameters of each provider, whose table is not the configuration's. */
static void write_adapters(struct buf *out, struct arena *arena, const char *place)
{
    const struct adapter_param *param;
    const char *name;
    for (size_t i = 0; (name = adapter_name(i)) != NULL; i++) {
        const struct adapter *adapter = adapter_find(span_cstr(name));
        buf_printf(out, ".Ss %s of %s\n", place, name);
        buf_append_cstr(out, ".Bl -tag -width Ds\n");
        for (size_t n = 0; (param = adapter_param(adapter, n)) != NULL; n++)
            write_param(out, arena, param);
        buf_append_cstr(out, ".El\n");
    }
}

static void write_record(struct buf *out, struct arena *arena, const struct record *record, const char *place)
{
    buf_printf(out, ".Ss %s\n", place);
    buf_append_cstr(out, ".Bl -tag -width Ds\n");
    for (size_t i = 0; i < record->n_fields; i++)
        if (record->fields[i].kind != FIELD_REFUSED)
            write_field(out, arena, &record->fields[i]);
    if (record->other != NULL)
        write_field(out, arena, record->other);
    buf_append_cstr(out, ".El\n");
    write_reserved(out, record);
    for (size_t i = 0; i < record->n_fields; i++) {
        const struct field *field = &record->fields[i];
        const char *steps = field->kind == FIELD_LIST ? "/N" : field->kind == FIELD_MAP ? "/NAME" : "";
        if (field->record != NULL)
            write_record(out, arena, field->record,
                         arena_printf(arena, "%s/%s%s", place, field->name, steps));
        else if (field->kind == FIELD_PARAMS)
            write_adapters(out, arena, arena_printf(arena, "%s/%s", place, field->name));
    }
}

void entry_manual(struct buf *out)
{
    struct arena *arena = arena_new();
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        const struct entry_row *row = entry_row((enum entry_id)i);
        if (row->field->record != NULL) {
            bool is_map = row->field->kind == FIELD_MAP;
            write_record(out, arena, row->field->record,
                         is_map ? arena_printf(arena, "%s/NAME", row->name) : row->name);
            continue;
        }
        buf_printf(out, ".Ss %s\n", row->name);
        mdoc_write_text(out, row->field->doc);
        mdoc_write_text(out, arena_printf(arena, "The value is %s.", field_expectation(row->field, arena)));
    }
    arena_free(arena);
}
