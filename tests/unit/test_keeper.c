/*
 * The keeper, as a process of its own on a store that does what the test says, also
 * what no real one does when it is watched: change in the middle of a read.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/store/store_ops.h"
#include "fcgi/engine/child.h"
#include "fcgi/router.h"

static const char tree[] = "{\"llm\":{\"models\":{}},\"tts\":{\"models\":{}}}";

/* What the store does, and what became of it. */
static struct shared {
    _Atomic unsigned version;        /* of the tree in it, and its stamp; 0: it has none */
    _Atomic unsigned callers;        /* the same of CALLER_KEYS */
    _Atomic int news;                /* to be heard next */
    _Atomic int changes;             /* reads during which the tree changes and news comes */
    _Atomic bool is_down, is_broken; /* no call is answered; the tree in it is not valid */
    _Atomic bool has_database;
    _Atomic bool is_held; /* a read does not return */
    _Atomic pid_t keeper;
    _Atomic int reads, reports;
    _Atomic unsigned reported_current;
    char reported[64]; /* version, source */
} * script;

static struct arena *arena;
static char dir[64];
static struct mapping *mapping;
static int alarm_fd; /* readable: there is something to hear */
static pid_t keeper;

/* --- the store ------------------------------------------------------------------- */

static void sleep_ms(unsigned ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
    nanosleep(&t, NULL);
}

static int answer(struct error *e)
{
    return script->is_down ? error_set(e, ERR_SYSTEM, "away on purpose") : 0;
}

static void ring(enum store_news news)
{
    script->news = (int)news;
    ck_assert_int_eq(eventfd_write(alarm_fd, 1), 0);
}

static int get_all(struct store *store, const char *const *keys, size_t n, struct arena *memory,
                   struct store_value *out, struct error *e)
{
    (void)store;
    script->reads++;
    while (script->is_held)
        sleep_ms(2);
    for (size_t i = 0; i < n; i++) {
        unsigned version = strcmp(keys[i], "LLM_ROUTER_CONFIG") == 0 ? script->version
                           : strcmp(keys[i], "CALLER_KEYS") == 0     ? script->callers
                                                                     : 0;
        const char *text = strcmp(keys[i], "CALLER_KEYS") == 0 ? "{\"keys\":[]}" : tree;
        out[i] = (struct store_value){ .version = "" };
        if (version > 0) {
            out[i].raw = span_cstr(arena_strdup(memory, script->is_broken ? "{" : text));
            snprintf(out[i].version, sizeof(out[i].version), "v%u", version);
        }
    }
    if (script->changes > 0) { /* after we have looked, and before we are back */
        script->changes--;
        script->version++;
        ring(STORE_NEWS_PUBSUB);
    }
    return answer(e);
}

static int stamp(struct store *store, uint64_t *out, struct error *e)
{
    (void)store;
    *out = script->version + 1000 * script->callers;
    return answer(e);
}

static int watch_fd(struct store *store)
{
    (void)store;
    return alarm_fd;
}

static enum store_news hear(struct store *store)
{
    eventfd_t ignored;
    (void)store;
    eventfd_read(alarm_fd, &ignored);
    return (enum store_news)atomic_exchange(&script->news, STORE_NEWS_NONE);
}

static void health(const struct store *store, struct store_health *out)
{
    (void)store;
    out->has_database = script->has_database;
    out->is_database_ok = !script->is_down;
}

static int report(struct store *store, const struct store_instance *self, struct error *e)
{
    (void)store;
    snprintf(script->reported, sizeof(script->reported), "%s %s", self->version, self->source);
    script->reported_current = self->workers_current;
    script->reports++;
    return answer(e);
}

static const struct store_ops ops = {
    .get_all = get_all,
    .stamp = stamp,
    .watch_fd = watch_fd,
    .listen = hear,
    .health = health,
    .report = report,
};

/* --- harness ------------------------------------------------------------------------ */

