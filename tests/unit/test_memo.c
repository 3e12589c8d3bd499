/* The memo: what was noted is known to all, what changes makes it unknown, and it forgets rather than grow.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/signal/memo.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { ROOM = MEMO_SETS * MEMO_WAYS };

/* Shared with processes that a test forks. */
static struct memo *memo;

static void set_up(void)
{
    memo = mmap(NULL, sizeof(*memo), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(memo != MAP_FAILED);
}

static void tear_down(void)
{
    munmap(memo, sizeof(*memo));
}

static uint64_t fact_of(const char *a, const char *b, const char *c)
{
    const struct span texts[] = { span_cstr(a), span_cstr(b), span_cstr(c) };
    return memo_fact(texts, COUNT(texts));
}

static uint64_t numbered(unsigned n)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", n);
    return fact_of("tree", "model", text);
}

static unsigned count_known(unsigned n)
{
    unsigned known = 0;
    for (unsigned i = 0; i < n; i++)
        known += memo_has(memo, numbered(i));
    return known;
}

static const struct {
    const char *a, *b, *c;
} others[] = {
    { "tree 2", "model", "upstream" }, { "tree", "model 2", "upstream" },
    { "tree", "model", "upstream 2" }, { "tree", "upstream", "model" },
    { "treem", "odel", "upstream" },   { "tree", "modelupstream", "" },
    { "", "tree", "modelupstream" },   { "", "", "" },
};

START_TEST(a_fact_is_known_once_it_was_noted_and_no_other_is)
{
    uint64_t fact = fact_of("tree", "model", "upstream"),
             other = fact_of(others[_i].a, others[_i].b, others[_i].c);
    ck_assert(!memo_has(memo, fact));
    memo_note(memo, fact);
    ck_assert(memo_has(memo, fact));
    ck_assert_msg(!memo_has(memo, other), "%s|%s|%s", others[_i].a, others[_i].b, others[_i].c);
}
END_TEST

START_TEST(a_fact_is_the_same_wherever_its_texts_lie)
{
    char text[] = "upstream";
    ck_assert_uint_eq(fact_of("tree", "model", text), fact_of("tree", "model", "upstream"));
    ck_assert_uint_ne(memo_fact(NULL, 0), 0);
}
END_TEST

START_TEST(a_fact_that_is_noted_again_takes_no_more_room)
{
    for (int i = 0; i < 10 * ROOM; i++)
        memo_note(memo, numbered(0));
    ck_assert_uint_eq(memo->forgotten, 0);
    memo_note(memo, numbered(1));
    ck_assert_uint_eq(count_known(2), 2);
}
END_TEST

START_TEST(half_as_many_facts_as_there_is_room_for_are_nearly_all_known)
{
    for (unsigned i = 0; i < ROOM / 2; i++)
        memo_note(memo, numbered(i));
    unsigned known = count_known(ROOM / 2);
    ck_assert_msg(known > ROOM / 2 - ROOM / 32, "%u of %d", known, ROOM / 2);
}
END_TEST

START_TEST(a_full_memo_still_learns_and_forgets_what_is_old)
{
    for (unsigned i = 0; i < 20 * ROOM; i++) {
        memo_note(memo, numbered(i));
        ck_assert_msg(memo_has(memo, numbered(i)), "fact %u", i);
    }
    ck_assert_uint_le(count_known(20 * ROOM), ROOM);
    ck_assert_uint_eq(count_known(10 * ROOM), 0);
}
END_TEST

START_TEST(what_one_process_notes_all_know)
{
    enum { PROCESSES = 4, EACH = 40 };
    pid_t children[PROCESSES];
    for (unsigned p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        ck_assert_int_ge(children[p], 0);
        for (unsigned i = 0; children[p] == 0 && i < EACH; i++)
            memo_note(memo, numbered(p * EACH + i));
        if (children[p] == 0)
            _exit(0);
    }
    for (unsigned p = 0; p < PROCESSES; p++) {
        int status;
        ck_assert_int_eq(waitpid(children[p], &status, 0), children[p]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_uint_eq(count_known(PROCESSES * EACH) + memo->forgotten, PROCESSES * EACH);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memo");
    TCase *tcase = tcase_create("memo");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_fact_is_known_once_it_was_noted_and_no_other_is, 0, (int)COUNT(others));
    tcase_add_test(tcase, a_fact_is_the_same_wherever_its_texts_lie);
    tcase_add_test(tcase, a_fact_that_is_noted_again_takes_no_more_room);
    tcase_add_test(tcase, half_as_many_facts_as_there_is_room_for_are_nearly_all_known);
    tcase_add_test(tcase, a_full_memo_still_learns_and_forgets_what_is_old);
    tcase_add_test(tcase, what_one_process_notes_all_know);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
