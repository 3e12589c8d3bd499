/* What is nobody's in particular: shared tokens, statuses, and who is recognised by what. */
#include "core/route/signature_table.h"

const struct signature_row signature_tokens[] = {
    /* The key. */
    { NULL, FIELD_ANY, "invalid_api_key", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "API_KEY_INVALID", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "InvalidApiKey", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "authentication_error", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "invalid_authentication_error", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "incorrect_api_key_error", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "AuthenticationError", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "invalid_iam_token", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "wrong_api_key", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "account_deactivated", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "UNAUTHENTICATED", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "InvalidClientTokenId", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "UnrecognizedClientException", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "ExpiredTokenException", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "AuthFailure*", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "expired_key", 0, NULL, VERDICT_AUTH, BLAME_KEY },
    { NULL, FIELD_ANY, "organization_restricted", 0, NULL, VERDICT_AUTH, BLAME_KEY },

    /* Its account. Gemini names a limit of 0 where a model is not offered at all. */
    { NULL, FIELD_REASON, "*FreeTier", 0, "limit: 0", VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_REASON, "*PerDay*", 0, NULL, VERDICT_QUOTA, BLAME_KEY_MODEL },
    { NULL, FIELD_REASON, "BILLING_DISABLED", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "credit_balance_exhausted", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "organization_spend_limit_exceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "project_spend_limit_exceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "organization_usage_limit_exceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "billing_not_active", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "billing_hard_limit_reached", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "billing_error", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "enforced_spend_limit_reached", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "exceeded_current_quota_error", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "credit_limit", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "insufficient_balance_error", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "insufficient_user_quota", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "pre_consume_token_quota_failed", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "budget_exceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "Arrearage", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "AllocationQuota.FreeTierOnly", 0, NULL, VERDICT_QUOTA, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "PrepaidBillOverdue", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "PostpaidBillOverdue", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "AccountOverdueError", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "account_overdue", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "SetLimitExceeded", 0, NULL, VERDICT_QUOTA, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "OperationDenied.ServiceOverdue", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "RateLimitExceeded.*TPD*", 0, NULL, VERDICT_QUOTA, BLAME_KEY_MODEL },
    { NULL, FIELD_STATUS, "RESOURCE_EXHAUSTED", 402, NULL, VERDICT_QUOTA, BLAME_KEY },

    /* Pace. */
    { NULL, FIELD_REASON, "*PerMinute*", 0, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "rate_limit_exceeded", 0, "request too large", VERDICT_RATE, BLAME_NOTHING },
    { NULL, FIELD_ANY, "rate_limit_exceeded", 0, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "rate_limited", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "rate_limit_reached_error", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "RateLimitReached", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "slow_down", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "too_many_requests_error", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "request_quota_exceeded", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "token_quota_exceeded", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "RateLimitExceeded.*", 0, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "*RateLimitExceeded", 0, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "Throttling*", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "throttling_error", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "*_rate_limit_exceeded", 0, NULL, VERDICT_RATE, BLAME_KEY },
    { NULL, FIELD_ANY, "capacity_exceeded", 0, NULL, VERDICT_RATE, BLAME_UPSTREAM },
    { NULL, FIELD_TYPE, "requests", 429, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { NULL, FIELD_TYPE, "tokens", 429, NULL, VERDICT_RATE, BLAME_KEY_MODEL },

    /* The upstream's own clocks. */
    { NULL, FIELD_ANY, "timeout_error", 0, NULL, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "cf_gateway_timeout", 0, NULL, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "DEADLINE_EXCEEDED", 0, NULL, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "RequestTimeOut*", 0, NULL, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "InternalError.Timeout", 0, NULL, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "GatewayTimeout", 0, NULL, VERDICT_TIMEOUT, BLAME_UPSTREAM },

    /* The upstream. */
    { NULL, FIELD_REASON, "MODEL_CAPACITY_EXHAUSTED", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "overloaded_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "engine_overloaded_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "server_is_overloaded", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "ServerOverloaded", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "RequestBurstTooFast", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "ModelNotReadyException", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "channel:*", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "provider_unavailable", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },

    /* Model, region, grant. */
    { NULL, FIELD_REASON, "API_KEY_*_BLOCKED", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { NULL, FIELD_REASON, "SERVICE_DISABLED", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { NULL, FIELD_REASON, "CONSUMER_INVALID", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { NULL, FIELD_ANY, "model_not_found", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "unknown_model", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "ModelNotFound", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "DeploymentNotFound", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "InvalidEndpointOrModel.*", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "InvalidEndpoint.*", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "ModelNotOpen", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "OperationDenied.*", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "model_offline", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "key_model_access_denied", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "unsupported_country_region_territory", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "request_forbidden", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "FTUFormNotFilled*", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },

    /* The request itself. */
    { NULL, FIELD_MEMBER, "error.metadata.reasons.*", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_MEMBER, "error.metadata.flagged_input", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_MEMBER, "error.metadata.patterns.*", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_REASON, "ResponsibleAIPolicyViolation", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "context_length_exceeded", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "exceed_context_size_error", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "tokens_too_long", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "characters_too_long", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "request_too_large", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "content_filter", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "content_policy_violation", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "DataInspectionFailed", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "data_inspection_failed", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "*RiskDetection", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "unsafe_request", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "sensitive_words_detected", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "extra_forbidden", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    /* OpenAI refuses an unverified organisation as if `stream` had a wrong value. */
    { NULL, FIELD_ANY, "unsupported_value", 0, "must be verified", VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "unsupported_value", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "unsupported_parameter", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_ANY, "unknown_parameter", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
};
const size_t signature_tokens_count = sizeof(signature_tokens) / sizeof(signature_tokens[0]);

/*
 * Tokens that only restate a status: providers send them beside texts that say
 * more, so they come after the phrases. Never here, because they stand beside
 * every verdict: invalid_request_error, BadRequestError, bad_request,
 * INVALID_ARGUMENT, unknown_error, error, forbidden.
 */
const struct signature_row signature_classes[] = {
    { "bedrock", FIELD_ANY, "ValidationException", 400, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "vertex", FIELD_STATUS, "FAILED_PRECONDITION", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "xai", FIELD_CODE, "Client specified an invalid argument", 400, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "litellm", FIELD_CLASS, "RateLimitError", 0, NULL, VERDICT_RATE, BLAME_UPSTREAM },
    { "litellm", FIELD_CLASS, "BudgetExceededError", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { "litellm", FIELD_CLASS, "AuthenticationError", 0, NULL, VERDICT_AUTH, BLAME_UPSTREAM },
    { "litellm", FIELD_CLASS, "PermissionDeniedError", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "litellm", FIELD_CLASS, "NotFoundError", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { "litellm", FIELD_CLASS, "ContextWindowExceededError", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "litellm", FIELD_CLASS, "ContentPolicyViolationError", 0, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { "litellm", FIELD_CLASS, "Timeout", 0, NULL, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { "litellm", FIELD_CLASS, "ServiceUnavailableError", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "litellm", FIELD_CLASS, "InternalServerError", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { "litellm", FIELD_CLASS, "APIConnectionError", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },

    { NULL, FIELD_ANY, "insufficient_quota", 0, NULL, VERDICT_QUOTA, BLAME_KEY },
    { NULL, FIELD_ANY, "RESOURCE_EXHAUSTED", 0, NULL, VERDICT_RATE, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "rate_limit_error", 0, NULL, VERDICT_RATE, BLAME_KEY },

    { NULL, FIELD_ANY, "PERMISSION_DENIED", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { NULL, FIELD_ANY, "permission_error", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { NULL, FIELD_ANY, "permission_denied_error", 0, NULL, VERDICT_CONFIG, BLAME_KEY },
    { NULL, FIELD_ANY, "AccessDeniedException", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "AccessDenied*", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "FAILED_PRECONDITION", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "NOT_FOUND", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "NotFoundError", 0, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "not_found_error", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, FIELD_ANY, "resource_not_found_error", 0, NULL, VERDICT_CONFIG, BLAME_KEY_MODEL },

    { NULL, FIELD_ANY, "api_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "server_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "service_unavailable_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "unavailable_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "internal_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "Internal_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "upstream_error", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "INTERNAL", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "UNAVAILABLE", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "InternalFailure*", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "InternalServerException", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "InternalError*", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, FIELD_ANY, "ServiceUnavailable*", 0, NULL, VERDICT_SERVER, BLAME_UPSTREAM },

    /* A refusal of the model's name is about ours: the caller's was looked up in the tree. */
    { NULL, FIELD_PARAM, "model", 400, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, FIELD_PARAM, "model", 422, NULL, VERDICT_CONFIG, BLAME_UPSTREAM },
    /* A place in the caller's body is named. */
    { NULL, FIELD_PARAM, "*", 400, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_PARAM, "*", 415, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_PARAM, "*", 422, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_LOC, "body", 400, NULL, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, FIELD_LOC, "body", 422, NULL, VERDICT_CLIENT, BLAME_NOTHING },
};
const size_t signature_classes_count = sizeof(signature_classes) / sizeof(signature_classes[0]);

const struct signature_status signature_alone[] = {
    { "zhipu", 434, 434, NULL, false, VERDICT_CONFIG, BLAME_UPSTREAM }, /* beta not opened */
    { "zhipu", 435, 435, NULL, false, VERDICT_CLIENT, BLAME_NOTHING },  /* file too large */
    { "groq", 498, 498, NULL, false, VERDICT_RATE, BLAME_UPSTREAM },
    { "cohere", 498, 498, NULL, false, VERDICT_CLIENT, BLAME_NOTHING }, /* unsafe request */

    { NULL, 402, 402, NULL, true, VERDICT_RATE, BLAME_KEY },
    { NULL, 402, 402, NULL, false, VERDICT_QUOTA, BLAME_KEY },
    { NULL, 408, 408, NULL, false, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, 412, 412, "suspended", false, VERDICT_QUOTA, BLAME_KEY },
    { NULL, 413, 413, "tokens per minute", false, VERDICT_RATE, BLAME_NOTHING },
    { NULL, 413, 413, "tpm", false, VERDICT_RATE, BLAME_NOTHING },
    { NULL, 413, 413, NULL, false, VERDICT_CLIENT, BLAME_NOTHING },
    { NULL, 498, 498, NULL, false, VERDICT_RATE, BLAME_KEY },
    /* An upstream that believes its caller left: ours did not, or nobody would ask. */
    { NULL, 499, 499, NULL, false, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, 504, 504, NULL, false, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, 522, 522, NULL, false, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, 524, 524, NULL, false, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, 529, 529, NULL, false, VERDICT_SERVER, BLAME_UPSTREAM },
};
const size_t signature_alone_count = sizeof(signature_alone) / sizeof(signature_alone[0]);

/* A page of HTML comes from an edge, or from a wrong path. Without a row, the tables go on. */
const struct signature_status signature_html[] = {
    { NULL, 200, 299, NULL, false, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, 403, 406, NULL, false, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, 429, 429, NULL, false, VERDICT_RATE, BLAME_UPSTREAM },
    { NULL, 504, 504, NULL, false, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, 522, 522, NULL, false, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, 524, 524, NULL, false, VERDICT_TIMEOUT, BLAME_UPSTREAM },
    { NULL, 500, 599, NULL, false, VERDICT_SERVER, BLAME_UPSTREAM },
};
const size_t signature_html_count = sizeof(signature_html) / sizeof(signature_html[0]);

const struct signature_status signature_fallback[] = {
    { "openrouter", 403, 403, NULL, false, VERDICT_CONFIG, BLAME_KEY },
    { "openrouter", 503, 503, NULL, false, VERDICT_CONFIG,
      BLAME_UPSTREAM }, /* nobody meets the routing rules */
    { "xai", 403, 403, NULL, false, VERDICT_CONFIG, BLAME_KEY },
    { "groq", 422, 422, NULL, false, VERDICT_SERVER, BLAME_UPSTREAM },    /* the model's slip */
    { "together", 403, 403, NULL, false, VERDICT_CLIENT, BLAME_NOTHING }, /* longer than the context */
    { "together", 429, 429, NULL, false, VERDICT_RATE, BLAME_KEY_MODEL },
    { "siliconflow", 429, 429, NULL, false, VERDICT_RATE, BLAME_KEY_MODEL },
    { "fireworks", 403, 403, NULL, false, VERDICT_AUTH, BLAME_KEY },
    { "fireworks", 412, 412, NULL, false, VERDICT_CONFIG, BLAME_UPSTREAM }, /* an adapter failed to load */
    { "cerebras", 404, 404, NULL, false, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "nvidia", 404, 404, NULL, false, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { "nvidia", 410, 410, NULL, false, VERDICT_CONFIG, BLAME_KEY_MODEL },

    { NULL, 200, 299, NULL, false, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, 300, 399, NULL, false, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, 401, 401, NULL, false, VERDICT_AUTH, BLAME_KEY },
    { NULL, 403, 403, NULL, false, VERDICT_CONFIG, BLAME_KEY_MODEL },
    { NULL, 404, 405, NULL, false, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, 409, 409, NULL, false, VERDICT_SERVER, BLAME_NOTHING },
    { NULL, 410, 410, NULL, false, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, 424, 425, NULL, false, VERDICT_SERVER, BLAME_UPSTREAM },
    { NULL, 429, 429, NULL, false, VERDICT_RATE, BLAME_KEY },
    { NULL, 451, 451, NULL, false, VERDICT_CONFIG, BLAME_UPSTREAM },
    { NULL, 500, 599, NULL, false, VERDICT_SERVER, BLAME_UPSTREAM },
};
const size_t signature_fallback_count = sizeof(signature_fallback) / sizeof(signature_fallback[0]);

const struct signature_gateway signature_gateways[] = {
    { FIELD_REASON, "openrouter_*", "openrouter", false },
    { FIELD_REASON, "upstream_provider_shared_pool", "openrouter", false },
    { FIELD_MEMBER, "error.metadata.provider_name", "openrouter", true },
    { FIELD_ANY, "litellm.*", "litellm", true },
    { FIELD_ANY, "*Received Model Group=*", "litellm", true },
    { FIELD_TYPE, "new_api_error", "new-api", false },
    { FIELD_TYPE, "one_api_error", "new-api", false },
    { FIELD_TYPE, "v_api_error", "new-api", false },
    { FIELD_ANY, "*(request id: *)", "new-api", true },
    { FIELD_MEMBER, "base_resp.status_code", "minimax", false },
    { FIELD_MEMBER, "cloudflare_error", "cloudflare", false },
};
const size_t signature_gateways_count = sizeof(signature_gateways) / sizeof(signature_gateways[0]);

const struct signature_alias signature_aliases[] = {
    { "azure.ai.openai", "azure" },
    { "azure.ai.inference", "azure" },
    { "gcp.gemini", "gemini" },
    { "gcp.gen_ai", "gemini" },
    { "google", "gemini" },
    { "gcp.vertex_ai", "vertex" },
    { "aws.bedrock", "bedrock" },
    { "moonshot_ai", "moonshot" },
    { "kimi", "moonshot" },
    { "bigmodel", "zhipu" },
    { "z.ai", "zhipu" },
    { "qwen", "dashscope" },
    { "volcengine", "ark" },
    { "baidu", "qianfan" },
    { "tencent", "hunyuan" },
    { "x_ai", "xai" },
    { "mistral_ai", "mistral" },
    { "one-api", "new-api" },
};
const size_t signature_aliases_count = sizeof(signature_aliases) / sizeof(signature_aliases[0]);

const struct signature_finish signature_finishes[] = {
    { "error", VERDICT_SERVER },
    { "network_error", VERDICT_SERVER },
    { "insufficient_system_resource", VERDICT_SERVER },
    { "content_filter", VERDICT_CLIENT },
    { "sensitive", VERDICT_CLIENT },
};
const size_t signature_finishes_count = sizeof(signature_finishes) / sizeof(signature_finishes[0]);

const char *signature_field_name(enum signature_field field)
{
    static const char *const names[FIELD_COUNT] = {
        [FIELD_ANY] = "any",       [FIELD_REASON] = "reason",
        [FIELD_CODE] = "code",     [FIELD_STATUS] = "status",
        [FIELD_TYPE] = "type",     [FIELD_CLASS] = "class",
        [FIELD_PARAM] = "param",   [FIELD_LOC] = "loc",
        [FIELD_MEMBER] = "member", [FIELD_FINISH] = "finish_reason",
    };
    return names[field];
}
