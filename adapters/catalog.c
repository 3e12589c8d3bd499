#include "adapters/adapter.h"

#include "adapters/params_internal.h"

static void ignore_fault(void *ctx, struct span member, const char *message)
{
    (void)ctx;
    (void)member;
    (void)message;
}

struct span adapter_catalog_model(const struct adapter *adapter, struct span asked_model, struct span params,
                                  struct arena *arena)
{
    struct adapter_value values[ADAPTER_PARAMS_MAX] = { 0 }, commons[ADAPTER_COMMON_COUNT] = { 0 };

    adapter_params_read(adapter, params, PARAM_BY_OPERATOR, arena, values, commons, ignore_fault, NULL);
    struct span model = commons[ADAPTER_COMMON_MODEL].text;
    if (adapter->catalog_model != NULL)
        return adapter->catalog_model(model, values);
    return model.len > 0 ? model : asked_model;
}
