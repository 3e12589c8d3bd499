/* The routing tree: shown without its keys, replaced and patched. */
#include "admin/tree.h"

#include "admin/answer.h"
#include "core/config/document.h"
#include "core/config/mask.h"
#include "core/config/patch.h"

void admin_get_config(struct admin_turn *turn)
{
    struct store_value value;
    struct error e;

    int r = store_get(turn->worker->store, admin_tree_name(), turn->request.arena, &value, &e);
    if (r == ERR_NOT_FOUND)
        admin_fail_no_tree(turn);
    else if (r != 0)
        admin_fail_store(turn, &e);
    else
        admin_reply_masked(turn, value.raw, value.version);
}

typedef int make_function(struct admin_turn *turn, struct admin_change *change,
                          const struct store_value *current, struct arena *arena);

/* Replaces the tree by what make() makes of the body. */
static void change_document(struct admin_turn *turn, const char *action, make_function *make)
{
    struct span body;
    struct admin_change change = {
        .entry = ENTRY_LLM_ROUTER_CONFIG,
        .action = action,
        .object = admin_tree_name(),
        .make = make,
        .ctx = &body,
    };
    struct store_outcome outcome;

    if (!admin_expected_version(turn, true, &change.expected) || !admin_read_body(turn, &body))
        return;
    if (admin_apply(turn, &change, &outcome) == 0)
        admin_reply_version(turn, outcome.version);
    admin_wipe(body); /* it held plaintext keys */
}

static int make_put(struct admin_turn *turn, struct admin_change *change, const struct store_value *current,
                    struct arena *arena)
{
    const struct span *body = change->ctx;
    return admin_admit_tree(turn, change, *body, current, arena);
}

void admin_put_config(struct admin_turn *turn)
{
    change_document(turn, "put", make_put);
}

/* The patch is applied to what GET shows, and the result is as the body of a PUT. */
static int make_patch(struct admin_turn *turn, struct admin_change *change, const struct store_value *current,
                      struct arena *arena)
{
    const struct span *patch = change->ctx;
    struct entry_faults faults = { 0 };
    struct span shown, merged;

    if (current->raw.ptr == NULL) {
        admin_fail_no_tree(turn);
        return ERR_NOT_FOUND;
    }
    if (document_check(*patch, arena, &faults) != 0) {
        admin_fail_faults(turn, "patch", &faults);
        return ERR_FORMAT;
    }
    if (config_mask(current->raw, admin_keys(turn), arena, &shown, NULL) != 0) {
        admin_fail_broken(turn);
        return ERR_FORMAT;
    }
    int r = config_patch(shown, *patch, arena, &merged);
    if (r != 0) {
        admin_fail(turn, &(struct failure){ .kind = FAILURE_BODY_TOO_LARGE,
                                            .message = "The patched configuration is too large." });
        return r;
    }
    r = admin_admit_tree(turn, change, merged, current, arena);
    admin_wipe(merged);
    return r;
}

void admin_patch_config(struct admin_turn *turn)
{
    turn->request.media_type = "application/merge-patch+json";
    change_document(turn, "patch", make_patch);
}
