/* What only the store on Postgres has: a server that may be away. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/clock.h"
#include "core/store/store.h"
#include "tests/unit/postgres_server.h"
#include "tests/unit/step_proxy.h"

#define COUNT(rows) (int)(sizeof(rows) / sizeof((rows)[0]))

enum {
    SLACK_MS = 500, /* of a machine that is busy with other tests */
    COMMIT_STEP =
        7, /* of what a writer sends that connects first: start, schema, BEGIN, lock, row, history, audit */
};

static struct postgres_server server;
static struct arena *arena;
static const char *database, *url;
static struct store *store;
static struct store_outcome outcome;
static struct error e;

static void open_at(const char *database_url)
{
    const struct store_place place = { .database_url = database_url };
    ck_assert_msg(store_open(&place, &store, &e) == 0, "%s", e.text);
}

static void set_up(void)
{
    arena = arena_new();
    url = postgres_server_add_database(&server, arena);
    database = arena_printf(arena, "test_%ld", (long)getpid());
    open_at(url);
}

static void tear_down(void)
{
    store_close(store);
    arena_free(arena);
}

static const char *sql(const char *text)
{
    return postgres_server_sql(&server, database, arena, text);
}

static int put(const char *value, const char *expected)
{
    const struct store_change change = { .key = "K",
                                         .raw = span_cstr(value),
                                         .expected = expected,
                                         .audit = { .actor = "tester", .action = "put", .object = "K" } };
    return store_put(store, &change, &outcome, &e);
}

static void must_put(const char *value)
{
    ck_assert_msg(put(value, "*") == 0, "%s", e.text);
}

static int get(struct store_value *value)
{
    return store_get(store, "K", arena, value, &e);
}

static void expect_value(const char *text)
{
    struct store_value value;
    ck_assert_msg(get(&value) == 0, "%s", e.text);
    ck_assert_msg(span_is(value.raw, text), "\"%.*s\", expected \"%s\"", (int)value.raw.len, value.raw.ptr,
                  text);
}

static void expect_said(const char *words)
{
    ck_assert_msg(strstr(e.text, words) != NULL, "\"%s\" is not in: %s", words, e.text);
}

static bool is_database_ok(void)
{
    struct store_health health;
    store_health(store, &health);
    ck_assert(health.has_database && !health.has_redis);
    return health.is_database_ok;
}

/* An answer that is no success, in time. */
static void expect_down(void)
{
    struct store_value value;
    uint64_t began_us = clock_monotonic_us(), stamp;
    ck_assert_int_eq(store_stamp(store, &stamp, &e), ERR_SYSTEM);
    uint64_t ms = (clock_monotonic_us() - began_us) / US_PER_MS;
    ck_assert_msg(ms < STORE_TIMEOUT_MS + SLACK_MS, "the first call took %llu ms", (unsigned long long)ms);
    ck_assert(!is_database_ok());
    began_us = clock_monotonic_us();
    ck_assert_int_eq(get(&value), ERR_SYSTEM);
    ms = (clock_monotonic_us() - began_us) / US_PER_MS;
    ck_assert_msg(ms < STORE_TIMEOUT_MS + SLACK_MS, "the next call took %llu ms", (unsigned long long)ms);
}

/* --- a server that is away ---------------------------------------------------------- */

/* One that ends when this test does: only its parent can start a server again. */
static void use_own_server(void)
{
    store_close(store);
    postgres_server_make(&server);
    database = "template";
    open_at(postgres_server_url(&server, database, arena));
}

START_TEST(a_restarted_server_is_found_again_at_the_next_call)
{
    use_own_server();
    must_put("1");
    postgres_server_end(&server);
    postgres_server_start(&server);
    expect_value("1");
    postgres_server_end(&server);
    postgres_server_start(&server);
    must_put("2");
    expect_value("2");
    postgres_server_remove(&server);
}
END_TEST

