/*
 * A connection of a CGI program, and the engine around it: the environment,
 * standard input and output are the test's own, with pipes in their places.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "fcgi/engine/engine.h"
#include "fcgi/engine/pidfile.h"

enum { STALL_MS = 300, LONG_STALL_MS = 20000, MARGIN_MS = 1500 };

static struct arena *arena;
static struct conn conn;
static char dir[64];
static struct error e;
static int server_in, server_out; /* the web server's ends: it writes the body, and reads the reply */

static void sleep_ms(unsigned ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
    nanosleep(&t, NULL);
}

static unsigned elapsed_ms(uint64_t since_us)
{
    return (unsigned)((clock_monotonic_us() - since_us) / US_PER_MS);
}

static void replace(int fd, int by)
{
    ck_assert_int_eq(dup2(by, fd), fd);
    close(by);
}

static void set_up(void)
{
    int in[2], out[2];

    arena = arena_new();
    strcpy(dir, "/tmp/test_cgi.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    signal(SIGPIPE, SIG_IGN); /* as engine_run_cgi does */
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    server_in = in[1];
    server_out = out[0];
    replace(STDIN_FILENO, in[0]);
    replace(STDOUT_FILENO, out[1]);
    unsetenv("CONTENT_LENGTH");
    unsetenv("GATEWAY_INTERFACE");
}

static void tear_down(void)
{
    conn_close(&conn);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static void begin(const char *content_length)
{
    if (content_length != NULL)
        setenv("CONTENT_LENGTH", content_length, 1);
    conn_begin_cgi(&conn, STALL_MS);
}

static void send_body(const char *text)
{
    ck_assert_int_eq(write(server_in, text, strlen(text)), (ssize_t)strlen(text));
}

/* --- the request ------------------------------------------------------------------ */

static void see_param(void *is_listed, struct span name, struct span value)
{
    if (span_is(name, "REQUEST_METHOD") && span_is(value, "POST"))
        *(bool *)is_listed = true;
}

START_TEST(parameters_are_those_of_the_environment)
{
    bool is_listed = false;

    setenv("REQUEST_METHOD", "POST", 1);
    setenv("HTTP_X_EMPTY", "", 1);
    unsetenv("PATH_INFO");
    begin(NULL);
    ck_assert_str_eq(conn_param(&conn, "REQUEST_METHOD"), "POST");
    ck_assert_str_eq(conn_param(&conn, "HTTP_X_EMPTY"), "");
    ck_assert_ptr_null(conn_param(&conn, "PATH_INFO"));
    conn_each_param(&conn, see_param, &is_listed);
    ck_assert(is_listed);
}
END_TEST

/* The web server leaves its end open: RFC 3875 promises no end of file. */
static const struct body_row {
    const char *length; /* NULL: not set */
    const char *sent;
    const char *body;
} body_rows[] = {
    { NULL, "never asked for", "" },
    { "", "x", "" },
    { "0", "x", "" },
    { "1", "x", "x" },
    { "5", "12345", "12345" },
    { "5", "12345 of the next", "12345" },
};

enum { N_BODIES = sizeof(body_rows) / sizeof(body_rows[0]) };

static const size_t rooms[] = { 1, 2, 4096 };

enum { N_ROOMS = sizeof(rooms) / sizeof(rooms[0]), N_READS = N_BODIES * N_ROOMS };

START_TEST(the_body_ends_where_its_length_says)
{
    const struct body_row *row = &body_rows[_i % N_BODIES];
    size_t room = rooms[_i / N_BODIES], len = 0;
    char body[4096];
    ssize_t n;

    begin(row->length);
    send_body(row->sent);
    while ((n = conn_read(&conn, body + len, room)) > 0)
        len += (size_t)n;
    ck_assert_msg(n == 0, "length \"%s\": %s", row->length, err_name((int)n));
    ck_assert_msg(span_is(span_of(body, len), row->body), "length %s, read by %zu: \"%.*s\"", row->length,
                  room, (int)len, body);
    ck_assert(conn.is_input_read);
    ck_assert_int_eq(conn_read_end(&conn), 0);
}
END_TEST

START_TEST(the_end_is_known_with_the_last_byte)
{
    char body[8];
    begin("3");
    send_body("abc");
    ck_assert_int_eq(conn_read(&conn, body, 0), 0);
    ck_assert_msg(!conn.is_input_read, "a read of nothing was taken for the end");
    ck_assert_int_eq(conn_read(&conn, body, 2), 2);
    ck_assert(!conn.is_input_read);
    ck_assert_int_eq(conn_read(&conn, body, 8), 1);
    ck_assert(conn.is_input_read);
}
END_TEST

START_TEST(a_body_that_breaks_off_is_short)
{
    char body[64];
    begin("10");
    send_body("half");
    close(server_in);
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), 4);
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), 0);
    ck_assert(conn.is_input_read);
}
END_TEST

