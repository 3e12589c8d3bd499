/*
 * Names that are slow to resolve. The getaddrinfo below takes the place of the C
 * library's in this program, libcurl included.
 */
#include <arpa/inet.h>
#include <check.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/store/redis_client.h"
#include "core/upstream/exchange.h"
#include "core/upstream/resolver.h"
#include "tests/unit/run_exchange.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { STALL_MS = 4000, CLOCK_MS = 300, LATE_MS = 1000 };

static atomic_uint lookups;

/* "*.stall": nobody answers for STALL_MS; "*.none": there is no such name; any
 * other is an address of this machine where nobody listens. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): glibc's are reserved names */
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } * answer;
    (void)service;

    if ((hints->ai_flags & AI_NUMERICHOST) != 0)
        return EAI_NONAME; /* it is asked for no address here */
    atomic_fetch_add(&lookups, 1);
    const char *dot = strrchr(name, '.');
    if (dot != NULL && strcmp(dot, ".stall") == 0) {
        poll(NULL, 0, STALL_MS);
        return EAI_AGAIN;
    }
    if (dot != NULL && strcmp(dot, ".none") == 0)
        return EAI_NONAME;
    if ((answer = calloc(1, sizeof(*answer))) == NULL)
        return EAI_MEMORY;
    answer->address.sin_family = AF_INET;
    answer->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    answer->info = (struct addrinfo){
        .ai_family = AF_INET,
        .ai_socktype = SOCK_STREAM,
        .ai_addrlen = sizeof(answer->address),
        .ai_addr = (struct sockaddr *)&answer->address,
    };
    *out = &answer->info;
    return 0;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
void freeaddrinfo(struct addrinfo *list)
{
    free(list);
}

static struct exchange_client *client;
static uint64_t took_us;

static void set_up(void)
{
    struct error e;
    ck_assert_int_eq(exchange_init_master(&e), 0);
    ck_assert_int_eq(exchange_open(NULL, &client, &e), 0);
}

static void tear_down(void)
{
    exchange_close(client);
}

static enum exchange_want on_head(void *ctx, const struct exchange_head *head)
{
    (void)ctx;
    (void)head;
    return EXCHANGE_MORE;
}

static enum exchange_want on_data(void *ctx, struct span piece)
{
    (void)ctx;
    (void)piece;
    return EXCHANGE_MORE;
}

static enum exchange_end post_to(const char *url, int caller_fd)
{
    const struct exchange_receiver receiver = { .on_head = on_head, .on_data = on_data };
    static const char *const no_headers[] = { NULL };
    struct exchange_result result;
    struct splice body;

    splice_init(&body, span_cstr("{}"));
    const struct exchange_request request = {
        .url = url,
        .headers = no_headers,
        .body = &body,
        .clocks = { .connect_ms = CLOCK_MS,
                    .first_content_ms = 10000,
                    .idle_ms = 10000,
                    .chain_us = clock_monotonic_us() + 30 * US_PER_S },
        .caller_fd = caller_fd,
    };
    uint64_t begin = clock_monotonic_us();
    run_exchange(client, &request, &receiver, &result);
    took_us = clock_monotonic_us() - begin;
    return result.end;
}

static void expect(const char *url, enum exchange_end end, unsigned at_least_ms)
{
    enum exchange_end got = post_to(url, -1);
    ck_assert_msg(got == end, "%s: %s, expected %s", url, exchange_end_name(got), exchange_end_name(end));
    ck_assert_msg(took_us >= at_least_ms * US_PER_MS && took_us < (at_least_ms + LATE_MS) * US_PER_MS,
                  "%s: after %lu us", url, (unsigned long)took_us);
}

START_TEST(the_clock_of_the_connection_does_not_wait_for_a_resolver)
{
    expect("http://a.stall/", EXCHANGE_END_TIMEOUT_CONNECT, CLOCK_MS);
}
END_TEST

START_TEST(a_caller_that_leaves_does_not_wait_for_a_resolver)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    close(fds[0]); /* the write end is told so */
    ck_assert_int_eq(post_to("http://a.stall/", fds[1]), EXCHANGE_END_CALLER_LEFT);
    ck_assert_uint_lt(took_us, LATE_MS * US_PER_MS);
    close(fds[1]);
}
END_TEST

static void stall_upstreams(void)
{
    char url[32];
    for (int i = 0; i < RESOLVER_THREADS_MAX; i++) {
        snprintf(url, sizeof(url), "http://n%d.stall/", i);
        expect(url, EXCHANGE_END_TIMEOUT_CONNECT, CLOCK_MS);
    }
}

