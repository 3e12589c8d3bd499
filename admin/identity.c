/* Who asks: an administrator's token, or a user whom the web server has authenticated. */
#include "admin/admin.h"

#include <string.h>

#include "admin/answer.h"
#include "core/base/clock.h"
#include "core/log/log.h"

bool admin_may(const char *actor, const char *action, const char *object)
{
    (void)action;
    (void)object;
    return actor != NULL;
}

/*
 * A page of another site can make an administrator's browser send requests to us, and
 * the browser adds what authenticates its user. It says so: in Sec-Fetch-Site, or, where it
 * is older or the connection is plain, by an Origin that is not our host. Other
 * programs send neither.
 */
static bool is_cross_site(const struct admin_turn *turn)
{
    struct span site = span_trim(span_cstr(conn_param(turn->request.conn, "HTTP_SEC_FETCH_SITE")));
    const char *origin = conn_param(turn->request.conn, "HTTP_ORIGIN");
    const char *host = conn_param(turn->request.conn, "HTTP_HOST");

    if (site.len > 0)
        return !span_is(site, "same-origin") && !span_is(site, "none");
    if (origin == NULL)
        return false;
    const char *authority = strstr(origin, "://");
    return authority == NULL || host == NULL || strcasecmp(authority + 3, host) != 0;
}

static bool changes_something(const struct admin_turn *turn)
{
    return strcmp(turn->request.method, "GET") != 0 && strcmp(turn->request.method, "HEAD") != 0;
}

/* Whoever is no administrator, known to the web server or not: either may be guessing a token. */
static void refuse(struct admin_turn *turn, const char *user, const struct failure *failure)
{
    const struct admin_shared *shared = turn->worker->shared;
    const char *address = conn_param(turn->request.conn, "REMOTE_ADDR");
    unsigned wait_s = auth_failures_note(shared->failures, address, clock_monotonic_us() / US_PER_S,
                                         (unsigned)shared->settings->auth_failures_per_minute);
    if (wait_s > 0) {
        admin_fail(turn, &(struct failure){ .kind = FAILURE_CALLER_THROTTLED,
                                            .message = "Too many requests without a valid token.",
                                            .retry_after_s = wait_s });
        return;
    }
    struct json_writer *w = log_begin(LOG_WARN, "authentication_failed");
    log_field_text(w, "source_address", span_cstr(address));
    if (user != NULL)
        log_field_text(w, "user", span_cstr(user));
    jw_member_cstr(w, "request_id", turn->request.id);
    log_end();
    admin_fail(turn, failure);
}

bool admin_identify(struct admin_turn *turn)
{
    const struct admins *admins = &turn->worker->shared->admins;
    const char *user = conn_param(turn->request.conn, "REMOTE_USER");

    if (admins_have_token(admins, request_bearer(&turn->request))) {
        turn->actor = "token";
    } else if (admins->emails == NULL || user == NULL || user[0] == '\0') {
        refuse(turn, NULL,
               &(struct failure){ .kind = FAILURE_UNAUTHORIZED,
                                  .message = "An administrator's token is required." });
        return false;
    } else if (admins_have_user(admins, user)) {
        turn->actor = arena_strdup(turn->request.arena, user);
    } else {
        refuse(turn, user,
               &(struct failure){ .kind = FAILURE_FORBIDDEN,
                                  .message = "You are not one of the administrators." });
        return false;
    }
    if (!changes_something(turn) || !is_cross_site(turn))
        return true;
    admin_fail(turn, &(struct failure){ .kind = FAILURE_FORBIDDEN,
                                        .message = "A page of another site may change nothing here." });
    return false;
}
