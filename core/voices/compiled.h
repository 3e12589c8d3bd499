/*
 * A catalog as it lies in the program: for catalog.c, and for what
 * tools/compile_voices.c writes. Offsets into one text instead of pointers: the
 * dynamic linker has nothing to fill in, and no process a page of its own.
 */
#ifndef CORE_VOICES_COMPILED_H
#define CORE_VOICES_COMPILED_H

#include <stddef.h>
#include <stdint.h>

struct voice_entry {
    uint32_t piece, piece_bytes;     /* `{"id":…,"formats":` */
    uint32_t formats, formats_bytes; /* `[…]}`: shared */
    uint32_t languages, models;      /* lists with ';', NUL-terminated; languages in lower case */
    uint32_t words;                  /* what a search looks in: in lower case, NUL-terminated */
    uint32_t gender;                 /* enum voice_gender; ANY: not known */
};

struct voice_catalog {
    const char *provider;
    const char *version; /* SHA-256 of the text, in hex */
    const char *text;
    const struct voice_entry *entries;
    size_t n_entries;
};

extern const struct voice_catalog voice_catalogs[];
extern const size_t n_voice_catalogs;

#endif
