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

/* ---- speech ---- */

static int refuse(struct turn *turn, const char *param, const char *message)
{
    turn_fail(turn, &(struct failure){ .kind = FAILURE_INVALID_REQUEST, .param = param, .message = message });
    return ERR_FORMAT;
}

/* A snapshot as the caller kept it. */
static int believe(struct turn *turn, struct span json, struct voice_pack_snapshot *out)
{
    struct voice_pack_fault fault = { .message = NULL };
    struct secret key;

    int r = open_tag_key(turn, &key);
    if (r != 0)
        return r;
    r = voice_pack_read_snapshot(json, span_of(key.bytes, key.len), turn->request.arena, out, &fault);
    secret_wipe(&key);
    return r == 0 ? 0 : refuse(turn, fault.param, fault.message);
}

/* What the caller says besides, as official clients must, has to be the same. */
static int check_agreement(struct turn *turn, const struct request_facts *facts,
                           const struct voice_pack_snapshot *pack)
{
    struct span model = facts->model, voice = facts->speech->voice;

    if (model.len > 0 && !span_is(model, "auto") && !span_eq(model, pack->tts_model_id))
        return refuse(turn, "model", "`model` is another than the voice pack's: leave it out.");
    if (voice.len > 0 && !span_eq(voice, pack->pack_id) && !span_eq(voice, pack->voice_id))
        return refuse(turn, "voice", "`voice` is another than the voice pack's: leave it out.");
    if (pack->params[VOICE_PACK_RATE].is_set && facts->speech->speed != 1)
        return refuse(turn, "speed", "`speed` cannot be set: the voice pack says it.");
    return 0;
}

/* Whether a pack is asked for, and which. 0, or it has been answered. */
static int find_pack(struct turn *turn, const struct speech_facts *speech, bool *is_asked,
                     struct voice_pack_snapshot *out)
{
    const struct snap_voice_pack *pack = NULL;

    *is_asked = true;
    if (speech->voice_pack.len > 0)
        return believe(turn, speech->voice_pack, out);
    *is_asked = speech->voice.len > 0 && (pack = snapshot_voice_pack(turn->root, speech->voice)) != NULL;
    if (!*is_asked)
        return 0;
    if (!pack->is_enabled || !is_for_caller(turn, pack))
        return refuse(turn, "voice", "`voice` is a voice pack that is disabled, or not for you.");
    freeze(turn->root, pack, out);
    return 0;
}

int voice_packs_apply(struct turn *turn, struct request_facts *facts)
{
    struct voice_pack_snapshot found = { .pack_id = { NULL, 0 } };
    bool is_asked = false;

    int r = facts->speech == NULL ? 0 : find_pack(turn, facts->speech, &is_asked, &found);
    if (r != 0 || !is_asked)
        return r;
    if ((r = check_agreement(turn, facts, &found)) != 0)
        return r;
    struct voice_pack_snapshot *pack = arena_new_of(turn->request.arena, struct voice_pack_snapshot);
    struct speech_facts *speech = arena_new_of(turn->request.arena, struct speech_facts);
    *pack = found;
    *speech = *facts->speech;
    speech->pack = pack;
    speech->voice = pack->voice_id;
    if (pack->params[VOICE_PACK_RATE].is_set)
        speech->speed = pack->params[VOICE_PACK_RATE].value;
    facts->model = pack->tts_model_id;
    facts->speech = speech;
    return 0;
}
