/*
 * A whole engine as a child: master, workers and a role, with a program that
 * answers with its process id. Check kills what a failed test leaves behind.
 */
#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "fcgi/engine/engine.h"
#include "tests/unit/fcgi_client.h"

enum { WORKERS_MAX = 4, DRAIN_MS = 20000, LONG_MS = 60000 };

/* What the engine's processes tell the test. */
static struct shared {
    _Atomic int worker_starts, role_starts, role_stops, hangups;
    _Atomic int role_pid;
    _Atomic int in_hand; /* requests begun */
    _Atomic bool is_worker_failing, is_master_failing;
    _Atomic int lost; /* requests that the master was told of */
    char lost_id[129];
    unsigned lost_slot;
} * shared;

static struct arena *arena;
static char dir[64];
static struct engine_settings settings;
static struct error e;
static int inherited;  /* to be fd 0 of the next master; -1: none */
static int log_fds[2]; /* a pipe whose end is to be its stderr; -1: a file is */

/* --- the program --------------------------------------------------------------- */

static void sleep_ms(unsigned ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
    nanosleep(&t, NULL);
}

static int init_master(struct engine_process *process, struct error *error)
{
    ck_assert_ptr_nonnull(process->mapping);
    return shared->is_master_failing ? error_set(error, ERR_SYSTEM, "broken on purpose") : 0;
}

static int init_worker(struct engine_process *process, struct error *error)
{
    (void)process;
    shared->worker_starts++;
    return shared->is_worker_failing ? error_set(error, ERR_SYSTEM, "broken on purpose") : 0;
}

/* Takes up what the role published. */
static void refresh(struct engine_process *process)
{
    process->record->generation = process->mapping->generation;
}

static void serve(struct engine_process *process, struct conn *conn)
{
    const char *ms = conn_param(conn, "SLEEP_MS");
    char text[64];
    sigset_t all;

    conn_read_end(conn);
    strcpy(process->record->request.request_id, "request-in-hand");
    scoreboard_reserve_body(process->mapping, process->record, 1000, 1000000);
    if (conn_param(conn, "CLINGS") != NULL) {
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
    }
    shared->in_hand++;
    sleep_ms(ms == NULL ? 0 : (unsigned)atoi(ms));
    int len = snprintf(text, sizeof(text), "%d", (int)getpid());
    const struct span piece = { text, (size_t)len };
    conn_write(conn, &piece, 1, true);
}

static void worker_died(struct engine_process *process, const struct scoreboard_record *record)
{
    strcpy(shared->lost_id, record->request.request_id);
    shared->lost_slot = process->slot;
    shared->lost++;
}

static int run_role(struct engine_process *process)
{
    shared->role_pid = getpid();
    shared->role_starts++;
    while (!engine_is_stopping()) {
        if (engine_take_hangup()) {
            process->mapping->generation++;
            engine_wake_workers(process->mapping);
            shared->hangups++;
        }
        engine_wait(process, LONG_MS); /* only a signal ends it in time */
    }
    shared->role_stops++;
    fputs("last words", stderr);
    return 0;
}

static const struct engine_role roles[] = { { .name = "clerk", .run = run_role } };

static const struct engine_program program = {
    .name = "prog",
    .roles = roles,
    .n_roles = 1,
    .init_master = init_master,
    .init_worker = init_worker,
    .refresh = refresh,
    .serve = serve,
    .worker_died = worker_died,
    .stall_ms = 5000,
};

/* --- harness ----------------------------------------------------------------------- */

static const char *in_dir(const char *name)
{
    return arena_printf(arena, "%s/%s", dir, name);
}

static void set_up(void)
{
    arena = arena_new();
    inherited = log_fds[0] = log_fds[1] = -1;
    strcpy(dir, "/tmp/test_engine.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    /* What outlives its master becomes ours, so that we see it end. */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    settings = (struct engine_settings){
        .run_dir = in_dir("run"),
        .listen = arena_printf(arena, "unix:%s/s.sock", dir),
        .workers = 2,
        .drain_timeout_ms = DRAIN_MS,
    };
}

static bool is_nobody_left(void)
{
    return waitpid(-1, NULL, WNOHANG) < 0;
}

static bool wait_until(bool (*is_so)(void), unsigned ms)
{
    uint64_t deadline = clock_monotonic_us() + ms * US_PER_MS;
    while (!is_so()) {
        if (clock_monotonic_us() >= deadline)
            return false;
        sleep_ms(5);
    }
    return true;
}

static const char *log_text(void)
{
    struct span raw;
    int r = file_read(in_dir("log"), 1 << 20, arena, &raw, &e);
    return r == 0 ? raw.ptr : "";
}

