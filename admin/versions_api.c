/* The versions of the routing tree that were ever in force, and the way back to one. */
#include "admin/tree.h"

#include "admin/answer.h"
#include "core/json/writer.h"

enum { VERSIONS_PRESET = 50, VERSION_BYTES = 2048 };

void admin_list_versions(struct admin_turn *turn)
{
    struct arena *arena = turn->request.arena;
    size_t max, n = 0, total = 0;
    struct json_writer w;
    struct buf text;
    struct error e;

    if (!admin_limit(turn, VERSIONS_PRESET, &max))
        return;
    struct store_version *versions = arena_array_of(arena, struct store_version, max);
    if (store_versions(turn->worker->store, admin_tree_name(), max, arena, versions, &n, &total, &e) != 0) {
        admin_fail_store(turn, &e);
        return;
    }
    buf_init(&text, (max + 1) * VERSION_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_key(&w, "versions");
    jw_begin_array(&w);
    for (size_t i = 0; i < n; i++) {
        jw_begin_object(&w);
        jw_member_cstr(&w, "version", versions[i].version);
        jw_member_cstr(&w, "time", versions[i].time);
        jw_member_cstr(&w, "author", versions[i].author);
        jw_member_bool(&w, "isInForce", versions[i].is_in_force);
        jw_end_object(&w);
    }
    jw_end_array(&w);
    jw_member_uint(&w, "total", total);
    jw_end_object(&w);
    admin_reply_written(turn, &text, NULL);
    buf_free(&text);
}

/* The version that the path names; false after a reply. */
static bool find_version(struct admin_turn *turn, struct store_value *out)
{
    struct error e;
    int r =
        store_get_version(turn->worker->store, admin_tree_name(), turn->name, turn->request.arena, out, &e);

    if (r == ERR_NOT_FOUND)
        admin_fail_not_found(turn, "No such version was ever in force.");
    else if (r != 0)
        admin_fail_store(turn, &e);
    return r == 0;
}

void admin_get_version(struct admin_turn *turn)
{
    struct store_value value;
    if (find_version(turn, &value))
        admin_reply_masked(turn, value.raw, NULL);
}

/* What was in force once is admitted anew: its keys must still open. */
static int make_restored(struct admin_turn *turn, struct admin_change *change,
                         const struct store_value *current, struct arena *arena)
{
    const struct store_value *restored = change->ctx;
    return admin_admit_tree(turn, change, restored->raw, current, arena);
}

void admin_restore_version(struct admin_turn *turn)
{
    struct store_value restored;
    struct store_outcome outcome;
    struct admin_change change = {
        .entry = ENTRY_LLM_ROUTER_CONFIG,
        .action = "restore",
        .object = arena_printf(turn->request.arena, "%s/versions/%s", admin_tree_name(), turn->name),
        .restored = turn->name,
        .make = make_restored,
        .ctx = &restored,
    };

    if (admin_expected_version(turn, true, &change.expected) && find_version(turn, &restored) &&
        admin_apply(turn, &change, &outcome) == 0)
        admin_reply_version(turn, outcome.version);
}
