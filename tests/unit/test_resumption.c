/* Whose TLS sessions are resumed, by whom and for how long. */
#include <check.h>

#include "core/upstream/session_cache_internal.h"
#include "core/upstream/trust.h"
#include "tests/unit/posting.h"
#include "tests/unit/server_process.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char ca_file[] = "/tmp/test_resumption.XXXXXX";
static struct authority authority;
static struct trust trust;

static void set_up(void)
{
    struct error e = { 0 };
    int fd = mkstemp(ca_file);

    ck_assert_int_ge(fd, 0);
    close(fd);
    authority_make(&authority, "ours");
    authority_append(&authority, ca_file);
    trust = (struct trust){ .path = ca_file };
    ck_assert_msg(session_cache_open(&trust.sessions, &e) == 0, "%s", e.text);
}

static void tear_down(void)
{
    trust_free(&trust);
    authority_free(&authority);
    unlink(ca_file);
}

/* How servers let sessions be resumed. */
enum { BY_ID_1_2, BY_TICKET_1_2, BY_TICKET_1_3, WAYS };

static const char *const way_names[WAYS] = { "TLS 1.2, session id", "TLS 1.2, ticket", "TLS 1.3" };

static SSL_CTX *server_of(int way, const char *names)
{
    SSL_CTX *ctx = server_tls(&authority, names, 3600);
    int version = way == BY_TICKET_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;

    SSL_CTX_set_min_proto_version(ctx, version);
    SSL_CTX_set_max_proto_version(ctx, version);
    if (way == BY_ID_1_2)
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    else
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    return ctx;
}

/* What a server does with a ticket that is shown to it, and how long it says that those last
 * which it gives. Its process inherits them. */
static SSL_TICKET_RETURN what_to_do;
static long ticket_lasts_s;

static SSL_TICKET_RETURN on_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t len,
                                   SSL_TICKET_STATUS status, void *ctx)
{
    (void)ssl;
    (void)session;
    (void)name;
    (void)len;
    (void)ctx;
    return status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW
               ? what_to_do
               : SSL_TICKET_RETURN_IGNORE_RENEW;
}

static int on_ticket_made(SSL *ssl, void *ctx)
{
    (void)ctx;
    SSL_SESSION_set_timeout(SSL_get_session(ssl), ticket_lasts_s);
    return 1;
}

static void have_tickets(SSL_CTX *ctx, SSL_TICKET_RETURN what, long lasts_s)
{
    what_to_do = what;
    ticket_lasts_s = lasts_s;
    ck_assert_int_eq(SSL_CTX_set_session_ticket_cb(ctx, on_ticket_made, on_ticket, NULL), 1);
}

static const char *url_of(const struct server_process *server, const char *host)
{
    static char url[64];
    snprintf(url, sizeof(url), "https://%s:%d/v1/x", host, server->port);
    return url;
}

enum { SAYS_OTHERWISE = 100 }; /* than the server, of whether a session was resumed */

/* From a process of its own, as a worker that has no connection would. */
static int ask_from_a_worker(const struct server_process *server, const char *host)
{
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        unsigned resumed = server->counts->resumed;
        struct exchange_result result = post_to(&trust, url_of(server, host));
        if (result.end == EXCHANGE_END_WHOLE && result.is_resumed != (server->counts->resumed > resumed))
            _exit(SAYS_OTHERWISE);
        _exit((int)result.end);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_served(const struct server_process *server, const char *host)
{
    int end = ask_from_a_worker(server, host);
    ck_assert_int_ne(end, SAYS_OTHERWISE);
    ck_assert_msg(end == EXCHANGE_END_WHOLE, "%s", exchange_end_name((enum exchange_end)end));
}

static void assert_counts(const struct server_process *server, const char *what, unsigned handshakes,
                          unsigned resumed)
{
    ck_assert_msg(server->counts->handshakes == handshakes && server->counts->resumed == resumed,
                  "%s: %u handshakes, %u resumed, and not %u and %u", what, server->counts->handshakes,
                  server->counts->resumed, handshakes, resumed);
}

START_TEST(what_one_worker_has_shaken_hands_for_the_others_resume)
{
    struct server_process server;

    server_process_start(&server, server_of(_i, "DNS:localhost"));
    for (int i = 0; i < 6; i++)
        assert_served(&server, "localhost");
    assert_counts(&server, way_names[_i], 6, 5);
    ck_assert_uint_eq(server_process_stop(&server), 6);
}
END_TEST

START_TEST(without_a_cache_each_handshake_is_a_full_one)
{
    struct server_process server;

    session_cache_close(trust.sessions);
    trust.sessions = NULL;
    server_process_start(&server, server_of(_i, "DNS:localhost"));
    for (int i = 0; i < 3; i++)
        assert_served(&server, "localhost");
    assert_counts(&server, way_names[_i], 3, 0);
    server_process_stop(&server);
}
END_TEST

START_TEST(a_session_of_tls_1_3_is_shown_once_and_an_older_one_again)
{
    struct server_process server;
    SSL_CTX *ctx = server_of(_i, "DNS:localhost");

    /* One ticket, and no other for who shows it. */
    SSL_CTX_set_num_tickets(ctx, 1);
    if (_i != BY_ID_1_2)
        have_tickets(ctx, SSL_TICKET_RETURN_USE, 3600);
    server_process_start(&server, ctx);
    for (int i = 0; i < 4; i++)
        assert_served(&server, "localhost");
    assert_counts(&server, way_names[_i], 4, _i == BY_TICKET_1_3 ? 2 : 3);
    server_process_stop(&server);
}
END_TEST

START_TEST(a_session_that_is_refused_costs_a_full_handshake_and_no_more)
{
    struct server_process server;
    SSL_CTX *ctx = server_of(_i, "DNS:localhost");

    if (_i == BY_ID_1_2)
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_INTERNAL_LOOKUP);
    else
        have_tickets(ctx, SSL_TICKET_RETURN_IGNORE_RENEW, 3600);
    server_process_start(&server, ctx);
    for (int i = 0; i < 4; i++)
        assert_served(&server, "localhost");
    assert_counts(&server, way_names[_i], 4, 0);
    server_process_stop(&server);
}
END_TEST