START_TEST(a_server_that_is_away_is_said_at_once_and_found_when_it_is_back)
{
    use_own_server();
    must_put("1");
    postgres_server_end(&server);
    uint64_t began_us = clock_monotonic_us();
    expect_down();
    ck_assert_uint_lt(clock_monotonic_us() - began_us, US_PER_S);
    expect_said("cannot connect to Postgres");
    ck_assert_int_eq(put("2", "*"), ERR_SYSTEM);
    postgres_server_start(&server);
    expect_value("1");
    ck_assert(is_database_ok());
    postgres_server_remove(&server);
}
END_TEST

/* Sends a signal to each process of the server. */
static void signal_server(int number)
{
    const char *children = arena_printf(arena, "pkill -%d -P %ld", number, (long)server.pid);
    ck_assert_int_eq(kill(server.pid, number), 0);
    ck_assert_int_eq(system(children), 0);
}

START_TEST(a_frozen_server_costs_a_call_no_more_than_its_deadline)
{
    must_put("1");
    signal_server(SIGSTOP);
    expect_down();
    expect_said("did not answer in time");
    uint64_t began_us = clock_monotonic_us();
    ck_assert_int_eq(put("2", "*"), ERR_SYSTEM);
    ck_assert_uint_lt((clock_monotonic_us() - began_us) / US_PER_MS, STORE_TIMEOUT_MS + SLACK_MS);
    signal_server(SIGCONT);
    expect_value("1");
    ck_assert(is_database_ok());
}
END_TEST

/* A peer that never says a word: as a connection that is open at one end only. */
START_TEST(a_server_that_never_answers_costs_a_call_no_more_than_its_deadline)
{
    struct step_proxy mute;
    step_proxy_open(&mute, server.dir);
    store_close(store);
    open_at(arena_printf(arena, "host=127.0.0.1 port=%d user=postgres dbname=x", mute.port));
    expect_down();
    expect_said("did not answer in time");
    close(mute.listener);
}
END_TEST

START_TEST(a_name_that_is_not_there_costs_a_call_no_more_than_its_deadline)
{
    store_close(store);
    open_at("postgresql://postgres@no-such-host.invalid/x");
    expect_down();
    expect_said("no-such-host.invalid");
}
END_TEST

/* localhost may have two addresses, of which one refuses. */
START_TEST(a_server_is_found_by_name)
{
    struct step_proxy proxy;
    bool is_done;
    must_put("1");
    store_close(store);
    step_proxy_open(&proxy, server.dir);
    open_at(
        arena_printf(arena, "postgresql://postgres@localhost:%d/%s?sslmode=disable", proxy.port, database));
    pid_t pid = fork();
    if (pid == 0) {
        step_proxy_serve(&proxy, 0, -1, STEP_CUT_ANSWER, &is_done);
        _exit(0);
    }
    expect_value("1");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(proxy.listener);
}
END_TEST

START_TEST(a_later_host_is_used_while_an_earlier_one_is_away)
{
    must_put("1");
    store_close(store);
    open_at(arena_printf(arena, "postgresql://postgres@127.0.0.1:1,%%2Ftmp%%2Fnowhere,%s:5432/%s",
                         arena_printf(arena, "%%2Ftmp%%2F%s", server.dir + strlen("/tmp/")), database));
    expect_value("1");
}
END_TEST

/* --- a server that refuses ---------------------------------------------------------- */

START_TEST(a_read_only_database_refuses_a_put_and_says_why)
{
    must_put("1");
    sql(arena_printf(arena, "ALTER DATABASE %s SET default_transaction_read_only = on", database));
    store_close(store);
    open_at(url);
    ck_assert_int_eq(put("2", "*"), ERR_SYSTEM);
    expect_said("the database is read-only");
    ck_assert(is_database_ok());
    expect_value("1");
    postgres_server_sql(
        &server, "postgres", arena,
        arena_printf(arena, "ALTER DATABASE %s RESET default_transaction_read_only", database));
    ck_assert_int_eq(put("2", "*"), ERR_SYSTEM); /* of this connection it is still so */
    must_put("2");
}
END_TEST

