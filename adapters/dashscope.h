/* What the parts of the dashscope adapter share. Private to it. */
#ifndef ADAPTERS_DASHSCOPE_H
#define ADAPTERS_DASHSCOPE_H

#include "adapters/adapter.h"
#include "adapters/dashscope_model.h"

enum dashscope_param {
    DASHSCOPE_STREAM,
    DASHSCOPE_WORKSPACE,
    DASHSCOPE_SAMPLE_RATE,
    DASHSCOPE_VOLUME,
    DASHSCOPE_PITCH,
    DASHSCOPE_BIT_RATE,
    DASHSCOPE_ENABLE_SSML,
    DASHSCOPE_SEED,
    DASHSCOPE_LANGUAGE_HINTS,
    DASHSCOPE_HOT_FIX,
    DASHSCOPE_MARKDOWN_FILTER,
    DASHSCOPE_AIGC_TAG,
    DASHSCOPE_AIGC_PROPAGATOR,
    DASHSCOPE_AIGC_PROPAGATE_ID,
    DASHSCOPE_LANGUAGE_TYPE,
    DASHSCOPE_OPTIMIZE_INSTRUCTIONS,
    DASHSCOPE_PARAMS_COUNT,
};

enum { DASHSCOPE_MP3, DASHSCOPE_OPUS, DASHSCOPE_WAV, DASHSCOPE_PCM }; /* of dashscope_formats */

extern const struct adapter_param dashscope_params[DASHSCOPE_PARAMS_COUNT];
extern const struct adapter_format dashscope_formats[];

/* Whether the model takes the parameter, under its name in the table. */
bool dashscope_has_param(enum dashscope_param param, const struct dashscope_model *model);

/* The model as the provider calls it. */
struct span dashscope_real_model(const struct adapter_call *call);

/* What is asked for, or the default, in Hz. */
unsigned dashscope_rate_hz(const struct adapter_call *call);

/* The functions of `struct adapter`. */
void dashscope_begin(struct adapter_call *call, struct adapter_exchange *out);
enum adapter_step dashscope_head(struct adapter_call *call, const struct adapter_reply *reply);
enum adapter_step dashscope_feed(struct adapter_call *call, struct span piece);
enum adapter_step dashscope_finish(struct adapter_call *call, struct adapter_exchange *next);
void dashscope_classify(const struct adapter_failure *failure, struct arena *arena,
                        struct adapter_opinion *out);

#endif
