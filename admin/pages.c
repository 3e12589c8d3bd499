#include "admin/pages.h"

#include <string.h>

#include "admin/answer.h"

static const char mount[] = "/voice-packs";

/*
 * A page runs its own scripts, asks its own origin, plays what it was sent, and is in no
 * frame; a text never becomes markup in it. no-cache: asked for again each time, which
 * costs a 304, so that a new version is there at once and whole.
 */
static const struct {
    const char *name, *value;
} headers[] = {
    { "Cache-Control", "no-cache" },
    { "Content-Security-Policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
      "media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
      "require-trusted-types-for 'script'; trusted-types 'none'" },
    { "Cross-Origin-Opener-Policy", "same-origin" },
    { "Cross-Origin-Resource-Policy", "same-origin" },
    { "Referrer-Policy", "no-referrer" },
    { "X-Content-Type-Options", "nosniff" },
};

/* Whether If-None-Match names the tag. A front end that compresses makes it a weak one. */
static bool has_tag(struct span wanted, const char *tag)
{
    while (wanted.len > 0) {
        const char *comma = memchr(wanted.ptr, ',', wanted.len);
        size_t len = comma == NULL ? wanted.len : (size_t)(comma - wanted.ptr);
        struct span item = span_trim(span_of(wanted.ptr, len));
        if (span_starts(item, "W/"))
            item = span_of(item.ptr + 2, item.len - 2);
        if (span_is(item, tag) || span_is(item, "*"))
            return true;
        len += comma != NULL;
        wanted = span_of(wanted.ptr + len, wanted.len - len);
    }
    return false;
}

static void send_page(struct admin_turn *turn, const struct page *page)
{
    const char *tag = arena_printf(turn->request.arena, "\"%s\"", page->tag);
    struct span wanted = span_cstr(conn_param(turn->request.conn, "HTTP_IF_NONE_MATCH"));
    bool is_known = has_tag(wanted, tag);

    if (is_known)
        reply_start(&turn->reply, 304, span_cstr(NULL), -1);
    else
        reply_start(&turn->reply, 200, span_cstr(page->media_type), (int64_t)page->text.len);
    reply_header(&turn->reply, "ETag", span_cstr(tag));
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        reply_header(&turn->reply, headers[i].name, span_cstr(headers[i].value));
    reply_finish(&turn->reply, is_known ? span_cstr(NULL) : page->text);
}

/* What the page names is beside it, as the page is behind a slash. */
static void send_to_page(struct admin_turn *turn)
{
    reply_start(&turn->reply, 308, span_cstr(NULL), 0);
    reply_header(&turn->reply, "Location", span_cstr("voice-packs/"));
    reply_finish(&turn->reply, span_cstr(NULL));
}

static void serve(struct admin_turn *turn, const char *name)
{
    for (size_t i = 0; i < n_pages; i++) {
        if (strcmp(pages[i].name, name) == 0) {
            send_page(turn, &pages[i]);
            return;
        }
    }
    admin_fail(turn, &(struct failure){ .kind = FAILURE_NOT_FOUND });
}

bool pages_serve(struct admin_turn *turn)
{
    const char *method = turn->request.method;
    const char *at = admin_api_path(turn) == NULL ? strstr(turn->request.path, mount) : NULL;
    const char *behind = at == NULL ? "?" : at + sizeof(mount) - 1;

    if (behind[0] != '/' && behind[0] != '\0')
        return false;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        admin_fail(turn, &(struct failure){ .kind = FAILURE_METHOD_NOT_ALLOWED,
                                            .message = "Only GET, HEAD is allowed here.",
                                            .allow = "GET, HEAD" });
    else if (behind[0] == '\0')
        send_to_page(turn);
    else
        serve(turn, behind + 1);
    return true;
}
