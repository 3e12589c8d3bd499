/* The spool: what stands in the file, also when a writer died, the disk was full, or many write at once. */
#include <check.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/record/spool.h"

#define SEGMENT "prog.00000001.jsonl"

enum { PATH_BYTES = 256, FILE_LIMIT_BYTES = 1 << 30 };

static char state_dir[PATH_BYTES], segment[PATH_BYTES];
static struct arena *arena;
static struct error e;

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(state_dir, sizeof(state_dir), "%.200s/spool.XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(state_dir));
    snprintf(segment, sizeof(segment), "%.200s/spool/" SEGMENT, state_dir);
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
    ck_assert_int_eq(nftw(state_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static struct spool opened(void)
{
    struct spool spool;
    ck_assert_msg(spool_open(state_dir, "prog", &spool, &e) == 0, "%s", e.text);
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

START_TEST(a_spool_that_cannot_be_opened_drops_and_counts)
{
    char in_a_file[PATH_BYTES + 8];
    struct spool spool;
    snprintf(in_a_file, sizeof(in_a_file), "%s/file", state_dir);
    FILE *file = fopen(in_a_file, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert_int_eq(spool_open(in_a_file, "prog", &spool, &e), ERR_SYSTEM);
    ck_assert_msg(strstr(e.text, in_a_file) != NULL, "%s", e.text);
    ck_assert_int_eq(spool.fd, -1);
    ck_assert_int_eq(spool_append(&spool, span_cstr("lost")), ERR_SYSTEM);
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
    ck_assert_int_eq(spool_open(state_dir, "prog", &spool, &e), ERR_SYSTEM);
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
    ck_assert_int_eq(spool_open(long_dir, "prog", &spool, &e), ERR_LIMIT);
    ck_assert_int_eq(spool.fd, -1);
    ck_assert_int_eq(rmdir(state_dir), 0); /* it is still empty */
    ck_assert_int_eq(mkdir(state_dir, 0700), 0);
}
END_TEST

/* --- many writers --- */

enum { WRITERS = 4, RECORDS = 200, RECORD_BYTES_MAX = 64 * 1024 };

/* "writer number xxxx…", of a length that depends on both. */
static struct span record_of(int writer, int number, char *text)
{
    size_t len = 20 + (size_t)((number * 7919 + writer * 104729) % (RECORD_BYTES_MAX - 20));
    memset(text, 'a' + writer, len);
    int n = snprintf(text, 20, "%d %d ", writer, number);
    text[n] = 'a' + (char)writer;
    return span_of(text, len);
}

static int write_records(int writer)
{
    static char text[RECORD_BYTES_MAX];
    struct spool spool;
    if (spool_open(state_dir, "prog", &spool, NULL) != 0)
        return 1;
    for (int i = 0; i < RECORDS; i++) {
        if (spool_append(&spool, record_of(writer, i, text)) != 0)
            return 1;
    }
    spool_close(&spool);
    return 0;
}

START_TEST(records_of_many_writers_do_not_mix)
{
    static char text[RECORD_BYTES_MAX];
    int next[WRITERS] = { 0 };
    pid_t children[WRITERS];
    struct span rest, record;
    for (int w = 0; w < WRITERS; w++) {
        children[w] = fork();
        ck_assert_int_ge(children[w], 0);
        if (children[w] == 0)
            _exit(write_records(w));
    }
    for (int w = 0; w < WRITERS; w++) {
        int status;
        ck_assert_int_eq(waitpid(children[w], &status, 0), children[w]);
        ck_assert_int_eq(status, 0);
    }
    rest = content();
    for (int i = 0; i < WRITERS * RECORDS; i++) {
        ck_assert(next_record(&rest, &record));
        int writer = record.ptr[0] - '0';
        ck_assert_msg(writer >= 0 && writer < WRITERS, "record %d begins with %.20s", i, record.ptr);
        ck_assert_msg(span_eq(record, record_of(writer, next[writer]++, text)), "record %d: %.20s", i,
                      record.ptr);
    }
    ck_assert(!next_record(&rest, &record));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spool");
    TCase *tcase = tcase_create("segment");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_record_stands_between_two_line_feeds);
    tcase_add_test(tcase, a_segment_that_exists_is_continued);
    tcase_add_test(tcase, the_spool_is_not_for_everybody_to_read);
    tcase_add_test(tcase, a_torn_predecessor_spoils_nobody);
    tcase_add_test(tcase, on_a_full_disk_records_are_lost_and_counted_and_later_ones_are_whole);
    tcase_add_test(tcase, a_spool_that_cannot_be_opened_drops_and_counts);
    tcase_add_test(tcase, a_symbolic_link_in_the_segments_place_is_not_followed);
    tcase_add_test(tcase, a_path_too_long_is_refused_before_anything_is_made);
    tcase_add_test(tcase, records_of_many_writers_do_not_mix);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
