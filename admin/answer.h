/* What an administrator is told, and what is asked besides the body. */
#ifndef ADMIN_ANSWER_H
#define ADMIN_ANSWER_H

#include "admin/admin.h"
#include "core/config/entry.h"

/* A whole reply of JSON; `version` becomes its entity tag, NULL: it has none. */
void admin_reply(struct admin_turn *turn, int status, struct span body, const char *version);

/* 200 with what was written; 500 if it did not fit: a part of it would look whole. */
void admin_reply_written(struct admin_turn *turn, const struct buf *text, const char *version);

/* {"version":VERSION} with its entity tag: what a change is answered with. */
void admin_reply_version(struct admin_turn *turn, const char *version);

void admin_fail(struct admin_turn *turn, const struct failure *failure);

/* The store failed: its reason is for the log, not for the reply. */
void admin_fail_store(struct admin_turn *turn, const struct error *e);

/* 400 with every fault. `what` was refused: "configuration". */
void admin_fail_faults(struct admin_turn *turn, const char *what, const struct entry_faults *faults);

/* 409 with the version in force; "": there is none. */
void admin_fail_conflict(struct admin_turn *turn, const char *current);

/* 404 with a sentence. */
void admin_fail_not_found(struct admin_turn *turn, const char *message);

/*
 * The version that the request is to change, from If-Match (one entity tag, strong or
 * weak): true and *out, which is NULL for "*": whichever is in force. False after a reply
 * if the header is missing and it is required; where it is not, that is as "*".
 */
bool admin_expected_version(struct admin_turn *turn, bool is_required, const char **out);

/* ?limit=, from 1 to 1000; false after a reply if it is something else. */
bool admin_limit(struct admin_turn *turn, size_t preset, size_t *out);

/* The body, which the caller wipes; false after a reply, or when the client has gone. */
bool admin_read_body(struct admin_turn *turn, struct span *body);
void admin_wipe(struct span body);

#endif
