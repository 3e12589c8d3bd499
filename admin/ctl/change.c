#include "admin/ctl/change.h"

#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "core/config/update.h"

/* The audit log's name for who runs this: the login that the kernel knows, not the environment. */
static const char *actor(const struct invocation *call)
{
    const struct passwd *user = getpwuid(getuid());
    return user != NULL ? arena_printf(call->arena, "llm-routerctl:%s", user->pw_name)
                        : arena_printf(call->arena, "llm-routerctl:%u", (unsigned)getuid());
}

struct attempt {
    const struct invocation *call;
    struct session *session;
    const struct change *change;
    int status; /* of the last composition */
};

static int compose(void *ctx, const struct store_value *current, struct arena *arena, struct span *next,
                   struct store_audit *audit)
{
    struct attempt *attempt = ctx;
    const struct change *change = attempt->change;
    struct invocation call = *attempt->call;
    struct composed composed = { .raw = { NULL, 0 } };

    call.arena = arena;
    attempt->status = change->compose(&call, attempt->session, current, change->ctx, &composed);
    if (attempt->status != CTL_OK)
        return ERR_STOPPED;
    *next = composed.raw;
    audit->changes = config_diff_audit(&composed.diff, arena);
    return 0;
}

int change_apply(const struct invocation *call, struct session *session, const struct change *change,
                 struct store_outcome *out)
{
    const char *name = entry_name(change->entry), *expected = change->expected;
    struct attempt attempt = { call, session, change, CTL_OK };
    struct error e;
    const struct entry_update update = {
        .entry = change->entry,
        .expected = expected != NULL && strcmp(expected, CHANGE_NO_VERSION) == 0 ? "" : expected,
        .audit = { .actor = actor(call),
                   .action = change->action,
                   .object = change->object != NULL ? change->object : name },
        .change = compose,
        .ctx = &attempt,
    };

    int r = entry_update(session->store, &update, out, &e);
    if (attempt.status != CTL_OK)
        return attempt.status;
    if (r == ERR_CONFLICT && expected != NULL)
        return ctl_fail(call, CTL_REFUSED, "%s has the version %s and not %s; nothing was changed", name,
                        out->version[0] == '\0' ? CHANGE_NO_VERSION : out->version, expected);
    if (r == ERR_CONFLICT)
        return ctl_fail(call, CTL_REFUSED, "others keep changing %s; try again", name);
    return r == 0 ? CTL_OK : ctl_fail(call, CTL_REFUSED, "%s", e.text);
}

void change_warn(const struct session *session, const struct store_outcome *outcome)
{
    struct store_health health;
    store_health(session->store, &health);
    if (outcome->is_same)
        fprintf(stderr, "this is in force already; nothing was changed\n");
    else if (health.has_redis && !outcome->is_published)
        fprintf(stderr, "the news could not be published; instances find the change within two seconds\n");
}
