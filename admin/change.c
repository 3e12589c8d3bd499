#include "admin/change.h"

#include <string.h>

#include "admin/answer.h"
#include "admin/write_event.h"
#include "core/config/diff.h"
#include "core/json/writer.h"
#include "core/log/log.h"

enum { DIFFERENCE_BYTES = 64 * 1024 * 1024 };

struct applying {
    struct admin_turn *turn;
    struct admin_change *change;
};

static int apply(void *ctx, const struct store_value *current, struct arena *arena, struct span *next,
                 struct store_audit *audit)
{
    struct applying *applying = ctx;
    struct admin_change *change = applying->change;
    struct config_diff diff;

    int r = change->make(applying->turn, change, current, arena);
    if (r != 0)
        return r;
    config_diff(change->before, change->after, arena, &diff);
    audit->object = change->object;
    audit->changes = config_diff_audit(&diff, arena);
    *next = change->next;
    return 0;
}

static void reply_difference(struct admin_turn *turn, const struct config_diff *diff, const char *version)
{
    struct buf text;
    struct json_writer w;

    buf_init(&text, DIFFERENCE_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_member_bool(&w, "dryRun", true);
    jw_member_cstr(&w, "version", version);
    jw_key(&w, "changes");
    config_diff_write(diff, "path", &w);
    jw_member_uint(&w, "further", diff->dropped);
    jw_end_object(&w);
    admin_reply_written(turn, &text, version);
    buf_free(&text);
}

/* All of it except for the change. */
static int rehearse(struct admin_turn *turn, struct admin_change *change)
{
    struct store_value current = { .raw = { NULL, 0 }, .version = "" };
    struct arena *arena = turn->request.arena;
    struct config_diff diff;
    struct error e;

    int r = store_get(turn->worker->store, entry_name(change->entry), arena, &current, &e);
    if (r != 0 && r != ERR_NOT_FOUND) {
        admin_fail_store(turn, &e);
        return r;
    }
    if (change->expected != NULL && strcmp(change->expected, current.version) != 0) {
        admin_fail_conflict(turn, current.version);
        return ERR_CONFLICT;
    }
    r = change->make(turn, change, &current, arena);
    if (r != 0)
        return r;
    config_diff(change->before, change->after, arena, &diff);
    reply_difference(turn, &diff, current.raw.ptr == NULL ? NULL : current.version);
    return ERR_STOPPED;
}

static void log_write(const struct admin_turn *turn, const struct admin_change *change,
                      const struct store_outcome *outcome)
{
    struct json_writer *w = log_begin(LOG_INFO, "admin_write");
    jw_member_cstr(w, "actor", turn->actor);
    jw_member_cstr(w, "action", change->action);
    if (change->restored != NULL) { /* a version of ours, but one that looks like a credential */
        jw_member_cstr(w, "object", entry_name(change->entry));
        jw_member_cstr(w, "restored", change->restored);
    } else {
        log_field_text(w, "object", span_cstr(change->object));
    }
    jw_member_cstr(w, "version", outcome->version);
    jw_member_uint(w, "key_count", change->key_count);
    jw_member_bool(w, "is_published", outcome->is_published);
    log_field_text(w, "source_address", span_cstr(conn_param(turn->request.conn, "REMOTE_ADDR")));
    jw_member_cstr(w, "request_id", turn->request.id);
    log_end();
}

int admin_apply(struct admin_turn *turn, struct admin_change *change, struct store_outcome *out)
{
    struct applying applying = { turn, change };
    const struct entry_update update = {
        .entry = change->entry,
        .expected = change->expected,
        .audit = { .actor = turn->actor,
                   .action = change->action,
                   .object = change->object,
                   .source_address = conn_param(turn->request.conn, "REMOTE_ADDR"),
                   .request_id = turn->request.id },
        .change = apply,
        .ctx = &applying,
    };
    struct error e = { .text = "" };

    if (turn->is_dry_run)
        return rehearse(turn, change);
    int r = entry_update(turn->worker->store, &update, out, &e);
    if (r == 0 && !out->is_same) {
        log_write(turn, change, out);
        write_event_append(turn, change, out->version);
    }
    if (r != 0 && !turn->reply.is_started && r == ERR_CONFLICT)
        admin_fail_conflict(turn, out->version);
    else if (r != 0 && !turn->reply.is_started)
        admin_fail_store(turn, &e);
    return r;
}