START_TEST(a_body_that_stops_coming_is_a_timeout)
{
    char body[64];
    uint64_t before = clock_monotonic_us();

    begin("10");
    send_body("half");
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), 4);
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), ERR_TIMEOUT);
    ck_assert_msg(elapsed_ms(before) >= STALL_MS - 20 && elapsed_ms(before) < STALL_MS + MARGIN_MS, "%u ms",
                  elapsed_ms(before));
    ck_assert_uint_ge(conn.blocked_us, (STALL_MS - 20) * US_PER_MS);
}
END_TEST

/* --- the reply ---------------------------------------------------------------------- */

/* Reads all of it in a thread of its own. */
struct reading {
    pthread_t thread;
    struct buf bytes;
    unsigned delay_ms;
};

static void *read_all(void *arg)
{
    struct reading *reading = arg;
    char piece[65536];
    ssize_t n;

    sleep_ms(reading->delay_ms);
    while ((n = read(server_out, piece, sizeof(piece))) > 0)
        buf_append(&reading->bytes, piece, (size_t)n);
    return NULL;
}

static void start_reading(struct reading *reading, unsigned delay_ms)
{
    *reading = (struct reading){ .delay_ms = delay_ms };
    buf_init(&reading->bytes, 64 << 20);
    ck_assert_int_eq(pthread_create(&reading->thread, NULL, read_all, reading), 0);
}

static void end_reading(struct reading *reading)
{
    close(STDOUT_FILENO);
    ck_assert_int_eq(pthread_join(reading->thread, NULL), 0);
}

START_TEST(a_reply_is_its_bytes_in_order_and_nothing_else)
{
    const struct span head[] = { span_cstr("Status: 200 OK\r\n"), span_cstr(""), span_cstr("\r\n"),
                                 span_cstr("one ") };
    const struct span body[] = { span_cstr("two") };
    struct reading reading;

    begin(NULL);
    start_reading(&reading, 0);
    ck_assert_int_eq(conn_write(&conn, head, 4, false), 0);
    ck_assert(!conn.is_ended);
    ck_assert_int_eq(conn_write(&conn, body, 1, true), 0);
    ck_assert(conn.is_ended && !conn.is_broken);
    ck_assert_int_eq(conn_end(&conn), 0);
    end_reading(&reading);
    ck_assert(span_is(buf_span(&reading.bytes), "Status: 200 OK\r\n\r\none two"));
    buf_free(&reading.bytes);
}
END_TEST

START_TEST(a_reply_larger_than_the_pipe_waits_for_its_reader)
{
    enum { LARGE = 3 << 20 };
    char *bytes = xmalloc(LARGE);
    struct reading reading;

    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 13 + i / 255);
    begin(NULL);
    start_reading(&reading, 100);
    const struct span piece = span_of(bytes, LARGE);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, true), 0);
    end_reading(&reading);
    ck_assert(span_eq(buf_span(&reading.bytes), piece));
    ck_assert_uint_ge(conn.blocked_us, 50 * US_PER_MS);
    buf_free(&reading.bytes);
    free(bytes);
}
END_TEST

