/*
 * Entries of configKV: what each may hold, from one table of fields per entry.
 * The table drives reading, defaults, messages, the JSON Schema and the list
 * in llm-router-config(5); to add a setting is to add a row.
 */
#ifndef CORE_CONFIG_ENTRY_H
#define CORE_CONFIG_ENTRY_H

#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/config/snapshot.h"
#include "core/crypto/envelope.h"

enum entry_id {
    ENTRY_LLM_ROUTER_CONFIG,
    ENTRY_DEFAULT_CHAT_MODEL,
    ENTRY_DEFAULT_TTS_MODEL,
    ENTRY_DEFAULT_TTS_VOICES,
    ENTRY_CALLER_KEYS,
    ENTRY_VOICE_PACKS,
    ENTRY_VOICE_PACK_TAG_KEY,
    ENTRY_COUNT,
};

/* The configKV key: "LLM_ROUTER_CONFIG". */
const char *entry_name(enum entry_id id);

/* ERR_NOT_FOUND for a name that is no entry. */
int entry_by_name(struct span name, enum entry_id *out);

/* One thing wrong with a document. */
struct entry_fault {
    const char *path;    /* JSON pointer (RFC 6901); "" is the whole document */
    const char *message; /* what was found and what is allowed; holds no key material */
};

/* All that is wrong with it, in the document's order; memory of the arena. */
struct entry_faults {
    struct entry_fault *items;
    size_t count;
    size_t dropped; /* beyond the first 100 */
};

/* An entry's value as the store has it; raw.ptr == NULL: there is none. */
struct entry_value {
    struct span raw;
    const char *version; /* NULL without a value */
};

/* Reads one value and reports every fault: 0, or ERR_FORMAT with faults->count > 0. */
int entry_check(enum entry_id id, struct span raw, struct arena *arena, struct entry_faults *faults);

/*
 * Compiles one value of each entry into an image of at most
 * SNAPSHOT_LIMIT_BYTES. `keys` (may be NULL: no master key) is used to
 * fingerprint provider keys; one that does not decrypt gets an empty
 * fingerprint and is counted in *undecryptable, which is not a failure.
 * `image` receives the bytes (memory of the arena). ERR_FORMAT with *which and
 * *faults set; ERR_LIMIT.
 */
int entry_compile(const struct entry_value values[ENTRY_COUNT], uint64_t generation,
                  const struct envelope_keys *keys, struct arena *arena, struct span *image,
                  size_t *undecryptable, enum entry_id *which, struct entry_faults *faults);

/* The entry's JSON Schema (draft 2020-12). */
void entry_schema(enum entry_id id, struct buf *out);

/* The fields as mdoc source, for llm-router-config(5). */
void entry_manual(struct buf *out);

#endif
