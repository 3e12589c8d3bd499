/*
 * The places of a document where provider keys stand: the objects in `keys` of
 * each upstream, and the members of `credentials`. A document is walked and
 * rewritten as text: what is not a key stays as it was written, and a plaintext
 * key never gets into a JSON library's memory.
 *
 * A document that is shaped otherwise has no such place there; entry_check says
 * what is wrong with it.
 */
#ifndef CORE_CONFIG_KEYPLACES_H
#define CORE_CONFIG_KEYPLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/span.h"
#include "core/json/scan.h"
#include "core/json/writer.h"

enum key_member {
    MEMBER_ID,
    MEMBER_KEY, /* plaintext, to be encrypted */
    MEMBER_CIPHERTEXT,
    MEMBER_CIPHERTEXT_FINGERPRINT, /* keeps what is there */
    MEMBER_KEY_FINGERPRINT,        /* shown only */
    MEMBER_CREDENTIAL,
    MEMBER_COUNT,
};

enum { CIPHERTEXT_FINGERPRINT_DIGITS = 8 };

extern const char *const key_member_names[MEMBER_COUNT];

struct key_place {
    const char *path; /* JSON pointer */
    bool is_credential;
    struct span owner;  /* the model's name, or the credential's; decoded */
    struct span object; /* as written */
    struct json_value members[MEMBER_COUNT];
};

/* What a ciphertext at the place is bound to: "model|id" or "credential|NAME". */
struct span key_place_aad(const struct key_place *place, struct arena *arena);

/* The key's id, decoded; empty for a credential and without one. */
struct span key_place_id(const struct key_place *place, struct arena *arena);

/* Calls on_place for each place in the document's order; a negative return ends
 * the walk and is returned. *place and what it points to are of the arena or of
 * `raw`. `raw` is a document that document_check accepts. */
int key_places_walk(struct span raw, struct arena *arena,
                    int (*on_place)(void *ctx, const struct key_place *place), void *ctx);

/* Writes the document to `out`, with what write(ctx, place, out) appends
 * instead of each place's object. */
int key_places_rewrite(struct span raw, struct arena *arena,
                       int (*write)(void *ctx, const struct key_place *place, struct buf *out), void *ctx,
                       struct buf *out);

/* Appends the beginning of the place's object: its members, except those whose
 * bit (1 << member) is in `left_out`. The caller may write further members with
 * *w, and ends the object. */
void key_place_begin(const struct key_place *place, unsigned left_out, struct json_writer *w,
                     struct buf *out);

#endif
