/*
 * The master: makes what is shared, forks, replaces what dies, and ends all of
 * it in order. It does no network I/O and serves nobody.
 */
#include "fcgi/engine/master_internal.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/file.h"
#include "core/base/memory_secrecy.h"
#include "core/log/log.h"
#include "fcgi/engine/notify.h"
#include "fcgi/engine/pidfile.h"

enum {
    KILL_AFTER_US = 1000 * 1000, /* from SIGQUIT to SIGKILL */
    READY_LOOK_US = 20 * 1000,   /* at workers that begin, and at what a SIGHUP has led to */
    FOLLOW_US = 5 * 1000 * 1000, /* until a SIGHUP that nobody follows holds up no supervisor */
};

/* --- phases --- */

static void close_listeners(struct master *m)
{
    listener_close(&m->listener);
    listener_close(&m->health);
}

/* From here on nobody new is let in; requests in hand go on. */
static void drain(struct master *m)
{
    if (m->phase != RUNNING && m->phase != UPGRADING)
        return;
    m->phase = DRAINING;
    m->phase_ends_us = clock_monotonic_us() + (uint64_t)m->settings->drain_timeout_ms * US_PER_MS;
    log_line(LOG_INFO, "draining", "requests in hand have %lld ms", (long long)m->settings->drain_timeout_ms);
    notify_send("STOPPING=1");
    close_listeners(m);
    children_signal(m, SIGTERM, true);
}

static void end_now(struct master *m)
{
    if (m->phase == ENDING)
        return;
    m->phase = ENDING;
    m->phase_ends_us = clock_monotonic_us() + KILL_AFTER_US;
    notify_send("STOPPING=1");
    close_listeners(m);
    children_signal(m, SIGQUIT, true);
}

static void lose_patience(struct master *m)
{
    if (m->phase == DRAINING) {
        log_line(LOG_WARN, "drain_timeout", "%zu processes are ended with their requests",
                 children_running(m));
        end_now(m);
        return;
    }
    if (m->phase == UPGRADING) {
        upgrade_lose_patience(m);
        return;
    }
    children_signal(m, SIGKILL, true);
    m->phase_ends_us = clock_monotonic_us() + KILL_AFTER_US;
}

/* --- the loop --- */

/* The time comes first: what is followed later than that is this one. */
static void hang_up(struct master *m)
{
    notify_reloading();
    m->is_ready_told = false;
    for (size_t i = 0; i < m->program->n_roles; i++) {
        if (m->program->roles[i].follows_hangups)
            m->hangup_us = clock_monotonic_us();
    }
    children_signal(m, SIGHUP, false);
}

/* Whether what SIGHUP asked for is in force, or is not waited for any more. */
static bool is_hangup_over(struct master *m, uint64_t now)
{
    if (m->hangup_us == 0)
        return true;
    if (atomic_load_explicit(&m->mapping->keeper.followed_us, memory_order_acquire) < m->hangup_us) {
        if (now - m->hangup_us < FOLLOW_US)
            return false;
        log_line(LOG_WARN, "reload_late",
                 "the store has not been read for %d s; the configuration before stays in force",
                 FOLLOW_US / (1000 * 1000));
    }
    m->hangup_us = 0;
    return true;
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
            hang_up(m);
            break;
        case SIGUSR2:
            upgrade_begin(m);
            break;
        default:
            break; /* SIGCHLD: reaped after every wake-up; SIGUSR1: nothing, and no reason to die */
        }
    }
}

/* The supervisor. */
static void tell_supervisor(struct master *m)
{
    uint64_t now = clock_monotonic_us();

    if (m->phase == RUNNING && m->check == 0 && !m->is_ready_told && is_hangup_over(m, now) &&
        children_serve(m)) {
        m->is_ready_told = true;
        notify_send("READY=1");
    }
    if (m->watchdog_us > 0 && now >= m->watchdog_at_us) {
        m->watchdog_at_us = now + m->watchdog_us;
        notify_send("WATCHDOG=1");
    }
}

/* Milliseconds until something is due; -1: nothing is. */
static int next_due_ms(const struct master *m)
{
    uint64_t due = children_due_us(m), now = clock_monotonic_us();

    if (m->phase != RUNNING && m->phase_ends_us < due)
        due = m->phase_ends_us;
    if (m->check > 0 && m->check_ends_us < due)
        due = m->check_ends_us;
    if (m->watchdog_us > 0 && m->watchdog_at_us < due)
        due = m->watchdog_at_us;
    if (!m->is_ready_told && m->phase == RUNNING && now + READY_LOOK_US < due)
        due = now + READY_LOOK_US;
    if (due == UINT64_MAX)
        return -1;
    return due <= now ? 0 : (int)((due - now + 999) / 1000);
}

static void supervise(struct master *m)
{
    struct pollfd p[] = {
        { .fd = m->signals, .events = POLLIN },
        { .fd = m->child_log.read_fd, .events = POLLIN },
        { .fd = m->need, .events = POLLIN },
    };
    uint64_t told;

    children_keep(m);
    while (m->phase == RUNNING || m->phase == UPGRADING || children_running(m) > 0) {
        poll(p, 3, next_due_ms(m));
        (void)!read(m->need, &told, sizeof(told)); /* how many wait, the mapping says */
        child_log_take(&m->child_log);
        take_signals(m);
        children_reap(m);
        children_end_late(m);
        upgrade_end_late_check(m);
        tell_supervisor(m);
        if (m->phase == UPGRADING)
            upgrade_go_on(m);
        children_keep(m);
        if (m->phase != RUNNING && clock_monotonic_us() >= m->phase_ends_us)
            lose_patience(m);
    }
    child_log_end(&m->child_log); /* what the last one said before it was reaped */
}

