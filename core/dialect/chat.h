/* The functions of the chat dialect's row; for dialect_chat and its tests only. */
#ifndef CORE_DIALECT_CHAT_H
#define CORE_DIALECT_CHAT_H

#include "core/dialect/dialect.h"

int chat_read_request(struct span body, struct span type, struct arena *arena, struct request_facts *facts,
                      struct request_fault *fault);
int chat_splice_request(const struct request_facts *facts, struct span model, bool asks_usage,
                        struct arena *arena, struct splice *out);
uint64_t chat_estimate_request(const struct request_facts *facts);
enum event_class chat_judge_event(const struct sse_event *event, struct stream_state *state);
bool chat_is_finished(const struct stream_state *state);
void chat_judge_plain(struct span body, struct plain_facts *facts);
void chat_read_tail(struct span tail, struct usage *usage);
void chat_write_error_event(struct buf *out, const struct stream_error *error);
void chat_write_refusal_event(struct buf *out, struct span body, const struct stream_error *error);

#endif
