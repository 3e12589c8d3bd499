/* Callers' keys, row by row: nobody needs to know the rows of others to change one. */
#include "admin/change.h"

#include "admin/answer.h"
#include "core/base/clock.h"
#include "core/config/caller_keys.h"
#include "core/json/writer.h"

static const struct entry_faults none;

static const char no_such_key[] = "There is no caller key with this id.";

/* What ends an action; `r` is what core/config/caller_keys.h says. */
static int fail(struct admin_turn *turn, int r, const struct entry_faults *faults)
{
    if (r == ERR_FORMAT)
        admin_fail_faults(turn, "caller key", faults);
    else if (r == ERR_NOT_FOUND)
        admin_fail_not_found(turn, no_such_key);
    else if (r == ERR_CONFLICT)
        admin_fail(turn, &(struct failure){ .kind = FAILURE_CONFLICT,
                                            .message = "There is a caller key with this id already." });
    else if (r == ERR_LIMIT)
        admin_fail(turn, &(struct failure){ .kind = FAILURE_INVALID_REQUEST,
                                            .message = "There are as many caller keys as there may be." });
    else
        admin_fail(turn, &(struct failure){ .kind = FAILURE_INTERNAL,
                                            .message = "The stored caller keys are not valid as they are.",
                                            .no_retry = true });
    return r;
}

void admin_list_callers(struct admin_turn *turn)
{
    struct arena *arena = turn->request.arena;
    struct store_value value = { .raw = { NULL, 0 } };
    struct caller_key *keys;
    struct json_writer w;
    struct buf text;
    struct error e;
    size_t n;

    int r = store_get(turn->worker->store, entry_name(ENTRY_CALLER_KEYS), arena, &value, &e);
    if (r != 0 && r != ERR_NOT_FOUND) {
        admin_fail_store(turn, &e);
        return;
    }
    const char *version = r == 0 ? value.version : NULL;
    if ((r = caller_keys_list(value.raw, arena, &keys, &n)) != 0) {
        fail(turn, r, &none);
        return;
    }
    buf_init(&text, 2 * (size_t)STORE_VALUE_LIMIT_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_key(&w, "keys");
    jw_begin_array(&w);
    for (size_t i = 0; i < n; i++)
        caller_key_write(&keys[i], &w);
    jw_end_array(&w);
    jw_end_object(&w);
    admin_reply_written(turn, &text, version);
    buf_free(&text);
}

/* What one action is about. */
struct row_change {
    struct span body;
    const char *id;  /* NULL: of the new key, not known yet */
    const char *key; /* plaintext of a new one */
    const char *created_at;
    struct span shown; /* the new row, in the turn's arena */
};

static int show(struct admin_turn *turn, struct admin_change *change, const struct store_value *current,
                struct arena *arena)
{
    struct row_change *row = change->ctx;
    struct caller_key *keys;
    change->before = caller_keys_show(current->raw, row->id, arena);
    change->after = caller_keys_show(change->next, row->id, turn->request.arena);
    row->shown = change->after;
    return caller_keys_list(change->next, arena, &keys, &change->key_count);
}

static int make_created(struct admin_turn *turn, struct admin_change *change,
                        const struct store_value *current, struct arena *arena)
{
    struct row_change *row = change->ctx;
    struct entry_faults faults = { 0 };
    struct caller_key *keys;
    size_t n;

    int r =
        caller_keys_add(current->raw, row->body, row->key, row->created_at, arena, &change->next, &faults);
    if (r == 0)
        r = caller_keys_list(change->next, arena, &keys, &n);
    if (r != 0)
        return fail(turn, r, &faults);
    row->id = arena_strdup(turn->request.arena, keys[n - 1].id);
    change->object = arena_printf(turn->request.arena, "%s/%s", entry_name(change->entry), row->id);
    return show(turn, change, current, arena);
}

static int make_changed(struct admin_turn *turn, struct admin_change *change,
                        const struct store_value *current, struct arena *arena)
{
    const struct row_change *row = change->ctx;
    struct entry_faults faults = { 0 };
    int r = caller_keys_change(current->raw, row->id, row->body, arena, &change->next, &faults);
    return r != 0 ? fail(turn, r, &faults) : show(turn, change, current, arena);
}

static int make_revoked(struct admin_turn *turn, struct admin_change *change,
                        const struct store_value *current, struct arena *arena)
{
    const struct row_change *row = change->ctx;
    int r = caller_keys_revoke(current->raw, row->id, arena, &change->next);
    return r != 0 ? fail(turn, r, &none) : show(turn, change, current, arena);
}

/* The row with its version, and a new one with its key, this once. */
static void reply_row(struct admin_turn *turn, int status, const struct row_change *row, const char *version)
{
    bool is_new = row->key != NULL;
    /* In one piece, which is wiped; neither key nor version needs an escape. */
    const char *text = arena_printf(turn->request.arena, "%.*s%s%s%s,\"version\":\"%s\"}",
                                    (int)row->shown.len - 1, row->shown.ptr, is_new ? ",\"key\":\"" : "",
                                    is_new ? row->key : "", is_new ? "\"" : "", version);
    admin_reply(turn, status, span_cstr(text), version);
    admin_wipe(span_cstr(text));
}

void admin_create_caller(struct admin_turn *turn)
{
    char key[CALLER_KEY_TEXT_BYTES], now[CLOCK_TEXT_BYTES];
    struct row_change row = { .key = key, .created_at = now };
    struct admin_change change = {
        .entry = ENTRY_CALLER_KEYS,
        .action = "create",
        .object = entry_name(ENTRY_CALLER_KEYS),
        .make = make_created,
        .ctx = &row,
    };
    struct store_outcome outcome;

    if (!admin_expected_version(turn, false, &change.expected) || !admin_read_body(turn, &row.body))
        return;
    caller_key_generate(key);
    clock_text(clock_wall_us(), now);
    if (admin_apply(turn, &change, &outcome) == 0)
        reply_row(turn, 201, &row, outcome.version);
    explicit_bzero(key, sizeof(key));
}

void admin_change_caller(struct admin_turn *turn)
{
    struct row_change row = { .id = turn->name };
    struct admin_change change = {
        .entry = ENTRY_CALLER_KEYS,
        .action = "change",
        .object = arena_printf(turn->request.arena, "%s/%s", entry_name(ENTRY_CALLER_KEYS), turn->name),
        .make = make_changed,
        .ctx = &row,
    };
    struct store_outcome outcome;

    turn->request.media_type = "application/merge-patch+json";
    if (admin_expected_version(turn, false, &change.expected) && admin_read_body(turn, &row.body) &&
        admin_apply(turn, &change, &outcome) == 0)
        reply_row(turn, 200, &row, outcome.version);
}

void admin_revoke_caller(struct admin_turn *turn)
{
    struct row_change row = { .id = turn->name };
    struct admin_change change = {
        .entry = ENTRY_CALLER_KEYS,
        .action = "revoke",
        .object = arena_printf(turn->request.arena, "%s/%s", entry_name(ENTRY_CALLER_KEYS), turn->name),
        .make = make_revoked,
        .ctx = &row,
    };
    struct store_outcome outcome;

    if (admin_expected_version(turn, false, &change.expected) && admin_apply(turn, &change, &outcome) == 0)
        admin_reply_version(turn, outcome.version);
}
