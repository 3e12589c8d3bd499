/*
 * The master: makes what is shared, forks, replaces what dies, and ends all of
 * it in order. It does no network I/O and serves nobody.
 */
#include "fcgi/engine/engine.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory_secrecy.h"
#include "core/log/log.h"
#include "fcgi/engine/child.h"
#include "fcgi/engine/child_log.h"
#include "fcgi/engine/listener.h"
#include "fcgi/engine/pidfile.h"

enum {
    YOUNG_US = 1000 * 1000,      /* a child that dies younger is not started again at once */
    DELAY_FIRST_US = 100 * 1000, /* doubled with each such death */
    DELAY_MAX_US = 5000 * 1000,
    KILL_AFTER_US = 1000 * 1000, /* from SIGQUIT to SIGKILL */
    LOOK_US = 1000 * 1000,       /* at requests that may have passed their limit */
};

/* One place for a process: a role, or a worker. */
struct child {
    pid_t pid;                      /* 0: not running */
    const struct engine_role *role; /* NULL: a worker */
    unsigned slot;
    uint64_t started_us;
    uint64_t start_at_us; /* not before */
    uint64_t delay_us;
};

enum phase { RUNNING, DRAINING, ENDING };

struct master {
    const struct engine_program *program;
    const struct engine_settings *settings;
    struct mapping *mapping;
    struct listener listener, health;
    struct child_log child_log;
    struct child *children;
    size_t n_children;
    enum phase phase;
    uint64_t phase_ends_us; /* when patience with the children ends */
    int signals;            /* signalfd */
    sigset_t handled;
    int pidfile;
};

static struct scoreboard_record *record_of(const struct master *m, const struct child *child)
{
    return child->role == NULL ? &m->mapping->workers[child->slot] : NULL;
}

static const char *role_name(const struct child *child)
{
    return child->role != NULL ? child->role->name : "worker";
}

static _Noreturn void child_main(struct master *m, const struct child *child, pid_t master_pid)
{
    struct engine_process process = {
        .settings = m->settings,
        .mapping = m->mapping,
        .slot = child->slot,
        .record = record_of(m, child),
    };
    prctl(PR_SET_NAME, role_name(child)); /* who is who in ps(1) and /proc/PID/comm */
    close(m->signals);
    close(m->pidfile);
    child_log_attach(&m->child_log);
    child_begin(&process, master_pid);
    /* Who waits at a socket learns that nobody will answer when the last holder of it closes. */
    bool has_health = child->role != NULL && child->role->has_listeners;
    if (!has_health && m->health.fd >= 0)
        close(m->health.fd);
    if (child->role == NULL)
        exit(worker_run(m->program, &process, &m->listener));
    if (child->role->has_listeners) {
        process.listener = &m->listener;
        process.health = &m->health;
    } else {
        close(m->listener.fd);
    }
    exit(child->role->run(&process));
}

static void start(struct master *m, struct child *child)
{
    struct scoreboard_record *record = record_of(m, child);
    pid_t master_pid = getpid();

    child->started_us = clock_monotonic_us();
    pid_t pid = fork();
    if (pid == 0)
        child_main(m, child, master_pid);
    if (pid < 0) {
        log_line(LOG_ERROR, "fork_failed", "%s", strerror(errno));
        child->start_at_us = child->started_us + DELAY_MAX_US;
        return;
    }
    child->pid = pid;
    if (record != NULL)
        atomic_store_explicit(&record->pid, pid, memory_order_release);
}

static void start_missing(struct master *m)
{
    uint64_t now = clock_monotonic_us();
    for (size_t i = 0; i < m->n_children; i++) {
        if (m->children[i].pid == 0 && m->children[i].start_at_us <= now)
            start(m, &m->children[i]);
    }
}

static void send_all(const struct master *m, int signal, bool to_workers)
{
    for (size_t i = 0; i < m->n_children; i++) {
        const struct child *child = &m->children[i];
        if (child->pid > 0 && (to_workers || child->role != NULL))
            kill(child->pid, signal);
    }
}

static size_t count_running(const struct master *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_children; i++)
        n += m->children[i].pid > 0 ? 1 : 0;
    return n;
}

static bool is_in_hand(const struct scoreboard_record *record)
{
    return atomic_load_explicit(&record->request.started_us, memory_order_acquire) != 0;
}

