/* What volcengine's failures mean: their words tell more than their codes, and these more than the status. */
#include "adapters/volcengine.h"

#include "adapters/failure.h"

/* One code carries bad parameters, bad keys, missing grants and empty accounts
 * alike; so phrases come first. */
static const struct failure_rule rules[] = {
    { .phrase = "grant not found", .class = ADAPTER_AUTH },
    { .phrase = "missing authorization header", .class = ADAPTER_AUTH },
    { .phrase = "invalid auth token", .class = ADAPTER_AUTH },
    { .phrase = "_lifetime", .class = ADAPTER_QUOTA },
    { .phrase = "types: concurrency", .class = ADAPTER_RATE },
    { .phrase = "access denied", .class = ADAPTER_CONFIG },
    { .phrase = "resource not granted", .class = ADAPTER_CONFIG },
    { .phrase = "permission denied", .class = ADAPTER_CONFIG },
    { .phrase = "resource id is mismatched", .class = ADAPTER_CONFIG },
    { .phrase = "init engine instance failed", .class = ADAPTER_CLIENT, .param = "voice" },
    { .phrase = "illegal input text", .class = ADAPTER_CLIENT, .param = "input" },
    /* v1 */
    { .code = "3003", .class = ADAPTER_RATE },
    { .code = "3005", .class = ADAPTER_SERVER },
    { .code = "3006", .class = ADAPTER_CLIENT },
    { .code = "3010", .class = ADAPTER_CLIENT, .param = "input" },
    { .code = "3011", .class = ADAPTER_CLIENT, .param = "input" },
    { .code = "3030", .class = ADAPTER_SERVER },
    { .code = "3031", .class = ADAPTER_SERVER },
    { .code = "3032", .class = ADAPTER_SERVER },
    { .code = "3040", .class = ADAPTER_SERVER },
    { .code = "3050", .class = ADAPTER_CLIENT, .param = "voice" },
    { .code = "3001", .status = 401, .class = ADAPTER_AUTH },
    { .code = "3001", .status = 403, .class = ADAPTER_CONFIG },
    { .code = "3001", .status = 429, .class = ADAPTER_RATE },
    { .code = "3001", .status = 500, .last_status = 599, .class = ADAPTER_SERVER },
    { .code = "3001", .class = ADAPTER_CLIENT },
    /* v3 */
    { .code = "40402003", .class = ADAPTER_CLIENT, .param = "input" },
    { .code = "45000001", .phrase = "speaker", .class = ADAPTER_CLIENT, .param = "voice" },
    { .code = "45000001", .class = ADAPTER_CLIENT },
    { .code = "45000010", .class = ADAPTER_AUTH },
    { .code = "45000030", .class = ADAPTER_CONFIG },
    { .code = "45000292", .class = ADAPTER_QUOTA },
    { .code = "45002000", .class = ADAPTER_CLIENT, .param = "voice" },
    { .code = "45002001", .class = ADAPTER_CLIENT, .param = "input" },
    { .code = "45000000", .class = ADAPTER_SERVER },
    { .code = "55000000", .class = ADAPTER_SERVER },
    { .status = 200, .last_status = 299, .class = ADAPTER_SERVER },
    { .status = 401, .class = ADAPTER_AUTH },
    { .status = 403, .class = ADAPTER_CONFIG },
    { .status = 429, .class = ADAPTER_RATE },
    { .status = 500, .last_status = 599, .class = ADAPTER_SERVER },
};

/* A service behind theirs answers in JSON too, which they put into the message. */
static struct span inner_message(struct span message, struct arena *arena)
{
    static const char *const paths[] = { "message" };
    struct span text;
    const char *brace = message.len == 0 ? NULL : memchr(message.ptr, '{', message.len);
    if (brace == NULL)
        return message;
    size_t before = (size_t)(brace - message.ptr);
    if (!failure_read(span_of(brace, message.len - before), paths, 1, arena, &text) || text.len == 0)
        return message;
    const char *both = arena_printf(arena, "%.*s%.*s", (int)before, message.ptr, (int)text.len, text.ptr);
    return span_cstr(both);
}

void volcengine_classify(const struct adapter_failure *failure, struct arena *arena,
                         struct adapter_opinion *out)
{
    static const char *const paths[] = { "code", "message", "header.code", "header.message" };
    struct span texts[4];

    (void)failure_read(failure->body, paths, 4, arena, texts);
    const struct failure_facts facts = {
        .status = failure->status,
        .code = texts[0].len > 0 ? texts[0] : texts[2],
        .message = inner_message(texts[1].len > 0 ? texts[1] : texts[3], arena),
    };
    failure_judge(rules, sizeof(rules) / sizeof(rules[0]), &facts, arena, out);
}
