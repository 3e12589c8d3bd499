#include "fcgi/edge/edge.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/crypto/digest.h"
#include "fcgi/edge/health.h"
#include "fcgi/edge/limits.h"
#include "fcgi/edge/slots.h"
#include "fcgi/in_hand.h"

enum { FINGERPRINT_DIGITS = 16 };

enum { PROBE_BYTES = 512 };

/* The probes, for front ends that do not map them to the health socket. */

static void serve_livez(struct turn *turn)
{
    struct buf body;
    buf_init(&body, PROBE_BYTES);
    health_write_live(&body);
    reply_json(&turn->reply, 200, buf_span(&body));
    buf_free(&body);
}

static void serve_readyz(struct turn *turn)
{
    struct buf body;
    buf_init(&body, PROBE_BYTES);
    bool is_ready = health_write_ready(turn->worker->process->mapping,
                                       turn->worker->shared->settings->is_ready_strict, &body);
    reply_json(&turn->reply, is_ready ? 200 : 503, buf_span(&body));
    buf_free(&body);
}

/* Endpoints that are not a dialect's. */
static const struct endpoint {
    const char *path; /* below a mount; with a leading slash: below none; "*" stands for one name */
    bool is_prefix;   /* also what follows after a slash */
    const char *allow;
    bool is_open; /* needs no caller */
    bool is_probe;
    void (*serve)(struct turn *turn);
} endpoints[] = {
    { "models", true, "GET, HEAD", false, false, serve_models },
    { "audio/voices", false, "GET, HEAD", false, false, serve_voices },
    { "voice-packs", false, "GET, HEAD", false, false, serve_voice_packs },
    { "voice-packs/*/snapshot", false, "POST", false, false, serve_voice_pack_snapshot },
    { "/livez", false, "GET, HEAD", true, true, serve_livez },
    { "/readyz", false, "GET, HEAD", true, true, serve_readyz },
};

/* Whether a path is of this form, with a name in place of the star. */
static bool has_form(const char *path, const char *form, const char *star)
{
    size_t before = (size_t)(star - form), behind = strlen(star + 1), len = strlen(path);
    return len > before + behind && strncmp(path, form, before) == 0 &&
           strcmp(path + len - behind, star + 1) == 0 &&
           memchr(path + before, '/', len - before - behind) == NULL;
}

/* `below` is what follows the mount; NULL: there is none. */
static bool is_endpoint(const struct endpoint *e, const char *path, const char *below)
{
    size_t len = strlen(e->path), have = strlen(path);
    const char *star = strchr(e->path, '*');

    if (e->path[0] == '/')
        return have >= len && strcmp(path + have - len, e->path) == 0;
    if (star != NULL)
        return below != NULL && has_form(below, e->path, star);
    return below != NULL && strncmp(below, e->path, len) == 0 &&
           (below[len] == '\0' || (e->is_prefix && below[len] == '/'));
}

static const struct endpoint *find_endpoint(const char *path, const char *below)
{
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
        if (is_endpoint(&endpoints[i], path, below))
            return &endpoints[i];
    }
    return NULL;
}

const char *edge_find_endpoint(const char *below)
{
    const struct dialect *dialect = dialect_by_endpoint(span_cstr(below));
    if (dialect != NULL)
        return dialect->endpoint;
    const struct endpoint *endpoint = find_endpoint("", below);
    return endpoint != NULL ? endpoint->path : NULL;
}

void turn_note(struct turn *turn)
{
    in_hand_note(turn->worker->process->record, turn->event);
}

void turn_fail(struct turn *turn, const struct failure *failure)
{
    enum error_form form = turn->mount != NULL ? turn->mount->form : ERROR_FORM_OPENAI;
    struct request_event *event = turn->event;

    event->code = failure_code(failure);
    event->status = failure_status(failure, form);
    if (failure->kind == FAILURE_CALLER_THROTTLED)
        event->end = EVENT_END_THROTTLED;
    else if (failure->has_attempts || event->status >= 500)
        event->end = EVENT_END_ERROR_BEFORE;
    else
        event->end = EVENT_END_REFUSED;
    if (reply_failure(&turn->reply, failure, form) != 0)
        event->end = EVENT_END_CLIENT_GONE;
}

