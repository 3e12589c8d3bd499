/* Private to core/dialect: what bodies of all dialects have in common. */
#ifndef CORE_DIALECT_BODY_INTERNAL_H
#define CORE_DIALECT_BODY_INTERNAL_H

#include "core/dialect/dialect.h"

/* Whether a member's name, as the scanner gives it, differs from "model" in its
 * case only. Go's decoder, and with it many a gateway and server, takes a name in
 * any case for the one it knows, and the last one wins: "Model" could name another
 * model there than the one that was looked up, allowed to this caller and spliced
 * here. */
bool body_is_rival(struct span name, struct arena *arena);

/* Each fills *fault and returns ERR_FORMAT. */
int body_refuse(struct request_fault *fault, const char *param, const char *message);
int body_refuse_rival(struct request_fault *fault, size_t offset, struct arena *arena);

/* For a body that json_scan refused with `code`: a repeated member and too deep a
 * nesting are JSON, but nothing that can be read in one way only. */
int body_refuse_text(struct request_fault *fault, int code, const struct json_fault *syntax,
                     struct arena *arena);

/* Where the brace of the whole body stands. */
size_t body_first_brace(struct span body);

/* `member` becomes a member of the object whose "{" stands at `brace`. */
int body_insert_member(struct span body, size_t brace, const char *member, struct arena *arena,
                       struct splice *out);

/* The body's member of that name becomes `text`: put in where none stands, left
 * as it is written if it says so already. */
int body_splice_text(struct span body, const char *name, const struct json_value *value, struct span text,
                     struct arena *arena, struct splice *out);

/* The same of a value as JSON. */
int body_splice_json(struct span body, const char *name, const struct json_value *value, const char *json,
                     struct arena *arena, struct splice *out);

/* Leaves out members of one object, one at least of which stays; and with each the comma that parts it from
 * another. Of kind ABSENT: nothing to leave out. */
int body_remove_members(struct span body, const struct json_value *const *values, size_t n,
                        struct splice *out);

/* Whether a member of a reply is more than a place where something could stand:
 * not null, "", [] or {}. */
bool body_says_something(const struct json_value *value);

#endif
