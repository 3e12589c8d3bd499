#include "admin/ctl/session.h"

#include "core/store/place.h"

static const char default_state_dir[] = "/var/lib/llm-router";

/* A flag stands over the environment, also over a database that is named there. */
static int find_place(const struct invocation *call, struct store_place *out, struct error *e)
{
    const char *given = call->options[OPTION_STATE_DIR];
    int r = store_place_from_environment(out, e);
    if (r != 0)
        return r;
    if (given != NULL && given[0] != '\0')
        store_place_wipe(out);
    out->state_dir = ctl_directory(call, OPTION_STATE_DIR, "LLM_ROUTER_STATE_DIR", default_state_dir);
    return 0;
}

int session_open(const struct invocation *call, enum session_keys need, struct session *out)
{
    struct store_place place = { .state_dir = NULL };
    struct error e;

    *out = (struct session){ 0 };
    int r = envelope_keys_from_environment(&out->keys, &e);
    out->has_keys = r == 0;
    if (r == ERR_NOT_FOUND && need == SESSION_KEYS_IF_SET)
        r = 0;
    struct error *second = r == 0 ? &e : NULL; /* the first failure is told, but both leave the environment */
    int s = find_place(call, &place, second);
    if (r == 0)
        r = s;
    place.keys = session_keys(out);
    if (r == 0)
        r = store_open(&place, &out->store, &e);
    store_place_wipe(&place);
    return r == 0 ? CTL_OK : ctl_fail(call, CTL_REFUSED, "%s", e.text);
}

void session_close(struct session *session)
{
    store_close(session->store);
    envelope_keys_wipe(&session->keys);
    *session = (struct session){ 0 };
}

int session_get(const struct invocation *call, struct session *session, enum entry_id id,
                struct store_value *out)
{
    struct error e;
    int r = store_get(session->store, entry_name(id), call->arena, out, &e);
    if (r == ERR_NOT_FOUND)
        return ctl_fail(call, CTL_REFUSED, "the store has no %s: %s", entry_name(id), e.text);
    return r == 0 ? CTL_OK : ctl_fail(call, CTL_REFUSED, "%s", e.text);
}
