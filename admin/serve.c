/* One request of an administrator: who asks, for what. */
#include "admin/admin.h"

#include <string.h>

#include "core/crypto/digest.h"

static const struct action {
    const char *method;
    const char *path; /* the end of the request's path */
    const char *name; /* for admin_may */
    void (*serve)(struct admin_turn *turn);
} actions[] = {
    { "GET", "/api/admin/llm-router-config", "read", admin_get_config },
    { "PUT", "/api/admin/llm-router-config", "write", admin_put_config },
};

enum { N_ACTIONS = sizeof(actions) / sizeof(actions[0]) };

bool admin_may(const char *actor, const char *action, const char *object)
{
    (void)action;
    (void)object;
    return actor != NULL;
}

/* Whether `email` is a member of the comma-separated list; case is ignored. */
static bool is_listed(const char *list, const char *email)
{
    while (list != NULL && *list != '\0') {
        size_t len = strcspn(list, ",");
        struct span member = span_trim(span_of(list, len));
        if (member.len > 0 && span_is_nocase(member, email))
            return true;
        list += len + (list[len] == ',' ? 1 : 0);
    }
    return false;
}

const char *admin_actor(const struct admin_turn *turn)
{
    const struct admin_shared *shared = turn->worker->shared;
    struct span token = request_bearer(&turn->request);
    const char *user = conn_param(turn->request.conn, "REMOTE_USER");
    uint8_t digest[SHA256_BYTES];

    if (shared->has_token && token.len > 0) {
        sha256(token, digest);
        if (equal_in_constant_time(span_of((const char *)digest, sizeof(digest)),
                                   span_of((const char *)shared->token_sha256, sizeof(shared->token_sha256))))
            return "token";
    }
    if (user != NULL && user[0] != '\0' && is_listed(shared->settings->emails, user))
        return arena_strdup(turn->request.arena, user);
    return NULL;
}

void admin_fail(struct admin_turn *turn, const struct failure *failure)
{
    reply_failure(&turn->reply, failure, ERROR_FORM_CODED);
}

static bool ends_with(const char *path, const char *end)
{
    size_t have = strlen(path), len = strlen(end);
    return have >= len && strcmp(path + have - len, end) == 0;
}

static void route(struct admin_turn *turn)
{
    const char *allow = "";

    turn->actor = admin_actor(turn);
    if (turn->actor == NULL) {
        admin_fail(turn, &(struct failure){ .kind = FAILURE_UNAUTHORIZED,
                                            .message = "An administrator's token is required." });
        return;
    }
    for (size_t i = 0; i < N_ACTIONS; i++) {
        const struct action *action = &actions[i];
        if (!ends_with(turn->request.path, action->path))
            continue;
        allow =
            arena_printf(turn->request.arena, "%s%s%s", allow, allow[0] == '\0' ? "" : ", ", action->method);
        if (strcmp(action->method, turn->request.method) != 0)
            continue;
        if (admin_may(turn->actor, action->name, action->path))
            action->serve(turn);
        else
            admin_fail(turn, &(struct failure){ .kind = FAILURE_FORBIDDEN });
        return;
    }
    if (allow[0] == '\0') {
        admin_fail(turn, &(struct failure){ .kind = FAILURE_NOT_FOUND });
        return;
    }
    admin_fail(turn, &(struct failure){
                         .kind = FAILURE_METHOD_NOT_ALLOWED,
                         .message = arena_printf(turn->request.arena, "Only %s is allowed here.", allow),
                         .allow = allow,
                     });
}

void admin_serve(struct admin_worker *worker, struct conn *conn)
{
    const struct admin_settings *settings = worker->shared->settings;
    struct admin_turn turn = { .worker = worker };
    struct failure failure;

    int r = request_read(&turn.request, conn, worker->arena, (size_t)settings->max_header_bytes,
                         (size_t)settings->max_body_bytes, &failure);
    reply_init(&turn.reply, conn);
    turn.reply.request_id = turn.request.id;
    if (r == 0)
        route(&turn);
    else
        admin_fail(&turn, &failure);
    conn_end(conn);
    reply_free(&turn.reply);
    arena_reset(worker->arena);
}
