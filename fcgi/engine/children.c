/* The master's children: who is forked, replaced and told to leave. */
#include "fcgi/engine/master_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/log/log.h"
#include "fcgi/engine/child.h"

enum {
    YOUNG_US = 1000 * 1000,      /* a child that dies younger is not started again at once */
    DELAY_FIRST_US = 100 * 1000, /* doubled with each such death, and with each fork that fails */
    DELAY_MAX_US = 5000 * 1000,
    LOOK_US = 1000 * 1000, /* at requests that may have passed their limit */
    RELIEF_US = 20 * 1000, /* at new workers, while old ones wait to be relieved */
};

static const char *role_name(const struct child *child)
{
    return child->role != NULL ? child->role->name : "worker";
}

static bool is_worker_running(const struct child *child)
{
    return child->role == NULL && child->pid > 0;
}

static bool is_in_stage(const struct child *child, enum stage stage)
{
    return child->record != NULL &&
           atomic_load_explicit(&child->record->stage, memory_order_acquire) == (uint32_t)stage;
}

/* UINT64_MAX if it is not idle. */
static uint64_t idle_since_us(const struct child *child)
{
    if (!is_in_stage(child, STAGE_IDLE))
        return UINT64_MAX;
    return atomic_load_explicit(&child->record->since_us, memory_order_relaxed);
}

/* --- starting --- */

static _Noreturn void child_main(struct master *m, const struct child *child, pid_t master)
{
    struct engine_process process = {
        .settings = m->settings,
        .mapping = m->mapping,
        .slot = child->slot,
        .record = child->record,
        .master = master,
        .begun_us = m->begun_us,
        .need = m->need,
    };
    prctl(PR_SET_NAME, role_name(child)); /* who is who in ps(1) and /proc/PID/comm */
    close(m->signals);
    close(m->pidfile);
    if (child->role == NULL)
        close(m->need);
    environment_close_kept();
    child_log_attach(&m->child_log);
    /* Who waits at a socket that is not ours to shut learns that nobody will answer when its last holder
     * closes it. */
    bool has_health = child->role != NULL && child->role->has_listeners;
    bool has_listener = has_health || child->role == NULL;
    bool can_shut = has_listener || listener_is_ours(&m->listener);
    if (!has_health && m->health.fd >= 0)
        close(m->health.fd);
    if (!can_shut)
        close(m->listener.fd);
    child_begin(&process, can_shut ? &m->listener : NULL, has_health ? &m->health : NULL);
    if (child->role == NULL)
        exit(worker_run(m->program, &process, &m->listener));
    process.listener = has_listener ? &m->listener : NULL;
    process.health = has_health ? &m->health : NULL;
    exit(child->role->run(&process));
}

static uint64_t next_delay_us(uint64_t delay_us)
{
    if (delay_us == 0)
        return DELAY_FIRST_US;
    return delay_us < DELAY_MAX_US / 2 ? delay_us * 2 : DELAY_MAX_US;
}

/* What one child lacks, processes or memory, the next one lacks as well: after a fork that
 * failed none is tried for a while. */
static bool may_start(const struct master *m, uint64_t now)
{
    return m->start_at_us <= now;
}

static void start(struct master *m, struct child *child)
{
    pid_t master = getpid();

    child->started_us = clock_monotonic_us();
    pid_t pid = fork();
    if (pid == 0)
        child_main(m, child, master);
    if (pid < 0) {
        m->start_delay_us = next_delay_us(m->start_delay_us);
        m->start_at_us = child->started_us + m->start_delay_us;
        log_line(LOG_ERROR, "fork_failed", "%s; tried again in %llu ms", strerror(errno),
                 (unsigned long long)(m->start_delay_us / US_PER_MS));
        return;
    }
    m->start_delay_us = m->start_at_us = 0;
    child->pid = pid;
    if (child->record != NULL)
        atomic_store_explicit(&child->record->pid, pid, memory_order_release);
}

/* A free place for a worker. One whose last worker died young has it first, so that its
 * delay goes on growing. */
static struct child *find_place(const struct master *m, uint64_t now)
{
    struct child *found = NULL;
    for (size_t i = m->program->n_roles; i < m->n_places; i++) {
        struct child *child = &m->children[i];
        if (child->pid == 0 && child->start_at_us <= now &&
            (found == NULL || child->delay_us > found->delay_us))
            found = child;
    }
    return found;
}

