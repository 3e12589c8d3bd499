/*
 * The overflow process as a child, with a voice that says what it was asked, on
 * real sockets that no worker accepts from.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "fcgi/engine/child.h"
#include "fcgi/engine/overflow.h"
#include "tests/unit/fcgi_client.h"

enum {
    N_WORKERS = 3,
    TIMEOUT_MS = 200,
    LONG_MS = 60000, /* longer than any test */
    SOON_MS = 1500,  /* what is promised at once, on a busy machine */
    ORDER_MAX = 64,
    PATIENCE_MS = 5000,    /* the process's, for a peer */
    LARGE_BYTES = 1500000, /* more than a socket holds */
};

/* What the processes tell the test. */
static struct shared {
    _Atomic int n_answers;
    char order[ORDER_MAX]; /* NAME of each answer, in turn */
    _Atomic int hangups[N_WORKERS];
    _Atomic bool is_voice_broken;
} * shared;

static struct arena *arena;
static char dir[64];
static struct mapping *mapping;

static uint64_t counted(enum metric_id id)
{
    return telemetry_get(&mapping->telemetry, id, 0);
}
static struct listener listener, health;
static struct engine_settings settings;
static struct error e;
static pid_t overflow;

/* --- the voice -------------------------------------------------------------------- */

static int voice_init(struct engine_process *process, struct error *error)
{
    ck_assert_ptr_eq(process->mapping, mapping);
    return shared->is_voice_broken ? error_set(error, ERR_SYSTEM, "broken on purpose") : 0;
}

/* Its socket, and the NAME of who asked; as many bytes more as it wants. */
static void voice_answer(struct engine_process *process, const struct record_reader *request, bool is_health,
                         struct buf *cgi)
{
    const char *name = record_param(request, "NAME");
    (void)process;
    buf_printf(cgi, "%s %s", is_health ? "health" : "overflow", name != NULL ? name : "");
    if (record_param(request, "LARGE") != NULL) {
        for (int i = 0; i < LARGE_BYTES / 10; i++)
            buf_append_cstr(cgi, "0123456789");
    }
    int turn = shared->n_answers++;
    if (turn < ORDER_MAX && name != NULL)
        shared->order[turn] = name[0];
}

static const struct overflow_voice voice = { .init = voice_init, .answer = voice_answer };

/* --- harness -------------------------------------------------------------------------- */

static void sleep_ms(unsigned ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
    nanosleep(&t, NULL);
}

static unsigned elapsed_ms(uint64_t since_us)
{
    return (unsigned)((clock_monotonic_us() - since_us) / US_PER_MS);
}

static const char *in_dir(const char *name)
{
    return arena_printf(arena, "%s/%s", dir, name);
}

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_overflow.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    ck_assert_int_eq(mapping_create(dir, "prog", N_WORKERS, &mapping, &e), 0);
    ck_assert_int_eq(listener_open(arena_printf(arena, "unix:%s/s.sock", dir), &listener, &e), 0);
    ck_assert_int_eq(listener_open(arena_printf(arena, "unix:%s/health.sock", dir), &health, &e), 0);
    settings = (struct engine_settings){ .run_dir = dir, .queue_timeout_ms = TIMEOUT_MS };
    overflow = 0;
}

/* The child's process: it dies with us. `descriptors` > 0: it may have no more. */
static void start_with(rlim_t descriptors)
{
    struct engine_process process = {
        .settings = &settings,
        .mapping = mapping,
        .listener = &listener,
        .health = &health,
        .master = getpid(),
    };

    overflow = fork();
    ck_assert_int_ge(overflow, 0);
    if (overflow > 0)
        return;
    if (!freopen(in_dir("log"), "w", stderr))
        _exit(99);
    if (descriptors > 0 && setrlimit(RLIMIT_NOFILE, &(struct rlimit){ descriptors, descriptors }) != 0)
        _exit(98);
    child_begin(&process, &listener, &health);
    _exit(overflow_run(&voice, &process));
}

static void start(void)
{
    start_with(0);
}

