#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "fcgi/engine/listener.h"

static struct arena *arena;
static char dir[64];
static struct error e;
static struct listener listener;

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_listener.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    listener = (struct listener){ .fd = -1, .path = "untouched" };
    e = (struct error){ .code = 0 };
}

static void tear_down(void)
{
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static const char *path(void)
{
    return arena_printf(arena, "%s/s.sock", dir);
}

static const char *unix_address(void)
{
    return arena_printf(arena, "unix:%s", path());
}

static struct sockaddr_un address_of(const char *where)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", where);
    return address;
}

/* 0, or an errno. */
static int connect_unix(void)
{
    struct sockaddr_un address = address_of(path());
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    int r = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    close(fd);
    return r;
}

/* A socket bound to the path, as another program makes one. */
static int bind_unix(bool listens)
{
    struct sockaddr_un address = address_of(path());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    if (listens)
        ck_assert_int_eq(listen(fd, 5), 0);
    return fd;
}

static void expect_refused(const char *address, int code)
{
    int r = listener_open(address, &listener, &e);
    ck_assert_msg(r == code, "\"%s\": %s, expected %s", address, err_name(r), err_name(code));
    ck_assert_int_eq(e.code, code);
    ck_assert_uint_gt(strlen(e.text), 0);
    ck_assert_int_eq(listener.fd, -1);
    ck_assert_str_eq(listener.path, "untouched");
}

static void open_at(const char *address)
{
    int r = listener_open(address, &listener, &e);
    ck_assert_msg(r == 0, "%s: %s", address, e.text);
}

