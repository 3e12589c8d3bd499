/* config check, schema, get and manual. */
#include "admin/ctl/ctl.h"

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
        status = ctl_read(call, call->argument == NULL ? "-" : call->argument, STORE_VALUE_LIMIT_BYTES, &raw);
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

int ctl_config_manual(const struct invocation *call)
{
    struct buf text;
    buf_init(&text, TEXT_LIMIT_BYTES);
    entry_manual(&text);
    int status = ctl_print(call, buf_span(&text));
    buf_free(&text);
    return status;
}

/* The tree without its ciphertexts. Without a master key it has no keyFingerprint. */
static int print_tree(const struct invocation *call, struct span raw)
{
    struct envelope_keys keys;
    struct error e;
    struct span shown;
    int status = CTL_REFUSED;
    int has_keys = envelope_keys_from_environment(&keys, &e);
    if (has_keys != 0 && has_keys != ERR_NOT_FOUND)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    if (config_mask(raw, has_keys == 0 ? &keys : NULL, call->arena, &shown, &e) == 0)
        status = ctl_print(call, shown);
    else
        ctl_fail(call, CTL_REFUSED, "%s", e.text);
    if (has_keys == 0)
        envelope_keys_wipe(&keys);
    return status;
}

int ctl_config_get(const struct invocation *call)
{
    struct store *store = NULL;
    struct store_value value;
    struct error e;
    enum entry_id id;
    int status = ctl_entry(call, &id);
    if (status == CTL_OK)
        status = ctl_open_store(call, &store);
    if (status == CTL_OK && store_get(store, entry_name(id), call->arena, &value, &e) != 0)
        status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    if (status == CTL_OK)
        status = id == ENTRY_LLM_ROUTER_CONFIG ? print_tree(call, value.raw) : ctl_print(call, value.raw);
    if (status == CTL_OK && (value.raw.len == 0 || value.raw.ptr[value.raw.len - 1] != '\n'))
        status = ctl_print(call, span_cstr("\n"));
    store_close(store);
    return status;
}
