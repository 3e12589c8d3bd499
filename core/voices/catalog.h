/*
 * The catalogs of voices, one per provider that has a file in voices/. They are
 * constants of the program, written as JSON when it is built: all processes share
 * the pages, and a list of voices is a list of pieces of them, of which nothing is
 * allocated or copied.
 */
#ifndef CORE_VOICES_CATALOG_H
#define CORE_VOICES_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"
#include "core/voices/table.h"

struct voice_catalog;

/* The catalog of a provider, by the name of its file ("azure"); NULL: it has none. */
const struct voice_catalog *voice_catalog_find(struct span provider);

enum { VOICE_WORDS_MAX_BYTES = 256 };

/* Which voices are wanted; all zero: every one. */
struct voice_filter {
    /* Each is one of the provider's names, or several that ';' parts, of which one
     * is enough; a voice must be of every one. A date behind a name
     * ("qwen3-tts-flash-2025-09-18") is not looked at. */
    const struct span *models;
    size_t n_models;
    struct span locale; /* a language range (RFC 4647, 3.3.1): "en" matches "en-US" */
    enum voice_gender gender;
    struct span words; /* stand in the id, the names or the tags, in whatever ASCII case; at most
                        * VOICE_WORDS_MAX_BYTES are looked at */
};

/* The voices of a catalog that a filter lets through. No memory of its own. */
struct voice_selection {
    const struct voice_catalog *catalog;
    uint64_t chosen[VOICE_TABLE_MAX / 64]; /* bits, by the voice's place in the catalog */
    size_t count;
    size_t bytes; /* of the JSON array's inside: voices and commas */
};

/* `catalog` may be NULL: there are none. */
void voice_select(const struct voice_catalog *catalog, const struct voice_filter *filter,
                  struct voice_selection *out);

/* Where a reader stands; all zero is the beginning. */
struct voice_cursor {
    size_t next; /* voice to look at */
    bool has_comma;
};

enum { VOICE_PIECES = 3 }; /* of one voice */

/* The next pieces of the JSON array's inside, at most `room` (VOICE_PIECES or
 * more) of them; 0 at the end. Valid for good. */
size_t voice_selection_read(const struct voice_selection *selection, struct voice_cursor *cursor,
                            struct span *pieces, size_t room);

enum { VOICE_ETAG_BYTES = 35 }; /* 32 hex digits in quotes and a NUL */

/* A strong entity tag for a list of these voices with `beside`, the text that
 * stands beside it in the reply: another whenever the reply is another. */
void voice_selection_etag(const struct voice_selection *selection, struct span beside,
                          char out[VOICE_ETAG_BYTES]);

/* Whether a caller has it already, as its If-None-Match says (RFC 9110, 13.1.2). */
bool voice_etag_is_known(struct span if_none_match, const char *etag);

#endif