/* A listening socket that neither blocks nor is passed on to other programs. */
static void expect_listening(bool is_tcp)
{
    int listens = 0;
    socklen_t len = sizeof(listens);
    ck_assert_int_eq(getsockopt(listener.fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len), 0);
    ck_assert_int_eq(listens, 1);
    ck_assert_int_ne(fcntl(listener.fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(listener.fd, F_GETFD) & FD_CLOEXEC, 0);
    ck_assert_int_eq(listener.is_tcp, is_tcp);
    ck_assert_int_eq(accept(listener.fd, NULL, NULL), -1);
    ck_assert_int_eq(errno, EAGAIN);
}

/* --- unix ------------------------------------------------------------------------ */

START_TEST(a_unix_socket_is_for_owner_and_group_only)
{
    struct stat st;
    umask(_i == 0 ? 0 : 0777);
    open_at(unix_address());
    expect_listening(false);
    ck_assert_str_eq(listener.path, path());
    ck_assert_int_eq(stat(path(), &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    ck_assert_msg((st.st_mode & 07777) == 0660, "mode %o", (unsigned)st.st_mode & 07777);
    ck_assert_int_eq(connect_unix(), 0);
    listener_close(&listener);
    ck_assert_int_eq(listener.fd, -1);
    ck_assert_int_eq(access(path(), F_OK), -1);
    listener_close(&listener); /* the second one is nothing */
}
END_TEST

START_TEST(a_socket_left_by_a_dead_process_is_replaced)
{
    close(bind_unix(_i == 0));
    ck_assert_int_eq(connect_unix(), ECONNREFUSED);
    open_at(unix_address());
    ck_assert_int_eq(connect_unix(), 0);
    listener_close(&listener);
}
END_TEST

START_TEST(a_socket_that_somebody_listens_on_is_left_alone)
{
    int theirs = bind_unix(true);
    expect_refused(unix_address(), ERR_CONFLICT);
    ck_assert_ptr_nonnull(strstr(e.text, path()));
    ck_assert_int_eq(connect_unix(), 0);
    close(theirs);
}
END_TEST

/* As after the death of a master whose workers still finish a request. */
START_TEST(a_socket_that_only_heirs_of_its_dead_maker_hold_is_replaced)
{
    int until[2], status;
    char byte;

    ck_assert_int_eq(pipe(until), 0);
    pid_t maker = fork();
    if (maker == 0) {
        bind_unix(true);
        if (fork() == 0) {
            close(until[1]);
            _exit(read(until[0], &byte, 1) == 0 ? 0 : 1); /* an heir, until we close the pipe */
        }
        _exit(0);
    }
    ck_assert_int_eq(waitpid(maker, &status, 0), maker);
    ck_assert_int_eq(connect_unix(), 0);
    open_at(unix_address());
    struct stat st;
    ck_assert_int_eq(stat(path(), &st), 0);
    ck_assert_uint_eq(st.st_ino, listener.inode);
    ck_assert_int_eq(connect_unix(), 0);
    int fd = accept(listener.fd, NULL, NULL);
    ck_assert_msg(fd >= 0, "the heir's socket was connected to");
    close(fd);
    close(until[1]);
    listener_close(&listener);
}
END_TEST

START_TEST(a_file_that_is_no_socket_is_left_alone)
{
    close(open(path(), O_CREAT | O_WRONLY, 0600));
    expect_refused(unix_address(), ERR_SYSTEM);
    ck_assert_int_eq(access(path(), F_OK), 0);
}
END_TEST

START_TEST(a_path_that_is_another_socket_by_now_is_not_removed)
{
    open_at(unix_address());
    ck_assert_int_eq(unlink(path()), 0);
    int theirs = bind_unix(true);
    listener_close(&listener);
    ck_assert_int_eq(connect_unix(), 0);
    close(theirs);
}
END_TEST

START_TEST(the_longest_path_is_used_and_a_longer_one_refused)
{
    size_t longest = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1, rest = longest - strlen(dir) - 1;
    char *name = arena_alloc(arena, rest + 2);
    memset(name, 'x', rest + 1);
    name[rest + 1] = '\0';
    expect_refused(arena_printf(arena, "unix:%s/%s", dir, name), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(e.text, "108"));
    name[rest] = '\0';
    open_at(arena_printf(arena, "unix:%s/%s", dir, name));
    ck_assert_uint_eq(strlen(listener.path), longest);
    listener_close(&listener);
}
END_TEST

/* --- tcp --------------------------------------------------------------------------- */

static in_port_t port_of(int fd)
{
    struct sockaddr_in6 address = { .sin6_port = 0 }; /* of either family: the port is at one place */
    socklen_t len = sizeof(address);
    _Static_assert(offsetof(struct sockaddr_in6, sin6_port) == offsetof(struct sockaddr_in, sin_port),
                   "as said");
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    return address.sin6_port;
}

static int connect_tcp(int family, in_port_t port)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET,
                              .sin_port = port,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
                               .sin6_port = port,
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    int fd = socket(family, SOCK_STREAM, 0);
    int r = family == AF_INET6 ? connect(fd, (struct sockaddr *)&v6, sizeof(v6))
                               : connect(fd, (struct sockaddr *)&v4, sizeof(v4));
    close(fd);
    return r;
}

/* Whether this machine has IPv6 on its loopback at all. */
static bool has_ipv6(void)
{
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

static const struct tcp_row {
    const char *address;
    int family;
} tcp_rows[] = {
    { "tcp:127.0.0.1:0", AF_INET },
    { "tcp:0.0.0.0:0", AF_INET },
    { "tcp:[::1]:0", AF_INET6 },
    { "tcp:[::]:0", AF_INET6 },
};

START_TEST(a_tcp_address_of_either_family_is_listened_on)
{
    const struct tcp_row *row = &tcp_rows[_i];
    if (row->family == AF_INET6 && !has_ipv6())
        return;
    open_at(row->address);
    expect_listening(true);
    ck_assert_str_eq(listener.path, "");
    ck_assert_msg(connect_tcp(row->family, port_of(listener.fd)) == 0, "%s: %s", row->address,
                  strerror(errno));
    listener_close(&listener);
}
END_TEST

/* Whether a connection that is accepted there sends each piece at once. */
static bool sends_at_once(void)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET,
                              .sin_port = port_of(listener.fd),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int client = socket(AF_INET, SOCK_STREAM, 0), is_on = 0;
    socklen_t len = sizeof(is_on);
    bool is_told = false;

    ck_assert_int_eq(connect(client, (struct sockaddr *)&v4, sizeof(v4)), 0);
    int accepted = listener_accept(&listener, 0, &is_told);
    ck_assert_int_ge(accepted, 0);
    ck_assert_int_eq(getsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &is_on, &len), 0);
    close(accepted);
    close(client);
    return is_on != 0;
}

START_TEST(what_is_sent_on_tcp_does_not_wait_for_the_web_servers_acknowledgement)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    open_at("tcp:127.0.0.1:0");
    ck_assert(sends_at_once());
    listener_close(&listener);
    int theirs = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(theirs, (struct sockaddr *)&v4, sizeof(v4)), 0);
    ck_assert_int_eq(listen(theirs, 5), 0);
    ck_assert_int_eq(dup2(theirs, STDIN_FILENO), STDIN_FILENO);
    open_at(NULL);
    ck_assert_msg(sends_at_once(), "on an inherited one it does");
    listener_close(&listener);
    close(theirs);
}
END_TEST

