/*
 * The log: one JSON line per problem on stderr, at most LOG_LINE_BYTES with its
 * newline, written with one write so that lines of processes do not mix.
 *
 *   {"time":"…","level":"warn","program":"llm-router","pid":1,"event":"configuration_refused","message":"…",…}
 *
 * `event` is a closed list of names in snake case, one per kind of problem, so
 * that operators can search and alert on it. A problem is logged once, where it
 * is decided what happens about it. Text that came from outside goes through
 * log_field_text, which cuts and redacts it; nothing else may carry it.
 */
#ifndef CORE_LOG_LOG_H
#define CORE_LOG_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/span.h"
#include "core/json/writer.h"

enum { LOG_LINE_BYTES = 4096, LOG_TEXT_BYTES = 256 };

enum log_level { LOG_INFO, LOG_WARN, LOG_ERROR };

/* Names the program in each line; `program` must stay valid. Before fork. */
void log_init(const char *program);

/* A whole line with a formatted message, which is cut at 639 bytes. It must hold
 * no outside text. */
void log_line(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A line with members of its own: log_begin, jw_member_* on the writer it
 * returns, log_end. Not nested; other threads' lines wait meanwhile. A member that does not fit is left out
 * whole; what is written is always one line of valid JSON. */
struct json_writer *log_begin(enum log_level level, const char *event);
void log_field_text(struct json_writer *w, const char *name, struct span outside);
void log_end(void);

/*
 * Replaces what looks like a credential in `text` by "[redacted]" and cuts the
 * result to at most `limit` bytes at a character's border; appends it to `out`.
 * Replaced are:
 *  - the token after Bearer or Basic, and the user of a URL (//user:pw@host);
 *  - the value of anything whose name ends in key, token, secret, password,
 *    authorization, signature, cookie and the like (key=…, "api_key": "…");
 *  - tokens with a provider's prefix (sk-, AIza, AKIA, ghp_, xox, eyJ, …);
 *  - runs of letters, digits and "-_.+/=~%" with "**" in them: masked keys;
 *  - such runs of 16 bytes or more, unless every part of them is a word, a
 *    number of at most 8 digits, or one of at most three short mixtures. So
 *    gpt-4o-mini-2024-07-18, hosts and paths stay; hex, base64 and UUIDs go.
 * A short secret of plain lower-case letters without any such context stays.
 */
void log_redact(struct buf *out, struct span text, size_t limit);

#endif