static void set_up(void)
{
    struct error e = { 0 };
    arena = arena_new();
    strcpy(dir, "/tmp/test_keeper.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    script = mmap(NULL, sizeof(*script), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(script != MAP_FAILED);
    ck_assert_msg(mapping_create(dir, "llm-router", 2, &mapping, &e) == 0, "%s", e.text);
    alarm_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    script->version = 1;
    script->has_database = true;
    keeper = 0;
}

static void start(void)
{
    static const struct router_settings settings = { .state_dir = "/nonexistent" };
    static const struct router_shared shared = { .settings = &settings };
    struct engine_settings engine = { .run_dir = dir };
    struct engine_process process = { .settings = &engine, .mapping = mapping, .master = getpid() };
    struct store store = { .ops = &ops };

    keeper = fork();
    if (keeper != 0) {
        script->keeper = keeper;
        return;
    }
    int log = open(arena_printf(arena, "%s/log", dir), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDERR_FILENO);
    child_begin(&process, NULL, NULL);
    keeper_serve(&process, &shared, &store);
    _exit(0);
}

static void tear_down(void)
{
    int status = 0;
    if (keeper > 0) {
        kill(keeper, SIGTERM);
        ck_assert_int_eq(waitpid(keeper, &status, 0), keeper);
        ck_assert_int_eq(status, 0);
    }
    close(alarm_fd);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

/* What is in force: its version, "" for none. */
static const char *version_in_force(void)
{
    static struct tree_in_force in_force;
    mapping_in_force(mapping, &in_force);
    return in_force.version;
}

static const char *source_in_force(void)
{
    struct tree_in_force in_force;
    mapping_in_force(mapping, &in_force);
    return reload_source_name(in_force.source);
}

static void expect_generation(uint64_t generation, const char *version, unsigned within_ms)
{
    uint64_t ends_us = clock_monotonic_us() + within_ms * US_PER_MS;
    while (mapping->generation < generation && clock_monotonic_us() < ends_us)
        sleep_ms(2);
    ck_assert_uint_eq(mapping->generation, generation);
    ck_assert_str_eq(version_in_force(), version);
}

/* At least one look is over. */
static void wait_for_a_look(void)
{
    sleep_ms(1300);
}

static const char *log_text(void)
{
    struct span raw;
    struct error e;
    return file_read(arena_printf(arena, "%s/log", dir), 1 << 20, arena, &raw, &e) == 0 ? raw.ptr : "";
}

/* --- tests --------------------------------------------------------------------------- */

START_TEST(what_is_read_while_it_changes_is_read_again_and_never_published)
{
    script->changes = 1;
    start();
    expect_generation(1, "v2", 2000);
    ck_assert_int_eq(script->reads, 2);
    ck_assert_str_eq(source_in_force(), "pubsub");
}
END_TEST

START_TEST(news_that_never_ends_does_not_keep_changes_from_being_published)
{
    script->changes = 5;
    start();
    expect_generation(2, "v6", 2000);
    ck_assert_int_eq(script->reads, 6); /* three and three */
    wait_for_a_look();
    ck_assert_uint_eq(mapping->generation, 2);
}
END_TEST

static const struct heard_row {
    enum store_news news;
    enum reload_source source;
} heard_rows[] = {
    { STORE_NEWS_FILE, RELOAD_FILE },
    { STORE_NEWS_PUBSUB, RELOAD_PUBSUB },
    { STORE_NEWS_RECONNECT, RELOAD_RECONNECT },
};

START_TEST(a_change_that_is_told_of_is_in_force_at_once_and_counted_by_what_told_of_it)
{
    const struct heard_row *row = &heard_rows[_i];
    start();
    expect_generation(1, "v1", 2000);
    ck_assert_str_eq(source_in_force(), "ttl");
    script->version = 2;
    ring(row->news);
    expect_generation(2, "v2", 300);
    ck_assert_str_eq(source_in_force(), reload_source_name(row->source));
    sleep_ms(20); /* it is counted right after */
    for (unsigned i = 0; i < RELOAD_SOURCES; i++)
        ck_assert_uint_eq(telemetry_get(&mapping->telemetry, METRIC_CONFIG_RELOAD, i),
                          i == RELOAD_TTL || i == (unsigned)row->source ? 1 : 0);
}
END_TEST

START_TEST(a_change_that_nobody_tells_of_is_found_within_two_seconds)
{
    start();
    expect_generation(1, "v1", 2000);
    script->version = 2;
    expect_generation(2, "v2", 2000);
    ck_assert_str_eq(source_in_force(), "ttl");
}
END_TEST

START_TEST(news_without_a_change_costs_a_look_and_changes_nothing)
{
    start();
    expect_generation(1, "v1", 2000);
    for (int i = 0; i < 20; i++) {
        ring(STORE_NEWS_PUBSUB);
        sleep_ms(5);
    }
    ck_assert_uint_eq(mapping->generation, 1);
    ck_assert_int_eq(script->reads, 1);
}
END_TEST

START_TEST(another_entry_comes_into_force_and_the_tree_stays_since_when_it_came)
{
    struct tree_in_force before, after;
    start();
    expect_generation(1, "v1", 2000);
    mapping_in_force(mapping, &before);
    script->callers = 1;
    ring(STORE_NEWS_PUBSUB);
    expect_generation(2, "v1", 300);
    mapping_in_force(mapping, &after);
    ck_assert_uint_eq(after.since_us, before.since_us);
    ck_assert_str_eq(source_in_force(), "ttl");
}
END_TEST

START_TEST(a_hangup_publishes_what_is_there_again)
{
    start();
    expect_generation(1, "v1", 2000);
    kill(keeper, SIGHUP);
    expect_generation(2, "v1", 300);
    sleep_ms(20);
    ck_assert_uint_eq(telemetry_get(&mapping->telemetry, METRIC_CONFIG_RELOAD, RELOAD_SIGNAL), 1);
}
END_TEST

static uint64_t expect_followed(uint64_t since_us)
{
    uint64_t ends_us = clock_monotonic_us() + 5 * US_PER_S;
    while (mapping->keeper.followed_us < since_us) {
        ck_assert_msg(clock_monotonic_us() < ends_us, "followed at %lu, expected at %lu or later",
                      (unsigned long)mapping->keeper.followed_us, (unsigned long)since_us);
        sleep_ms(2);
    }
    return mapping->keeper.followed_us;
}

START_TEST(a_hangup_is_followed_when_what_is_there_is_in_force_or_cannot_be_read)
{
    uint64_t hangup_us = clock_monotonic_us();
    start();
    uint64_t followed_us = expect_followed(hangup_us); /* by the first look */
    ck_assert_uint_eq(mapping->generation, 1);
    wait_for_a_look();
    ck_assert_uint_eq(mapping->keeper.followed_us, followed_us); /* not by another look */

    script->version = 2;
    hangup_us = clock_monotonic_us();
    kill(keeper, SIGHUP);
    expect_followed(hangup_us);
    ck_assert_str_eq(version_in_force(), "v2");

    script->is_down = true;
    script->version = 3;
    hangup_us = clock_monotonic_us();
    kill(keeper, SIGHUP);
    expect_followed(hangup_us);
    ck_assert_str_eq(version_in_force(), "v2");
}
END_TEST

START_TEST(while_the_store_is_away_the_last_configuration_stays_in_force)
{
    start();
    expect_generation(1, "v1", 2000);
    script->is_down = true;
    script->version = 2;
    wait_for_a_look();
    ck_assert_uint_eq(mapping->generation, 1);
    ck_assert_uint_eq(mapping->keeper.is_store_ok, 0);
    ck_assert_uint_eq(mapping->keeper.is_database_ok, 0);
    ck_assert_uint_lt(clock_monotonic_us() - mapping->keeper.checked_us, 1200 * US_PER_MS);
    wait_for_a_look();
    script->is_down = false;
    expect_generation(2, "v2", 2000);
    ck_assert_uint_eq(mapping->keeper.is_store_ok, 1);
    const char *told = strstr(log_text(), "\"store_unreadable\"");
    ck_assert_msg(told != NULL && strstr(told + 1, "\"store_unreadable\"") == NULL, "once: %s", log_text());
    ck_assert_ptr_nonnull(strstr(told, "\"store_readable\""));
}
END_TEST

START_TEST(a_store_that_was_away_and_has_the_same_values_changes_nothing)
{
    start();
    expect_generation(1, "v1", 2000);
    script->is_down = true;
    wait_for_a_look();
    script->is_down = false;
    wait_for_a_look();
    ck_assert_uint_eq(mapping->keeper.is_store_ok, 1);
    ck_assert_uint_eq(mapping->generation, 1);
}
END_TEST

START_TEST(a_start_without_a_store_heals)
{
    script->is_down = true;
    start();
    wait_for_a_look();
    ck_assert_uint_eq(mapping->generation, 0);
    script->is_down = false;
    expect_generation(1, "v1", 2000);
}
END_TEST

START_TEST(a_refused_configuration_is_told_once_and_forgotten_with_the_next)
{
    start();
    expect_generation(1, "v1", 2000);
    script->is_broken = true;
    script->version = 2;
    ring(STORE_NEWS_PUBSUB);
    wait_for_a_look();
    ck_assert_uint_eq(mapping->generation, 1);
    ck_assert_uint_eq(mapping->keeper.is_refused, 1);
    ck_assert_uint_eq(telemetry_get(&mapping->telemetry, METRIC_CONFIG_REFUSALS, 0), 1);
    script->is_broken = false;
    script->version = 1; /* put back as it was: it is in force already */
    ring(STORE_NEWS_PUBSUB);
    sleep_ms(100);
    ck_assert_uint_eq(mapping->keeper.is_refused, 0);
    ck_assert_uint_eq(mapping->generation, 1);
}
END_TEST

static void expect_reported(const char *wanted, unsigned within_ms)
{
    uint64_t ends_us = clock_monotonic_us() + within_ms * US_PER_MS;
    while (strcmp(script->reported, wanted) != 0 && clock_monotonic_us() < ends_us)
        sleep_ms(2);
    ck_assert_str_eq(script->reported, wanted);
}

START_TEST(the_instance_reports_what_is_in_force_when_that_changes_and_every_five_seconds)
{
    start();
    expect_generation(1, "v1", 2000);
    expect_reported("v1 ttl", 300);
    script->version = 2;
    ring(STORE_NEWS_PUBSUB);
    expect_reported("v2 pubsub", 300);
    ck_assert_uint_eq(script->reported_current, 0);
    mapping->workers[0].generation = 2; /* a worker, for what the keeper can see */
    mapping->workers[0].pid = keeper;
    sleep_ms(2500);
    ck_assert_uint_eq(script->reported_current, 1);
    int reports = script->reports;
    ck_assert_int_le(reports, 4);
    sleep_ms(4000);
    ck_assert_int_eq(script->reports, reports + 1);
}
END_TEST

START_TEST(a_store_without_rows_is_not_asked_for_them)
{
    script->has_database = false;
    start();
    expect_generation(1, "v1", 2000);
    wait_for_a_look();
    ck_assert_int_eq(script->reports, 0);
}
END_TEST

static const char *snapshot(uint64_t generation)
{
    return arena_printf(arena, "%s/snapshot.%llu", dir, (unsigned long long)generation);
}

START_TEST(a_file_that_somebody_has_removed_is_written_again)
{
    start();
    expect_generation(1, "v1", 2000);
    ck_assert_int_eq(unlink(snapshot(1)), 0);
    expect_generation(2, "v1", 5000);
    ck_assert_int_eq(access(snapshot(2), F_OK), 0);
    wait_for_a_look();
    ck_assert_uint_eq(mapping->generation, 2);
}
END_TEST

/* The run directory may be another instance's when it is back from the store. */
START_TEST(a_keeper_whose_master_has_died_meanwhile_publishes_nothing)
{
    int status;

    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t master = fork();
    if (master == 0) {
        start();
        pause();
    }
    expect_generation(1, "v1", 2000);
    script->is_held = true;
    script->version = 2;
    ring(STORE_NEWS_PUBSUB);
    while (script->reads < 2)
        sleep_ms(2);
    kill(master, SIGKILL);
    ck_assert_int_eq(waitpid(master, &status, 0), master);
    script->is_held = false;
    ck_assert_int_eq(waitpid(script->keeper, &status, 0), script->keeper);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(mapping->generation, 1);
    ck_assert_int_eq(access(snapshot(1), F_OK), 0);
    ck_assert_int_eq(access(snapshot(2), F_OK), -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("keeper");
    TCase *tests = tcase_create("keeper");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, what_is_read_while_it_changes_is_read_again_and_never_published);
    tcase_add_test(tests, news_that_never_ends_does_not_keep_changes_from_being_published);
    tcase_add_loop_test(tests, a_change_that_is_told_of_is_in_force_at_once_and_counted_by_what_told_of_it, 0,
                        sizeof(heard_rows) / sizeof(heard_rows[0]));
    tcase_add_test(tests, a_change_that_nobody_tells_of_is_found_within_two_seconds);
    tcase_add_test(tests, news_without_a_change_costs_a_look_and_changes_nothing);
    tcase_add_test(tests, another_entry_comes_into_force_and_the_tree_stays_since_when_it_came);
    tcase_add_test(tests, a_hangup_publishes_what_is_there_again);
    tcase_add_test(tests, a_hangup_is_followed_when_what_is_there_is_in_force_or_cannot_be_read);
    tcase_add_test(tests, while_the_store_is_away_the_last_configuration_stays_in_force);
    tcase_add_test(tests, a_store_that_was_away_and_has_the_same_values_changes_nothing);
    tcase_add_test(tests, a_start_without_a_store_heals);
    tcase_add_test(tests, a_refused_configuration_is_told_once_and_forgotten_with_the_next);
    tcase_add_test(tests, the_instance_reports_what_is_in_force_when_that_changes_and_every_five_seconds);
    tcase_add_test(tests, a_store_without_rows_is_not_asked_for_them);
    tcase_add_test(tests, a_file_that_somebody_has_removed_is_written_again);
    tcase_add_test(tests, a_keeper_whose_master_has_died_meanwhile_publishes_nothing);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
