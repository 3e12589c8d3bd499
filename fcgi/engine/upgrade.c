/*
 * The upgrade in place: the program at the path that this process was started from is
 * tried as a child, and then the master becomes it, with the same process id, children,
 * lock and sockets.
 */
#include "fcgi/engine/master_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/environment.h"
#include "core/base/version.h"
#include "core/log/log.h"
#include "fcgi/engine/notify.h"
#include "fcgi/engine/pidfile.h"

enum {
    CHECK_US = 10 * 1000 * 1000,
    ROLES_US = 10 * 1000 * 1000, /* until roles that do not end are killed */
    EXIT_NO_EXEC = 127,
};

/* As it was when this process was started: what is there now may be another program. */
static const char *program_path(void)
{
    return (const char *)(uintptr_t)getauxval(AT_EXECFN);
}

static void refuse(struct master *m, const char *why)
{
    log_line(LOG_ERROR, "upgrade_refused", "%s; this program goes on", why);
    m->is_ready_told = false; /* of which it was told that it reloads */
}

/* --- what is handed over --- */

static struct handover describe(const struct master *m)
{
    struct handover out = {
        .master = getpid(),
        .pidfile = m->pidfile,
        .log_read = m->child_log.read_fd,
        .log_write = m->child_log.write_fd,
        .secrets = m->secrets,
        .listener = m->listener,
        .health = m->health,
        .workers = xcalloc(m->n_children, sizeof(*out.workers)),
    };
    for (size_t i = 0; i < m->n_children; i++) {
        const struct child *child = &m->children[i];
        if (child->role != NULL || child->pid == 0)
            continue;
        out.workers[out.n_workers++] = (struct handover_worker){
            .pid = child->pid,
            .slot = child->record != NULL ? (int64_t)child->slot : -1,
            .started_us = child->started_us,
            .leave_by_us = child->is_leaving ? child->leave_by_us : 0,
        };
    }
    return out;
}

/* --- the trial --- */

static _Noreturn void run_check(const struct master *m, const struct handover *handover, int file)
{
    static const char complaint[] = "the program to upgrade to cannot be run\n";
    size_t argc = 0;
    sigset_t none;

    while (m->settings->argv[argc] != NULL)
        argc++;
    char **argv = xcalloc(argc + 2, sizeof(*argv));
    memcpy(argv, m->settings->argv, argc * sizeof(*argv));
    argv[argc] = (char *)(uintptr_t) "--check";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(m->child_log.write_fd, STDOUT_FILENO);
    dup2(m->child_log.write_fd, STDERR_FILENO);
    fcntl(file, F_SETFD, 0);
    if (handover->secrets >= 0)
        fcntl(handover->secrets, F_SETFD, 0);
    handover_announce(file);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(program_path(), argv);
    (void)!write(STDERR_FILENO, complaint, sizeof(complaint) - 1);
    _exit(EXIT_NO_EXEC);
}

void upgrade_begin(struct master *m)
{
    struct error e;

    if (m->phase != RUNNING || m->check > 0) {
        log_line(LOG_WARN, "upgrade_refused", "%s",
                 m->phase == DRAINING || m->phase == ENDING ? "the program ends" : "an upgrade is under way");
        return;
    }
    notify_reloading();
    struct handover handover = describe(m);
    int file = handover_write(&handover, m->program->name, &e);
    if (file < 0) {
        refuse(m, e.text);
        goto out;
    }
    m->check = fork();
    if (m->check == 0)
        run_check(m, &handover, file);
    if (m->check < 0) {
        m->check = 0;
        refuse(m, "no process can be made");
    } else {
        m->check_ends_us = clock_monotonic_us() + CHECK_US;
        log_line(LOG_INFO, "upgrade_checked", "process %ld looks at what it would take over", (long)m->check);
    }
    close(file);
out:
    handover_free(&handover);
}

bool upgrade_take_check(struct master *m, pid_t pid, int status)
{
    char why[80];

    if (m->check == 0 || pid != m->check)
        return false;
    m->check = 0;
    child_log_take(&m->child_log); /* its words come first */
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        if (m->phase != RUNNING)
            return true;
        m->phase = UPGRADING;
        m->phase_ends_us = clock_monotonic_us() + ROLES_US;
        m->is_last_told = false;
        roles_signal(m, SIGTERM, false);
        return true;
    }
    if (WIFSIGNALED(status))
        snprintf(why, sizeof(why), "its check was ended by signal %d", WTERMSIG(status));
    else
        snprintf(why, sizeof(why), "its check ended with exit status %d", WEXITSTATUS(status));
    refuse(m, why);
    return true;
}

void upgrade_end_late_check(struct master *m)
{
    if (m->check > 0 && clock_monotonic_us() >= m->check_ends_us) {
        kill(m->check, SIGKILL);
        m->check_ends_us = UINT64_MAX; /* its death is told of */
    }
}

/* --- the exec --- */

static void become_successor(struct master *m)
{
    struct error e;

    child_log_flush(&m->child_log);
    struct handover handover = describe(m);
    int file = handover_write(&handover, m->program->name, &e);
    if (file >= 0) {
        handover_announce(file);
        handover_pass(&handover, file, true);
        execv(program_path(), (char *const *)m->settings->argv);
        error_set(&e, ERR_SYSTEM, "it cannot be run: %s", strerror(errno));
        handover_pass(&handover, file, false);
        handover_take();
        close(file);
    }
    handover_free(&handover);
    refuse(m, e.text);
    m->phase = RUNNING;
}

/* Who answers callers and probes goes last: others may take their time. */
void upgrade_go_on(struct master *m)
{
    if (roles_running(m, false) > 0)
        return;
    if (!m->is_last_told) {
        m->is_last_told = true;
        m->phase_ends_us = clock_monotonic_us() + ROLES_US;
        roles_signal(m, SIGTERM, true);
    }
    if (roles_running(m, true) == 0)
        become_successor(m);
}

void upgrade_lose_patience(struct master *m)
{
    roles_signal(m, SIGKILL, m->is_last_told);
    m->phase_ends_us = clock_monotonic_us() + ROLES_US;
}

/* --- the successor --- */

static int adopt_mapping(struct master *m, bool *is_same, struct error *e)
{
    const char *run_dir = m->settings->run_dir, *name = m->program->name;
    unsigned n_records = engine_records(m->settings);

    *is_same = mapping_adopt(run_dir, name, n_records, &m->mapping, e) == 0;
    if (*is_same)
        return 0;
    log_line(LOG_WARN, "mapping_replaced", "%s; counts begin anew", e->text);
    return mapping_create(run_dir, name, n_records, &m->mapping, e);
}

int upgrade_adopt(struct master *m, int file, struct handover *out, bool *is_same_mapping, struct error *e)
{
    int r = handover_read(file, m->program->name, out, e);
    if (r != 0)
        return r;
    if (out->master != getpid())
        return error_set(e, ERR_FORMAT, "what was handed on is process %ld's", (long)out->master);
    handover_pass(out, -1, false);
    m->pidfile = out->pidfile;
    m->listener = out->listener;
    m->health = out->health;
    if (out->secrets >= 0 && (r = environment_restore_secrets(out->secrets, e)) != 0)
        return r;
    if ((r = pidfile_keep(m->pidfile, e)) != 0)
        return r;
    m->child_log = (struct child_log){ .read_fd = out->log_read, .write_fd = out->log_write };
    log_line(LOG_INFO, "upgraded", "this is version %s; %zu workers of the program before it are there",
             LLM_ROUTER_VERSION, out->n_workers);
    return adopt_mapping(m, is_same_mapping, e);
}
