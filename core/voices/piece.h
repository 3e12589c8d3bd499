/*
 * A voice as callers get it: unspeech's shape (its types Voice, VoiceFormat and
 * VoiceLanguage), every key present, numbers as numbers.
 *
 * The list of formats is most of it and the same for hundreds of voices, so it
 * is a piece of its own and stands last: a voice is what voice_write_piece has
 * written, the formats, and "}".
 */
#ifndef CORE_VOICES_PIECE_H
#define CORE_VOICES_PIECE_H

#include "core/base/buf.h"
#include "core/voices/table.h"

/* `{"id":…,"formats":` */
void voice_write_piece(const struct voice_table *table, const struct voice *voice, struct buf *out);

/* `[{"name":…},…]`: the formats of a voice. */
void voice_write_formats(const struct voice_table *table, const struct voice *voice, struct buf *out);

#endif