static const char large[1 << 20];
static const struct span large_piece = { large, sizeof(large) };

START_TEST(a_server_that_does_not_read_is_a_timeout)
{
    uint64_t before = clock_monotonic_us();
    begin(NULL);
    ck_assert_int_eq(conn_write(&conn, &large_piece, 1, true), ERR_TIMEOUT);
    ck_assert_msg(elapsed_ms(before) >= STALL_MS - 20 && elapsed_ms(before) < STALL_MS + MARGIN_MS, "%u ms",
                  elapsed_ms(before));
    ck_assert(conn.is_broken && !conn.is_ended);
}
END_TEST

START_TEST(a_write_to_one_who_left_fails_and_so_do_later_ones)
{
    const struct span piece = span_cstr("x");
    begin(NULL);
    close(server_out);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_CLIENT_GONE);
    ck_assert(conn.is_broken);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_CLIENT_GONE);
    ck_assert_int_eq(conn_end(&conn), ERR_CLIENT_GONE);
}
END_TEST

static void *leave_later(void *arg)
{
    (void)arg;
    sleep_ms(100);
    close(server_out);
    return NULL;
}

START_TEST(a_departure_during_a_blocked_write_ends_it_at_once)
{
    uint64_t before = clock_monotonic_us();
    pthread_t thread;

    begin(NULL);
    conn.stall_ms = LONG_STALL_MS;
    ck_assert_int_eq(pthread_create(&thread, NULL, leave_later, NULL), 0);
    ck_assert_int_eq(conn_write(&conn, &large_piece, 1, true), ERR_CLIENT_GONE);
    ck_assert_uint_lt(elapsed_ms(before), 100 + MARGIN_MS);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(an_aborted_reply_is_broken_and_nothing_more_is_written)
{
    const struct span piece = span_cstr("half");
    struct reading reading;

    begin(NULL);
    start_reading(&reading, 0);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), 0);
    conn_abort(&conn);
    ck_assert_msg(conn.is_broken, "the program would exit with success");
    ck_assert_int_eq(conn_write(&conn, &piece, 1, true), ERR_CLIENT_GONE);
    end_reading(&reading);
    ck_assert(span_is(buf_span(&reading.bytes), "half"));
    buf_free(&reading.bytes);
}
END_TEST

/* --- departures ----------------------------------------------------------------------- */

/* What standard output may be. */
static void stdout_to_file(void)
{
    char path[] = "/tmp/test_cgi_out.XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    replace(STDOUT_FILENO, fd);
}

static void stdout_to_socket(void)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    close(server_out);
    server_out = pair[0];
    replace(STDOUT_FILENO, pair[1]);
}

static void stdout_to_pipe(void)
{
}

static const struct output_row {
    const char *what;
    void (*make)(void);
    bool tells; /* that its reader has left */
} output_rows[] = {
    { "a pipe", stdout_to_pipe, true },
    { "a socket", stdout_to_socket, true },
    { "a file", stdout_to_file, false },
};

enum { N_OUTPUTS = sizeof(output_rows) / sizeof(output_rows[0]) };

static bool is_ready(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };
    return poll(&p, 1, 0) > 0;
}

START_TEST(a_departure_is_seen_where_the_output_tells_it)
{
    const struct output_row *row = &output_rows[_i];

    row->make();
    begin(NULL);
    ck_assert_int_eq(conn_read_end(&conn), 0);
    int fd = conn_watch_fd(&conn);
    ck_assert_msg((fd >= 0) == row->tells, "%s is %s", row->what, fd >= 0 ? "watched" : "not watched");
    ck_assert_msg(!is_ready(fd), "%s is ready, and nobody has left", row->what);
    close(server_out);
    ck_assert_msg(is_ready(fd) == row->tells, "%s: departure %s seen", row->what, row->tells ? "not" : "is");
}
END_TEST

