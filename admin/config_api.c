/* GET and PUT of the operators' document, with its version as entity tag. */
#include "admin/admin.h"

#include <string.h>

#include "core/config/admit.h"
#include "core/config/entry.h"
#include "core/config/mask.h"
#include "core/json/writer.h"
#include "core/log/log.h"

enum { DETAILS_BYTES = 256 * 1024 };

static const char ANY_VERSION[] = "*", NO_VERSION[] = "none"; /* as store_put has the first */

static const char *document(void)
{
    return entry_name(ENTRY_LLM_ROUTER_CONFIG);
}

static const struct envelope_keys *keys(const struct admin_turn *turn)
{
    return turn->worker->shared->has_keys ? &turn->worker->shared->keys : NULL;
}

/* The store failed: its reason is for the log, not for the reply. */
static void fail_store(struct admin_turn *turn, const struct error *e)
{
    log_line(LOG_ERROR, "store_failed", "%s", e->text);
    admin_fail(turn,
               &(struct failure){ .kind = FAILURE_INTERNAL, .message = "The store cannot be used now." });
}

static void add_etag(struct admin_turn *turn, const char *version)
{
    reply_header(&turn->reply, "ETag", span_cstr(arena_printf(turn->request.arena, "\"%s\"", version)));
}

void admin_get_config(struct admin_turn *turn)
{
    struct store_value value;
    struct span masked;
    struct error e;

    int r = store_get(turn->worker->store, document(), turn->request.arena, &value, &e);
    if (r == ERR_NOT_FOUND) {
        admin_fail(
            turn, &(struct failure){ .kind = FAILURE_NOT_FOUND,
                                     .message = "There is no configuration yet: PUT one with If-Match: *." });
        return;
    }
    if (r == 0)
        r = config_mask(value.raw, keys(turn), turn->request.arena, &masked, &e);
    if (r != 0) {
        fail_store(turn, &e);
        return;
    }
    reply_start(&turn->reply, 200, span_cstr("application/json"), (int64_t)masked.len);
    add_etag(turn, value.version);
    reply_header(&turn->reply, "Cache-Control", span_cstr("no-store"));
    reply_finish(&turn->reply, masked);
}

static void fail_faults(struct admin_turn *turn, const struct entry_faults *faults)
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
    struct failure failure = {
        .kind = FAILURE_INVALID_REQUEST,
        .message = arena_printf(turn->request.arena, "The configuration was refused: %zu faults.",
                                faults->count + faults->dropped),
    };
    if (!details.overflowed)
        failure.details = buf_span(&details);
    admin_fail(turn, &failure);
    buf_free(&details);
}

static void fail_conflict(struct admin_turn *turn, const char *current)
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
                         .message = "The configuration has another version by now.",
                         .details = buf_span(&details),
                     });
    buf_free(&details);
}

/* The version in If-Match: "*" or one entity tag, strong or weak. NULL: there is none. */
static const char *expected_version(const struct admin_turn *turn)
{
    struct span tag = span_trim(span_cstr(conn_param(turn->request.conn, "HTTP_IF_MATCH")));
    if (span_is(tag, ANY_VERSION))
        return ANY_VERSION;
    if (span_starts(tag, "W/"))
        tag = span_of(tag.ptr + 2, tag.len - 2);
    if (tag.len >= 2 && tag.ptr[0] == '"' && tag.ptr[tag.len - 1] == '"')
        tag = span_of(tag.ptr + 1, tag.len - 2);
    if (span_is(tag, ANY_VERSION))
        return NO_VERSION;
    return tag.len > 0 ? arena_span(turn->request.arena, tag) : NULL;
}

static void store_document(struct admin_turn *turn, struct span body, const char *expected)
{
    struct store_outcome outcome;
    struct arena *arena = turn->request.arena;
    struct entry_faults faults = { 0 };
    struct store_value current = { .raw = { NULL, 0 } };
    struct span admitted;
    struct error e;

    int r = store_get(turn->worker->store, document(), arena, &current, &e);
    if (r != 0 && r != ERR_NOT_FOUND) {
        fail_store(turn, &e);
        return;
    }
    if (strcmp(expected, ANY_VERSION) != 0 && strcmp(expected, current.version) != 0) {
        fail_conflict(turn, current.version); /* before faults that only come of the stale version */
        return;
    }
    if (config_admit(body, current.raw, keys(turn), arena, &admitted, &faults) != 0) {
        fail_faults(turn, &faults);
        return;
    }
    const struct store_change change = {
        .key = document(),
        .raw = admitted,
        .expected = expected,
        .audit = { .actor = turn->actor,
                   .action = "put",
                   .object = document(),
                   .source_address = conn_param(turn->request.conn, "REMOTE_ADDR"),
                   .request_id = turn->request.id },
    };
    r = store_put(turn->worker->store, &change, &outcome, &e);
    if (r == ERR_CONFLICT) {
        fail_conflict(turn, outcome.version);
        return;
    }
    if (r != 0) {
        fail_store(turn, &e);
        return;
    }
    struct json_writer *w = log_begin(LOG_INFO, "configuration_written");
    jw_member_cstr(w, "actor", turn->actor);
    jw_member_cstr(w, "version", outcome.version);
    log_end();
    struct span reply = span_cstr(arena_printf(arena, "{\"version\":\"%s\"}", outcome.version));
    reply_start(&turn->reply, 200, span_cstr("application/json"), (int64_t)reply.len);
    add_etag(turn, outcome.version);
    reply_finish(&turn->reply, reply);
}

void admin_put_config(struct admin_turn *turn)
{
    const char *expected = expected_version(turn);
    struct failure failure = { .kind = FAILURE_KIND_COUNT };
    struct span body;

    if (expected == NULL) {
        admin_fail(turn, &(struct failure){ .kind = FAILURE_PRECONDITION_REQUIRED });
        return;
    }
    int r = request_read_json(&turn->request, &body, &failure);
    if (r != 0) {
        if (failure.kind != FAILURE_KIND_COUNT)
            admin_fail(turn, &failure);
        return;
    }
    store_document(turn, body, expected);
    explicit_bzero((char *)(uintptr_t)body.ptr, body.len); /* it held plaintext keys */
}
