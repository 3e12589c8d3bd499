#include "fcgi/engine/child.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/ids.h"
#include "core/log/log.h"

static volatile sig_atomic_t stopping, leaving, hung_up;
static pid_t master;
static const struct listener *held[2];

static void begin_to_stop(void)
{
    int cause = errno;

    stopping = 1;
    for (size_t i = 0; i < 2 && engine_is_orphaned(); i++) {
        if (held[i] != NULL)
            listener_shut(held[i]);
    }
    errno = cause;
}

static void note_stop(int signal)
{
    (void)signal;
    begin_to_stop();
}

static void note_leave(int signal)
{
    (void)signal;
    leaving = 1;
}

static void note_hangup(int signal)
{
    (void)signal;
    hung_up = 1;
}

static void end_at_once(int signal)
{
    _exit(128 + signal);
}

bool engine_is_stopping(void)
{
    return stopping != 0;
}

bool engine_is_orphaned(void)
{
    return getppid() != master;
}

bool engine_take_hangup(void)
{
    bool had = hung_up != 0;
    hung_up = 0;
    return had;
}

void engine_wake_workers(const struct mapping *mapping)
{
    uint64_t generation = atomic_load_explicit(&mapping->generation, memory_order_relaxed);
    for (unsigned i = 0; i < mapping->n_records; i++) {
        const struct scoreboard_record *record = &mapping->workers[i];
        pid_t pid = atomic_load_explicit(&record->pid, memory_order_acquire);
        if (pid > 0 && atomic_load_explicit(&record->generation, memory_order_relaxed) != generation)
            kill(pid, SIGHUP);
    }
}

void engine_tell_need(const struct engine_process *process)
{
    const uint64_t one = 1;
    if (process->settings->pm != POOL_STATIC && write(process->need, &one, sizeof(one)) < 0)
        log_line(LOG_ERROR, "need_untold", "eventfd: %s", strerror(errno));
}

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

void child_begin(struct engine_process *process, const struct listener *listener,
                 const struct listener *health)
{
    sigset_t blocked;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    master = process->master;
    if (engine_is_orphaned())
        _exit(0); /* it died before the line above */
    held[0] = listener;
    held[1] = health;
    handle(SIGTERM, note_stop);
    handle(SIGHUP, note_hangup);
    handle(SIGUSR1, note_leave);
    handle(SIGUSR2, SIG_IGN);
    handle(SIGINT, end_at_once);
    handle(SIGQUIT, end_at_once);
    handle(SIGCHLD, SIG_DFL);
    /* Noted only while waiting: a signal never cuts a read or a write short. */
    sigemptyset(&process->open_mask);
    blocked = process->open_mask;
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGHUP);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

void engine_wait_readable(const struct engine_process *process, int fd, unsigned timeout_ms)
{
    struct timespec timeout = { .tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000 };
    struct pollfd p = { .fd = fd, .events = POLLIN };
    ppoll(&p, fd >= 0 ? 1 : 0, &timeout, &process->open_mask);
}

void engine_wait(const struct engine_process *process, unsigned timeout_ms)
{
    engine_wait_readable(process, -1, timeout_ms);
}

/* A worker retires after max_requests, give or take a tenth, so that what a
 * library leaks does not add up, and not all of them at once. 0: never. */
static uint64_t retirement(const struct engine_settings *settings)
{
    uint64_t max = (uint64_t)settings->max_requests, random;

    ids_random(&random, sizeof(random));
    return max < 10 ? max : max - max / 10 + random % (max / 5 + 1);
}

