#include "admin/ctl/document.h"

#include "core/config/admit.h"
#include "core/config/document.h"
#include "core/config/mask.h"

int document_admit(const struct invocation *call, const struct session *session, enum entry_id id,
                   struct span body, struct span current, struct span *out)
{
    struct entry_faults faults = { 0 };
    int r;
    if (id == ENTRY_LLM_ROUTER_CONFIG) {
        r = config_admit(body, current, session_keys(session), call->arena, out, &faults);
    } else {
        r = entry_check(id, body, call->arena, &faults);
        *out = body;
    }
    if (r == 0)
        return CTL_OK;
    ctl_print_faults(&faults);
    return ctl_fail(call, CTL_REFUSED, "%s was refused: %zu faults; nothing was changed", entry_name(id),
                    faults.count + faults.dropped);
}

/* A value that somebody has broken by hand can be replaced, but not compared: it counts as none. */
static int show(const struct invocation *call, const struct session *session, enum entry_id id,
                struct span *value)
{
    struct entry_faults faults = { 0 };
    struct error e;
    if (value->len == 0 || document_check(*value, call->arena, &faults) != 0)
        *value = span_of(NULL, 0);
    else if (id == ENTRY_LLM_ROUTER_CONFIG &&
             config_mask(*value, session_keys(session), call->arena, value, &e) != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    return CTL_OK;
}

int document_diff(const struct invocation *call, const struct session *session, enum entry_id id,
                  struct span before, struct span after, struct config_diff *out)
{
    int status = show(call, session, id, &before);
    if (status == CTL_OK)
        status = show(call, session, id, &after);
    if (status == CTL_OK)
        config_diff(before, after, call->arena, out);
    return status;
}

static int print_side(const struct invocation *call, char mark, const char *path, struct span value)
{
    if (value.ptr == NULL)
        return CTL_OK;
    int status = ctl_printf(call, "%c %s: ", mark, path[0] == '\0' ? "the document" : path);
    if (status == CTL_OK)
        status = ctl_print(call, value);
    return status == CTL_OK ? ctl_print(call, span_cstr("\n")) : status;
}

int document_print_diff(const struct invocation *call, const struct config_diff *diff)
{
    int status = CTL_OK;
    for (size_t i = 0; status == CTL_OK && i < diff->count; i++) {
        status = print_side(call, '-', diff->items[i].path, diff->items[i].before);
        if (status == CTL_OK)
            status = print_side(call, '+', diff->items[i].path, diff->items[i].after);
    }
    if (status == CTL_OK && diff->dropped > 0)
        status = ctl_printf(call, "and %zu more\n", diff->dropped);
    return status;
}
