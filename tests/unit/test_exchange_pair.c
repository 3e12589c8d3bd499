/* Two HTTP exchanges side by side, each with a scripted server of its own. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/upstream/exchange.h"
#include "tests/unit/scripted_server.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
#define OK_REPLY OK_HEAD "hello"

/* An exchange, its server, and what its receiver does. */
struct side {
    struct server server;
    char url[64];
    struct splice body;
    struct exchange_clocks clocks;
    struct exchange_request request;
    struct exchange_receiver receiver;
    struct exchange_result result;
    struct exchange *exchange; /* NULL: it does not run */
    struct buf received;
    unsigned pieces;
    unsigned sleep_ms;    /* at each piece */
    struct side *cancels; /* at a piece, if that runs; NULL: none */
    bool is_cancelled;
};

static struct exchange_client *client;
static struct side one, other;
static int caller_fd;

static void set_up_side(struct side *side)
{
    *side = (struct side){ .clocks = { .connect_ms = 20000,
                                       .first_content_ms = 20000,
                                       .idle_ms = 20000,
                                       .chain_us = clock_monotonic_us() + 30 * US_PER_S } };
    splice_init(&side->body, span_cstr("{}"));
    buf_init(&side->received, REQUEST_BYTES_MAX);
}

static void set_up(void)
{
    struct error e;
    ck_assert_int_eq(exchange_init_master(&e), 0);
    ck_assert_int_eq(exchange_open(NULL, &client, &e), 0);
    caller_fd = -1;
    set_up_side(&one);
    set_up_side(&other);
}

static void tear_down(void)
{
    exchange_close(client);
    buf_free(&one.received);
    buf_free(&other.received);
    buf_free(&one.server.last_request);
    buf_free(&other.server.last_request);
}

static enum exchange_want on_head(void *ctx, const struct exchange_head *head)
{
    const struct side *side = ctx;
    ck_assert_int_eq(head->status, 200);
    ck_assert(!side->is_cancelled);
    return EXCHANGE_MORE;
}

static enum exchange_want on_data(void *ctx, struct span piece)
{
    struct side *side = ctx;
    ck_assert_msg(!side->is_cancelled, "a receiver was called after its exchange was cancelled");
    side->pieces++;
    buf_append_span(&side->received, piece);
    if (side->sleep_ms > 0)
        poll(NULL, 0, (int)side->sleep_ms);
    if (side->cancels != NULL && side->cancels->exchange != NULL && !side->cancels->is_cancelled) {
        exchange_cancel(side->cancels->exchange);
        side->cancels->is_cancelled = true;
    }
    return EXCHANGE_CONTENT;
}

static void begin(struct side *side, const struct reply *script, size_t n)
{
    static const char *const no_headers[] = { NULL };

    if (script != NULL)
        server_start(&side->server, script, n);
    snprintf(side->url, sizeof(side->url), "http://127.0.0.1:%d/", side->server.port);
    side->request = (struct exchange_request){
        .url = side->url,
        .headers = no_headers,
        .body = &side->body,
        .clocks = side->clocks,
        .caller_fd = caller_fd,
    };
    side->receiver = (struct exchange_receiver){ .ctx = side, .on_head = on_head, .on_data = on_data };
    side->is_cancelled = false;
    side->exchange = exchange_begin(client, &side->request, &side->receiver, &side->result);
    ck_assert_ptr_nonnull(side->exchange);
}

#define BEGIN(side, ...)                                  \
    do {                                                  \
        static const struct reply script[] = __VA_ARGS__; \
        begin(side, script, COUNT(script));               \
    } while (0)

/* The next that is over. */
static struct side *wait_for_one(void)
{
    const struct exchange *over = exchange_wait(client, UINT64_MAX);
    struct side *side = over == one.exchange ? &one : &other;
    ck_assert_ptr_eq(over, side->exchange);
    side->exchange = NULL;
    return side;
}

static void expect_end(const struct side *side, enum exchange_end end)
{
    ck_assert_msg(side->result.end == end, "%s: %s, expected %s", side == &one ? "one" : "the other",
                  exchange_end_name(side->result.end), exchange_end_name(end));
}