static const struct span no_texts[] = { { "a\0b", 3 }, { "\xff", 1 }, { "\xed\xa0\x80", 3 } };

START_TEST(bytes_that_are_no_text_are_refused_and_change_nothing)
{
    must_put("1");
    const struct store_change change = { .key = "K", .raw = no_texts[_i], .expected = "*" };
    ck_assert_int_eq(store_put(store, &change, &outcome, &e), ERR_FORMAT);
    expect_value("1");
    must_put("2");
}
END_TEST

START_TEST(a_value_edited_by_hand_changes_the_stamp)
{
    uint64_t before = 0, after = 0;
    must_put("1");
    ck_assert_int_eq(store_stamp(store, &before, &e), 0);
    sql("UPDATE config_kv SET value = 'edited'");
    ck_assert_int_eq(store_stamp(store, &after, &e), 0);
    ck_assert_uint_ne(after, before);
    expect_value("edited");
}
END_TEST

START_TEST(a_value_edited_by_hand_is_a_version_with_its_author_and_its_line_of_the_audit_log)
{
    struct store_value before, edited, saved;
    struct store_version versions[3];
    size_t n, total;
    must_put("1");
    ck_assert_int_eq(get(&before), 0);
    sql("UPDATE config_kv SET value = 'edited'");
    ck_assert_int_eq(get(&edited), 0);
    ck_assert_str_ne(edited.version, before.version);
    must_put("2");

    ck_assert_int_eq(store_versions(store, "K", 3, arena, versions, &n, &total, &e), 0);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(versions[1].version, edited.version);
    ck_assert_str_eq(versions[1].author, "postgres:postgres");
    ck_assert_int_eq(store_get_version(store, "K", edited.version, arena, &saved, &e), 0);
    ck_assert(span_is(saved.raw, "edited"));
    ck_assert_str_eq(sql("SELECT actor || ' ' || action FROM admin_audit_log ORDER BY id OFFSET 1 LIMIT 1"),
                     "postgres:postgres edit");
    ck_assert_str_eq(sql("SELECT version_before FROM admin_audit_log ORDER BY id OFFSET 1 LIMIT 1"),
                     before.version);
}
END_TEST

START_TEST(a_row_that_is_touched_and_not_edited_keeps_its_version)
{
    struct store_value before, after;
    must_put("1");
    ck_assert_int_eq(get(&before), 0);
    sql("UPDATE config_kv SET value = value, updated_at = now()");
    ck_assert_int_eq(get(&after), 0);
    ck_assert_str_eq(after.version, before.version);
    ck_assert_str_eq(sql("SELECT count(*) FROM config_kv_history"), "1");
}
END_TEST

static const char *const addresses[] = {
    "postgresql://u:s3cret@s3cret@127.0.0.1:1/db",
    "postgresql://u:s3cret/s3cret@127.0.0.1:1/db",
    "postgresql://u:s3cret:s3cret/@127.0.0.1:1/db",
    "postgresql://u:s3cret%zz@127.0.0.1:1/db",
    "postgresql://u:s3cret@[::1/db",
    "postgresql://u:s3cret@127.0.0.1:1/db",
    "postgresql://u:s3cret@127.0.0.1:1/db?nonsense=s3cret",
    "password=s3cret s3cret host=127.0.0.1 port=1",
    "host=127.0.0.1 port=1 password='s3cret",
    "host=127.0.0.1 port=s3cret",
    "host=127.0.0.1,s3cret@x port=1",
    "host=127.0.0.1 port=1 password=s3cret user=s3cret",
    "s3cret",
};

