/* status: what is in force, and which instances serve it. */
#include <inttypes.h>

#include "admin/ctl/health_client.h"
#include "admin/ctl/session.h"
#include "core/base/buf.h"
#include "core/json/scan.h"
#include "core/json/writer.h"

enum { STATUS_LIMIT_BYTES = 16 * 1024 * 1024, WORKERS_MAX = 4096 };

/* All that is known. */
struct view {
    struct store_health store;
    const char *store_problem; /* NULL: it was asked */
    const char *version;       /* of the tree in force; "" without one */
    const char *time, *author;
    struct span here; /* as the health socket tells it; ptr NULL: nobody answers */
    const char *here_problem;
    struct store_instance self; /* the same, read */
    struct store_instance *instances;
    size_t n_instances;
};

static bool is_current(const struct view *view, const struct store_instance *instance)
{
    return view->store_problem == NULL && strcmp(instance->version, view->version) == 0 &&
           instance->workers > 0 && instance->workers_current == instance->workers;
}

/* Whether somebody serves, and all of them the version in force. */
static bool is_all_current(const struct view *view)
{
    bool is_here = view->here.ptr != NULL;
    if (view->store_problem != NULL)
        return false;
    for (size_t i = 0; i < view->n_instances; i++)
        if (!is_current(view, &view->instances[i]))
            return false;
    return (is_here || view->n_instances > 0) && (!is_here || is_current(view, &view->self));
}

/* The members of /status that are asked for. */
enum place {
    PLACE_INSTANCE,
    PLACE_VERSION,
    PLACE_SINCE,
    PLACE_SOURCE,
    PLACE_WORKERS,
    PLACE_WORKERS_CURRENT,
    PLACE_COUNT,
};

static const struct json_want places[PLACE_COUNT] = {
    [PLACE_INSTANCE] = { "instance", false },    [PLACE_VERSION] = { "version", false },
    [PLACE_SINCE] = { "since", false },          [PLACE_SOURCE] = { "source", false },
    [PLACE_WORKERS] = { "workersAlive", false }, [PLACE_WORKERS_CURRENT] = { "workersCurrent", false },
};

static const char *text_of(const struct json_value *value, struct arena *arena)
{
    return value->kind == JSON_KIND_STRING ? json_decode(arena, value->raw).ptr : "";
}

static uint32_t count_of(const struct json_value *value)
{
    long long n = 0;
    return value->kind == JSON_KIND_NUMBER && json_int(value->raw, &n) && n >= 0 && n <= WORKERS_MAX
               ? (uint32_t)n
               : 0;
}

/* The instance on this host. That none answers is a finding. */
static void ask_here(const struct invocation *call, struct view *view)
{
    struct json_value found[PLACE_COUNT];
    struct span body;
    struct error e;
    const char *run_dir = ctl_directory(call, OPTION_RUN_DIR, "LLM_ROUTER_RUN_DIR", "/run/llm-router");

    int r = health_ask(run_dir, "/status", call->arena, &body, &e);
    if (r == 0 && json_find(body, places, PLACE_COUNT, 0, found, NULL) != 0)
        r = error_set(&e, ERR_FORMAT, "what %s/health.sock tells is not JSON", run_dir);
    if (r != 0) {
        view->here_problem = arena_strdup(call->arena, e.text);
        return;
    }
    view->here = body;
    view->self = (struct store_instance){
        .id = text_of(&found[PLACE_INSTANCE], call->arena),
        .host = "here",
        .version = text_of(&found[PLACE_VERSION], call->arena),
        .since = text_of(&found[PLACE_SINCE], call->arena),
        .source = text_of(&found[PLACE_SOURCE], call->arena),
        .workers = count_of(&found[PLACE_WORKERS]),
        .workers_current = count_of(&found[PLACE_WORKERS_CURRENT]),
    };
}

/* What is in force. A store that is away is a finding too: the instance may serve on. */
static void ask_store(const struct invocation *call, struct session *session, struct view *view)
{
    const char *name = entry_name(ENTRY_LLM_ROUTER_CONFIG);
    struct store_version *last = arena_new_of(call->arena, struct store_version);
    struct store_value tree = { .version = "" };
    struct error e;
    size_t n = 0, total;

    int r = store_get(session->store, name, call->arena, &tree, &e);
    if (r == ERR_NOT_FOUND)
        r = 0;
    if (r == 0)
        r = store_versions(session->store, name, 1, call->arena, last, &n, &total, &e);
    if (r == 0) {
        r = store_instances(session->store, call->arena, &view->instances, &view->n_instances, &e);
        if (r == ERR_UNSUPPORTED)
            r = 0;
    }
    if (r != 0)
        view->store_problem = arena_strdup(call->arena, e.text);
    view->version = arena_strdup(call->arena, tree.version);
    if (n > 0 && strcmp(last->version, view->version) == 0) {
        view->time = last->time;
        view->author = last->author;
    }
    store_health(session->store, &view->store);
}

