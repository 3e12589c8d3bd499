/* voice-pack list, add, change, enable, disable and rekey. */
#include <string.h>

#include "admin/ctl/change.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/config/voice_pack_rows.h"
#include "core/config/mask.h"
#include "core/json/scan.h"
#include "core/packs/tag_key.h"

/* A failure of core/config/voice_pack_rows.h, in words. */
static int fail(const struct invocation *call, int code, struct span raw, const struct entry_faults *faults,
                const char *id)
{
    struct entry_faults found = { 0 };
    switch (code) {
    case ERR_NOT_FOUND:
        return ctl_fail(call, CTL_REFUSED, "there is no voice pack with the id \"%s\"", id);
    case ERR_LIMIT:
        return ctl_fail(call, CTL_REFUSED, "there are too many voice packs already");
    case ERR_FORMAT:
        ctl_print_faults(faults);
        return ctl_fail(call, CTL_REFUSED, "refused; nothing was changed");
    default:
        entry_check(ENTRY_VOICE_PACKS, raw, call->arena, &found);
        ctl_print_faults(&found);
        return ctl_fail(call, CTL_REFUSED, "%s is not valid as it is; nothing was changed",
                        entry_name(ENTRY_VOICE_PACKS));
    }
}

/* What one command makes of the packs in force. */
struct pack_change {
    const char *id;
    struct span body;
    char now[CLOCK_TEXT_BYTES];
    int (*make)(const struct pack_change *pack, struct span raw, struct arena *arena, struct span *out,
                struct entry_faults *faults);
};

static int make_added(const struct pack_change *pack, struct span raw, struct arena *arena, struct span *out,
                      struct entry_faults *faults)
{
    return voice_packs_add(raw, pack->body, pack->id, pack->now, arena, out, faults);
}

static int make_changed(const struct pack_change *pack, struct span raw, struct arena *arena,
                        struct span *out, struct entry_faults *faults)
{
    return voice_packs_change(raw, pack->id, pack->body, pack->now, arena, out, faults);
}

static int make_enabled(const struct pack_change *pack, struct span raw, struct arena *arena,
                        struct span *out, struct entry_faults *faults)
{
    (void)faults;
    return voice_packs_enable(raw, pack->id, true, pack->now, arena, out);
}

static int make_disabled(const struct pack_change *pack, struct span raw, struct arena *arena,
                         struct span *out, struct entry_faults *faults)
{
    (void)faults;
    return voice_packs_enable(raw, pack->id, false, pack->now, arena, out);
}

/* The row as it stands there; the empty span if there is none. */
static struct span row_of(struct span raw, const char *id, struct arena *arena)
{
    struct span row;
    return raw.len > 0 && voice_packs_find(raw, id, arena, &row) == 0 ? row : span_of("", 0);
}

static int compose(const struct invocation *call, struct session *session, const struct store_value *current,
                   void *ctx, struct composed *out)
{
    const struct pack_change *pack = ctx;
    struct entry_faults faults = { 0 };
    (void)session;
    int r = pack->make(pack, current->raw, call->arena, &out->raw, &faults);
    if (r != 0)
        return fail(call, r, current->raw, &faults, pack->id);
    config_diff(row_of(current->raw, pack->id, call->arena), row_of(out->raw, pack->id, call->arena),
                call->arena, &out->diff);
    return CTL_OK;
}

static int apply(const struct invocation *call, const char *action, struct pack_change *pack)
{
    struct session session = { 0 };
    struct store_outcome outcome;
    const struct change change = {
        .entry = ENTRY_VOICE_PACKS,
        .action = action,
        .object = arena_printf(call->arena, "%s/%s", entry_name(ENTRY_VOICE_PACKS), pack->id),
        .compose = compose,
        .ctx = pack,
    };

    clock_text(clock_wall_us(), pack->now);
    int status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK)
        status = change_apply(call, &session, &change, &outcome);
    if (status == CTL_OK)
        change_warn(&session, &outcome);
    session_close(&session);
    return status;
}

