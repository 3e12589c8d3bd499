/* The spool: what stands in its segments, also when a writer died, the disk was full, or many write at once.
 */
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
#include <time.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/record/spool.h"

#define SEGMENT "prog.00000001.jsonl"

enum { PATH_BYTES = 256, FILE_LIMIT_BYTES = 1 << 30 };

enum { WRITERS = 4 };

static char state_dir[PATH_BYTES], segment[PATH_BYTES];
static struct arena *arena;
static struct error e;
static struct spool_plan plan;
static struct spool_memory *memory; /* of it */

static bool is_anything_named(void)
{
    for (int i = 0; i < SPOOL_WRITERS; i++) {
        if (atomic_load(&memory->writers[i].segment) != 0)
            return true;
    }
    return false;
}

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(state_dir, sizeof(state_dir), "%.200s/spool.XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(state_dir));
    snprintf(segment, sizeof(segment), "%.200s/spool/" SEGMENT, state_dir);
    plan = (struct spool_plan){ .state_dir = state_dir, .program = "prog", .max_bytes = (uint64_t)1 << 30 };
    ck_assert_msg(spool_shared_open(state_dir, "prog", false, &plan.shared, &e) == 0, "%s", e.text);
    memory = plan.shared.memory;
    arena = arena_new();
    umask(0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    (void)place;
    return remove(path);
}

static void tear_down(void)
{
    arena_free(arena);
    spool_shared_close(&plan.shared);
    ck_assert_int_eq(nftw(state_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static struct spool opened(void)
{
    struct spool spool;
    ck_assert_msg(spool_open(&plan, &spool, &e) == 0, "%s", e.text);
    return spool;
}

static void append(struct spool *spool, const char *line)
{
    ck_assert_int_eq(spool_append(spool, span_cstr(line)), 0);
}

static struct span content(void)
{
    struct span bytes;
    ck_assert_msg(file_read(segment, FILE_LIMIT_BYTES, arena, &bytes, &e) == 0, "%s", e.text);
    return bytes;
}

static void expect_content(const char *expected)
{
    struct span bytes = content();
    ck_assert_msg(span_is(bytes, expected), "found:\n%.*s\nexpected:\n%s", (int)bytes.len, bytes.ptr,
                  expected);
}

/* The next line that is not empty, as the shipper reads; false at the end. */
static bool next_record(struct span *rest, struct span *record)
{
    while (rest->len > 0) {
        const char *end = memchr(rest->ptr, '\n', rest->len);
        size_t len = end == NULL ? rest->len : (size_t)(end - rest->ptr);
        *record = span_of(rest->ptr, len);
        *rest = end == NULL ? span_of(NULL, 0) : span_of(end + 1, rest->len - len - 1);
        if (len > 0)
            return true;
    }
    return false;
}

START_TEST(one_process_claims_a_spool_and_its_end_frees_it)
{
    ck_assert_msg(spool_claim(&plan, &e) == 0, "%s", e.text);
    pid_t other = fork();
    if (other == 0)
        _exit(spool_claim(&plan, &e) == ERR_CONFLICT && strstr(e.text, state_dir) != NULL ? 0 : 1);
    int status;
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert_msg(status == 0, "the other was not refused with the folder's name");

    struct spool_plan elsewhere = plan;
    elsewhere.program = "another";
    other = fork();
    if (other == 0)
        _exit(spool_claim(&elsewhere, &e) == 0 ? 0 : 1);
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert_msg(status == 0, "a program's claim is another program's");
    ck_assert_msg(spool_claim(&elsewhere, &e) == 0, "a process that has ended holds its claim: %s", e.text);
}
END_TEST

START_TEST(a_record_stands_between_two_line_feeds)
{
    struct spool spool = opened();
    append(&spool, "{\"a\":1}");
    append(&spool, "{\"b\":2}");
    expect_content("\n{\"a\":1}\n\n{\"b\":2}\n");
    ck_assert_uint_eq(spool.appended, 2);
    ck_assert_uint_eq(spool.dropped, 0);
    spool_close(&spool);
}
END_TEST

START_TEST(a_segment_that_exists_is_continued)
{
    struct spool spool = opened();
    append(&spool, "first");
    spool_close(&spool);
    spool = opened();
    append(&spool, "second");
    spool_close(&spool);
    expect_content("\nfirst\n\nsecond\n");
}
END_TEST

START_TEST(the_spool_is_not_for_everybody_to_read)
{
    struct stat st;
    struct spool spool = opened();
    ck_assert_int_eq(stat(segment, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0640);
    segment[strlen(segment) - strlen("/" SEGMENT)] = '\0';
    ck_assert_int_eq(stat(segment, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0750);
    spool_close(&spool);
}
END_TEST

START_TEST(a_torn_predecessor_spoils_nobody)
{
    struct span rest, record;
    struct spool spool = opened();
    append(&spool, "whole");
    ck_assert_int_eq(file_write_all(spool.fd, "\n{\"torn", 7), 0);
    append(&spool, "next");
    spool_close(&spool);
    rest = content();
    ck_assert(next_record(&rest, &record) && span_is(record, "whole"));
    ck_assert(next_record(&rest, &record) && span_is(record, "{\"torn"));
    ck_assert(next_record(&rest, &record) && span_is(record, "next"));
    ck_assert(!next_record(&rest, &record));
}
END_TEST

/* --- no room --- */

/* The file's size is bounded as a disk's is: a write that reaches the bound is cut
 * there, the next one fails. Check reports through a file too, so no assertion
 * may fail while the bound is in force. */
static void bound_files(rlim_t bytes)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(on_a_full_disk_records_are_lost_and_counted_and_later_ones_are_whole)
{
    int results[2], causes[2];
    struct rlimit before;
    struct span rest, record;
    struct spool spool = opened();
    append(&spool, "0123456789");
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    bound_files(20);
    for (int i = 0; i < 2; i++) {
        results[i] = spool_append(&spool, span_cstr("abcdefghijklmnop"));
        causes[i] = errno;
    }
    bound_files(before.rlim_cur);

    ck_assert_int_eq(results[0], ERR_SYSTEM); /* cut */
    ck_assert_int_eq(causes[0], ENOSPC);
    ck_assert_int_eq(results[1], ERR_SYSTEM); /* nothing written */
    ck_assert_int_eq(causes[1], EFBIG);
    ck_assert_uint_eq(spool.dropped, 2);
    append(&spool, "there is room again");
    ck_assert_uint_eq(spool.appended, 2);
    ck_assert_uint_eq(spool.dropped, 2);
    spool_close(&spool);
    rest = content();
    ck_assert(next_record(&rest, &record) && span_is(record, "0123456789"));
    ck_assert(next_record(&rest, &record) && span_is(record, "abcdefg"));
    ck_assert(next_record(&rest, &record) && span_is(record, "there is room again"));
    ck_assert(!next_record(&rest, &record));
}
END_TEST

START_TEST(a_spool_that_cannot_be_opened_drops_and_counts_until_it_can)
{
    char in_a_file[PATH_BYTES + 8];
    struct spool spool;
    snprintf(in_a_file, sizeof(in_a_file), "%s/file", state_dir);
    FILE *file = fopen(in_a_file, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    plan.state_dir = in_a_file;
    ck_assert_int_eq(spool_open(&plan, &spool, &e), ERR_SYSTEM);
    ck_assert_msg(strstr(e.text, in_a_file) != NULL, "%s", e.text);
    ck_assert_int_eq(spool.fd, -1);
    ck_assert_int_eq(spool_append(&spool, span_cstr("lost")), ERR_SYSTEM);
    ck_assert_int_eq(errno, ENOTDIR);
    ck_assert_uint_eq(spool.dropped, 1);
    ck_assert(!is_anything_named());
    ck_assert_int_eq(unlink(in_a_file), 0);
    append(&spool, "kept");
    ck_assert_uint_eq(spool.appended, 1);
    ck_assert_uint_eq(spool.dropped, 1);
    spool_close(&spool);
}
END_TEST

START_TEST(a_symbolic_link_in_the_segments_place_is_not_followed)
{
    char target[PATH_BYTES + 8];
    struct spool spool = opened();
    spool_close(&spool);
    snprintf(target, sizeof(target), "%s/target", state_dir);
    ck_assert_int_eq(unlink(segment), 0);
    ck_assert_int_eq(symlink(target, segment), 0);
    ck_assert_int_eq(spool_open(&plan, &spool, &e), ERR_SYSTEM);
    ck_assert_int_eq(access(target, F_OK), -1);
    spool_close(&spool);
}
END_TEST

START_TEST(a_path_too_long_is_refused_before_anything_is_made)
{
    char long_dir[5000];
    struct spool spool;
    size_t len = strlen(state_dir);
    memcpy(long_dir, state_dir, len);
    for (size_t i = len; i < sizeof(long_dir); i++)
        long_dir[i] = (i - len) % 100 == 0 ? '/' : 'x';
    long_dir[sizeof(long_dir) - 1] = '\0';
    plan.state_dir = long_dir;
    ck_assert_int_eq(spool_open(&plan, &spool, &e), ERR_LIMIT);
    ck_assert_int_eq(spool.fd, -1);
    ck_assert_int_eq(spool_append(&spool, span_cstr("lost")), ERR_SYSTEM);
    ck_assert_int_eq(errno, ENAMETOOLONG);
    spool_close(&spool);
    ck_assert_int_eq(unlink(arena_printf(arena, "%s/prog.spool", state_dir)), 0);
    ck_assert_int_eq(rmdir(state_dir), 0); /* there is nothing else */
    ck_assert_int_eq(mkdir(state_dir, 0700), 0);
}
END_TEST

/* --- segments --- */

enum { SMALL_BYTES = 512 * 1024, SMALL_SEGMENT_BYTES = 64 * 1024 };

static const char *segment_path(uint64_t number)
{
    return arena_printf(arena, "%s/spool/prog.%08llu.jsonl", state_dir, (unsigned long long)number);
}

static bool has_segment(uint64_t number)
{
    return access(segment_path(number), F_OK) == 0;
}

static uint64_t bytes_on_disk(void)
{
    uint64_t total = 0;
    for (uint64_t n = 1; n <= memory->current + 1; n++) {
        struct stat st;
        if (stat(segment_path(n), &st) == 0)
            total += (uint64_t)st.st_size;
    }
    return total;
}

static void write_segment(uint64_t number, size_t bytes)
{
    ck_assert_int_eq(file_make_dirs(arena_printf(arena, "%s/spool", state_dir), 0750, &e), 0);
    FILE *file = fopen(segment_path(number), "w");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < bytes; i++)
        fputc(i % 100 == 99 ? '\n' : 'x', file);
    ck_assert_int_eq(fclose(file), 0);
}

/* Appends records of 1 KiB until the current segment is another one. */
static void fill_segment(struct spool *spool)
{
    static char text[1022];
    uint64_t before = memory->current;
    memset(text, 'f', sizeof(text));
    for (int i = 0; memory->current == before; i++) {
        ck_assert_int_eq(spool_append(spool, span_of(text, sizeof(text))), 0);
        ck_assert_msg(i <= SMALL_SEGMENT_BYTES / 1024, "the segment is never full");
    }
}

/* A process that is stopped in the middle of its append to this segment. */
static pid_t start_append(uint64_t number)
{
    int ready[2];
    char byte;

    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct spool_writer *writer = spool_shared_enter(&plan.shared);
        atomic_store(&writer->segment, number);
        (void)!write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end_append(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static const struct size_row {
    uint64_t max_bytes, segment_bytes;
} sizes[] = {
    { 0, 65536 },
    { 524288, 65536 },
    { 524296, 65537 },
    { (uint64_t)1 << 30, 67108864 },
    { (uint64_t)1 << 29, 67108864 },
    { ((uint64_t)1 << 29) - 8, 67108863 },
    { UINT64_MAX, 67108864 },
};

START_TEST(a_segment_has_an_eighth_of_all_within_its_own_bounds)
{
    const struct size_row *row = &sizes[_i];
    uint64_t found = spool_segment_bytes(row->max_bytes);
    ck_assert_msg(found == row->segment_bytes, "of %llu: %llu, expected %llu",
                  (unsigned long long)row->max_bytes, (unsigned long long)found,
                  (unsigned long long)row->segment_bytes);
}
END_TEST

START_TEST(a_full_segment_is_followed_by_the_next_and_the_oldest_goes)
{
    plan.max_bytes = SMALL_BYTES;
    struct spool spool = opened();
    for (uint64_t i = 1; i <= 20; i++) {
        ck_assert_uint_eq(memory->current, i);
        fill_segment(&spool);
        ck_assert_uint_le(bytes_on_disk(), SMALL_BYTES);
        ck_assert(!is_anything_named());
    }
    append(&spool, "the newest");
    for (uint64_t i = 1; i <= 21; i++)
        ck_assert_msg(has_segment(i) == (i > 21 - 8), "segment %llu of 21", (unsigned long long)i);
    ck_assert_uint_eq(spool.dropped, 0);
    spool_close(&spool);
}
END_TEST

static const struct start_row {
    const char *what;
    uint64_t numbers[4];
    const char *stranger;
    uint64_t expected;
} starts[] = {
    { "an empty folder", { 0 }, NULL, 1 },
    { "one segment", { 7 }, NULL, 7 },
    { "several", { 3, 9, 4 }, NULL, 9 },
    { "more than eight digits", { 123456789, 99999999 }, NULL, 123456789 },
    { "another program's", { 2 }, "other.00000009.jsonl", 2 },
    { "a longer name of another program", { 2 }, "prog-admin.00000009.jsonl", 2 },
    { "too few digits", { 2 }, "prog.0000009.jsonl", 2 },
    { "too many digits", { 2 }, "prog.0000000000000000009.jsonl", 2 },
    { "no digits", { 2 }, "prog.0000000x.jsonl", 2 },
    { "another ending", { 2 }, "prog.00000009.jsonl.gz", 2 },
};

START_TEST(the_highest_segment_on_disk_is_continued)
{
    const struct start_row *row = &starts[_i];
    for (int i = 0; i < 4 && row->numbers[i] != 0; i++)
        write_segment(row->numbers[i], 10);
    if (row->stranger != NULL) {
        int fd = open(arena_printf(arena, "%s/spool/%s", state_dir, row->stranger), O_CREAT | O_WRONLY, 0600);
        ck_assert_int_ge(fd, 0);
        close(fd);
    }
    struct spool spool = opened();
    ck_assert_msg(memory->current == row->expected, "%s: %llu, expected %llu", row->what,
                  (unsigned long long)memory->current, (unsigned long long)row->expected);
    append(&spool, "more");
    struct stat st;
    ck_assert_int_eq(stat(segment_path(row->expected), &st), 0);
    ck_assert_msg(st.st_size == (row->numbers[0] != 0 ? 10 : 0) + 6, "%s: it was not appended to", row->what);
    spool_close(&spool);
}
END_TEST

START_TEST(a_bound_that_was_lowered_holds_from_the_start)
{
    for (uint64_t n = 1; n <= 12; n++)
        write_segment(n, SMALL_SEGMENT_BYTES);
    plan.max_bytes = SMALL_BYTES;
    struct spool spool = opened();
    ck_assert_uint_le(bytes_on_disk(), SMALL_BYTES);
    ck_assert(has_segment(12) && !has_segment(5));
    spool_close(&spool);
}
END_TEST

START_TEST(the_current_segment_stays_however_large_it_is)
{
    write_segment(3, 2 * SMALL_BYTES);
    plan.max_bytes = SMALL_BYTES;
    struct spool spool = opened();
    ck_assert(has_segment(3));
    append(&spool, "the last of it"); /* full: the next one is current now */
    ck_assert_uint_eq(memory->current, 4);
    ck_assert(!has_segment(3));
    spool_close(&spool);
}
END_TEST

START_TEST(a_segment_that_a_process_is_writing_to_is_not_removed)
{
    plan.max_bytes = SMALL_BYTES;
    struct spool spool = opened();
    fill_segment(&spool);
    pid_t stopped = start_append(2);
    for (int i = 0; i < 20; i++)
        fill_segment(&spool);
    ck_assert(!has_segment(1));
    ck_assert(has_segment(2));
    ck_assert(!has_segment(3));
    ck_assert_uint_le(bytes_on_disk(), SMALL_BYTES);
    end_append(stopped);
    fill_segment(&spool);
    ck_assert(!has_segment(2));
    spool_close(&spool);
}
END_TEST

START_TEST(the_bytes_of_a_removed_segment_are_given_back_though_an_idle_writer_has_it_open)
{
    struct spool idle;
    struct stat st;
    plan.max_bytes = SMALL_BYTES;
    struct spool spool = opened();
    ck_assert_int_eq(spool_open(&plan, &idle, &e), 0); /* as if by another process */
    for (int i = 0; i < 10; i++)
        fill_segment(&spool);
    ck_assert_int_eq(fstat(idle.fd, &st), 0);
    ck_assert_uint_eq(st.st_nlink, 0);
    ck_assert_int_eq(st.st_blocks, 0);
    append(&idle, "where the others are");
    ck_assert_uint_eq(idle.segment, memory->current);
    spool_close(&idle);
    spool_close(&spool);
}
END_TEST

START_TEST(a_folder_that_is_removed_is_made_again)
{
    struct spool spool = opened();
    append(&spool, "gone with the folder");
    ck_assert_int_eq(system(arena_printf(arena, "rm -r %s/spool", state_dir)), 0);
    append(&spool, "in the new one");
    append(&spool, "and another");
    expect_content("\nin the new one\n\nand another\n");
    ck_assert_uint_eq(spool.dropped, 0);
    spool_close(&spool);
}
END_TEST

START_TEST(a_segment_that_is_removed_is_made_again)
{
    struct spool spool = opened();
    append(&spool, "gone");
    ck_assert_int_eq(unlink(segment), 0);
    append(&spool, "kept");
    expect_content("\nkept\n");
    spool_close(&spool);
}
END_TEST

START_TEST(a_writer_that_was_killed_after_it_ended_a_segment_is_replaced_by_any_other)
{
    plan.max_bytes = SMALL_BYTES;
    struct spool spool = opened();
    for (int i = 0; i < 12; i++) {
        fill_segment(&spool);
        /* As if it had been killed after making the next one current: neither that
         * file nor any removal is there. */
        write_segment(memory->current - 1, 2 * SMALL_SEGMENT_BYTES);
    }
    fill_segment(&spool);
    ck_assert_uint_le(bytes_on_disk(), SMALL_BYTES);
    spool_close(&spool);
}
END_TEST

/* --- one instance after the other --- */

/* As another master takes it up. */
static void begin_instance(bool is_read)
{
    spool_shared_close(&plan.shared);
    ck_assert_msg(spool_shared_open(state_dir, "prog", true, &plan.shared, &e) == 0, "%s", e.text);
    memory = plan.shared.memory;
    spool_resume(&plan, is_read);
}

static const struct resume_row {
    const char *what;
    uint64_t current, on_disk, expected;
} resumptions[] = {
    { "a first start", 0, 0, 1 },
    { "a start after a boot", 0, 7, 7 },
    { "a start after a start", 7, 7, 7 },
    { "segments that were put there meanwhile", 7, 9, 9 },
    { "segments that were removed meanwhile", 7, 2, 7 },
};

START_TEST(an_instance_goes_on_where_the_one_before_and_what_is_on_disk_end)
{
    const struct resume_row *row = &resumptions[_i];
    if (row->on_disk != 0)
        write_segment(row->on_disk, 10);
    atomic_store(&memory->current, row->current);
    begin_instance(false);
    ck_assert_msg(memory->current == row->expected, "%s: %llu, expected %llu", row->what,
                  (unsigned long long)memory->current, (unsigned long long)row->expected);
}
END_TEST

START_TEST(an_instance_that_begins_says_whether_the_spool_is_read_and_has_room)
{
    plan.max_bytes = SMALL_BYTES;
    for (uint64_t n = 1; n <= 12; n++)
        write_segment(n, SMALL_SEGMENT_BYTES);
    begin_instance(true);
    ck_assert(spool_is_read(&plan) && memory->is_full != 0);
    ck_assert(has_segment(1));
    begin_instance(false);
    ck_assert(!spool_is_read(&plan));
    ck_assert_uint_le(bytes_on_disk(), SMALL_BYTES);
}
END_TEST

/* Appends when a byte comes. */
static pid_t start_late_writer(int go[2])
{
    int ready[2];
    char byte;

    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct spool spool;
        close(go[1]);
        bool is_open = spool_open(&plan, &spool, NULL) == 0 && spool_append(&spool, span_cstr("early")) == 0;
        (void)!write(ready[1], "x", 1);
        (void)!read(go[0], &byte, 1);
        _exit(is_open && spool_append(&spool, span_cstr("late")) == 0 ? 0 : 1);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    return pid;
}

START_TEST(who_outlives_its_instance_appends_to_the_segment_of_the_next)
{
    int go[2], status;
    struct span rest, record, last = span_of("", 0);

    plan.max_bytes = SMALL_BYTES;
    pid_t pid = start_late_writer(go);
    begin_instance(false);
    struct spool spool = opened();
    for (int i = 0; i < 20; i++)
        fill_segment(&spool);
    ck_assert(!has_segment(1));
    ck_assert_int_eq(write(go[1], "x", 1), 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert(!has_segment(1));
    ck_assert_int_eq(file_read(segment_path(memory->current), FILE_LIMIT_BYTES, arena, &rest, &e), 0);
    while (next_record(&rest, &record))
        last = record;
    ck_assert_msg(span_is(last, "late"), "the last one is %.*s", (int)last.len, last.ptr);
    spool_close(&spool);
}
END_TEST

START_TEST(what_one_that_outlives_its_instance_is_writing_to_stays_until_it_is_killed)
{
    plan.max_bytes = SMALL_BYTES;
    struct spool before = opened();
    pid_t stopped = start_append(1);
    spool_close(&before);
    begin_instance(false);
    struct spool spool = opened();
    for (int i = 0; i < 20; i++)
        fill_segment(&spool);
    ck_assert(has_segment(1));
    end_append(stopped); /* and nobody clears what it has left */
    fill_segment(&spool);
    ck_assert(!has_segment(1));
    spool_close(&spool);
}
END_TEST

/* --- many writers --- */

enum { RECORDS = 300, RECORD_BYTES_MAX = 64 * 1024 };

/* "writer number xxxx…", of a length that depends on both. */
static struct span record_of(int writer, int number, char *text)
{
    size_t len = 20 + (size_t)((number * 7919 + writer * 104729) % (RECORD_BYTES_MAX - 20));
    memset(text, 'a' + writer, len);
    int n = snprintf(text, 20, "%d %d ", writer, number);
    text[n] = 'a' + (char)writer;
    return span_of(text, len);
}

static int write_records(int writer, uint64_t max_bytes)
{
    static char text[RECORD_BYTES_MAX];
    struct spool_plan own = plan;
    struct spool spool;
    own.max_bytes = max_bytes;
    if (spool_open(&own, &spool, NULL) != 0)
        return 1;
    for (int i = 0; i < RECORDS; i++) {
        if (spool_append(&spool, record_of(writer, i, text)) != 0)
            return 1;
    }
    spool_close(&spool);
    return 0;
}

static void write_by_all(uint64_t max_bytes)
{
    pid_t children[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        children[w] = fork();
        ck_assert_int_ge(children[w], 0);
        if (children[w] == 0)
            _exit(write_records(w, max_bytes));
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        ck_assert_int_eq(waitpid(children[w], &status, 0), children[w]);
        ck_assert_int_eq(status, 0);
    }
}

/* Reads what is left, and counts each writer's records. Where nothing is removed, they begin
 * with the first; else a writer's first is any, and again behind a hole: a segment that
 * another one is still writing to outlives younger ones. From there on its records follow
 * each other. A segment ends at any record, so two writers may be a record apart in it: each
 * writer's own order is what holds. */
static void read_all(bool is_all_there, int next[WRITERS])
{
    static char text[RECORD_BYTES_MAX];
    for (int w = 0; w < WRITERS; w++)
        next[w] = is_all_there ? 0 : -1;
    for (uint64_t n = 1; n <= memory->current; n++) {
        struct span rest, record;
        if (!has_segment(n)) {
            ck_assert(!is_all_there ||
                      n == memory->current); /* the last was full, and nothing came after it */
            for (int w = 0; w < WRITERS && !is_all_there && n < memory->current; w++)
                next[w] = -1;
            continue;
        }
        ck_assert_int_eq(file_read(segment_path(n), FILE_LIMIT_BYTES, arena, &rest, &e), 0);
        while (next_record(&rest, &record)) {
            int writer = record.ptr[0] - '0';
            ck_assert_msg(writer >= 0 && writer < WRITERS, "a record begins with %.20s", record.ptr);
            if (next[writer] < 0)
                next[writer] = atoi(record.ptr + 2);
            ck_assert_msg(span_eq(record, record_of(writer, next[writer]++, text)), "segment %llu: %.20s",
                          (unsigned long long)n, record.ptr);
        }
    }
}

START_TEST(records_of_many_writers_do_not_mix)
{
    int next[WRITERS];
    write_by_all((uint64_t)1 << 30);
    ck_assert_uint_eq(memory->current, 1);
    read_all(true, next);
    for (int w = 0; w < WRITERS; w++)
        ck_assert_int_eq(next[w], RECORDS);
}
END_TEST

START_TEST(many_writers_lose_and_repeat_nothing_over_many_segments)
{
    int next[WRITERS];
    write_by_all((uint64_t)64 << 20); /* room for all; segments of 8 MiB */
    ck_assert_uint_ge(memory->current, 4);
    read_all(true, next);
    for (int w = 0; w < WRITERS; w++)
        ck_assert_int_eq(next[w], RECORDS);
}
END_TEST

START_TEST(writers_that_are_killed_spoil_nothing_of_the_others)
{
    static char text[RECORD_BYTES_MAX];
    int next[WRITERS] = { 0 }, ended = 0;
    pid_t children[WRITERS];

    for (int w = 0; w < WRITERS; w++) {
        children[w] = fork();
        if (children[w] == 0)
            _exit(write_records(w, (uint64_t)128 << 20));
    }
    /* The last one is killed again and again while the others write. */
    for (unsigned i = 0; ended < WRITERS - 1; i++) {
        struct timespec a_moment = { .tv_nsec = (long)(i * 7919 % 3000) * 1000 };
        nanosleep(&a_moment, NULL);
        kill(children[WRITERS - 1], SIGKILL);
        ck_assert_int_eq(waitpid(children[WRITERS - 1], NULL, 0), children[WRITERS - 1]);
        spool_shared_forget(&plan.shared, children[WRITERS - 1]); /* as the master does */
        ck_assert(!has_segment(8));                               /* all is still there */
        for (int w = 0; w < WRITERS - 1; w++) {
            int status;
            if (children[w] == 0 || waitpid(children[w], &status, WNOHANG) != children[w])
                continue;
            ck_assert_int_eq(status, 0);
            children[w] = 0;
            ended++;
        }
        children[WRITERS - 1] = fork();
        if (children[WRITERS - 1] == 0)
            _exit(write_records(WRITERS - 1, (uint64_t)128 << 20));
    }
    kill(children[WRITERS - 1], SIGKILL);
    waitpid(children[WRITERS - 1], NULL, 0);
    for (uint64_t n = 1; n <= memory->current; n++) {
        struct span rest, record;
        if (!has_segment(n))
            continue;
        ck_assert_int_eq(file_read(segment_path(n), FILE_LIMIT_BYTES, arena, &rest, &e), 0);
        while (next_record(&rest, &record)) {
            int w = record.ptr[0] - '0';
            if (w < WRITERS - 1)
                ck_assert_msg(span_eq(record, record_of(w, next[w]++, text)), "%.20s", record.ptr);
        }
    }
    for (int w = 0; w < WRITERS - 1; w++)
        ck_assert_int_eq(next[w], RECORDS);
}
END_TEST

START_TEST(many_writers_stay_within_the_bound_and_keep_the_newest)
{
    int next[WRITERS];
    write_by_all(SMALL_BYTES);
    ck_assert_uint_ge(memory->current, 20);
    ck_assert_uint_le(bytes_on_disk(), SMALL_BYTES + WRITERS * RECORD_BYTES_MAX);
    ck_assert(!has_segment(1));
    read_all(false, next);
    int finished = 0;
    for (int w = 0; w < WRITERS; w++)
        finished += next[w] == RECORDS ? 1 : 0;
    ck_assert_int_ge(finished, 1); /* the last record of all is that of a writer's end */
    ck_assert(!is_anything_named());
}
END_TEST

#define ID "01890000-0000-7000-8000-000000000001"

START_TEST(what_a_dead_writer_wrote_is_there_only_if_it_is_whole)
{
    static const struct {
        const char *bytes;
        bool has;
    } rows[] = {
        { "", false },
        { "\n{\"id\":\"" ID "\"}\n", true },
        { "\n{\"v\":1,\"id\":\"" ID "\",\"a\":[1,{\"b\":2}]}\n\n{\"id\":\"2\"}\n", true },
        { "\n{\"id\":\"" ID "\",\"torn", false },
        { "\n{\"id\":\"" ID "\",\"torn\n{\"id\":\"2\"}\n", false }, /* a later record's LF ends it */
        { "\n{\"id\":\"" ID "\"}", false },
        { "\n{\"id\":\"" ID "\",\"torn\n{\"id\":\"" ID "\"}\n", true }, /* it was told again */
        { "\n{\"id\":\"01890000-0000-7000-8000-000000000002\"}\n", false },
        { ID "\n", false },
    };
    struct spool spool = opened();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(file_replace(segment, span_cstr(rows[i].bytes), 0640, &e) == 0, "%s", e.text);
        ck_assert_msg(spool_has(&spool, 1, span_cstr(ID)) == rows[i].has, "%s", rows[i].bytes);
        ck_assert_msg(spool_has(&spool, 0, span_cstr(ID)) == rows[i].has, "the current one: %s",
                      rows[i].bytes);
        ck_assert(!spool_has(&spool, 2, span_cstr(ID)));
    }
    spool_close(&spool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spool");
    TCase *tcase = tcase_create("segment");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, one_process_claims_a_spool_and_its_end_frees_it);
    tcase_add_test(tcase, a_record_stands_between_two_line_feeds);
    tcase_add_test(tcase, a_segment_that_exists_is_continued);
    tcase_add_test(tcase, the_spool_is_not_for_everybody_to_read);
    tcase_add_test(tcase, a_torn_predecessor_spoils_nobody);
    tcase_add_test(tcase, what_a_dead_writer_wrote_is_there_only_if_it_is_whole);
    tcase_add_test(tcase, on_a_full_disk_records_are_lost_and_counted_and_later_ones_are_whole);
    tcase_add_test(tcase, a_spool_that_cannot_be_opened_drops_and_counts_until_it_can);
    tcase_add_test(tcase, a_symbolic_link_in_the_segments_place_is_not_followed);
    tcase_add_test(tcase, a_path_too_long_is_refused_before_anything_is_made);
    tcase_add_loop_test(tcase, a_segment_has_an_eighth_of_all_within_its_own_bounds, 0,
                        sizeof(sizes) / sizeof(sizes[0]));
    tcase_add_test(tcase, a_full_segment_is_followed_by_the_next_and_the_oldest_goes);
    tcase_add_loop_test(tcase, the_highest_segment_on_disk_is_continued, 0,
                        sizeof(starts) / sizeof(starts[0]));
    tcase_add_test(tcase, a_bound_that_was_lowered_holds_from_the_start);
    tcase_add_test(tcase, the_current_segment_stays_however_large_it_is);
    tcase_add_test(tcase, a_segment_that_a_process_is_writing_to_is_not_removed);
    tcase_add_test(tcase, the_bytes_of_a_removed_segment_are_given_back_though_an_idle_writer_has_it_open);
    tcase_add_test(tcase, a_folder_that_is_removed_is_made_again);
    tcase_add_test(tcase, a_segment_that_is_removed_is_made_again);
    tcase_add_test(tcase, a_writer_that_was_killed_after_it_ended_a_segment_is_replaced_by_any_other);
    tcase_add_loop_test(tcase, an_instance_goes_on_where_the_one_before_and_what_is_on_disk_end, 0,
                        sizeof(resumptions) / sizeof(resumptions[0]));
    tcase_add_test(tcase, an_instance_that_begins_says_whether_the_spool_is_read_and_has_room);
    tcase_add_test(tcase, who_outlives_its_instance_appends_to_the_segment_of_the_next);
    tcase_add_test(tcase, what_one_that_outlives_its_instance_is_writing_to_stays_until_it_is_killed);
    tcase_add_test(tcase, records_of_many_writers_do_not_mix);
    tcase_add_test(tcase, many_writers_lose_and_repeat_nothing_over_many_segments);
    tcase_add_test(tcase, writers_that_are_killed_spoil_nothing_of_the_others);
    tcase_add_test(tcase, many_writers_stay_within_the_bound_and_keep_the_newest);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
