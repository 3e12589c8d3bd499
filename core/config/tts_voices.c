/* DEFAULT_TTS_VOICES. Whether its models and voices exist is not asked: entries change
 * independently of each other, and a catalog does not have a customer's own voices. */
#include "core/config/rows.h"

static const struct field voice = {
    .name = "LOCALE",
    .kind = FIELD_TEXT,
    .rule = &rule_label,
    .min = 1,
    .max = NAME_MAX_BYTES,
    .lands_nowhere = true,
    .doc = "The voice to recommend for the locale, by the id that the model's provider gave it.",
};

/* Callers get it as it is: it is written once, not per request. */
static void finish_voices(struct reader *r, void *into, json_object *object)
{
    struct tts_voices *voices = into;
    voices->by_locale =
        image_text(r->image, span_cstr(json_object_to_json_string_ext(
                                 object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)));
}

static const struct record voices_record = {
    .title = "voices of a model",
    .bytes = sizeof(struct tts_voices),
    .name_land = offsetof(struct tts_voices, model),
    .other = &voice,
    .other_name = &rule_locale,
    .finish = finish_voices,
};

const struct field field_default_tts_voices = {
    .kind = FIELD_MAP,
    .rule = &rule_name,
    .max = 10000,
    .record = &voices_record,
    .land = offsetof(struct compiled, tts_voices),
    .doc = "The voices to recommend, by model and locale.",
};