static void expect_whole(const struct side *side)
{
    expect_end(side, EXCHANGE_END_WHOLE);
    ck_assert_msg(span_is(buf_span(&side->received), "hello"), "received %.*s", (int)side->received.len,
                  side->received.data);
}

static void stop_servers(void)
{
    server_stop(&one.server);
    server_stop(&other.server);
}

START_TEST(each_is_given_back_when_it_is_over)
{
    BEGIN(&one, { { { { 0, OK_HEAD "hel" }, { 600, "lo" } }, KEEP } });
    BEGIN(&other, { { { { 0, OK_REPLY } }, KEEP } });
    ck_assert_ptr_eq(wait_for_one(), &other);
    expect_whole(&other);
    ck_assert_ptr_eq(wait_for_one(), &one);
    expect_whole(&one);
    ck_assert_uint_ge(one.result.last_byte_us, 600 * US_PER_MS);
    stop_servers();
}
END_TEST

START_TEST(both_that_are_over_at_once_are_given_back_one_after_the_other)
{
    BEGIN(&one, { { { { 0, OK_REPLY } }, KEEP } });
    BEGIN(&other, { { { { 0, OK_REPLY } }, KEEP } });
    poll(NULL, 0, 300);
    struct side *first = wait_for_one();
    ck_assert_ptr_ne(wait_for_one(), first);
    expect_whole(&one);
    expect_whole(&other);
    stop_servers();
}
END_TEST

START_TEST(a_time_to_come_back_by_ends_no_exchange)
{
    BEGIN(&one, { { { { 500, OK_REPLY } }, KEEP } });
    uint64_t until_us = clock_monotonic_us() + 100 * US_PER_MS;
    ck_assert_ptr_null(exchange_wait(client, until_us));
    ck_assert_uint_ge(clock_monotonic_us(), until_us);
    BEGIN(&other, { { { { 0, OK_REPLY } }, KEEP } });
    wait_for_one();
    wait_for_one();
    expect_whole(&one);
    expect_whole(&other);
    stop_servers();
}
END_TEST

START_TEST(one_that_is_over_is_given_back_although_the_time_has_come)
{
    BEGIN(&one, { { { { 0, OK_REPLY } }, KEEP } });
    const struct exchange *over = NULL;
    uint64_t give_up_us = clock_monotonic_us() + 20 * US_PER_S;
    while ((over = exchange_wait(client, 1)) == NULL && clock_monotonic_us() < give_up_us)
        poll(NULL, 0, 5);
    ck_assert_ptr_eq(over, one.exchange);
    expect_whole(&one);
    server_stop(&one.server);
}
END_TEST

START_TEST(one_that_is_cancelled_receives_no_more_and_is_given_back)
{
    BEGIN(&one, { { { { 0, OK_HEAD "he" }, { 0, "llo" } }, KEEP } });
    exchange_cancel(one.exchange);
    one.is_cancelled = true;
    ck_assert_ptr_eq(wait_for_one(), &one);
    expect_end(&one, EXCHANGE_END_ENOUGH);
    ck_assert_uint_eq(one.pieces, 0);
    server_stop(&one.server);
}
END_TEST

START_TEST(the_receiver_of_one_may_cancel_the_other)
{
    one.cancels = &other;
    BEGIN(&other, { { { { 0, "" } }, KEEP } });
    BEGIN(&one, { { { { 100, OK_HEAD "hel" }, { 400, "lo" } }, KEEP } });
    ck_assert_ptr_eq(wait_for_one(), &other);
    expect_end(&other, EXCHANGE_END_ENOUGH);
    ck_assert_uint_gt(other.result.send_us, 0); /* measured */
    ck_assert_ptr_eq(wait_for_one(), &one);
    expect_whole(&one);
    stop_servers();
}
END_TEST

/* Both replies are there when they are looked at: whose comes first cancels the other. */
START_TEST(one_that_is_cancelled_receives_nothing_that_is_there_already)
{
    one.cancels = &other;
    other.cancels = &one;
    BEGIN(&one, { { { { 0, OK_REPLY } }, KEEP } });
    BEGIN(&other, { { { { 0, OK_REPLY } }, KEEP } });
    while (one.pieces + other.pieces == 0) {
        poll(NULL, 0, 200);
        const struct exchange *over = exchange_wait(client, 1);
        if (over != NULL)
            *(over == one.exchange ? &one.exchange : &other.exchange) = NULL;
    }
    while (one.exchange != NULL || other.exchange != NULL)
        wait_for_one();
    ck_assert_uint_eq(one.pieces + other.pieces, 1);
    expect_end(one.pieces == 1 ? &one : &other, EXCHANGE_END_WHOLE);
    expect_end(one.pieces == 1 ? &other : &one, EXCHANGE_END_ENOUGH);
    stop_servers();
}
END_TEST

