/* migrate: the tables in Postgres. */
#include "admin/ctl/ctl.h"

#include "core/base/environment.h"
#include "core/store/migrate.h"

enum { ADDRESS_FILE_BYTES = 4096 };

static int read_address(const struct invocation *call, struct span *out)
{
    const char *path = call->options[OPTION_DATABASE_URL_FILE];
    struct span ignored, text;
    struct error e;
    int status;

    /* Also where a file is named: nothing may stay in the environment. */
    int r = environment_take_secret("DATABASE_URL", call->arena, out, &e);
    if (path == NULL) {
        if (r != 0)
            return ctl_fail(call, CTL_REFUSED, "%s", e.text);
        if (out->len == 0)
            return ctl_fail(call, CTL_REFUSED,
                            "none of --database-url-file, DATABASE_URL and DATABASE_URL_FILE is set");
        return CTL_OK;
    }
    ignored = r == 0 ? *out : span_of(NULL, 0);
    environment_wipe(ignored);
    status = ctl_read(call, path, ADDRESS_FILE_BYTES, &text);
    if (status == CTL_OK)
        *out = span_cstr(arena_span(call->arena, span_trim(text)));
    if (status == CTL_OK)
        environment_wipe(text);
    return status;
}

static void say_applied(void *ctx, const struct migration *applied)
{
    const struct invocation *call = ctx;
    ctl_print(call, span_cstr(arena_printf(call->arena, "applied %s\n", applied->name)));
}

int ctl_migrate(const struct invocation *call)
{
    struct migrate_report report;
    struct error e;
    struct span address = { NULL, 0 };
    int status = read_address(call, &address);
    const struct migrate_plan plan = {
        .database_url = address.ptr,
        .migrations = migrations,
        .n = SCHEMA_VERSION,
        .role = call->options[OPTION_GRANT_TO],
        .said = say_applied,
        .ctx = (void *)(uintptr_t)call,
    };
    if (status == CTL_OK && migrate_run(&plan, &report, &e) != 0)
        status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    if (status == CTL_OK)
        status = ctl_print(
            call, span_cstr(arena_printf(call->arena, "the database has schema %d%s\n", report.reached,
                                         report.found == report.reached ? ", as before" : "")));
    if (status == CTL_OK && plan.role != NULL)
        status = ctl_print(
            call, span_cstr(arena_printf(call->arena, "granted to %s what the programs need\n", plan.role)));
    environment_wipe(address);
    return status;
}
