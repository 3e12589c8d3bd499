/* Lists of name=value, as headers and resource attributes come in. */
#include "core/telemetry/otlp_settings_internal.h"

#include <ctype.h>
#include <string.h>

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *otlp_percent_decode(struct span text, struct arena *arena)
{
    char *out = arena_alloc(arena, text.len + 1), *p = out;
    for (size_t i = 0; i < text.len; i++) {
        int high = 0, low = 0;
        char c = text.ptr[i];
        if (c == '%' &&
            (text.len - i < 3 || (high = hex_of(text.ptr[i + 1])) < 0 || (low = hex_of(text.ptr[i + 2])) < 0))
            return NULL;
        if (c == '%') {
            c = (char)(high * 16 + low);
            i += 2;
        }
        if ((unsigned char)c < 0x20 || c == 0x7f)
            return NULL;
        *p++ = c;
    }
    *p = '\0';
    return out;
}

bool otlp_next_pair(struct span *rest, struct span *name, struct span *value)
{
    while (rest->len > 0) {
        const char *comma = memchr(rest->ptr, ',', rest->len);
        size_t len = comma == NULL ? rest->len : (size_t)(comma - rest->ptr);
        struct span pair = span_trim(span_of(rest->ptr, len));
        if (pair.len == 0) {
            *rest = span_of(rest->ptr + len + (comma != NULL), rest->len - len - (comma != NULL));
            continue;
        }
        const char *equals = memchr(pair.ptr, '=', pair.len);
        if (equals == NULL)
            return false;
        *name = span_trim(span_of(pair.ptr, (size_t)(equals - pair.ptr)));
        *value = span_trim(span_of(equals + 1, pair.len - (size_t)(equals + 1 - pair.ptr)));
        if (name->len == 0)
            return false;
        *rest = span_of(rest->ptr + len + (comma != NULL), rest->len - len - (comma != NULL));
        return true;
    }
    return false;
}

/* A token of RFC 9110, section 5.6.2. */
static bool is_token(struct span name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.ptr[i]) && strchr("!#$%&'*+-.^_`|~", name.ptr[i]) == NULL)
            return false;
    return true;
}

bool otlp_next_header(struct span *rest, struct arena *arena, const char **name, const char **value)
{
    struct span before = *rest, key, text;

    if (!otlp_next_pair(rest, &key, &text))
        return false;
    *value = otlp_percent_decode(text, arena);
    *name = arena_span(arena, key);
    if (*value != NULL && is_token(key))
        return true;
    *rest = before; /* where it breaks */
    return false;
}