static const char *kind_of(const struct view *view)
{
    return view->store.has_database ? "postgres" : "directory";
}

static int print_instance(const struct invocation *call, const struct view *view,
                          const struct store_instance *instance, const char *place)
{
    return ctl_printf(call, "%s\t%s\t%s\t%s\t%s\t%" PRIu32 "/%" PRIu32 "\t%s\n", instance->id, place,
                      instance->version[0] == '\0' ? "-" : instance->version,
                      instance->since[0] == '\0' ? "-" : instance->since,
                      instance->source[0] == '\0' ? "-" : instance->source, instance->workers_current,
                      instance->workers,
                      view->store_problem != NULL  ? "-"
                      : is_current(view, instance) ? "current"
                                                   : "has not switched");
}

static int print_text(const struct invocation *call, const struct view *view)
{
    int status = ctl_printf(call, "store: %s", kind_of(view));
    if (status == CTL_OK && view->store_problem != NULL)
        status = ctl_printf(call, ", %s", view->store_problem);
    else if (status == CTL_OK)
        status = ctl_printf(call, "\nin force: %s", view->version[0] == '\0' ? "no tree" : view->version);
    if (status == CTL_OK && view->time != NULL)
        status = ctl_printf(call, ", since %s, by %s", view->time, view->author);
    if (status == CTL_OK)
        status = ctl_printf(call, "\n");
    if (status == CTL_OK)
        status = view->here.ptr != NULL ? print_instance(call, view, &view->self, "here")
                                        : ctl_printf(call, "here: %s\n", view->here_problem);
    for (size_t i = 0; status == CTL_OK && i < view->n_instances; i++)
        status = print_instance(call, view, &view->instances[i], view->instances[i].host);
    return status;
}

static void write_instance(const struct view *view, const struct store_instance *instance,
                           struct json_writer *w)
{
    jw_begin_object(w);
    jw_member_cstr(w, "id", instance->id);
    jw_member_cstr(w, "host", instance->host);
    jw_member_cstr(w, "version", instance->version);
    jw_member_cstr(w, "since", instance->since);
    jw_member_cstr(w, "source", instance->source);
    jw_member_uint(w, "workers", instance->workers);
    jw_member_uint(w, "workersCurrent", instance->workers_current);
    jw_member_uint(w, "ageMs", (uint64_t)(instance->age_s * 1000.0));
    jw_member_bool(w, "isCurrent", is_current(view, instance));
    jw_end_object(w);
}

static int print_json(const struct invocation *call, const struct view *view)
{
    struct json_writer w;
    struct buf text;
    buf_init(&text, STATUS_LIMIT_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_member_cstr(&w, "store", kind_of(view));
    jw_member_cstr(&w, "storeProblem", view->store_problem);
    jw_member_cstr(&w, "version", view->version[0] == '\0' ? NULL : view->version);
    jw_member_cstr(&w, "since", view->time);
    jw_member_cstr(&w, "author", view->author);
    jw_member_bool(&w, "isCurrent", is_all_current(view));
    jw_key(&w, "here");
    if (view->here.ptr != NULL)
        jw_raw(&w, span_trim(view->here));
    else
        jw_null(&w);
    jw_key(&w, "instances");
    jw_begin_array(&w);
    for (size_t i = 0; i < view->n_instances; i++)
        write_instance(view, &view->instances[i], &w);
    jw_end_array(&w);
    jw_end_object(&w);
    buf_append_char(&text, '\n');
    int status = ctl_print(call, buf_span(&text));
    buf_free(&text);
    return status;
}

int ctl_status(const struct invocation *call)
{
    struct session session = { 0 };
    struct view view = { .version = "" };

    int status = session_open(call, SESSION_KEYS_IF_SET, &session);
    if (status == CTL_OK) {
        ask_store(call, &session, &view);
        ask_here(call, &view);
        status = call->options[OPTION_JSON] != NULL ? print_json(call, &view) : print_text(call, &view);
    }
    if (status == CTL_OK && !is_all_current(&view))
        status = CTL_REFUSED;
    session_close(&session);
    return status;
}