/* The first digits of a digest, as the record has them. */
static const char *fingerprint_of(struct turn *turn, const uint8_t digest[SHA256_BYTES])
{
    char *hex = arena_alloc(turn->request.arena, FINGERPRINT_DIGITS + 1);
    ids_hex(digest, FINGERPRINT_DIGITS / 2, hex);
    return hex;
}

/* By its key, in the CALLER_KEYS entry. */
static bool know_by_key(struct turn *turn)
{
    struct span key = request_bearer(&turn->request);
    uint8_t digest[SHA256_BYTES];

    if (key.len == 0)
        return false;
    sha256(key, digest);
    turn->principal = snapshot_principal(turn->root, digest);
    if (turn->principal == NULL)
        return false;
    turn->event->key_id = fingerprint_of(turn, digest);
    turn->event->owner = snap_span(turn->root, turn->principal->owner);
    limits_begin(turn);
    return true;
}

/* The web server has authenticated; the name itself is nobody else's business. */
static bool know_by_web_server(struct turn *turn)
{
    struct span user = span_cstr(conn_param(turn->request.conn, "REMOTE_USER"));
    uint8_t digest[SHA256_BYTES];

    if (user.len == 0)
        return false;
    sha256(user, digest);
    turn->event->remote_user = fingerprint_of(turn, digest);
    return true;
}

static bool know_anybody(struct turn *turn)
{
    (void)turn;
    return true;
}

int turn_authenticate(struct turn *turn)
{
    static const struct {
        bool (*know)(struct turn *turn);
        const char *refusal; /* NULL: the usual words */
    } ways[] = {
        [CALLER_AUTH_KEYS] = { know_by_key, NULL },
        [CALLER_AUTH_REMOTE_USER] = { know_by_web_server, "The web server did not say who you are." },
        [CALLER_AUTH_NONE] = { know_anybody, NULL },
    };
    enum caller_auth by = turn->worker->shared->settings->caller_auth;

    if (turn->root == NULL) {
        turn_fail(turn, &(struct failure){ .kind = FAILURE_CONFIG_NOT_SET });
        return ERR_NOT_FOUND;
    }
    if (!ways[by].know(turn)) {
        turn_fail(turn, &(struct failure){ .kind = FAILURE_UNAUTHORIZED, .message = ways[by].refusal });
        return ERR_NOT_FOUND;
    }
    turn_note(turn);
    return 0;
}

static bool is_allowed(const char *allow, const char *method)
{
    const char *at = method[0] == '\0' ? NULL : strstr(allow, method);
    size_t len = strlen(method);
    return at != NULL && (at == allow || at[-1] == ' ') && (at[len] == '\0' || at[len] == ',');
}

static void fail_method(struct turn *turn, const char *allow)
{
    turn_fail(turn, &(struct failure){
                        .kind = FAILURE_METHOD_NOT_ALLOWED,
                        .message = arena_printf(turn->request.arena, "Only %s is allowed here.", allow),
                        .allow = allow,
                    });
}

static void route_to_dialect(struct turn *turn, const struct dialect *dialect)
{
    turn->event->endpoint = dialect->endpoint;
    turn_note(turn);
    if (!is_allowed("POST", turn->request.method))
        fail_method(turn, "POST");
    else if (turn_authenticate(turn) == 0)
        serve_dialect(turn, dialect);
}

static void route_to_endpoint(struct turn *turn, const struct endpoint *endpoint)
{
    turn->event->endpoint = endpoint->path;
    turn->is_probe = endpoint->is_probe;
    if (endpoint->is_probe)
        scoreboard_end_request(turn->worker->process->record); /* leaves no event, however it ends */
    else
        turn_note(turn);
    if (!is_allowed(endpoint->allow, turn->request.method))
        fail_method(turn, endpoint->allow);
    else if (endpoint->is_open || turn_authenticate(turn) == 0)
        endpoint->serve(turn);
}