/* --- the beginning --- */

struct pool_policy engine_pool(const struct engine_settings *settings)
{
    return (struct pool_policy){
        .mode = settings->pm,
        .max = (unsigned)(settings->pm == POOL_STATIC ? settings->workers : settings->max_workers),
        .min_spare = (unsigned)settings->min_spare_workers,
        .max_spare = (unsigned)settings->max_spare_workers,
        .idle_timeout_us = (uint64_t)settings->idle_timeout_ms * US_PER_MS,
    };
}

unsigned engine_records(const struct engine_settings *settings)
{
    return 2 * engine_pool(settings).max;
}

/* What is made anew unless a master before this one hands it over. */
static int make_shared(struct master *m, struct error *e)
{
    const char *run_dir = m->settings->run_dir, *name = m->program->name;
    int r;

    if ((r = file_make_dirs(run_dir, 0750, e)) != 0)
        return r;
    if ((r = pidfile_take(run_dir, name, &m->pidfile, e)) != 0)
        return r;
    if ((r = environment_keep_secrets(e)) != 0)
        return r;
    if ((r = child_log_open(&m->child_log, e)) != 0)
        return r;
    return mapping_create(run_dir, name, engine_records(m->settings), &m->mapping, e);
}

static int open_listeners(struct master *m, struct error *e)
{
    int r = 0;
    if (m->settings->health != NULL && m->health.fd < 0)
        r = listener_open(m->settings->health, &m->health, e);
    if (r == 0 && m->listener.fd < 0)
        r = listener_open(m->settings->listen, &m->listener, e);
    return r;
}

static int prepare(struct master *m, struct error *e)
{
    struct engine_process process = { .settings = m->settings };
    struct handover handover = { .workers = NULL };
    bool is_same_mapping = false;
    int r, file = handover_take();

    if ((r = memory_keep_secret(e)) != 0)
        return r;
    r = file >= 0 ? upgrade_adopt(m, file, &handover, &is_same_mapping, e) : make_shared(m, e);
    if (r != 0)
        goto out;
    process.mapping = m->mapping;
    if ((r = m->program->init_master(&process, e)) != 0)
        goto out;
    m->secrets = environment_seal_kept();
    if ((r = open_listeners(m, e)) != 0)
        goto out;
    m->need = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->need < 0) {
        r = error_set(e, ERR_SYSTEM, "eventfd: %s", strerror(errno));
        goto out;
    }
    children_init(m, file >= 0 ? &handover : NULL, is_same_mapping);
out:
    handover_free(&handover);
    return r;
}

/* Of the children too. Whoever reads the log may end before we do, and a file
 * may be allowed to grow no more: that write fails, and no process with it. */
static void ignore_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static int check_addresses(const struct engine_settings *settings, struct error *e)
{
    int r = settings->listen == NULL ? 0 : listener_check(settings->listen, e);
    return r != 0 || settings->health == NULL ? r : listener_check(settings->health, e);
}

int engine_check(const struct engine_program *program, const struct engine_settings *settings)
{
    struct engine_process process = { .settings = settings };
    struct handover handover = { .workers = NULL, .secrets = -1 };
    struct error e;
    int file = handover_take();

    log_init(program->name);
    ignore_signals();
    int r = memory_keep_secret(&e);
    if (r == 0)
        r = check_addresses(settings, &e);
    if (r == 0 && file >= 0)
        r = handover_read(file, program->name, &handover, &e);
    if (r == 0 && handover.secrets >= 0)
        r = environment_restore_secrets(handover.secrets, &e);
    if (r == 0) {
        process.mapping = mapping_alone(program->name, engine_records(settings));
        r = program->init_master(&process, &e);
        mapping_close(process.mapping);
    }
    environment_close_kept();
    handover_free(&handover);
    if (r != 0)
        log_line(LOG_ERROR, "check_failed", "%s", e.text);
    return r == 0 ? 0 : 1;
}

int engine_run(const struct engine_program *program, const struct engine_settings *settings)
{
    struct master m = {
        .program = program,
        .settings = settings,
        .begun_us = clock_monotonic_us(),
        .watchdog_us = notify_watchdog_us(),
        .listener = { .fd = -1 },
        .health = { .fd = -1 },
        .signals = -1,
        .need = -1,
        .pidfile = -1,
        .secrets = -1,
    };
    static const int handled[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGCHLD, SIGUSR1, SIGUSR2 };
    struct error e;

    log_init(program->name);
    ignore_signals();
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
    malloc_trim(0); /* what the start has freed: a child that writes to it gets a copy */
    log_line(LOG_INFO, "started", "%s%u workers", settings->pm == POOL_STATIC ? "" : "at most ",
             engine_pool(settings).max);
    supervise(&m);
    log_line(LOG_INFO, "stopped", "all processes have ended");
    free(m.children);
    environment_close_kept();
    pidfile_release(m.pidfile);
    return 0;
}
