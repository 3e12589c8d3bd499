/* llm-router: settings, and its description for the engine. */
#include "fcgi/router.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/log/log.h"
#include "core/store/place.h"
#include "fcgi/configuration.h"
#include "fcgi/edge/edge.h"
#include "fcgi/engine/overflow.h"
#include "fcgi/engine/request.h"
#include "fcgi/engine/settings.h"
#include "fcgi/in_hand.h"
#include "fcgi/pool_gauges.h"
#include "fcgi/rows_sink.h"
#include "fcgi/shipper/shipper.h"

#define PLACE(member) offsetof(struct router_settings, member)

enum { SPOOL_MAX_BYTES_MIN = 512 * 1024 }; /* eight of the smallest segments */

static const struct setting rows[] = {
    { "listen", "LLM_ROUTER_LISTEN", SETTING_TEXT, NULL, 0, 0, "ADDRESS",
      "unix:/path or tcp:HOST:PORT; without it, a listening socket that is passed", PLACE(engine.listen) },
    { "run-dir", "LLM_ROUTER_RUN_DIR", SETTING_TEXT, "/run/llm-router", 0, 0, "DIR",
      "sockets, shared mapping, snapshots, pid file", PLACE(engine.run_dir) },
    { "state-dir", "LLM_ROUTER_STATE_DIR", SETTING_TEXT, "/var/lib/llm-router", 0, 0, "DIR",
      "the embedded store and the spool", PLACE(state_dir) },
    { "pm", NULL, SETTING_TEXT, "static", 0, 0, "static|dynamic|ondemand",
      "how many workers there are: always as many, some idle ones, or those that are needed",
      PLACE(pm_name) },
    { "workers", NULL, SETTING_NUMBER, "16", 1, SCOREBOARD_MAX, "N", "requests served at the same time",
      PLACE(engine.workers) },
    { "max-workers", NULL, SETTING_NUMBER, "0", 0, SCOREBOARD_MAX, "N",
      "the most that there are with dynamic and ondemand; 0: --workers", PLACE(engine.max_workers) },
    { "min-spare-workers", NULL, SETTING_NUMBER, "1", 1, SCOREBOARD_MAX, "N",
      "idle workers that there are at least, with dynamic", PLACE(engine.min_spare_workers) },
    { "max-spare-workers", NULL, SETTING_NUMBER, "4", 1, SCOREBOARD_MAX, "N",
      "idle workers that there are at most, with dynamic", PLACE(engine.max_spare_workers) },
    { "idle-timeout-ms", NULL, SETTING_NUMBER, "10000", 0, 86400000, "MS",
      "how long a worker may be idle, with ondemand", PLACE(engine.idle_timeout_ms) },
    { "drain-timeout-ms", NULL, SETTING_NUMBER, "600000", 0, 86400000, "MS",
      "how long requests in hand may go on after SIGTERM", PLACE(engine.drain_timeout_ms) },
    { "queue-timeout-ms", NULL, SETTING_NUMBER, "1000", 20, 60000, "MS",
      "how long a connection may wait for a worker before it is answered 503",
      PLACE(engine.queue_timeout_ms) },
    { "max-requests", NULL, SETTING_NUMBER, "10000", 0, INT64_C(1) << 40, "N",
      "of a worker, give or take a tenth, before another takes its place; 0: no bound",
      PLACE(engine.max_requests) },
    { "slow-request-ms", NULL, SETTING_NUMBER, "0", 0, 86400000, "MS",
      "a request that takes longer is logged, once; 0: none is", PLACE(engine.slow_request_ms) },
    { "request-limit-ms", NULL, SETTING_NUMBER, "7200000", 0, 86400000, "MS",
      "a request that takes longer is ended with its worker; 0: no bound", PLACE(engine.request_limit_ms) },
    { "max-body-bytes", NULL, SETTING_NUMBER, "33554432", 1, INT64_C(1) << 30, "BYTES",
      "of a request; above it, 413", PLACE(max_body_bytes) },
    { "max-header-bytes", NULL, SETTING_NUMBER, "32768", 1024, REQUEST_HEADER_BYTES_MAX, "BYTES",
      "of a request's headers; above it, 431", PLACE(max_header_bytes) },
    { "ca-file", "LLM_ROUTER_CA_FILE", SETTING_TEXT, NULL, 0, 0, "FILE",
      "who vouches for https upstreams, in PEM; without it, SSL_CERT_FILE or Debian's bundle",
      PLACE(ca_file) },
    { "body-memory-bytes", NULL, SETTING_NUMBER, "1073741824", 1, INT64_C(1) << 40, "BYTES",
      "of request bodies over 64 KiB, in all workers together; above it, 503", PLACE(body_memory_bytes) },
    { "spool-max-bytes", NULL, SETTING_NUMBER, "1073741824", SPOOL_MAX_BYTES_MIN, INT64_C(1) << 50, "BYTES",
      "of events kept on disk; the oldest go, or new ones are dropped while they are exported",
      PLACE(spool_max_bytes) },
    { "log-retention", NULL, SETTING_TEXT, "keep", 0, 0, "keep|DAYS",
      "how long rows of the request log are kept in Postgres", PLACE(log_retention_name) },
    { "caller-auth", "LLM_ROUTER_CALLER_AUTH", SETTING_TEXT, "keys", 0, 0, "keys|remote-user|none",
      "how callers are known: by the CALLER_KEYS entry, by the web server, or not at all",
      PLACE(caller_auth_name) },
    { "ready", "LLM_ROUTER_READY", SETTING_TEXT, "strict", 0, 0, "strict|serving",
      "/readyz is 503 when the store is down, or only while nothing can be served", PLACE(ready_name) },
    { "pools-alone", "LLM_ROUTER_POOLS_ALONE", SETTING_TEXT, "count", 0, 0, "count|refuse",
      "slots of pools while Redis does not answer: counted by each instance alone, or not given out",
      PLACE(pools_alone_name) },
    { "metrics-access", "LLM_ROUTER_METRICS_ACCESS", SETTING_TEXT, "loopback", 0, 0, "LIST",
      "comma-separated: who but administrators may read /metrics and /status: loopback, all, none, "
      "addresses, networks",
      PLACE(metrics_access_text) },
    { "admin-token-file", "LLM_ROUTER_ADMIN_TOKEN_FILE", SETTING_TEXT, NULL, 0, 0, "FILE",
      "its content, as a Bearer token, makes an administrator", PLACE(admin_token_file) },
    { "admin-emails", "LLM_ROUTER_ADMIN_EMAILS", SETTING_TEXT, NULL, 0, 0, "LIST",
      "comma-separated: who of REMOTE_USER is an administrator", PLACE(admin_emails) },
};