/* --- how many there are --- */

struct counts {
    unsigned mine;  /* workers of this program that stay */
    unsigned ready; /* of them, those that have begun to serve */
    unsigned owed;  /* that died young, and will be started */
    unsigned old;   /* of the program before, that serve and were not told to leave yet */
    unsigned idle;  /* of mine and the old ones */
    uint64_t longest_idle_us;
};

static struct counts count_workers(const struct master *m, uint64_t now)
{
    struct counts counts = { 0 };
    for (size_t i = m->program->n_roles; i < m->n_children; i++) {
        const struct child *child = &m->children[i];
        if (child->pid == 0) {
            counts.owed += child->start_at_us > now;
            continue;
        }
        if (child->is_leaving)
            continue;
        bool is_ready = !is_in_stage(child, STAGE_FREE);
        if (child->is_old) {
            counts.old += is_ready;
        } else {
            counts.mine++;
            counts.ready += is_ready;
        }
        counts.idle += is_in_stage(child, STAGE_IDLE);
        uint64_t since_us = idle_since_us(child); /* of one that has just become idle, after `now` */
        if (since_us < now && now - since_us > counts.longest_idle_us)
            counts.longest_idle_us = now - since_us;
    }
    return counts;
}

/* The request in hand goes on; no other is taken. */
static void tell_to_leave(struct master *m, struct child *child)
{
    child->is_leaving = true;
    child->leave_by_us = clock_monotonic_us() + (uint64_t)m->settings->drain_timeout_ms * US_PER_MS;
    kill(child->pid, SIGUSR1);
}

/* Of the old workers, or of ours, the one that has been idle for longest, else any. */
static struct child *find_leaver(const struct master *m, bool is_old)
{
    struct child *found = NULL;
    uint64_t found_since = UINT64_MAX;
    for (size_t i = m->program->n_roles; i < m->n_children; i++) {
        struct child *child = &m->children[i];
        if (!is_worker_running(child) || child->is_old != is_old || child->is_leaving)
            continue;
        uint64_t since = idle_since_us(child);
        if (found == NULL || since < found_since) {
            found = child;
            found_since = since;
        }
    }
    return found;
}

static unsigned decide(struct master *m, const struct counts *counts, uint64_t now)
{
    const struct pool_policy policy = engine_pool(m->settings);
    const struct pool_facts facts = {
        .now_us = now,
        .running = counts->mine + counts->owed,
        .starting = counts->mine - counts->ready,
        .old = counts->old,
        .idle = counts->idle,
        .longest_idle_us = counts->longest_idle_us,
        .waiting = atomic_load_explicit(&m->mapping->waiting, memory_order_relaxed),
    };
    unsigned wanted = pool_decide(&m->pool, &policy, &facts);
    bool is_resting = policy.mode == POOL_ONDEMAND && facts.running + facts.old == 0;
    atomic_store_explicit(&m->mapping->is_resting, is_resting, memory_order_relaxed);
    return wanted;
}

/* While the roles of this program end, the workers have to last. */
static bool has_workers_to_keep(const struct master *m)
{
    return m->phase == RUNNING || m->phase == UPGRADING;
}

void children_keep(struct master *m)
{
    uint64_t now = clock_monotonic_us();
    struct child *child;

    if (!has_workers_to_keep(m))
        return;
    for (size_t i = 0; i < m->n_children; i++) {
        child = &m->children[i];
        if (child->pid > 0 || child->start_at_us > now)
            continue;
        child->start_at_us = 0;
        if (child->role != NULL && m->phase == RUNNING && may_start(m, now))
            start(m, child);
    }
    struct counts counts = count_workers(m, now);
    /* Who waits is not known while no overflow process looks. */
    unsigned wanted = m->phase == RUNNING ? decide(m, &counts, now) : m->pool.wanted;
    for (unsigned n = counts.mine + counts.owed;
         n < wanted && may_start(m, now) && (child = find_place(m, now)) != NULL; n++)
        start(m, child);
    for (unsigned n = counts.mine + counts.owed; n > wanted && (child = find_leaver(m, false)) != NULL; n--)
        tell_to_leave(m, child);
    /* An old worker leaves when one of ours has begun to serve: there are never fewer, also
     * where ours cannot begin. */
    for (unsigned n = counts.ready + counts.old; n > wanted && (child = find_leaver(m, true)) != NULL; n--)
        tell_to_leave(m, child);
}