#define expect_soon(is_so, ms) \
    ck_assert_msg(wait_until(is_so, ms), "after %d ms not: " #is_so "; the log:\n%s", (int)(ms), log_text())

static pid_t fork_master(void)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no master */
    int log = log_fds[1] >= 0 ? log_fds[1] : open(in_dir("log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    close(log_fds[0]); /* the reader is another process */
    dup2(log, STDERR_FILENO);
    close(log);
    if (inherited >= 0)
        dup2(inherited, STDIN_FILENO);
    exit(engine_run(&program, &settings));
}

/* The mapping of the newest run, as other programs see it. */
static const struct mapping *map(void)
{
    struct stat st;
    int fd = open(in_dir("run/prog.map"), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0)
        return NULL;
    const struct mapping *m = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return m == MAP_FAILED ? NULL : m;
}

static const struct mapping *board; /* of the run that start_master began */

static bool is_every_worker_idle(void)
{
    unsigned idle = 0;
    for (unsigned i = 0; i < board->n_records; i++) {
        if (board->workers[i].pid == 0)
            continue;
        if (board->workers[i].stage != STAGE_IDLE)
            return false;
        idle++;
    }
    return idle == settings.workers;
}

static bool is_role_running(void)
{
    return shared->role_starts > 0;
}

static const char *old_instance;

static bool is_mapped(void)
{
    board = map();
    return board != NULL && memcmp(board->magic, "LLMRMAP", 8) == 0 &&
           strcmp(board->instance, old_instance) != 0;
}

/* Starts a master and waits until it serves. */
static pid_t start_master(void)
{
    old_instance = board != NULL ? arena_strdup(arena, board->instance) : "";
    pid_t pid = fork_master();
    expect_soon(is_mapped, 5000);
    expect_soon(is_every_worker_idle, 5000);
    expect_soon(is_role_running, 5000);
    return pid;
}

static void tear_down(void)
{
    for (unsigned i = 0; board != NULL && i < board->n_records; i++) {
        if (board->workers[i].pid > 0)
            kill(board->workers[i].pid, SIGKILL);
    }
    if (shared->role_pid > 0)
        kill(shared->role_pid, SIGKILL);
    expect_soon(is_nobody_left, 10000);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

/* Its exit status, at most after `ms`; -1: it still runs. */
static int wait_exit(pid_t pid, unsigned ms)
{
    uint64_t deadline = clock_monotonic_us() + ms * US_PER_MS;
    int status;
    while (clock_monotonic_us() < deadline) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        sleep_ms(5);
    }
    return -1;
}

/* Ends a master in order; nothing is left of it. */
static void stop_master(pid_t pid)
{
    kill(pid, SIGTERM);
    int status = wait_exit(pid, 10000);
    ck_assert_msg(status == 0, "exit status %d; the log:\n%s", status, log_text());
}

/* --- its caller ----------------------------------------------------------------------- */

static int try_connect(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s.sock", dir);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool is_refused(void)
{
    int fd = try_connect();
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

static void ask_on(int fd, const char *name, const char *value)
{
    const char *const pairs[] = { "REQUEST_METHOD", "GET", name, value, NULL };
    struct buf wire;

    ck_assert_msg(fd >= 0, "nobody listens; the log:\n%s", log_text());
    buf_init(&wire, 4096);
    wire_head(&wire, pairs);
    wire_end(&wire, FCGI_STDIN);
    wire_send(fd, &wire);
    buf_free(&wire);
}

static int ask(const char *name, const char *value)
{
    int fd = try_connect();
    ask_on(fd, name, value);
    return fd;
}

static int awaited_in_hand;

static bool is_in_hand(void)
{
    return shared->in_hand >= awaited_in_hand;
}

/* A request that is being served when this returns. */
static void ask_slowly_on(int fd, const char *ms)
{
    awaited_in_hand = shared->in_hand + 1;
    ask_on(fd, "SLEEP_MS", ms);
    expect_soon(is_in_hand, 5000);
}

static int ask_slowly(const char *ms)
{
    int fd = try_connect();
    ask_slowly_on(fd, ms);
    return fd;
}

/* The process that answered, whole. */
static pid_t read_pid(int fd)
{
    struct client_reply reply;
    client_read(fd, &reply);
    close(fd);
    client_expect_whole(&reply);
    pid_t pid = (pid_t)strtol(arena_span(arena, buf_span(&reply.out)), NULL, 10);
    client_reply_free(&reply);
    return pid;
}

static pid_t ask_pid(void)
{
    return read_pid(ask("X", "1"));
}

/* The reply broke off. */
static void expect_broken(int fd)
{
    struct client_reply reply;
    client_read(fd, &reply);
    close(fd);
    ck_assert(!reply.has_end);
    client_reply_free(&reply);
}

static bool is_worker(pid_t pid)
{
    for (unsigned i = 0; i < board->n_records; i++) {
        if (board->workers[i].pid == pid)
            return true;
    }
    return false;
}

static void expect_logged(const char *text)
{
    ck_assert_msg(strstr(log_text(), text) != NULL, "\"%s\" is not in the log:\n%s", text, log_text());
}

static unsigned elapsed_ms(uint64_t since_us)
{
    return (unsigned)((clock_monotonic_us() - since_us) / US_PER_MS);
}

/* --- serving ---------------------------------------------------------------------------- */

START_TEST(workers_answer_and_the_scoreboard_shows_it)
{
    uint64_t requests = 0;
    pid_t master = start_master();

    ck_assert_int_eq(shared->worker_starts, 2);
    for (int i = 0; i < 20; i++) {
        pid_t pid = ask_pid();
        ck_assert_msg(is_worker(pid), "%d answered", pid);
    }
    expect_soon(is_every_worker_idle, 1000);
    for (unsigned i = 0; i < board->n_records; i++) {
        requests += board->workers[i].requests;
        ck_assert_uint_eq(board->workers[i].request.started_us, 0);
        ck_assert_uint_eq(board->workers[i].body_bytes, 0);
    }
    ck_assert_uint_eq(requests, 20);
    ck_assert_uint_eq(board->accepted, 20);
    ck_assert_uint_eq(telemetry_get(&board->telemetry, METRIC_WORKER_DEATHS, 0), 0);
    stop_master(master);
}
END_TEST

START_TEST(as_many_requests_as_workers_are_served_at_once)
{
    int fds[WORKERS_MAX];
    pid_t pids[WORKERS_MAX];

    settings.workers = WORKERS_MAX;
    pid_t master = start_master();
    uint64_t start = clock_monotonic_us();
    for (int i = 0; i < WORKERS_MAX; i++)
        fds[i] = ask_slowly("600");
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        ck_assert_uint_eq(board->workers[i].stage, STAGE_READING);
        ck_assert_str_eq(board->workers[i].request.request_id, "request-in-hand");
        ck_assert_uint_ge(board->workers[i].request.started_us, start);
    }
    for (int i = 0; i < WORKERS_MAX; i++) {
        pids[i] = read_pid(fds[i]);
        for (int k = 0; k < i; k++)
            ck_assert_int_ne(pids[i], pids[k]);
    }
    ck_assert_uint_lt(elapsed_ms(start), 2 * 600);
    stop_master(master);
}
END_TEST

START_TEST(a_peer_that_speaks_no_fastcgi_costs_a_worker_nothing)
{
    settings.workers = 1;
    pid_t master = start_master();
    for (int i = 0; i < 5; i++) {
        char byte;
        int fd = try_connect();
        ck_assert_int_eq(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
        ck_assert_int_le(recv(fd, &byte, 1, 0), 0); /* closed */
        close(fd);
    }
    ck_assert_int_eq(ask_pid(), board->workers[0].pid);
    ck_assert_int_eq(shared->worker_starts, 1);
    stop_master(master);
}
END_TEST

/* --- deaths ----------------------------------------------------------------------------- */

static bool is_death_counted(void)
{
    return telemetry_get(&board->telemetry, METRIC_WORKER_DEATHS, 0) == 1;
}

START_TEST(a_killed_worker_is_replaced_and_its_request_named)
{
    settings.workers = 1;
    pid_t master = start_master();
    pid_t victim = ask_pid();
    int fd = ask_slowly("60000");

    kill(victim, SIGKILL);
    expect_broken(fd);
    expect_soon(is_death_counted, 2000);
    expect_soon(is_every_worker_idle, 3000);
    ck_assert_int_ne(board->workers[0].pid, victim);
    ck_assert_uint_eq(board->workers[0].requests, 0); /* of its own */
    ck_assert_int_eq(ask_pid(), board->workers[0].pid);
    expect_logged("\"signal\":9");
    expect_logged("\"stage\":\"reading\"");
    expect_logged("\"request_id\":\"request-in-hand\"");
    stop_master(master);
    ck_assert_uint_eq(telemetry_get(&board->telemetry, METRIC_WORKER_DEATHS, 0),
                      1); /* an end that was asked for is no death */
}
END_TEST

START_TEST(the_program_is_told_of_a_request_that_died_with_its_worker)
{
    pid_t master = start_master();
    int fd = ask_slowly("60000");
    unsigned busy = board->workers[0].request.started_us != 0 ? 0 : 1;

    kill(board->workers[busy].pid, SIGKILL);
    expect_broken(fd);
    expect_soon(is_death_counted, 2000);
    expect_soon(is_every_worker_idle, 3000);
    ck_assert_int_eq(shared->lost, 1);
    ck_assert_str_eq(shared->lost_id, "request-in-hand");
    ck_assert_uint_eq(shared->lost_slot, busy);
    stop_master(master);
}
END_TEST

START_TEST(a_worker_that_dies_without_a_request_takes_none_with_it)
{
    settings.workers = 1;
    pid_t master = start_master();
    pid_t victim = ask_pid(); /* one that it has finished */

    expect_soon(is_every_worker_idle, 2000);
    kill(victim, SIGKILL);
    expect_soon(is_death_counted, 2000);
    expect_soon(is_every_worker_idle, 3000);
    ck_assert_int_eq(shared->lost, 0);
    stop_master(master);
    ck_assert_int_eq(shared->lost, 0);
}
END_TEST

static bool is_reclaimed(void)
{
    return board->workers[0].pid == 0 && board->workers[0].stage == STAGE_FREE &&
           board->workers[0].request.started_us == 0 && board->workers[0].body_bytes == 0;
}

START_TEST(the_record_of_a_dead_worker_is_free_until_the_next_has_it)
{
    settings.workers = 1;
    pid_t master = start_master();
    int fd = ask_slowly("60000");

    shared->is_worker_failing = true; /* the next ones do not come up */
    kill(board->workers[0].pid, SIGKILL);
    expect_soon(is_reclaimed, 2000);
    expect_broken(fd);
    shared->is_worker_failing = false;
    expect_soon(is_every_worker_idle, 8000);
    stop_master(master);
}
END_TEST

START_TEST(workers_that_cannot_start_are_not_started_over_and_over)
{
    shared->is_worker_failing = true;
    old_instance = "";
    pid_t master = fork_master();
    sleep_ms(2000);
    /* Each at 0, 0.1, 0.3, 0.7 and 1.5 s. */
    int starts = shared->worker_starts;
    ck_assert_msg(starts >= 4 && starts <= 14, "%d starts in 2 s", starts);
    expect_logged("broken on purpose");
    expect_logged("\"exit_status\":1");
    shared->is_worker_failing = false;
    expect_soon(is_mapped, 100);
    expect_soon(is_every_worker_idle, 4000);
    ck_assert(is_worker(ask_pid()));
    stop_master(master);
}
END_TEST

static bool is_role_back(void)
{
    return shared->role_starts == 2;
}

START_TEST(a_role_that_dies_is_started_again)
{
    pid_t master = start_master(), first = shared->role_pid;
    kill(first, SIGKILL);
    expect_soon(is_role_back, 3000);
    ck_assert_int_ne(shared->role_pid, first);
    expect_logged("\"role\":\"clerk\"");
    ck_assert_uint_eq(telemetry_get(&board->telemetry, METRIC_WORKER_DEATHS, 0), 0);
    ck_assert_int_eq(shared->worker_starts, 2);
    stop_master(master);
    ck_assert_int_eq(shared->role_stops, 1);
}
END_TEST

static void lose_reader(pid_t master)
{
    (void)master;
    close(log_fds[0]);
}

static void forbid_growth(pid_t master)
{
    const struct rlimit none = { 0, 0 };
    ck_assert_int_eq(prlimit(master, RLIMIT_FSIZE, &none, NULL), 0);
}

static const struct log_loss_row {
    bool is_pipe;
    void (*happen)(pid_t master);
} log_losses[] = {
    { true, lose_reader },
    { false, forbid_growth },
};

START_TEST(a_log_that_takes_no_more_ends_nobody)
{
    const struct log_loss_row *row = &log_losses[_i];

    if (row->is_pipe)
        ck_assert_int_eq(pipe2(log_fds, O_CLOEXEC), 0);
    pid_t master = start_master();
    close(log_fds[1]);
    row->happen(master);
    kill(ask_pid(), SIGKILL); /* which the master has to log */
    expect_soon(is_death_counted, 2000);
    expect_soon(is_every_worker_idle, 3000);
    ck_assert(is_worker(ask_pid()));
    stop_master(master);
}
END_TEST

/* --- signals ------------------------------------------------------------------------------ */

static bool is_hung_up(void)
{
    return shared->hangups == 1;
}

START_TEST(a_hangup_reaches_the_roles_and_leaves_workers_alone)
{
    pid_t master = start_master();
    int fd = ask_slowly("500");

    kill(master, SIGHUP);
    expect_soon(is_hung_up, 2000);
    ck_assert(is_worker(read_pid(fd)));
    ck_assert_int_eq(shared->worker_starts, 2);
    ck_assert_int_eq(shared->role_starts, 1);
    stop_master(master);
    ck_assert_int_eq(shared->hangups, 1); /* taken once */
}
END_TEST

static bool is_one_worker_current(void)
{
    return scoreboard_current(board) == 1;
}

static bool is_every_worker_current(void)
{
    return scoreboard_current(board) == settings.workers;
}

START_TEST(workers_take_up_what_a_role_publishes_between_two_requests)
{
    pid_t master = start_master();
    int fd = ask_slowly("700");

    kill(master, SIGHUP);
    expect_soon(is_hung_up, 2000);
    expect_soon(is_one_worker_current, 300); /* the idle one, at once */
    ck_assert_uint_eq(scoreboard_current(board), 1);
    ck_assert(is_worker(read_pid(fd)));
    expect_soon(is_every_worker_current, 300);
    stop_master(master);
}
END_TEST

START_TEST(a_worker_that_begins_takes_up_what_was_published_before)
{
    pid_t master = start_master();

    kill(master, SIGHUP);
    expect_soon(is_every_worker_current, 2000);
    kill(ask_pid(), SIGKILL);
    expect_soon(is_death_counted, 2000);
    expect_soon(is_every_worker_idle, 3000);
    expect_soon(is_every_worker_current, 300);
    stop_master(master);
}
END_TEST

static pid_t leaver;

static bool is_leaver_gone(void)
{
    return !is_worker(leaver);
}

/* What the master sends to a worker that another takes the place of. */
START_TEST(a_worker_that_is_told_to_leave_ends_its_request_and_takes_no_other)
{
    settings.workers = 1;
    pid_t master = start_master();
    leaver = ask_pid();
    int in_hand = ask_slowly("500"), waiting = ask("X", "1");

    kill(leaver, SIGUSR1);
    ck_assert_int_eq(read_pid(in_hand), leaver);
    ck_assert_int_ne(read_pid(waiting), leaver); /* though it was there before */
    expect_soon(is_leaver_gone, 3000);
    expect_soon(is_every_worker_idle, 3000);
    ck_assert_uint_eq(telemetry_get(&board->telemetry, METRIC_WORKER_DEATHS, 0), 0);
    stop_master(master);
}
END_TEST

START_TEST(a_signal_for_the_master_that_a_child_gets_changes_nothing)
{
    pid_t master = start_master();
    int fd = ask_slowly("300");

    for (unsigned i = 0; i < board->n_records; i++) {
        if (board->workers[i].pid > 0)
            kill(board->workers[i].pid, SIGUSR2);
    }
    kill(shared->role_pid, SIGUSR2);
    ck_assert(is_worker(read_pid(fd)));
    expect_soon(is_every_worker_idle, 2000);
    ck_assert_int_eq(shared->worker_starts, 2);
    ck_assert_int_eq(shared->role_starts, 1);
    stop_master(master);
}
END_TEST

START_TEST(sigterm_lets_a_request_in_hand_finish_and_no_new_one_in)
{
    struct stat st;
    pid_t master = start_master();
    int fd = ask_slowly("1000");

    kill(master, SIGTERM);
    expect_soon(is_refused, 500);
    ck_assert_int_eq(waitpid(master, NULL, WNOHANG), 0);
    ck_assert(read_pid(fd) > 0);
    ck_assert_int_eq(wait_exit(master, 3000), 0);
    expect_soon(is_nobody_left, 1000);
    ck_assert_int_eq(access(in_dir("s.sock"), F_OK), -1);
    ck_assert_int_eq(stat(in_dir("run/prog.pid"), &st), 0);
    ck_assert_int_eq(st.st_size, 0);
    ck_assert_int_eq(shared->role_stops, 1);
}
END_TEST

/* A port of the loopback address that nobody else gets before the test ends: it stays
 * bound, and does not listen, so that who sets SO_REUSEADDR too may. */
static int keep_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

static int connect_tcp(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_health(int port)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)port;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/h.sock", dir);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static const struct waiting_row {
    bool is_tcp; /* the callers' socket; else the health socket, at which nobody serves here */
    int (*connect)(int port);
} waitings[] = {
    { true, connect_tcp },
    { false, connect_health },
};

/* Who waits where nobody will serve any more must not wait for the last request in hand. */
START_TEST(sigterm_turns_away_who_will_not_be_served)
{
    const struct waiting_row *row = &waitings[_i];
    struct pollfd waiting = { .events = POLLIN };
    int port = keep_port();

    if (row->is_tcp)
        settings.listen = arena_printf(arena, "tcp:127.0.0.1:%d", port);
    else
        settings.health = arena_printf(arena, "unix:%s/h.sock", dir);
    settings.workers = 1;
    pid_t master = start_master();
    int fd = row->is_tcp ? connect_tcp(port) : try_connect();
    ask_slowly_on(fd, "2000");
    waiting.fd = row->connect(port);
    ck_assert_int_ge(waiting.fd, 0);
    kill(master, SIGTERM);
    ck_assert_msg(poll(&waiting, 1, 1000) == 1, "it still waits");
    ck_assert_int_eq(row->connect(port), -1);
    close(waiting.fd);
    ck_assert_int_eq(waitpid(master, NULL, WNOHANG), 0);
    ck_assert(read_pid(fd) > 0); /* the one in hand ends well */
    ck_assert_int_eq(wait_exit(master, 3000), 0);
}
END_TEST

START_TEST(the_last_words_of_a_child_reach_the_log)
{
    pid_t master = start_master();
    stop_master(master);
    expect_logged("\"event\":\"child_stderr\",\"text\":\"last words\"");
}
END_TEST

START_TEST(sigterm_also_serves_who_was_waiting)
{
    settings.workers = 1;
    pid_t master = start_master();
    int in_hand = ask_slowly("600"), waiting = ask("X", "1");

    kill(master, SIGTERM);
    ck_assert(read_pid(in_hand) > 0);
    ck_assert(read_pid(waiting) > 0);
    ck_assert_int_eq(wait_exit(master, 3000), 0);
}
END_TEST

START_TEST(idle_processes_end_at_once_at_sigterm)
{
    settings.workers = WORKERS_MAX;
    pid_t master = start_master();
    uint64_t start = clock_monotonic_us();
    stop_master(master);
    ck_assert_uint_lt(elapsed_ms(start), 1000);
    expect_soon(is_nobody_left, 1000);
    ck_assert_uint_eq(scoreboard_alive(board), 0);
}
END_TEST

START_TEST(what_outlasts_the_drain_timeout_is_ended)
{
    settings.drain_timeout_ms = 400;
    pid_t master = start_master();
    int fd = ask_slowly("60000");
    uint64_t start = clock_monotonic_us();

    kill(master, SIGTERM);
    ck_assert_int_eq(wait_exit(master, 5000), 0);
    ck_assert_uint_ge(elapsed_ms(start), 380);
    ck_assert_uint_lt(elapsed_ms(start), 3000);
    expect_broken(fd);
    expect_logged("drain_timeout");
    expect_soon(is_nobody_left, 1000);
    ck_assert_int_eq(shared->lost, 1); /* of which nobody else would tell */
}
END_TEST

static const int at_once[] = { SIGINT, SIGQUIT };

START_TEST(sigint_and_sigquit_end_at_once_also_during_a_drain)
{
    pid_t master = start_master();
    int fd = ask_slowly("60000");

    if (_i >= 2) {
        kill(master, SIGTERM);
        expect_soon(is_refused, 500);
    }
    uint64_t start = clock_monotonic_us();
    kill(master, at_once[_i % 2]);
    ck_assert_int_eq(wait_exit(master, 5000), 0);
    ck_assert_uint_lt(elapsed_ms(start), 900); /* nobody had to be killed */
    expect_broken(fd);
    expect_soon(is_nobody_left, 1000);
    ck_assert_int_eq(access(in_dir("s.sock"), F_OK), -1);
}
END_TEST

START_TEST(a_worker_that_clings_to_life_is_killed)
{
    pid_t master = start_master();
    const char *const pairs[] = { "CLINGS", "1", "SLEEP_MS", "60000", NULL };
    struct buf wire;
    int fd = try_connect();

    buf_init(&wire, 4096);
    wire_head(&wire, pairs);
    wire_end(&wire, FCGI_STDIN);
    wire_send(fd, &wire);
    buf_free(&wire);
    awaited_in_hand = 1;
    expect_soon(is_in_hand, 3000);
    uint64_t start = clock_monotonic_us();
    kill(master, SIGINT);
    ck_assert_int_eq(wait_exit(master, 8000), 0);
    ck_assert_uint_ge(elapsed_ms(start), 800); /* it had its second */
    expect_soon(is_nobody_left, 1000);
    close(fd);
}
END_TEST

/* --- one master at a time -------------------------------------------------------------------- */

static long pid_in_file(void)
{
    struct span raw;
    ck_assert_int_eq(file_read(in_dir("run/prog.pid"), 100, arena, &raw, &e), 0);
    return strtol(raw.ptr, NULL, 10);
}

START_TEST(a_second_master_is_refused_and_disturbs_nothing)
{
    pid_t master = start_master();
    const char *instance = arena_strdup(arena, board->instance);

    settings.listen = arena_printf(arena, "unix:%s/other.sock", dir);
    ck_assert_int_eq(wait_exit(fork_master(), 3000), 1);
    expect_logged("start_failed");
    ck_assert_int_eq(access(in_dir("other.sock"), F_OK), -1);
    ck_assert_str_eq(map()->instance, instance);
    ck_assert_int_eq(pid_in_file(), master);
    ck_assert(is_worker(ask_pid()));
    stop_master(master);
}
END_TEST

START_TEST(when_the_master_is_killed_the_rest_finishes_and_ends)
{
    pid_t master = start_master();
    int fd = ask_slowly("800");

    kill(master, SIGKILL);
    ck_assert_int_eq(wait_exit(master, 2000), 128 + SIGKILL);
    pid_t pid = read_pid(fd);
    ck_assert(pid > 0);
    expect_soon(is_nobody_left, 3000);
    ck_assert_int_eq(shared->role_stops, 1);
}
END_TEST

START_TEST(after_a_killed_master_the_next_one_serves_while_old_workers_finish)
{
    pid_t first = start_master();
    int fd = ask_slowly("2500");
    uint64_t start = clock_monotonic_us();

    kill(first, SIGKILL);
    ck_assert_int_eq(wait_exit(first, 2000), 128 + SIGKILL);
    pid_t second = start_master();
    ck_assert(is_worker(ask_pid()));
    ck_assert_uint_lt(elapsed_ms(start), 2400); /* the old one is still at it */
    ck_assert(!is_worker(read_pid(fd)));
    ck_assert_int_eq(pid_in_file(), second);
    stop_master(second);
}
END_TEST

static int port_of_killed;

static bool is_port_refused(void)
{
    int fd = connect_tcp(port_of_killed);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

/* Nobody is let in where nobody will serve, and the next master has the address at once. */
START_TEST(a_killed_masters_socket_does_not_live_on_with_a_worker_that_finishes)
{
    bool is_tcp = _i == 1;

    port_of_killed = keep_port();
    if (is_tcp)
        settings.listen = arena_printf(arena, "tcp:127.0.0.1:%d", port_of_killed);
    pid_t first = start_master();
    int fd = is_tcp ? connect_tcp(port_of_killed) : try_connect();
    ask_slowly_on(fd, "6000");
    uint64_t start = clock_monotonic_us();
    kill(first, SIGKILL);
    ck_assert_int_eq(wait_exit(first, 2000), 128 + SIGKILL);
    expect_soon(is_tcp ? is_port_refused : is_refused, 2000);
    pid_t second = start_master();
    ck_assert_uint_lt(elapsed_ms(start), 5900); /* the old one is still at it */
    ck_assert(read_pid(fd) > 0);
    stop_master(second);
}
END_TEST

/* --- starts that fail --------------------------------------------------------------------------- */

static void give_bad_address(void)
{
    settings.listen = "tcp:nowhere";
}

static void give_nothing_to_listen_on(void)
{
    settings.listen = NULL;
    inherited = open("/dev/null", O_RDONLY);
}

static void give_failing_init(void)
{
    shared->is_master_failing = true;
}

static const struct bad_start_row {
    void (*give)(void);
    const char *logged;
} bad_start_rows[] = {
    { give_bad_address, "nowhere" },
    { give_nothing_to_listen_on, "nothing to listen on" },
    { give_failing_init, "broken on purpose" },
};

START_TEST(a_start_that_fails_says_why_and_leaves_nothing)
{
    struct stat st;
    bad_start_rows[_i].give();
    ck_assert_int_eq(wait_exit(fork_master(), 3000), 1);
    expect_logged("start_failed");
    expect_logged(bad_start_rows[_i].logged);
    ck_assert_int_eq(shared->worker_starts, 0);
    ck_assert_int_eq(stat(in_dir("run/prog.pid"), &st), 0);
    ck_assert_msg(st.st_size == 0, "the pid file names a process that is gone");
    ck_assert_int_eq(access(in_dir("s.sock"), F_OK), -1);
}
END_TEST

START_TEST(a_run_folder_that_cannot_be_made_is_said)
{
    settings.run_dir = "/dev/null/run";
    ck_assert_int_eq(wait_exit(fork_master(), 3000), 1);
    expect_logged("/dev/null/run");
}
END_TEST

/* --- a socket that outlives the master ------------------------------------------------------------ */

static int listen_for_them(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s.sock", dir);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 4096), 0);
    return fd;
}

START_TEST(who_waits_at_an_inherited_socket_is_served_by_the_next_master)
{
    inherited = listen_for_them();
    settings.listen = NULL;
    settings.workers = 1;
    pid_t first = start_master();
    int in_hand = ask_slowly("600");

    kill(first, SIGTERM);
    int waiting = ask("X", "1");
    ck_assert(read_pid(in_hand) > 0);
    ck_assert_int_eq(wait_exit(first, 3000), 0);
    ck_assert_int_eq(access(in_dir("s.sock"), F_OK), 0);
    pid_t second = start_master();
    ck_assert_int_eq(read_pid(waiting), board->workers[0].pid);
    stop_master(second);
}
END_TEST

static _Atomic bool is_load_over;

/* Keeps two connections waiting. */
static void *ask_for_ever(void *arg)
{
    (void)arg;
    int before = -1;
    while (!is_load_over) {
        int fd = try_connect();
        if (fd < 0)
            break;
        ask_on(fd, "SLEEP_MS", "10");
        if (before >= 0)
            close(before);
        before = fd;
        sleep_ms(1);
    }
    close(before);
    return NULL;
}

START_TEST(a_drain_ends_although_an_inherited_socket_is_never_empty)
{
    pthread_t load;

    inherited = listen_for_them();
    settings.listen = NULL;
    settings.workers = 1;
    pid_t master = start_master();
    ck_assert_int_eq(pthread_create(&load, NULL, ask_for_ever, NULL), 0);
    awaited_in_hand = 10;
    expect_soon(is_in_hand, 5000);
    kill(master, SIGTERM);
    int status = wait_exit(master, 2000);
    is_load_over = true;
    close(inherited); /* wakes a connect() that waits for room in the queue; shutdown() does not */
    inherited = -1;
    ck_assert_int_eq(pthread_join(load, NULL), 0);
    ck_assert_msg(status == 0, "exit status %d", status);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *tcase = tcase_create("engine");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, workers_answer_and_the_scoreboard_shows_it);
    tcase_add_test(tcase, as_many_requests_as_workers_are_served_at_once);
    tcase_add_test(tcase, a_peer_that_speaks_no_fastcgi_costs_a_worker_nothing);
    tcase_add_test(tcase, a_killed_worker_is_replaced_and_its_request_named);
    tcase_add_test(tcase, the_program_is_told_of_a_request_that_died_with_its_worker);
    tcase_add_test(tcase, a_worker_that_dies_without_a_request_takes_none_with_it);
    tcase_add_test(tcase, the_record_of_a_dead_worker_is_free_until_the_next_has_it);
    tcase_add_test(tcase, workers_that_cannot_start_are_not_started_over_and_over);
    tcase_add_test(tcase, a_role_that_dies_is_started_again);
    tcase_add_loop_test(tcase, a_log_that_takes_no_more_ends_nobody, 0,
                        sizeof(log_losses) / sizeof(log_losses[0]));
    tcase_add_test(tcase, a_hangup_reaches_the_roles_and_leaves_workers_alone);
    tcase_add_test(tcase, workers_take_up_what_a_role_publishes_between_two_requests);
    tcase_add_test(tcase, a_worker_that_is_told_to_leave_ends_its_request_and_takes_no_other);
    tcase_add_test(tcase, a_signal_for_the_master_that_a_child_gets_changes_nothing);
    tcase_add_test(tcase, a_worker_that_begins_takes_up_what_was_published_before);
    tcase_add_test(tcase, sigterm_lets_a_request_in_hand_finish_and_no_new_one_in);
    tcase_add_loop_test(tcase, sigterm_turns_away_who_will_not_be_served, 0,
                        sizeof(waitings) / sizeof(waitings[0]));
    tcase_add_test(tcase, the_last_words_of_a_child_reach_the_log);
    tcase_add_test(tcase, sigterm_also_serves_who_was_waiting);
    tcase_add_test(tcase, idle_processes_end_at_once_at_sigterm);
    tcase_add_test(tcase, what_outlasts_the_drain_timeout_is_ended);
    tcase_add_loop_test(tcase, sigint_and_sigquit_end_at_once_also_during_a_drain, 0, 4);
    tcase_add_test(tcase, a_worker_that_clings_to_life_is_killed);
    tcase_add_test(tcase, a_second_master_is_refused_and_disturbs_nothing);
    tcase_add_test(tcase, when_the_master_is_killed_the_rest_finishes_and_ends);
    tcase_add_test(tcase, after_a_killed_master_the_next_one_serves_while_old_workers_finish);
    tcase_add_loop_test(tcase, a_killed_masters_socket_does_not_live_on_with_a_worker_that_finishes, 0, 2);
    tcase_add_loop_test(tcase, a_start_that_fails_says_why_and_leaves_nothing, 0,
                        sizeof(bad_start_rows) / sizeof(bad_start_rows[0]));
    tcase_add_test(tcase, a_run_folder_that_cannot_be_made_is_said);
    tcase_add_test(tcase, who_waits_at_an_inherited_socket_is_served_by_the_next_master);
    tcase_add_test(tcase, a_drain_ends_although_an_inherited_socket_is_never_empty);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
