/* What writers of a spool share: it outlives them, and shows who lives and writes where. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/record/spool_shared.h"

enum { PATH_BYTES = 256, CHILDREN = 40 };

static char dir[PATH_BYTES], path[PATH_BYTES + 16];
static struct spool_shared shared;
static struct error e;

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%.200s/shared.XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/prog.spool", dir);
    umask(0);
    ck_assert_msg(spool_shared_open(dir, "prog", false, &shared, &e) == 0, "%s", e.text);
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    (void)place;
    return remove(name);
}

static void tear_down(void)
{
    spool_shared_close(&shared);
    ck_assert_int_eq(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* A process that has a place, names this segment, and waits. It takes up the file by itself, as a process of
 * another instance does, or has it from us. */
static pid_t start_writer(uint64_t segment, bool is_stranger)
{
    int ready[2];
    char byte;

    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (is_stranger)
            spool_shared_close(&shared);
        if (is_stranger && spool_shared_open(dir, "prog", false, &shared, &e) != 0)
            _exit(1);
        struct spool_writer *writer = spool_shared_enter(&shared);
        if (writer == NULL)
            _exit(1);
        atomic_store(&writer->segment, segment);
        (void)!write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_msg(read(ready[0], &byte, 1) == 1, "the writer has no place");
    close(ready[0]);
    return pid;
}

static void kill_writer(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(what_was_there_before_is_found_again_and_is_the_same_for_everybody)
{
    struct spool_shared again;

    atomic_store(&shared.memory->current, 17);
    ck_assert_int_eq(spool_shared_open(dir, "prog", true, &again, &e), 0);
    ck_assert_uint_eq(again.memory->current, 17);
    atomic_store(&again.memory->current, 18);
    ck_assert_uint_eq(shared.memory->current, 18);
    spool_shared_close(&again);
    ck_assert_int_eq(spool_shared_open(dir, "other", true, &again, &e), 0);
    ck_assert_uint_eq(again.memory->current, 0);
    spool_shared_close(&again);
}
END_TEST

START_TEST(all_of_it_is_there_from_the_start_and_not_for_everybody_to_read)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0640);
    ck_assert_int_ge(st.st_blocks * 512, st.st_size);
    ck_assert_int_ge(st.st_size, SPOOL_WRITERS * (off_t)sizeof(struct spool_writer));
}
END_TEST

START_TEST(a_writer_is_seen_while_it_lives_and_not_after_it_was_killed)
{
    bool is_stranger = _i != 0;

    ck_assert(!spool_shared_names(&shared, 5));
    pid_t pid = start_writer(5, is_stranger);
    ck_assert(spool_shared_names(&shared, 5));
    ck_assert(!spool_shared_names(&shared, 6));
    kill(pid, SIGSTOP);
    ck_assert_msg(spool_shared_names(&shared, 5), "one that stands still may go on");
    kill_writer(pid);
    ck_assert(!spool_shared_names(&shared, 5));
}
END_TEST

START_TEST(one_that_is_dead_and_not_waited_for_is_not_seen)
{
    pid_t pid = start_writer(5, true);
    siginfo_t info;

    kill(pid, SIGKILL);
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert(!spool_shared_names(&shared, 5));
    kill_writer(pid);
}
END_TEST

START_TEST(what_a_dead_writer_named_is_told_once_and_a_living_one_is_not_touched)
{
    pid_t dead = start_writer(5, false), living = start_writer(6, false);

    kill_writer(dead);
    ck_assert_uint_eq(spool_shared_forget(&shared, dead), 5);
    ck_assert_uint_eq(spool_shared_forget(&shared, dead), 0);
    ck_assert_uint_eq(spool_shared_forget(&shared, living), 0);
    ck_assert(spool_shared_names(&shared, 6));
    kill_writer(living);
}
END_TEST

START_TEST(each_writer_has_a_place_of_its_own_and_places_are_used_again)
{
    pid_t pids[CHILDREN];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CHILDREN; i++)
            pids[i] = start_writer((uint64_t)i + 1, i % 2 != 0);
        for (int i = 0; i < CHILDREN; i++)
            ck_assert_msg(spool_shared_names(&shared, (uint64_t)i + 1), "writer %d of round %d", i, round);
        for (int i = 0; i < CHILDREN; i++)
            kill_writer(pids[i]);
    }
}
END_TEST

/* As if so many processes lived. */
static void take_places(pid_t pid, size_t n)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    for (size_t i = 0; i < n; i++) {
        const struct spool_writer *writer = &shared.memory->writers[((size_t)pid + i) % SPOOL_WRITERS];
        lock.l_start = (const char *)writer - (const char *)shared.memory;
        lock.l_len = sizeof(*writer);
        ck_assert_int_eq(fcntl(shared.fd, F_SETLK, &lock), 0);
    }
}

START_TEST(where_places_are_taken_the_next_free_one_is_found_and_none_when_all_are)
{
    static const struct row {
        size_t taken;
        bool has_place;
    } rows[] = { { 1, true }, { 1000, true }, { SPOOL_WRITERS - 1, true }, { SPOOL_WRITERS, false } };
    const struct row *row = &rows[_i];
    int ready[2], status;
    char byte;

    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)!read(ready[0], &byte, 1);
        const struct spool_writer *writer = spool_shared_enter(&shared);
        size_t at = ((size_t)getpid() + row->taken) % SPOOL_WRITERS;
        const struct spool_writer *expected = row->has_place ? &shared.memory->writers[at] : NULL;
        _exit(writer == expected ? 0 : 1);
    }
    take_places(pid, row->taken);
    ck_assert_int_eq(write(ready[1], "x", 1), 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(status == 0, "with %zu taken", row->taken);
}
END_TEST

