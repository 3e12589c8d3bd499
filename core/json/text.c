#include "core/json/text.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json/scan.h"

static const uint32_t REPLACEMENT = 0xFFFD;

/* Of the second byte, after some first bytes only a part is allowed, which is where overlong forms,
 * surrogates and what lies beyond U+10FFFF are kept out: RFC 3629, section 4. */
static bool is_second(unsigned char first, unsigned char second)
{
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

size_t utf8_prefix(const unsigned char *p, size_t room, size_t *need)
{
    unsigned char first = p[0];
    *need = first < 0x80 ? 1 : first < 0xC2 || first > 0xF4 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (*need < 2)
        return *need;
    if (room < 2 || !is_second(first, p[1]))
        return 1;
    size_t n = 2;
    while (n < *need && n < room && (p[n] & 0xC0) == 0x80)
        n++;
    return n;
}

size_t utf8_skip(const unsigned char *p, size_t len)
{
    size_t at = 0, need, n;
    while (at < len && p[at] >= 0x80 && (n = utf8_prefix(p + at, len - at, &need)) == need && need != 0)
        at += n;
    return at;
}

size_t utf8_encode(uint32_t code, char out[UTF8_BYTES_MAX])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Without a branch, which digits would make a coin toss: letters have bit 6 set, and end in 1 to 6. */
static uint32_t hex1(char digit)
{
    uint32_t c = (unsigned char)digit;
    return (c & 0x0F) + 9 * (c >> 6);
}

static uint32_t hex4(const char *p)
{
    return hex1(p[0]) << 12 | hex1(p[1]) << 8 | hex1(p[2]) << 4 | hex1(p[3]);
}

static bool is_escaped_low_surrogate(const char *p, const char *end)
{
    return end - p >= 6 && p[0] == '\\' && p[1] == 'u' && hex4(p + 2) >= 0xDC00 && hex4(p + 2) <= 0xDFFF;
}

/* The character of the escape at p, which is left behind it. */
static inline uint32_t take_escape(const char **p, const char *end)
{
    static const char written[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *escape = *p;
    if (escape[1] != 'u') {
        *p = escape + 2;
        return (unsigned char)meant[strchr(written, escape[1]) - written];
    }
    uint32_t code = hex4(escape + 2);
    *p = escape + 6;
    if (code < 0xD800 || code > 0xDFFF)
        return code;
    if (code > 0xDBFF || !is_escaped_low_surrogate(*p, end))
        return REPLACEMENT;
    *p = escape + 12;
    return 0x10000 + ((code - 0xD800) << 10) + (hex4(escape + 8) - 0xDC00);
}

size_t json_chars_next(struct json_chars *chars, char out[UTF8_BYTES_MAX])
{
    if (chars->p == chars->end)
        return 0;
    if (*chars->p == '\\')
        return utf8_encode(take_escape(&chars->p, chars->end), out);
    out[0] = *chars->p++;
    return 1;
}

static bool has_escape(struct span inner)
{
    return inner.len > 0 && memchr(inner.ptr, '\\', inner.len) != NULL;
}

/* Both are read byte by byte, because one may spell with an escape what the
 * other has in plain bytes. */
bool json_same_text(struct span a, struct span b)
{
    if (!has_escape(a) && !has_escape(b))
        return span_eq(a, b);
    struct json_chars in[2] = { json_chars_of(a), json_chars_of(b) };
    char bytes[2][UTF8_BYTES_MAX];
    size_t have[2] = { 0, 0 }, used[2] = { 0, 0 };
    for (;;) {
        for (int i = 0; i < 2; i++) {
            if (used[i] == have[i]) {
                have[i] = json_chars_next(&in[i], bytes[i]);
                used[i] = 0;
            }
        }
        if (have[0] == 0 || have[1] == 0)
            return have[0] == have[1];
        if (bytes[0][used[0]++] != bytes[1][used[1]++])
            return false;
    }
}

static struct span without_quotes(struct span raw)
{
    return span_of(raw.ptr + 1, raw.len - 2);
}

struct span json_decode(struct arena *arena, struct span raw)
{
    struct span inner = without_quotes(raw);
    if (!has_escape(inner))
        return span_of(arena_span(arena, inner), inner.len);
    /* No escape is shorter than what it stands for. */
    char *text = arena_alloc(arena, inner.len + 1);
    size_t len = 0;
    const char *p = inner.ptr, *end = inner.ptr + inner.len;
    while (p < end) {
        if (*p == '\\') {
            len += utf8_encode(take_escape(&p, end), text + len);
            continue;
        }
        const char *escape = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((escape == NULL ? end : escape) - p);
        memcpy(text + len, p, plain);
        len += plain;
        p += plain;
    }
    text[len] = '\0';
    return span_of(text, len);
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

void json_copy(struct span raw, char *out, size_t size)
{
    struct json_chars chars = json_chars_of(without_quotes(raw));
    char piece[UTF8_BYTES_MAX];
    size_t n, len = 0;

    while ((n = json_chars_next(&chars, piece)) > 0 && piece[0] != '\0' && n < size - len) {
        memcpy(out + len, piece, n);
        len += n;
    }
    if (n > 0 && is_continuation(piece[0]))
        while (len > 0 && is_continuation(out[--len]))
            continue;
    out[len] = '\0';
}

bool json_string_is(struct span raw, const char *text)
{
    if (raw.len < 2 || raw.ptr[0] != '"')
        return false; /* not a string at all */
    struct span inner = without_quotes(raw);
    if (!has_escape(inner))
        return span_is(inner, text);
    struct json_chars chars = json_chars_of(inner);
    char piece[UTF8_BYTES_MAX];
    size_t n, left = strlen(text);
    while ((n = json_chars_next(&chars, piece)) > 0) {
        if (n > left || memcmp(piece, text, n) != 0)
            return false;
        text += n;
        left -= n;
    }
    return left == 0;
}

bool json_int(struct span raw, long long *out)
{
    bool is_negative = raw.len > 0 && raw.ptr[0] == '-';
    /* Counted downwards: LLONG_MIN has no positive counterpart. */
    long long value = 0;
    if (raw.len <= (size_t)is_negative)
        return false;
    for (size_t i = is_negative; i < raw.len; i++) {
        int digit = raw.ptr[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10LL, &value) ||
            __builtin_sub_overflow(value, (long long)digit, &value))
            return false;
    }
    if (!is_negative && value == LLONG_MIN)
        return false;
    *out = is_negative ? value : -value;
    return true;
}

bool json_number(struct span raw, double *out)
{
    char text[64]; /* strtod wants a NUL behind it */
    if (raw.len == 0 || raw.len >= sizeof(text))
        return false;
    memcpy(text, raw.ptr, raw.len);
    text[raw.len] = '\0';
    double value = strtod(text, NULL);
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}