/* A balancer before servers of several kinds may. */
START_TEST(a_session_that_a_server_chokes_on_is_shown_to_it_once)
{
    struct server_process server;
    SSL_CTX *ctx = server_of(_i, "DNS:localhost");

    SSL_CTX_set_num_tickets(ctx, 1);
    have_tickets(ctx, SSL_TICKET_RETURN_ABORT, 3600);
    server_process_start(&server, ctx);
    assert_served(&server, "localhost");
    ck_assert_int_eq(ask_from_a_worker(&server, "localhost"), EXCHANGE_END_TLS);
    assert_served(&server, "localhost");
    assert_counts(&server, way_names[_i], 2, 0);
    server_process_stop(&server);
}
END_TEST

START_TEST(a_session_is_shown_to_its_host_and_port_only)
{
    SSL_CTX *ctx = server_of(_i, "DNS:localhost,IP:127.0.0.1");
    struct server_process server, twin;

    /* Who could resume the other's tickets. */
    SSL_CTX_up_ref(ctx);
    server_process_start(&server, ctx);
    server_process_start(&twin, ctx);
    assert_served(&server, "localhost");
    assert_served(&server, "127.0.0.1");
    assert_served(&server, "LOCALHOST");
    assert_served(&twin, "localhost");
    assert_counts(&server, "other names", 3, 0);
    assert_counts(&twin, "another port", 1, 0);
    assert_served(&server, "localhost");
    assert_served(&server, "127.0.0.1");
    assert_counts(&server, "the same names", 5, 2);
    server_process_stop(&server);
    server_process_stop(&twin);
}
END_TEST

/* A worker's handle is used again for each exchange, whoever the peer is. */
START_TEST(a_worker_that_asks_several_peers_in_turn_tells_their_sessions_apart)
{
    SSL_CTX *ctx = server_of(_i, "DNS:localhost,IP:127.0.0.1");
    struct server_process server, twin;

    SSL_CTX_up_ref(ctx);
    server_process_start(&server, ctx);
    server_process_start(&twin, ctx);
    struct exchange_client *client = posting_open(&trust);
    ck_assert_int_eq(post_by(client, url_of(&server, "localhost")).end, EXCHANGE_END_WHOLE);
    ck_assert_int_eq(post_by(client, url_of(&twin, "127.0.0.1")).end, EXCHANGE_END_WHOLE);
    exchange_close(client);
    assert_counts(&server, "the first", 1, 0);
    assert_counts(&twin, "the second", 1, 0);
    assert_served(&server, "127.0.0.1");
    assert_served(&twin, "localhost");
    assert_counts(&server, "by the other's name", 2, 0);
    assert_counts(&twin, "by the other's name", 2, 0);
    assert_served(&server, "localhost");
    assert_served(&twin, "127.0.0.1");
    assert_counts(&server, "by its own", 3, 1);
    assert_counts(&twin, "by its own", 3, 1);
    server_process_stop(&server);
    server_process_stop(&twin);
}
END_TEST

/* OpenSSL has verified the chain when it gives out a session; libcurl compares the name later. */
START_TEST(a_server_of_another_name_is_refused_with_a_session_as_without)
{
    struct server_process server;

    server_process_start(&server, server_of(_i, "DNS:other.example"));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ask_from_a_worker(&server, "localhost"), EXCHANGE_END_TLS);
    ck_assert_uint_eq(server_process_stop(&server), 0);
}
END_TEST