static struct router_settings settings;
static struct router_shared shared = { .settings = &settings };
static struct router_worker worker = { .shared = &shared };

/* The router serves what is not https all the same. */
static void report_no_trust(const struct error *why)
{
    log_line(LOG_WARN, "ca_file_unusable", "%s; no https upstream is trusted, and requests to them fail",
             why->text);
}

/* Before fork, so that all workers share what it makes. */
static void prepare_tls(void)
{
    struct error e;
    if (trust_warm(trust_store(&shared.trust), &e) != 0)
        log_line(LOG_WARN, "tls_not_warm", "%s; each worker takes more memory", e.text);
    if (session_cache_open(&shared.trust.sessions, &e) != 0)
        log_line(LOG_WARN, "tls_sessions_not_shared", "%s; each TLS handshake is a full one", e.text);
}

static void report_telemetry(const char *variable, const char *problem)
{
    log_line(LOG_WARN, "telemetry_setting_ignored", "%s: %s", variable, problem);
}

/* One that cannot be written costs events, and no request; one of two writers would cost events of both. */
static int claim_spool(struct error *e)
{
    int r = spool_claim(&shared.spool_plan, e);
    if (r == 0 || r == ERR_CONFLICT)
        return r;
    log_line(LOG_ERROR, "spool_unusable", "%s; events are dropped until it can be used", e->text);
    return 0;
}

/* Who only tries whether it could begin touches nothing; who serves one request does without others where it
 * cannot be among them. */
static int prepare_spool(const struct mapping *mapping, struct error *e)
{
    struct spool_plan *plan = &shared.spool_plan;
    int r = ERR_NOT_FOUND;

    *plan = (struct spool_plan){ .state_dir = settings.state_dir,
                                 .program = mapping->program,
                                 .max_bytes = (uint64_t)settings.spool_max_bytes };
    if (!settings.is_check)
        r = spool_shared_open(settings.engine.run_dir, plan->program, !settings.is_cgi, &plan->shared, e);
    if (r != 0 && (settings.is_check || settings.is_cgi))
        plan->shared = spool_shared_alone();
    else if (r != 0)
        return r;
    return settings.is_check || settings.is_cgi ? 0 : claim_spool(e);
}

/* Where events and values go. */
static int prepare_export(struct error *e)
{
    int r = shipper_read_settings(shared.spool_plan.program, &shared.otlp, e);
    bool is_read = shared.otlp.receivers[METRIC_SIGNAL_TRACES].is_on || shared.place.database_url != NULL;
    if (r == 0 && !settings.is_check)
        spool_resume(&shared.spool_plan, is_read);
    return r;
}

