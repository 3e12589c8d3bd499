/*
 * A provider's error body in one form, whatever its own: the tokens it names,
 * its sentence, and what it says about time. Private to core/route.
 */
#ifndef CORE_ROUTE_SIGNATURE_BODY_H
#define CORE_ROUTE_SIGNATURE_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/span.h"
#include "core/route/signature_table.h"

enum { SIGNATURE_TOKENS_MAX = 48, SIGNATURE_TEXT_MAX = 1024 };

struct signature_token {
    enum signature_field field;
    struct span text; /* decoded; never empty */
};

struct signature_body {
    bool is_html;
    struct signature_token tokens[SIGNATURE_TOKENS_MAX];
    size_t n_tokens;
    struct span message;     /* the sentence, decoded; of HTML the title */
    struct span text;        /* what phrases are looked for in: signature_text(message); empty for HTML */
    struct span inner;       /* another provider's error body inside this one; empty if none */
    struct span retry_delay; /* a protobuf duration: "36s" */
    struct span reset_ms;    /* Unix time in ms */
    int status;              /* an HTTP status inside the error object, 300-599, else 0 */
};

/* Reads a body that may be cut anywhere; its memory comes from the arena or
 * is the body's own. */
void signature_body_read(struct span body, struct arena *arena, struct signature_body *out);

/* Adds a token from outside the body; an empty one, or one too many, is dropped. */
void signature_body_add(struct signature_body *body, enum signature_field field, struct span text);

/* The first SIGNATURE_TEXT_MAX bytes of a message in lower case, white space
 * folded, without its quoted parts: those may be a caller's words. A quoted
 * part reaches from the first opening quote to the last closing one of its
 * kind, so that a caller who writes quotes cannot step out of it. */
struct span signature_text(struct span message, struct arena *arena);

/* Whether the whole text fits the pattern, in which "*" stands for any bytes. */
bool signature_token_fits(const char *pattern, struct span text);

/* Whether the phrase (see struct signature_row) stands in the text. */
bool signature_phrase_fits(const char *phrase, struct span text);

/*
 * When to come back, in seconds rounded up and clamped to 1..3600; 0: nobody
 * says. The headers are asked first: retry-after-ms, then Retry-After (seconds
 * or a date), then the body. now_s is Unix time.
 */
unsigned signature_hint_s(struct span retry_after_ms, struct span retry_after,
                          const struct signature_body *body, int64_t now_s);

#endif
