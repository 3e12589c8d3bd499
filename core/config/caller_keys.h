/*
 * The rows of CALLER_KEYS, one at a time: what the administrators' API and
 * llm-routerctl do with them. Text in, text out: other rows stay as they were
 * written. Of a key only its SHA-256 is kept, and only the beginning of that is shown.
 *
 * `raw` is the entry's value, or the empty span where there is none yet. Each
 * function checks it first; ERR_UNSUPPORTED: it is not valid as it is (somebody
 * has edited it), and nothing can be done with it.
 */
#ifndef CORE_CONFIG_CALLER_KEYS_H
#define CORE_CONFIG_CALLER_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/config/entry.h"
#include "core/json/writer.h"

enum {
    CALLER_KEY_TEXT_BYTES = 47, /* "lr-", 43 digits of base64url for 32 random bytes, a NUL */
    CALLER_KEY_FINGERPRINT_DIGITS = 8,
};

/* A new key. The caller's to wipe. */
void caller_key_generate(char out[CALLER_KEY_TEXT_BYTES]);

struct caller_key {
    const char *id;
    const char *owner, *created_at;                      /* NULL: not said */
    struct span models;                                  /* a JSON list as written; ptr NULL: all models */
    struct span limits;                                  /* a JSON object as written; ptr NULL: none */
    char fingerprint[CALLER_KEY_FINGERPRINT_DIGITS + 1]; /* the first hex digits of the key's SHA-256 */
};

/* All rows, in the document's order; arena memory. */
int caller_keys_list(struct span raw, struct arena *arena, struct caller_key **out, size_t *n);

/* ERR_NOT_FOUND: there is none with this id. */
int caller_keys_find(struct span raw, const char *id, struct arena *arena, struct caller_key *out);

/*
 * Adds a row for the key. `wanted` is {"id", "owner"?, "models"?, "limits"?};
 * `created_at` a time as text. ERR_FORMAT: *faults says what is wrong with `wanted` (paths are in
 * it). ERR_CONFLICT: there is a row with this id. ERR_LIMIT: there are too many.
 */
int caller_keys_add(struct span raw, struct span wanted, const char *key, const char *created_at,
                    struct arena *arena, struct span *out, struct entry_faults *faults);

/* Applies a merge patch (RFC 7396) of "owner", "models" and "limits" to a row: null
 * takes each away. ERR_NOT_FOUND. ERR_FORMAT as above. */
int caller_keys_change(struct span raw, const char *id, struct span patch, struct arena *arena,
                       struct span *out, struct entry_faults *faults);

/* ERR_NOT_FOUND. */
int caller_keys_revoke(struct span raw, const char *id, struct arena *arena, struct span *out);

/* {"id", "owner", "models", "limits", "createdAt", "fingerprint"}: what may be shown. */
void caller_key_write(const struct caller_key *key, struct json_writer *w);

/* The same of the row with this id, as a text of its own in the arena; the empty span if there is
 * none, or `raw` is not valid. */
struct span caller_keys_show(struct span raw, const char *id, struct arena *arena);

#endif