START_TEST(no_text_of_an_error_has_the_password)
{
    struct store *other = NULL;
    const struct store_place place = { .database_url = addresses[_i] };
    uint64_t stamp;
    int r = store_open(&place, &other, &e);
    if (r == 0)
        r = store_stamp(other, &stamp, &e);
    else
        ck_assert_int_eq(r, ERR_FORMAT);
    ck_assert_int_ne(r, 0);
    ck_assert_msg(strstr(e.text, "s3cret") == NULL, "%s", e.text);
    if (other != NULL)
        store_close(other);
}
END_TEST

START_TEST(a_role_that_is_refused_is_said_without_its_password)
{
    store_close(store);
    open_at(arena_printf(arena, "host=%s dbname=%s user=nobody_%s password=s3cret", server.dir, database,
                         database));
    expect_down();
    ck_assert_ptr_null(strstr(e.text, "s3cret"));
    expect_said("nobody_");
}
END_TEST

/* --- one transaction ---------------------------------------------------------------- */

static const char consistent_sql[] =
    "SELECT CASE WHEN v.version = h.version AND v.value = h.value AND v.change = h.change "
    "AND h.version = a.version_after "
    "AND (SELECT count(*) FROM config_kv_history) = (SELECT count(*) FROM admin_audit_log) "
    "THEN v.value ELSE 'torn' END "
    "FROM config_kv v, (SELECT * FROM config_kv_history ORDER BY change DESC LIMIT 1) h, "
    "(SELECT * FROM admin_audit_log ORDER BY id DESC LIMIT 1) a";

/* What is in force, once nobody else is connected; "torn" unless history and audit log agree. */
static const char *settled_value(void)
{
    while (strcmp(sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                      "AND pid <> pg_backend_pid()"),
                  "0") != 0)
        usleep(2000);
    return sql(consistent_sql);
}

/* A writer of its own, through the proxy. */
static pid_t write_through(const struct step_proxy *proxy, const char *value)
{
    pid_t pid = fork();
    if (pid == 0) {
        open_at(arena_printf(arena, "host=127.0.0.1 port=%d user=postgres dbname=%s sslmode=disable",
                             proxy->port, database));
        _exit(put(value, "*") == 0 ? 0 : 1);
    }
    return pid;
}

static const enum step_act kills[] = { STEP_KILL_BEFORE, STEP_KILL_AFTER };

START_TEST(a_writer_that_is_killed_between_two_steps_leaves_all_of_a_change_or_nothing)
{
    struct step_proxy proxy;
    bool is_done = true;
    int steps = 0, with_change = 0;
    must_put("0");
    store_close(store);
    step_proxy_open(&proxy, server.dir);
    const char *before = "0";
    for (int at = 0; is_done; at++) {
        const char *value = arena_printf(arena, "%d", at + 1);
        pid_t writer = write_through(&proxy, value);
        steps = step_proxy_serve(&proxy, writer, at, kills[_i], &is_done);
        waitpid(writer, NULL, 0);
        const char *after = settled_value();
        ck_assert_msg(strcmp(after, before) == 0 || strcmp(after, value) == 0, "killed at step %d: %s", at,
                      after);
        with_change += is_done && strcmp(after, value) == 0;
        before = after;
    }
    ck_assert_str_eq(before, arena_printf(arena, "%d", steps + 1)); /* nobody came between the last one */
    ck_assert_int_eq(steps, COMMIT_STEP + 1);
    /* Killed before it, a commit did not happen; after it, it did. */
    ck_assert_int_eq(with_change, kills[_i] == STEP_KILL_BEFORE ? 0 : 1);
    close(proxy.listener);
    open_at(url);
}
END_TEST

