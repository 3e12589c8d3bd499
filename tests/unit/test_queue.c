/* Real listening sockets, and what the kernel says of them. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fcgi/engine/listener.h"
#include "fcgi/engine/queue.h"

enum { CLIENTS_MAX = 300 };

static char dir[64];
static struct listener listener;
static struct queue_meter meter;
static int clients[CLIENTS_MAX];
static unsigned n_clients;
static struct error e;

static void set_up(void)
{
    listener = (struct listener){ .fd = -1 };
    meter = (struct queue_meter){ .netlink = -1 };
    strcpy(dir, "/tmp/test_queue.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    n_clients = 0;
}

static void tear_down(void)
{
    for (unsigned i = 0; i < n_clients; i++)
        close(clients[i]);
    queue_meter_close(&meter);
    listener_close(&listener);
    rmdir(dir);
}

/* The kinds of sockets that there are. */
static const struct kind {
    const char *name;
    bool is_tcp;
} kinds[] = {
    { "unix", false },
    { "tcp", true },
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void open_at(const struct kind *kind, const char *name, struct listener *out)
{
    char address[128] = "tcp:127.0.0.1:0";

    if (!kind->is_tcp)
        snprintf(address, sizeof(address), "unix:%s/%s", dir, name);
    int r = listener_open(address, out, &e);
    ck_assert_msg(r == 0, "%s: %s", kind->name, e.text);
}

static void open_listener(const struct kind *kind)
{
    open_at(kind, "s.sock", &listener);
}

static void open_meter(const struct kind *kind)
{
    int r = queue_meter_open(&meter, listener.fd, kind->is_tcp, &e);
    ck_assert_msg(r == 0, "%s: %s", kind->name, e.text);
}

static void connect_clients(unsigned n)
{
    struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
    socklen_t len = sizeof(address);

    ck_assert_int_eq(getsockname(listener.fd, (struct sockaddr *)&address, &len), 0);
    for (unsigned i = 0; i < n; i++) {
        int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_ge(fd, 0);
        clients[n_clients++] = fd;
        ck_assert_msg(connect(fd, (struct sockaddr *)&address, len) == 0, "connection %u: %s", i,
                      strerror(errno));
    }
}

static int accept_one(void)
{
    int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_msg(fd >= 0, "accept: %s", strerror(errno));
    return fd;
}

static void expect_waiting(const struct kind *kind, uint32_t expected)
{
    uint32_t waiting = UINT32_MAX;
    int r = queue_meter_read(&meter, &waiting);
    ck_assert_msg(r == 0, "%s: %s", kind->name, strerror(errno));
    ck_assert_msg(waiting == expected, "%s: %u wait, expected %u", kind->name, waiting, expected);
}

static const unsigned counts[] = { 0, 1, 2, 17, CLIENTS_MAX };

enum { N_COUNTS = sizeof(counts) / sizeof(counts[0]) };

START_TEST(who_waits_is_counted)
{
    const struct kind *kind = &kinds[_i % N_KINDS];
    unsigned n = counts[_i / N_KINDS];

    open_listener(kind);
    open_meter(kind);
    connect_clients(n);
    expect_waiting(kind, n);
    expect_waiting(kind, n); /* asking changes nothing */
}
END_TEST

START_TEST(who_was_accepted_waits_no_longer)
{
    const struct kind *kind = &kinds[_i];

    open_listener(kind);
    open_meter(kind);
    connect_clients(3);
    int first = accept_one();
    expect_waiting(kind, 2);
    int second = accept_one();
    connect_clients(1);
    expect_waiting(kind, 2);
    close(first);
    close(second);
    expect_waiting(kind, 2);
}
END_TEST

START_TEST(who_left_without_being_accepted_still_has_to_be)
{
    const struct kind *kind = &kinds[_i];

    open_listener(kind);
    open_meter(kind);
    connect_clients(2);
    close(clients[--n_clients]);
    expect_waiting(kind, 2);
    close(accept_one());
    close(accept_one());
    expect_waiting(kind, 0);
}
END_TEST

START_TEST(each_socket_has_a_queue_of_its_own)
{
    const struct kind *kind = &kinds[_i];
    struct listener other;
    struct queue_meter meter_of_other;
    uint32_t waiting;

    open_listener(kind);
    open_at(kind, "other.sock", &other);
    ck_assert_int_eq(queue_meter_open(&meter_of_other, other.fd, kind->is_tcp, &e), 0);
    open_meter(kind);
    connect_clients(5);
    expect_waiting(kind, 5);
    ck_assert_int_eq(queue_meter_read(&meter_of_other, &waiting), 0);
    ck_assert_uint_eq(waiting, 0);
    queue_meter_close(&meter_of_other);
    listener_close(&other);
}
END_TEST

START_TEST(a_meter_leaves_no_descriptor_behind)
{
    const struct kind *kind = &kinds[_i];

    open_listener(kind);
    int next = dup(listener.fd); /* the lowest free number */
    close(next);
    open_meter(kind);
    queue_meter_close(&meter);
    queue_meter_close(&meter); /* also twice */
    int again = dup(listener.fd);
    ck_assert_int_eq(again, next);
    close(again);
}
END_TEST

START_TEST(a_socket_that_was_closed_is_said_to_be_unknown)
{
    const struct kind *kind = &kinds[_i];
    uint32_t waiting = 7;

    open_listener(kind);
    open_meter(kind);
    listener_close(&listener);
    ck_assert_int_eq(queue_meter_read(&meter, &waiting), ERR_SYSTEM);
    ck_assert_uint_eq(waiting, 7);
}
END_TEST

START_TEST(what_is_no_descriptor_cannot_be_measured)
{
    ck_assert_int_eq(queue_meter_open(&meter, -1, false, &e), ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(e.text, "listening socket"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tcase = tcase_create("queue");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, who_waits_is_counted, 0, N_COUNTS * N_KINDS);
    tcase_add_loop_test(tcase, who_was_accepted_waits_no_longer, 0, N_KINDS);
    tcase_add_loop_test(tcase, who_left_without_being_accepted_still_has_to_be, 0, N_KINDS);
    tcase_add_loop_test(tcase, each_socket_has_a_queue_of_its_own, 0, N_KINDS);
    tcase_add_loop_test(tcase, a_meter_leaves_no_descriptor_behind, 0, N_KINDS);
    tcase_add_loop_test(tcase, a_socket_that_was_closed_is_said_to_be_unknown, 0, N_KINDS);
    tcase_add_test(tcase, what_is_no_descriptor_cannot_be_measured);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
