/* llm-router-admin: settings, and its description for the engine. */
#include "admin/admin.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "admin/write_event.h"
#include "core/log/log.h"
#include "core/store/place.h"
#include "fcgi/engine/request.h"
#include "fcgi/engine/settings.h"
#include "fcgi/shipper/shipper.h"

#define PLACE(member) offsetof(struct admin_settings, member)

static const struct setting rows[] = {
    { "listen", "LLM_ROUTER_ADMIN_LISTEN", SETTING_TEXT, NULL, 0, 0, "ADDRESS",
      "unix:/path or tcp:HOST:PORT; without it, a listening socket that is passed", PLACE(engine.listen) },
    { "run-dir", "LLM_ROUTER_RUN_DIR", SETTING_TEXT, "/run/llm-router", 0, 0, "DIR",
      "shared mapping, pid file", PLACE(engine.run_dir) },
    { "state-dir", "LLM_ROUTER_STATE_DIR", SETTING_TEXT, "/var/lib/llm-router", 0, 0, "DIR",
      "the embedded store and the spool", PLACE(state_dir) },
    { "workers", NULL, SETTING_NUMBER, "2", 1, 64, "N", "requests served at the same time",
      PLACE(engine.workers) },
    { "drain-timeout-ms", NULL, SETTING_NUMBER, "10000", 0, 3600000, "MS",
      "how long requests in hand may go on after SIGTERM", PLACE(engine.drain_timeout_ms) },
    { "token-file", "LLM_ROUTER_ADMIN_TOKEN_FILE", SETTING_TEXT, NULL, 0, 0, "FILE",
      "its content, as a Bearer token, makes an administrator", PLACE(token_file) },
    { "emails", "LLM_ROUTER_ADMIN_EMAILS", SETTING_TEXT, NULL, 0, 0, "LIST",
      "comma-separated: who of REMOTE_USER is an administrator", PLACE(emails) },
    { "auth-failures-per-minute", NULL, SETTING_NUMBER, "20", 1, 1000000, "N",
      "how often one address may come without a valid token before it is told to wait",
      PLACE(auth_failures_per_minute) },
    { "max-body-bytes", NULL, SETTING_NUMBER, "4194304", 1, STORE_VALUE_LIMIT_BYTES, "BYTES", "of a request",
      PLACE(max_body_bytes) },
    { "max-header-bytes", NULL, SETTING_NUMBER, "65536", 1024, REQUEST_HEADER_BYTES_MAX, "BYTES",
      "of a request's headers; above it, 431", PLACE(max_header_bytes) },
};

static struct admin_settings settings;
static struct admin_shared shared = { .settings = &settings };
static struct admin_worker worker = { .shared = &shared };

/* Shared with the workers, and of this run only. */
static int share_failures(struct error *e)
{
    void *memory =
        mmap(NULL, sizeof(struct auth_failures), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(e, ERR_SYSTEM, "cannot share memory: %s", strerror(errno));
    shared.failures = memory;
    return 0;
}

/* Where the events of writes and the metrics go. */
static int prepare_export(struct error *e)
{
    int r = write_event_prepare_spool(&settings, &shared.spool_plan, e);
    if (r == 0)
        r = shipper_read_settings(shared.spool_plan.program, &shared.otlp, e);
    if (r == 0 && !settings.is_check)
        spool_resume(&shared.spool_plan, shared.otlp.receivers[METRIC_SIGNAL_LOGS].is_on);
    return r;
}

static int init_master(struct engine_process *process, struct error *e)
{
    (void)process;
    int r = envelope_keys_from_environment(&shared.keys, e);
    shared.has_keys = r == 0;
    if (r == ERR_NOT_FOUND)
        log_line(LOG_WARN, "no_master_key", "no master key is set: a PUT can set no plaintext key");
    else if (r != 0)
        return r;
    shared.place.state_dir = settings.state_dir;
    shared.place.keys = shared.has_keys ? &shared.keys : NULL;
    if ((r = store_place_from_environment(&shared.place, e)) != 0)
        return r;
    if (settings.token_file == NULL && settings.emails == NULL)
        return error_set(
            e, ERR_FORMAT,
            "nobody would be an administrator: set LLM_ROUTER_ADMIN_TOKEN_FILE or LLM_ROUTER_ADMIN_EMAILS");
    if ((r = admins_read(settings.token_file, settings.emails, &shared.admins, e)) != 0)
        return r;
    if ((r = prepare_export(e)) != 0)
        return r;
    return share_failures(e);
}

static int init_worker(struct engine_process *process, struct error *e)
{
    otlp_settings_wipe(&shared.otlp);
    worker.process = process;
    worker.arena = arena_new();
    if (spool_open(&shared.spool_plan, &worker.spool, e) != 0)
        log_line(LOG_ERROR, "spool_unusable", "%s; events are dropped until it can be used", e->text);
    return store_open(&shared.place, &worker.store, e);
}

static void serve(struct engine_process *process, struct conn *conn)
{
    (void)process;
    admin_serve(&worker, conn);
}

static int run_shipper(struct engine_process *process)
{
    static struct shipper shipper;
    struct error e;

    store_place_wipe(&shared.place);
    shipper_init(&shipper, process, METRIC_OF_ADMIN, &shared.spool_plan, &shared.otlp);
    if (shipper_add_otlp(&shipper, METRIC_SIGNAL_LOGS, &e) != 0 ||
        shipper_add_otlp(&shipper, METRIC_SIGNAL_METRICS, &e) != 0) {
        log_line(LOG_ERROR, "sink_failed", "%s", e.text);
        return 1;
    }
    return shipper_run(&shipper);
}

static const struct engine_role roles[] = {
    { .name = "shipper", .run = run_shipper },
};

static const struct engine_program program = {
    .name = "llm-router-admin",
    .roles = roles,
    .n_roles = sizeof(roles) / sizeof(roles[0]),
    .init_master = init_master,
    .init_worker = init_worker,
    .serve = serve,
    .stall_ms = 10000,
};

int main(int argc, char **argv)
{
    enum settings_result r = settings_read(
        rows, sizeof(rows) / sizeof(rows[0]), "llm-router-admin",
        "the administrators' API, and callers' page for voice packs, over FastCGI", argc, argv, &settings);
    if (r != SETTINGS_RUN && r != SETTINGS_CHECK)
        return r == SETTINGS_EXIT_OK ? 0 : 2;
    settings.engine.argv = argv;
    settings.is_check = r == SETTINGS_CHECK;
    if (settings.is_check)
        return engine_check(&program, &settings.engine);
    return engine_run(&program, &settings.engine);
}