START_TEST(the_clocks_of_each_are_its_own)
{
    one.clocks.first_content_ms = 200;
    BEGIN(&one, { { { { 0, OK_HEAD }, { 5000, "hello" } }, KEEP } });
    BEGIN(&other, { { { { 1000, OK_REPLY } }, KEEP } });
    ck_assert_ptr_eq(wait_for_one(), &one);
    expect_end(&one, EXCHANGE_END_TIMEOUT_FIRST_CONTENT);
    ck_assert_ptr_eq(wait_for_one(), &other);
    expect_whole(&other);
    stop_servers();
}
END_TEST

START_TEST(what_the_receiver_of_one_takes_is_not_held_against_the_other)
{
    one.clocks.first_content_ms = 900;
    BEGIN(&one, { { { { 1100, OK_REPLY } }, KEEP } });
    other.sleep_ms = 1000;
    BEGIN(&other, { { { { 0, OK_HEAD "hel" }, { 400, "lo" } }, KEEP } });
    wait_for_one();
    wait_for_one();
    expect_whole(&one);
    expect_whole(&other);
    ck_assert_uint_ge(one.result.receiver_us, 1000 * US_PER_MS);
    stop_servers();
}
END_TEST

START_TEST(a_caller_that_leaves_ends_one_and_the_other_can_be_cancelled)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    caller_fd = pair[0];
    BEGIN(&one, { { { { 0, "" } }, KEEP } });
    BEGIN(&other, { { { { 0, "" } }, KEEP } });
    close(pair[1]);
    struct side *first = wait_for_one(), *second = first == &one ? &other : &one;
    expect_end(first, EXCHANGE_END_CALLER_LEFT);
    exchange_cancel(second->exchange);
    second->is_cancelled = true;
    ck_assert_ptr_eq(wait_for_one(), second);
    expect_end(second, EXCHANGE_END_ENOUGH);
    close(pair[0]);
    stop_servers();
}
END_TEST

START_TEST(the_connections_of_both_are_kept_and_a_cancelled_ones_is_not)
{
    static const struct reply replies[] = { { { { 0, OK_REPLY } }, KEEP }, { { { 0, OK_REPLY } }, KEEP } };
    begin(&one, replies, 2);
    begin(&other, replies, 2);
    wait_for_one();
    wait_for_one();
    buf_clear(&one.received);
    begin(&one, NULL, 0);
    begin(&other, NULL, 0);
    exchange_cancel(other.exchange);
    other.is_cancelled = true;
    wait_for_one();
    wait_for_one();
    expect_whole(&one);
    ck_assert(one.result.is_reused);
    expect_end(&other, EXCHANGE_END_ENOUGH);
    stop_servers();
    ck_assert_uint_eq(one.server.connections, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchange_pair");
    TCase *tcase = tcase_create("pairs");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, each_is_given_back_when_it_is_over);
    tcase_add_test(tcase, both_that_are_over_at_once_are_given_back_one_after_the_other);
    tcase_add_test(tcase, a_time_to_come_back_by_ends_no_exchange);
    tcase_add_test(tcase, one_that_is_over_is_given_back_although_the_time_has_come);
    tcase_add_test(tcase, one_that_is_cancelled_receives_no_more_and_is_given_back);
    tcase_add_test(tcase, the_receiver_of_one_may_cancel_the_other);
    tcase_add_test(tcase, one_that_is_cancelled_receives_nothing_that_is_there_already);
    tcase_add_test(tcase, the_clocks_of_each_are_its_own);
    tcase_add_test(tcase, what_the_receiver_of_one_takes_is_not_held_against_the_other);
    tcase_add_test(tcase, a_caller_that_leaves_ends_one_and_the_other_can_be_cancelled);
    tcase_add_test(tcase, the_connections_of_both_are_kept_and_a_cancelled_ones_is_not);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
