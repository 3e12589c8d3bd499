/* config check, schema, get, put and diff. */
#include <openssl/crypto.h>

#include "admin/ctl/change.h"
#include "admin/ctl/document.h"
#include "core/base/buf.h"
#include "core/config/mask.h"

enum { TEXT_LIMIT_BYTES = 1024 * 1024 };

int ctl_config_check(const struct invocation *call)
{
    struct entry_faults faults = { 0 };
    enum entry_id id;
    struct span raw;
    int status = ctl_entry(call, &id);
    if (status == CTL_OK)
        status = ctl_read(call, call->argument, STORE_VALUE_LIMIT_BYTES, &raw);
    if (status == CTL_OK && entry_check(id, raw, call->arena, &faults) != 0) {
        ctl_print_faults(&faults);
        status = CTL_REFUSED;
    }
    return status;
}

int ctl_config_schema(const struct invocation *call)
{
    enum entry_id id;
    struct buf text;
    int status = ctl_entry(call, &id);
    if (status != CTL_OK)
        return status;
    buf_init(&text, TEXT_LIMIT_BYTES);
    entry_schema(id, &text);
    buf_append_char(&text, '\n');
    status = ctl_print(call, buf_span(&text));
    buf_free(&text);
    return status;
}

/* The value in force, or that of a version. */
static int get_value(const struct invocation *call, struct session *session, enum entry_id id,
                     struct store_value *out)
{
    struct error e;
    if (call->argument == NULL)
        return session_get(call, session, id, out);
    if (store_get_version(session->store, entry_name(id), call->argument, call->arena, out, &e) != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    return CTL_OK;
}

int ctl_config_get(const struct invocation *call)
{
    struct session session = { 0 };
    struct store_value value = { .raw = { NULL, 0 } };
    struct error e;
    enum entry_id id;
    int status = ctl_entry(call, &id);
    if (status == CTL_OK)
        status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK)
        status = get_value(call, &session, id, &value);
    /* Without a master key the tree has no keyFingerprint. */
    if (status == CTL_OK && id == ENTRY_LLM_ROUTER_CONFIG &&
        config_mask(value.raw, session_keys(&session), call->arena, &value.raw, &e) != 0)
        status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    if (status == CTL_OK)
        status = ctl_print(call, value.raw);
    if (status == CTL_OK && (value.raw.len == 0 || value.raw.ptr[value.raw.len - 1] != '\n'))
        status = ctl_print(call, span_cstr("\n"));
    session_close(&session);
    return status;
}

struct body {
    enum entry_id id;
    struct span raw;
};

static int compose_body(const struct invocation *call, struct session *session,
                        const struct store_value *current, void *ctx, struct composed *out)
{
    const struct body *body = ctx;
    int status = document_admit(call, session, body->id, body->raw, current->raw, &out->raw);
    if (status == CTL_OK)
        document_diff(call, session, body->id, current->raw, out->raw, &out->diff);
    return status;
}

static void wipe(struct span body)
{
    if (body.len > 0)
        OPENSSL_cleanse((char *)(uintptr_t)body.ptr, body.len);
}

int ctl_config_put(const struct invocation *call)
{
    bool is_any = call->options[OPTION_FORCE] != NULL;
    struct session session = { 0 };
    struct store_outcome outcome;
    struct body body = { .raw = { NULL, 0 } };

    if (is_any == (call->options[OPTION_IF_VERSION] != NULL))
        return ctl_fail(call, CTL_USAGE, "either --if-version or --force is expected");
    int status = ctl_entry(call, &body.id);
    if (status == CTL_OK)
        status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK)
        status = ctl_read(call, call->argument, STORE_VALUE_LIMIT_BYTES, &body.raw);
    const struct change change = {
        .entry = body.id,
        .action = "put",
        .expected = call->options[OPTION_IF_VERSION],
        .compose = compose_body,
        .ctx = &body,
    };
    if (status == CTL_OK)
        status = change_apply(call, &session, &change, &outcome);
    if (status == CTL_OK) {
        change_warn(&session, &outcome);
        status = ctl_printf(call, "%s\n", outcome.version);
    }
    wipe(body.raw);
    session_close(&session);
    return status;
}

/* As diff(1) has it. */
enum { DIFF_NONE = 0, DIFF_SOME = 1, DIFF_TROUBLE = 2 };

int ctl_config_diff(const struct invocation *call)
{
    struct session session = { 0 };
    struct store_value current = { .raw = { NULL, 0 } };
    struct composed composed = { .raw = { NULL, 0 } };
    struct body body = { .raw = { NULL, 0 } };
    struct error e;

    int status = ctl_entry(call, &body.id);
    if (status == CTL_OK)
        status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK)
        status = ctl_read(call, call->argument, STORE_VALUE_LIMIT_BYTES, &body.raw);
    if (status == CTL_OK) {
        int r = store_get(session.store, entry_name(body.id), call->arena, &current, &e);
        if (r != 0 && r != ERR_NOT_FOUND)
            status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    }
    if (status == CTL_OK)
        status = compose_body(call, &session, &current, &body, &composed);
    if (status == CTL_OK)
        status = document_print_diff(call, &composed.diff);
    wipe(body.raw);
    session_close(&session);
    if (status != CTL_OK)
        return DIFF_TROUBLE;
    return composed.diff.count > 0 ? DIFF_SOME : DIFF_NONE;
}
