/* This deployment: the store, and which instance serves which version. */
#include "admin/admin.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "admin/answer.h"
#include "core/base/clock.h"
#include "core/config/entry.h"
#include "core/json/writer.h"

enum { STATUS_BYTES = 4 * 1024 * 1024 };

/* All that is known. */
struct view {
    struct store_health health;
    const char *trouble;               /* NULL: the store answered */
    char version[STORE_VERSION_BYTES]; /* of the tree that the store holds; "" without one */
    struct store_instance *instances;
    size_t n_instances;
    const struct mapping *here; /* NULL: no llm-router runs in our run directory */
};

static bool is_current(const struct view *view, const struct store_instance *instance)
{
    return strcmp(instance->version, view->version) == 0 && instance->workers > 0 &&
           instance->workers_current == instance->workers;
}

/* The instance that shares our run directory, as its row would say it. */
static struct store_instance instance_here(const struct mapping *here, struct arena *arena)
{
    char *host = arena_calloc(arena, 1, HOST_NAME_MAX + 1), *since = arena_alloc(arena, CLOCK_TEXT_BYTES);
    struct tree_in_force tree;

    uint64_t generation = mapping_in_force(here, &tree);
    gethostname(host, HOST_NAME_MAX);
    clock_text(generation == 0 ? here->started_wall_us : tree.since_us, since);
    return (struct store_instance){
        .id = arena_strdup(arena, here->instance),
        .host = host,
        .version = arena_strdup(arena, tree.version),
        .since = since,
        .source = reload_source_name(tree.source),
        .workers = scoreboard_alive(here),
        .workers_current = scoreboard_current(here),
    };
}

/* The store's rows; of a state directory, who shares our run directory. */
static int find_instances(struct admin_turn *turn, struct view *view, struct error *e)
{
    struct arena *arena = turn->request.arena;
    int r = store_instances(turn->worker->store, arena, &view->instances, &view->n_instances, e);
    if (r != ERR_UNSUPPORTED || view->here == NULL)
        return r == ERR_UNSUPPORTED ? 0 : r;
    view->instances = arena_new_of(arena, struct store_instance);
    view->instances[0] = instance_here(view->here, arena);
    view->n_instances = 1;
    return 0;
}

/* The version is asked for first: who has a newer one meanwhile has switched. */
static void look(struct admin_turn *turn, struct view *view)
{
    const char *run_dir = turn->worker->shared->settings->engine.run_dir;
    struct arena *arena = turn->request.arena;
    struct store_value value = { .version = "" };
    struct error e = { .text = "" };

    if (mapping_view(run_dir, "llm-router", &view->here, NULL) != 0)
        view->here = NULL;
    int r = store_get(turn->worker->store, entry_name(ENTRY_LLM_ROUTER_CONFIG), arena, &value, &e);
    if (r == ERR_NOT_FOUND)
        r = 0;
    memcpy(view->version, value.version, sizeof(view->version));
    if (r == 0)
        r = find_instances(turn, view, &e);
    if (r != 0)
        view->trouble = arena_strdup(arena, e.text);
    store_health(turn->worker->store, &view->health);
}

static void write_instance(const struct view *view, const struct store_instance *instance,
                           struct json_writer *w)
{
    jw_begin_object(w);
    jw_member_cstr(w, "id", instance->id);
    jw_member_cstr(w, "host", instance->host);
    jw_member_cstr(w, "version", instance->version[0] == '\0' ? NULL : instance->version);
    jw_member_cstr(w, "since", instance->since);
    jw_member_cstr(w, "source", instance->source);
    jw_member_uint(w, "workers", instance->workers);
    jw_member_uint(w, "workersCurrent", instance->workers_current);
    jw_member_uint(w, "ageMs", (uint64_t)(instance->age_s * 1000.0));
    jw_member_bool(w, "isCurrent", is_current(view, instance));
    jw_end_object(w);
}

static void write_here(const struct mapping *here, struct json_writer *w)
{
    jw_begin_object(w);
    jw_member_cstr(w, "id", here->instance);
    jw_member_uint(w, "generation", atomic_load(&here->generation));
    jw_key(w, "workers");
    jw_begin_array(w);
    for (unsigned i = 0; i < here->n_records; i++) {
        const struct scoreboard_record *record = &here->workers[i];
        int32_t pid = atomic_load(&record->pid);
        if (pid == 0)
            continue;
        jw_begin_object(w);
        jw_member_int(w, "pid", pid);
        jw_member_cstr(w, "stage", stage_name((enum stage)atomic_load(&record->stage)));
        jw_member_uint(w, "generation", atomic_load(&record->generation));
        jw_end_object(w);
    }
    jw_end_array(w);
    jw_end_object(w);
}

static void write_instances(const struct view *view, struct json_writer *w)
{
    jw_key(w, "instances");
    jw_begin_array(w);
    for (size_t i = 0; i < view->n_instances; i++)
        write_instance(view, &view->instances[i], w);
    jw_end_array(w);
    jw_key(w, "behind");
    jw_begin_array(w);
    for (size_t i = 0; i < view->n_instances; i++) {
        if (!is_current(view, &view->instances[i]))
            jw_cstr(w, view->instances[i].id);
    }
    jw_end_array(w);
}

static void write_view(const struct view *view, struct json_writer *w)
{
    jw_begin_object(w);
    jw_key(w, "store");
    jw_begin_object(w);
    jw_member_cstr(w, "kind", view->health.has_database ? "postgres" : "directory");
    jw_member_bool(w, "isReadable", view->trouble == NULL);
    jw_member_cstr(w, "trouble", view->trouble);
    jw_end_object(w);
    jw_member_cstr(w, "version", view->version[0] == '\0' ? NULL : view->version);
    write_instances(view, w);
    jw_key(w, "here");
    if (view->here != NULL)
        write_here(view->here, w);
    else
        jw_null(w);
    jw_end_object(w);
}

void admin_get_status(struct admin_turn *turn)
{
    struct view view = { .version = "" };
    struct json_writer w;
    struct buf text;

    look(turn, &view);
    buf_init(&text, STATUS_BYTES);
    jw_init(&w, &text);
    write_view(&view, &w);
    admin_reply_written(turn, &text, NULL);
    buf_free(&text);
    if (view.here != NULL)
        mapping_close(view.here);
}