/* --- whether it is one ------------------------------------------------------------------ */

static void stdin_is_pipe(void)
{
}

static void stdin_is_null(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    replace(STDIN_FILENO, fd);
}

static void stdin_listens(void)
{
    struct listener listener;
    ck_assert_int_eq(listener_open("tcp:127.0.0.1:0", &listener, &e), 0);
    replace(STDIN_FILENO, listener.fd);
}

static void stdin_is_socket(void)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    replace(STDIN_FILENO, pair[0]);
}

static const struct start_row {
    const char *what;
    const char *gateway_interface;
    void (*make)(void);
    bool is_cgi;
} start_rows[] = {
    { "a pipe", "CGI/1.1", stdin_is_pipe, true },
    { "no body", "CGI/1.1", stdin_is_null, true },
    { "a connected socket", "CGI/1.1", stdin_is_socket, true },
    { "a listening socket", "CGI/1.1", stdin_listens, false }, /* spawn-fcgi from within a CGI */
    { "a pipe", NULL, stdin_is_pipe, false },
    { "a listening socket", NULL, stdin_listens, false },
};

enum { N_STARTS = sizeof(start_rows) / sizeof(start_rows[0]) };

START_TEST(a_cgi_program_is_known_by_its_environment_and_input)
{
    const struct start_row *row = &start_rows[_i];
    row->make();
    if (row->gateway_interface != NULL)
        setenv("GATEWAY_INTERFACE", row->gateway_interface, 1);
    ck_assert_msg(engine_is_cgi() == row->is_cgi, "GATEWAY_INTERFACE %s, fd 0 is %s",
                  row->gateway_interface != NULL ? "set" : "not set", row->what);
}
END_TEST

/* --- one request ------------------------------------------------------------------------ */

static struct calls {
    int master, worker, alone, served;
    char instance[40];
    unsigned alive;
    bool is_failing, is_aborting;
} * calls;

static int init_master(struct engine_process *process, struct error *error)
{
    (void)process;
    calls->master++;
    return calls->is_failing ? error_set(error, ERR_SYSTEM, "broken on purpose") : 0;
}

static int init_worker(struct engine_process *process, struct error *error)
{
    (void)process, (void)error;
    calls->worker++;
    return 0;
}

static int init_alone(struct engine_process *process, struct error *error)
{
    (void)process, (void)error;
    calls->alone++;
    return 0;
}

static void serve(struct engine_process *process, struct conn *connection)
{
    const struct span reply = span_cstr("Status: 200 OK\r\n\r\nhi");
    calls->served++;
    memcpy(calls->instance, process->mapping->instance, sizeof(calls->instance));
    calls->alive = scoreboard_alive(process->mapping);
    scoreboard_enter(process->record, STAGE_STREAMING); /* it has a record to write to */
    conn_write(connection, &reply, 1, !calls->is_aborting);
    if (calls->is_aborting)
        conn_abort(connection);
}

static const struct engine_program program = {
    .name = "prog",
    .init_master = init_master,
    .init_worker = init_worker,
    .serve = serve,
    .init_alone = init_alone,
    .stall_ms = STALL_MS,
};

/* Runs the program as a web server does: the exit status. */
static int run_program(void)
{
    const struct engine_settings settings = { .run_dir = dir };
    int status;

    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen(arena_printf(arena, "%s/log", dir), "w", stderr))
            _exit(99);
        _exit(engine_run_cgi(&program, &settings));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static void expect_output(const char *text)
{
    char bytes[4096];
    fcntl(server_out, F_SETFL, O_NONBLOCK);
    ssize_t n = read(server_out, bytes, sizeof(bytes));
    ck_assert_msg(span_is(span_of(bytes, n > 0 ? (size_t)n : 0), text), "\"%.*s\"", n > 0 ? (int)n : 0,
                  bytes);
}

static void share_calls(void)
{
    calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(calls != MAP_FAILED);
}

