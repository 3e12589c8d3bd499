/* The routing tree, moved from the previous master key to the current one. */
#include "admin/tree.h"

#include "admin/answer.h"
#include "core/config/rotate.h"
#include "core/json/writer.h"

enum { REPORT_BYTES = 256 * 1024 };

static int make_rotated(struct admin_turn *turn, struct admin_change *change,
                        const struct store_value *current, struct arena *arena)
{
    struct config_rotation *rotation = change->ctx;

    if (current->raw.ptr == NULL) {
        admin_fail_no_tree(turn);
        return ERR_NOT_FOUND;
    }
    /* The report outlives the attempt. */
    int r = config_rotate(current->raw, admin_keys(turn), turn->request.arena, &change->next, rotation, NULL);
    if (r == 0)
        return admin_show_tree(turn, change, current, arena);
    admin_fail_broken(turn);
    return r;
}

static void reply_rotation(struct admin_turn *turn, const struct config_rotation *rotation,
                           const char *version)
{
    const struct entry_faults *lost = &rotation->undecryptable;
    struct json_writer w;
    struct buf text;

    buf_init(&text, REPORT_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_member_cstr(&w, "version", version);
    jw_member_uint(&w, "rotated", rotation->rotated);
    jw_member_uint(&w, "alreadyCurrent", rotation->current);
    jw_member_uint(&w, "undecryptable", lost->count + lost->dropped);
    jw_key(&w, "undecryptableKeys");
    jw_begin_array(&w);
    for (size_t i = 0; i < lost->count; i++) {
        jw_begin_object(&w);
        jw_member_cstr(&w, "path", lost->items[i].path);
        jw_member_cstr(&w, "message", lost->items[i].message);
        jw_end_object(&w);
    }
    jw_end_array(&w);
    jw_end_object(&w);
    admin_reply_written(turn, &text, version);
    buf_free(&text);
}

void admin_rotate_keys(struct admin_turn *turn)
{
    struct config_rotation rotation;
    struct store_outcome outcome;
    struct admin_change change = {
        .entry = ENTRY_LLM_ROUTER_CONFIG,
        .action = "rotate",
        .object = admin_tree_name(),
        .make = make_rotated,
        .ctx = &rotation,
    };

    if (!admin_expected_version(turn, false, &change.expected))
        return;
    if (admin_keys(turn) == NULL) {
        admin_fail(turn, &(struct failure){ .kind = FAILURE_CONFIG_NOT_SET,
                                            .message = "No master key is set.",
                                            .no_retry = true });
        return;
    }
    if (admin_apply(turn, &change, &outcome) == 0)
        reply_rotation(turn, &rotation, outcome.version);
}
