#include "core/config/provider.h"

#include <fnmatch.h>
#include <stddef.h>

#include "adapters/adapter.h"

/* The first match counts. Patterns are of fnmatch(3); "*" spans dots. */
static const struct provider_host {
    const char *pattern, *provider;
} provider_hosts[] = {
    { "openrouter.ai", "openrouter" },
    { "api.openai.com", "openai" },
    { "*.openai.azure.com", "azure" },
    { "*.services.ai.azure.com", "azure" },
    { "api.anthropic.com", "anthropic" },
    { "generativelanguage.googleapis.com", "gemini" },
    { "*aiplatform.googleapis.com", "vertex" },
    { "bedrock*.amazonaws.com", "bedrock" },
    { "api.deepseek.com", "deepseek" },
    { "api.moonshot.cn", "moonshot" },
    { "api.moonshot.ai", "moonshot" },
    { "open.bigmodel.cn", "zhipu" },
    { "api.z.ai", "zhipu" },
    { "dashscope*.aliyuncs.com", "dashscope" },
    { "ark.*.volces.com", "ark" },
    { "api.siliconflow.cn", "siliconflow" },
    { "api.siliconflow.com", "siliconflow" },
    { "api.minimax*.*", "minimax" },
    { "qianfan.baidubce.com", "qianfan" },
    { "api.hunyuan.cloud.tencent.com", "hunyuan" },
    { "api.x.ai", "xai" },
    { "api.mistral.ai", "mistral" },
    { "api.groq.com", "groq" },
    { "api.together.xyz", "together" },
    { "api.together.ai", "together" },
    { "api.fireworks.ai", "fireworks" },
    { "api.cerebras.ai", "cerebras" },
    { "api.perplexity.ai", "perplexity" },
    { "api.cohere.*", "cohere" },
    { "integrate.api.nvidia.com", "nvidia" },
};

const char *provider_of_host(const char *host)
{
    for (size_t i = 0; i < sizeof(provider_hosts) / sizeof(provider_hosts[0]); i++)
        if (fnmatch(provider_hosts[i].pattern, host, FNM_CASEFOLD) == 0)
            return provider_hosts[i].provider;
    return host;
}

struct span provider_in_telemetry(const struct snap_root *root, const struct snap_upstream *upstream)
{
    struct span name = snap_span(root, upstream->provider);
    bool is_adapted = span_is(snap_span(root, upstream->dialect), "speech");
    const struct adapter *adapter = is_adapted ? adapter_find(name) : NULL;
    return adapter != NULL ? span_cstr(adapter->system) : name;
}
