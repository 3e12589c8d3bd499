#include "core/config/baseurl.h"

#include <ctype.h>
#include <curl/curl.h>

enum { BASEURL_MAX_BYTES = 2048 };

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

static bool has_blank(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] <= ' ' || text.ptr[i] == 0x7f)
            return true;
    return false;
}

/* curl also takes one slash or three, where a host has been forgotten. */
static bool has_two_slashes(const char *url, const char *scheme)
{
    const char *rest = url + strlen(scheme);
    return strncmp(rest, "://", 3) == 0 && rest[3] != '/';
}

const char *baseurl_parse(struct span text, struct arena *arena, struct baseurl *out)
{
    char copy[BASEURL_MAX_BYTES + 1], *scheme = NULL, *host = NULL;
    const char *problem = NULL;
    CURLU *url = NULL;

    if (text.len > BASEURL_MAX_BYTES)
        return "it is too long";
    if (has_blank(text))
        return "it holds a blank or a control character";
    memcpy(copy, text.len == 0 ? "" : text.ptr, text.len);
    copy[text.len] = '\0';
    url = curl_url();
    if (url == NULL || curl_url_set(url, CURLUPART_URL, copy, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK || host[0] == '\0' ||
        !has_two_slashes(copy, scheme))
        problem = "it is no whole URL with scheme and host";
    else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        problem = "its scheme is neither http nor https";
    else if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
        problem = "user and password may not stand in it";
    else if (strchr(copy, '#') != NULL)
        problem = "it has a fragment";
    else if (strchr(copy, '?') != NULL)
        problem = "it has a query"; /* the endpoint's path is appended */
    if (problem == NULL && out != NULL) {
        while (text.len > 0 && text.ptr[text.len - 1] == '/')
            text.len--;
        char *lower = arena_strdup(arena, host);
        for (char *c = lower; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
        *out = (struct baseurl){ text, lower };
    }
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(url);
    return problem;
}

const char *baseurl_parse_endpoint(struct span text, struct arena *arena, struct baseurl *out)
{
    const char *mark = text.len == 0 ? NULL : memchr(text.ptr, '?', text.len);
    struct span front = mark == NULL ? text : span_of(text.ptr, (size_t)(mark - text.ptr));
    struct span query = span_of(text.ptr + front.len, text.len - front.len);
    const char *problem = baseurl_parse(front, arena, out);

    if (problem == NULL && text.len > BASEURL_MAX_BYTES)
        problem = "it is too long";
    else if (problem == NULL && has_blank(query))
        problem = "it holds a blank or a control character";
    else if (problem == NULL && query.len > 0 && memchr(query.ptr, '#', query.len) != NULL)
        problem = "it has a fragment";
    if (problem == NULL && out != NULL)
        out->text = text;
    return problem;
}
