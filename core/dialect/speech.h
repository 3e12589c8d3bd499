/*
 * Requests of the speech dialect (OpenAI's POST /audio/speech), and the events of
 * its streams. Its upstreams speak protocols of their own: what is sent to them
 * and what comes back is for `adapters`.
 */
#ifndef CORE_DIALECT_SPEECH_H
#define CORE_DIALECT_SPEECH_H

#include <stdbool.h>
#include <stddef.h>

#include "core/dialect/dialect.h"
#include "core/packs/voice_pack.h"

enum {
    SPEECH_INPUT_CHARACTERS = 4096,
    SPEECH_INSTRUCTIONS_CHARACTERS = 4096,
    SPEECH_VOICE_BYTES = 256,
    SPEECH_FORMAT_BYTES = 64,
};

#define SPEECH_SPEED_MIN 0.25
#define SPEECH_SPEED_MAX 4.0

/* What a request says, in its own words. Texts are decoded and valid UTF-8 (a
 * lone surrogate has become U+FFFD); they may hold any character, NUL too. */
struct speech_facts {
    struct span input;       /* 1 to SPEECH_INPUT_CHARACTERS */
    size_t input_characters; /* Unicode code points */
    size_t input_utf16;      /* UTF-16 code units: what JavaScript calls its length */
    struct span voice; /* also of {"id": …}; at most SPEECH_VOICE_BYTES, no control characters; empty: none */
    struct span format;       /* of `response_format`; empty: none was asked for */
    double speed;             /* 1 where there is none */
    struct span instructions; /* empty: none */
    bool wants_events;        /* stream_format: sse */
    struct span extra_body;   /* a JSON object as written; empty: none */
    struct span voice_pack;   /* the same: the snapshot of one */

    /* The pack to speak with, whose are then voice and, where it has a rate, speed; NULL: none. Put in by
     * whoever believes the snapshot, or knows the pack that `voice` names. */
    const struct voice_pack_snapshot *pack;

    /* The body and where members of it stand, for upstreams that take the same. Kind ABSENT where nothing
     * stands. */
    struct span body;
    struct json_value model_value, voice_value, speed_value, extra_body_value, voice_pack_value;
};

int speech_read_request(struct span body, struct span type, struct arena *arena, struct request_facts *facts,
                        struct request_fault *fault);

/* The body for an upstream that speaks this dialect: `model` replaced, `voice`
 * put in where none was asked for (empty: left out), what a pack says put in,
 * `extra_body` and `voice_pack` left out: they speak to us. Every other byte is the
 * caller's. 0 or ERR_LIMIT. */
int speech_splice_request(const struct speech_facts *facts, struct span model, struct span voice,
                          struct arena *arena, struct splice *out);

/* One event of a stream each, whole, blank line included. */
void speech_write_delta_event(struct buf *out, struct span audio);
void speech_write_done_event(struct buf *out, const struct usage *usage);
void speech_write_error_event(struct buf *out, const struct stream_error *error);
void speech_write_refusal_event(struct buf *out, struct span body, const struct stream_error *error);

#endif
