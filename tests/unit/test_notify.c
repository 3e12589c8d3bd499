#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "fcgi/engine/notify.h"

static int supervisor;
static char said[256];

/* `name`: a path, or "@…" for the abstract namespace. */
static void listen_at(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = strlen(name);

    memcpy(address.sun_path, name, len);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    supervisor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(supervisor, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
}

static const char *hear(void)
{
    ssize_t n = recv(supervisor, said, sizeof(said) - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    return said;
}

START_TEST(a_supervisor_hears_what_is_said)
{
    char name[64];

    snprintf(name, sizeof(name), _i == 0 ? "/tmp/test_notify.%d" : "@test_notify.%d", (int)getpid());
    listen_at(name);
    notify_send("READY=1");
    ck_assert_str_eq(hear(), "READY=1");
    uint64_t before = clock_monotonic_us(), then = 0;
    notify_reloading();
    ck_assert_int_eq(sscanf(hear(), "RELOADING=1\nMONOTONIC_USEC=%lu", &then), 1);
    ck_assert_uint_ge(then, before);
    ck_assert_uint_le(then, clock_monotonic_us());
    ck_assert_str_eq(hear(), "");
    close(supervisor);
    unlink(name);
}
END_TEST

START_TEST(one_that_does_not_read_is_not_waited_for)
{
    char name[64];

    snprintf(name, sizeof(name), "@test_notify.%d", (int)getpid());
    listen_at(name);
    for (int i = 0; i < 10000; i++)
        notify_send("WATCHDOG=1");
    close(supervisor);
    notify_send("READY=1"); /* nor one that is not there */
}
END_TEST

static const char *const no_sockets[] = { "", "/", "@", "relative", "vsock:2:1234" };

START_TEST(what_names_no_socket_is_passed_over)
{
    setenv("NOTIFY_SOCKET", no_sockets[_i], 1);
    notify_send("READY=1");
    unsetenv("NOTIFY_SOCKET");
    notify_send("READY=1");
}
END_TEST

START_TEST(the_watchdog_is_fed_twice_as_often_as_it_must)
{
    char pid[24];

    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    ck_assert_uint_eq(notify_watchdog_us(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    ck_assert_uint_eq(notify_watchdog_us(), 15000000);
    setenv("WATCHDOG_PID", "1", 1); /* another process's */
    ck_assert_uint_eq(notify_watchdog_us(), 0);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    ck_assert_uint_eq(notify_watchdog_us(), 15000000);
    setenv("WATCHDOG_USEC", "no number", 1);
    ck_assert_uint_eq(notify_watchdog_us(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify");
    TCase *tcase = tcase_create("notify");

    tcase_add_loop_test(tcase, a_supervisor_hears_what_is_said, 0, 2);
    tcase_add_test(tcase, one_that_does_not_read_is_not_waited_for);
    tcase_add_loop_test(tcase, what_names_no_socket_is_passed_over, 0,
                        sizeof(no_sockets) / sizeof(no_sockets[0]));
    tcase_add_test(tcase, the_watchdog_is_fed_twice_as_often_as_it_must);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