void children_signal(const struct master *m, int signal, bool to_workers)
{
    for (size_t i = 0; i < m->n_children; i++) {
        const struct child *child = &m->children[i];
        if (child->pid > 0 && (to_workers || child->role != NULL))
            kill(child->pid, signal);
    }
}

size_t children_running(const struct master *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_children; i++)
        n += m->children[i].pid > 0 ? 1 : 0;
    return n;
}

static bool is_role(const struct child *child, bool has_listeners)
{
    return child->role != NULL && child->role->has_listeners == has_listeners && child->pid > 0;
}

void roles_signal(const struct master *m, int signal, bool has_listeners)
{
    for (size_t i = 0; i < m->program->n_roles; i++) {
        if (is_role(&m->children[i], has_listeners))
            kill(m->children[i].pid, signal);
    }
}

size_t roles_running(const struct master *m, bool has_listeners)
{
    size_t n = 0;
    for (size_t i = 0; i < m->program->n_roles; i++)
        n += is_role(&m->children[i], has_listeners) ? 1 : 0;
    return n;
}

bool children_serve(const struct master *m)
{
    const struct counts counts = count_workers(m, clock_monotonic_us());
    return counts.ready > 0 || atomic_load_explicit(&m->mapping->is_resting, memory_order_relaxed) != 0;
}

/* --- ends --- */

static bool is_in_hand(const struct scoreboard_record *record)
{
    return atomic_load_explicit(&record->request.started_us, memory_order_acquire) != 0;
}

/* A death that nobody asked for: what it was doing, and how it died. */
static void report_death(const struct master *m, const struct child *child, int status)
{
    const struct scoreboard_record *record = child->record;
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
    struct scoreboard_record *record = child->record;

    if (is_in_hand(record) && m->program->worker_died != NULL) {
        struct engine_process process = { .settings = m->settings,
                                          .mapping = m->mapping,
                                          .slot = child->slot };
        m->program->worker_died(&process, record);
    }
    scoreboard_end_request(record);
    scoreboard_release_body(record);
    scoreboard_release_share(record);
    atomic_store(&record->lease, 0);
    pool_owner_clear(&record->pool_owner);
    atomic_store_explicit(&record->generation, 0, memory_order_relaxed);
    atomic_store_explicit(&record->requests, 0, memory_order_relaxed);
    scoreboard_enter(record, STAGE_FREE);
    atomic_store_explicit(&record->pid, 0, memory_order_release);
}

/* Who died young is not started again at once; the longer, the oftener. */
static void brake(struct child *child, bool is_expected, uint64_t now)
{
    if (is_expected || child->is_old || child->is_leaving || now - child->started_us >= YOUNG_US)
        child->delay_us = 0;
    else
        child->delay_us = next_delay_us(child->delay_us);
    child->start_at_us = child->delay_us > 0 ? now + child->delay_us : 0;
}

static void reap_one(struct master *m, pid_t pid, int status)
{
    for (size_t i = 0; i < m->n_children; i++) {
        struct child *child = &m->children[i];
        if (child->pid != pid)
            continue;
        bool is_expected = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (m->phase != ENDING && !is_expected && !child->is_killed)
            report_death(m, child, status);
        if (child->record != NULL)
            reclaim(m, child);
        brake(child, is_expected, clock_monotonic_us());
        child->pid = 0;
        child->is_old = child->is_leaving = child->is_killed = false;
        return;
    }
}

void children_reap(struct master *m)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (!upgrade_take_check(m, pid, status))
            reap_one(m, pid, status);
    }
}

/* Once for each: also of a request that never ends. */
static void tell_slow_request(const struct master *m, struct child *child, uint64_t now)
{
    uint64_t slow_us = (uint64_t)m->settings->slow_request_ms * US_PER_MS;
    if (slow_us == 0 || child->record == NULL || m->program->request_slow == NULL)
        return;
    uint64_t started = atomic_load_explicit(&child->record->request.started_us, memory_order_acquire);
    if (started == 0 || now < started + slow_us || child->slow_us == started)
        return;
    struct engine_process process = { .settings = m->settings, .mapping = m->mapping, .slot = child->slot };
    child->slow_us = started;
    m->program->request_slow(&process, child->record);
}

/* A request beyond its limit ends with its worker: there is no other way to take
 * it out of a hand that does not let go. */
