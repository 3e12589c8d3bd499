/*
 * Names that take long to look up, for those who ask Redis and Postgres: none of them waits longer than it
 * may, and each has one lookup at most. The getaddrinfo below takes the place of the C library's in this
 * program, and so does the clock.
 */
#include <arpa/inet.h>
#include <check.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/store/lookup_internal.h"
#include "core/store/postgres_link_internal.h"
#include "core/store/redis_client.h"
#include "core/store/subscription_internal.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum { TIMES = 4, PATIENCE_MS = 20, LONG_MS = 30 * 1000 };

static _Atomic unsigned lookups, answers, kept; /* kept: answers that were not freed */
static _Atomic bool is_server_away;             /* of names */
static _Atomic int64_t clock_ahead_s;

/* While the server is away nobody is answered. Then "*.none" is no name, and any other is an address of
 * this machine where nobody listens. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): glibc's are reserved names */
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } * answer;
    struct in_addr digits;
    bool is_number = inet_pton(AF_INET, name, &digits) == 1;

    (void)service;
    if ((hints->ai_flags & AI_NUMERICHOST) != 0 && !is_number)
        return EAI_NONAME;
    if (!is_number)
        atomic_fetch_add(&lookups, 1);
    while (!is_number && atomic_load(&is_server_away))
        poll(NULL, 0, 5);
    if (strstr(name, ".none") != NULL || (answer = calloc(1, sizeof(*answer))) == NULL)
        return EAI_NONAME;
    answer->address.sin_family = AF_INET;
    answer->address.sin_port = htons(1);
    answer->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    answer->info = (struct addrinfo){
        .ai_family = AF_INET,
        .ai_socktype = SOCK_STREAM,
        .ai_addrlen = sizeof(answer->address),
        .ai_addr = (struct sockaddr *)&answer->address,
    };
    *out = &answer->info;
    atomic_fetch_add(&kept, 1);
    atomic_fetch_add(&answers, 1);
    return 0;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
void freeaddrinfo(struct addrinfo *list)
{
    if (list != NULL)
        atomic_fetch_sub(&kept, 1);
    free(list);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t id, struct timespec *out)
{
    int r = (int)syscall(SYS_clock_gettime, id, out);
    out->tv_sec += atomic_load(&clock_ahead_s);
    return r;
}

static void set_up(void)
{
    atomic_store(&is_server_away, true);
}

static void wait_for(const _Atomic unsigned *count, unsigned n, const char *what)
{
    for (unsigned waited_ms = 0; atomic_load(count) != n; waited_ms += 5) {
        ck_assert_msg(waited_ms < LONG_MS, "%s: %u, expected %u", what, *count, n);
        poll(NULL, 0, 5);
    }
}

/* --- those who ask ------------------------------------------------------------------- */

static struct redis_client *client;
static struct subscription *subscription;
static struct postgres_link *postgres;

static void open_redis(void)
{
    const struct store_place place = { .redis_url = "redis://redis.example:6379", .redis_prefix = "" };
    struct error e;
    ck_assert_int_eq(redis_client_open(&place, &client, &e), 0);
}

static const char *ask_redis(void)
{
    const struct span words[] = { span_cstr("TAKE") };
    int64_t number;
    ck_assert(
        !redis_client_ask(client, words, 1, clock_monotonic_us() + PATIENCE_MS * US_PER_MS, &number, 1));
    return redis_client_trouble(client);
}

static void close_redis(void)
{
    redis_client_close(client);
}

static void open_subscription(void)
{
    static struct envelope_keys keys;
    struct error e;
    ck_assert_int_eq(envelope_keys_derive(&keys, span_cstr("bWFzdGVyLWtleS1vZi10ZXN0cy0zMi1ieXRlcy1sb24="),
                                          span_of("", 0), NULL),
                     0);
    ck_assert_int_eq(subscription_open("redis://redis.example:6379", NULL, &keys, &subscription, &e), 0);
}

static const char *publish(void)
{
    const struct invalidation news = { "A", "v", 1 };
    ck_assert(!subscription_publish(subscription, &news));
    return NULL;
}

static void close_subscription(void)
{
    subscription_close(subscription);
}

static void open_postgres(void)
{
    struct error e;
    ck_assert_int_eq(postgres_link_new("postgresql://me@postgres.example/db", &postgres, &e), 0);
}

static const char *connect_postgres(void)
{
    static struct error e;
    ck_assert_int_ne(
        postgres_link_connect(postgres, clock_monotonic_us() + PATIENCE_MS * US_PER_MS, NULL, &e), 0);
    return e.text;
}

static void close_postgres(void)
{
    postgres_link_free(postgres);
}

static const struct asker {
    const char *what;
    void (*open)(void);
    const char *(*ask)(void); /* in vain; the reason, or NULL: it does not say */
    void (*close)(void);
    const char *refused; /* the reason, when it is known where to ask */
} askers[] = {
    { "a worker's Redis", open_redis, ask_redis, close_redis, "cannot connect" },
    { "publishing", open_subscription, publish, close_subscription, "" },
    { "Postgres", open_postgres, connect_postgres, close_postgres, "cannot connect" },
};

