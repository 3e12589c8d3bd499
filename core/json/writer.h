/*
 * Writes compact JSON into a buffer: commas and escapes are the writer's
 * business, balance of begin and end the caller's. A full buffer is seen in
 * buf->overflowed at the end; it then holds a beginning of the text, because
 * nothing is written after what did not fit.
 *
 * Strings are written as valid UTF-8 whatever the bytes: what is not becomes
 * U+FFFD. Control characters, quotes and backslashes are escaped; so are
 * U+2028 and U+2029. "<" stays as it is.
 */
#ifndef CORE_JSON_WRITER_H
#define CORE_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/span.h"

struct json_writer {
    struct buf *out; /* borrowed */
    bool need_comma;
};

void jw_init(struct json_writer *w, struct buf *out);

void jw_begin_object(struct json_writer *w);
void jw_end_object(struct json_writer *w);
void jw_begin_array(struct json_writer *w);
void jw_end_array(struct json_writer *w);
void jw_key(struct json_writer *w, const char *name); /* escaped too */
void jw_key_span(struct json_writer *w, struct span name);

void jw_string(struct json_writer *w, struct span text);
void jw_cstr(struct json_writer *w, const char *text); /* NULL writes null */
void jw_int(struct json_writer *w, int64_t value);
void jw_uint(struct json_writer *w, uint64_t value);
void jw_bool(struct json_writer *w, bool value);
void jw_null(struct json_writer *w);
void jw_raw(struct json_writer *w, struct span json); /* trusted JSON, as it is */

/* A member in one call. */
void jw_member_cstr(struct json_writer *w, const char *name, const char *text);
void jw_member_span(struct json_writer *w, const char *name, struct span text);
void jw_member_int(struct json_writer *w, const char *name, int64_t value);
void jw_member_uint(struct json_writer *w, const char *name, uint64_t value);
void jw_member_bool(struct json_writer *w, const char *name, bool value);

/* The same string rules for a bare append: the text, escaped, without quotes. */
void json_escape(struct buf *out, struct span text);

#endif
