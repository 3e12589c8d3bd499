#include "core/dialect/dialect.h"

static const struct dialect *const dialects[] = { &dialect_chat, &dialect_speech, &dialect_transcription };

enum { N_DIALECTS = sizeof(dialects) / sizeof(dialects[0]) };

const struct dialect *dialect_by_endpoint(struct span path)
{
    for (size_t i = 0; i < N_DIALECTS; i++) {
        if (span_is(path, dialects[i]->endpoint))
            return dialects[i];
    }
    return NULL;
}
