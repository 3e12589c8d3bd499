/* The entries that are one small value: defaults of requests. */
#include "admin/change.h"

#include "admin/answer.h"

static const enum entry_id served[] = {
    ENTRY_DEFAULT_CHAT_MODEL,
    ENTRY_DEFAULT_TTS_MODEL,
    ENTRY_DEFAULT_TTS_VOICES,
};

/* The entry that the path names; false after a reply. The others have a place of their own. */
static bool find_entry(struct admin_turn *turn, enum entry_id *out)
{
    for (size_t i = 0; i < sizeof(served) / sizeof(served[0]); i++) {
        if (span_is(span_cstr(turn->name), entry_name(served[i]))) {
            *out = served[i];
            return true;
        }
    }
    admin_fail_not_found(turn, NULL);
    return false;
}

void admin_get_entry(struct admin_turn *turn)
{
    struct store_value value;
    enum entry_id entry;
    struct error e;

    if (!find_entry(turn, &entry))
        return;
    int r = store_get(turn->worker->store, entry_name(entry), turn->request.arena, &value, &e);
    if (r == ERR_NOT_FOUND)
        admin_fail_not_found(turn, "This entry has no value yet.");
    else if (r != 0)
        admin_fail_store(turn, &e);
    else
        admin_reply(turn, 200, value.raw, value.version);
}

static int make_entry(struct admin_turn *turn, struct admin_change *change, const struct store_value *current,
                      struct arena *arena)
{
    const struct span *body = change->ctx;
    struct entry_faults faults = { 0 };

    if (entry_check(change->entry, *body, arena, &faults) != 0) {
        admin_fail_faults(turn, "value", &faults);
        return ERR_FORMAT;
    }
    faults = (struct entry_faults){ 0 };
    change->next = *body;
    change->after = *body;
    change->before = span_of("", 0);
    if (current->raw.ptr != NULL && entry_check(change->entry, current->raw, arena, &faults) == 0)
        change->before = current->raw;
    return 0;
}

void admin_put_entry(struct admin_turn *turn)
{
    struct admin_change change = { .action = "put", .make = make_entry };
    struct store_outcome outcome;
    struct span body;

    if (!find_entry(turn, &change.entry) || !admin_expected_version(turn, true, &change.expected) ||
        !admin_read_body(turn, &body))
        return;
    change.object = entry_name(change.entry);
    change.ctx = &body;
    if (admin_apply(turn, &change, &outcome) == 0)
        admin_reply_version(turn, outcome.version);
}
