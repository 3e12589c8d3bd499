/* config versions and config restore: what was in force, and the way back to it. */
#include <stdio.h>
#include <stdlib.h>

#include "admin/ctl/change.h"
#include "admin/ctl/document.h"

enum { VERSIONS_SHOWN = 20, VERSIONS_MAX = 10000 };

/* The number of --limit. */
static int read_limit(const struct invocation *call, size_t *out)
{
    const char *text = call->options[OPTION_LIMIT];
    char *end;
    if (text == NULL) {
        *out = VERSIONS_SHOWN;
        return CTL_OK;
    }
    long n = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || n < 1 || n > VERSIONS_MAX)
        return ctl_fail(call, CTL_USAGE, "--limit \"%s\": expected a number from 1 to %d", text,
                        VERSIONS_MAX);
    *out = (size_t)n;
    return CTL_OK;
}

/* Version, time, author and whether it is in force, by tabs; the newest first. */
int ctl_config_versions(const struct invocation *call)
{
    struct session session = { 0 };
    struct store_version *versions = NULL;
    struct error e;
    enum entry_id id = ENTRY_LLM_ROUTER_CONFIG;
    size_t limit = 0, n = 0, total = 0;

    int status = ctl_entry(call, &id);
    if (status == CTL_OK)
        status = read_limit(call, &limit);
    if (status == CTL_OK)
        status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK) {
        versions = arena_array_of(call->arena, struct store_version, limit);
        if (store_versions(session.store, entry_name(id), limit, call->arena, versions, &n, &total, &e) != 0)
            status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    }
    for (size_t i = 0; status == CTL_OK && i < n; i++)
        status = ctl_printf(call, "%s\t%s\t%s\t%s\n", versions[i].version, versions[i].time,
                            versions[i].author, versions[i].is_in_force ? "in force" : "-");
    if (status == CTL_OK && total > n)
        fprintf(stderr, "and %zu older ones; --limit shows more\n", total - n);
    session_close(&session);
    return status;
}

/* What was valid then may not be today, and its keys may be of a master key that is gone. */
static int compose_old(const struct invocation *call, struct session *session,
                       const struct store_value *current, void *old, struct composed *out)
{
    enum entry_id id = ENTRY_LLM_ROUTER_CONFIG;
    int status = ctl_entry(call, &id);
    if (status == CTL_OK)
        status = document_admit(call, session, id, ((const struct store_value *)old)->raw, current->raw,
                                &out->raw);
    if (status == CTL_OK)
        document_diff(call, session, id, current->raw, out->raw, &out->diff);
    return status;
}

int ctl_config_restore(const struct invocation *call)
{
    struct session session = { 0 };
    struct store_value old;
    struct store_outcome outcome;
    struct error e;
    enum entry_id id = ENTRY_LLM_ROUTER_CONFIG;

    int status = ctl_entry(call, &id);
    if (status == CTL_OK)
        status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK &&
        store_get_version(session.store, entry_name(id), call->argument, call->arena, &old, &e) != 0)
        status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    const struct change change = {
        .entry = id,
        .action = "restore",
        .object = arena_printf(call->arena, "%s/versions/%s", entry_name(id), call->argument),
        .expected = call->options[OPTION_IF_VERSION],
        .compose = compose_old,
        .ctx = &old,
    };
    if (status == CTL_OK)
        status = change_apply(call, &session, &change, &outcome);
    if (status == CTL_OK) {
        change_warn(&session, &outcome);
        status = ctl_printf(call, "%s\n", outcome.version);
    }
    session_close(&session);
    return status;
}
