/* What the two protocols of the volcengine adapter share. Private to it. */
#ifndef ADAPTERS_VOLCENGINE_H
#define ADAPTERS_VOLCENGINE_H

#include "adapters/adapter.h"

enum volcengine_param {
    VOLCENGINE_API,
    VOLCENGINE_APPID,
    VOLCENGINE_CLUSTER,
    VOLCENGINE_RESOURCE_ID,
    VOLCENGINE_SAMPLE_RATE,
    VOLCENGINE_BIT_RATE,
    VOLCENGINE_EMOTION,
    VOLCENGINE_EMOTION_SCALE,
    VOLCENGINE_ENABLE_EMOTION,
    VOLCENGINE_LANGUAGE,
    VOLCENGINE_EXPLICIT_LANGUAGE,
    VOLCENGINE_CONTEXT_LANGUAGE,
    VOLCENGINE_LOUDNESS_RATIO,
    VOLCENGINE_VOLUME_RATIO,
    VOLCENGINE_PITCH_RATIO,
    VOLCENGINE_SILENCE_DURATION,
    VOLCENGINE_TEXT_TYPE,
    VOLCENGINE_EXTRA_PARAM,
    VOLCENGINE_LOUDNESS_RATE,
    VOLCENGINE_PITCH,
    VOLCENGINE_ADDITIONS,
    VOLCENGINE_PARAMS_COUNT,
};

/* The protocol that an upstream is configured for. */
bool volcengine_is_v3(const struct adapter_value *values);

/* In Hz; what is asked for, or OpenAI's. */
unsigned volcengine_rate_hz(const struct adapter_call *call);

/* The `code` at the top of an object; false if none stands there. */
bool volcengine_read_code(struct span text, long long *code);

/* Whether an object that may be cut has another code than `success` in it already. */
bool volcengine_says_failure(struct span text, long long success);

/* Older voices, whose names begin so, take more than the newer ones do. */
static inline bool volcengine_is_old_voice(struct span voice)
{
    return span_starts(voice, "BV");
}

/* The functions of `struct adapter`, for each protocol. */
bool volcengine_v1_express(const struct adapter_call *call, enum voice_pack_param param, double value,
                           struct adapter_expression *out);
bool volcengine_v3_express(const struct adapter_call *call, enum voice_pack_param param, double value,
                           struct adapter_expression *out);
int volcengine_v1_check(struct adapter_call *call, struct adapter_fault *fault);
void volcengine_v1_begin(struct adapter_call *call, struct adapter_exchange *out);
enum adapter_step volcengine_v1_feed(struct adapter_call *call, struct span piece);
enum adapter_step volcengine_v1_finish(struct adapter_call *call, struct adapter_exchange *next);

/* Of an operator's values too; `place` is where they stand. */
int volcengine_v3_check(const struct adapter_value *values, const char *place, struct arena *arena,
                        struct adapter_fault *fault);
void volcengine_v3_begin(struct adapter_call *call, struct adapter_exchange *out);
enum adapter_step volcengine_v3_head(struct adapter_call *call, const struct adapter_reply *reply);
enum adapter_step volcengine_v3_feed(struct adapter_call *call, struct span piece);
enum adapter_step volcengine_v3_finish(struct adapter_call *call, struct adapter_exchange *next);

void volcengine_classify(const struct adapter_failure *failure, struct arena *arena,
                         struct adapter_opinion *out);

#endif
