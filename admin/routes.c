/* From method and path to an action: one table. */
#include "admin/admin.h"

#include <string.h>

#include "admin/answer.h"

static const char mount[] = "/api/admin";

/* A "*" stands for one name, a "**" for one that may hold a slash, as a caller's may. Of two paths that
 * fit the first is meant. */
static const struct route {
    const char *method; /* GET is HEAD, too */
    const char *path;
    const char *action; /* for admin_may */
    bool takes_dry_run;
    void (*serve)(struct admin_turn *turn);
} routes[] = {
    { "GET", "llm-router-config", "read", false, admin_get_config },
    { "PUT", "llm-router-config", "put", true, admin_put_config },
    { "PATCH", "llm-router-config", "patch", true, admin_patch_config },
    { "POST", "llm-router-config/rotate-key", "rotate", true, admin_rotate_keys },
    { "GET", "llm-router-config/versions", "read", false, admin_list_versions },
    { "POST", "llm-router-config/versions/*/restore", "restore", true, admin_restore_version },
    { "GET", "llm-router-config/versions/*", "read", false, admin_get_version },
    { "GET", "entries/*", "read", false, admin_get_entry },
    { "PUT", "entries/*", "put", true, admin_put_entry },
    { "GET", "caller-keys", "read", false, admin_list_callers },
    { "POST", "caller-keys", "create", false, admin_create_caller },
    { "PATCH", "caller-keys/**", "change", true, admin_change_caller },
    { "DELETE", "caller-keys/**", "revoke", true, admin_revoke_caller },
    { "GET", "voice-packs", "read", false, admin_list_voice_packs },
    { "POST", "voice-packs", "create", true, admin_create_voice_pack },
    { "POST", "voice-packs/*/enable", "enable", true, admin_enable_voice_pack },
    { "POST", "voice-packs/*/disable", "disable", true, admin_disable_voice_pack },
    { "PATCH", "voice-packs/*", "change", true, admin_change_voice_pack },
    { "GET", "status", "read", false, admin_get_status },
    { "GET", "audit-log", "read", false, admin_get_audit_log },
    { "GET", "metrics", "read", false, admin_get_metrics },
};

enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };

/* Whether the path fits; *name is what stands for its "*". */
static bool fits(const char *pattern, const char *path, struct span *name)
{
    const char *star = strchr(pattern, '*');
    if (star == NULL)
        return strcmp(pattern, path) == 0;
    bool may_hold_slash = star[1] == '*';
    const char *rest = star + (may_hold_slash ? 2 : 1);
    size_t before = (size_t)(star - pattern), behind = strlen(rest), len = strlen(path);
    if (len <= before + behind || strncmp(path, pattern, before) != 0 ||
        strcmp(path + len - behind, rest) != 0)
        return false;
    *name = span_of(path + before, len - before - behind);
    return may_hold_slash || memchr(name->ptr, '/', name->len) == NULL;
}

static bool has_method(const struct route *route, const char *method)
{
    bool is_head_of_get = strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0;
    return is_head_of_get || strcmp(route->method, method) == 0;
}

/* ?dryRun= */
static bool read_dry_run(struct admin_turn *turn, const struct route *route)
{
    struct span text = span_cstr("false");
    bool is_there = request_query(&turn->request, "dryRun", &text);
    turn->is_dry_run = span_is(text, "true");
    if (!is_there || (route->takes_dry_run && (turn->is_dry_run || span_is(text, "false"))))
        return true;
    admin_fail(turn,
               &(struct failure){ .kind = FAILURE_INVALID_REQUEST,
                                  .message = route->takes_dry_run ? "dryRun is expected to be true or false."
                                                                  : "dryRun is not possible here." });
    return false;
}

static void serve(struct admin_turn *turn, const struct route *route, const char *path, struct span name)
{
    turn->name = arena_span(turn->request.arena, name);
    turn->is_write = strcmp(route->method, "GET") != 0;
    if (!admin_may(turn->actor, route->action, path))
        admin_fail(turn, &(struct failure){ .kind = FAILURE_FORBIDDEN });
    else if (read_dry_run(turn, route))
        route->serve(turn);
}

const char *admin_api_path(const struct admin_turn *turn)
{
    const char *at = strstr(turn->request.path, mount);
    /* A web server that maps the prefix sends /api/adminX as well: what stands behind that is not ours. */
    return at == NULL || at[sizeof(mount) - 1] != '/' ? NULL : at + sizeof(mount);
}

void admin_route(struct admin_turn *turn)
{
    const char *path = admin_api_path(turn);
    const char *pattern = NULL, *allow = "";
    struct span name = { "", 0 };

    if (path == NULL)
        path = "";
    for (size_t i = 0; i < N_ROUTES; i++) {
        const struct route *route = &routes[i];
        if (pattern == NULL ? !fits(route->path, path, &name) : strcmp(pattern, route->path) != 0)
            continue;
        pattern = route->path;
        if (has_method(route, turn->request.method)) {
            serve(turn, route, path, name);
            return;
        }
        allow = arena_printf(turn->request.arena, "%s%s%s%s", allow, allow[0] == '\0' ? "" : ", ",
                             route->method, strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
    }
    if (pattern == NULL)
        admin_fail(turn, &(struct failure){ .kind = FAILURE_NOT_FOUND });
    else
        admin_fail(turn, &(struct failure){
                             .kind = FAILURE_METHOD_NOT_ALLOWED,
                             .message = arena_printf(turn->request.arena, "Only %s is allowed here.", allow),
                             .allow = allow,
                         });
}