static void stall_as_many_as_may(void)
{
    stall_upstreams();
    ck_assert_uint_eq(lookups, RESOLVER_THREADS_MAX);
}

START_TEST(when_too_many_lookups_are_stuck_no_further_one_is_started)
{
    stall_as_many_as_may();
    for (int i = 0; i < 3; i++)
        expect("http://one-more.example/", EXCHANGE_END_UNRESOLVED, 0);
    expect("https://one-more.example/", EXCHANGE_END_UNRESOLVED, 0);
    ck_assert_uint_eq(lookups, RESOLVER_THREADS_MAX);
}
END_TEST

START_TEST(what_needs_no_lookup_goes_on_while_lookups_are_stuck)
{
    expect("http://known.example:1/", EXCHANGE_END_REFUSED, 0);
    lookups = 0;
    stall_as_many_as_may();
    expect("http://127.0.0.1:1/", EXCHANGE_END_REFUSED, 0);
    expect("http://[::1]:1/", EXCHANGE_END_REFUSED, 0);
    expect("http://known.example:1/", EXCHANGE_END_REFUSED, 0); /* is remembered */
    ck_assert_uint_eq(lookups, RESOLVER_THREADS_MAX);
}
END_TEST

/* The store has threads of its own for that, in the same process. */
START_TEST(names_that_are_not_for_upstreams_take_nothing_of_the_bound)
{
    enum { CLIENTS = 2 * RESOLVER_THREADS_MAX };
    const struct store_place place = { .redis_url = "redis://redis.stall:6379" };
    const struct span words[] = { span_cstr("TAKE") };
    struct redis_client *clients[CLIENTS];
    struct error e;
    int64_t number;

    for (int i = 0; i < CLIENTS; i++) {
        ck_assert_int_eq(redis_client_open(&place, &clients[i], &e), 0);
        ck_assert(!redis_client_ask(clients[i], words, 1, clock_monotonic_us(), &number, 1));
    }
    ck_assert(resolver_may_start());
    expect("http://known.example:1/", EXCHANGE_END_REFUSED, 0);
    stall_upstreams();
    ck_assert_msg(!resolver_may_start(), "upstreams' own are bounded as ever");
    for (int i = 0; i < CLIENTS; i++)
        redis_client_close(clients[i]);
}
END_TEST

START_TEST(lookups_start_again_when_stuck_ones_have_ended)
{
    stall_as_many_as_may();
    expect("http://other.example:1/", EXCHANGE_END_UNRESOLVED, 0);
    for (unsigned waited_ms = 0; !resolver_may_start() && waited_ms < 5 * STALL_MS; waited_ms += 50)
        poll(NULL, 0, 50);
    expect("http://other.example:1/", EXCHANGE_END_REFUSED, 0);
}
END_TEST

START_TEST(a_name_without_an_address_is_unresolved)
{
    expect("http://a.none/", EXCHANGE_END_UNRESOLVED, 0);
    ck_assert_uint_eq(lookups, 1);
}
END_TEST

static const struct {
    const char *url;
    bool is_address;
} urls[] = {
    { "http://127.0.0.1/", true },
    { "https://10.0.0.1:8443/v1", true },
    { "http://1.2.3.4", true },
    { "http://1.2.3.4?x", true },
    { "https://[::1]:80/", true },
    { "https://[2001:db8::1]/v1", true },
    { "https://api.openai.com/", false },
    { "http://1.2.3.4.example/", false },
    { "http://1.2.3/", false },
    { "http://256.1.1.1/", false },
    { "http:///", false },
    { "", false },
    { "http://a-name-that-is-longer-than-any-address-could-be-written.example/", false },
};

START_TEST(an_address_is_told_from_a_name)
{
    ck_assert_msg(resolver_is_address(urls[_i].url) == urls[_i].is_address, "%s", urls[_i].url);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resolver");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_set_timeout(all, 30);
    tcase_add_test(all, the_clock_of_the_connection_does_not_wait_for_a_resolver);
    tcase_add_test(all, a_caller_that_leaves_does_not_wait_for_a_resolver);
    tcase_add_test(all, when_too_many_lookups_are_stuck_no_further_one_is_started);
    tcase_add_test(all, what_needs_no_lookup_goes_on_while_lookups_are_stuck);
    tcase_add_test(all, names_that_are_not_for_upstreams_take_nothing_of_the_bound);
    tcase_add_test(all, lookups_start_again_when_stuck_ones_have_ended);
    tcase_add_test(all, a_name_without_an_address_is_unresolved);
    tcase_add_loop_test(all, an_address_is_told_from_a_name, 0, (int)COUNT(urls));
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
