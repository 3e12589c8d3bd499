/* VOICE_PACKS and VOICE_PACK_TAG_KEY. Whether the packs' models exist is not asked: entries
 * change independently of each other. What SQL lets into the table of packs
 * (sql/0006_voice_packs.sql) is never more than what is right here, or a row of it could keep
 * every other change of the configuration out. */
#include "core/config/rows.h"

#include "core/config/faults.h"
#include "core/packs/tag_key.h"

enum { PACKS_MAX = 1000, DESCRIPTION_MAX_BYTES = 2000, PACK_ID_MAX_BYTES = 64 };

#define PARAM(which, field_name, min, max, text)                                                       \
    {                                                                                                  \
        .name = (field_name), .kind = FIELD_NUMBER, .low = (min), .high = (max),                       \
        .land = offsetof(struct snap_voice_pack, params) + (which) * sizeof(struct voice_pack_number), \
        .doc = (text)                                                                                  \
    }

static const struct field param_fields[] = {
    PARAM(VOICE_PACK_PITCH, "pitch", VOICE_PACK_PITCH_MIN, VOICE_PACK_PITCH_MAX,
          "How much higher or lower than the voice's own, in percent."),
    PARAM(VOICE_PACK_VOLUME, "volume", VOICE_PACK_VOLUME_MIN, VOICE_PACK_VOLUME_MAX,
          "How much louder or softer than usual, in percent."),
    PARAM(VOICE_PACK_RATE, "rate", VOICE_PACK_RATE_MIN, VOICE_PACK_RATE_MAX, "How many times as fast."),
};

static const struct record params_record = {
    .title = "parameters",
    .bytes = sizeof(struct snap_voice_pack),
    .fields = param_fields,
    .n_fields = COUNT(param_fields),
};

#define REQUIRED_LABEL(field_name, place, text)                                                       \
    {                                                                                                 \
        .name = (field_name), .kind = FIELD_TEXT, .is_required = true, .rule = &rule_label, .min = 1, \
        .max = NAME_MAX_BYTES, .land = (place), .doc = (text)                                         \
    }
#define TIME(field_name, text)                                                             \
    {                                                                                      \
        .name = (field_name), .kind = FIELD_TEXT, .rule = &rule_time, .min = 1, .max = 40, \
        .lands_nowhere = true, .doc = (text)                                               \
    }

static const struct field pack_fields[] = {
    { .name = "id",
      .kind = FIELD_TEXT,
      .is_required = true,
      .rule = &rule_id,
      .min = 1,
      .max = PACK_ID_MAX_BYTES,
      .land = offsetof(struct snap_voice_pack, id),
      .doc = "By which callers ask for it, unique." },
    REQUIRED_LABEL("name", offsetof(struct snap_voice_pack, name), "What people call it."),
    { .name = "description",
      .kind = FIELD_TEXT,
      .rule = &rule_label,
      .min = 1,
      .max = DESCRIPTION_MAX_BYTES,
      .land = offsetof(struct snap_voice_pack, description),
      .doc = "What it is like." },
    REQUIRED_LABEL("provider", offsetof(struct snap_voice_pack, provider),
                   "Whose voice it is: the provider of ttsModelId. No other provider's upstream speaks it."),
    REQUIRED_LABEL("model", offsetof(struct snap_voice_pack, model),
                   "The provider's model that the voice is made for; what is asked for it is ttsModelId."),
    REQUIRED_LABEL("voice", offsetof(struct snap_voice_pack, voice), "The voice, by its id at the provider."),
    LABEL("upstreamVoice", offsetof(struct snap_voice_pack, upstream_voice),
          "That id, where \"voice\" is what clients are to see."),
    { .name = "ttsModelId",
      .kind = FIELD_TEXT,
      .is_required = true,
      .rule = &rule_name,
      .min = 1,
      .max = NAME_MAX_BYTES,
      .land = offsetof(struct snap_voice_pack, tts_model),
      .doc = "The model of \"tts\" whose upstreams speak it." },
    { .name = "params",
      .kind = FIELD_RECORD,
      .record = &params_record,
      .doc = "How it is to speak; part of what it is: the same voice with others is another pack." },
    { .name = "tier",
      .kind = FIELD_ENUM,
      .is_required = true,
      .choices = voice_pack_tiers,
      .land = offsetof(struct snap_voice_pack, tier),
      .doc = "What it is worth." },
    { .name = "enabled",
      .kind = FIELD_BOOL,
      .preset = "true",
      .land = offsetof(struct snap_voice_pack, is_enabled),
      .doc = "Whether callers find it; snapshots that they have are spoken all the same." },
    TIME("createdAt", "When it was made, for people."),
    TIME("updatedAt", "When it was last changed, for people."),
};

