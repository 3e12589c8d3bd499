#include "adapters/download_url.h"

#include <ctype.h>

/* A URL's beginning, taken apart. */
struct origin {
    struct span scheme, host, port; /* port: digits, or empty */
    struct span rest;               /* path and query, from their "/" or "?" */
};

static bool is_host(struct span host)
{
    for (size_t i = 0; i < host.len; i++) {
        unsigned char c = (unsigned char)host.ptr[i];
        if (c >= 0x80 || (!isalnum(c) && c != '-' && c != '.'))
            return false;
    }
    return host.len > 0 && host.ptr[0] != '.' && host.ptr[0] != '-';
}

static bool is_port(struct span port)
{
    for (size_t i = 0; i < port.len; i++)
        if (port.ptr[i] < '0' || port.ptr[i] > '9')
            return false;
    return port.len <= 5;
}

static size_t count_until(struct span text, const char *stops)
{
    size_t n = 0;
    while (n < text.len && strchr(stops, text.ptr[n]) == NULL)
        n++;
    return n;
}

/* Only what every reader of URLs reads alike: no user, no escapes in the host, no
 * address in brackets, no backslash or blank anywhere. */
static bool take_apart(struct span url, struct origin *out)
{
    for (size_t i = 0; i < url.len; i++)
        if (url.ptr[i] < 0x21 || url.ptr[i] == 0x7F || strchr("\\\"<>^`{|}#", url.ptr[i]) != NULL)
            return false;
    out->scheme = span_of(url.ptr, count_until(url, ":"));
    url = span_of(url.ptr + out->scheme.len, url.len - out->scheme.len);
    if (!span_starts(url, "://"))
        return false;
    url = span_of(url.ptr + 3, url.len - 3);
    struct span authority = span_of(url.ptr, count_until(url, "/?"));
    out->rest = span_of(url.ptr + authority.len, url.len - authority.len);
    out->host = span_of(authority.ptr, count_until(authority, ":"));
    bool has_port = out->host.len < authority.len;
    out->port = span_of(authority.ptr + out->host.len + has_port, authority.len - out->host.len - has_port);
    return is_host(out->host) && is_port(out->port) && (!has_port || out->port.len > 0);
}

static bool is_same(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.ptr, b.ptr, a.len) == 0);
}

/* A host below the domain, or the domain itself. */
static bool is_below(struct span host, const char *domain)
{
    size_t len = strlen(domain);
    if (host.len < len || !is_same(span_of(host.ptr + host.len - len, len), span_of(domain, len)))
        return false;
    return host.len == len || host.ptr[host.len - len - 1] == '.';
}

const char *download_url_check(struct span url, const char *domain, const char *endpoint, struct arena *arena)
{
    struct origin found, own;
    if (url.len > DOWNLOAD_URL_BYTES || !take_apart(url, &found))
        return NULL;
    bool is_https = span_is_nocase(found.scheme, "https"), is_http = span_is_nocase(found.scheme, "http");
    if (!is_https && !is_http)
        return NULL;
    if (take_apart(span_cstr(endpoint), &own) && is_same(own.scheme, found.scheme) &&
        is_same(own.host, found.host) && is_same(own.port, found.port))
        return arena_span(arena, url);
    bool has_usual_port = found.port.len == 0 || span_is(found.port, is_https ? "443" : "80");
    if (!is_below(found.host, domain) || !has_usual_port)
        return NULL;
    return arena_printf(arena, "https://%.*s%.*s", (int)found.host.len, found.host.ptr, (int)found.rest.len,
                        found.rest.len > 0 ? found.rest.ptr : "");
}