static void end_late_request(const struct master *m, const struct child *child, uint64_t now)
{
    uint64_t limit_us = (uint64_t)m->settings->request_limit_ms * US_PER_MS;
    if (limit_us == 0 || child->record == NULL)
        return;
    uint64_t started = atomic_load_explicit(&child->record->request.started_us, memory_order_acquire);
    if (started == 0 || now < started + limit_us)
        return;
    log_line(LOG_ERROR, "request_limit", "a request has taken %llu ms; its worker %ld is ended",
             (unsigned long long)((now - started) / US_PER_MS), (long)child->pid);
    kill(child->pid, SIGKILL);
}

static void end_late_leaver(struct child *child, uint64_t now)
{
    if (!child->is_leaving || child->is_killed || now < child->leave_by_us)
        return;
    log_line(LOG_WARN, "drain_timeout", "worker %ld is ended with its request", (long)child->pid);
    child->is_killed = true;
    kill(child->pid, SIGKILL);
}

void children_end_late(struct master *m)
{
    uint64_t now = clock_monotonic_us();

    for (size_t i = 0; i < m->n_children; i++) {
        if (!is_worker_running(&m->children[i]))
            continue;
        tell_slow_request(m, &m->children[i], now);
        end_late_request(m, &m->children[i], now);
        end_late_leaver(&m->children[i], now);
    }
}

static size_t workers_running(const struct master *m)
{
    return children_running(m) - roles_running(m, false) - roles_running(m, true);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t children_due_us(const struct master *m)
{
    uint64_t now = clock_monotonic_us(), due = UINT64_MAX;

    for (size_t i = 0; i < m->n_children; i++) {
        const struct child *child = &m->children[i];
        if (child->pid == 0 && child->start_at_us > 0 && has_workers_to_keep(m))
            due = earlier(due, child->start_at_us);
        else if (child->is_leaving && !child->is_killed)
            due = earlier(due, child->leave_by_us);
        else if (child->is_old && has_workers_to_keep(m))
            due = earlier(due, now + RELIEF_US);
    }
    if (has_workers_to_keep(m) && m->start_at_us > now)
        due = earlier(due, m->start_at_us);
    const struct pool_policy policy = engine_pool(m->settings);
    bool needs_looks = m->phase == RUNNING && pool_needs_looks(&policy, (unsigned)workers_running(m));
    needs_looks = needs_looks || m->settings->slow_request_ms > 0 || m->settings->request_limit_ms > 0;
    return needs_looks ? earlier(due, now + LOOK_US) : due;
}

/* --- the places --- */

static size_t count_strangers(const struct handover *handover, unsigned n_records, bool is_same_mapping)
{
    size_t n = 0;
    for (size_t i = 0; handover != NULL && i < handover->n_workers; i++)
        n += !is_same_mapping || handover->workers[i].slot < 0 || handover->workers[i].slot >= n_records;
    return n;
}

static void take_over(struct master *m, const struct handover *handover, bool is_same_mapping)
{
    struct child *stranger = &m->children[m->n_places];

    for (size_t i = 0; i < handover->n_workers; i++) {
        const struct handover_worker *worker = &handover->workers[i];
        bool has_record = is_same_mapping && worker->slot >= 0 && worker->slot < m->mapping->n_records;
        struct child *child =
            has_record ? &m->children[m->program->n_roles + (size_t)worker->slot] : stranger++;
        child->pid = worker->pid;
        child->is_old = true;
        child->started_us = worker->started_us;
        child->is_leaving = worker->leave_by_us != 0;
        child->leave_by_us = worker->leave_by_us;
    }
}

void children_init(struct master *m, const struct handover *handover, bool is_same_mapping)
{
    unsigned n_records = m->mapping->n_records;

    m->n_places = (unsigned)m->program->n_roles + n_records;
    m->n_children = m->n_places + count_strangers(handover, n_records, is_same_mapping);
    m->children = xcalloc(m->n_children, sizeof(*m->children));
    for (size_t i = 0; i < m->program->n_roles; i++)
        m->children[i].role = &m->program->roles[i];
    for (unsigned i = 0; i < n_records; i++) {
        struct child *child = &m->children[m->program->n_roles + i];
        child->slot = i;
        child->record = &m->mapping->workers[i];
    }
    if (handover != NULL)
        take_over(m, handover, is_same_mapping);
    m->pool.wanted = count_workers(m, clock_monotonic_us()).old;
}
