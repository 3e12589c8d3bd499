#include "core/json/writer.h"

#include <stdio.h>

#include "core/json/text.h"

/* Nothing follows what did not fit: an overflowed buffer holds a beginning of
 * the text, not a text with holes. */
static void put(struct buf *out, const char *bytes, size_t len)
{
    if (!out->overflowed)
        (void)buf_append(out, bytes, len);
}

static void put_text(struct buf *out, const char *text)
{
    put(out, text, strlen(text));
}

/* U+2028 and U+2029, in well-formed text: they end lines in JavaScript. */
static bool is_line_end(const unsigned char *p)
{
    return p[0] == 0xE2 && p[1] == 0x80 && (p[2] == 0xA8 || p[2] == 0xA9);
}

/* The bytes at `p` that stand for themselves and are beyond ASCII; 0xE2 begins some characters, and
 * continues none. */
static size_t count_plain_wide(const unsigned char *p, size_t len)
{
    size_t n = utf8_skip(p, len);
    const unsigned char *at = p, *end = p + n;
    while ((at = memchr(at, 0xE2, (size_t)(end - at))) != NULL) {
        if (is_line_end(at))
            return (size_t)(at - p);
        at += 3;
    }
    return n;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether eight bytes are ASCII and stand for themselves: none is at or above 0x80, below 0x20, a quote or a
 * backslash. */
static bool are_plain(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    uint64_t quote = v ^ EACH('"'), backslash = v ^ EACH('\\');
    uint64_t strange =
        v | ((v - EACH(0x20)) & ~v) | ((quote - EACH(1)) & ~quote) | ((backslash - EACH(1)) & ~backslash);
    return (strange & EACH(0x80)) == 0;
}

/* The bytes at `p` that stand for themselves. */
static size_t count_plain(const unsigned char *p, size_t len)
{
    size_t n = 0, wide;
    do {
        while (len - n >= 8 && are_plain(p + n))
            n += 8;
        while (n < len && p[n] >= 0x20 && p[n] < 0x80 && p[n] != '"' && p[n] != '\\')
            n++;
        wide = n < len && p[n] >= 0x80 ? count_plain_wide(p + n, len - n) : 0;
        n += wide;
    } while (wide > 0);
    return n;
}

static void put_ascii_escape(struct buf *out, unsigned char c)
{
    static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    char escape[8] = { '\\' };
    const char *at = c == '\0' ? NULL : strchr(named, c);
    if (at != NULL)
        escape[1] = letters[at - named];
    else
        snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)c);
    put_text(out, escape);
}

/* What stands for itself neither in ASCII nor beyond: a line's end, or what is no character. Returns the
 * bytes it took. */
static size_t put_strange(struct buf *out, const unsigned char *p, size_t len)
{
    size_t need, n = utf8_prefix(p, len, &need);
    bool is_whole = need != 0 && n == need;
    put_text(out, !is_whole ? "\xEF\xBF\xBD" : p[2] == 0xA8 ? "\\u2028" : "\\u2029");
    return n == 0 ? 1 : n;
}

void json_escape(struct buf *out, struct span text)
{
    const unsigned char *p = (const unsigned char *)text.ptr;
    size_t at = 0;
    while (at < text.len) {
        size_t plain = count_plain(p + at, text.len - at);
        put(out, text.ptr + at, plain);
        at += plain;
        if (at == text.len)
            break;
        if (p[at] < 0x80)
            put_ascii_escape(out, p[at++]);
        else
            at += put_strange(out, p + at, text.len - at);
    }
}

void jw_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){ .out = out };
}

/* A value or a name is about to be written. */
static void separate(struct json_writer *w)
{
    if (w->need_comma)
        put(w->out, ",", 1);
}

static void begin(struct json_writer *w, char bracket)
{
    separate(w);
    put(w->out, &bracket, 1);
    w->need_comma = false;
}

static void end(struct json_writer *w, char bracket)
{
    put(w->out, &bracket, 1);
    w->need_comma = true;
}

void jw_begin_object(struct json_writer *w)
{
    begin(w, '{');
}

void jw_end_object(struct json_writer *w)
{
    end(w, '}');
}

void jw_begin_array(struct json_writer *w)
{
    begin(w, '[');
}

void jw_end_array(struct json_writer *w)
{
    end(w, ']');
}

void jw_raw(struct json_writer *w, struct span json)
{
    separate(w);
    put(w->out, json.ptr, json.len);
    w->need_comma = true;
}

/* A string, which may be a name. Nearly all need no escape, and are written in one piece. */
static void put_string(struct json_writer *w, struct span text, bool is_name)
{
    bool is_plain = count_plain((const unsigned char *)text.ptr, text.len) == text.len;
    char *room = NULL;

    if (w->out->overflowed)
        return;
    if (is_plain && (room = buf_reserve(w->out, text.len + 2 + w->need_comma + is_name)) != NULL) {
        char *at = room;
        if (w->need_comma)
            *at++ = ',';
        *at++ = '"';
        if (text.len > 0)
            memcpy(at, text.ptr, text.len);
        at += text.len;
        *at++ = '"';
        if (is_name)
            *at++ = ':';
        w->out->len += (size_t)(at - room);
    } else if (!is_plain) {
        separate(w);
        put_text(w->out, "\"");
        json_escape(w->out, text);
        put_text(w->out, is_name ? "\":" : "\"");
    }
    w->need_comma = !is_name;
}

void jw_string(struct json_writer *w, struct span text)
{
    put_string(w, text, false);
}

void jw_key_span(struct json_writer *w, struct span name)
{
    put_string(w, name, true);
}

void jw_key(struct json_writer *w, const char *name)
{
    jw_key_span(w, span_cstr(name));
}

void jw_cstr(struct json_writer *w, const char *text)
{
    if (text == NULL)
        jw_null(w);
    else
        jw_string(w, span_cstr(text));
}

static void put_number(struct json_writer *w, uint64_t value, bool is_negative)
{
    separate(w);
    if (is_negative)
        put(w->out, "-", 1);
    if (!w->out->overflowed)
        (void)buf_append_uint(w->out, value);
    w->need_comma = true;
}

void jw_int(struct json_writer *w, int64_t value)
{
    put_number(w, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void jw_uint(struct json_writer *w, uint64_t value)
{
    put_number(w, value, false);
}

void jw_bool(struct json_writer *w, bool value)
{
    jw_raw(w, span_cstr(value ? "true" : "false"));
}

void jw_null(struct json_writer *w)
{
    jw_raw(w, span_cstr("null"));
}

void jw_member_cstr(struct json_writer *w, const char *name, const char *text)
{
    jw_key(w, name);
    jw_cstr(w, text);
}

void jw_member_span(struct json_writer *w, const char *name, struct span text)
{
    jw_key(w, name);
    jw_string(w, text);
}

void jw_member_int(struct json_writer *w, const char *name, int64_t value)
{
    jw_key(w, name);
    jw_int(w, value);
}

void jw_member_uint(struct json_writer *w, const char *name, uint64_t value)
{
    jw_key(w, name);
    jw_uint(w, value);
}

void jw_member_bool(struct json_writer *w, const char *name, bool value)
{
    jw_key(w, name);
    jw_bool(w, value);
}
