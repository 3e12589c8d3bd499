#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fcgi/engine/caller.h"

/* A connection over loopback, with the web server's side in our hands. */
static int listener = -1, client = -1, server = -1;
static struct caller_socket caller;
static char server_port[8], remote_port[8];

static void text_of_port(int fd, int (*name)(int, struct sockaddr *, socklen_t *), char out[8])
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    ck_assert_int_eq(name(fd, (struct sockaddr *)&address, &len), 0);
    in_port_t port = address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                                  : ((struct sockaddr_in6 *)&address)->sin6_port;
    snprintf(out, 8, "%u", ntohs(port));
}

/* `family` is the listening socket's; the client connects to 127.0.0.1 or ::1. */
static void connect_pair(int family, bool client_is_ipv6)
{
    struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 };
    struct sockaddr_in local = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in6 local6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(listener, 0);
    if (family == AF_INET6)
        ck_assert_int_eq(bind(listener, (struct sockaddr *)&any6, sizeof(any6)), 0);
    else
        ck_assert_int_eq(bind(listener, (struct sockaddr *)&local, sizeof(local)), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    text_of_port(listener, getsockname, server_port);
    in_port_t port = htons((uint16_t)atoi(server_port));
    local.sin_port = local6.sin6_port = port;
    client = socket(client_is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client_is_ipv6)
        ck_assert_int_eq(connect(client, (struct sockaddr *)&local6, sizeof(local6)), 0);
    else
        ck_assert_int_eq(connect(client, (struct sockaddr *)&local, sizeof(local)), 0);
    server = accept(listener, NULL, NULL);
    ck_assert_int_ge(server, 0);
    text_of_port(client, getsockname, remote_port);
    const char *address = client_is_ipv6 ? "::1" : "127.0.0.1";
    caller_socket_begin(&caller, address, server_port, address, remote_port);
}

static void tear_down(void)
{
    const int fds[] = { client, server, listener };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    caller_socket_end(&caller);
    client = server = listener = -1;
}

/* With a client of each kind. */
static const struct kind {
    int family;
    bool client_is_ipv6;
} kinds[] = { { AF_INET, false },
              { AF_INET6, true },
              { AF_INET6, false /* to a socket of both families */ } };

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

START_TEST(a_client_that_stays_has_not_left)
{
    connect_pair(kinds[_i].family, kinds[_i].client_is_ipv6);
    ck_assert(!caller_socket_is_closed(&caller));
    ck_assert(caller.was_seen);
    ck_assert(!caller_socket_is_closed(&caller));
}
END_TEST

START_TEST(a_client_that_closed_has_left_although_nobody_saw_it_before)
{
    connect_pair(kinds[_i].family, kinds[_i].client_is_ipv6);
    close(client);
    client = -1;
    ck_assert(caller_socket_is_closed(&caller));
}
END_TEST

START_TEST(a_client_that_closed_one_side_has_left)
{
    connect_pair(kinds[_i].family, kinds[_i].client_is_ipv6);
    ck_assert(!caller_socket_is_closed(&caller));
    shutdown(client, SHUT_WR);
    ck_assert(caller_socket_is_closed(&caller));
}
END_TEST

START_TEST(a_connection_that_was_reset_is_missed_when_it_was_seen)
{
    struct linger at_once = { .l_onoff = 1 };
    connect_pair(kinds[_i].family, kinds[_i].client_is_ipv6);
    ck_assert(!caller_socket_is_closed(&caller));
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(client);
    client = -1;
    ck_assert(caller_socket_is_closed(&caller));
}
END_TEST

/* The kernel finds the socket that listens there in its stead, as long as there is one:
 * it is always there where a web server tells another address than the connection's. */
START_TEST(a_connection_that_was_never_seen_is_not_missed)
{
    connect_pair(kinds[_i / 2].family, kinds[_i / 2].client_is_ipv6);
    const char *own = kinds[_i / 2].client_is_ipv6 ? "::1" : "127.0.0.1";
    const char *other = kinds[_i / 2].client_is_ipv6 ? "2001:db8::7" : "192.0.2.7";
    caller_socket_begin(&caller, own, server_port, other, remote_port);
    if (_i % 2 == 1) {
        close(listener);
        listener = -1;
    }
    ck_assert(!caller_socket_is_closed(&caller));
    ck_assert(!caller_socket_is_closed(&caller));
    caller_socket_begin(&caller, own, server_port, own, "1");
    ck_assert(!caller_socket_is_closed(&caller));
}
END_TEST

START_TEST(a_new_request_forgets_the_last_one)
{
    connect_pair(AF_INET, false);
    ck_assert(!caller_socket_is_closed(&caller));
    caller_socket_begin(&caller, "127.0.0.1", "1", "127.0.0.1", "2");
    ck_assert(!caller_socket_is_closed(&caller));
}
END_TEST

static const struct address_row {
    const char *server, *server_port, *remote, *remote_port;
} address_rows[] = {
    { NULL, "80", "127.0.0.1", "2" },
    { "127.0.0.1", NULL, "127.0.0.1", "2" },
    { "127.0.0.1", "80", NULL, "2" },
    { "127.0.0.1", "80", "127.0.0.1", NULL },
    { "", "80", "", "2" },
    { "/run/front.sock", "80", "unix:", "2" },
    { "127.0.0.1", "0", "127.0.0.1", "2" },
    { "127.0.0.1", "65536", "127.0.0.1", "2" },
    { "127.0.0.1", "80", "127.0.0.1", "-1" },
    { "127.0.0.1", "80 ", "127.0.0.1", "2" },
    { "127.0.0.1", "80", "::1", "2" },
    { "::1", "80", "127.0.0.1", "2" },
    { "[::1]", "80", "[::1]", "2" },
    { "localhost", "80", "localhost", "2" },
};

START_TEST(addresses_that_are_none_say_nothing)
{
    const struct address_row *row = &address_rows[_i];
    caller_socket_begin(&caller, row->server, row->server_port, row->remote, row->remote_port);
    ck_assert_msg(!caller.is_known, "row %d", _i);
    ck_assert(!caller_socket_is_closed(&caller));
    ck_assert_int_eq(caller.netlink, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("caller");
    TCase *tcase = tcase_create("caller");

    tcase_add_checked_fixture(tcase, NULL, tear_down);
    tcase_add_loop_test(tcase, a_client_that_stays_has_not_left, 0, N_KINDS);
    tcase_add_loop_test(tcase, a_client_that_closed_has_left_although_nobody_saw_it_before, 0, N_KINDS);
    tcase_add_loop_test(tcase, a_client_that_closed_one_side_has_left, 0, N_KINDS);
    tcase_add_loop_test(tcase, a_connection_that_was_reset_is_missed_when_it_was_seen, 0, N_KINDS);
    tcase_add_loop_test(tcase, a_connection_that_was_never_seen_is_not_missed, 0, 2 * N_KINDS);
    tcase_add_test(tcase, a_new_request_forgets_the_last_one);
    tcase_add_loop_test(tcase, addresses_that_are_none_say_nothing, 0,
                        sizeof(address_rows) / sizeof(address_rows[0]));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