/* Without a token there is less to read for administrators, and callers are served. */
static void prepare_admins(void)
{
    struct error e;
    if (admins_read(settings.admin_token_file, settings.admin_emails, &settings.admins, &e) == 0)
        return;
    log_line(LOG_WARN, "admin_token_unusable", "%s; no token makes an administrator", e.text);
    settings.admins = (struct admins){ .emails = settings.admin_emails };
}

static int init_master(struct engine_process *process, struct error *e)
{
    int r = envelope_keys_from_environment(&shared.keys, e);
    shared.has_keys = r == 0;
    trace_policy_read(&settings.tracing, report_telemetry);
    if (r == ERR_NOT_FOUND)
        log_line(LOG_WARN, "no_master_key",
                 "neither LLM_ROUTER_MASTER_KEY nor LLM_ROUTER_MASTER_KEY_FILE is set: requests get "
                 "CONFIG_NOT_SET");
    else if (r != 0)
        return r;
    shared.place.state_dir = settings.state_dir;
    shared.place.keys = shared.has_keys ? &shared.keys : NULL;
    if ((r = store_place_from_environment(&shared.place, e)) != 0)
        return r;
    shared.trust = (struct trust){ .path = trust_file(settings.ca_file), .report = report_no_trust };
    if ((r = prepare_spool(process->mapping, e)) != 0)
        return r;
    if (!settings.is_cgi) {
        prepare_tls();
        prepare_admins();
        if ((r = prepare_export(e)) != 0)
            return r;
    }
    return exchange_init_master(e);
}

/* Who is there when an instance begins, as after a restart behind a socket that outlives
 * it, is to be served and not told that there is no configuration: the keeper looks first.
 * So are those who come after an upgrade, whose snapshots may be of another layout. One that cannot look
 * holds nobody up for longer than its store may. */
static void await_first_look(const struct mapping *mapping, uint64_t begun_us)
{
    const struct timespec pause = { .tv_nsec = 1000 * 1000 };
    uint64_t deadline = clock_monotonic_us() + STORE_TIMEOUT_MS * US_PER_MS;
    while (atomic_load_explicit(&mapping->keeper.checked_us, memory_order_acquire) <= begun_us &&
           clock_monotonic_us() < deadline)
        nanosleep(&pause, NULL);
}

/* Limits and slots are counted in Redis where there is one; it is connected to when one is asked for. */
static int prepare_admission(struct engine_process *process, struct error *e)
{
    int r = redis_client_open(&shared.place, &worker.admit.redis, e);
    worker.admit.shared = &process->mapping->admit;
    worker.admit.leases = scoreboard_leases(process->mapping);
    worker.admit.lease = &process->record->lease;
    pools_open(&worker.pools);
    worker.pools.shared = &process->mapping->pools;
    worker.pools.owners = scoreboard_pool_owners(process->mapping);
    worker.pools.own = &process->record->pool_owner;
    worker.pools.redis = worker.admit.redis;
    worker.pools.refuses_alone = settings.refuses_pools_alone;
    worker.pools.instance = process->mapping->instance;
    return r == ERR_NOT_FOUND ? 0 : r;
}

static int init_worker(struct engine_process *process, struct error *e)
{
    int r = prepare_admission(process, e);
    if (r != 0)
        return r;
    if (!settings.is_cgi) /* which is its own keeper */
        store_place_wipe(&shared.place);
    otlp_settings_wipe(&shared.otlp);
    worker.process = process;
    worker.arena = arena_new();
    r = exchange_open(&shared.trust, &worker.client, e);
    if (r != 0)
        return r;
    if (spool_open(&shared.spool_plan, &worker.spool, e) != 0)
        log_line(LOG_ERROR, "spool_unusable", "%s; events are dropped until it can be used", e->text);
    await_first_look(process->mapping, process->begun_us);
    return 0;
}

static void refresh(struct engine_process *process)
{
    (void)process;
    router_refresh(&worker);
}

static bool has_shaken_hands(const struct request_event *event)
{
    for (unsigned i = 0; i < event->n_attempts; i++) {
        if (event->attempts[i].tls_us > 0 && !event->attempts[i].is_reused)
            return true;
    }
    return false;
}

/* Of what a TLS handshake takes and frees, 60 kB would stay with each worker. To give them back takes a
 * hundredth of its time, and nobody waits for it. */
static void serve(struct engine_process *process, struct conn *conn)
{
    (void)process;
    edge_serve(&worker, conn);
    if (has_shaken_hands(&worker.event))
        malloc_trim(0);
}

