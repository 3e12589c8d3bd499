/*
 * Asking Redis and not waiting for long, against one of our own that says what no real one
 * would; the real one is in the integration tests.
 */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/store/redis_client.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { COMMAND_BYTES = 14, REPLIES_MAX = 4, CONNECTIONS_MAX = 4, SOON_MS = 150, LONG_MS = 20000 };

static const char SILENCE[] = "silence", CLOSE[] = "close";

/* What is replied to the commands of a connection; silence behind the last. */
struct conversation {
    const char *replies[REPLIES_MAX];
};

static struct server {
    int listener;
    struct conversation conversations[CONNECTIONS_MAX];
    int peers[CONNECTIONS_MAX];
    _Atomic unsigned connections, commands, ended;
    pthread_t thread;
} server;

static char dir[64], url[128];
static struct redis_client *client;

/* Every command of these tests is one word of four letters. */
static void converse(int peer, const struct conversation *conversation)
{
    char command[COMMAND_BYTES];
    for (size_t i = 0; recv(peer, command, sizeof(command), MSG_WAITALL) == COMMAND_BYTES; i++) {
        const char *reply =
            i < REPLIES_MAX && conversation->replies[i] != NULL ? conversation->replies[i] : SILENCE;
        server.commands++;
        if (reply == CLOSE)
            break;
        if (reply != SILENCE)
            send(peer, reply, strlen(reply), MSG_NOSIGNAL);
    }
    shutdown(peer, SHUT_RDWR);
    server.ended++;
}

static void *serve(void *ctx)
{
    (void)ctx;
    while (server.connections < CONNECTIONS_MAX) {
        int peer = accept(server.listener, NULL, NULL);
        if (peer < 0)
            break;
        unsigned i = server.connections++;
        server.peers[i] = peer;
        converse(peer, &server.conversations[i]);
    }
    return NULL;
}

static void start(const struct conversation *conversations, size_t n)
{
    memcpy(server.conversations, conversations, n * sizeof(*conversations));
    pthread_create(&server.thread, NULL, serve, NULL);
}

static void open_at(const char *place)
{
    const struct store_place store = { .redis_url = place, .redis_prefix = "p:" };
    struct error e = { 0 };
    ck_assert_msg(redis_client_open(&store, &client, &e) == 0, "%s", e.text);
}

static void set_up(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    memset(&server, 0, sizeof(server));
    strcpy(dir, "/tmp/test_redis_client.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", dir);
    snprintf(url, sizeof(url), "unix:%s/s", dir);
    server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(server.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(server.listener, 16), 0);
    open_at(url);
}