static void serve_one(const struct engine_program *program, struct engine_process *process, struct conn *conn,
                      int fd)
{
    struct scoreboard_record *record = process->record;

    atomic_fetch_add_explicit(&process->mapping->accepted, 1, memory_order_relaxed);
    scoreboard_begin_request(record);
    scoreboard_enter(record, STAGE_READING);
    if (conn_begin(conn, fd, program->stall_ms) == 0) {
        program->serve(process, conn);
        conn_close(conn);
    }
    scoreboard_end_request(record);
    scoreboard_release_body(record);
    scoreboard_release_share(record);
    atomic_fetch_add_explicit(&record->requests, 1, memory_order_relaxed);
    scoreboard_enter(record, STAGE_IDLE);
}

/* What a worker waits for between requests: a connection, and signals, which are blocked
 * all the time. As a descriptor they are seen also when connections never run out;
 * epoll_pwait would let them in only when it waits. */
struct idle_wait {
    int epoll, signals;
};

static int idle_wait_open(struct idle_wait *idle, int listen_fd)
{
    struct epoll_event connection = { .events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = listen_fd };
    struct epoll_event signal = { .events = EPOLLIN };
    sigset_t awaited;

    sigemptyset(&awaited);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGHUP);
    sigaddset(&awaited, SIGUSR1);
    signal.data.fd = idle->signals = signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK);
    idle->epoll = epoll_create1(EPOLL_CLOEXEC);
    return idle->signals >= 0 && idle->epoll >= 0 &&
                   epoll_ctl(idle->epoll, EPOLL_CTL_ADD, listen_fd, &connection) == 0 &&
                   epoll_ctl(idle->epoll, EPOLL_CTL_ADD, idle->signals, &signal) == 0
               ? 0
               : ERR_SYSTEM;
}

/* Waits, or looks when the process is stopping. */
static void idle_wait(const struct idle_wait *idle)
{
    struct epoll_event events[2];
    struct signalfd_siginfo info;
    int n = epoll_wait(idle->epoll, events, 2, stopping || leaving ? 0 : -1);

    for (int i = 0; i < n; i++) {
        if (events[i].data.fd != idle->signals)
            continue;
        while (read(idle->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            if (info.ssi_signo == SIGTERM)
                begin_to_stop();
            else if (info.ssi_signo == SIGUSR1)
                leaving = 1;
            else
                hung_up = 1;
        }
    }
}

static void serve_until_stopped(const struct engine_program *program, struct engine_process *process,
                                const struct listener *listener, const struct idle_wait *idle,
                                struct conn *conn)
{
    uint64_t left = retirement(process->settings);
    bool is_told = false;

    scoreboard_enter(process->record, STAGE_IDLE);
    for (bool is_called = true;; is_called = engine_take_hangup()) {
        if (is_called && program->refresh != NULL)
            program->refresh(process);
        idle_wait(idle);
        /* One that is told to stop still takes what waits at a socket file of ours, which
         * is shut: until there is nothing. At any other socket new ones
         * could come for ever, and they are the successor's; and so are those of one that is
         * told to leave. */
        if (leaving || (stopping && listener->path[0] == '\0'))
            return;
        int fd = listener_accept(listener, 0, &is_told);
        if (fd >= 0) {
            serve_one(program, process, conn, fd);
            if (left > 0 && --left == 0)
                return; /* who still waits in the queue is somebody else's: the master starts one */
            continue;
        }
        if (stopping)
            return;
        /* Out of descriptors or memory, or a socket that its master has shut down:
         * epoll would come back at once. */
        if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
            engine_wait(process, 100);
    }
}

int worker_run(const struct engine_program *program, struct engine_process *process,
               const struct listener *listener)
{
    struct error e;
    struct conn conn;
    struct idle_wait idle;

    if (idle_wait_open(&idle, listener->fd) != 0) {
        log_line(LOG_ERROR, "worker_failed", "epoll: %s", strerror(errno));
        return 1;
    }
    conn_init(&conn);
    if (program->init_worker(process, &e) != 0) {
        log_line(LOG_ERROR, "worker_failed", "%s", e.text);
        return 1;
    }
    serve_until_stopped(program, process, listener, &idle, &conn);
    conn_free(&conn);
    return 0;
}