const struct router_settings *router_settings(void)
{
    return &settings;
}

const struct spool_plan *router_spool_plan(void)
{
    return &shared.spool_plan;
}

static int run_overflow(struct engine_process *process)
{
    store_place_wipe(&shared.place);
    otlp_settings_wipe(&shared.otlp);
    session_cache_close(shared.trust.sessions);
    return overflow_run(&edge_voice, process);
}

/* The keeper's part. A refused configuration is as good as none: requests are told so. */
static int init_alone(struct engine_process *process, struct error *e)
{
    struct mapping *mapping = process->mapping;

    worker.snapshot_arena = arena_new();
    int r = configuration_load(&shared, worker.snapshot_arena, &worker.snapshot, e);
    if (r != 0 && r != ERR_FORMAT)
        return r;
    if (r == 0)
        worker.generation = 1;
    atomic_store_explicit(&mapping->generation, worker.generation, memory_order_relaxed);
    atomic_store_explicit(&process->record->generation, worker.generation, memory_order_relaxed);
    atomic_store_explicit(&mapping->keeper.is_store_ok, 1, memory_order_relaxed);
    atomic_store_explicit(&mapping->keeper.checked_us, clock_monotonic_us(), memory_order_relaxed);
    return 0;
}

static void worker_died(struct engine_process *process, const struct scoreboard_record *record)
{
    in_hand_append_death(&shared, process->mapping, process->slot, record);
}

static void request_slow(struct engine_process *process, const struct scoreboard_record *record)
{
    static struct in_hand_upstreams upstreams;
    upstreams.run_dir = process->settings->run_dir;
    in_hand_log_slow(&upstreams, record);
}

static int run_keeper(struct engine_process *process)
{
    otlp_settings_wipe(&shared.otlp);
    session_cache_close(shared.trust.sessions);
    return keeper_run(process, &shared);
}

/* Where there is a database, requests are logged in it. */
static int add_rows(struct shipper *shipper, struct error *e)
{
    struct sink sink;
    if (shared.place.database_url == NULL)
        return 0;
    int r = rows_sink_open(shared.place.database_url, settings.state_dir, settings.log_retention_days,
                           &shipper->process->mapping->telemetry, &sink, e);
    if (r == 0)
        shipper_add(shipper, &sink);
    return r;
}

static int run_shipper(struct engine_process *process)
{
    static struct shipper shipper;
    static struct pool_gauges pool_gauges;
    struct error e;

    session_cache_close(shared.trust.sessions);
    shipper_init(&shipper, process, METRIC_OF_ROUTER, &shared.spool_plan, &shared.otlp);
    shipper.on_tick = pool_gauges_read;
    shipper.tick_ctx = &pool_gauges;
    int r = pool_gauges_open(&pool_gauges, process, &shared.place, &e);
    if (r == 0)
        r = add_rows(&shipper, &e);
    store_place_wipe(&shared.place);
    if (r != 0 || shipper_add_otlp(&shipper, METRIC_SIGNAL_TRACES, &e) != 0 ||
        shipper_add_otlp(&shipper, METRIC_SIGNAL_METRICS, &e) != 0) {
        log_line(LOG_ERROR, "sink_failed", "%s", e.text);
        return 1;
    }
    return shipper_run(&shipper);
}

static const struct engine_role roles[] = {
    { .name = "keeper", .run = run_keeper, .follows_hangups = true },
    { .name = "overflow", .run = run_overflow, .has_listeners = true },
    { .name = "shipper", .run = run_shipper },
};

static const struct engine_program program = {
    .name = "llm-router",
    .roles = roles,
    .n_roles = sizeof(roles) / sizeof(roles[0]),
    .init_master = init_master,
    .init_worker = init_worker,
    .refresh = refresh,
    .serve = serve,
    .init_alone = init_alone,
    .worker_died = worker_died,
    .request_slow = request_slow,
    /* For the parameters, which a web server sends in one go: a peer that does not
     * holds a worker. The tree's clientStallTimeoutMs holds from then on. */
    .stall_ms = 10000,
};

/* Which of `names` the value is; says so if it is none. */
static int choose(const char *flag, const char *value, const char *const names[], int n_names)
{
    for (int i = 0; i < n_names; i++) {
        if (strcmp(value, names[i]) == 0)
            return i;
    }
    fprintf(stderr, "llm-router: --%s: \"%s\" is not one of", flag, value);
    for (int i = 0; i < n_names; i++)
        fprintf(stderr, " %s", names[i]);
    fputc('\n', stderr);
    return -1;
}