/* Waits for its end: the exit code. */
static int reap(void)
{
    int status;
    ck_assert_int_eq(waitpid(overflow, &status, 0), overflow);
    overflow = 0;
    ck_assert_msg(WIFEXITED(status), "it was ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static int stop(void)
{
    kill(overflow, SIGTERM);
    return reap();
}

static void tear_down(void)
{
    if (overflow > 0)
        ck_assert_int_eq(stop(), 0);
    listener_close(&listener);
    listener_close(&health);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static int connect_to(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    strcpy(address.sun_path, in_dir(name));
    ck_assert_msg(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect: %s",
                  strerror(errno));
    return fd;
}

/* A request called `name`; its end is sent unless it is still to come. */
static void ask(int fd, const char *name, bool is_whole)
{
    const char *const pairs[] = { "NAME", name, NULL };
    struct buf wire;

    buf_init(&wire, WIRE_BYTES);
    wire_head(&wire, pairs);
    wire_record(&wire, FCGI_STDIN, span_cstr("some of a body"));
    if (is_whole)
        wire_end(&wire, FCGI_STDIN);
    wire_send(fd, &wire);
    buf_free(&wire);
}

static int connect_and_ask(const char *socket, const char *name)
{
    int fd = connect_to(socket);
    ask(fd, name, true);
    return fd;
}

/* Reads the reply to its end and closes. */
static void expect_answer(int fd, const char *text)
{
    struct client_reply got;

    client_read(fd, &got);
    client_expect_whole(&got);
    ck_assert_msg(span_is(buf_span(&got.out), text), "\"%.*s\", expected \"%s\"", (int)got.out.len,
                  got.out.data, text);
    client_reply_free(&got);
    close(fd);
}

static void expect_health(void)
{
    uint64_t begin = clock_monotonic_us();
    expect_answer(connect_and_ask("health.sock", "probe"), "health probe");
    ck_assert_msg(elapsed_ms(begin) < SOON_MS, "a probe took %u ms", elapsed_ms(begin));
}

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, timeout_ms) > 0;
}

/* The connection was closed without a byte. */
static void expect_closed(int fd)
{
    char byte;
    ck_assert_msg(is_readable(fd, SOON_MS), "it is still open");
    ck_assert_int_le(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

/* As a worker takes the connection at the head. */
static void accept_as_worker(void)
{
    int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    atomic_fetch_add(&mapping->accepted, 1);
    close(fd);
}

static void wait_for(const _Atomic uint64_t *cell, uint64_t value)
{
    uint64_t begin = clock_monotonic_us();
    while (atomic_load(cell) != value && elapsed_ms(begin) < SOON_MS)
        sleep_ms(5);
    ck_assert_msg(atomic_load(cell) == value, "it is %llu, expected %llu",
                  (unsigned long long)atomic_load(cell), (unsigned long long)value);
}

static size_t count_descriptors(void)
{
    DIR *folder = opendir(arena_printf(arena, "/proc/%d/fd", (int)overflow));
    size_t n = 0;
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

/* --- the health socket ------------------------------------------------------------------ */

START_TEST(health_is_answered_at_once_while_connections_wait)
{
    int waiting[20];
    settings.queue_timeout_ms = LONG_MS;
    for (int i = 0; i < 20; i++)
        waiting[i] = connect_and_ask("s.sock", "a");
    start();
    for (int i = 0; i < 20; i++)
        expect_health();
    ck_assert_uint_eq(counted(METRIC_OVERFLOW), 0);
    for (int i = 0; i < 20; i++)
        close(waiting[i]);
}
END_TEST

START_TEST(many_probes_at_once_are_all_answered)
{
    int probes[100];
    start();
    for (int i = 0; i < 100; i++)
        probes[i] = connect_and_ask("health.sock", "p");
    for (int i = 0; i < 100; i++)
        expect_answer(probes[i], "health p");
}
END_TEST

START_TEST(health_callers_do_not_count_as_accepted_connections)
{
    start();
    expect_health();
    ck_assert_uint_eq(mapping->accepted, 0);
    ck_assert_uint_eq(counted(METRIC_OVERFLOW), 0);
}
END_TEST

static const struct nonsense_row {
    const char *what;
    const char *bytes;
    size_t len;
} nonsense_rows[] = {
    { "HTTP", "GET /livez HTTP/1.1\r\n\r\n", 23 },
    { "an abort", "\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0\1\2\0\1\0\0\0\0", 24 },
    { "an authorizer", "\1\1\0\1\0\10\0\0\0\2\0\0\0\0\0\0", 16 },
};

enum { N_NONSENSE = sizeof(nonsense_rows) / sizeof(nonsense_rows[0]) };

START_TEST(one_who_does_not_ask_properly_is_left)
{
    const struct nonsense_row *row = &nonsense_rows[_i];
    start();
    int fd = connect_to("health.sock");
    ck_assert_int_eq(send(fd, row->bytes, row->len, MSG_NOSIGNAL), (ssize_t)row->len);
    expect_closed(fd);
    expect_health();
    ck_assert_int_eq(shared->n_answers, 1);
}
END_TEST

/* --- who waits ------------------------------------------------------------------------------ */

START_TEST(who_waits_too_long_is_answered_in_the_order_of_arrival)
{
    int fds[3];
    uint64_t begin = clock_monotonic_us();

    start();
    for (int i = 0; i < 3; i++) {
        fds[i] = connect_and_ask("s.sock", (const char *const[]){ "a", "b", "c" }[i]);
        sleep_ms(30);
    }
    ck_assert(is_readable(fds[0], SOON_MS));
    ck_assert_msg(elapsed_ms(begin) >= TIMEOUT_MS, "the first was shed after %u ms", elapsed_ms(begin));
    for (int i = 0; i < 3; i++)
        expect_answer(fds[i], (const char *const[]){ "overflow a", "overflow b", "overflow c" }[i]);
    ck_assert_msg(elapsed_ms(begin) < TIMEOUT_MS + SOON_MS, "they were shed after %u ms", elapsed_ms(begin));
    ck_assert_str_eq(shared->order, "abc");
    ck_assert_uint_eq(mapping->accepted, 3);
    ck_assert_uint_eq(counted(METRIC_OVERFLOW), 3);
}
END_TEST

START_TEST(who_is_taken_in_time_is_not_shed)
{
    start();
    for (int i = 0; i < 10; i++) {
        int fd = connect_to("s.sock");
        sleep_ms(TIMEOUT_MS / 4);
        accept_as_worker();
        close(fd);
        wait_for(&mapping->waiting, 0); /* or the queue would stand */
    }
    ck_assert_uint_eq(counted(METRIC_OVERFLOW), 0);
    ck_assert_uint_eq(mapping->accepted, 10);
}
END_TEST

START_TEST(a_queue_that_stands_is_shed_sooner)
{
    enum { STANDING_MS = 800 };
    settings.queue_timeout_ms = STANDING_MS;
    start();
    int first = connect_and_ask("s.sock", "f");
    sleep_ms(STANDING_MS - 200);
    uint64_t begin = clock_monotonic_us();
    int second = connect_and_ask("s.sock", "s");
    expect_answer(first, "overflow f");
    expect_answer(second, "overflow s");
    ck_assert_msg(elapsed_ms(begin) < STANDING_MS, "it was shed after %u ms", elapsed_ms(begin));
}
END_TEST

START_TEST(how_many_wait_is_told)
{
    int fds[3];
    settings.queue_timeout_ms = LONG_MS;
    start();
    for (int i = 0; i < 3; i++)
        fds[i] = connect_to("s.sock");
    wait_for(&mapping->waiting, 3);
    accept_as_worker();
    wait_for(&mapping->waiting, 2);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}
END_TEST

START_TEST(a_large_crowd_is_shed_to_the_last)
{
    enum { CROWD = 500 };
    int fds[CROWD];

    for (int i = 0; i < CROWD; i++)
        fds[i] = connect_and_ask("s.sock", "x");
    start();
    for (int i = 0; i < CROWD; i++)
        expect_answer(fds[i], "overflow x");
    ck_assert_uint_eq(counted(METRIC_OVERFLOW), CROWD);
    ck_assert_uint_eq(mapping->accepted, CROWD);
}
END_TEST

/* --- peers that are slow ----------------------------------------------------------------------- */

START_TEST(one_who_is_still_sending_gets_the_answer_and_loses_none_of_it)
{
    static const char more[60000];
    struct client_reply got;
    struct buf wire;

    start();
    int fd = connect_to("health.sock");
    ask(fd, "slow", false);
    client_read(fd, &got); /* ends with the other side's half-close */
    client_expect_whole(&got);
    ck_assert(span_is(buf_span(&got.out), "health slow"));
    client_reply_free(&got);

    buf_init(&wire, WIRE_BYTES);
    for (int i = 0; i < 20; i++) {
        wire_record(&wire, FCGI_STDIN, span_of(more, sizeof(more)));
        wire_send(fd, &wire); /* still taken, and thrown away */
    }
    wire_end(&wire, FCGI_STDIN);
    wire_send(fd, &wire);
    buf_free(&wire);
    expect_closed(fd);
}
END_TEST

START_TEST(one_who_never_stops_sending_is_left_after_a_second)
{
    uint64_t begin = clock_monotonic_us();
    struct buf wire;

    start();
    int fd = connect_to("health.sock");
    ask(fd, "slow", false);
    ck_assert(is_readable(fd, SOON_MS));
    buf_init(&wire, WIRE_BYTES);
    wire_record(&wire, FCGI_STDIN, span_cstr("x"));
    while (wire_try_send(fd, &wire) == 0)
        sleep_ms(10);
    buf_free(&wire);
    ck_assert_msg(elapsed_ms(begin) >= 900 && elapsed_ms(begin) < 1000 + SOON_MS, "it was left after %u ms",
                  elapsed_ms(begin));
    close(fd);
}
END_TEST

START_TEST(one_who_does_not_read_delays_nobody_and_gets_it_later)
{
    const char *const pairs[] = { "NAME", "l", "LARGE", "", NULL };
    struct client_reply got;
    struct buf wire;

    start();
    int fd = connect_to("health.sock");
    buf_init(&wire, WIRE_BYTES);
    wire_head(&wire, pairs);
    wire_end(&wire, FCGI_STDIN);
    wire_send(fd, &wire);
    buf_free(&wire);
    for (int i = 0; i < 5; i++) {
        sleep_ms(50);
        expect_health();
    }
    client_read(fd, &got);
    client_expect_whole(&got);
    ck_assert_uint_eq(got.out.len, strlen("health l") + LARGE_BYTES);
    client_reply_free(&got);
    close(fd);
}
END_TEST

START_TEST(one_who_sends_nothing_delays_nobody_and_is_left_in_the_end)
{
    uint64_t begin = clock_monotonic_us();

    start();
    int silent = connect_to("health.sock");
    int half = connect_to("health.sock");
    ck_assert_int_eq(send(half, "\1\1\0", 3, MSG_NOSIGNAL), 3);
    for (int i = 0; i < 5; i++)
        expect_health();
    ck_assert(!is_readable(silent, 0));
    ck_assert(is_readable(silent, PATIENCE_MS + SOON_MS));
    ck_assert_msg(elapsed_ms(begin) >= PATIENCE_MS - 100, "it was left after %u ms", elapsed_ms(begin));
    expect_closed(silent);
    expect_closed(half);
}
END_TEST

START_TEST(silent_peers_leave_places_for_probes)
{
    enum { DESCRIPTORS = 100, SILENT = 150 };
    int fds[SILENT];

    start_with(DESCRIPTORS);
    for (int i = 0; i < SILENT; i++)
        fds[i] = connect_to("s.sock");
    uint64_t begin = clock_monotonic_us();
    while (counted(METRIC_OVERFLOW) == 0 && elapsed_ms(begin) < SOON_MS)
        sleep_ms(10);
    sleep_ms(100);
    ck_assert_uint_gt(counted(METRIC_OVERFLOW), 20);
    ck_assert_uint_lt(counted(METRIC_OVERFLOW), DESCRIPTORS);
    for (int i = 0; i < 5; i++)
        expect_health();
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
}
END_TEST

START_TEST(probes_beyond_all_places_are_refused_at_once)
{
    enum { DESCRIPTORS = 100, SILENT = 120 };
    int fds[SILENT];

    start_with(DESCRIPTORS);
    for (int i = 0; i < SILENT; i++)
        fds[i] = connect_to("health.sock");
    expect_closed(fds[SILENT - 1]);
    for (int i = 0; i < SILENT - 1; i++)
        close(fds[i]);
    sleep_ms(50);
    expect_health();
}
END_TEST

START_TEST(those_who_leave_leave_no_descriptor)
{
    start();
    expect_health();
    size_t before = count_descriptors();
    for (int i = 0; i < 100; i++) {
        int fd = connect_to("health.sock");
        if (i % 3 == 1)
            ask(fd, "l", false);
        else if (i % 3 == 2)
            ask(fd, "l", true);
        close(fd);
    }
    expect_health();
    ck_assert_uint_eq(count_descriptors(), before);
}
END_TEST

/* --- lost wake-ups ------------------------------------------------------------------------------ */

/* A process that stands in a worker's record and counts what it is sent. */
static pid_t start_worker(unsigned slot, enum stage stage)
{
    struct scoreboard_record *record = &mapping->workers[slot];
    sigset_t set;
    int signal;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL); /* before it can come */
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        while (sigwait(&set, &signal) == 0)
            shared->hangups[slot]++;
        _exit(1);
    }
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    atomic_store(&record->pid, pid);
    scoreboard_enter(record, stage);
    return pid;
}

static void end_worker(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(an_idle_worker_beside_a_waiting_connection_is_woken)
{
    static const enum stage stages[N_WORKERS] = { STAGE_IDLE, STAGE_STREAMING, STAGE_IDLE };
    pid_t pids[N_WORKERS];
    uint64_t begin = clock_monotonic_us();

    settings.queue_timeout_ms = LONG_MS;
    for (unsigned i = 0; i < N_WORKERS; i++)
        pids[i] = start_worker(i, stages[i]);
    start();
    int fd = connect_to("s.sock");
    while ((shared->hangups[0] == 0 || shared->hangups[2] == 0) && elapsed_ms(begin) < SOON_MS)
        sleep_ms(5);
    ck_assert_msg(shared->hangups[0] > 0 && shared->hangups[2] > 0, "woken were: %d, %d, %d times",
                  shared->hangups[0], shared->hangups[1], shared->hangups[2]);
    ck_assert_msg(shared->hangups[1] == 0, "a busy worker was disturbed");
    ck_assert_uint_gt(counted(METRIC_WAKEUPS_REPAIRED), 0);

    accept_as_worker(); /* one of them has it now */
    wait_for(&mapping->waiting, 0);
    uint64_t nudges = counted(METRIC_WAKEUPS_REPAIRED);
    sleep_ms(100);
    ck_assert_uint_eq(counted(METRIC_WAKEUPS_REPAIRED), nudges);
    close(fd);
    for (unsigned i = 0; i < N_WORKERS; i++)
        end_worker(pids[i]);
}
END_TEST

START_TEST(without_an_idle_worker_nobody_is_woken)
{
    static const enum stage stages[N_WORKERS] = { STAGE_READING, STAGE_WAITING, STAGE_FINISHING };
    pid_t pids[N_WORKERS];

    settings.queue_timeout_ms = LONG_MS;
    for (unsigned i = 0; i < N_WORKERS; i++)
        pids[i] = start_worker(i, stages[i]);
    start();
    int fd = connect_to("s.sock");
    wait_for(&mapping->waiting, 1);
    sleep_ms(150);
    ck_assert_uint_eq(counted(METRIC_WAKEUPS_REPAIRED), 0);
    close(fd);
    for (unsigned i = 0; i < N_WORKERS; i++)
        end_worker(pids[i]);
}
END_TEST

/* --- beginning and end ------------------------------------------------------------------------------ */

START_TEST(sigterm_ends_it_at_once)
{
    uint64_t begin = clock_monotonic_us();
    start();
    expect_health();
    ck_assert_int_eq(stop(), 0);
    ck_assert_uint_lt(elapsed_ms(begin), SOON_MS);
}
END_TEST

START_TEST(who_waits_when_it_ends_is_left_to_the_workers)
{
    int fd = connect_and_ask("s.sock", "a"), slow;

    settings.queue_timeout_ms = TIMEOUT_MS;
    start();
    slow = connect_to("health.sock");
    ask(slow, "s", false);
    ck_assert(is_readable(slow, SOON_MS)); /* from here on it holds the process for a second */
    kill(overflow, SIGTERM);
    sleep_ms(2 * TIMEOUT_MS);
    ck_assert_uint_eq(counted(METRIC_OVERFLOW), 0);
    ck_assert_int_eq(reap(), 0);
    ck_assert(!is_readable(fd, 0));
    close(fd);
    close(slow);
}
END_TEST

START_TEST(a_request_in_hand_is_answered_before_the_end)
{
    start();
    int fd = connect_to("health.sock");
    wire_try_send(fd, &(struct buf){ .data = (char *)(uintptr_t) "\1\1", .len = 2 });
    sleep_ms(50); /* it has been accepted */
    kill(overflow, SIGTERM);
    sleep_ms(50);
    struct buf wire;
    buf_init(&wire, WIRE_BYTES);
    wire_head(&wire, (const char *const[]){ "NAME", "late", NULL });
    wire_end(&wire, FCGI_STDIN);
    buf_consume(&wire, 2);
    wire_send(fd, &wire);
    buf_free(&wire);
    expect_answer(fd, "health late");
    ck_assert_int_eq(reap(), 0);
}
END_TEST

START_TEST(a_voice_that_cannot_begin_is_said)
{
    struct span log;
    shared->is_voice_broken = true;
    start();
    ck_assert_int_eq(reap(), 1);
    ck_assert_int_eq(file_read(in_dir("log"), 10000, arena, &log, &e), 0);
    ck_assert_msg(strstr(log.ptr, "\"overflow_failed\"") != NULL &&
                      strstr(log.ptr, "broken on purpose") != NULL,
                  "the log is: %s", log.ptr);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("overflow");
    TCase *tcase = tcase_create("overflow");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, health_is_answered_at_once_while_connections_wait);
    tcase_add_test(tcase, many_probes_at_once_are_all_answered);
    tcase_add_test(tcase, health_callers_do_not_count_as_accepted_connections);
    tcase_add_loop_test(tcase, one_who_does_not_ask_properly_is_left, 0, N_NONSENSE);
    tcase_add_test(tcase, who_waits_too_long_is_answered_in_the_order_of_arrival);
    tcase_add_test(tcase, who_is_taken_in_time_is_not_shed);
    tcase_add_test(tcase, a_queue_that_stands_is_shed_sooner);
    tcase_add_test(tcase, how_many_wait_is_told);
    tcase_add_test(tcase, a_large_crowd_is_shed_to_the_last);
    tcase_add_test(tcase, one_who_is_still_sending_gets_the_answer_and_loses_none_of_it);
    tcase_add_test(tcase, one_who_never_stops_sending_is_left_after_a_second);
    tcase_add_test(tcase, one_who_does_not_read_delays_nobody_and_gets_it_later);
    tcase_add_test(tcase, one_who_sends_nothing_delays_nobody_and_is_left_in_the_end);
    tcase_add_test(tcase, silent_peers_leave_places_for_probes);
    tcase_add_test(tcase, probes_beyond_all_places_are_refused_at_once);
    tcase_add_test(tcase, those_who_leave_leave_no_descriptor);
    tcase_add_test(tcase, an_idle_worker_beside_a_waiting_connection_is_woken);
    tcase_add_test(tcase, without_an_idle_worker_nobody_is_woken);
    tcase_add_test(tcase, sigterm_ends_it_at_once);
    tcase_add_test(tcase, who_waits_when_it_ends_is_left_to_the_workers);
    tcase_add_test(tcase, a_request_in_hand_is_answered_before_the_end);
    tcase_add_test(tcase, a_voice_that_cannot_begin_is_said);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
