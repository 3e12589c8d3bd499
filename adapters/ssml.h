/*
 * SSML for Azure's speech service: one voice that says one text. Whatever the
 * text and the attributes hold, the result is well formed, and they cannot add an
 * element or an attribute to it.
 */
#ifndef ADAPTERS_SSML_H
#define ADAPTERS_SSML_H

#include "core/base/buf.h"
#include "core/base/span.h"

/* An empty member is left out, but for the first three. */
struct ssml_speech {
    struct span locale; /* "zh-CN"; see ssml_locale */
    struct span voice;
    struct span text;
    struct span rate, pitch, volume;       /* of prosody */
    struct span style, style_degree, role; /* of express-as */
};

/* A whole document. What did not fit is seen in out->overflowed. */
void ssml_write(struct buf *out, const struct ssml_speech *speech);

/* The text as it may stand between tags and in a quoted attribute. Characters
 * that XML 1.0 does not allow are left out; bytes that are not UTF-8 become U+FFFD. */
void ssml_escape(struct buf *out, struct span text);

/* Whether something is left to say of the text: more than blanks and what XML forbids. */
bool ssml_has_text(struct span text);

/* The locale that a voice's short name begins with, a part of `voice`:
 * "zh-CN" of "zh-CN-XiaoxiaoNeural", "zh-CN-liaoning" of
 * "zh-CN-liaoning-XiaobeiNeural", "sr-Latn-RS" of "sr-Latn-RS-NicholasNeural".
 * Empty if it begins with none. */
struct span ssml_locale(struct span voice);

/* Whether it can be the short name of a voice: letters, digits, "-", ":", "_", ".",
 * "(", ")" and spaces between them, at most 128 bytes. */
bool ssml_is_voice(struct span text);

#endif
