#include "admin/ctl/document.h"

#include "core/base/buf.h"
#include "core/config/admit.h"
#include "core/config/caller_keys.h"
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
    size_t n = faults.count + faults.dropped;
    return ctl_fail(call, CTL_REFUSED, "%s was refused: %zu fault%s; nothing was changed", entry_name(id), n,
                    n == 1 ? "" : "s");
}

/* Callers' keys by the beginnings of their digests. */
static int show_callers(struct span *value, struct arena *arena)
{
    struct caller_key *keys;
    struct json_writer w;
    struct buf text;
    size_t n;
    int r = caller_keys_list(*value, arena, &keys, &n);
    if (r != 0)
        return r;
    buf_init(&text, STORE_VALUE_LIMIT_BYTES);
    jw_init(&w, &text);
    jw_begin_array(&w);
    for (size_t i = 0; i < n; i++)
        caller_key_write(&keys[i], &w);
    jw_end_array(&w);
    r = text.overflowed ? ERR_LIMIT : 0;
    if (r == 0)
        *value = span_of(arena_span(arena, buf_span(&text)), text.len);
    buf_free(&text);
    return r;
}

/* As it may be shown. A value that somebody has broken by hand can be replaced, but not
 * compared: it counts as none. */
static void show(const struct invocation *call, const struct session *session, enum entry_id id,
                 struct span *value)
{
    struct entry_faults faults = { 0 };
    int r = value->len == 0 ? ERR_NOT_FOUND : document_check(*value, call->arena, &faults);
    if (r == 0 && id == ENTRY_LLM_ROUTER_CONFIG)
        r = config_mask(*value, session_keys(session), call->arena, value, NULL);
    else if (r == 0 && id == ENTRY_CALLER_KEYS)
        r = show_callers(value, call->arena);
    else if (r == 0 && id == ENTRY_VOICE_PACK_TAG_KEY)
        *value = config_mask_tag_key(*value, call->arena);
    if (r != 0)
        *value = span_of(NULL, 0);
}

void document_diff(const struct invocation *call, const struct session *session, enum entry_id id,
                   struct span before, struct span after, struct config_diff *out)
{
    show(call, session, id, &before);
    show(call, session, id, &after);
    config_diff(before, after, call->arena, out);
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