START_TEST(a_server_that_nobody_vouches_for_leaves_no_session)
{
    struct authority stranger;
    struct server_process server;

    authority_make(&stranger, "stranger");
    server_process_start(&server, server_tls(&stranger, "DNS:localhost", 3600));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ask_from_a_worker(&server, "localhost"), EXCHANGE_END_TLS);
    ck_assert_uint_eq(server_process_stop(&server), 0);
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        ck_assert_uint_eq(trust.sessions->entries[i].len, 0);
    authority_free(&stranger);
}
END_TEST

static const struct {
    int way;
    long ticket_s, certificate_s;
    unsigned at_most_s;
} lifetimes[] = {
    { BY_TICKET_1_3, 86400, 86400, 7200 }, /* no longer than OpenSSL would */
    { BY_TICKET_1_3, 300, 3600, 300 },
    { BY_TICKET_1_3, 1, 3600, 1 },
    { BY_TICKET_1_3, 7200, 200, 200 },
    { BY_TICKET_1_2, 300, 3600, 300 },
    { BY_TICKET_1_2, 7200, 200, 200 },
    { BY_ID_1_2, 0, 86400, 7200 }, /* and there is nowhere to say it */
    { BY_ID_1_2, 0, 200, 200 },
};

START_TEST(a_session_is_kept_as_long_as_server_and_certificate_say)
{
    struct server_process server;
    SSL_CTX *ctx = server_of(lifetimes[_i].way, "DNS:localhost");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate =
        make_certificate("server", key, "DNS:localhost", lifetimes[_i].certificate_s, &authority);
    uint64_t longest_us = 0;

    SSL_CTX_use_certificate(ctx, certificate);
    SSL_CTX_use_PrivateKey(ctx, key);
    if (lifetimes[_i].way != BY_ID_1_2)
        have_tickets(ctx, SSL_TICKET_RETURN_USE_RENEW, lifetimes[_i].ticket_s);
    server_process_start(&server, ctx);
    assert_served(&server, "localhost");
    server_process_stop(&server);
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        const struct session_entry *entry = &trust.sessions->entries[i];
        if (entry->len > 0 && entry->until_us > longest_us)
            longest_us = entry->until_us;
    }
    uint64_t bound_us = clock_monotonic_us() + lifetimes[_i].at_most_s * US_PER_S;
    ck_assert_msg(longest_us + 100 * US_PER_S > bound_us && longest_us <= bound_us,
                  "%s, %ld s, certificate %ld s: kept until %.1f s after %u s", way_names[lifetimes[_i].way],
                  lifetimes[_i].ticket_s, lifetimes[_i].certificate_s,
                  ((double)longest_us - (double)bound_us) / 1e6, lifetimes[_i].at_most_s);
    X509_free(certificate);
    EVP_PKEY_free(key);
}
END_TEST

/* The exchange that opened the connection is over then. */
START_TEST(a_ticket_that_comes_with_a_later_exchange_is_kept_too)
{
    SSL_CTX *ctx = server_of(BY_TICKET_1_3, "DNS:localhost");
    struct server_process server;

    SSL_CTX_set_num_tickets(ctx, 0);
    server_process_start(&server, ctx);
    struct exchange_client *client = posting_open(&trust);
    for (int i = 0; i < 3; i++) {
        char url[64];
        snprintf(url, sizeof(url), "https://localhost:%d/%d", server.port, i);
        struct exchange_result result = post_by(client, url);
        ck_assert_int_eq(result.end, EXCHANGE_END_WHOLE);
        ck_assert_int_eq(result.is_reused, i > 0);
        ck_assert(!result.is_resumed);
    }
    exchange_close(client);
    for (int i = 0; i < 3; i++)
        assert_served(&server, "localhost");
    assert_counts(&server, "three tickets in one connection", 4, 3);
    server_process_stop(&server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resumption");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, what_one_worker_has_shaken_hands_for_the_others_resume, 0, WAYS);
    tcase_add_loop_test(all, without_a_cache_each_handshake_is_a_full_one, 0, WAYS);
    tcase_add_loop_test(all, a_session_of_tls_1_3_is_shown_once_and_an_older_one_again, 0, WAYS);
    tcase_add_loop_test(all, a_session_that_is_refused_costs_a_full_handshake_and_no_more, 0, WAYS);
    tcase_add_loop_test(all, a_session_that_a_server_chokes_on_is_shown_to_it_once, BY_TICKET_1_2, WAYS);
    tcase_add_loop_test(all, a_session_is_shown_to_its_host_and_port_only, 0, WAYS);
    tcase_add_loop_test(all, a_worker_that_asks_several_peers_in_turn_tells_their_sessions_apart, 0, WAYS);
    tcase_add_loop_test(all, a_server_of_another_name_is_refused_with_a_session_as_without, 0, WAYS);
    tcase_add_test(all, a_server_that_nobody_vouches_for_leaves_no_session);
    tcase_add_loop_test(all, a_session_is_kept_as_long_as_server_and_certificate_say, 0,
                        (int)COUNT(lifetimes));
    tcase_add_test(all, a_ticket_that_comes_with_a_later_exchange_is_kept_too);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
