/* The providers. A new one is a file of its own and a row here. */
#include "adapters/adapter.h"

#include "adapters/params_internal.h"
#include "adapters/providers.h"

static const struct adapter *const adapters[] = {
    &adapter_openai, &adapter_azure, &adapter_dashscope, &adapter_volcengine, &adapter_elevenlabs,
};

enum { N_ADAPTERS = sizeof(adapters) / sizeof(adapters[0]) };

const char *adapter_name(size_t i)
{
    return i < N_ADAPTERS ? adapters[i]->name : NULL;
}

const struct adapter *adapter_find(struct span name)
{
    for (size_t i = 0; i < N_ADAPTERS; i++)
        if (span_is(name, adapters[i]->name))
            return adapters[i];
    return NULL;
}

bool adapter_any_takes(struct span name)
{
    for (size_t i = 0; i < N_ADAPTERS; i++)
        for (size_t j = 0; j < adapters[i]->n_params; j++)
            if ((adapters[i]->params[j].right & PARAM_BY_CALLER) != 0 &&
                span_is(name, adapters[i]->params[j].name))
                return true;
    return false;
}
