/* What is kept encrypted, moved from the previous master key to the current one. */
#include "admin/tree.h"

#include "admin/answer.h"
#include "core/config/mask.h"
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

static int make_rotated_tag_key(struct admin_turn *turn, struct admin_change *change,
                                const struct store_value *current, struct arena *arena)
{
    int r = config_rotate_tag_key(current->raw, admin_keys(turn), turn->request.arena, &change->next,
                                  change->ctx, NULL);
    if (r != 0) {
        admin_fail_broken(turn);
        return r;
    }
    change->before = config_mask_tag_key(current->raw, arena);
    change->after = config_mask_tag_key(change->next, arena);
    change->key_count = 1;
    return 0;
}

/* The key of voice packs' tags, if there is one: 0, or it has been answered. */
static int rotate_tag_key(struct admin_turn *turn, struct config_rotation *rotation)
{
    struct store_value value;
    struct store_outcome outcome;
    struct error e;
    struct admin_change change = {
        .entry = ENTRY_VOICE_PACK_TAG_KEY,
        .action = "rotate",
        .object = entry_name(ENTRY_VOICE_PACK_TAG_KEY),
        .make = make_rotated_tag_key,
        .ctx = rotation,
    };

    *rotation = (struct config_rotation){ .rotated = 0 };
    int r = store_get(turn->worker->store, change.object, turn->request.arena, &value, &e);
    if (r == ERR_NOT_FOUND)
        return 0;
    if (r == 0)
        return admin_apply(turn, &change, &outcome);
    admin_fail_store(turn, &e);
    return r;
}

static void write_lost(const struct entry_faults *lost, struct json_writer *w)
{
    for (size_t i = 0; i < lost->count; i++) {
        jw_begin_object(w);
        jw_member_cstr(w, "path", lost->items[i].path);
        jw_member_cstr(w, "message", lost->items[i].message);
        jw_end_object(w);
    }
}

static void reply_rotation(struct admin_turn *turn, const struct config_rotation *tree,
                           const struct config_rotation *tag_key, const char *version)
{
    const struct entry_faults *lost = &tree->undecryptable;
    struct json_writer w;
    struct buf text;

    buf_init(&text, REPORT_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_member_cstr(&w, "version", version);
    jw_member_uint(&w, "rotated", tree->rotated + tag_key->rotated);
    jw_member_uint(&w, "alreadyCurrent", tree->current + tag_key->current);
    jw_member_uint(&w, "undecryptable", lost->count + lost->dropped + tag_key->undecryptable.count);
    jw_key(&w, "undecryptableKeys");
    jw_begin_array(&w);
    write_lost(lost, &w);
    write_lost(&tag_key->undecryptable, &w);
    jw_end_array(&w);
    jw_end_object(&w);
    admin_reply_written(turn, &text, version);
    buf_free(&text);
}

void admin_rotate_keys(struct admin_turn *turn)
{
    struct config_rotation rotation, of_tag_key;
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
    if (admin_apply(turn, &change, &outcome) == 0 && rotate_tag_key(turn, &of_tag_key) == 0)
        reply_rotation(turn, &rotation, &of_tag_key, outcome.version);
}
