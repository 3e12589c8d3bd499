/*
 * Voice packs: a voice of a provider with the way it is to speak, chosen and named by
 * curators, and pinned to a model that speaks. And their snapshots: all of that, frozen,
 * for a client to keep and to send back, whatever becomes of the pack.
 *
 *   {"packId","name","provider","model","voiceId","params":{"pitch"?,"volume"?,"rate"?},
 *    "tier","ttsModelId","tag"}
 *
 * `tag` is "v1." and HMAC-SHA256 over all other members, base64url without padding. It is
 * made of what they say and not of how they are written, so that a client may parse and
 * write the object as it likes.
 *
 * Pure. Tag keys are in tag_key.h.
 */
#ifndef CORE_PACKS_VOICE_PACK_H
#define CORE_PACKS_VOICE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/json/writer.h"

/* How a pack may say that it is to be spoken. */
enum voice_pack_param {
    VOICE_PACK_PITCH,  /* percent of the voice's own, more or less */
    VOICE_PACK_VOLUME, /* the same */
    VOICE_PACK_RATE,   /* times as fast */
    VOICE_PACK_PARAMS,
};

/* An octave down or up; silence, or twice as loud; as `speed` of a request. */
#define VOICE_PACK_PITCH_MIN (-50.0)
#define VOICE_PACK_PITCH_MAX 100.0
#define VOICE_PACK_VOLUME_MIN (-100.0)
#define VOICE_PACK_VOLUME_MAX 100.0
#define VOICE_PACK_RATE_MIN 0.25
#define VOICE_PACK_RATE_MAX 4.0

/* "pitch", "volume", "rate". */
extern const char *const voice_pack_param_names[VOICE_PACK_PARAMS];

/* "lite", "standard", "pro", "premium"; ends with NULL. */
extern const char *const voice_pack_tiers[];

/* It lies in snapshots of the configuration, too, where a damaged byte must not be a broken bool. */
struct voice_pack_number {
    double value;
    uint32_t is_set; /* 0: there is none */
};

/* The shortest text that is this number again: "1.1", not "1.1000000000000001". */
enum { VOICE_PACK_NUMBER_BYTES = 32 };
void voice_pack_write_number(double value, char out[VOICE_PACK_NUMBER_BYTES]);

/* Whether it says that a voice shall speak as it does anyway. */
bool voice_pack_is_usual(enum voice_pack_param param, double value);

struct voice_pack_snapshot {
    struct span pack_id, name, provider, model, voice_id, tier, tts_model_id;
    struct voice_pack_number params[VOICE_PACK_PARAMS];
};

/* Writes it with its tag. */
void voice_pack_write_snapshot(const struct voice_pack_snapshot *snapshot, struct span tag_key,
                               struct json_writer *w);

/* Why a snapshot was refused. */
struct voice_pack_fault {
    const char *param;   /* "voice_pack.tier" */
    const char *message; /* a sentence */
};

/*
 * Reads one, `json` being an object that json_scan has accepted. Texts of *out are of the
 * arena. ERR_FORMAT: a member is missing, unknown or of another kind; ERR_CRYPTO: it is not
 * as it was written, or by another gateway. Both with *fault.
 */
int voice_pack_read_snapshot(struct span json, struct span tag_key, struct arena *arena,
                             struct voice_pack_snapshot *out, struct voice_pack_fault *fault);

#endif
