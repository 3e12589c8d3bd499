/* The rows of the table in adapters.c; for it and the providers' own tests. */
#ifndef ADAPTERS_PROVIDERS_H
#define ADAPTERS_PROVIDERS_H

#include "adapters/adapter.h"

extern const struct adapter adapter_openai, adapter_azure, adapter_dashscope, adapter_volcengine,
    adapter_elevenlabs;

#endif
