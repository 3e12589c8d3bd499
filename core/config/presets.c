/* DEFAULT_CHAT_MODEL, DEFAULT_TTS_MODEL and DEFAULT_TTS_VOICES. Whether their models
 * exist is not asked: the entries change independently of each other, and in any order. */
#include "core/config/rows.h"

const struct field field_default_chat_model = {
    .kind = FIELD_TEXT,
    .rule = &rule_name,
    .min = 1,
    .max = NAME_MAX_BYTES,
    .land = offsetof(struct compiled, default_chat_model),
    .doc = "The model of chat requests that name none, or \"auto\".",
};

/* Speech is not served yet: the two below are kept for when it is. */

const struct field field_default_tts_model = {
    .kind = FIELD_TEXT,
    .rule = &rule_name,
    .min = 1,
    .max = NAME_MAX_BYTES,
    .lands_nowhere = true,
    .doc = "The model of speech requests that name none, or \"auto\".",
};

static const struct field voice = {
    .name = "LOCALE",
    .kind = FIELD_TEXT,
    .rule = &rule_label,
    .min = 1,
    .max = NAME_MAX_BYTES,
    .lands_nowhere = true,
    .doc = "The voice to recommend for the locale, by the id that the model's provider gave it.",
};

struct voices {
    struct snap_str model;
};

static const struct record voices_record = {
    .title = "voices of a model",
    .bytes = sizeof(struct voices),
    .name_land = offsetof(struct voices, model),
    .other = &voice,
    .other_name = &rule_locale,
};

const struct field field_default_tts_voices = {
    .kind = FIELD_MAP,
    .rule = &rule_name,
    .max = 10000,
    .record = &voices_record,
    .lands_nowhere = true,
    .doc = "The voices to recommend, by model and locale.",
};
