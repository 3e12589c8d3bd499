/*
 * A document before anybody looks at its members: strict JSON of bounded size
 * in which no object repeats a member and no text holds a NUL.
 */
#ifndef CORE_CONFIG_DOCUMENT_H
#define CORE_CONFIG_DOCUMENT_H

#include <json-c/json.h>

#include "core/base/arena.h"
#include "core/base/span.h"
#include "core/config/entry.h"

/* 0, or ERR_FORMAT with one fault that names the offset. */
int document_check(struct span raw, struct arena *arena, struct entry_faults *faults);

/* The tree of a document that document_check accepts; freed with the arena.
 * NULL with a fault otherwise, and for a document that is null. */
json_object *document_parse(struct span raw, struct arena *arena, struct entry_faults *faults);

#endif