START_TEST(a_lost_answer_to_a_commit_is_said_to_be_of_unknown_outcome)
{
    struct step_proxy proxy;
    bool is_done = true;
    bool is_said = false;
    int *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_put("0");
    step_proxy_open(&proxy, server.dir);
    for (int at = 0; is_done; at++) {
        pid_t pid = fork();
        if (pid == 0) {
            open_at(arena_printf(arena, "host=127.0.0.1 port=%d user=postgres dbname=%s sslmode=disable",
                                 proxy.port, database));
            int r = put(arena_printf(arena, "%d", at + 1), "*");
            *shared = r == 0 ? 0 : strstr(e.text, "may have happened") != NULL ? 1 : 2;
            _exit(0);
        }
        step_proxy_serve(&proxy, 0, at, STEP_CUT_ANSWER, &is_done);
        waitpid(pid, NULL, 0);
        struct store_value value;
        ck_assert_int_eq(get(&value), 0);
        bool has_happened = span_is(value.raw, arena_printf(arena, "%d", at + 1));
        /* Said exactly where it is so. */
        if (is_done)
            ck_assert_msg((*shared == 1) == has_happened, "cut at step %d: said %d", at, *shared);
        is_said = is_said || *shared == 1;
    }
    ck_assert(is_said);
    close(proxy.listener);
}
END_TEST

/* As one on a host that has frozen: the last step of each but the commit has the row's lock. */
START_TEST(a_writer_that_stops_in_the_middle_is_not_waited_for_for_ever)
{
    struct step_proxy proxy;
    bool is_done;
    must_put("1");
    step_proxy_open(&proxy, server.dir);
    pid_t writer = write_through(&proxy, "2"), holder = fork();
    if (holder == 0) {
        step_proxy_serve(&proxy, writer, COMMIT_STEP - 1, STEP_HOLD, &is_done);
        _exit(0);
    }
    while (strcmp(sql("SELECT count(*) FROM pg_locks WHERE relation = 'config_kv'::regclass AND granted "
                      "AND mode = 'RowExclusiveLock'"),
                  "0") == 0)
        usleep(10000);
    uint64_t began_us = clock_monotonic_us();
    must_put("3");
    uint64_t waited_us = clock_monotonic_us() - began_us;
    ck_assert_msg(waited_us > 5 * US_PER_S && waited_us < 15 * US_PER_S, "waited %llu us",
                  (unsigned long long)waited_us);
    expect_value("3");
    kill(writer, SIGKILL);
    kill(holder, SIGKILL);
    waitpid(writer, NULL, 0);
    waitpid(holder, NULL, 0);
    close(proxy.listener);
}
END_TEST

START_TEST(a_put_waits_for_another_writer)
{
    PGconn *other = PQconnectdb(url);
    must_put("1");
    PQclear(PQexec(other, "BEGIN"));
    PQclear(PQexec(other, "SELECT * FROM config_kv FOR UPDATE"));
    pid_t pid = fork();
    if (pid == 0) {
        usleep(3000000);                                            /* longer than any other call may take */
        _exit(write(PQsocket(other), "X\0\0\0\4", 5) == 5 ? 0 : 1); /* Terminate: rolls back */
    }
    uint64_t began_us = clock_monotonic_us();
    must_put("2");
    ck_assert_uint_ge(clock_monotonic_us() - began_us, 2 * US_PER_S);
    waitpid(pid, NULL, 0);
    PQfinish(other);
    expect_value("2");
}
END_TEST

/* --- instances ---------------------------------------------------------------------- */

static void report(const char *id, const char *source, unsigned workers)
{
    const struct store_instance self = {
        .id = id,
        .host = "host",
        .version = "v1",
        .since = "2026-11-30T00:00:00.000000Z",
        .source = source,
        .workers = workers,
        .workers_current = workers - 1,
    };
    ck_assert_msg(store_report(store, &self, &e) == 0, "%s", e.text);
}