/* Finds who is to answer, and lets it. */
static void route(struct turn *turn)
{
    turn->mount = mount_find(turn->request.path, &turn->endpoint);
    if (turn->mount != NULL) {
        const struct dialect *dialect = dialect_by_endpoint(span_cstr(turn->endpoint));
        turn->event->mount = turn->mount->prefix;
        if (dialect != NULL) {
            route_to_dialect(turn, dialect);
            return;
        }
    }
    const struct endpoint *endpoint =
        find_endpoint(turn->request.path, turn->mount != NULL ? turn->endpoint : NULL);
    if (endpoint != NULL)
        route_to_endpoint(turn, endpoint);
    else
        turn_fail(turn, &(struct failure){ .kind = FAILURE_NOT_FOUND });
}

/* From the user agent: which client library; a closed list. */
static const char *client_family(const char *agent)
{
    static const struct {
        const char *prefix, *family;
    } families[] = {
        { "OpenAI/Python", "openai-python" },
        { "AsyncOpenAI/Python", "openai-python" },
        { "OpenAI/JS", "openai-node" },
        { "OpenAI/Go", "openai-go" },
        { "OpenAI/Java", "openai-java" },
        { "ai-sdk/", "ai-sdk" },
        { "curl/", "curl" },
        { "python-httpx/", "httpx" },
        { "python-requests/", "requests" },
        { "node", "node" },
        { "Mozilla/", "browser" },
    };
    for (size_t i = 0; agent != NULL && i < sizeof(families) / sizeof(families[0]); i++) {
        if (strncmp(agent, families[i].prefix, strlen(families[i].prefix)) == 0)
            return families[i].family;
    }
    return NULL;
}

static void begin_event(struct turn *turn)
{
    struct engine_process *process = turn->worker->process;
    struct request_event *event = turn->event;

    event_begin(event);
    event->instance = process->mapping->instance;
    event->worker = process->slot;
    event->generation = turn->worker->generation;
    event->request_id = turn->request.id;
    trace_begin(&turn->worker->shared->settings->tracing,
                span_cstr(conn_param(turn->request.conn, "HTTP_TRACEPARENT")), &event->trace);
    event->client = client_family(conn_param(turn->request.conn, "HTTP_USER_AGENT"));
}

/* The record is there before the caller has the whole reply: nobody can have a
 * reply of which there is none. */
static void append_event(void *ctx)
{
    struct turn *turn = ctx;
    struct scoreboard_record *record = turn->worker->process->record;
    struct request_event *event = turn->event;

    if (turn->is_probe)
        return;
    scoreboard_enter(record, STAGE_FINISHING);
    event->total_us = clock_monotonic_us() - turn->start_us;
    event->client_wait_us = turn->request.conn->blocked_us;
    if (event->status == 0)
        event->status = turn->reply.status;
    limits_settle(turn);
    slots_settle(turn);
    router_record(&turn->worker->spool, turn->worker->process->mapping, record, event);
    scoreboard_end_request(record); /* not before: rather twice, with one id, than never */
}

void edge_serve(struct router_worker *worker, struct conn *conn)
{
    const struct router_settings *settings = worker->shared->settings;
    struct turn turn = { .worker = worker, .event = &worker->event, .start_us = clock_monotonic_us() };
    struct failure failure;

    router_refresh(worker);
    turn.root = worker->snapshot.root;
    if (turn.root != NULL)
        conn_set_stall(conn, turn.root->client_stall_timeout_ms);
    int r = request_read(&turn.request, conn, worker->arena, (size_t)settings->max_header_bytes,
                         (size_t)settings->max_body_bytes, &failure);
    turn.request.process = worker->process;
    turn.request.body_memory_bytes = (uint64_t)settings->body_memory_bytes;
    reply_init(&turn.reply, conn);
    turn.reply.request_id = turn.request.id;
    turn.reply.before_end = append_event;
    turn.reply.before_end_ctx = &turn;
    begin_event(&turn);
    turn_note(&turn);
    if (r == 0) {
        route(&turn);
    } else {
        turn.mount = mount_find(turn.request.path, &turn.endpoint);
        turn_fail(&turn, &failure);
    }
    if (turn.reply.before_end != NULL)
        append_event(&turn); /* the reply was not finished */
    conn_end(conn);
    reply_free(&turn.reply);
    arena_reset(worker->arena);
}