static const struct record pack_record = {
    .title = "voice pack",
    .bytes = sizeof(struct snap_voice_pack),
    .fields = pack_fields,
    .n_fields = COUNT(pack_fields),
};

static void fault_repeats(struct reader *r, const void *ctx, size_t first, size_t again)
{
    (void)ctx;
    size_t mark = fault_path_push_name(&r->path, span_cstr("packs"));
    fault_path_push_index(&r->path, again);
    reader_fault_at(r, "id", "repeats the id of pack %zu", first);
    fault_path_pop(&r->path, mark);
}

static void finish_packs(struct reader *r, void *into, json_object *object)
{
    struct compiled *compiled = into;
    const struct snap_voice_pack *packs = image_at(r->image, compiled->voice_packs);
    size_t n = packs == NULL ? 0 : compiled->voice_packs.count, n_ids = 0;
    struct distinct *ids = arena_array_of(r->arena, struct distinct, n);
    uint32_t *positions = arena_array_of(r->arena, uint32_t, n);

    (void)object;
    for (size_t i = 0; i < n; i++)
        if (snap_has(packs[i].id))
            ids[n_ids++] = (struct distinct){ image_span(r->image, packs[i].id), i };
    reader_check_distinct(r, ids, n_ids, NULL, fault_repeats); /* and sorts them */
    for (size_t i = 0; i < n_ids; i++)
        positions[i] = (uint32_t)ids[i].index;
    compiled->voice_pack_index = image_vector(r->image, positions, n_ids, sizeof(*positions));
}

static const struct field packs_fields[] = {
    { .name = "packs",
      .kind = FIELD_LIST,
      .is_required = true,
      .max = PACKS_MAX,
      .record = &pack_record,
      .land = offsetof(struct compiled, voice_packs),
      .doc = "The packs, in the order in which they are listed." },
};

static const struct record packs_record = {
    .title = "document",
    .bytes = sizeof(struct compiled),
    .fields = packs_fields,
    .n_fields = COUNT(packs_fields),
    .finish = finish_packs,
};

const struct field field_voice_packs = {
    .kind = FIELD_RECORD,
    .record = &packs_record,
    .doc = "The voices that curators have put together.",
};

/* ---- the key of their snapshots' tags ---- */

static void finish_tag_key(struct reader *r, void *into, json_object *object)
{
    const struct compiled *compiled = into;
    struct secret secret;

    (void)object;
    if (r->keys == NULL || !snap_has(compiled->voice_pack_tag_key))
        return;
    if (tag_key_open(r->keys, image_span(r->image, compiled->voice_pack_tag_key), &secret, NULL) != 0)
        r->undecryptable++;
    secret_wipe(&secret);
}

static const struct field tag_key_fields[] = {
    { .name = "ciphertext",
      .kind = FIELD_TEXT,
      .is_required = true,
      .rule = &rule_ciphertext,
      .min = 1,
      .max = CIPHERTEXT_MAX_BYTES,
      .land = offsetof(struct compiled, voice_pack_tag_key),
      .doc = "The key, encrypted with the master key. The program makes it; whoever loses it makes every "
             "snapshot worthless that a client has kept." },
};

static const struct record tag_key_record = {
    .title = "document",
    .bytes = sizeof(struct compiled),
    .fields = tag_key_fields,
    .n_fields = COUNT(tag_key_fields),
    .finish = finish_tag_key,
};

const struct field field_voice_pack_tag_key = {
    .kind = FIELD_RECORD,
    .record = &tag_key_record,
    .doc = "The key with which snapshots of voice packs are signed.",
};
