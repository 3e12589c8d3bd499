/* Exact tokens of one provider. Where a row needs a phrase too, the token alone says too little. */
#include "core/route/signature_table.h"

const struct signature_row signature_providers[] = {
    /* OpenAI */
    { "openai", FIELD_CODE, "model_not_found", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "openai", FIELD_PARAM, "service_tier", 0, "not allowed for this project", VERDICT_CONFIG, BLAME_KEY },

    /* Azure OpenAI: what its insufficient_quota means is unclear; its 429s are about pace. */
    { "azure", FIELD_ANY, "insufficient_quota", 0, NULL, VERDICT_RATE, BLAME_KEY },

    /* Anthropic */
    { "anthropic", FIELD_ANY, "forbidden", 403, "request not allowed", VERDICT_CONFIG, BLAME_UPSTREAM },
    { "anthropic", FIELD_ANY, "conflict_error", 0, NULL, VERDICT_SERVER, BLAME_NOTHING },

    /* Vertex AI: no key of a shared pool is to blame for its exhaustion. */
    { "vertex", FIELD_STATUS, "RESOURCE_EXHAUSTED", 429, NULL, VERDICT_RATE, BLAME_UPSTREAM },

    /* OpenRouter */
    { "openrouter", FIELD_REASON, "openrouter_credits", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "openrouter", FIELD_REASON, "openrouter_key_limit", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "openrouter", FIELD_REASON, "openrouter_in_flight_budget", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "openrouter", FIELD_ANY, "in_flight_budget_exhausted", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "openrouter", FIELD_REASON, "upstream_provider_shared_pool", 0, NULL, VERDICT_RATE, BLAME_UPSTREAM },
    { "openrouter", FIELD_ANY, "token_limit_exceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "openrouter", FIELD_ANY, "string_too_long", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "openrouter", FIELD_ANY, "invalid_prompt", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "openrouter", FIELD_ANY, "invalid_image", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },

    /* Moonshot */
    { "moonshot", FIELD_TYPE, "unexpected_output", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },

    /* Zhipu, Z.ai: numbers in strings */
    { "zhipu", FIELD_CODE, "1000", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1001", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1002", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1003", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1004", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1005", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1110", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1111", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1112", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1113", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1120", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1121", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1200", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1210", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "zhipu", FIELD_CODE, "1211", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1212", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1213", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "zhipu", FIELD_CODE, "1214", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "zhipu", FIELD_CODE, "1215", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "zhipu", FIELD_CODE, "1220", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "zhipu", FIELD_CODE, "1221", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1222", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1230", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1231", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "zhipu", FIELD_CODE, "1234", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1261", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "zhipu", FIELD_CODE, "1300", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "zhipu", FIELD_CODE, "1301", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "zhipu", FIELD_CODE, "1302", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1303", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1304", 0, NULL, VERDICT_QUOTA, BLAME_KEY }, /* calls of the day */
    { "zhipu", FIELD_CODE, "1305", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1308", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1309", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1310", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1311", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "zhipu", FIELD_CODE, "1312", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "zhipu", FIELD_CODE, "1313", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1316", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1317", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1318", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1319", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1320", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "zhipu", FIELD_CODE, "1321", 0, NULL, VERDICT_QUOTA, BLAME_KEY },

    /* DashScope: insufficient_quota is its compatible mode's word for throttling. */
    { "dashscope", FIELD_ANY, "insufficient_quota", 0, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { "dashscope", FIELD_ANY, "Throttling.AllocationQuota", 0, "free allocated quota", VERDICT_QUOTA,
      BLAME_KEY_MODEL },
    { "dashscope", FIELD_ANY, "Throttling.ServiceOverloaded", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "dashscope", FIELD_ANY, "Throttling*", 0, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { "dashscope", FIELD_ANY, "LimitRequests", 0, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { "dashscope", FIELD_ANY, "BudgetLimitExceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "dashscope", FIELD_ANY, "CommodityNotPurchased", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { "dashscope", FIELD_ANY, "Workspace.AccessDenied", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "dashscope", FIELD_ANY, "Model.AccessDenied", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "dashscope", FIELD_ANY, "WorkSpaceNotFound", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "dashscope", FIELD_ANY, "InvalidParameter*", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "dashscope", FIELD_ANY, "invalid_parameter_error", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "dashscope", FIELD_ANY, "BadRequest.TooLarge", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "dashscope", FIELD_ANY, "SystemError", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "dashscope", FIELD_ANY, "ModelServiceFailed", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "dashscope", FIELD_ANY, "ModelUnavailable", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },

    /* Volcengine Ark */
    { "ark", FIELD_CODE, "AccessDenied", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { "ark", FIELD_CODE, "InvalidEndpoint.ClosedEndpoint", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "ark", FIELD_CODE, "MissingParameter*", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "ark", FIELD_CODE, "InvalidParameter*", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "ark", FIELD_CODE, "SensitiveContentDetected*", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "ark", FIELD_CODE, "InvalidAccountStatus", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "ark", FIELD_CODE, "InvalidSubscription", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "ark", FIELD_CODE, "QuotaExceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY_MODEL },
    { "ark", FIELD_CODE, "InflightBatchsizeExceeded", 0, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { "ark", FIELD_CODE, "RequestBurstTooFast", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "ark", FIELD_CODE, "InternalServiceError", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },

    /* SiliconFlow */
    { "siliconflow", FIELD_CODE, "30001", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "siliconflow", FIELD_CODE, "20012", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },

    /* MiniMax: a number, in base_resp or at the end of the message */
    { "minimax", FIELD_ANY, "1000", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "minimax", FIELD_ANY, "1001", 0, NULL, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { "minimax", FIELD_ANY, "1002", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "minimax", FIELD_ANY, "1004", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "minimax", FIELD_ANY, "1008", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "minimax", FIELD_ANY, "1013", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "minimax", FIELD_ANY, "1024", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "minimax", FIELD_ANY, "1026", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "minimax", FIELD_ANY, "1027", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "minimax", FIELD_ANY, "1033", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "minimax", FIELD_ANY, "1039", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "minimax", FIELD_ANY, "1041", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "minimax", FIELD_ANY, "2013", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "minimax", FIELD_ANY, "2049", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "minimax", FIELD_ANY, "2056", 0, NULL, VERDICT_QUOTA, BLAME_KEY }, /* a window of the plan */

    /* Baidu Qianfan: its 401 is about the model or the application as often as about the token. */
    { "qianfan", FIELD_CODE, "invalid_model", 401, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "qianfan", FIELD_CODE, "invalid_appid", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "qianfan", FIELD_CODE, "no_parameter_permission", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "qianfan", FIELD_CODE, "invalid_model", 400, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "qianfan", FIELD_CODE, "malformed_json", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "qianfan", FIELD_CODE, "invalid_messages", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "qianfan", FIELD_CODE, "invalid_argument", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "qianfan", FIELD_CODE, "image_url_unsafe", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "qianfan", FIELD_CODE, "system_unsafe", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "qianfan", FIELD_CODE, "user_setting_unsafe", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "qianfan", FIELD_CODE, "functions_unsafe", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "qianfan", FIELD_CODE, "cluster_*rate_limit_exceeded", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "qianfan", FIELD_CODE, "preemptible_rate_limit_exceeded", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "qianfan", FIELD_CODE, "coding_plan_*_quota_exceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "qianfan", FIELD_CODE, "dispatch_internal_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "qianfan", FIELD_ANY, "BILLING_INSUFFICIENT_BALANCE", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "qianfan", FIELD_ANY, "QUOTA_USER_DAILY_FREE", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "qianfan", FIELD_ANY, "RATE_LIMIT_*", 0, NULL, VERDICT_RATE, BLAME_KEY },
    /* its first version: error_code inside a 200 */
    { "qianfan", FIELD_CODE, "1", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "qianfan", FIELD_CODE, "2", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "qianfan", FIELD_CODE, "4", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "qianfan", FIELD_CODE, "6", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { "qianfan", FIELD_CODE, "13", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "qianfan", FIELD_CODE, "14", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "qianfan", FIELD_CODE, "17", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "qianfan", FIELD_CODE, "18", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "qianfan", FIELD_CODE, "19", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "qianfan", FIELD_CODE, "100", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "qianfan", FIELD_CODE, "110", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "qianfan", FIELD_CODE, "111", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "qianfan", FIELD_CODE, "336000", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "qianfan", FIELD_CODE, "336501", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "qianfan", FIELD_CODE, "336502", 0, NULL, VERDICT_RATE, BLAME_KEY },

    /* Tencent Hunyuan */
    { "hunyuan", FIELD_CODE, "1001", 400, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "hunyuan", FIELD_CODE, "RequestLimitExceeded*", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "hunyuan", FIELD_CODE, "LimitExceeded*", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "hunyuan", FIELD_CODE, "FailedOperation.ResourcePackExhausted", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "hunyuan", FIELD_CODE, "FailedOperation.ServiceStop*", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "hunyuan", FIELD_CODE, "FailedOperation.ServiceNotActivated", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { "hunyuan", FIELD_CODE, "UnauthorizedOperation*", 0, NULL, VERDICT_CONFIG, BLAME_KEY },

    /* xAI */
    { "xai", FIELD_ANY, "violation_fee.*", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },

    /* Mistral: capacity is the model's, and the type then claims a bad request. */
    { "mistral", FIELD_CODE, "3505", 429, NULL, VERDICT_RATE, BLAME_UPSTREAM },
    { "mistral", FIELD_CODE, "1300", 429, NULL, VERDICT_RATE, BLAME_KEY },

    /* Groq: a malformed tool call or JSON is the model's slip, and another try may pass. */
    { "groq", FIELD_CODE, "model_not_found", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "groq", FIELD_CODE, "model_decommissioned", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "groq", FIELD_CODE, "capacity_exceeded", 0, NULL, VERDICT_RATE, BLAME_UPSTREAM },
    { "groq", FIELD_CODE, "tool_use_failed", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "groq", FIELD_CODE, "json_validate_failed", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },

    /* Cerebras */
    { "cerebras", FIELD_ANY, "queue_exceeded", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },

    /* AWS Bedrock */
    { "bedrock", FIELD_ANY, "IncompleteSignature*", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "bedrock", FIELD_ANY, "RequestExpired", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "bedrock", FIELD_ANY, "NotAuthorized", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { "bedrock", FIELD_ANY, "InvalidAction", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "bedrock", FIELD_ANY, "ServiceQuotaExceededException", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { "bedrock", FIELD_ANY, "ModelTimeoutException", 0, NULL, VERDICT_TIMEOUT, BLAME_UPSTREAM },

    /* one-api, new-api: their own accounts, and the channels behind them */
    { "new-api", FIELD_ANY, "insufficient_user_quota", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "new-api", FIELD_ANY, "pre_consume_token_quota_failed", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "new-api", FIELD_ANY, "channel:model_mapped_error", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "new-api", FIELD_ANY, "model_price_error", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "new-api", FIELD_ANY, "access_denied", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "new-api", FIELD_ANY, "do_request_failed", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "new-api", FIELD_ANY, "bad_response*", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "new-api", FIELD_ANY, "empty_response", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "new-api", FIELD_ANY, "get_channel_failed", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "new-api", FIELD_ANY, "prompt_blocked", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },

    /* LiteLLM: its own keys and budgets */
    { "litellm", FIELD_ANY, "budget_exceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "litellm", FIELD_ANY, "auth_error", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { "litellm", FIELD_ANY, "token_not_found_in_db", 0, NULL, VERDICT_AUTH, BLAME_KEY },

    /* Cloudflare's own errors: our address is too fast, or its network cannot reach the provider. */
    { "cloudflare", FIELD_CODE, "1015", 0, NULL, VERDICT_RATE, BLAME_UPSTREAM },
    { "cloudflare", FIELD_CODE, "1004", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "cloudflare", FIELD_CODE, "1005", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "cloudflare", FIELD_CODE, "1033", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "cloudflare", FIELD_CODE, "1038", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "cloudflare", FIELD_CODE, "1200", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "cloudflare", FIELD_CODE, "1205", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
};
const size_t signature_providers_count = sizeof(signature_providers) / sizeof(signature_providers[0]);
