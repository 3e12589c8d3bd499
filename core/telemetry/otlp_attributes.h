/*
 * Attributes of OTLP's messages, built in an arena. Texts are cut after a number of
 * characters, and attributes beyond a number are dropped and counted, as
 * OTEL_ATTRIBUTE_*_LIMIT say.
 */
#ifndef CORE_TELEMETRY_OTLP_ATTRIBUTES_H
#define CORE_TELEMETRY_OTLP_ATTRIBUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/span.h"
#include "core/telemetry/otlp.pb-c.h"
#include "core/telemetry/otlp_settings.h"

enum { OTLP_ATTRIBUTES_MAX = 64 };

struct otlp_attributes {
    struct arena *arena;
    int64_t value_limit, count_limit; /* OTLP_NO_LIMIT: none */
    Otlp__KeyValue *list[OTLP_ATTRIBUTES_MAX];
    size_t n;
    uint32_t n_dropped;
};

void otlp_attributes_begin(struct otlp_attributes *attributes, struct arena *arena, int64_t value_limit,
                           int64_t count_limit);

/* Names are constants, or live as long as the arena. A text that is NULL or empty is left out;
 * it is valid UTF-8. */
void otlp_add_text(struct otlp_attributes *attributes, const char *name, const char *text);
void otlp_add_int(struct otlp_attributes *attributes, const char *name, int64_t number);
void otlp_add_bool(struct otlp_attributes *attributes, const char *name, bool is);
void otlp_add_double(struct otlp_attributes *attributes, const char *name, double number);

/* An array of one text. */
void otlp_add_text_list(struct otlp_attributes *attributes, const char *name, const char *text);

/* The list as a message holds it: of the arena. */
Otlp__KeyValue **otlp_attributes_list(const struct otlp_attributes *attributes);

/* Who speaks: the settings' attributes, and service.version and service.instance.id where they do
 * not say otherwise. The arena's. */
Otlp__Resource *otlp_resource(const struct otlp_settings *settings, const char *instance,
                              struct arena *arena);

/* The scope of everything that we send. */
extern Otlp__InstrumentationScope otlp_scope;

/* Of the conventions that names follow. */
#define OTLP_SCHEMA_URL "https://opentelemetry.io/schemas/1.41.0"

#endif