/* Of the overflow process, which a CGI program has none of. */
static int read_access(void)
{
    struct error e;

    if (address_list_read(settings.metrics_access_text, &settings.metrics_access, &e) != 0) {
        fprintf(stderr, "llm-router: --metrics-access: %s\n", e.text);
        return -1;
    }
    return 0;
}

/* "keep", or days. */
static int read_log_retention(void)
{
    enum { DAYS_MAX = 36500 };
    char *end;
    const char *text = settings.log_retention_name;
    long days = strtol(text, &end, 10);
    bool is_number = text[0] >= '0' && text[0] <= '9' && *end == '\0';
    if (strcmp(text, "keep") == 0)
        return 0;
    if (!is_number || days < 1 || days > DAYS_MAX) {
        fprintf(stderr,
                "llm-router: --log-retention: \"%s\" is neither \"keep\" nor a number of days from 1 to %d\n",
                text, DAYS_MAX);
        return -1;
    }
    settings.log_retention_days = (unsigned)days;
    return 0;
}

static int check_pool(void)
{
    static const char *const pms[] = {
        [POOL_STATIC] = "static",
        [POOL_DYNAMIC] = "dynamic",
        [POOL_ONDEMAND] = "ondemand",
    };
    struct engine_settings *engine = &settings.engine;
    int pm = choose("pm", settings.pm_name, pms, sizeof(pms) / sizeof(pms[0]));

    if (pm < 0)
        return -1;
    engine->pm = (enum pool_mode)pm;
    if (engine->pm == POOL_STATIC && engine->max_workers > 0) {
        fputs("llm-router: --max-workers: with --pm static there are as many as --workers says\n", stderr);
        return -1;
    }
    if (engine->max_workers == 0)
        engine->max_workers = engine->workers;
    if (engine->pm != POOL_DYNAMIC || (engine->min_spare_workers <= engine->max_spare_workers &&
                                       engine->max_spare_workers <= engine->max_workers))
        return 0;
    fprintf(
        stderr,
        "llm-router: --min-spare-workers (%lld), --max-spare-workers (%lld) and --max-workers (%lld) must "
        "not fall\n",
        (long long)engine->min_spare_workers, (long long)engine->max_spare_workers,
        (long long)engine->max_workers);
    return -1;
}

/* What the table of rows cannot say. */
static int check_settings(void)
{
    static const char *const auths[] = {
        [CALLER_AUTH_KEYS] = "keys",
        [CALLER_AUTH_REMOTE_USER] = "remote-user",
        [CALLER_AUTH_NONE] = "none",
    };
    static const char *const readies[] = { "serving", "strict" };
    static const char *const alones[] = { "count", "refuse" };

    int auth = choose("caller-auth", settings.caller_auth_name, auths, sizeof(auths) / sizeof(auths[0]));
    int ready = choose("ready", settings.ready_name, readies, sizeof(readies) / sizeof(readies[0]));
    int alone = choose("pools-alone", settings.pools_alone_name, alones, sizeof(alones) / sizeof(alones[0]));
    if (auth < 0 || ready < 0 || alone < 0 || read_log_retention() != 0 || check_pool() != 0)
        return -1;
    settings.caller_auth = (enum caller_auth)auth;
    settings.is_ready_strict = ready == 1;
    settings.refuses_pools_alone = alone == 1;
    if (!settings.is_cgi && read_access() != 0)
        return -1;
    if (settings.body_memory_bytes >= settings.max_body_bytes)
        return 0;
    fprintf(stderr, "llm-router: --body-memory-bytes: %lld is less than one body may have (%lld)\n",
            (long long)settings.body_memory_bytes, (long long)settings.max_body_bytes);
    return -1;
}

int main(int argc, char **argv)
{
    settings.is_cgi = engine_is_cgi();
    if (settings.is_cgi)
        argc = 1; /* the rest is the caller's query */
    enum settings_result r = settings_read(rows, sizeof(rows) / sizeof(rows[0]), "llm-router",
                                           "serves LLM requests over FastCGI", argc, argv, &settings);
    if (r != SETTINGS_RUN && r != SETTINGS_CHECK)
        return r == SETTINGS_EXIT_OK ? 0 : 2;
    if (check_settings() != 0)
        return 2;
    char health[PATH_MAX];
    snprintf(health, sizeof(health), "unix:%s/health.sock", settings.engine.run_dir);
    settings.engine.health = health;
    settings.engine.argv = argv;
    settings.is_check = r == SETTINGS_CHECK;
    if (settings.is_check)
        return engine_check(&program, &settings.engine);
    return settings.is_cgi ? engine_run_cgi(&program, &settings.engine)
                           : engine_run(&program, &settings.engine);
}
