/* What dashscope's failures mean: a code at the top of the body, also in a 200. */
#include "adapters/dashscope.h"

#include "adapters/failure.h"

static const struct failure_rule rules[] = {
    { .code = "InvalidApiKey", .class = ADAPTER_AUTH },
    { .code = "Arrearage", .class = ADAPTER_QUOTA },
    { .code = "AllocationQuota.FreeTierOnly", .class = ADAPTER_QUOTA },
    { .code = "PrepaidBillOverdue", .class = ADAPTER_QUOTA },
    { .code = "PostpaidBillOverdue", .class = ADAPTER_QUOTA },
    { .code = "Throttling.AllocationQuota", .phrase = "free allocated quota", .class = ADAPTER_QUOTA },
    { .code = "Throttling*", .class = ADAPTER_RATE },
    { .code = "LimitRequests", .class = ADAPTER_RATE },
    { .code = "CommodityNotPurchased", .class = ADAPTER_CONFIG },
    { .code = "AccessDenied*", .class = ADAPTER_CONFIG },
    { .code = "Model.AccessDenied", .class = ADAPTER_CONFIG },
    { .code = "Workspace.AccessDenied", .class = ADAPTER_CONFIG },
    { .code = "ModelNotFound", .class = ADAPTER_CONFIG },
    { .code = "WorkSpaceNotFound", .class = ADAPTER_CONFIG },
    /* The path is another model's, or the model is none. */
    { .code = "InvalidParameter", .phrase = "url error", .class = ADAPTER_CONFIG },
    { .code = "InvalidParameter", .phrase = "does not support http call", .class = ADAPTER_CONFIG },
    /* A voice of another version of the model, mostly. */
    { .code = "InvalidParameter", .phrase = "error code: 418", .class = ADAPTER_CLIENT, .param = "voice" },
    { .code = "InvalidParameter*", .class = ADAPTER_CLIENT },
    { .code = "DataInspectionFailed", .class = ADAPTER_CLIENT, .param = "input" },
    { .code = "BadRequest*", .class = ADAPTER_CLIENT },
    { .code = "InvalidURL", .class = ADAPTER_CLIENT },
    { .code = "UnsupportedOperation", .class = ADAPTER_CLIENT },
    { .code = "InputDownloadFailed", .class = ADAPTER_CLIENT },
    { .code = "UnsupportedFileFormat", .class = ADAPTER_CLIENT },
    { .code = "RequestTimeOut", .class = ADAPTER_SERVER },
    { .code = "InternalError*", .class = ADAPTER_SERVER },
    { .code = "SystemError", .class = ADAPTER_SERVER },
    { .code = "ModelServiceFailed", .class = ADAPTER_SERVER },
    { .code = "ModelUnavailable", .class = ADAPTER_SERVER },
    { .code = "ModelServingError", .class = ADAPTER_SERVER },
    { .status = 200, .last_status = 299, .class = ADAPTER_SERVER },
    { .status = 401, .class = ADAPTER_AUTH },
    { .status = 403, .last_status = 404, .class = ADAPTER_CONFIG },
    { .status = 408, .class = ADAPTER_SERVER },
    { .status = 413, .class = ADAPTER_CLIENT, .param = "input" },
    { .status = 415, .class = ADAPTER_CONFIG }, /* of what we write ourselves */
    { .status = 429, .class = ADAPTER_RATE },
    { .status = 500, .last_status = 599, .class = ADAPTER_SERVER },
};

static bool is_type(struct span type, const char *name)
{
    size_t len = strlen(name);
    return type.len >= len && strncasecmp(type.ptr, name, len) == 0;
}

/* The storage that holds finished clips answers in XML: its 403 is no word on our key. */
static bool is_storages(const struct adapter_failure *failure)
{
    return is_type(failure->content_type, "application/xml") || is_type(failure->content_type, "text/xml");
}

void dashscope_classify(const struct adapter_failure *failure, struct arena *arena,
                        struct adapter_opinion *out)
{
    static const char *const paths[] = { "code", "message" };
    struct span texts[2];

    if (is_storages(failure)) {
        out->class = ADAPTER_SERVER;
        out->rule = "storage";
        return;
    }
    (void)failure_read(failure->body, paths, 2, arena, texts);
    const struct failure_facts facts = { failure->status, texts[0], texts[1] };
    failure_judge(rules, sizeof(rules) / sizeof(rules[0]), &facts, arena, out);
}
