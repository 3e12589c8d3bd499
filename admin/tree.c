#include "admin/tree.h"

#include "admin/answer.h"
#include "core/config/admit.h"
#include "core/config/keyplaces.h"
#include "core/config/mask.h"

const char *admin_tree_name(void)
{
    return entry_name(ENTRY_LLM_ROUTER_CONFIG);
}

void admin_fail_broken(struct admin_turn *turn)
{
    admin_fail(turn, &(struct failure){ .kind = FAILURE_INTERNAL,
                                        .message = "What is stored is not valid; a PUT can replace it.",
                                        .no_retry = true });
}

void admin_fail_no_tree(struct admin_turn *turn)
{
    admin_fail_not_found(turn, "There is no configuration yet: PUT one with If-Match: *.");
}

void admin_reply_masked(struct admin_turn *turn, struct span raw, const char *version)
{
    struct span masked;
    if (config_mask(raw, admin_keys(turn), turn->request.arena, &masked, NULL) == 0)
        admin_reply(turn, 200, masked, version);
    else
        admin_fail_broken(turn);
}

static int count_place(void *ctx, const struct key_place *place)
{
    size_t *count = ctx;
    (void)place;
    ++*count;
    return 0;
}

int admin_show_tree(struct admin_turn *turn, struct admin_change *change, const struct store_value *current,
                    struct arena *arena)
{
    const struct envelope_keys *keys = admin_keys(turn);
    change->before = span_of("", 0);
    change->key_count = 0;
    /* One that is broken can be replaced, but not shown. */
    if (current->raw.ptr != NULL && config_mask(current->raw, keys, arena, &change->before, NULL) != 0)
        change->before = span_of("", 0);
    key_places_walk(change->next, arena, count_place, &change->key_count);
    return config_mask(change->next, keys, arena, &change->after, NULL);
}

int admin_admit_tree(struct admin_turn *turn, struct admin_change *change, struct span body,
                     const struct store_value *current, struct arena *arena)
{
    struct entry_faults faults = { 0 };
    int r = config_admit(body, current->raw, admin_keys(turn), arena, &change->next, &faults);
    if (r == 0)
        return admin_show_tree(turn, change, current, arena);
    admin_fail_faults(turn, "configuration", &faults);
    return r;
}