static void tear_down(void)
{
    char command[128];

    redis_client_close(client);
    client = NULL;
    shutdown(server.listener, SHUT_RDWR);
    if (server.thread != 0)
        pthread_join(server.thread, NULL);
    for (unsigned i = 0; i < server.connections; i++)
        close(server.peers[i]);
    close(server.listener);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static int64_t numbers[3];

/* Asks for so many numbers. */
static bool ask_many(unsigned ms, size_t count)
{
    const struct span words[] = { span_cstr("TAKE") };
    return redis_client_ask(client, words, 1, clock_monotonic_us() + ms * US_PER_MS, numbers, count);
}

static bool ask_for(unsigned ms)
{
    return ask_many(ms, 1);
}

static void tell(void)
{
    const struct span words[] = { span_cstr("TELL") };
    redis_client_tell(client, words, 1);
}

START_TEST(an_answer_is_a_list_of_numbers)
{
    start(&(struct conversation){ { "*3\r\n:1\r\n:-2\r\n:281474976710655\r\n", "*0\r\n" } }, 1);
    ck_assert_msg(ask_many(LONG_MS, 3), "%s", redis_client_trouble(client));
    ck_assert_int_eq(numbers[0], 1);
    ck_assert_int_eq(numbers[1], -2);
    ck_assert_int_eq(numbers[2], INT64_C(281474976710655));
    ck_assert(ask_many(LONG_MS, 0));
    ck_assert_str_eq(redis_client_prefix(client), "p:");
}
END_TEST

static const char *const no_answers[] = {
    "-NOPERM this user has no permissions: secret\r\n",
    "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "+OK\r\n",
    ":5\r\n",
    "$1\r\n5\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*1\r\n$1\r\n5\r\n",
    "*1\r\n*1\r\n:1\r\n",
    "*0\r\n",
    "*2\r\n:1\r\n:2\r\n",
    "*2147483647\r\n",
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    CLOSE,
};

START_TEST(anything_else_is_no_answer_and_the_next_question_comes_on_a_new_connection)
{
    const struct conversation both[] = { { { no_answers[_i] } }, { { "*1\r\n:7\r\n" } } };
    start(both, 2);
    numbers[0] = 42;
    ck_assert_msg(!ask_for(LONG_MS), "%s was taken", no_answers[_i]);
    ck_assert_int_eq(numbers[0], 42);
    ck_assert_msg(redis_client_trouble(client)[0] != '\0' &&
                      strstr(redis_client_trouble(client), "secret") == NULL,
                  "%s: \"%s\"", no_answers[_i], redis_client_trouble(client));
    ck_assert_msg(ask_for(LONG_MS), "after %s: %s", no_answers[_i], redis_client_trouble(client));
    ck_assert_int_eq(numbers[0], 7);
}
END_TEST

START_TEST(a_silent_server_is_waited_for_no_longer_than_said)
{
    const struct conversation both[] = { { { SILENCE } }, { { "*1\r\n:7\r\n" } } };
    start(both, 2);
    uint64_t begun_us = clock_monotonic_us();
    ck_assert(!ask_for(SOON_MS));
    uint64_t took_ms = (clock_monotonic_us() - begun_us) / US_PER_MS;
    ck_assert_msg(took_ms >= SOON_MS && took_ms < LONG_MS, "%llu ms", (unsigned long long)took_ms);
    ck_assert_str_eq(redis_client_trouble(client), "no answer in time");
    ck_assert(ask_for(LONG_MS)); /* an answer to the first question would not be taken for this one's */
    ck_assert_int_eq(numbers[0], 7);
}
END_TEST

START_TEST(half_an_answer_is_none)
{
    start(&(struct conversation){ { "*2\r\n:1\r\n" } }, 1);
    ck_assert(!ask_for(SOON_MS));
    ck_assert_str_eq(redis_client_trouble(client), "no answer in time");
}
END_TEST

START_TEST(replies_to_what_was_told_are_not_taken_for_answers)
{
    start(&(struct conversation){ { "*1\r\n:1\r\n", "*1\r\n:666\r\n", "-ERR no\r\n", "*1\r\n:2\r\n" } }, 1);
    ck_assert(ask_for(LONG_MS));
    tell();
    tell();
    ck_assert_msg(ask_for(LONG_MS), "%s", redis_client_trouble(client));
    ck_assert_int_eq(numbers[0], 2);
    ck_assert_uint_eq(server.connections, 1);
}
END_TEST

START_TEST(telling_without_a_connection_does_nothing)
{
    start(&(struct conversation){ { "*1\r\n:1\r\n" } }, 1);
    tell();
    ck_assert(ask_for(LONG_MS));
    ck_assert_uint_eq(server.commands, 1);
}
END_TEST

START_TEST(a_connection_is_made_for_what_is_to_be_told_and_not_waited_for)
{
    const struct conversation both[] = { { { CLOSE } }, { { "*1\r\n:1\r\n", "*1\r\n:2\r\n" } } };
    start(both, 2);
    ck_assert(redis_client_connect(client)); /* nobody waits for a socket of this host */
    tell();
    while (server.ended == 0)
        usleep(1000);
    ck_assert(redis_client_connect(client));
    tell();
    ck_assert_msg(ask_for(LONG_MS), "%s", redis_client_trouble(client));
    ck_assert_int_eq(numbers[0], 2);
    ck_assert_uint_eq(server.connections, 2);
}
END_TEST

static const struct {
    const char *reply, *trouble;
} refusals[] = {
    { "-NOPERM this user has no permissions: secret\r\n", "it answers with NOPERM" },
    { "-OOM command not allowed\r\n", "it answers with OOM" },
    { "-SECRET is secret\r\n", "it answers with an error" },
    { "*2\r\n:1\r\n:2\r\n", "it answers what it was not asked" },
};

START_TEST(why_it_refuses_is_told_in_words_of_ours)
{
    start(&(struct conversation){ { refusals[_i].reply } }, 1);
    ck_assert(!ask_for(LONG_MS));
    ck_assert_str_eq(redis_client_trouble(client), refusals[_i].trouble);
}
END_TEST

START_TEST(a_connection_that_the_server_has_closed_meanwhile_is_made_again_at_once)
{
    const struct conversation both[] = { { { "*1\r\n:1\r\n", CLOSE } }, { { "*1\r\n:2\r\n" } } };
    start(both, 2);
    ck_assert(ask_for(LONG_MS));
    tell(); /* and the server leaves */
    while (server.ended == 0)
        usleep(1000);
    ck_assert_msg(ask_for(LONG_MS), "%s", redis_client_trouble(client));
    ck_assert_int_eq(numbers[0], 2);
}
END_TEST

START_TEST(who_says_what_was_not_asked_is_not_believed)
{
    const struct conversation both[] = { { { "*1\r\n:1\r\n*1\r\n:666\r\n" } }, { { "*1\r\n:2\r\n" } } };
    start(both, 2);
    ck_assert(ask_for(LONG_MS));
    ck_assert_msg(ask_for(LONG_MS), "%s", redis_client_trouble(client));
    ck_assert_int_eq(numbers[0], 2);
}
END_TEST

START_TEST(where_nobody_listens_there_is_no_answer_at_once)
{
    redis_client_close(client);
    open_at("unix:/nonexistent/s");
    ck_assert(!ask_for(LONG_MS));
    ck_assert_ptr_nonnull(strstr(redis_client_trouble(client), "cannot connect"));
}
END_TEST

START_TEST(a_place_without_redis_has_no_client)
{
    const struct store_place without = { .state_dir = "/tmp" }, wrong = { .redis_url = "http://x" };
    struct redis_client *none = NULL;
    struct error e;
    ck_assert_int_eq(redis_client_open(&without, &none, &e), ERR_NOT_FOUND);
    ck_assert_int_eq(redis_client_open(&wrong, &none, &e), ERR_FORMAT);
    ck_assert_ptr_null(none);
    redis_client_close(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redis_client");
    TCase *tc = tcase_create("redis_client");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, an_answer_is_a_list_of_numbers);
    tcase_add_loop_test(tc, anything_else_is_no_answer_and_the_next_question_comes_on_a_new_connection, 0,
                        COUNT(no_answers));
    tcase_add_test(tc, a_silent_server_is_waited_for_no_longer_than_said);
    tcase_add_test(tc, half_an_answer_is_none);
    tcase_add_test(tc, replies_to_what_was_told_are_not_taken_for_answers);
    tcase_add_test(tc, telling_without_a_connection_does_nothing);
    tcase_add_test(tc, a_connection_is_made_for_what_is_to_be_told_and_not_waited_for);
    tcase_add_loop_test(tc, why_it_refuses_is_told_in_words_of_ours, 0, COUNT(refusals));
    tcase_add_test(tc, a_connection_that_the_server_has_closed_meanwhile_is_made_again_at_once);
    tcase_add_test(tc, who_says_what_was_not_asked_is_not_believed);
    tcase_add_test(tc, where_nobody_listens_there_is_no_answer_at_once);
    tcase_add_test(tc, a_place_without_redis_has_no_client);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
