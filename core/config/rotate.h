/*
 * What is kept encrypted, moved from the previous master key to the current one: the keys in
 * LLM_ROUTER_CONFIG, and the key of voice packs' tags.
 */
#ifndef CORE_CONFIG_ROTATE_H
#define CORE_CONFIG_ROTATE_H

#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/config/entry.h"
#include "core/crypto/envelope.h"

struct config_rotation {
    size_t rotated;                    /* opened with the previous master key only, and are encrypted anew */
    size_t current;                    /* open with the current one: left as they are */
    struct entry_faults undecryptable; /* neither opens them: left as they are; where each stands */
};

/*
 * The document with every ciphertext that opens only with the previous master
 * key encrypted with the current one, each for its own place; the rest stays as it
 * was written. Doing it again changes nothing. *out and *report are of the arena;
 * no plaintext is left behind. ERR_FORMAT: not JSON; ERR_LIMIT: it would grow
 * beyond STORE_VALUE_LIMIT_BYTES.
 */
int config_rotate(struct span raw, const struct envelope_keys *keys, struct arena *arena, struct span *out,
                  struct config_rotation *report, struct error *e);

/* The same of VOICE_PACK_TAG_KEY: its ciphertext becomes another, and the key in it stays what
 * it is. In *report the entry's name is where it stands. */
int config_rotate_tag_key(struct span raw, const struct envelope_keys *keys, struct arena *arena,
                          struct span *out, struct config_rotation *report, struct error *e);

#endif