START_TEST(a_port_that_somebody_listens_on_is_a_conflict)
{
    struct listener first;
    ck_assert_int_eq(listener_open("tcp:127.0.0.1:0", &first, &e), 0);
    expect_refused(arena_printf(arena, "tcp:127.0.0.1:%d", ntohs(port_of(first.fd))), ERR_CONFLICT);
    listener_close(&first);
}
END_TEST

START_TEST(a_port_just_left_can_be_taken_again)
{
    open_at("tcp:127.0.0.1:0");
    in_port_t port = port_of(listener.fd);
    struct sockaddr_in v4 = { .sin_family = AF_INET,
                              .sin_port = port,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int client = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&v4, sizeof(v4)), 0);
    int server = accept(listener.fd, NULL, NULL);
    close(server); /* our side closes first, and keeps the port in TIME_WAIT */
    close(client);
    listener_close(&listener);
    open_at(arena_printf(arena, "tcp:127.0.0.1:%d", ntohs(port)));
    listener_close(&listener);
}
END_TEST

static const char *const malformed[] = {
    "",
    "unix",
    "unix:",
    "unix:relative.sock",
    "/tmp/x.sock",
    "udp:127.0.0.1:9000",
    "127.0.0.1:9000",
    "tcp:",
    "tcp:9000",
    "tcp::9000",
    "tcp:127.0.0.1",
    "tcp:127.0.0.1:",
    "tcp:127.0.0.1:http",
    "tcp:127.0.0.1:-1",
    "tcp:127.0.0.1:65536",
    "tcp:127.0.0.1:99999",
    "tcp:127.0.0.1:90 00",
    "tcp:localhost:9000",
    "tcp:[]:9000",
    "tcp:[::1:9000",
    "tcp:256.0.0.1:9000",
};

START_TEST(an_address_of_another_form_is_refused)
{
    expect_refused(malformed[_i], ERR_FORMAT);
    ck_assert_int_eq(listener_check(malformed[_i], &e), ERR_FORMAT);
}
END_TEST

START_TEST(an_address_is_checked_without_a_look_at_who_has_it)
{
    open_at("tcp:127.0.0.1:0");
    const char *taken = arena_printf(arena, "tcp:127.0.0.1:%d", ntohs(port_of(listener.fd)));
    ck_assert_int_eq(listener_check(taken, &e), 0);
    ck_assert_int_eq(listener_check("unix:/nonexistent/s.sock", &e), 0);
    listener_close(&listener);
}
END_TEST

static bool is_refused_at(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(address.sun_path, path);
    bool refused = connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

START_TEST(behind_a_socket_that_is_shut_only_those_who_wait_are_accepted)
{
    open_at(arena_printf(arena, "unix:%s/s.sock", dir));
    ck_assert(!listener_is_shut(&listener));
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, listener.path);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    listener_shut(&listener);
    ck_assert(listener_is_shut(&listener));
    ck_assert(is_refused_at(listener.path));
    bool is_told = false;
    int server = listener_accept(&listener, 0, &is_told);
    ck_assert_int_ge(server, 0);
    ck_assert_int_lt(listener_accept(&listener, 0, &is_told), 0);
    close(server);
    close(client);
    listener_close(&listener);
}
END_TEST