int ctl_voice_pack_add(const struct invocation *call)
{
    char id[NANOID_TEXT_BYTES];
    struct pack_change pack = { .id = id, .make = make_added };

    ids_nanoid(id);
    int status = ctl_read(call, call->argument, STORE_VALUE_LIMIT_BYTES, &pack.body);
    if (status == CTL_OK)
        status = apply(call, "create", &pack);
    return status == CTL_OK ? ctl_printf(call, "%s\n", id) : status;
}

int ctl_voice_pack_change(const struct invocation *call)
{
    struct pack_change pack = { .id = call->argument, .make = make_changed };
    int status = ctl_read(call, NULL, STORE_VALUE_LIMIT_BYTES, &pack.body);
    return status == CTL_OK ? apply(call, "change", &pack) : status;
}

int ctl_voice_pack_enable(const struct invocation *call)
{
    struct pack_change pack = { .id = call->argument, .make = make_enabled };
    return apply(call, "enable", &pack);
}

int ctl_voice_pack_disable(const struct invocation *call)
{
    struct pack_change pack = { .id = call->argument, .make = make_disabled };
    return apply(call, "disable", &pack);
}

/* By tabs, in this order. */
static const char *const columns[] = { "id", "name", "tier", "enabled", "ttsModelId", "voice", "updatedAt" };

/* A text without its quotes, anything else as it is written; "-" where nothing stands. */
static const char *cell(const struct members *row, const char *name, struct arena *arena)
{
    const struct member *member = members_find(row, span_cstr(name));
    if (member == NULL)
        return "-";
    return member->value.ptr[0] == '"' ? json_decode(arena, member->value).ptr
                                       : arena_span(arena, member->value);
}

static int print_rows(const struct invocation *call, const struct members *packs)
{
    enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };
    int status = CTL_OK;
    for (size_t i = 0; status == CTL_OK && i < packs->count; i++) {
        struct members row = members_read(packs->items[i].value, call->arena);
        for (size_t k = 0; status == CTL_OK && k < N_COLUMNS; k++)
            status = ctl_printf(call, "%s%s", k == 0 ? "" : "\t", cell(&row, columns[k], call->arena));
        if (status == CTL_OK)
            status = ctl_printf(call, "\n");
    }
    return status;
}

int ctl_voice_pack_list(const struct invocation *call)
{
    struct session session = { 0 };
    struct store_value value = { .raw = { NULL, 0 } };
    struct members packs;
    struct error e;

    int status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK) {
        int r = store_get(session.store, entry_name(ENTRY_VOICE_PACKS), call->arena, &value, &e);
        if (r != 0 && r != ERR_NOT_FOUND)
            status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    }
    if (status == CTL_OK) {
        int r = voice_packs_list(value.raw, call->arena, &packs);
        status = r == 0 ? print_rows(call, &packs) : fail(call, r, value.raw, NULL, "");
    }
    session_close(&session);
    return status;
}

/* Even where there is one: it may have leaked, or been lost with its master key. */
static int compose_tag_key(const struct invocation *call, struct session *session,
                           const struct store_value *current, void *ctx, struct composed *out)
{
    struct error e;
    (void)ctx;
    if (tag_key_make(&session->keys, call->arena, &out->raw, &e) != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    config_diff(config_mask_tag_key(current->raw, call->arena), config_mask_tag_key(out->raw, call->arena),
                call->arena, &out->diff);
    return CTL_OK;
}

int ctl_voice_pack_rekey(const struct invocation *call)
{
    struct session session = { 0 };
    struct store_outcome outcome;
    const struct change change = {
        .entry = ENTRY_VOICE_PACK_TAG_KEY,
        .action = "rekey",
        .compose = compose_tag_key,
    };

    int status = session_open(call, SESSION_KEYS_NEEDED, &session);
    if (status == CTL_OK)
        status = change_apply(call, &session, &change, &outcome);
    if (status == CTL_OK)
        change_warn(&session, &outcome);
    session_close(&session);
    return status;
}
