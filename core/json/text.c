#include "core/json/text.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json/scan.h"

static const uint32_t REPLACEMENT = 0xFFFD;

/* What may follow a first byte: RFC 3629, section 4. Only the second byte has a
 * range of its own, which is where overlong forms, surrogates and what lies
 * beyond U+10FFFF are kept out. */
struct lead {
    unsigned char first, last; /* of the first byte */
    unsigned char need;
    unsigned char low, high; /* of the second byte */
};

static const struct lead LEADS[] = {
    { 0xC2, 0xDF, 2, 0x80, 0xBF }, { 0xE0, 0xE0, 3, 0xA0, 0xBF }, { 0xE1, 0xEC, 3, 0x80, 0xBF },
    { 0xED, 0xED, 3, 0x80, 0x9F }, { 0xEE, 0xEF, 3, 0x80, 0xBF }, { 0xF0, 0xF0, 4, 0x90, 0xBF },
    { 0xF1, 0xF3, 4, 0x80, 0xBF }, { 0xF4, 0xF4, 4, 0x80, 0x8F },
};

size_t utf8_prefix(const unsigned char *p, size_t room, size_t *need)
{
    const struct lead *lead = NULL;
    *need = p[0] < 0x80;
    if (*need != 0)
        return 1;
    for (size_t i = 0; i < sizeof(LEADS) / sizeof(LEADS[0]) && lead == NULL; i++)
        if (p[0] >= LEADS[i].first && p[0] <= LEADS[i].last)
            lead = &LEADS[i];
    if (lead == NULL)
        return 0;
    *need = lead->need;
    if (room < 2 || p[1] < lead->low || p[1] > lead->high)
        return 1;
    size_t n = 2;
    while (n < lead->need && n < room && (p[n] & 0xC0) == 0x80)
        n++;
    return n;
}

size_t utf8_encode(uint32_t code, char out[UTF8_BYTES_MAX])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char marks[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(marks[n] | code);
    return n;
}

static uint32_t hex4(const char *p)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t c = (unsigned char)p[i];
        value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

static bool is_escaped_low_surrogate(const char *p, const char *end)
{
    return end - p >= 6 && p[0] == '\\' && p[1] == 'u' && hex4(p + 2) >= 0xDC00 && hex4(p + 2) <= 0xDFFF;
}

size_t json_chars_next(struct json_chars *chars, char out[UTF8_BYTES_MAX])
{
    static const char written[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (chars->p == chars->end)
        return 0;
    out[0] = *chars->p++;
    if (out[0] != '\\')
        return 1;
    char c = *chars->p++;
    if (c != 'u') {
        out[0] = meant[strchr(written, c) - written];
        return 1;
    }
    uint32_t code = hex4(chars->p);
    chars->p += 4;
    if (code >= 0xD800 && code <= 0xDFFF) {
        if (code < 0xDC00 && is_escaped_low_surrogate(chars->p, chars->end)) {
            code = 0x10000 + ((code - 0xD800) << 10) + (hex4(chars->p + 2) - 0xDC00);
            chars->p += 6;
        } else {
            code = REPLACEMENT;
        }
    }
    return utf8_encode(code, out);
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
    char piece[UTF8_BYTES_MAX];
    struct json_chars chars = json_chars_of(inner);
    while (chars.p < chars.end) {
        const char *escape = memchr(chars.p, '\\', (size_t)(chars.end - chars.p));
        size_t plain = (size_t)((escape == NULL ? chars.end : escape) - chars.p);
        memcpy(text + len, chars.p, plain);
        len += plain;
        chars.p += plain;
        size_t n = json_chars_next(&chars, piece);
        memcpy(text + len, piece, n);
        len += n;
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