/* A death that nobody asked for: what it was doing, and how it died. */
static void report_death(const struct master *m, const struct child *child, int status)
{
    const struct scoreboard_record *record = record_of(m, child);
    struct json_writer *w = log_begin(LOG_ERROR, "child_died");

    jw_member_cstr(w, "role", role_name(child));
    jw_member_int(w, "child_pid", child->pid);
    if (WIFSIGNALED(status))
        jw_member_int(w, "signal", WTERMSIG(status));
    else
        jw_member_int(w, "exit_status", WEXITSTATUS(status));
    if (record != NULL) {
        enum stage stage = (enum stage)atomic_load_explicit(&record->stage, memory_order_acquire);
        jw_member_cstr(w, "stage", stage_name(stage));
        if (is_in_hand(record) && record->request.request_id[0] != '\0')
            jw_member_cstr(w, "request_id", record->request.request_id);
    }
    log_end();
    if (child->role == NULL)
        telemetry_add(&m->mapping->telemetry, METRIC_WORKER_DEATHS, 0, 1);
}

/* Frees the record of a worker that has ended. A request that ended with it, also
 * when we asked for that, has nobody else to tell of it. */
static void reclaim(const struct master *m, const struct child *child)
{
    struct scoreboard_record *record = record_of(m, child);

    if (is_in_hand(record) && m->program->worker_died != NULL) {
        struct engine_process process = { .settings = m->settings,
                                          .mapping = m->mapping,
                                          .slot = child->slot };
        m->program->worker_died(&process, record);
    }
    scoreboard_end_request(record);
    scoreboard_release_body(record);
    atomic_store_explicit(&record->spool_segment, 0, memory_order_release);
    atomic_store_explicit(&record->generation, 0, memory_order_relaxed);
    atomic_store_explicit(&record->requests, 0, memory_order_relaxed);
    scoreboard_enter(record, STAGE_FREE);
    atomic_store_explicit(&record->pid, 0, memory_order_release);
}

static void reap_one(struct master *m, pid_t pid, int status)
{
    for (size_t i = 0; i < m->n_children; i++) {
        struct child *child = &m->children[i];
        uint64_t now = clock_monotonic_us();
        if (child->pid != pid)
            continue;
        bool is_expected = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (m->phase != ENDING && !is_expected)
            report_death(m, child, status);
        if (child->role == NULL)
            reclaim(m, child);
        child->pid = 0;
        if (is_expected || now - child->started_us >= YOUNG_US)
            child->delay_us = 0;
        else
            child->delay_us = child->delay_us == 0 ? DELAY_FIRST_US : child->delay_us * 2;
        if (child->delay_us > DELAY_MAX_US)
            child->delay_us = DELAY_MAX_US;
        child->start_at_us = now + child->delay_us;
        return;
    }
}

static void reap(struct master *m)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        reap_one(m, pid, status);
}

static void close_listeners(struct master *m)
{
    listener_close(&m->listener);
    listener_close(&m->health);
}

/* From here on nobody new is let in; requests in hand go on. */
static void drain(struct master *m)
{
    if (m->phase != RUNNING)
        return;
    m->phase = DRAINING;
    m->phase_ends_us = clock_monotonic_us() + (uint64_t)m->settings->drain_timeout_ms * US_PER_MS;
    log_line(LOG_INFO, "draining", "requests in hand have %lld ms", (long long)m->settings->drain_timeout_ms);
    close_listeners(m);
    send_all(m, SIGTERM, true);
}

static void end_now(struct master *m)
{
    if (m->phase == ENDING)
        return;
    m->phase = ENDING;
    m->phase_ends_us = clock_monotonic_us() + KILL_AFTER_US;
    close_listeners(m);
    send_all(m, SIGQUIT, true);
}

static void lose_patience(struct master *m)
{
    if (m->phase == DRAINING) {
        log_line(LOG_WARN, "drain_timeout", "%zu processes are ended with their requests", count_running(m));
        end_now(m);
    } else if (m->phase == ENDING) {
        send_all(m, SIGKILL, true);
        m->phase_ends_us = clock_monotonic_us() + KILL_AFTER_US;
    }
}

static void take_signals(struct master *m)
{
    struct signalfd_siginfo info;
    while (read(m->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGTERM:
            drain(m);
            break;
        case SIGINT:
        case SIGQUIT:
            end_now(m);
            break;
        case SIGHUP:
            send_all(m, SIGHUP, false);
            break;
        default:
            break; /* SIGCHLD: reaped after every wake-up; SIGUSR1, SIGUSR2: nothing yet, and no reason to die
                    */
        }
    }
}

/* Milliseconds until something is due; -1: nothing is. */
static int next_due_ms(const struct master *m)
{
    uint64_t due = m->phase == RUNNING ? UINT64_MAX : m->phase_ends_us;
    uint64_t now = clock_monotonic_us();

    for (size_t i = 0; m->phase == RUNNING && i < m->n_children; i++) {
        if (m->children[i].pid == 0 && m->children[i].start_at_us < due)
            due = m->children[i].start_at_us;
    }
    if (m->settings->request_limit_ms > 0 && now + LOOK_US < due)
        due = now + LOOK_US;
    if (due == UINT64_MAX)
        return -1;
    return due <= now ? 0 : (int)((due - now + 999) / 1000);
}

