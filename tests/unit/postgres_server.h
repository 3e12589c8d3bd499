/*
 * A Postgres of the test's own, on a unix socket in a temporary directory, with the
 * tables of sql/ in the database "template" that others are made from. It is started by the
 * program's main and outlives the processes that Check makes of each test; it ends when
 * main does, whatever the reason.
 */
#ifndef TESTS_UNIT_POSTGRES_SERVER_H
#define TESTS_UNIT_POSTGRES_SERVER_H

#include <check.h>
#include <postgresql/libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/store/migrate.h"

struct postgres_server {
    pid_t pid;
    char dir[64];
};

static inline _Noreturn void postgres_server_die(const char *why)
{
    fprintf(stderr, "the private Postgres: %s\n", why);
    exit(EXIT_FAILURE);
}

/* The address of one of its databases. */
static inline const char *postgres_server_url(const struct postgres_server *server, const char *database,
                                              struct arena *arena)
{
    return arena_printf(arena, "postgresql:///%s?host=%s&user=postgres", database, server->dir);
}

/* Starts it, or starts it again on what it has. */
static inline void postgres_server_start(struct postgres_server *server)
{
    struct arena *arena = arena_new();
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGINT);
        (void)!freopen(arena_printf(arena, "%s.log", server->dir), "a", stderr);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl("tools/private-postgres", "private-postgres", server->dir, "-c", "fsync=off", "-c",
              "max_connections=200", NULL);
        _exit(127);
    }
    const char *url = postgres_server_url(server, "postgres", arena);
    for (int tries = 0; PQping(url) != PQPING_OK; tries++) {
        if (tries == 600 || waitpid(server->pid, NULL, WNOHANG) != 0)
            postgres_server_die(arena_printf(arena, "did not start; see %s.log", server->dir));
        usleep(50000);
    }
    arena_free(arena);
}

/* Ends it at once, whoever is connected. */
static inline void postgres_server_end(struct postgres_server *server)
{
    kill(server->pid, SIGINT);
    waitpid(server->pid, NULL, 0);
}

/* Runs SQL, as the superuser; the first field of the result in the arena, or NULL. */
static inline const char *postgres_server_sql(const struct postgres_server *server, const char *database,
                                              struct arena *arena, const char *sql)
{
    PGconn *conn = PQconnectdb(postgres_server_url(server, database, arena));
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        postgres_server_die(PQerrorMessage(conn));
    const char *field = PQntuples(result) > 0 ? arena_strdup(arena, PQgetvalue(result, 0, 0)) : NULL;
    PQclear(result);
    PQfinish(conn);
    return field;
}

static inline void postgres_server_say_nothing(void *ctx, const struct migration *applied)
{
    (void)ctx;
    (void)applied;
}

/* The first n migrations, in a database. */
static inline int postgres_server_migrate(const struct postgres_server *server, const char *database,
                                          size_t n, const char *role, struct migrate_report *report,
                                          struct error *e)
{
    struct arena *arena = arena_new();
    const struct migrate_plan plan = { .database_url = postgres_server_url(server, database, arena),
                                       .migrations = migrations,
                                       .n = n,
                                       .role = role,
                                       .said = postgres_server_say_nothing };
    int r = migrate_run(&plan, report, e);
    arena_free(arena);
    return r;
}

/* Before any test. */
static inline void postgres_server_make(struct postgres_server *server)
{
    struct arena *arena = arena_new();
    struct migrate_report report;
    struct error e;
    strcpy(server->dir, "/tmp/test_postgres.XXXXXX");
    if (mkdtemp(server->dir) == NULL)
        postgres_server_die("no temporary directory");
    postgres_server_start(server);
    postgres_server_sql(server, "postgres", arena, "CREATE DATABASE template");
    if (postgres_server_migrate(server, "template", SCHEMA_VERSION, NULL, &report, &e) != 0)
        postgres_server_die(e.text);
    arena_free(arena);
}

static inline void postgres_server_remove(struct postgres_server *server)
{
    char command[200];
    postgres_server_end(server);
    snprintf(command, sizeof(command), "rm -rf %s %s.log", server->dir, server->dir);
    if (system(command) != 0)
        postgres_server_die("cannot be removed");
}

/* A database of the test's own, with the tables and nothing in them; its address. */
static inline const char *postgres_server_add_database(const struct postgres_server *server,
                                                       struct arena *arena)
{
    const char *name = arena_printf(arena, "test_%ld", (long)getpid());
    postgres_server_sql(server, "postgres", arena,
                        arena_printf(arena, "CREATE DATABASE %s TEMPLATE template", name));
    return postgres_server_url(server, name, arena);
}

#endif
