/* Azure's live list of voices as a table of the repository. Pure. */
#ifndef ADMIN_CTL_AZURE_VOICES_H
#define ADMIN_CTL_AZURE_VOICES_H

#include "core/voices/table.h"

/* Reads the reply to GET /cognitiveservices/voices/list. `before` gives what the
 * list does not have: comments, formats, and titles of languages that no voice has
 * as its own. Voices and languages are sorted; memory of the arena. ERR_FORMAT:
 * it is no such list. The result still has to be written and read again to be
 * known to keep the rules of a table. */
int azure_voices_read(struct span reply, const struct voice_table *before, struct arena *arena,
                      struct voice_table *out, struct error *e);

#endif
