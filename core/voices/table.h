/*
 * A catalog of voices as the repository keeps it: one provider's, in a text of
 * lines and tabs (voices/README.md). Read when llm-router is built and by who
 * brings a file up to date, not by a running gateway.
 */
#ifndef CORE_VOICES_TABLE_H
#define CORE_VOICES_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/span.h"

enum {
    VOICE_TABLE_LIMIT_BYTES = 4 * 1024 * 1024,
    VOICE_TABLE_MAX = 4096, /* voices of one table */
};

/* What is known of a voice, in the order in which it stands in its line. */
enum voice_column {
    VOICE_ID,
    VOICE_NAME,
    VOICE_GENDER,    /* female, male or neutral */
    VOICE_AGE,       /* child */
    VOICE_LANGUAGES, /* BCP 47, its own one first */
    VOICE_MODELS,    /* of the provider that can speak with it */
    VOICE_TYPE,      /* the provider's word for the technique */
    VOICE_SCENARIOS,
    VOICE_PERSONALITIES,
    VOICE_STATUS,
    VOICE_STYLES,
    VOICE_ROLES,
    VOICE_LOCAL_NAME,
    VOICE_SAMPLE_RATE, /* Hz */
    VOICE_WORDS_PER_MINUTE,
    VOICE_COLUMN_COUNT,
};

/* An audio format, in the same way. */
enum voice_format_column {
    VOICE_FORMAT_NAME,
    VOICE_FORMAT_EXTENSION, /* with its dot */
    VOICE_FORMAT_MEDIA_TYPE,
    VOICE_FORMAT_SAMPLE_RATE, /* Hz */
    VOICE_FORMAT_BITRATE,     /* kbit/s; 0: it varies or is not known */
    VOICE_FORMAT_CODE,        /* the provider's name for it */
    VOICE_FORMAT_COLUMN_COUNT,
};

struct voice_format {
    struct span columns[VOICE_FORMAT_COLUMN_COUNT];
};

struct voice_language {
    struct span code, title;
};

struct voice {
    struct span columns[VOICE_COLUMN_COUNT]; /* empty: not known; a list's items are parted by ';' */
    size_t first_format, n_formats;          /* of the table's: those it can be heard in */
};

struct voice_table {
    struct span preamble; /* the lines of comment at the beginning */
    struct voice_language *languages;
    struct voice_format *formats;
    struct voice *voices;
    size_t n_languages, n_formats, n_voices;
};

enum voice_gender { VOICE_GENDER_ANY, VOICE_GENDER_FEMALE, VOICE_GENDER_MALE, VOICE_GENDER_NEUTRAL };

/* "female", in whatever case. ERR_NOT_FOUND: no such gender. */
int voice_gender_by_name(struct span name, enum voice_gender *out);

/* "styles"; never NULL. */
const char *voice_column_name(enum voice_column column);
bool voice_column_is_list(enum voice_column column);

/* The next item of a list, taken off *rest; false at its end. */
bool voice_list_next(struct span *rest, struct span *item);

/* The title of a language of the table; empty if it has none. */
struct span voice_language_title(const struct voice_table *table, struct span code);

/* Reads a table; it lies in the arena and points into `text`. ERR_FORMAT with
 * what is wrong, "NAME:LINE: …": an id that stands there twice, a language
 * without a title, a number that is none. */
int voice_table_read(struct span text, const char *name, struct arena *arena, struct voice_table *out,
                     struct error *e);

/* Writes it in the one form that a table has. */
void voice_table_write(const struct voice_table *table, struct buf *out);

#endif
