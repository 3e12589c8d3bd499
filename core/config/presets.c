/* DEFAULT_CHAT_MODEL and DEFAULT_TTS_MODEL. Whether their models exist is not asked: the
 * entries change independently of each other, and in any order. */
#include "core/config/rows.h"

const struct field field_default_chat_model = {
    .kind = FIELD_TEXT,
    .rule = &rule_name,
    .min = 1,
    .max = NAME_MAX_BYTES,
    .land = offsetof(struct compiled, default_chat_model),
    .doc = "The model of chat requests that name none, or \"auto\".",
};

const struct field field_default_tts_model = {
    .kind = FIELD_TEXT,
    .rule = &rule_name,
    .min = 1,
    .max = NAME_MAX_BYTES,
    .land = offsetof(struct compiled, default_tts_model),
    .doc = "The model of speech requests that name none, or \"auto\".",
};
