#include "fcgi/edge/voice_packs.h"

#include <string.h>

#include "core/dialect/speech.h"
#include "core/json/writer.h"
#include "core/packs/tag_key.h"

enum { LIST_BYTES = 16 * 1024 * 1024, SNAPSHOT_BYTES = 32 * 1024 };

/* A pack whose model is not for the caller is not either. */
static bool is_for_caller(const struct turn *turn, const struct snap_voice_pack *pack)
{
    return turn->principal == NULL ||
           snapshot_may_use(turn->root, turn->principal, snap_span(turn->root, pack->tts_model));
}

/* ---- the list ---- */

static void write_pack(const struct snap_root *root, const struct snap_voice_pack *pack,
                       struct json_writer *w)
{
    jw_begin_object(w);
    jw_member_span(w, "id", snap_span(root, pack->id));
    jw_member_span(w, "name", snap_span(root, pack->name));
    if (snap_has(pack->description))
        jw_member_span(w, "description", snap_span(root, pack->description));
    jw_member_span(w, "tier", snap_span(root, pack->tier));
    jw_end_object(w);
}

void serve_voice_packs(struct turn *turn)
{
    const struct snap_root *root = turn->root;
    struct json_writer w;
    struct buf body;

    buf_init(&body, LIST_BYTES);
    jw_init(&w, &body);
    jw_begin_object(&w);
    jw_key(&w, "voicePacks");
    jw_begin_array(&w);
    for (uint32_t i = 0; i < root->voice_packs.count; i++) {
        const struct snap_voice_pack *pack = SNAP_ITEM(root, root->voice_packs, struct snap_voice_pack, i);
        if (pack->is_enabled && is_for_caller(turn, pack))
            write_pack(root, pack, &w);
    }
    jw_end_array(&w);
    jw_end_object(&w);
    reply_json(&turn->reply, 200, buf_span(&body));
    buf_free(&body);
}

/* ---- a snapshot ---- */

/* What the pack is now, to last. */
static void freeze(const struct snap_root *root, const struct snap_voice_pack *pack,
                   struct voice_pack_snapshot *out)
{
    bool is_public = snap_has(pack->upstream_voice); /* what the provider knows is another */
    *out = (struct voice_pack_snapshot){
        .pack_id = snap_span(root, pack->id),
        .name = snap_span(root, pack->name),
        .provider = snap_span(root, pack->provider),
        .model = snap_span(root, pack->model),
        .voice_id = snap_span(root, is_public ? pack->upstream_voice : pack->voice),
        .tier = snap_span(root, pack->tier),
        .tts_model_id = snap_span(root, pack->tts_model),
    };
    memcpy(out->params, pack->params, sizeof(out->params));
}

/* Opens the tags' key: 0, or it has been answered. */
static int open_tag_key(struct turn *turn, struct secret *out)
{
    const struct router_shared *shared = turn->worker->shared;
    struct failure failure = { .kind = FAILURE_CONFIG_NOT_SET,
                               .message = "The gateway has no key for voice packs yet." };

    if (snap_has(turn->root->voice_pack_tag_key) && shared->has_keys) {
        if (tag_key_open(&shared->keys, snap_span(turn->root, turn->root->voice_pack_tag_key), out, NULL) ==
            0)
            return 0;
        failure = (struct failure){ .kind = FAILURE_DECRYPT_FAILED,
                                    .message = "The key of voice packs cannot be decrypted." };
    }
    turn_fail(turn, &failure);
    return ERR_CRYPTO;
}

void serve_voice_pack_snapshot(struct turn *turn)
{
    const char *id = strchr(turn->endpoint, '/') + 1;
    struct voice_pack_snapshot snapshot;
    struct json_writer w;
    struct secret key;
    struct buf body;

    const struct snap_voice_pack *pack = snapshot_voice_pack(turn->root, span_of(id, strcspn(id, "/")));
    if (pack == NULL || !pack->is_enabled || !is_for_caller(turn, pack)) {
        turn_fail(turn, &(struct failure){ .kind = FAILURE_NOT_FOUND,
                                           .message = "There is no voice pack with this id." });
        return;
    }
    if (open_tag_key(turn, &key) != 0)
        return;
    freeze(turn->root, pack, &snapshot);
    buf_init(&body, SNAPSHOT_BYTES);
    jw_init(&w, &body);
    voice_pack_write_snapshot(&snapshot, span_of(key.bytes, key.len), &w);
    secret_wipe(&key);
    reply_json(&turn->reply, 200, buf_span(&body));
    buf_free(&body);
}
