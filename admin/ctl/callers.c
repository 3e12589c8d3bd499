/* caller-key add, list and revoke. */
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#include "admin/ctl/change.h"
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/config/caller_keys.h"
#include "core/config/members.h"
#include "core/json/scan.h"

enum { ROW_LIMIT_BYTES = 1024 * 1024 };

/* A failure of core/config/caller_keys.h, in words. */
static int fail(const struct invocation *call, int code, struct span raw, const struct entry_faults *faults,
                const char *id)
{
    struct entry_faults found = { 0 };
    switch (code) {
    case ERR_NOT_FOUND:
        return ctl_fail(call, CTL_REFUSED, "there is no key with the id \"%s\"", id);
    case ERR_CONFLICT:
        return ctl_fail(call, CTL_REFUSED, "there is a key with the id \"%s\" already", id);
    case ERR_LIMIT:
        return ctl_fail(call, CTL_REFUSED, "there are too many keys already");
    case ERR_FORMAT:
        ctl_print_faults(faults);
        return ctl_fail(call, CTL_REFUSED, "refused; nothing was changed");
    default:
        entry_check(ENTRY_CALLER_KEYS, raw, call->arena, &found);
        ctl_print_faults(&found);
        return ctl_fail(call, CTL_REFUSED, "%s is not valid as it is; nothing was changed",
                        entry_name(ENTRY_CALLER_KEYS));
    }
}

static void diff_rows(const struct invocation *call, struct span before, struct span after, const char *id,
                      struct config_diff *out)
{
    config_diff(caller_keys_show(before, id, call->arena), caller_keys_show(after, id, call->arena),
                call->arena, out);
}

struct addition {
    struct span wanted;
    const char *key;
    const char *created_at;
};

static int compose_addition(const struct invocation *call, struct session *session,
                            const struct store_value *current, void *ctx, struct composed *out)
{
    const struct addition *addition = ctx;
    const char *id = call->options[OPTION_ID];
    struct entry_faults faults = { 0 };
    (void)session;
    int r = caller_keys_add(current->raw, addition->wanted, addition->key, addition->created_at, call->arena,
                            &out->raw, &faults);
    if (r != 0)
        return fail(call, r, current->raw, &faults, id);
    diff_rows(call, current->raw, out->raw, id, &out->diff);
    return CTL_OK;
}

/* What is no number goes as it was given, for the check to say so. */
static void write_limits(const struct invocation *call, struct json_writer *w)
{
    static const struct {
        enum ctl_option option;
        const char *member;
    } rows[] = {
        { OPTION_CONCURRENCY, "concurrency" },
        { OPTION_REQUESTS_PER_MINUTE, "requestsPerMinute" },
        { OPTION_TOKENS_PER_MINUTE, "tokensPerMinute" },
    };
    bool has_begun = false;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *value = call->options[rows[i].option];
        if (value == NULL)
            continue;
        if (!has_begun) {
            jw_key(w, "limits");
            jw_begin_object(w);
        }
        has_begun = true;
        char *end;
        long long number = strtoll(value, &end, 10);
        if (end != value && *end == '\0')
            jw_member_int(w, rows[i].member, number);
        else
            jw_member_cstr(w, rows[i].member, value);
    }
    if (has_begun)
        jw_end_object(w);
}

/* {"id", "owner", "models", "limits"} of the options; "a,b" becomes a list. */
static struct span write_wanted(const struct invocation *call)
{
    struct json_writer w;
    struct buf text;
    buf_init(&text, ROW_LIMIT_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_member_cstr(&w, "id", call->options[OPTION_ID]);
    if (call->options[OPTION_OWNER] != NULL)
        jw_member_cstr(&w, "owner", call->options[OPTION_OWNER]);
    if (call->options[OPTION_MODELS] != NULL) {
        char *rest = arena_strdup(call->arena, call->options[OPTION_MODELS]);
        jw_key(&w, "models");
        jw_begin_array(&w);
        for (char *name = strsep(&rest, ","); name != NULL; name = strsep(&rest, ","))
            jw_cstr(&w, name);
        jw_end_array(&w);
    }
    write_limits(call, &w);
    jw_end_object(&w);
    struct span out = span_of(arena_span(call->arena, buf_span(&text)), text.len);
    buf_free(&text);
    return out;
}

static const char *object_of(const struct invocation *call, const char *id)
{
    return arena_printf(call->arena, "%s/%s", entry_name(ENTRY_CALLER_KEYS), id);
}

int ctl_caller_key_add(const struct invocation *call)
{
    const char *id = call->options[OPTION_ID];
    char key[CALLER_KEY_TEXT_BYTES], now[CLOCK_TEXT_BYTES];
    struct session session = { 0 };
    struct store_outcome outcome;
    struct addition addition = { write_wanted(call), key, now };
    const struct change change = {
        .entry = ENTRY_CALLER_KEYS,
        .action = "create",
        .object = object_of(call, id),
        .compose = compose_addition,
        .ctx = &addition,
    };

    caller_key_generate(key);
    clock_text(clock_wall_us(), now);
    int status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK)
        status = change_apply(call, &session, &change, &outcome);
    if (status == CTL_OK) {
        change_warn(&session, &outcome);
        status = ctl_printf(call, "%s\n", key);
        if (status != CTL_OK)
            ctl_fail(call, CTL_REFUSED, "the key \"%s\" was stored and not shown: revoke it", id);
    }
    OPENSSL_cleanse(key, sizeof(key));
    session_close(&session);
    return status;
}

