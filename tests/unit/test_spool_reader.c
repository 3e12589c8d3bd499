/* Reading a spool: which records come, in which order, and where reading goes on, whatever became of the
 * segments. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/record/spool_reader.h"

enum { PATH_BYTES = 256, LINES_MAX = 64, SMALL_BYTES = 8 * 64 * 1024 };

static char state_dir[PATH_BYTES];
static struct arena *arena;
static struct error e;
static struct spool_plan plan;
static struct spool_memory *memory; /* of it */
static _Atomic uint64_t *named;     /* by a process that writes */
static struct spool_reader reader;
static struct span lines[LINES_MAX];

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(state_dir, sizeof(state_dir), "%.200s/reader.XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(state_dir));
    arena = arena_new();
    plan = (struct spool_plan){
        .state_dir = state_dir, .program = "prog", .max_bytes = SMALL_BYTES, .shared = spool_shared_alone()
    };
    memory = plan.shared.memory;
    memory->current = 1;
    memory->is_read = 1;
    named = &memory->writers[7].segment;
    ck_assert_int_eq(file_make_dirs(arena_printf(arena, "%s/spool", state_dir), 0750, &e), 0);
    ck_assert_int_eq(spool_reader_open(&plan, "sink", &reader, &e), 0);
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
    spool_reader_close(&reader);
    spool_shared_close(&plan.shared);
    nftw(state_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    arena_free(arena);
}

static const char *path_of(uint64_t segment)
{
    return arena_printf(arena, "%s/spool/prog.%08llu.jsonl", state_dir, (unsigned long long)segment);
}

static const char *cursor_path(void)
{
    return arena_printf(arena, "%s/spool/prog.sink.cursor", state_dir);
}

static void put(uint64_t segment, const char *text)
{
    FILE *file = fopen(path_of(segment), "a");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

/* As another process would begin. */
static void reopen(void)
{
    spool_reader_close(&reader);
    ck_assert_int_eq(spool_reader_open(&plan, "sink", &reader, &e), 0);
}

/* What comes, joined by blanks, until there is no more; stored. */
static const char *read_on(void)
{
    char *text = arena_strdup(arena, "");
    size_t n;
    while ((n = spool_reader_take(&reader, lines, LINES_MAX)) > 0) {
        for (size_t i = 0; i < n; i++)
            text = arena_printf(arena, "%s%s%.*s", text, text[0] == '\0' ? "" : " ", (int)lines[i].len,
                                lines[i].ptr);
        ck_assert_int_eq(spool_reader_store(&reader, &e), 0);
    }
    ck_assert_int_eq(spool_reader_store(&reader, &e), 0);
    return text;
}

/* --- one segment --- */

static const struct content_row {
    const char *what, *content;
    bool is_finished; /* another segment is current */
    const char *expected;
    uint64_t unreadable;
} contents[] = {
    { "nothing", "", false, "", 0 },
    { "one record", "\n{\"a\":1}\n", false, "{\"a\":1}", 0 },
    { "records without LFs between", "{\"a\":1}\n{\"a\":2}\n", false, "{\"a\":1} {\"a\":2}", 0 },
    { "empty lines", "\n\n\n{\"a\":1}\n\n\n", false, "{\"a\":1}", 0 },
    { "a torn record, and another behind it", "\n{\"a\":\n{\"a\":2}\n", false, "{\"a\":2}", 1 },
    { "a torn record at the end may go on", "\n{\"a\":1}\n\n{\"b\"", false, "{\"a\":1}", 0 },
    { "a whole record whose LF is missing may go on", "\n{\"a\":1}", false, "", 0 },
    { "a torn record at the end of a finished segment", "\n{\"a\":1}\n\n{\"b\"", true,
      "{\"a\":1} {\"next\":1}", 1 },
    { "no record of an object", "\n[1]\n\n7\n\n\"text\"\n\nnull\n", false, "", 4 },
    { "two records in one line", "\n{\"a\":1}{\"a\":2}\n{\"a\":3}\n", false, "{\"a\":3}", 1 },
    { "bytes that are no UTF-8", "\n{\"a\":\"\xff\"}\n{\"a\":3}\n", false, "{\"a\":3}", 1 },
    { "a control character", "\n{\"a\":\"\x01\"}\n{\"a\":3}\n", false, "{\"a\":3}", 1 },
};

START_TEST(what_is_no_record_is_skipped_and_what_may_become_one_is_waited_for)
{
    const struct content_row *row = &contents[_i];
    put(1, row->content);
    if (row->is_finished) {
        put(2, "\n{\"next\":1}\n");
        memory->current = 2;
    }
    const char *found = read_on();
    ck_assert_msg(strcmp(found, row->expected) == 0, "%s: \"%s\", expected \"%s\"", row->what, found,
                  row->expected);
    ck_assert_msg(reader.n_unreadable == row->unreadable, "%s: %llu were counted", row->what,
                  (unsigned long long)reader.n_unreadable);
    ck_assert_uint_eq(reader.n_lost_segments, 0);
    ck_assert_str_eq(read_on(), "");
}
END_TEST

START_TEST(a_record_that_was_begun_comes_when_it_is_whole)
{
    static const char record[] = "\n{\"a\":1}\n";
    char piece[2] = { 0 };
    for (size_t i = 0; i < sizeof(record) - 1; i++) {
        ck_assert_str_eq(read_on(), "");
        piece[0] = record[i];
        put(1, piece);
    }
    ck_assert_str_eq(read_on(), "{\"a\":1}");
    ck_assert_uint_eq(reader.n_unreadable, 0);
}
END_TEST

START_TEST(nul_bytes_that_a_power_cut_left_are_skipped)
{
    static const char holes[8192];
    put(1, "\n{\"a\":1}\n");
    int fd = open(path_of(1), O_WRONLY | O_APPEND);
    ck_assert_int_eq(write(fd, holes, sizeof(holes)), sizeof(holes));
    close(fd);
    put(1, "\n{\"a\":2}\n");
    ck_assert_str_eq(read_on(), "{\"a\":1} {\"a\":2}");
    ck_assert_uint_eq(reader.n_unreadable, 1);
}
END_TEST

START_TEST(a_line_longer_than_the_window_is_skipped_and_counted_once)
{
    put(1, "\n{\"a\":1}\n");
    FILE *file = fopen(path_of(1), "a");
    for (int i = 0; i < 3 * SPOOL_READER_WINDOW_BYTES; i++)
        fputc('x', file);
    fclose(file);
    ck_assert_str_eq(read_on(), "{\"a\":1}");
    put(1, "\n{\"a\":2}\n");
    ck_assert_str_eq(read_on(), "{\"a\":2}");
    ck_assert_uint_eq(reader.n_unreadable, 1);
}
END_TEST

START_TEST(more_than_a_window_of_records_comes_whole_and_in_order)
{
    enum { RECORDS = 3000 };
    static char filler[1000];
    memset(filler, 'f', sizeof(filler) - 1);
    FILE *file = fopen(path_of(1), "a");
    for (int i = 0; i < RECORDS; i++)
        fprintf(file, "\n{\"n\":%d,\"f\":\"%s\"}\n", i, filler);
    fclose(file);
    int next = 0;
    size_t n;
    while ((n = spool_reader_take(&reader, lines, LINES_MAX)) > 0) {
        for (size_t i = 0; i < n; i++)
            ck_assert_int_eq(atoi(lines[i].ptr + strlen("{\"n\":")), next++);
        ck_assert_int_eq(spool_reader_store(&reader, &e), 0);
    }
    ck_assert_int_eq(next, RECORDS);
}
END_TEST

/* --- the cursor --- */

START_TEST(what_was_taken_and_not_stored_comes_again)
{
    put(1, "\n{\"a\":1}\n\n{\"a\":2}\n");
    ck_assert_uint_eq(spool_reader_take(&reader, lines, 1), 1);
    ck_assert_uint_eq(spool_reader_take(&reader, lines, LINES_MAX), 2);
    reopen();
    ck_assert_uint_eq(spool_reader_take(&reader, lines, 1), 1);
    ck_assert_int_eq(spool_reader_store(&reader, &e), 0);
    reopen();
    ck_assert_str_eq(read_on(), "{\"a\":2}");
    reopen();
    ck_assert_str_eq(read_on(), "");
}
END_TEST

START_TEST(readers_of_other_names_have_cursors_of_their_own)
{
    struct spool_reader other;
    put(1, "\n{\"a\":1}\n");
    ck_assert_str_eq(read_on(), "{\"a\":1}");
    ck_assert_int_eq(spool_reader_open(&plan, "other", &other, &e), 0);
    ck_assert_uint_eq(spool_reader_take(&other, lines, LINES_MAX), 1);
    spool_reader_close(&other);
}
END_TEST

START_TEST(a_new_reader_begins_with_the_oldest_segment)
{
    put(3, "\n{\"a\":3}\n");
    put(4, "\n{\"a\":4}\n");
    put(7, "\n{\"a\":7}\n");
    memory->current = 7;
    ck_assert_str_eq(read_on(), "{\"a\":3} {\"a\":4} {\"a\":7}");
    ck_assert_uint_eq(reader.n_lost_segments, 2); /* the fifth and the sixth */
}
END_TEST

static const char *const broken_cursors[] = {
    "", "1", "1 ", "1 2", "1 2\n3", "0 0\n", "x 1\n", "-1 2\n", "1 99999999999999999999\n", "1  2\n"
};

START_TEST(a_cursor_that_cannot_be_read_is_said_and_counts_as_none)
{
    put(1, "\n{\"a\":1}\n");
    struct span text = span_cstr(broken_cursors[_i]);
    ck_assert_int_eq(file_replace(cursor_path(), text, 0640, &e), 0);
    spool_reader_close(&reader);
    ck_assert_int_eq(spool_reader_open(&plan, "sink", &reader, &e), 0);
    ck_assert_msg(strstr(e.text, "prog.sink.cursor") != NULL, "\"%s\": \"%s\"", broken_cursors[_i], e.text);
    ck_assert_str_eq(read_on(), "{\"a\":1}");
    reopen();
    ck_assert_str_eq(e.text, "");
}
END_TEST

START_TEST(the_cursor_is_not_for_everybody_to_read)
{
    struct stat st;
    put(1, "\n{\"a\":1}\n");
    read_on();
    ck_assert_int_eq(stat(cursor_path(), &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0640);
}
END_TEST

/* --- from segment to segment --- */

START_TEST(a_segment_that_a_writer_names_is_not_left)
{
    put(1, "\n{\"a\":1}\n");
    put(2, "\n{\"a\":2}\n");
    memory->current = 2;
    *named = 1;
    ck_assert_str_eq(read_on(), "{\"a\":1}");
    put(1, "\n{\"a\":\"late\"}\n");
    ck_assert_str_eq(read_on(), "{\"a\":\"late\"}");
    *named = 0;
    ck_assert_str_eq(read_on(), "{\"a\":2}");
    ck_assert_uint_eq(reader.n_lost_segments, 0);
}
END_TEST

START_TEST(the_next_segment_is_awaited_where_it_is_not_made_yet)
{
    put(1, "\n{\"a\":1}\n");
    memory->current = 2;
    ck_assert_str_eq(read_on(), "{\"a\":1}");
    ck_assert_uint_eq(reader.passed.segment, 1);
    memory->current = 1; /* a new run continues the newest file that there is */
    put(1, "\n{\"a\":2}\n");
    reopen();
    ck_assert_str_eq(read_on(), "{\"a\":2}");
}
END_TEST

START_TEST(nothing_is_read_before_it_is_known_which_segment_is_current)
{
    put(1, "\n{\"a\":1}\n");
    memory->current = 0;
    ck_assert_str_eq(read_on(), "");
    memory->current = 1;
    ck_assert_str_eq(read_on(), "{\"a\":1}");
}
END_TEST

START_TEST(segments_that_are_gone_are_skipped_and_counted)
{
    put(1, "\n{\"a\":1}\n\n{\"a\":\"unread\"}\n");
    ck_assert_uint_eq(spool_reader_take(&reader, lines, 1), 1);
    ck_assert_int_eq(spool_reader_store(&reader, &e), 0);
    ck_assert_int_eq(unlink(path_of(1)), 0);
    put(4, "\n{\"a\":4}\n");
    put(5, "\n{\"a\":5}\n");
    memory->current = 5;
    reopen();
    ck_assert_str_eq(read_on(), "{\"a\":4} {\"a\":5}");
    ck_assert_uint_eq(reader.n_lost_segments, 3);
}
END_TEST

START_TEST(a_segment_that_was_made_anew_is_read_from_its_beginning)
{
    put(1, "\n{\"a\":\"rather long\"}\n");
    read_on();
    ck_assert_int_eq(unlink(path_of(1)), 0);
    put(1, "\n{\"a\":2}\n");
    ck_assert_str_eq(read_on(), "{\"a\":2}");
    /* And where only its size can tell. */
    put(1, "\n{\"a\":\"longer than what follows\"}\n");
    read_on();
    ck_assert_int_eq(unlink(path_of(1)), 0);
    put(1, "\n{\"a\":3}\n");
    reopen();
    ck_assert_str_eq(read_on(), "{\"a\":3}");
}
END_TEST

START_TEST(a_cursor_ahead_of_writers_that_began_anew_goes_back)
{
    put(9, "\n{\"a\":9}\n");
    memory->current = 9;
    read_on();
    ck_assert_int_eq(unlink(path_of(9)), 0);
    memory->current = 1;
    put(1, "\n{\"a\":1}\n");
    reopen();
    ck_assert_str_eq(read_on(), "{\"a\":1}");
}
END_TEST

/* --- removal, and writers that know of a reader --- */

static bool has_segment(uint64_t segment)
{
    return access(path_of(segment), F_OK) == 0;
}

START_TEST(what_is_passed_is_removed_except_for_what_is_named_and_the_newest)
{
    uint64_t bytes = 0;
    for (uint64_t i = 1; i <= 6; i++)
        put(i, "\n{\"a\":1}\n");
    memory->current = 7; /* which is not made yet */
    *named = 2;
    ck_assert_int_eq(spool_remove_passed(&plan, 4, &bytes), 0);
    for (uint64_t i = 1; i <= 6; i++)
        ck_assert_msg(has_segment(i) == (i == 2 || i >= 4), "segment %llu", (unsigned long long)i);
    ck_assert_uint_eq(bytes, 4 * strlen("\n{\"a\":1}\n"));
    *named = 0;
    ck_assert_int_eq(spool_remove_passed(&plan, 7, &bytes), 0);
    ck_assert(has_segment(6) && !has_segment(5) && !has_segment(2));
}
END_TEST

START_TEST(nothing_is_removed_while_no_reader_knows_where_it_stands)
{
    uint64_t bytes;
    put(1, "\n{\"a\":1}\n");
    put(2, "\n{\"a\":1}\n");
    memory->current = 2;
    ck_assert_int_eq(spool_remove_passed(&plan, 0, &bytes), 0);
    ck_assert(has_segment(1));
}
END_TEST

/* Appends records of 1 KiB until one is dropped, at most `max`: how many were taken. */
static unsigned append_until_dropped(struct spool *spool, unsigned max)
{
    static char text[1022] = "{\"f\":\"";
    unsigned n = 0;
    memset(text + 6, 'f', sizeof(text) - 8);
    memcpy(text + sizeof(text) - 2, "\"}", 2);
    while (n < max && spool_append(spool, span_of(text, sizeof(text))) == 0)
        n++;
    return n;
}

START_TEST(while_somebody_reads_new_records_are_dropped_at_the_bound_and_old_ones_stay)
{
    struct spool spool;
    uint64_t bytes;
    memory->current = 0;
    ck_assert_int_eq(spool_open(&plan, &spool, &e), 0);
    unsigned taken = append_until_dropped(&spool, 10000);
    ck_assert_uint_ge(taken, SMALL_BYTES / 1024 * 7 / 8);
    ck_assert_uint_le(taken, SMALL_BYTES / 1024);
    ck_assert_int_eq(errno, EDQUOT);
    ck_assert_uint_eq(spool.dropped, 1);
    ck_assert(has_segment(1));
    /* Reading makes room, at the next removal and not before. */
    unsigned read = 0;
    size_t n;
    while ((n = spool_reader_take(&reader, lines, LINES_MAX)) > 0) {
        read += (unsigned)n;
        ck_assert_int_eq(spool_reader_store(&reader, &e), 0);
    }
    ck_assert_uint_eq(read, taken);
    ck_assert_uint_eq(append_until_dropped(&spool, 1), 0);
    ck_assert_int_eq(spool_remove_passed(&plan, reader.passed.segment, &bytes), 0);
    ck_assert_uint_eq(append_until_dropped(&spool, 1), 1);
    ck_assert_str_ne(read_on(), "");
    spool_close(&spool);
}
END_TEST

START_TEST(a_full_spool_is_seen_as_full_from_the_start)
{
    struct spool spool;
    static char filler[64 * 1024];
    memset(filler, '\n', sizeof(filler) - 1);
    for (uint64_t i = 1; i <= 9; i++)
        put(i, filler);
    memory->current = 0;
    ck_assert_int_eq(spool_open(&plan, &spool, &e), 0);
    ck_assert_uint_eq(append_until_dropped(&spool, 1), 0);
    ck_assert(has_segment(1));
    spool_close(&spool);
}
END_TEST

START_TEST(without_a_reader_the_oldest_goes)
{
    struct spool spool;
    memory->current = 0;
    memory->is_read = 0;
    memory->is_full = 1; /* means nothing then */
    ck_assert_int_eq(spool_open(&plan, &spool, &e), 0);
    ck_assert_uint_eq(append_until_dropped(&spool, 2000), 2000);
    ck_assert(!has_segment(1));
    spool_close(&spool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spool_reader");
    TCase *tcase = tcase_create("reader");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, what_is_no_record_is_skipped_and_what_may_become_one_is_waited_for, 0,
                        sizeof(contents) / sizeof(contents[0]));
    tcase_add_test(tcase, a_record_that_was_begun_comes_when_it_is_whole);
    tcase_add_test(tcase, nul_bytes_that_a_power_cut_left_are_skipped);
    tcase_add_test(tcase, a_line_longer_than_the_window_is_skipped_and_counted_once);
    tcase_add_test(tcase, more_than_a_window_of_records_comes_whole_and_in_order);
    tcase_add_test(tcase, what_was_taken_and_not_stored_comes_again);
    tcase_add_test(tcase, readers_of_other_names_have_cursors_of_their_own);
    tcase_add_test(tcase, a_new_reader_begins_with_the_oldest_segment);
    tcase_add_loop_test(tcase, a_cursor_that_cannot_be_read_is_said_and_counts_as_none, 0,
                        sizeof(broken_cursors) / sizeof(broken_cursors[0]));
    tcase_add_test(tcase, the_cursor_is_not_for_everybody_to_read);
    tcase_add_test(tcase, a_segment_that_a_writer_names_is_not_left);
    tcase_add_test(tcase, the_next_segment_is_awaited_where_it_is_not_made_yet);
    tcase_add_test(tcase, nothing_is_read_before_it_is_known_which_segment_is_current);
    tcase_add_test(tcase, segments_that_are_gone_are_skipped_and_counted);
    tcase_add_test(tcase, a_segment_that_was_made_anew_is_read_from_its_beginning);
    tcase_add_test(tcase, a_cursor_ahead_of_writers_that_began_anew_goes_back);
    tcase_add_test(tcase, what_is_passed_is_removed_except_for_what_is_named_and_the_newest);
    tcase_add_test(tcase, nothing_is_removed_while_no_reader_knows_where_it_stands);
    tcase_add_test(tcase, while_somebody_reads_new_records_are_dropped_at_the_bound_and_old_ones_stay);
    tcase_add_test(tcase, a_full_spool_is_seen_as_full_from_the_start);
    tcase_add_test(tcase, without_a_reader_the_oldest_goes);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
