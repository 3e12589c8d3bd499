/* GET models: what the caller may use, in OpenAI's list shape. */
#include "fcgi/edge/edge.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/json/writer.h"

enum { LIST_BYTES = 4 * 1024 * 1024 };

static void write_model(struct json_writer *w, struct span name, uint64_t created)
{
    jw_begin_object(w);
    jw_member_span(w, "id", name);
    jw_member_cstr(w, "object", "model");
    jw_member_uint(w, "created", created);
    jw_member_cstr(w, "owned_by", "llm-router");
    jw_end_object(w);
}

void turn_visit_models(const struct turn *turn, enum model_parts parts,
                       void (*visit)(void *ctx, struct span name), void *ctx)
{
    const struct snap_root *root = turn->root;
    const struct snap_vec lists[] = { root->models, root->tts_models };

    for (unsigned part = 0; part < 2; part++) {
        if ((parts & (1U << part)) == 0)
            continue;
        for (unsigned i = 0; i < lists[part].count; i++) {
            struct span name = snap_span(root, SNAP_ITEM(root, lists[part], struct snap_model, i)->name);
            bool is_repeated = parts == MODELS_ALL && part == 1 && snapshot_model(root, name) != NULL;
            if (!is_repeated && (turn->principal == NULL || snapshot_may_use(root, turn->principal, name)))
                visit(ctx, name);
        }
    }
}

struct listing {
    struct json_writer *w;
    uint64_t created;
};

static void list_model(void *ctx, struct span name)
{
    const struct listing *listing = ctx;
    write_model(listing->w, name, listing->created);
}

static void write_list(const struct turn *turn, struct json_writer *w, uint64_t created)
{
    struct listing listing = { w, created };

    jw_begin_object(w);
    jw_member_cstr(w, "object", "list");
    jw_key(w, "data");
    jw_begin_array(w);
    turn_visit_models(turn, MODELS_ALL, list_model, &listing);
    jw_end_array(w);
    jw_end_object(w);
}

void serve_models(struct turn *turn)
{
    const struct snap_root *root = turn->root;
    uint64_t created = root->compiled_wall_us / US_PER_S;
    const char *name = strchr(turn->endpoint, '/');
    struct json_writer w;
    struct buf body;

    buf_init(&body, LIST_BYTES);
    jw_init(&w, &body);
    if (name == NULL) {
        write_list(turn, &w, created);
        reply_json(&turn->reply, 200, buf_span(&body));
    } else {
        struct span wanted = span_cstr(name + 1);
        bool exists = snapshot_model(root, wanted) != NULL || snapshot_tts_model(root, wanted) != NULL;
        if (exists && (turn->principal == NULL || snapshot_may_use(root, turn->principal, wanted))) {
            write_model(&w, wanted, created);
            reply_json(&turn->reply, 200, buf_span(&body));
        } else {
            turn_fail_unknown_model(turn, wanted, MODELS_ALL);
        }
    }
    buf_free(&body);
}