START_TEST(instances_that_reported_lately_are_listed_by_id)
{
    struct store_instance *list;
    size_t n;
    report("b", "ttl", 4);
    report("a", "file", 2);
    report("a", "pubsub", 3);
    ck_assert_msg(store_instances(store, arena, &list, &n, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(list[0].id, "a");
    ck_assert_str_eq(list[0].host, "host");
    ck_assert_str_eq(list[0].version, "v1");
    ck_assert_str_eq(list[0].since, "2026-11-30T00:00:00.000000Z");
    ck_assert_str_eq(list[0].source, "pubsub");
    ck_assert_uint_eq(list[0].workers, 3);
    ck_assert_uint_eq(list[0].workers_current, 2);
    ck_assert(list[0].age_s >= 0 && list[0].age_s < 5);
    ck_assert_str_eq(list[1].id, "b");
}
END_TEST

START_TEST(an_instance_that_is_silent_for_its_life_is_gone)
{
    struct store_instance *list;
    size_t n;
    report("a", "ttl", 2);
    report("b", "ttl", 2);
    sql("UPDATE router_instance SET reported_at = reported_at - interval '14 s' WHERE id = 'a'");
    ck_assert_int_eq(store_instances(store, arena, &list, &n, &e), 0);
    ck_assert_uint_eq(n, 2);
    ck_assert(list[0].age_s >= 14 && list[0].age_s < 15);
    sql("UPDATE router_instance SET reported_at = reported_at - interval '2 s' WHERE id = 'a'");
    ck_assert_int_eq(store_instances(store, arena, &list, &n, &e), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(sql("SELECT count(*) FROM router_instance"), "2");
    report("b", "ttl", 2);
    ck_assert_str_eq(sql("SELECT count(*) FROM router_instance"), "1");
    report("a", "ttl", 2); /* and comes back */
    ck_assert_int_eq(store_instances(store, arena, &list, &n, &e), 0);
    ck_assert_uint_eq(n, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store on Postgres");
    TCase *tests = tcase_create("Postgres");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_restarted_server_is_found_again_at_the_next_call);
    tcase_add_test(tests, a_server_that_is_away_is_said_at_once_and_found_when_it_is_back);
    tcase_add_test(tests, a_frozen_server_costs_a_call_no_more_than_its_deadline);
    tcase_add_test(tests, a_server_that_never_answers_costs_a_call_no_more_than_its_deadline);
    tcase_add_test(tests, a_name_that_is_not_there_costs_a_call_no_more_than_its_deadline);
    tcase_add_test(tests, a_server_is_found_by_name);
    tcase_add_test(tests, a_later_host_is_used_while_an_earlier_one_is_away);
    tcase_add_test(tests, a_read_only_database_refuses_a_put_and_says_why);
    tcase_add_loop_test(tests, bytes_that_are_no_text_are_refused_and_change_nothing, 0, COUNT(no_texts));
    tcase_add_test(tests, a_value_edited_by_hand_changes_the_stamp);
    tcase_add_test(tests, a_value_edited_by_hand_is_a_version_with_its_author_and_its_line_of_the_audit_log);
    tcase_add_test(tests, a_row_that_is_touched_and_not_edited_keeps_its_version);
    tcase_add_loop_test(tests, no_text_of_an_error_has_the_password, 0, COUNT(addresses));
    tcase_add_test(tests, a_role_that_is_refused_is_said_without_its_password);
    tcase_add_loop_test(tests, a_writer_that_is_killed_between_two_steps_leaves_all_of_a_change_or_nothing, 0,
                        COUNT(kills));
    tcase_add_test(tests, a_lost_answer_to_a_commit_is_said_to_be_of_unknown_outcome);
    tcase_add_test(tests, a_writer_that_stops_in_the_middle_is_not_waited_for_for_ever);
    tcase_add_test(tests, a_put_waits_for_another_writer);
    tcase_add_test(tests, instances_that_reported_lately_are_listed_by_id);
    tcase_add_test(tests, an_instance_that_is_silent_for_its_life_is_gone);
    suite_add_tcase(suite, tests);
    postgres_server_make(&server);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    postgres_server_remove(&server);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
