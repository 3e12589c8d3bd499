/* DashScope's families of speech models: where each is spoken to, and with what. Private to its adapter. */
#ifndef ADAPTERS_DASHSCOPE_MODEL_H
#define ADAPTERS_DASHSCOPE_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/span.h"

enum dashscope_family {
    DASHSCOPE_COSYVOICE = 1,
    DASHSCOPE_QWEN = 2,
};

struct dashscope_model {
    const char *prefix, *suffix; /* of the model's name */
    enum dashscope_family family;
    const char *path;        /* NULL: it speaks over WebSocket only */
    bool takes_instructions; /* and hot_fix or optimize_instructions, which came with them */
    size_t characters_max;   /* of a text; 0: none that is below the dialect's */
};

/* A model that no row knows is one of CosyVoice's: the newest names are not in any table. */
const struct dashscope_model *dashscope_model_of(struct span name);

#endif
