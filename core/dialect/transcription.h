/*
 * The functions of the transcription dialect's row (OpenAI's POST
 * /audio/transcriptions); for dialect_transcription and its tests only.
 */
#ifndef CORE_DIALECT_TRANSCRIPTION_H
#define CORE_DIALECT_TRANSCRIPTION_H

#include "core/dialect/dialect.h"

enum { TRANSCRIPTION_BODY_BYTES = 25 * 1024 * 1024 }; /* OpenAI's, of the whole body */

/* Where the parts of a request stand that we own. Spans point into the body. */
struct transcription_facts {
    struct span model_value;
    struct span model_length; /* the value of that part's own Content-Length; empty: it has none */
};

int transcription_read_request(struct span body, struct span type, struct arena *arena,
                               struct request_facts *facts, struct request_fault *fault);
int transcription_splice_request(const struct request_facts *facts, struct span model, bool asks_usage,
                                 struct arena *arena, struct splice *out);
enum event_class transcription_judge_event(const struct sse_event *event, struct stream_state *state);
bool transcription_is_finished(const struct stream_state *state);
void transcription_judge_plain(struct span body, struct plain_facts *facts);
void transcription_judge_text(struct span body, struct plain_facts *facts);

#endif
