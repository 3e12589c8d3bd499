#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "fcgi/engine/mapping.h"
#include "fcgi/engine/pidfile.h"

enum { N_WORKERS = 3 };

static struct arena *arena;
static char dir[64];
static struct error e;
static struct mapping *mapping;

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_mapping.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    mapping = NULL;
    int r = mapping_create(dir, "prog", N_WORKERS, &mapping, &e);
    ck_assert_msg(r == 0, "%s", e.text);
}

static void tear_down(void)
{
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static const char *path(void)
{
    return arena_printf(arena, "%s/prog.map", dir);
}

/* As another program maps it. */
static const struct mapping *map_read_only(void)
{
    struct stat st;
    int fd = open(path(), O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    const struct mapping *m = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert(m != MAP_FAILED);
    close(fd);
    return m;
}

START_TEST(a_new_mapping_says_what_it_is_and_is_otherwise_empty)
{
    uint64_t now = clock_wall_us();
    ck_assert_int_eq(memcmp(mapping->magic, "LLMRMAP", 8), 0);
    ck_assert_uint_eq(mapping->layout, MAPPING_LAYOUT);
    ck_assert_uint_eq(mapping->n_records, N_WORKERS);
    ck_assert_str_eq(mapping->program, "prog");
    ck_assert_uint_eq(strlen(mapping->instance), 36);
    ck_assert(mapping->started_wall_us <= now && now - mapping->started_wall_us < 60 * US_PER_S);
    ck_assert_uint_eq(mapping->generation, 0);
    ck_assert_uint_eq(mapping->keeper.checked_us, 0);
    ck_assert_uint_eq(mapping->accepted, 0);
    ck_assert_uint_eq(scoreboard_alive(mapping), 0);
    for (unsigned i = 0; i < N_WORKERS; i++) {
        ck_assert_int_eq(mapping->workers[i].pid, 0);
        ck_assert_uint_eq(mapping->workers[i].stage, STAGE_FREE);
        ck_assert_uint_eq(mapping->workers[i].request.started_us, 0);
    }
}
END_TEST

START_TEST(the_file_is_whole_and_not_for_everybody)
{
    struct stat st;
    ck_assert_int_eq(stat(path(), &st), 0);
    ck_assert_uint_eq((size_t)st.st_size,
                      sizeof(struct mapping) + N_WORKERS * sizeof(struct scoreboard_record));
    ck_assert_msg(st.st_blocks * 512 >= st.st_size, "it has holes, which a full disk turns into SIGBUS");
    ck_assert_int_eq(st.st_mode & 0007, 0);
}
END_TEST

START_TEST(records_do_not_share_cache_lines)
{
    ck_assert_uint_eq((uintptr_t)&mapping->workers[0] % 64, 0);
    ck_assert_uint_eq(sizeof(struct scoreboard_record) % 64, 0);
    ck_assert_uint_eq((uintptr_t)&mapping->generation % 64, 0);
    ck_assert_uint_eq((uintptr_t)&mapping->accepted % 64, 0);
}
END_TEST

START_TEST(what_a_child_writes_others_see)
{
    const struct mapping *view = map_read_only();
    int status;

    pid_t child = fork();
    if (child == 0) {
        atomic_store(&mapping->workers[1].pid, getpid());
        scoreboard_enter(&mapping->workers[1], STAGE_STREAMING);
        atomic_fetch_add(&mapping->accepted, 5);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(view->workers[1].pid, child);
    ck_assert_uint_eq(view->workers[1].stage, STAGE_STREAMING);
    ck_assert_uint_eq(view->accepted, 5);
    ck_assert_uint_eq(scoreboard_alive(view), 1);
}
END_TEST

START_TEST(a_generation_in_force_comes_with_its_tree)
{
    struct tree_in_force tree;

    ck_assert_uint_eq(mapping_in_force(mapping, &tree), 0);
    ck_assert_str_eq(tree.version, "");
    for (uint64_t generation = 1; generation <= 5; generation++) {
        struct tree_in_force put = { .since_us = 1000 + generation, .source = RELOAD_RECONNECT };
        snprintf(put.version, sizeof(put.version), "v%llu", (unsigned long long)generation);
        mapping_put_in_force(mapping, generation, &put);
        ck_assert_uint_eq(mapping_in_force(mapping, &tree), generation);
        ck_assert_str_eq(tree.version, put.version);
        ck_assert_uint_eq(tree.since_us, put.since_us);
        ck_assert_uint_eq(tree.source, put.source);
    }
}
END_TEST

/* The keeper may be killed between any two lines. */
START_TEST(a_tree_that_was_not_put_in_force_is_not_seen)
{
    struct tree_in_force tree, put = { .version = "in force" }, next = { .version = "half" };

    mapping_put_in_force(mapping, 7, &put);
    mapping->keeper.trees[8 % 2] = next;
    ck_assert_uint_eq(mapping_in_force(mapping, &tree), 7);
    ck_assert_str_eq(tree.version, "in force");
}
END_TEST

START_TEST(a_reader_beside_the_keeper_sees_no_tree_of_another_generation)
{
    pid_t keeper = fork();
    int status;

    if (keeper == 0) {
        for (uint64_t generation = 1; generation <= 2000000; generation++) {
            struct tree_in_force put = { .since_us = generation };
            memset(put.version, (int)('a' + generation % 26), sizeof(put.version) - 1);
            mapping_put_in_force(mapping, generation, &put);
        }
        _exit(0);
    }
    for (uint64_t generation = 0; generation < 2000000;) {
        struct tree_in_force tree;
        generation = mapping_in_force(mapping, &tree);
        ck_assert_uint_eq(tree.since_us, generation);
        for (size_t i = 0; generation > 0 && i < sizeof(tree.version) - 1; i++)
            ck_assert_int_eq(tree.version[i], (int)('a' + generation % 26));
    }
    ck_assert_int_eq(waitpid(keeper, &status, 0), keeper);
}
END_TEST

START_TEST(only_living_workers_with_the_generation_in_force_are_current)
{
    mapping->generation = 4;
    mapping->workers[0].pid = 100;
    mapping->workers[0].generation = 4;
    mapping->workers[1].pid = 101;
    mapping->workers[1].generation = 3;
    mapping->workers[2].generation = 4; /* of one that has died */
    ck_assert_uint_eq(scoreboard_alive(mapping), 2);
    ck_assert_uint_eq(scoreboard_current(mapping), 1);
}
END_TEST

START_TEST(each_source_has_a_name)
{
    static const char *const names[RELOAD_SOURCES] = { "ttl", "file", "pubsub", "reconnect", "signal" };
    for (uint32_t i = 0; i < RELOAD_SOURCES; i++)
        ck_assert_str_eq(reload_source_name(i), names[i]);
    ck_assert_str_eq(reload_source_name(RELOAD_SOURCES), "unknown");
}
END_TEST

START_TEST(a_stage_has_the_time_it_was_entered)
{
    struct scoreboard_record *record = &mapping->workers[2];
    uint64_t before = clock_monotonic_us();
    scoreboard_enter(record, STAGE_WAITING);
    uint64_t after = clock_monotonic_us();
    ck_assert_uint_eq(record->stage, STAGE_WAITING);
    ck_assert(before <= record->since_us && record->since_us <= after);
}
END_TEST

START_TEST(a_request_in_hand_begins_blank_and_is_gone_when_it_ends)
{
    struct scoreboard_record *record = &mapping->workers[2];
    uint64_t before = clock_monotonic_us(), wall_before = clock_wall_us();
    strcpy(record->request.request_id, "the one before");
    strcpy(record->request.model, "its model");
    record->request.upstream = 4096;
    scoreboard_begin_request(record);
    ck_assert_uint_ge(record->request.started_us, before);
    ck_assert_uint_ge(record->request.time_us, wall_before);
    ck_assert_str_eq(record->request.request_id, "");
    ck_assert_str_eq(record->request.model, "");
    ck_assert_uint_eq(record->request.upstream, 0);
    scoreboard_end_request(record);
    ck_assert_uint_eq(record->request.started_us, 0);
}
END_TEST

START_TEST(bodies_of_all_workers_together_stay_within_the_bound)
{
    struct scoreboard_record *w = mapping->workers;
    ck_assert(scoreboard_reserve_body(mapping, &w[0], 60, 100));
    ck_assert(!scoreboard_reserve_body(mapping, &w[1], 41, 100));
    ck_assert_uint_eq(w[1].body_bytes, 0);
    ck_assert(scoreboard_reserve_body(mapping, &w[1], 40, 100));
    ck_assert(!scoreboard_reserve_body(mapping, &w[2], 1, 100));
    scoreboard_release_body(&w[0]);
    ck_assert(scoreboard_reserve_body(mapping, &w[2], 60, 100));
}
END_TEST

START_TEST(only_workers_with_a_process_are_alive)
{
    for (unsigned i = 0; i < N_WORKERS; i++) {
        ck_assert_uint_eq(scoreboard_alive(mapping), i);
        atomic_store(&mapping->workers[i].pid, 100 + (int)i);
    }
    ck_assert_uint_eq(scoreboard_alive(mapping), N_WORKERS);
}
END_TEST

START_TEST(a_new_run_gets_a_new_mapping_and_the_old_one_stays_usable)
{
    struct mapping *next = NULL;

    scoreboard_enter(&mapping->workers[0], STAGE_STREAMING);
    ck_assert_int_eq(mapping_create(dir, "prog", N_WORKERS + 1, &next, &e), 0);
    ck_assert_uint_eq(next->workers[0].stage, STAGE_FREE);
    ck_assert_str_ne(next->instance, mapping->instance);
    scoreboard_enter(&mapping->workers[0], STAGE_IDLE); /* by a worker that outlived its master */
    ck_assert_uint_eq(next->workers[0].stage, STAGE_FREE);
    ck_assert_uint_eq(map_read_only()->n_records, N_WORKERS + 1);
}
END_TEST

START_TEST(a_link_in_its_place_is_not_followed)
{
    const char *victim = arena_printf(arena, "%s/victim", dir);
    struct mapping *next = NULL;
    struct stat st;

    close(open(victim, O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(unlink(path()), 0);
    ck_assert_int_eq(symlink(victim, path()), 0);
    ck_assert_int_eq(mapping_create(dir, "prog", N_WORKERS, &next, &e), 0);
    ck_assert_int_eq(stat(victim, &st), 0);
    ck_assert_int_eq(st.st_size, 0);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_said)
{
    struct mapping *next = NULL;
    ck_assert_int_eq(mapping_create("/nowhere/at/all", "prog", 1, &next, &e), ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(e.text, "/nowhere/at/all/prog.map"));
    ck_assert_ptr_null(next);
}
END_TEST

/* --- another program's view ---------------------------------------------------- */

/* A master, as far as other programs can tell; it ends with us. */
static void start_master(void)
{
    int ready[2], fd;
    char byte;

    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (pidfile_take(dir, "prog", &fd, &e) == 0 && write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    ck_assert_msg(read(ready[0], &byte, 1) == 1, "there is no master");
    close(ready[0]);
}

START_TEST(a_running_instance_can_be_mapped_and_counted_in)
{
    struct mapping *view = NULL;

    start_master();
    int r = mapping_open(dir, "prog", &view, &e);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert_str_eq(view->instance, mapping->instance);
    ck_assert_uint_eq(view->n_records, N_WORKERS);
    scoreboard_enter(&mapping->workers[N_WORKERS - 1], STAGE_WAITING);
    ck_assert_uint_eq(view->workers[N_WORKERS - 1].stage, STAGE_WAITING);
    atomic_store(&view->accepted, 9);
    ck_assert_uint_eq(mapping->accepted, 9);
}
END_TEST

START_TEST(one_who_only_looks_sees_the_same_and_cannot_write)
{
    const struct mapping *view = NULL;

    ck_assert_int_eq(mapping_view(dir, "prog", &view, &e), ERR_NOT_FOUND);
    ck_assert_ptr_null(view);
    start_master();
    ck_assert_int_eq(chmod(path(), 0440), 0);
    int r = mapping_view(dir, "prog", &view, &e);
    ck_assert_msg(r == 0, "%s", e.text);
    scoreboard_enter(&mapping->workers[0], STAGE_STREAMING);
    ck_assert_uint_eq(view->workers[0].stage, STAGE_STREAMING);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_DUMPABLE, 0);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's stays silent */
        ((struct mapping *)(uintptr_t)view)->waiting = 1;
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %x", (unsigned)status);
    mapping_close(view);
}
END_TEST

START_TEST(what_a_dead_instance_left_is_not_mapped)
{
    struct mapping *view = NULL;
    ck_assert_int_eq(mapping_open(dir, "prog", &view, &e), ERR_NOT_FOUND);
    ck_assert_ptr_null(view);
    start_master();
    ck_assert_int_eq(mapping_open(dir, "other", &view, &e), ERR_NOT_FOUND);
    ck_assert_int_eq(unlink(path()), 0);
    ck_assert_int_eq(mapping_open(dir, "prog", &view, &e), ERR_NOT_FOUND);
    ck_assert_ptr_null(view);
}
END_TEST

static void cut_to_nothing(void)
{
    ck_assert_int_eq(truncate(path(), 0), 0);
}

static void cut_the_head(void)
{
    ck_assert_int_eq(truncate(path(), (off_t)sizeof(struct mapping) - 1), 0);
}

static void cut_the_last_record(void)
{
    ck_assert_int_eq(
        truncate(path(), (off_t)(sizeof(struct mapping) + N_WORKERS * sizeof(struct scoreboard_record) - 1)),
        0);
}

static void claim_more_workers(void)
{
    mapping->n_records = UINT32_MAX;
}

static void change_magic(void)
{
    mapping->magic[7] = '2';
}

static void change_layout(void)
{
    mapping->layout = MAPPING_LAYOUT + 1;
}

static const struct damage_row {
    const char *what;
    void (*damage)(void);
} damage_rows[] = {
    { "an empty file", cut_to_nothing },     { "a cut head", cut_the_head },
    { "a cut record", cut_the_last_record }, { "workers that are not there", claim_more_workers },
    { "another magic", change_magic },       { "another layout", change_layout },
};

enum { N_DAMAGES = sizeof(damage_rows) / sizeof(damage_rows[0]) };

START_TEST(a_mapping_that_is_not_understood_is_refused)
{
    const struct damage_row *row = &damage_rows[_i];
    struct mapping *view = NULL;

    start_master();
    row->damage();
    int r = mapping_open(dir, "prog", &view, &e);
    ck_assert_msg(r == ERR_FORMAT && view == NULL, "%s: %s", row->what, err_name(r));
    ck_assert_ptr_nonnull(strstr(e.text, path()));
}
END_TEST

START_TEST(a_successor_adopts_what_it_understands_and_has_room_in)
{
    struct mapping *own = NULL;

    mapping->accepted = 77; /* no lock of the pid file is looked at: it is our own */
    ck_assert_int_eq(mapping_adopt(dir, "prog", N_WORKERS, &own, &e), 0);
    ck_assert_uint_eq(own->accepted, 77);
    ck_assert_str_eq(own->instance, mapping->instance);
    mapping_close(own);
    own = NULL;
    ck_assert_int_eq(mapping_adopt(dir, "prog", N_WORKERS + 1, &own, &e), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(e.text, "prog.map has 3 records, 4 are needed"));
    mapping->layout++;
    ck_assert_int_eq(mapping_adopt(dir, "prog", N_WORKERS, &own, &e), ERR_FORMAT);
    ck_assert_int_eq(mapping_adopt(dir, "none", 1, &own, &e), ERR_NOT_FOUND);
    ck_assert_ptr_null(own);
}
END_TEST

enum { MODEL = 4711 << 1 };

START_TEST(a_model_has_its_share_of_workers_and_no_more)
{
    struct scoreboard_record *workers = mapping->workers;

    ck_assert(scoreboard_take_share(mapping, &workers[0], MODEL, 2));
    ck_assert(scoreboard_take_share(mapping, &workers[1], MODEL, 2));
    ck_assert(!scoreboard_take_share(mapping, &workers[2], MODEL, 2));
    ck_assert_uint_eq(workers[2].share, 0);                               /* a refusal leaves nothing */
    ck_assert(scoreboard_take_share(mapping, &workers[2], MODEL + 2, 1)); /* another model's */
    scoreboard_release_share(&workers[2]);
    scoreboard_release_share(&workers[0]);
    ck_assert(scoreboard_take_share(mapping, &workers[2], MODEL, 2));
}
END_TEST

/* Children that ask for it again and again: how many have it is counted outside of it. */
static void contend(struct scoreboard_record *record, _Atomic int *having, _Atomic int *most,
                    _Atomic int *taken)
{
    for (int i = 0; i < 3000; i++) {
        if (!scoreboard_take_share(mapping, record, MODEL, 2))
            continue;
        int n = atomic_fetch_add(having, 1) + 1, before = atomic_load(most);
        while (n > before && !atomic_compare_exchange_weak(most, &before, n))
            continue;
        atomic_fetch_add(taken, 1);
        atomic_fetch_sub(having, 1);
        scoreboard_release_share(record);
    }
    _exit(0);
}

START_TEST(who_asks_at_the_same_time_gets_what_there_is)
{
    _Atomic int *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    for (int i = 0; i < N_WORKERS; i++) {
        if (fork() == 0)
            contend(&mapping->workers[i], &counts[0], &counts[1], &counts[2]);
    }
    for (int i = 0; i < N_WORKERS; i++)
        wait(NULL);
    ck_assert_int_le(counts[1], 2);
    ck_assert_int_ge(counts[2], 3000); /* three that contend for two are not all refused */
    munmap(counts, 4096);
}
END_TEST

START_TEST(one_who_is_alone_has_a_mapping_of_one_worker)
{
    struct mapping *own = mapping_alone("prog", 1);

    ck_assert_str_eq(own->program, "prog");
    ck_assert_uint_eq(strlen(own->instance), 36);
    ck_assert_uint_eq(own->n_records, 1);
    ck_assert_uint_eq(own->layout, MAPPING_LAYOUT);
    ck_assert_uint_eq(own->generation, 0);
    ck_assert_uint_eq((uintptr_t)&own->workers[0] % _Alignof(struct scoreboard_record), 0);
    scoreboard_begin_request(&own->workers[0]);
    ck_assert(scoreboard_reserve_body(own, &own->workers[0], 10, 10));
    ck_assert(!scoreboard_reserve_body(own, &own->workers[0], 11, 10));
    ck_assert_str_ne(own->instance, mapping->instance);
    ck_assert_uint_eq(mapping->workers[0].request.started_us, 0);
    mapping_close(own);
}
END_TEST

START_TEST(every_stage_has_a_name_of_its_own)
{
    for (int i = STAGE_FREE; i <= STAGE_FINISHING; i++) {
        ck_assert_uint_gt(strlen(stage_name((enum stage)i)), 0);
        for (int k = STAGE_FREE; k < i; k++)
            ck_assert_str_ne(stage_name((enum stage)i), stage_name((enum stage)k));
    }
    ck_assert_str_eq(stage_name((enum stage)(STAGE_FINISHING + 1)), "unknown"); /* of a newer program */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mapping");
    TCase *tcase = tcase_create("mapping");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_new_mapping_says_what_it_is_and_is_otherwise_empty);
    tcase_add_test(tcase, the_file_is_whole_and_not_for_everybody);
    tcase_add_test(tcase, records_do_not_share_cache_lines);
    tcase_add_test(tcase, what_a_child_writes_others_see);
    tcase_add_test(tcase, a_generation_in_force_comes_with_its_tree);
    tcase_add_test(tcase, a_tree_that_was_not_put_in_force_is_not_seen);
    tcase_add_test(tcase, a_reader_beside_the_keeper_sees_no_tree_of_another_generation);
    tcase_add_test(tcase, only_living_workers_with_the_generation_in_force_are_current);
    tcase_add_test(tcase, each_source_has_a_name);
    tcase_add_test(tcase, a_stage_has_the_time_it_was_entered);
    tcase_add_test(tcase, a_request_in_hand_begins_blank_and_is_gone_when_it_ends);
    tcase_add_test(tcase, bodies_of_all_workers_together_stay_within_the_bound);
    tcase_add_test(tcase, only_workers_with_a_process_are_alive);
    tcase_add_test(tcase, a_new_run_gets_a_new_mapping_and_the_old_one_stays_usable);
    tcase_add_test(tcase, a_link_in_its_place_is_not_followed);
    tcase_add_test(tcase, a_folder_that_is_not_there_is_said);
    tcase_add_test(tcase, a_running_instance_can_be_mapped_and_counted_in);
    tcase_add_test(tcase, one_who_only_looks_sees_the_same_and_cannot_write);
    tcase_add_test(tcase, what_a_dead_instance_left_is_not_mapped);
    tcase_add_loop_test(tcase, a_mapping_that_is_not_understood_is_refused, 0, N_DAMAGES);
    tcase_add_test(tcase, a_successor_adopts_what_it_understands_and_has_room_in);
    tcase_add_test(tcase, a_model_has_its_share_of_workers_and_no_more);
    tcase_add_test(tcase, who_asks_at_the_same_time_gets_what_there_is);
    tcase_add_test(tcase, one_who_is_alone_has_a_mapping_of_one_worker);
    tcase_add_test(tcase, every_stage_has_a_name_of_its_own);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
