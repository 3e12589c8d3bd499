#include "core/telemetry/otlp_json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/ids.h"

enum { NAME_BYTES_MAX = 64, ID_BYTES_MAX = 16, NUMBER_BYTES = 32 };

/* "trace_id" is "traceId". */
static void write_name(const char *name, struct json_writer *w)
{
    char camel[NAME_BYTES_MAX];
    size_t len = 0;

    for (; *name != '\0' && len < sizeof(camel); name++) {
        bool is_start = *name == '_' && name[1] != '\0';
        if (is_start)
            name++;
        camel[len++] = is_start ? (char)toupper((unsigned char)*name) : *name;
    }
    jw_key_span(w, span_of(camel, len));
}

static void write_number(struct json_writer *w, bool is_string, const char *text)
{
    if (is_string)
        jw_cstr(w, text);
    else
        jw_raw(w, span_cstr(text));
}

static void write_double(double value, struct json_writer *w)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof(text), "%.17g", value); /* the process has the C locale */
    jw_raw(w, span_cstr(text));
}

static void write_integer(bool is_wide, bool is_signed, int64_t value, struct json_writer *w)
{
    char text[NUMBER_BYTES];
    if (is_signed)
        snprintf(text, sizeof(text), "%lld", (long long)value);
    else
        snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    write_number(w, is_wide, text);
}

/* The only bytes that we send are ids. */
static void write_id(const ProtobufCBinaryData *id, struct json_writer *w)
{
    char hex[2 * ID_BYTES_MAX + 1];
    size_t len = id->len < ID_BYTES_MAX ? id->len : ID_BYTES_MAX;
    ids_hex(id->data, len, hex);
    jw_string(w, span_of(hex, 2 * len));
}

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return 8;
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    default:
        return 4;
    }
}

static void write_value(ProtobufCType type, const void *at, struct json_writer *w)
{
    switch (type) {
    case PROTOBUF_C_TYPE_DOUBLE:
        write_double(*(const double *)at, w);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        write_integer(true, true, *(const int64_t *)at, w);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        write_integer(true, false, *(const int64_t *)at, w);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        jw_bool(w, *(const protobuf_c_boolean *)at != 0);
        break;
    case PROTOBUF_C_TYPE_STRING:
        jw_cstr(w, *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        write_id(at, w);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        otlp_json_write(*(ProtobufCMessage *const *)at, w);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        write_integer(false, false, *(const uint32_t *)at, w);
        break;
    default: /* int32, enums */
        write_integer(false, true, *(const int32_t *)at, w);
        break;
    }
}

/* Whether a field that stands once holds nothing but its default. */
static bool is_default(ProtobufCType type, const void *at)
{
    static const char zeros[8];

    if (type == PROTOBUF_C_TYPE_STRING)
        return *(char *const *)at == NULL || **(char *const *)at == '\0';
    if (type == PROTOBUF_C_TYPE_MESSAGE)
        return *(ProtobufCMessage *const *)at == NULL;
    if (type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)at)->len == 0;
    return memcmp(at, zeros, size_of(type)) == 0;
}

static void write_list(const ProtobufCFieldDescriptor *field, const char *base, struct json_writer *w)
{
    size_t n = *(const size_t *)(const void *)(base + field->quantifier_offset);
    const char *elements = *(const char *const *)(const void *)(base + field->offset);

    if (n == 0)
        return;
    write_name(field->name, w);
    jw_begin_array(w);
    for (size_t i = 0; i < n; i++)
        write_value(field->type, elements + i * size_of(field->type), w);
    jw_end_array(w);
}

static void write_field(const ProtobufCFieldDescriptor *field, const char *base, struct json_writer *w)
{
    const void *at = base + field->offset;
    bool is_set;

    /* Of the members of a oneof, the one that is set stands, also with a default value. */
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        is_set = *(const uint32_t *)(const void *)(base + field->quantifier_offset) == field->id;
    else
        is_set = !is_default(field->type, at);
    if (!is_set)
        return;
    write_name(field->name, w);
    write_value(field->type, at, w);
}

void otlp_json_write(const ProtobufCMessage *message, struct json_writer *w)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    const char *base = (const char *)message;

    jw_begin_object(w);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            write_list(field, base, w);
        else
            write_field(field, base, w);
    }
    jw_end_object(w);
}
