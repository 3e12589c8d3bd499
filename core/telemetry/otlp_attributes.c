#include "core/telemetry/otlp_attributes.h"

#include <string.h>

#include "core/base/version.h"

Otlp__InstrumentationScope otlp_scope = {
    .base = PROTOBUF_C_MESSAGE_INIT(&otlp__instrumentation_scope__descriptor),
    .name = (char *)(uintptr_t) "llm-router",
    .version = (char *)(uintptr_t)LLM_ROUTER_VERSION,
};

void otlp_attributes_begin(struct otlp_attributes *attributes, struct arena *arena, int64_t value_limit,
                           int64_t count_limit)
{
    attributes->arena = arena;
    attributes->value_limit = value_limit;
    attributes->count_limit =
        count_limit >= 0 && count_limit < OTLP_ATTRIBUTES_MAX ? count_limit : OTLP_ATTRIBUTES_MAX;
    attributes->n = 0;
    attributes->n_dropped = 0;
}

/* The bytes of the first `limit` characters. */
static size_t cut(const char *text, int64_t limit)
{
    size_t i = 0;
    for (int64_t left = limit; text[i] != '\0'; i++) {
        bool is_start = ((unsigned char)text[i] & 0xC0) != 0x80;
        if (is_start && limit != OTLP_NO_LIMIT && left-- == 0)
            break;
    }
    return i;
}

static Otlp__AnyValue *new_value(struct arena *arena)
{
    Otlp__AnyValue *value = arena_new_of(arena, Otlp__AnyValue);
    otlp__any_value__init(value);
    return value;
}

/* NULL: there is no room for another one. */
static Otlp__AnyValue *add(struct otlp_attributes *attributes, const char *name)
{
    if ((int64_t)attributes->n >= attributes->count_limit) {
        attributes->n_dropped++;
        return NULL;
    }
    Otlp__KeyValue *pair = arena_new_of(attributes->arena, Otlp__KeyValue);
    otlp__key_value__init(pair);
    pair->key = (char *)(uintptr_t)name;
    pair->value = new_value(attributes->arena);
    attributes->list[attributes->n++] = pair;
    return pair->value;
}

static void set_text(const struct otlp_attributes *attributes, const char *text, Otlp__AnyValue *value)
{
    value->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
    value->string_value = arena_span(attributes->arena, span_of(text, cut(text, attributes->value_limit)));
}

void otlp_add_text(struct otlp_attributes *attributes, const char *name, const char *text)
{
    Otlp__AnyValue *value = text == NULL || text[0] == '\0' ? NULL : add(attributes, name);
    if (value != NULL)
        set_text(attributes, text, value);
}

void otlp_add_int(struct otlp_attributes *attributes, const char *name, int64_t number)
{
    Otlp__AnyValue *value = add(attributes, name);
    if (value == NULL)
        return;
    value->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
    value->int_value = number;
}

void otlp_add_bool(struct otlp_attributes *attributes, const char *name, bool is)
{
    Otlp__AnyValue *value = add(attributes, name);
    if (value == NULL)
        return;
    value->value_case = OTLP__ANY_VALUE__VALUE_BOOL_VALUE;
    value->bool_value = is;
}

void otlp_add_double(struct otlp_attributes *attributes, const char *name, double number)
{
    Otlp__AnyValue *value = add(attributes, name);
    if (value == NULL)
        return;
    value->value_case = OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE;
    value->double_value = number;
}

void otlp_add_text_list(struct otlp_attributes *attributes, const char *name, const char *text)
{
    struct arena *arena = attributes->arena;
    Otlp__AnyValue *value = text == NULL || text[0] == '\0' ? NULL : add(attributes, name);
    if (value == NULL)
        return;
    Otlp__ArrayValue *array = arena_new_of(arena, Otlp__ArrayValue);
    otlp__array_value__init(array);
    array->n_values = 1;
    array->values = arena_array_of(arena, Otlp__AnyValue *, 1);
    array->values[0] = new_value(arena);
    set_text(attributes, text, array->values[0]);
    value->value_case = OTLP__ANY_VALUE__VALUE_ARRAY_VALUE;
    value->array_value = array;
}

Otlp__KeyValue **otlp_attributes_list(const struct otlp_attributes *attributes)
{
    Otlp__KeyValue **list = arena_array_of(attributes->arena, Otlp__KeyValue *, attributes->n);
    memcpy(list, attributes->list, attributes->n * sizeof(Otlp__KeyValue *));
    return list;
}

static bool has(const struct otlp_settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->n_resource; i++)
        if (strcmp(settings->resource[i].name, name) == 0)
            return true;
    return false;
}

Otlp__Resource *otlp_resource(const struct otlp_settings *settings, const char *instance, struct arena *arena)
{
    Otlp__Resource *resource = arena_new_of(arena, Otlp__Resource);
    struct otlp_attributes attributes;

    otlp_attributes_begin(&attributes, arena, OTLP_NO_LIMIT, OTLP_NO_LIMIT);
    if (!has(settings, "service.version"))
        otlp_add_text(&attributes, "service.version", LLM_ROUTER_VERSION);
    if (!has(settings, "service.instance.id"))
        otlp_add_text(&attributes, "service.instance.id", instance);
    for (size_t i = 0; i < settings->n_resource; i++)
        otlp_add_text(&attributes, settings->resource[i].name, settings->resource[i].value);
    otlp__resource__init(resource);
    resource->n_attributes = attributes.n;
    resource->attributes = otlp_attributes_list(&attributes);
    return resource;
}
