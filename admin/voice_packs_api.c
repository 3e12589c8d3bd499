/* Voice packs, row by row. */
#include "admin/change.h"

#include "admin/answer.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/config/voice_pack_rows.h"
#include "core/json/writer.h"

static const struct entry_faults none;

/* What ends an action; `r` is what core/config/voice_pack_rows.h says. */
static int fail(struct admin_turn *turn, int r, const struct entry_faults *faults)
{
    if (r == ERR_FORMAT)
        admin_fail_faults(turn, "voice pack", faults);
    else if (r == ERR_NOT_FOUND)
        admin_fail_not_found(turn, "There is no voice pack with this id.");
    else if (r == ERR_LIMIT)
        admin_fail(turn, &(struct failure){ .kind = FAILURE_INVALID_REQUEST,
                                            .message = "There are as many voice packs as there may be." });
    else
        admin_fail(turn, &(struct failure){ .kind = FAILURE_INTERNAL,
                                            .message = "The stored voice packs are not valid as they are.",
                                            .no_retry = true });
    return r;
}

void admin_list_voice_packs(struct admin_turn *turn)
{
    struct store_value value = { .raw = { NULL, 0 } };
    struct members packs;
    struct json_writer w;
    struct buf text;
    struct error e;

    int r = store_get(turn->worker->store, entry_name(ENTRY_VOICE_PACKS), turn->request.arena, &value, &e);
    if (r != 0 && r != ERR_NOT_FOUND) {
        admin_fail_store(turn, &e);
        return;
    }
    const char *version = r == 0 ? value.version : NULL;
    if ((r = voice_packs_list(value.raw, turn->request.arena, &packs)) != 0) {
        fail(turn, r, &none);
        return;
    }
    buf_init(&text, 2 * (size_t)STORE_VALUE_LIMIT_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_key(&w, "voicePacks");
    jw_begin_array(&w);
    for (size_t i = 0; i < packs.count; i++)
        jw_raw(&w, packs.items[i].value);
    jw_end_array(&w);
    jw_end_object(&w);
    admin_reply_written(turn, &text, version);
    buf_free(&text);
}

/* What one action is about. */
struct pack_change {
    const char *id;
    struct span body; /* of one that has any */
    bool is_enabled;  /* what enable and disable make of it */
    char now[CLOCK_TEXT_BYTES];
    struct span shown; /* the row as it is then, in the turn's arena */
};

/* What the pack was and will be; nothing of it is a secret. */
static int show(struct admin_turn *turn, struct admin_change *change, const struct store_value *current,
                struct arena *arena)
{
    struct pack_change *pack = change->ctx;
    struct span row;

    if (voice_packs_find(current->raw, pack->id, arena, &change->before) != 0)
        change->before = span_of("", 0);
    int r = voice_packs_find(change->next, pack->id, arena, &row);
    if (r != 0)
        return fail(turn, r, &none);
    pack->shown = span_of(arena_span(turn->request.arena, row), row.len);
    change->after = pack->shown;
    return 0;
}

static int make_created(struct admin_turn *turn, struct admin_change *change,
                        const struct store_value *current, struct arena *arena)
{
    const struct pack_change *pack = change->ctx;
    struct entry_faults faults = { 0 };
    int r = voice_packs_add(current->raw, pack->body, pack->id, pack->now, arena, &change->next, &faults);
    return r != 0 ? fail(turn, r, &faults) : show(turn, change, current, arena);
}

static int make_changed(struct admin_turn *turn, struct admin_change *change,
                        const struct store_value *current, struct arena *arena)
{
    const struct pack_change *pack = change->ctx;
    struct entry_faults faults = { 0 };
    int r = voice_packs_change(current->raw, pack->id, pack->body, pack->now, arena, &change->next, &faults);
    return r != 0 ? fail(turn, r, &faults) : show(turn, change, current, arena);
}

static int make_enabled(struct admin_turn *turn, struct admin_change *change,
                        const struct store_value *current, struct arena *arena)
{
    const struct pack_change *pack = change->ctx;
    int r = voice_packs_enable(current->raw, pack->id, pack->is_enabled, pack->now, arena, &change->next);
    return r != 0 ? fail(turn, r, &none) : show(turn, change, current, arena);
}

/* The pack with the version that it is part of. */
static void apply(struct admin_turn *turn, struct admin_change *change, int status)
{
    struct pack_change *pack = change->ctx;
    struct store_outcome outcome;

    clock_text(clock_wall_us(), pack->now);
    change->entry = ENTRY_VOICE_PACKS;
    change->object = arena_printf(turn->request.arena, "%s/%s", entry_name(change->entry), pack->id);
    if (admin_apply(turn, change, &outcome) != 0)
        return;
    const char *text = arena_printf(turn->request.arena, "%.*s,\"version\":\"%s\"}", (int)pack->shown.len - 1,
                                    pack->shown.ptr, outcome.version);
    admin_reply(turn, status, span_cstr(text), outcome.version);
}

void admin_create_voice_pack(struct admin_turn *turn)
{
    char id[NANOID_TEXT_BYTES];
    struct pack_change pack = { .id = id };
    struct admin_change change = { .action = "create", .make = make_created, .ctx = &pack };

    ids_nanoid(id);
    if (admin_expected_version(turn, false, &change.expected) && admin_read_body(turn, &pack.body))
        apply(turn, &change, 201);
}

void admin_change_voice_pack(struct admin_turn *turn)
{
    struct pack_change pack = { .id = turn->name };
    struct admin_change change = { .action = "change", .make = make_changed, .ctx = &pack };

    turn->request.media_type = "application/merge-patch+json";
    if (admin_expected_version(turn, true, &change.expected) && admin_read_body(turn, &pack.body))
        apply(turn, &change, 200);
}

static void enable(struct admin_turn *turn, const char *action, bool is_enabled)
{
    struct pack_change pack = { .id = turn->name, .is_enabled = is_enabled };
    struct admin_change change = { .action = action, .make = make_enabled, .ctx = &pack };

    if (admin_expected_version(turn, true, &change.expected))
        apply(turn, &change, 200);
}

void admin_enable_voice_pack(struct admin_turn *turn)
{
    enable(turn, "enable", true);
}

void admin_disable_voice_pack(struct admin_turn *turn)
{
    enable(turn, "disable", false);
}
