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

/* Of voice packs; raw.ptr NULL where there is none. */
static int get_tag_key(const struct invocation *call, struct session *session, struct store_value *out)
{
    struct error e;
    *out = (struct store_value){ .version = "" };
    int r = store_get(session->store, entry_name(ENTRY_VOICE_PACK_TAG_KEY), call->arena, out, &e);
    return r == 0 || r == ERR_NOT_FOUND ? CTL_OK : ctl_fail(call, CTL_REFUSED, "%s", e.text);
}

static int compose_tag_key(const struct invocation *call, struct session *session,
                           const struct store_value *current, void *report, struct composed *out)
{
    struct error e;
    if (config_rotate_tag_key(current->raw, &session->keys, call->arena, &out->raw, report, &e) != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    document_diff(call, session, ENTRY_VOICE_PACK_TAG_KEY, current->raw, out->raw, &out->diff);
    return CTL_OK;
}

static int rotate_tag_key(const struct invocation *call, struct session *session,
                          struct config_rotation *report)
{
    struct config_rotation own = { .rotated = 0 };
    struct store_outcome outcome;
    struct store_value value;
    const struct change change = {
        .entry = ENTRY_VOICE_PACK_TAG_KEY,
        .action = "rotate",
        .compose = compose_tag_key,
        .ctx = &own,
    };

    int status = get_tag_key(call, session, &value);
    if (status == CTL_OK && value.raw.ptr != NULL)
        status = change_apply(call, session, &change, &outcome);
    report->rotated += own.rotated;
    report->current += own.current;
    return status;
}

static int report_counts(const struct invocation *call, const struct config_rotation *report,
                         const char *verb)
{
    return ctl_printf(call, "keys %s: %zu; open with the current master key already: %zu\n", verb,
                      report->rotated, report->current);
}

static int rotate_tag_key_dry(const struct invocation *call, struct session *session,
                              struct config_rotation *report)
{
    struct config_rotation own = { .rotated = 0 };
    struct store_value value;
    struct composed ignored;

    int status = get_tag_key(call, session, &value);
    if (status == CTL_OK && value.raw.ptr != NULL)
        status = compose_tag_key(call, session, &value, &own, &ignored);
    ctl_print_faults(&own.undecryptable);
    report->rotated += own.rotated;
    report->current += own.current;
    report->undecryptable.dropped += own.undecryptable.count;
    return status;
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
        status = rotate_tag_key_dry(call, session, &report);
    }
    if (status == CTL_OK)
        status = report_counts(call, &report, "that would be encrypted anew");
    if (status == CTL_OK && report.undecryptable.count + report.undecryptable.dropped > 0)
        status = ctl_fail(call, CTL_REFUSED, "keys that neither master key opens: %zu",
                          report.undecryptable.count + report.undecryptable.dropped);
    return status;
}

/* After the change, from what the store says by now. */
static int verify_rotated(const struct invocation *call, struct session *session)
{
    char version[STORE_VERSION_BYTES];
    struct key_tally tally = { 0 };
    int status = keycheck_run(call, session, version, &tally);
    if (status == CTL_OK && tally.previous > 0)
        status = ctl_fail(call, CTL_REFUSED,
                          "version %s has %zu keys of the previous master key again: some program still "
                          "encrypts with it. Give it the new one, and run this again",
                          version, tally.previous);
    if (status == CTL_OK && tally.broken > 0)
        status = ctl_fail(call, CTL_REFUSED,
                          "%zu of %zu keys of version %s cannot be used; set them anew, and run this again",
                          tally.broken, tally.keys, version);
    if (status == CTL_OK)
        status = ctl_printf(call,
                            "all %zu keys of version %s open with the current master key\n"
                            "Next:\n"
                            "1. On every host, take LLM_ROUTER_MASTER_KEY_PREVIOUS (or ..._FILE) away from\n"
                            "   llm-router, llm-router-admin and llm-routerctl, and restart the first two.\n"
                            "2. Run llm-routerctl verify without it.\n"
                            "3. Keep the previous key for as long as an older version may be restored.\n",
                            tally.keys, version);
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
            status = rotate_tag_key(call, &session, &report);
        if (status == CTL_OK)
            status = report_counts(call, &report, "encrypted anew");
        if (status == CTL_OK)
            status = verify_rotated(call, &session);
    }
    session_close(&session);
    return status;
}