static int compose_revocation(const struct invocation *call, struct session *session,
                              const struct store_value *current, void *ctx, struct composed *out)
{
    (void)session;
    (void)ctx;
    int r = caller_keys_revoke(current->raw, call->argument, call->arena, &out->raw);
    if (r != 0)
        return fail(call, r, current->raw, NULL, call->argument);
    diff_rows(call, current->raw, out->raw, call->argument, &out->diff);
    return CTL_OK;
}

int ctl_caller_key_revoke(const struct invocation *call)
{
    struct session session = { 0 };
    struct store_outcome outcome;
    const struct change change = {
        .entry = ENTRY_CALLER_KEYS,
        .action = "revoke",
        .object = object_of(call, call->argument),
        .compose = compose_revocation,
    };
    int status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK)
        status = change_apply(call, &session, &change, &outcome);
    if (status == CTL_OK)
        change_warn(&session, &outcome);
    session_close(&session);
    return status;
}

static int append_name(void *ctx, const struct json_value *value)
{
    struct buf *names = ctx;
    struct arena *arena = arena_new();
    if (names->len > 0)
        buf_append_char(names, ',');
    buf_append_span(names, json_decode(arena, value->raw));
    arena_free(arena);
    return 0;
}

/* "a,b"; "*" for all models, "-" for none. */
static const char *models_of(const struct invocation *call, const struct caller_key *key)
{
    static const struct json_want each = { "*", false };
    struct buf names;
    if (key->models.ptr == NULL)
        return "*";
    buf_init(&names, ROW_LIMIT_BYTES);
    json_scan(key->models, &each, 1, 0, append_name, &names, NULL);
    const char *out = names.len == 0 ? "-" : arena_span(call->arena, buf_span(&names));
    buf_free(&names);
    return out;
}

/* "concurrency=10,tokensPerMinute=1000"; "-": there are none. */
static const char *limits_of(const struct invocation *call, const struct caller_key *key)
{
    struct members limits = { .count = 0 };
    const char *out = "";

    if (key->limits.ptr != NULL)
        limits = members_read(key->limits, call->arena);
    for (size_t i = 0; i < limits.count; i++) {
        struct span name = limits.items[i].name, value = limits.items[i].value;
        out = arena_printf(call->arena, "%s%s%.*s=%.*s", out, i > 0 ? "," : "", (int)name.len, name.ptr,
                           (int)value.len, value.ptr);
    }
    return limits.count > 0 ? out : "-";
}

/* ID, owner, models, time and limits, by tabs; "-" where there is none, "*" for all models. */
int ctl_caller_key_list(const struct invocation *call)
{
    struct session session = { 0 };
    struct store_value value = { .raw = { NULL, 0 } };
    struct caller_key *keys = NULL;
    struct error e;
    size_t n = 0;

    int status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK) {
        int r = store_get(session.store, entry_name(ENTRY_CALLER_KEYS), call->arena, &value, &e);
        if (r != 0 && r != ERR_NOT_FOUND)
            status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    }
    if (status == CTL_OK) {
        int r = caller_keys_list(value.raw, call->arena, &keys, &n);
        if (r != 0)
            status = fail(call, r, value.raw, NULL, "");
    }
    for (size_t i = 0; status == CTL_OK && i < n; i++)
        status = ctl_printf(call, "%s\t%s\t%s\t%s\t%s\n", keys[i].id,
                            keys[i].owner == NULL ? "-" : keys[i].owner, models_of(call, &keys[i]),
                            keys[i].created_at == NULL ? "-" : keys[i].created_at, limits_of(call, &keys[i]));
    session_close(&session);
    return status;
}