START_TEST(without_an_instance_it_prepares_all_by_itself)
{
    share_calls();
    ck_assert_int_eq(run_program(), 0);
    expect_output("Status: 200 OK\r\n\r\nhi");
    ck_assert_int_eq(calls->master, 1);
    ck_assert_int_eq(calls->worker, 1);
    ck_assert_int_eq(calls->alone, 1);
    ck_assert_int_eq(calls->served, 1);
    ck_assert_msg(calls->alive == 1, "%u workers are alive, expected itself", calls->alive);
}
END_TEST

START_TEST(with_an_instance_it_uses_what_that_has_prepared)
{
    struct mapping *mapping;
    int pidfile;

    share_calls();
    ck_assert_int_eq(pidfile_take(dir, "prog", &pidfile, &e), 0);
    ck_assert_int_eq(mapping_create(dir, "prog", 2, &mapping, &e), 0);
    ck_assert_int_eq(run_program(), 0);
    expect_output("Status: 200 OK\r\n\r\nhi");
    ck_assert_int_eq(calls->alone, 0);
    ck_assert_str_eq(calls->instance, mapping->instance);
    ck_assert_msg(calls->alive == 0, "it stands in the instance's scoreboard");
    pidfile_release(pidfile);
}
END_TEST

START_TEST(what_cannot_begin_writes_nothing_and_fails)
{
    struct span log;
    share_calls();
    calls->is_failing = true;
    ck_assert_int_eq(run_program(), 1);
    expect_output("");
    ck_assert_int_eq(calls->served, 0);
    ck_assert_int_eq(file_read(arena_printf(arena, "%s/log", dir), 10000, arena, &log, &e), 0);
    ck_assert_msg(strstr(log.ptr, "broken on purpose") != NULL, "the log is: %s", log.ptr);
}
END_TEST

START_TEST(a_reply_that_broke_off_is_a_failure)
{
    share_calls();
    calls->is_aborting = true;
    ck_assert_int_eq(run_program(), 1);
}
END_TEST

START_TEST(a_server_that_left_is_a_failure_and_no_signal)
{
    share_calls();
    close(server_out);
    ck_assert_int_eq(run_program(), 1);
    ck_assert_int_eq(calls->served, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cgi");
    TCase *tcase = tcase_create("cgi");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 15);
    tcase_add_test(tcase, parameters_are_those_of_the_environment);
    tcase_add_loop_test(tcase, the_body_ends_where_its_length_says, 0, N_BODIES * N_ROOMS);
    tcase_add_test(tcase, the_end_is_known_with_the_last_byte);
    tcase_add_test(tcase, a_body_that_breaks_off_is_short);
    tcase_add_test(tcase, a_body_that_stops_coming_is_a_timeout);
    tcase_add_test(tcase, a_reply_is_its_bytes_in_order_and_nothing_else);
    tcase_add_test(tcase, a_reply_larger_than_the_pipe_waits_for_its_reader);
    tcase_add_test(tcase, a_server_that_does_not_read_is_a_timeout);
    tcase_add_test(tcase, a_write_to_one_who_left_fails_and_so_do_later_ones);
    tcase_add_test(tcase, a_departure_during_a_blocked_write_ends_it_at_once);
    tcase_add_test(tcase, an_aborted_reply_is_broken_and_nothing_more_is_written);
    tcase_add_loop_test(tcase, a_departure_is_seen_where_the_output_tells_it, 0, N_OUTPUTS);
    tcase_add_loop_test(tcase, a_cgi_program_is_known_by_its_environment_and_input, 0, N_STARTS);
    tcase_add_test(tcase, without_an_instance_it_prepares_all_by_itself);
    tcase_add_test(tcase, with_an_instance_it_uses_what_that_has_prepared);
    tcase_add_test(tcase, what_cannot_begin_writes_nothing_and_fails);
    tcase_add_test(tcase, a_reply_that_broke_off_is_a_failure);
    tcase_add_test(tcase, a_server_that_left_is_a_failure_and_no_signal);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
