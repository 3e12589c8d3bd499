#include "admin/answer.h"

#include <string.h>

#include "admin/write_event.h"
#include "core/json/scan.h"
#include "core/json/writer.h"
#include "core/log/log.h"

enum { DETAILS_BYTES = 256 * 1024, LIMIT_MAX = 1000 };

static const char NO_VERSION[] = "none"; /* which no version is */

/* Before the reply: who has read it finds it counted. */
static void count(struct admin_turn *turn, int status)
{
    if (turn->is_write && !turn->is_dry_run)
        write_event_count(turn, status);
}

void admin_reply(struct admin_turn *turn, int status, struct span body, const char *version)
{
    count(turn, status);
    reply_start(&turn->reply, status, span_cstr("application/json"), (int64_t)body.len);
    if (version != NULL)
        reply_header(&turn->reply, "ETag", span_cstr(arena_printf(turn->request.arena, "\"%s\"", version)));
    reply_header(&turn->reply, "Cache-Control", span_cstr("no-store"));
    reply_finish(&turn->reply, body);
}

void admin_reply_written(struct admin_turn *turn, const struct buf *text, const char *version)
{
    if (!text->overflowed) {
        admin_reply(turn, 200, buf_span(text), version);
        return;
    }
    log_line(LOG_ERROR, "reply_too_large", "a reply has more than %zu bytes", text->limit);
    admin_fail(turn, &(struct failure){
                         .kind = FAILURE_INTERNAL, .message = "The reply is too large.", .no_retry = true });
}

void admin_reply_version(struct admin_turn *turn, const char *version)
{
    const char *body = arena_printf(turn->request.arena, "{\"version\":\"%s\"}", version);
    admin_reply(turn, 200, span_cstr(body), version);
}

void admin_fail(struct admin_turn *turn, const struct failure *failure)
{
    count(turn, failure_status(failure, ERROR_FORM_CODED));
    reply_failure(&turn->reply, failure, ERROR_FORM_CODED);
}

void admin_fail_store(struct admin_turn *turn, const struct error *e)
{
    log_line(LOG_ERROR, "store_failed", "%s", e->text);
    admin_fail(turn, &(struct failure){ .kind = FAILURE_STORE_DOWN, .retry_after_s = 1 });
}

void admin_fail_not_found(struct admin_turn *turn, const char *message)
{
    admin_fail(turn, &(struct failure){ .kind = FAILURE_NOT_FOUND, .message = message });
}

void admin_fail_faults(struct admin_turn *turn, const char *what, const struct entry_faults *faults)
{
    struct buf details;
    struct json_writer w;

    buf_init(&details, DETAILS_BYTES);
    jw_init(&w, &details);
    jw_begin_array(&w);
    for (size_t i = 0; i < faults->count; i++) {
        jw_begin_object(&w);
        jw_member_cstr(&w, "path", faults->items[i].path);
        jw_member_cstr(&w, "message", faults->items[i].message);
        jw_end_object(&w);
    }
    jw_end_array(&w);
    size_t n = faults->count + faults->dropped;
    struct failure failure = {
        .kind = FAILURE_INVALID_REQUEST,
        .message =
            arena_printf(turn->request.arena, "The %s was refused: %zu fault%s.", what, n, n == 1 ? "" : "s"),
    };
    if (!details.overflowed)
        failure.details = buf_span(&details);
    admin_fail(turn, &failure);
    buf_free(&details);
}

void admin_fail_conflict(struct admin_turn *turn, const char *current)
{
    struct buf details;
    struct json_writer w;

    buf_init(&details, 256);
    jw_init(&w, &details);
    jw_begin_object(&w);
    jw_member_cstr(&w, "currentVersion", current[0] != '\0' ? current : NULL);
    jw_end_object(&w);
    admin_fail(turn, &(struct failure){
                         .kind = FAILURE_CONFLICT,
                         .message = "It has another version by now.",
                         .details = buf_span(&details),
                     });
    buf_free(&details);
}

bool admin_expected_version(struct admin_turn *turn, bool is_required, const char **out)
{
    struct span tag = span_trim(span_cstr(conn_param(turn->request.conn, "HTTP_IF_MATCH")));
    *out = NULL;
    if (tag.len == 0 && is_required) {
        admin_fail(turn, &(struct failure){ .kind = FAILURE_PRECONDITION_REQUIRED });
        return false;
    }
    if (tag.len == 0 || span_is(tag, "*"))
        return true;
    if (span_starts(tag, "W/"))
        tag = span_of(tag.ptr + 2, tag.len - 2);
    if (tag.len >= 2 && tag.ptr[0] == '"' && tag.ptr[tag.len - 1] == '"')
        tag = span_of(tag.ptr + 1, tag.len - 2);
    /* Inside quotes an asterisk is a tag like any other (RFC 9110, section 13.1.1). */
    bool is_version = tag.len > 0 && tag.len < STORE_VERSION_BYTES && !span_is(tag, "*");
    *out = is_version ? arena_span(turn->request.arena, tag) : NO_VERSION;
    return true;
}

bool admin_limit(struct admin_turn *turn, size_t preset, size_t *out)
{
    struct span text;
    long long limit = (long long)preset;
    if (request_query(&turn->request, "limit", &text) &&
        (!json_int(text, &limit) || limit < 1 || limit > LIMIT_MAX)) {
        admin_fail(turn,
                   &(struct failure){ .kind = FAILURE_INVALID_REQUEST,
                                      .message = "limit is expected to be a whole number from 1 to 1000." });
        return false;
    }
    *out = (size_t)limit;
    return true;
}

bool admin_read_body(struct admin_turn *turn, struct span *body)
{
    struct failure failure = { .kind = FAILURE_KIND_COUNT };
    if (request_read_body(&turn->request, "application/json", body, &failure) == 0)
        return true;
    if (failure.kind != FAILURE_KIND_COUNT)
        admin_fail(turn, &failure);
    return false;
}

void admin_wipe(struct span body)
{
    explicit_bzero((char *)(uintptr_t)body.ptr, body.len);
}