START_TEST(one_whose_name_is_not_answered_has_one_lookup_however_often_it_asks)
{
    const struct asker *asker = &askers[_i];
    asker->open();
    for (int i = 0; i < TIMES; i++) {
        const char *trouble = asker->ask();
        ck_assert_msg(trouble == NULL || strstr(trouble, "not found in time") != NULL, "%s: %s", asker->what,
                      trouble);
    }
    ck_assert_msg(lookups == 1, "%s: %u lookups", asker->what, lookups);
    asker->close();
}
END_TEST

START_TEST(an_answer_that_comes_too_late_for_one_question_serves_the_next)
{
    const struct asker *asker = &askers[_i];
    const char *trouble = NULL;
    asker->open();
    asker->ask();
    atomic_store(&is_server_away, false);
    wait_for(&answers, 1, "answers");
    atomic_store(&is_server_away, true);
    ck_assert_msg(kept == 1, "%s: the answer is thrown away", asker->what);
    for (unsigned asked = 0; kept > 0 && asked < LONG_MS / PATIENCE_MS; asked++)
        trouble = asker->ask();
    ck_assert_msg(kept == 0, "%s: it does not take the answer", asker->what);
    ck_assert_msg(trouble == NULL || strstr(trouble, asker->refused) != NULL, "%s: %s", asker->what, trouble);
    ck_assert_msg(lookups == 1, "%s: %u lookups", asker->what, lookups);
    asker->close();
}
END_TEST

/* --- a lookup by itself -------------------------------------------------------------- */

static bool take(struct lookup *lookup, struct addrinfo **found, const char **why)
{
    lookup_wait(lookup, LONG_MS);
    return lookup_take(lookup, found, why);
}

START_TEST(a_wait_ends_when_it_may_last_no_longer)
{
    struct lookup *lookup = NULL;
    struct addrinfo *found;
    const char *why;
    uint64_t begin_us = clock_monotonic_us();

    lookup_go_on(&lookup, "a.example", "1");
    lookup_wait(lookup, 50);
    ck_assert_uint_ge(clock_monotonic_us() - begin_us, 50 * US_PER_MS);
    ck_assert(!lookup_take(lookup, &found, &why));
    lookup_end(lookup);
}
END_TEST

START_TEST(an_address_is_asked_of_nobody)
{
    struct lookup *lookup = NULL;
    struct addrinfo *found;
    const char *why;

    lookup_go_on(&lookup, "127.0.0.1", "1");
    ck_assert(lookup_take(lookup, &found, &why));
    ck_assert_ptr_nonnull(found);
    ck_assert_uint_eq(lookups, 0);
    freeaddrinfo(found);
    lookup_end(lookup);
}
END_TEST

START_TEST(a_name_that_there_is_not_says_so)
{
    struct lookup *lookup = NULL;
    struct addrinfo *found;
    const char *why;

    atomic_store(&is_server_away, false);
    lookup_go_on(&lookup, "a.none", "1");
    ck_assert(take(lookup, &found, &why));
    ck_assert_ptr_null(found);
    ck_assert_str_eq(why, gai_strerror(EAI_NONAME));
    lookup_end(lookup);
}
END_TEST

/* An answer lies there; so much later it is gone on with. */
static const struct {
    int later_s;
    unsigned lookups;
} ages[] = { { 0, 1 }, { LOOKUP_ANSWER_MS / 1000 - 15, 1 }, { LOOKUP_ANSWER_MS / 1000 + 1, 2 } };

START_TEST(an_answer_that_nobody_took_holds_good_for_a_while)
{
    struct lookup *lookup = NULL;
    struct addrinfo *found;
    const char *why;

    atomic_store(&is_server_away, false);
    lookup_go_on(&lookup, "a.example", "1");
    lookup_wait(lookup, LONG_MS);
    atomic_store(&clock_ahead_s, ages[_i].later_s);
    lookup_go_on(&lookup, "a.example", "1");
    atomic_store(&clock_ahead_s, 0);
    ck_assert(take(lookup, &found, &why));
    ck_assert_msg(lookups == ages[_i].lookups, "%d s later: %u lookups", ages[_i].later_s, lookups);
    freeaddrinfo(found);
    lookup_end(lookup);
}
END_TEST

START_TEST(what_is_left_before_its_end_is_freed_at_its_end)
{
    struct lookup *lookup = NULL;

    lookup_go_on(&lookup, "a.example", "1");
    wait_for(&lookups, 1, "lookups");
    lookup_end(lookup);
    atomic_store(&is_server_away, false);
    wait_for(&answers, 1, "answers");
    wait_for(&kept, 0, "answers that were not freed");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lookup");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, set_up, NULL);
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, one_whose_name_is_not_answered_has_one_lookup_however_often_it_asks, 0,
                        (int)COUNT(askers));
    tcase_add_loop_test(all, an_answer_that_comes_too_late_for_one_question_serves_the_next, 0,
                        (int)COUNT(askers));
    tcase_add_test(all, a_wait_ends_when_it_may_last_no_longer);
    tcase_add_test(all, an_address_is_asked_of_nobody);
    tcase_add_test(all, a_name_that_there_is_not_says_so);
    tcase_add_loop_test(all, an_answer_that_nobody_took_holds_good_for_a_while, 0, (int)COUNT(ages));
    tcase_add_test(all, what_is_left_before_its_end_is_freed_at_its_end);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
