#include "adapters/failure.h"

#include <assert.h>

#include "core/json/scan.h"

static bool is_quote(char c)
{
    return c == '"' || c == '\'' || c == '`';
}

/* In lower case, and without what stands from the first quote to the last of its
 * kind; an apostrophe inside a word opens none. */
static struct span unquoted(struct span message, struct arena *arena)
{
    char *text = arena_alloc(arena, message.len);
    size_t len = 0;
    for (size_t i = 0; i < message.len; i++) {
        char c = message.ptr[i];
        bool opens =
            is_quote(c) && (i == 0 || message.ptr[i - 1] == ' ' || strchr("([{:=", message.ptr[i - 1]));
        const char *last = opens ? memrchr(message.ptr + i + 1, c, message.len - i - 1) : NULL;
        if (last != NULL) {
            i = (size_t)(last - message.ptr);
            c = ' ';
        }
        text[len++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return span_of(text, len);
}

static bool status_fits(const struct failure_rule *rule, int status)
{
    if (rule->status == 0)
        return true;
    return status >= rule->status && status <= (rule->last_status == 0 ? rule->status : rule->last_status);
}

static bool code_fits(const char *pattern, struct span code)
{
    size_t len = strlen(pattern);
    if (len > 0 && pattern[len - 1] == '*')
        return code.len >= len - 1 && memcmp(code.ptr, pattern, len - 1) == 0;
    return span_is(code, pattern);
}

static bool phrase_fits(const char *phrase, struct span text)
{
    return text.len > 0 && memmem(text.ptr, text.len, phrase, strlen(phrase)) != NULL;
}

static const char *rule_name(const struct failure_rule *rule, struct arena *arena)
{
    if (rule->phrase != NULL)
        return arena_printf(arena, "phrase:%s", rule->phrase);
    return rule->code != NULL ? arena_printf(arena, "code:%s", rule->code) : "status";
}

void failure_judge(const struct failure_rule *rules, size_t n_rules, const struct failure_facts *facts,
                   struct arena *arena, struct adapter_opinion *out)
{
    struct span text = unquoted(facts->message, arena);
    out->code = facts->code;
    out->message = facts->message;
    for (size_t i = 0; i < n_rules; i++) {
        const struct failure_rule *rule = &rules[i];
        if (!status_fits(rule, facts->status) ||
            (rule->code != NULL && !code_fits(rule->code, facts->code)) ||
            (rule->phrase != NULL && !phrase_fits(rule->phrase, text)))
            continue;
        out->class = rule->class;
        out->is_doubtful = rule->is_doubtful;
        out->param = rule->param;
        out->rule = rule_name(rule, arena);
        return;
    }
}

struct reading {
    struct arena *arena;
    struct span *texts;
};

static int keep_text(void *ctx, const struct json_value *value)
{
    struct reading *reading = ctx;
    if (value->kind == JSON_KIND_STRING)
        reading->texts[value->path] = json_decode(reading->arena, value->raw);
    else if (value->kind == JSON_KIND_NUMBER)
        reading->texts[value->path] = value->raw;
    return 0;
}

bool failure_read(struct span body, const char *const *paths, size_t n_paths, struct arena *arena,
                  struct span *texts)
{
    struct json_want wants[FAILURE_PATHS_MAX];
    struct reading reading = { .arena = arena, .texts = texts };
    assert(n_paths <= FAILURE_PATHS_MAX);
    for (size_t i = 0; i < n_paths; i++) {
        wants[i] = (struct json_want){ paths[i], false };
        texts[i] = span_of(NULL, 0);
    }
    struct span trimmed = span_trim(body);
    return trimmed.len > 0 && trimmed.ptr[0] == '{' &&
           json_scan(trimmed, wants, n_paths, JSON_SCAN_CUT, keep_text, &reading, NULL) == 0;
}