/* A request beyond its limit ends with its worker: there is no other way to take
 * it out of a hand that does not let go. */
static void end_late_requests(const struct master *m)
{
    uint64_t limit_us = (uint64_t)m->settings->request_limit_ms * US_PER_MS;
    uint64_t now = clock_monotonic_us();

    for (size_t i = 0; limit_us > 0 && i < m->n_children; i++) {
        const struct child *child = &m->children[i];
        if (child->role != NULL || child->pid == 0)
            continue;
        const struct scoreboard_request *request = &record_of(m, child)->request;
        uint64_t started = atomic_load_explicit(&request->started_us, memory_order_acquire);
        if (started == 0 || now < started + limit_us)
            continue;
        log_line(LOG_ERROR, "request_limit", "a request has taken %llu ms; its worker %ld is ended",
                 (unsigned long long)((now - started) / US_PER_MS), (long)child->pid);
        kill(child->pid, SIGKILL);
    }
}

static void supervise(struct master *m)
{
    struct pollfd p[] = {
        { .fd = m->signals, .events = POLLIN },
        { .fd = m->child_log.read_fd, .events = POLLIN },
    };

    start_missing(m);
    while (m->phase == RUNNING || count_running(m) > 0) {
        poll(p, 2, next_due_ms(m));
        child_log_take(&m->child_log);
        take_signals(m);
        reap(m);
        end_late_requests(m);
        if (m->phase == RUNNING)
            start_missing(m);
        else if (clock_monotonic_us() >= m->phase_ends_us)
            lose_patience(m);
    }
    child_log_end(&m->child_log); /* what the last one said before it was reaped */
}

static void list_children(struct master *m)
{
    size_t n_workers = (size_t)m->settings->workers;
    m->n_children = m->program->n_roles + n_workers;
    m->children = xcalloc(m->n_children, sizeof(*m->children));
    for (size_t i = 0; i < m->program->n_roles; i++)
        m->children[i].role = &m->program->roles[i];
    for (size_t i = 0; i < n_workers; i++)
        m->children[m->program->n_roles + i].slot = (unsigned)i;
}

static int prepare(struct master *m, struct error *e)
{
    struct engine_process process = { .settings = m->settings };
    int r;

    if ((r = memory_keep_secret(e)) != 0)
        return r;
    if ((r = file_make_dirs(m->settings->run_dir, 0750, e)) != 0)
        return r;
    if ((r = pidfile_take(m->settings->run_dir, m->program->name, &m->pidfile, e)) != 0)
        return r;
    r = mapping_create(m->settings->run_dir, m->program->name, (unsigned)m->settings->workers, &m->mapping,
                       e);
    if (r != 0)
        return r;
    process.mapping = m->mapping;
    if ((r = m->program->init_master(&process, e)) != 0)
        return r;
    if ((r = child_log_open(&m->child_log, e)) != 0)
        return r;
    if (m->settings->health != NULL && (r = listener_open(m->settings->health, &m->health, e)) != 0)
        return r;
    return listener_open(m->settings->listen, &m->listener, e);
}

int engine_run(const struct engine_program *program, const struct engine_settings *settings)
{
    struct master m = {
        .program = program,
        .settings = settings,
        .listener = { .fd = -1 },
        .health = { .fd = -1 },
        .signals = -1,
        .pidfile = -1,
    };
    static const int handled[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGCHLD, SIGUSR1, SIGUSR2 };
    struct error e;

    log_init(program->name);
    /* Of the children too. Whoever reads the log may end before we do, and a file
     * may be allowed to grow no more: that write fails, and no process with it. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (prepare(&m, &e) != 0) {
        log_line(LOG_ERROR, "start_failed", "%s", e.text);
        if (m.pidfile >= 0)
            pidfile_release(m.pidfile);
        return 1;
    }
    sigemptyset(&m.handled);
    for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
        sigaddset(&m.handled, handled[i]);
    sigprocmask(SIG_BLOCK, &m.handled, NULL);
    m.signals = signalfd(-1, &m.handled, SFD_CLOEXEC | SFD_NONBLOCK);
    if (m.signals < 0) {
        log_line(LOG_ERROR, "start_failed", "signalfd: %s", strerror(errno));
        return 1;
    }
    list_children(&m);
    malloc_trim(0); /* what the start has freed: a child that writes to it gets a copy */
    log_line(LOG_INFO, "started", "%lld workers", (long long)settings->workers);
    supervise(&m);
    log_line(LOG_INFO, "stopped", "all processes have ended");
    free(m.children);
    pidfile_release(m.pidfile);
    return 0;
}
