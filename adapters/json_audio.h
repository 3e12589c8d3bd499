/*
 * Audio in JSON: providers put it, as base64, into one member of an otherwise
 * short object, and a whole clip of minutes may stand in that one string. Such
 * objects are read as they come: the audio is given out decoded, and what is
 * around it is kept, as a text in which that string is empty.
 *
 * Objects may follow each other, with or without white space between them
 * (newline-delimited JSON). How the bytes are cut into pieces changes nothing.
 */
#ifndef ADAPTERS_JSON_AUDIO_H
#define ADAPTERS_JSON_AUDIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapters/base64_reader.h"
#include "core/base/buf.h"
#include "core/base/span.h"

enum {
    JSON_AUDIO_BYTES = 16 * 1024, /* of an object without its audio */
    JSON_AUDIO_DEPTH = 32,        /* nested arrays and objects */
};

/* Each returns 0, or a negative error that ends the reading. */
struct json_audio_sink {
    void *ctx;
    /* The next bytes of audio. */
    int (*on_audio)(void *ctx, struct span bytes);
    /* An object has ended. `text` is strict JSON, its audio left out;
     * `audio_bytes` says how much that was. Valid for the call. */
    int (*on_object)(void *ctx, struct span text, uint64_t audio_bytes);
};

struct json_audio {
    const char *const *path; /* names down to the audio, NULL-terminated */
    struct buf text;         /* the open object */
    uint64_t audio_bytes;    /* of the open object */

    /* private */
    struct base64_reader base64;
    unsigned state;
    uint32_t objects;                    /* bit i: the container at depth i + 1 is an object */
    unsigned depth;                      /* open containers */
    unsigned on_path;                    /* how many of them, from the outermost, lead to the audio */
    bool expects_name;                   /* a string here is a member's name */
    bool is_named;                       /* the last name is the next one of the path */
    size_t name_offset;                  /* of its opening quote in the text */
    unsigned escape_code, escape_digits; /* of a \u in the audio; how many digits are to come */
};

/* `path` is the program's own and outlives the reader: { "output", "audio", NULL }. */
void json_audio_init(struct json_audio *reader, const char *const *path);
void json_audio_free(struct json_audio *reader);

/* ERR_FORMAT: no object, broken JSON or base64. ERR_LIMIT: one of the bounds
 * above. Else what the sink returned. After an error it is only good for json_audio_free. */
int json_audio_feed(struct json_audio *reader, struct span piece, const struct json_audio_sink *sink);

/* Whether no object is open: a stream may end here. */
bool json_audio_is_between(const struct json_audio *reader);

#endif