START_TEST(a_socket_of_somebody_else_is_not_shut)
{
    int theirs = bind_unix(true);
    ck_assert_int_eq(dup2(theirs, STDIN_FILENO), STDIN_FILENO);
    open_at(NULL);
    ck_assert(!listener_is_ours(&listener));
    listener_shut(&listener);
    ck_assert(!listener_is_shut(&listener));
    listener_close(&listener);
    close(theirs);
}
END_TEST

/* --- inherited ----------------------------------------------------------------------- */

START_TEST(a_listening_socket_as_fd_0_is_used)
{
    int theirs = bind_unix(true);
    ck_assert_int_eq(dup2(theirs, STDIN_FILENO), STDIN_FILENO);
    close(theirs);
    open_at(NULL);
    ck_assert_int_gt(listener.fd, 2);
    expect_listening(false);
    ck_assert_str_eq(listener.path, "");
    ck_assert_int_eq(connect_unix(), 0);
    listener_close(&listener);
    ck_assert_int_eq(access(path(), F_OK), 0); /* it is theirs */
}
END_TEST

START_TEST(an_inherited_tcp_socket_is_known_as_one)
{
    struct listener theirs;
    ck_assert_int_eq(listener_open("tcp:127.0.0.1:0", &theirs, &e), 0);
    ck_assert_int_eq(dup2(theirs.fd, STDIN_FILENO), STDIN_FILENO);
    open_at(NULL);
    expect_listening(true);
    listener_close(&listener);
    listener_close(&theirs);
}
END_TEST

static int open_null(void)
{
    return open("/dev/null", O_RDONLY);
}

static int open_unbound_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int open_connected_socket(void)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    return pair[0];
}

static int open_nothing(void)
{
    return -1;
}

static int (*const not_listening[])(void) = { open_null, open_unbound_socket, open_connected_socket,
                                              open_nothing };

START_TEST(without_an_address_and_a_listening_fd_0_there_is_nothing_to_listen_on)
{
    int fd = not_listening[_i]();
    if (fd > STDIN_FILENO)
        ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    else if (fd < 0)
        close(STDIN_FILENO);
    expect_refused(NULL, ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(e.text, "--listen"));
}
END_TEST

/* --- socket activation --------------------------------------------------------------- */

enum { PASSED_FD = 3 };

static const struct activation_row {
    const char *what, *pid, *fds; /* pid "own": this process's; NULL: not set */
    bool is_stdin_listening, is_passed_listening;
    int expected; /* 0: the passed one is used; 1: fd 0 is; or an error */
} activation_rows[] = {
    { "as systemd does it", "own", "1", false, true, 0 },
    { "both ways", "own", "1", true, true, 0 },
    { "for a parent", "1", "1", false, true, ERR_NOT_FOUND },
    { "for a parent, and fd 0 for us", "1", "1", true, true, 1 },
    { "without a process", NULL, "1", false, true, ERR_NOT_FOUND },
    { "with nonsense for a process", "own ", "1", false, true, ERR_NOT_FOUND },
    { "without a number", "own", NULL, true, true, ERR_FORMAT },
    { "none", "own", "0", true, true, ERR_FORMAT },
    { "two", "own", "2", true, true, ERR_FORMAT },
    { "nonsense for a number", "own", "1x", true, true, ERR_FORMAT },
    { "what does not listen", "own", "1", true, false, ERR_FORMAT },
};

enum { N_ACTIVATIONS = sizeof(activation_rows) / sizeof(activation_rows[0]) };

static void set_or_unset(const char *name, const char *value)
{
    if (value == NULL)
        unsetenv(name);
    else
        setenv(name, value, 1);
}

