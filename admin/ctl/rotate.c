/* rotate: from the previous master key to the current one. It may be stopped anywhere and
 * run again: what it writes is one version, and the keys that are moved already stay. */
#include "core/config/rotate.h"

#include <stdio.h>

#include "admin/ctl/change.h"
#include "admin/ctl/document.h"
#include "admin/ctl/keycheck.h"

static int rotate_tree(const struct invocation *call, struct session *session, struct span raw,
                       struct span *out, struct config_rotation *report)
{
    struct error e;
    if (raw.ptr == NULL)
        return ctl_fail(call, CTL_REFUSED, "the store has no %s", entry_name(ENTRY_LLM_ROUTER_CONFIG));
    if (config_rotate(raw, &session->keys, call->arena, out, report, &e) != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    return CTL_OK;
}

/* Of *report only the numbers outlive this: the texts are memory of the attempt. */
static int compose_rotated(const struct invocation *call, struct session *session,
                           const struct store_value *current, void *report, struct composed *out)
{
    int status = rotate_tree(call, session, current->raw, &out->raw, report);
    if (status == CTL_OK)
        document_diff(call, session, ENTRY_LLM_ROUTER_CONFIG, current->raw, out->raw, &out->diff);
    return status;
}

static int report_counts(const struct invocation *call, const struct config_rotation *report,
                         const char *verb)
{
    return ctl_printf(call, "keys %s: %zu; open with the current master key already: %zu\n", verb,
                      report->rotated, report->current);
}

static int rotate_dry(const struct invocation *call, struct session *session)
{
    struct config_rotation report = { .rotated = 0 };
    struct store_value tree;
    struct span ignored;
    int status = session_get(call, session, ENTRY_LLM_ROUTER_CONFIG, &tree);
    if (status == CTL_OK)
        status = rotate_tree(call, session, tree.raw, &ignored, &report);
    if (status == CTL_OK) {
        ctl_print_faults(&report.undecryptable);
        status = report_counts(call, &report, "that would be encrypted anew");
    }
    if (status == CTL_OK && report.undecryptable.count > 0)
        status = ctl_fail(call, CTL_REFUSED, "keys that neither master key opens: %zu",
                          report.undecryptable.count + report.undecryptable.dropped);
    return status;
}

/* After the change, from what the store says by now. */
static int verify_rotated(const struct invocation *call, struct session *session)
{
    struct store_value tree;
    struct key_tally tally = { 0 };
    int status = session_get(call, session, ENTRY_LLM_ROUTER_CONFIG, &tree);
    if (status == CTL_OK && keycheck_run(tree.raw, &session->keys, call->arena, &tally) != 0)
        status = ctl_fail(call, CTL_REFUSED, "version %s is not a valid document", tree.version);
    if (status == CTL_OK && tally.previous > 0)
        status = ctl_fail(call, CTL_REFUSED,
                          "version %s has %zu keys of the previous master key again: some program still "
                          "encrypts with it. Give it the new one, and run this again",
                          tree.version, tally.previous);
    if (status == CTL_OK && tally.broken > 0)
        status = ctl_fail(call, CTL_REFUSED,
                          "%zu of %zu keys of version %s cannot be used; set them anew, and run this again",
                          tally.broken, tally.keys, tree.version);
    if (status == CTL_OK)
        status = ctl_printf(call,
                            "all %zu keys of version %s open with the current master key\n"
                            "Next:\n"
                            "1. On every host, take LLM_ROUTER_MASTER_KEY_PREVIOUS (or ..._FILE) away from\n"
                            "   llm-router, llm-router-admin and llm-routerctl, and restart the first two.\n"
                            "2. Run llm-routerctl verify without it.\n"
                            "3. Keep the previous key for as long as an older version may be restored.\n",
                            tally.keys, tree.version);
    return status;
}

int ctl_rotate(const struct invocation *call)
{
    struct session session = { 0 };
    struct config_rotation report = { .rotated = 0 };
    struct store_outcome outcome;
    const struct change change = {
        .entry = ENTRY_LLM_ROUTER_CONFIG,
        .action = "rotate",
        .compose = compose_rotated,
        .ctx = &report,
    };

    int status = session_open(call, SESSION_KEYS_NEEDED, &session);
    if (status == CTL_OK && !session.keys.has_previous)
        status = ctl_fail(call, CTL_REFUSED,
                          "no previous master key is set: LLM_ROUTER_MASTER_KEY is to be the new key, "
                          "LLM_ROUTER_MASTER_KEY_PREVIOUS the old one");
    if (status == CTL_OK && call->options[OPTION_DRY_RUN] != NULL) {
        status = rotate_dry(call, &session);
    } else if (status == CTL_OK) {
        status = change_apply(call, &session, &change, &outcome);
        if (status == CTL_OK)
            status = report_counts(call, &report, "encrypted anew");
        if (status == CTL_OK)
            status = verify_rotated(call, &session);
    }
    session_close(&session);
    return status;
}