START_TEST(of_many_that_come_at_once_all_share_one_file)
{
    int go[2], status;
    char byte;

    spool_shared_close(&shared);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(pipe(go), 0);
    for (int i = 0; i < CHILDREN; i++) {
        if (fork() == 0) {
            close(go[1]);
            (void)!read(go[0], &byte, 1);
            if (spool_shared_open(dir, "prog", true, &shared, &e) != 0)
                _exit(1);
            atomic_fetch_add(&shared.memory->current, 1);
            _exit(0);
        }
    }
    close(go[1]);
    for (int i = 0; i < CHILDREN; i++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_msg(status == 0, "one could not open it");
    }
    ck_assert_int_eq(spool_shared_open(dir, "prog", false, &shared, &e), 0);
    ck_assert_uint_eq(shared.memory->current, CHILDREN);
}
END_TEST

static void damage_nothing(void)
{
}

static void damage_layout(void)
{
    shared.memory->layout = SPOOL_SHARED_LAYOUT + 1;
}

static void damage_magic(void)
{
    shared.memory->magic[0] = 'X';
}

static void damage_size(void)
{
    ck_assert_int_eq(truncate(path, 100), 0);
}

static void damage_size_longer(void)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(truncate(path, st.st_size + 1), 0);
}

static void damage_before_it_is_filled(void)
{
    shared.memory->magic[0] = '\0'; /* who made it was killed */
}

static void damage_to_link(void)
{
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
}

static const struct damage {
    const char *what;
    void (*make)(void);
    int expected;
} damages[] = {
    { "nothing", damage_nothing, 0 },
    { "another layout", damage_layout, ERR_FORMAT },
    { "no magic", damage_magic, ERR_FORMAT },
    { "too short", damage_size, ERR_FORMAT },
    { "too long", damage_size_longer, ERR_FORMAT },
    { "not filled", damage_before_it_is_filled, 0 },
    { "a link", damage_to_link, ERR_SYSTEM },
};

START_TEST(what_is_not_understood_is_said_and_made_anew_by_who_may)
{
    const struct damage *row = &damages[_i];
    struct spool_shared again;

    row->make();
    int r = spool_shared_open(dir, "prog", false, &again, &e);
    ck_assert_msg(r == row->expected, "%s: %d", row->what, r);
    ck_assert_msg(r == 0 || strstr(e.text, path) != NULL, "%s: %s", row->what, e.text);
    if (r == 0)
        spool_shared_close(&again);
    ck_assert_msg(spool_shared_open(dir, "prog", true, &again, &e) == 0, "%s: %s", row->what, e.text);
    ck_assert_uint_eq(again.memory->layout, SPOOL_SHARED_LAYOUT);
    spool_shared_close(&again);
}
END_TEST

/* Check reports through a file too, so no assertion may fail while the bound is in force. */
START_TEST(without_room_for_all_of_it_nothing_is_left_and_it_is_made_when_there_is)
{
    struct rlimit limit;
    struct stat st;

    spool_shared_close(&shared);
    ck_assert_int_eq(unlink(path), 0);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &limit);
    int r = spool_shared_open(dir, "prog", true, &shared, &e);
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_int_eq(r, ERR_SYSTEM);
    ck_assert_msg(strstr(e.text, path) != NULL, "%s", e.text);
    ck_assert(stat(path, &st) != 0 || st.st_size == 0);
    ck_assert_msg(spool_shared_open(dir, "prog", false, &shared, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(shared.memory->layout, SPOOL_SHARED_LAYOUT);
}
END_TEST

START_TEST(where_no_file_can_be_children_are_seen_until_they_leave)
{
    spool_shared_close(&shared);
    ck_assert_int_eq(spool_shared_open("/nonexistent", "prog", true, &shared, &e), ERR_SYSTEM);
    ck_assert_msg(strstr(e.text, "/nonexistent/prog.spool") != NULL, "%s", e.text);
    shared = spool_shared_alone();
    pid_t pid = start_writer(5, false);
    struct spool_writer *mine = spool_shared_enter(&shared);
    atomic_store(&mine->segment, 6);
    ck_assert(spool_shared_names(&shared, 5) && spool_shared_names(&shared, 6));
    spool_shared_leave(&shared, mine);
    kill_writer(pid);
    ck_assert_uint_eq(spool_shared_forget(&shared, pid), 5);
    ck_assert(!spool_shared_names(&shared, 5) && !spool_shared_names(&shared, 6));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spool_shared");
    TCase *tcase = tcase_create("spool_shared");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_was_there_before_is_found_again_and_is_the_same_for_everybody);
    tcase_add_test(tcase, all_of_it_is_there_from_the_start_and_not_for_everybody_to_read);
    tcase_add_loop_test(tcase, a_writer_is_seen_while_it_lives_and_not_after_it_was_killed, 0, 2);
    tcase_add_test(tcase, one_that_is_dead_and_not_waited_for_is_not_seen);
    tcase_add_test(tcase, what_a_dead_writer_named_is_told_once_and_a_living_one_is_not_touched);
    tcase_add_test(tcase, each_writer_has_a_place_of_its_own_and_places_are_used_again);
    tcase_add_loop_test(tcase, where_places_are_taken_the_next_free_one_is_found_and_none_when_all_are, 0, 4);
    tcase_add_test(tcase, of_many_that_come_at_once_all_share_one_file);
    tcase_add_loop_test(tcase, what_is_not_understood_is_said_and_made_anew_by_who_may, 0,
                        sizeof(damages) / sizeof(damages[0]));
    tcase_add_test(tcase, without_room_for_all_of_it_nothing_is_left_and_it_is_made_when_there_is);
    tcase_add_test(tcase, where_no_file_can_be_children_are_seen_until_they_leave);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
