/* When to come back: headers first, then what the body says. */
#include "core/route/signature_body.h"

#include <curl/curl.h>
#include <string.h>

enum { HINT_MAX_S = 3600 };
static const int64_t MS_MAX = INT64_C(1000) * 1000 * 1000 * 1000; /* far above any hint, far below overflow */

/* A decimal number at the front of `text`, in thousandths rounded up, and how
 * long it is; 0 bytes if there is none. */
static size_t read_number(struct span text, int64_t *thousandths)
{
    size_t i = 0;
    int64_t value = 0;
    while (i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9') {
        if (value < MS_MAX)
            value = value * 10 + (text.ptr[i] - '0');
        i++;
    }
    if (i == 0)
        return 0;
    value *= 1000;
    if (i + 1 < text.len && text.ptr[i] == '.' && text.ptr[i + 1] >= '0' && text.ptr[i + 1] <= '9') {
        int64_t unit = 100;
        bool has_rest = false;
        for (i++; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
            value += (text.ptr[i] - '0') * unit;
            has_rest = has_rest || (unit == 0 && text.ptr[i] != '0');
            unit /= 10;
        }
        value += has_rest;
    }
    *thousandths = value;
    return i;
}

struct unit {
    const char *prefix; /* of the word that follows the number */
    int64_t ms;
};

/* The first row whose prefix fits. */
static const struct unit units[] = {
    { "ms", 1 },        { "millis", 1 },      { "s", 1000 },
    { "m", 60 * 1000 }, { "h", 3600 * 1000 }, { "d", 86400 * 1000 },
};

static int64_t unit_ms(struct span word)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (span_starts(word, units[i].prefix))
            return units[i].ms;
    return 0;
}

/* A span of time as providers write it, in ms: "36s", "9m38.016s", "120ms",
 * "6 minutes", "20" (seconds). 0: none. */
static int64_t read_duration_ms(struct span text)
{
    int64_t total = 0, number;
    for (;;) {
        size_t n = read_number(text, &number);
        if (n == 0)
            return total;
        size_t word = n + (n < text.len && text.ptr[n] == ' '), end = word;
        while (end < text.len && text.ptr[end] >= 'a' && text.ptr[end] <= 'z')
            end++;
        int64_t unit = unit_ms(span_of(text.ptr + word, end - word));
        if (unit == 0)
            return total != 0 ? total : number;
        /* number is in thousandths of the unit, and so exact for ms of a second */
        if (number < MS_MAX / unit)
            total += (number * unit + 999) / 1000;
        else
            total = MS_MAX;
        while (end < text.len && text.ptr[end] == ' ')
            end++;
        text = span_of(text.ptr + end, text.len - end);
    }
}

static int64_t header_ms(struct span value)
{
    int64_t ms;
    value = span_trim(value);
    return read_number(value, &ms) == value.len && value.len > 0 ? (ms + 999) / 1000 : -1;
}

static int64_t header_s_as_ms(struct span value, int64_t now_s)
{
    char text[64];
    int64_t ms;
    value = span_trim(value);
    if (value.len == 0 || value.len >= sizeof(text))
        return -1;
    if (read_number(value, &ms) == value.len)
        return ms;
    memcpy(text, value.ptr, value.len);
    text[value.len] = '\0';
    time_t date = curl_getdate(text, NULL);
    if (date < 0)
        return -1;
    return date > now_s ? ((int64_t)date - now_s) * 1000 : 0;
}

static int64_t text_ms(struct span text)
{
    static const char *const anchors[] = { "retry in ", "retry after ", "try again in ", "try again after " };
    for (size_t i = 0; i < sizeof(anchors) / sizeof(anchors[0]); i++) {
        const char *found = text.len == 0 ? NULL : memmem(text.ptr, text.len, anchors[i], strlen(anchors[i]));
        if (found == NULL)
            continue;
        found += strlen(anchors[i]);
        int64_t ms = read_duration_ms(span_of(found, (size_t)(text.ptr + text.len - found)));
        if (ms > 0)
            return ms;
    }
    return -1;
}

static int64_t body_ms(const struct signature_body *body, int64_t now_s)
{
    /* With a day's quota gone, Gemini still names the wait of its minute's. */
    for (size_t i = 0; i < body->n_tokens; i++)
        if (body->tokens[i].field == FIELD_REASON && signature_token_fits("*PerDay*", body->tokens[i].text))
            return -1;
    int64_t ms = body->retry_delay.len > 0 ? read_duration_ms(body->retry_delay) : 0;
    if (ms <= 0)
        ms = text_ms(body->text);
    if (ms <= 0 && body->reset_ms.len > 0) {
        int64_t reset = header_ms(body->reset_ms);
        ms = reset > now_s * 1000 ? reset - now_s * 1000 : -1;
    }
    return ms;
}

unsigned signature_hint_s(struct span retry_after_ms, struct span retry_after,
                          const struct signature_body *body, int64_t now_s)
{
    int64_t ms = header_ms(retry_after_ms);
    if (ms < 0)
        ms = header_s_as_ms(retry_after, now_s);
    if (ms < 0)
        ms = body_ms(body, now_s);
    if (ms < 0)
        return 0;
    if (ms > HINT_MAX_S * INT64_C(1000))
        return HINT_MAX_S;
    return ms <= 1000 ? 1 : (unsigned)((ms + 999) / 1000);
}
