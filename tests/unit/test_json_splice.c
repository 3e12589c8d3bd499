#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/json/splice.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char BODY[] = "0123456789";

struct edit_row {
    size_t offset, len;
    const char *with;
};

/* Edits up to the first without text. */
static const struct {
    struct edit_row edits[5];
    const char *result;
} ROWS[] = {
    { { { 0 } }, "0123456789" },
    { { { 3, 2, "xyz" } }, "012xyz56789" },
    { { { 3, 2, "" } }, "01256789" },
    { { { 0, 0, "<" }, { 10, 0, ">" } }, "<0123456789>" },
    { { { 0, 10, "new" } }, "new" },
    { { { 0, 10, "" } }, "" },
    { { { 7, 1, "c" }, { 1, 1, "a" }, { 4, 2, "b" } }, "0a23b6c89" },
    { { { 2, 3, "a" }, { 5, 2, "b" } }, "01ab789" },
    { { { 5, 2, "b" }, { 2, 3, "a" } }, "01ab789" },
    { { { 5, 0, "a" }, { 5, 0, "b" }, { 5, 0, "c" } }, "01234abc56789" },
    { { { 5, 1, "R" }, { 5, 0, "i" } }, "01234iR6789" },
    { { { 5, 0, "i" }, { 5, 1, "R" } }, "01234iR6789" },
    { { { 4, 1, "R" }, { 5, 0, "i" } }, "0123Ri56789" },
    { { { 5, 0, "i" }, { 4, 1, "R" } }, "0123Ri56789" },
};

static void splice_row(struct splice *splice, const struct edit_row *edits)
{
    splice_init(splice, span_cstr(BODY));
    for (size_t i = 0; edits[i].with != NULL; i++)
        ck_assert_int_eq(splice_add(splice, edits[i].offset, edits[i].len, span_cstr(edits[i].with)), 0);
}

START_TEST(reads_the_same_result_whatever_the_room)
{
    struct splice splice;
    splice_row(&splice, ROWS[_i].edits);
    size_t size = strlen(ROWS[_i].result);
    ck_assert_msg(splice_size(&splice) == size, "row %d: size %zu", _i, splice_size(&splice));
    for (size_t room = 1; room <= size + 2; room++) {
        char out[64];
        struct splice_cursor cursor = { 0 };
        size_t have = 0, n;
        while ((n = splice_read(&splice, &cursor, out + have, room)) > 0) {
            ck_assert_msg(n == room || have + n == size, "row %d: a short read of %zu before the end", _i, n);
            have += n;
        }
        ck_assert_msg(span_is(span_of(out, have), ROWS[_i].result), "row %d, room %zu: %.*s, not %s", _i,
                      room, (int)have, out, ROWS[_i].result);
        ck_assert_uint_eq(splice_read(&splice, &cursor, out, room), 0);
    }
}
END_TEST

START_TEST(begins_again_with_a_fresh_cursor)
{
    struct splice splice;
    char out[64];
    splice_row(&splice, ROWS[1].edits);
    for (int i = 0; i < 2; i++) {
        struct splice_cursor cursor = { 0 };
        size_t n = splice_read(&splice, &cursor, out, sizeof(out));
        ck_assert(span_is(span_of(out, n), ROWS[1].result));
    }
}
END_TEST

static const struct {
    struct edit_row first, second;
} OVERLAPS[] = {
    { { 2, 3, "" }, { 2, 3, "" } },  { { 2, 3, "" }, { 4, 2, "" } },  { { 2, 3, "" }, { 1, 2, "" } },
    { { 2, 3, "" }, { 0, 10, "" } }, { { 2, 3, "" }, { 3, 0, "x" } }, { { 3, 0, "x" }, { 2, 3, "" } },
    { { 2, 3, "" }, { 2, 1, "" } },
};

START_TEST(refuses_edits_that_overlap)
{
    struct splice splice;
    const struct edit_row *first = &OVERLAPS[_i].first, *second = &OVERLAPS[_i].second;
    splice_init(&splice, span_cstr(BODY));
    ck_assert_int_eq(splice_add(&splice, first->offset, first->len, span_cstr(first->with)), 0);
    size_t size = splice_size(&splice);
    ck_assert_int_eq(splice_add(&splice, second->offset, second->len, span_cstr(second->with)), ERR_FORMAT);
    ck_assert_uint_eq(splice.n_edits, 1);
    ck_assert_uint_eq(splice_size(&splice), size);
}
END_TEST

START_TEST(refuses_edits_outside_the_body)
{
    struct splice splice;
    splice_init(&splice, span_cstr(BODY));
    ck_assert_int_eq(splice_add(&splice, 11, 0, span_cstr("x")), ERR_FORMAT);
    ck_assert_int_eq(splice_add(&splice, 10, 1, span_cstr("x")), ERR_FORMAT);
    ck_assert_int_eq(splice_add(&splice, 5, (size_t)-1, span_cstr("x")), ERR_FORMAT);
    ck_assert_int_eq(splice_add(&splice, (size_t)-1, 2, span_cstr("x")), ERR_FORMAT);
    ck_assert_uint_eq(splice_size(&splice), 10);
}
END_TEST

START_TEST(holds_a_bounded_number_of_edits)
{
    struct splice splice;
    splice_init(&splice, span_cstr(BODY));
    for (size_t i = 0; i < SPLICE_EDITS_MAX; i++)
        ck_assert_int_eq(splice_add(&splice, i, 1, span_cstr("xx")), 0);
    ck_assert_int_eq(splice_add(&splice, 9, 1, span_cstr("xx")), ERR_LIMIT);
    ck_assert_uint_eq(splice_size(&splice), 10 + SPLICE_EDITS_MAX);
}
END_TEST

START_TEST(edits_an_empty_body)
{
    struct splice splice;
    struct splice_cursor cursor = { 0 };
    char out[8];
    splice_init(&splice, span_of(NULL, 0));
    ck_assert_uint_eq(splice_read(&splice, &cursor, out, sizeof(out)), 0);
    cursor = (struct splice_cursor){ 0 };
    ck_assert_int_eq(splice_add(&splice, 0, 0, span_cstr("{}")), 0);
    ck_assert_uint_eq(splice_read(&splice, &cursor, out, sizeof(out)), 2);
    ck_assert(span_is(span_of(out, 2), "{}"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_splice");
    TCase *tests = tcase_create("splice");
    tcase_add_loop_test(tests, reads_the_same_result_whatever_the_room, 0, (int)COUNT(ROWS));
    tcase_add_test(tests, begins_again_with_a_fresh_cursor);
    tcase_add_loop_test(tests, refuses_edits_that_overlap, 0, (int)COUNT(OVERLAPS));
    tcase_add_test(tests, refuses_edits_outside_the_body);
    tcase_add_test(tests, holds_a_bounded_number_of_edits);
    tcase_add_test(tests, edits_an_empty_body);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
