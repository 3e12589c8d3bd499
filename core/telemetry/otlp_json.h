/*
 * OTLP's JSON of a message: that of protobuf with four differences (OTLP
 * specification, "JSON Protobuf Encoding"): ids are hex and not base64, enums are
 * numbers, names are lowerCamelCase only, and 64-bit integers are strings, as there.
 * What has its default value is left out. The message's strings are valid UTF-8, its
 * doubles finite.
 */
#ifndef CORE_TELEMETRY_OTLP_JSON_H
#define CORE_TELEMETRY_OTLP_JSON_H

#include <protobuf-c/protobuf-c.h>

#include "core/json/writer.h"

void otlp_json_write(const ProtobufCMessage *message, struct json_writer *w);

#endif