/* In a process of its own: descriptor 3 is Check's in this one. What was wrong there, or NULL. */
static const char *take_passed(const struct activation_row *row, int theirs)
{
    const char *own = arena_printf(arena, "%ld", (long)getpid());
    const char *pid = row->pid;

    if (pid != NULL && strncmp(pid, "own", 3) == 0)
        pid = arena_printf(arena, "%s%s", own, pid + 3);
    dup2(row->is_stdin_listening ? theirs : open_null(), STDIN_FILENO);
    int passed = fcntl(row->is_passed_listening ? theirs : open_unbound_socket(), F_DUPFD, 10);
    dup2(passed, PASSED_FD);
    set_or_unset("LISTEN_PID", pid);
    set_or_unset("LISTEN_FDS", row->fds);
    setenv("LISTEN_FDNAMES", "llm-router.socket", 1);

    int r = listener_open(NULL, &listener, &e), listens = 0;
    socklen_t len = sizeof(listens);
    if (getenv("LISTEN_PID") != NULL || getenv("LISTEN_FDS") != NULL || getenv("LISTEN_FDNAMES") != NULL)
        return "the variables stay";
    if (r != 0)
        return r == row->expected && listener.fd == -1 ? NULL : e.text;
    if (row->expected < 0)
        return "it was taken";
    bool is_left = fcntl(PASSED_FD, F_GETFD) >= 0 && listener.fd != PASSED_FD;
    if (is_left != (row->expected == 1))
        return is_left ? "the passed one is left over" : "the passed one was taken";
    if (getsockopt(listener.fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || listens != 1 ||
        (fcntl(listener.fd, F_GETFL) & O_NONBLOCK) == 0 || (fcntl(listener.fd, F_GETFD) & FD_CLOEXEC) == 0 ||
        listener.is_tcp || listener.path[0] != '\0')
        return "it is not what it should be";
    return NULL;
}

START_TEST(a_socket_is_taken_from_socket_activation)
{
    const struct activation_row *row = &activation_rows[_i];
    int theirs = fcntl(bind_unix(true), F_DUPFD, 10), status;
    pid_t pid = fork();
    if (pid == 0) {
        const char *fault = take_passed(row, theirs);
        if (fault != NULL)
            fprintf(stderr, "%s: %s\n", row->what, fault);
        _exit(fault == NULL ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(status == 0, "%s: see above", row->what);
}
END_TEST

START_TEST(an_address_comes_before_what_is_passed)
{
    setenv("LISTEN_PID", arena_printf(arena, "%ld", (long)getpid()), 1);
    setenv("LISTEN_FDS", "1", 1);
    open_at(unix_address());
    ck_assert_str_eq(listener.path, path());
    listener_close(&listener);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listener");
    TCase *tcase = tcase_create("listener");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_unix_socket_is_for_owner_and_group_only, 0, 2);
    tcase_add_loop_test(tcase, a_socket_left_by_a_dead_process_is_replaced, 0, 2);
    tcase_add_test(tcase, a_socket_that_somebody_listens_on_is_left_alone);
    tcase_add_test(tcase, a_socket_that_only_heirs_of_its_dead_maker_hold_is_replaced);
    tcase_add_test(tcase, a_file_that_is_no_socket_is_left_alone);
    tcase_add_test(tcase, a_path_that_is_another_socket_by_now_is_not_removed);
    tcase_add_test(tcase, the_longest_path_is_used_and_a_longer_one_refused);
    tcase_add_loop_test(tcase, a_tcp_address_of_either_family_is_listened_on, 0,
                        sizeof(tcp_rows) / sizeof(tcp_rows[0]));
    tcase_add_test(tcase, what_is_sent_on_tcp_does_not_wait_for_the_web_servers_acknowledgement);
    tcase_add_test(tcase, a_port_that_somebody_listens_on_is_a_conflict);
    tcase_add_test(tcase, a_port_just_left_can_be_taken_again);
    tcase_add_loop_test(tcase, an_address_of_another_form_is_refused, 0,
                        sizeof(malformed) / sizeof(malformed[0]));
    tcase_add_test(tcase, an_address_is_checked_without_a_look_at_who_has_it);
    tcase_add_test(tcase, behind_a_socket_that_is_shut_only_those_who_wait_are_accepted);
    tcase_add_test(tcase, a_socket_of_somebody_else_is_not_shut);
    tcase_add_test(tcase, a_listening_socket_as_fd_0_is_used);
    tcase_add_test(tcase, an_inherited_tcp_socket_is_known_as_one);
    tcase_add_loop_test(tcase, without_an_address_and_a_listening_fd_0_there_is_nothing_to_listen_on, 0,
                        sizeof(not_listening) / sizeof(not_listening[0]));
    tcase_add_loop_test(tcase, a_socket_is_taken_from_socket_activation, 0, N_ACTIVATIONS);
    tcase_add_test(tcase, an_address_comes_before_what_is_passed);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
