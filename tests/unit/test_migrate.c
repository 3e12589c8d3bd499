/* The tables of the store on Postgres: how they come about, and who may do what with them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/store/request_log.h"
#include "core/store/store.h"
#include "tests/unit/postgres_server.h"

#define COUNT(rows) (int)(sizeof(rows) / sizeof((rows)[0]))

static struct postgres_server server;
static struct arena *arena;
static const char *database;
static struct store *store;
static struct error e;

static void open_at(const char *database_url)
{
    const struct store_place place = { .database_url = database_url };
    ck_assert_msg(store_open(&place, &store, &e) == 0, "%s", e.text);
}

/* With all tables. */
static void set_up(void)
{
    arena = arena_new();
    open_at(postgres_server_add_database(&server, arena));
    database = arena_printf(arena, "test_%ld", (long)getpid());
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

static int put(const char *value)
{
    struct store_outcome outcome;
    const struct store_change change = { .key = "K",
                                         .raw = span_cstr(value),
                                         .expected = "*",
                                         .audit = { .actor = "tester", .action = "put", .object = "K" } };
    return store_put(store, &change, &outcome, &e);
}

static void must_put(const char *value)
{
    ck_assert_msg(put(value) == 0, "%s", e.text);
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
    return health.is_database_ok;
}

static void use_empty_database(void)
{
    database = arena_printf(arena, "empty_%ld", (long)getpid());
    postgres_server_sql(&server, "postgres", arena, arena_printf(arena, "CREATE DATABASE %s", database));
    store_close(store);
    open_at(postgres_server_url(&server, database, arena));
}

static int migrate(size_t n, struct migrate_report *report)
{
    return postgres_server_migrate(&server, database, n, NULL, report, &e);
}

START_TEST(without_its_tables_a_store_names_the_command_that_makes_them)
{
    struct migrate_report report;
    struct store_value value;
    use_empty_database();
    ck_assert_int_eq(get(&value), ERR_SYSTEM);
    expect_said("llm-routerctl migrate");
    ck_assert(!is_database_ok());
    ck_assert_int_eq(put("1"), ERR_SYSTEM);
    expect_said("llm-routerctl migrate");

    ck_assert_int_eq(migrate(1, &report), 0);
    ck_assert_int_eq(get(&value), ERR_SYSTEM);
    expect_said(arena_printf(arena, "has schema 1, %d is needed: run llm-routerctl migrate", SCHEMA_VERSION));

    ck_assert_int_eq(migrate(SCHEMA_VERSION, &report), 0);
    must_put("1");
    expect_value("1");
}
END_TEST

START_TEST(migrating_again_changes_nothing)
{
    struct migrate_report report;
    use_empty_database();
    ck_assert_msg(migrate(SCHEMA_VERSION, &report) == 0, "%s", e.text);
    ck_assert_int_eq(report.found, 0);
    ck_assert_int_eq(report.reached, SCHEMA_VERSION);
    ck_assert_int_eq(migrate(SCHEMA_VERSION, &report), 0);
    ck_assert_int_eq(report.found, SCHEMA_VERSION);
    ck_assert_int_eq(report.reached, SCHEMA_VERSION);
    ck_assert_int_eq(atoi(sql("SELECT count(*) FROM schema_migrations")), SCHEMA_VERSION);
}
END_TEST

START_TEST(a_database_of_a_newer_program_serves_this_one_and_is_not_migrated)
{
    struct migrate_report report;
    ck_assert_int_eq(migrate(1, &report), ERR_CONFLICT);
    expect_said("newer");
    sql("INSERT INTO schema_migrations (version, name) VALUES (99, 'of the future')");
    ck_assert_int_eq(migrate(SCHEMA_VERSION, &report), ERR_CONFLICT);
    expect_said("99");
    must_put("1");
    expect_value("1");
}
END_TEST

START_TEST(of_many_that_migrate_at_once_each_succeeds)
{
    enum { PROCESSES = 8 };
    pid_t pids[PROCESSES];
    use_empty_database();
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct migrate_report report;
            _exit(migrate(SCHEMA_VERSION, &report) == 0 && report.reached == SCHEMA_VERSION ? 0 : 1);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_eq(atoi(sql("SELECT count(*) FROM schema_migrations")), SCHEMA_VERSION);
    must_put("1");
}
END_TEST

START_TEST(a_migration_that_fails_leaves_nothing_of_itself_and_keeps_those_before_it)
{
    const struct migration list[] = {
        { 1, "0001_good", "CREATE TABLE good ()" },
        { 2, "0002_bad", "CREATE TABLE bad (); SELECT 1 / 0" },
    };
    struct migrate_report report;
    use_empty_database();
    const struct migrate_plan plan = { .database_url = postgres_server_url(&server, database, arena),
                                       .migrations = list,
                                       .n = 2,
                                       .said = postgres_server_say_nothing };
    ck_assert_int_eq(migrate_run(&plan, &report, &e), ERR_SYSTEM);
    expect_said("0002_bad");
    expect_said("division by zero");
    ck_assert_str_eq(sql("SELECT max(version) FROM schema_migrations"), "1");
    ck_assert_str_eq(sql("SELECT to_regclass('good') IS NOT NULL AND to_regclass('bad') IS NULL"), "t");
}
END_TEST

START_TEST(a_database_of_another_encoding_is_not_migrated)
{
    struct migrate_report report;
    database = arena_printf(arena, "latin_%ld", (long)getpid());
    postgres_server_sql(
        &server, "postgres", arena,
        arena_printf(arena, "CREATE DATABASE %s ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0", database));
    ck_assert_int_eq(migrate(SCHEMA_VERSION, &report), ERR_SYSTEM);
    expect_said("LATIN1");
}
END_TEST

static const char *const forbidden[] = {
    "UPDATE admin_audit_log SET actor = 'another'",
    "DELETE FROM admin_audit_log",
    "TRUNCATE admin_audit_log",
    "ALTER TABLE admin_audit_log DISABLE TRIGGER ALL",
    "DROP TRIGGER admin_audit_log_append_only ON admin_audit_log",
    "DROP TABLE admin_audit_log",
    "UPDATE config_kv_history SET value = ''",
    "DELETE FROM config_kv_history",
    "DELETE FROM config_kv",
    "TRUNCATE config_kv",
    "DELETE FROM schema_migrations",
    "CREATE TABLE mine ()",
    "SELECT line FROM routing_decisions",
    "UPDATE routing_decisions SET owner = ''",
    "DELETE FROM routing_decisions",
    "DELETE FROM routing_decisions_default",
    "DROP TABLE routing_decisions_default",
    "ALTER TABLE routing_decisions DISABLE TRIGGER ALL",
    "SELECT setval('routing_decisions_arrival', 1)",
};

/* SQLSTATE 42501, insufficient_privilege. */
static void expect_forbidden(const char *role, const char *statement)
{
    PGconn *conn = PQconnectdb(arena_printf(arena, "host=%s dbname=%s user=%s", server.dir, database, role));
    PGresult *result = PQexec(conn, statement);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    ck_assert_msg(state != NULL && strcmp(state, "42501") == 0, "%s: %s", statement, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

/* The request log's part: rows can be added, and old ones go. */
static void log_requests(const char *database_url)
{
    const struct span line = span_cstr("{\"id\":\"019aca3e-4d18-7abc-8def-0123456789ab\",\"time\":1}");
    struct request_log_outcome outcome;
    struct request_log_upkeep upkeep;
    struct request_log *log;
    ck_assert_int_eq(request_log_new(database_url, "/nonexistent/rejected", &log, &e), 0);
    ck_assert_msg(request_log_append(log, &line, 1, &outcome, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(outcome.n_new, 1);
    sql("DO $$ DECLARE name text; BEGIN SELECT max(relname) INTO name FROM pg_class WHERE relname LIKE "
        "'routing_decisions_20__\\___'; EXECUTE 'DROP TABLE ' || name; END $$");
    ck_assert_msg(request_log_keep_up(log, 30, &upkeep, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(upkeep.months_made, 1);
    ck_assert_uint_eq(upkeep.rows_deleted, 1);
    request_log_free(log);
}

START_TEST(the_role_of_the_programs_can_do_its_work_and_cannot_change_what_was_logged)
{
    struct migrate_report report;
    struct store_instance *list;
    struct store_version listed[2];
    struct span json;
    uint64_t stamp;
    size_t n, total;
    const char *role = arena_printf(arena, "Role of \"%s\"", database);
    postgres_server_sql(&server, "postgres", arena,
                        arena_printf(arena, "CREATE ROLE \"Role of \"\"%s\"\"\" LOGIN", database));
    ck_assert_msg(postgres_server_migrate(&server, database, SCHEMA_VERSION, role, &report, &e) == 0, "%s",
                  e.text);
    store_close(store);
    const char *address = arena_printf(arena, "host=%s dbname=%s user='%s'", server.dir, database, role);
    open_at(address);
    log_requests(address);
    must_put("1");
    must_put("2");
    expect_value("2");
    ck_assert_int_eq(store_stamp(store, &stamp, &e), 0);
    ck_assert_int_eq(store_versions(store, "K", 2, arena, listed, &n, &total, &e), 0);
    ck_assert_int_eq(store_audit_log(store, 2, arena, &json, &e), 0);
    ck_assert_int_eq(
        store_report(
            store,
            &(struct store_instance){ .id = "a", .host = "h", .version = "", .since = "", .source = "" }, &e),
        0);
    ck_assert_int_eq(store_instances(store, arena, &list, &n, &e), 0);
    for (int i = 0; i < COUNT(forbidden); i++)
        expect_forbidden(arena_printf(arena, "'%s'", role), forbidden[i]);
    ck_assert_str_eq(sql("SELECT count(*) FROM admin_audit_log"), "2");
}
END_TEST

START_TEST(not_even_the_owner_changes_the_audit_log_by_mistake)
{
    must_put("1");
    for (int i = 0; i < 3; i++)
        expect_forbidden("postgres", forbidden[i]);
}
END_TEST

START_TEST(a_role_that_is_not_there_is_said)
{
    struct migrate_report report;
    ck_assert_int_eq(postgres_server_migrate(&server, database, SCHEMA_VERSION, "no such", &report, &e),
                     ERR_NOT_FOUND);
    expect_said("no such");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("migrate");
    TCase *tests = tcase_create("migrate");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, without_its_tables_a_store_names_the_command_that_makes_them);
    tcase_add_test(tests, migrating_again_changes_nothing);
    tcase_add_test(tests, a_database_of_a_newer_program_serves_this_one_and_is_not_migrated);
    tcase_add_test(tests, of_many_that_migrate_at_once_each_succeeds);
    tcase_add_test(tests, a_migration_that_fails_leaves_nothing_of_itself_and_keeps_those_before_it);
    tcase_add_test(tests, a_database_of_another_encoding_is_not_migrated);
    tcase_add_test(tests, the_role_of_the_programs_can_do_its_work_and_cannot_change_what_was_logged);
    tcase_add_test(tests, not_even_the_owner_changes_the_audit_log_by_mistake);
    tcase_add_test(tests, a_role_that_is_not_there_is_said);
    suite_add_tcase(suite, tests);
    postgres_server_make(&server);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    postgres_server_remove(&server);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
