/* Rows of CALLER_KEYS: made, changed, revoked and shown, one at a time. */
#include <check.h>
#include <stdlib.h>

#include "core/config/caller_keys.h"
#include "core/crypto/digest.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define HASH_A "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define HASH_B "aa7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ROW_A "{\"id\":\"a\",\"sha256\":\"" HASH_A "\",\"owner\":\"Ada\",\"models\":[\"m\"]}"
#define ROW_B "{ \"sha256\":\"" HASH_B "\", \"id\":\"\\u0062\" }"
#define BOTH "{ \"keys\": [\n  " ROW_A ",\n  " ROW_B "\n] }\n"
#define NOW "2026-11-30T00:00:00.000000Z"

static struct arena *arena;
static struct entry_faults faults;
static struct span out;

static void set_up(void)
{
    arena = arena_new();
    faults = (struct entry_faults){ 0 };
    out = span_of("", 0);
}

static void tear_down(void)
{
    arena_free(arena);
}

static const char *all_faults(void)
{
    const char *text = "";
    for (size_t i = 0; i < faults.count; i++)
        text = arena_printf(arena, "%s%s: %s\n", text, faults.items[i].path, faults.items[i].message);
    return text;
}

static int add(const char *raw, const char *wanted)
{
    return caller_keys_add(span_cstr(raw), span_cstr(wanted), "abc", NOW, arena, &out, &faults);
}

START_TEST(a_new_key_is_random_and_recognisable)
{
    char one[CALLER_KEY_TEXT_BYTES], two[CALLER_KEY_TEXT_BYTES];
    caller_key_generate(one);
    caller_key_generate(two);
    ck_assert_uint_eq(strlen(one), CALLER_KEY_TEXT_BYTES - 1);
    ck_assert_int_eq(strncmp(one, "lr-", 3), 0);
    ck_assert_str_ne(one, two);
}
END_TEST

START_TEST(the_first_key_makes_the_document)
{
    ck_assert_msg(add("", "{\"id\":\"ci\",\"owner\":\"Ada\",\"models\":[]}") == 0, "%s", all_faults());
    ck_assert_str_eq(out.ptr, "{\"keys\":[{\"id\":\"ci\",\"owner\":\"Ada\",\"models\":[],\"sha256\":\"" HASH_A
                              "\",\"createdAt\":\"" NOW "\"}]}");
}
END_TEST

START_TEST(a_further_key_leaves_the_others_as_they_were_written)
{
    static const char raw[] = "{ \"keys\": [\n  " ROW_B "\n] }\n";
    ck_assert_msg(add(raw, "{\"id\":\"ci\"}") == 0, "%s", all_faults());
    ck_assert_str_eq(out.ptr, "{ \"keys\": [\n  " ROW_B ",\n  {\"id\":\"ci\",\"sha256\":\"" HASH_A
                              "\",\"createdAt\":\"" NOW "\"}\n] }\n");
}
END_TEST

static const struct {
    const char *wanted, *path;
} refused[] = {
    { "", "" },
    { "[]", "" },
    { "\"ci\"", "" },
    { "{\"owner\":\"Ada\"}", "/id" },
    { "{\"id\":\"\"}", "/id" },
    { "{\"id\":\"a|b\"}", "/id" },
    { "{\"id\":\"x\",\"id\":\"y\"}", "" },
    { "{\"id\":\"x\",\"models\":[\"m\",5]}", "/models/1" },
    { "{\"id\":\"x\",\"ownr\":\"Ada\"}", "/ownr" },
    { "{\"id\":\"x\",\"sha256\":\"" HASH_B "\"}", "/sha256" },
    { "{\"id\":\"x\",\"sh\\u0061256\":\"" HASH_B "\"}", "/sha256" },
    { "{\"id\":\"x\",\"createdAt\":\"today\"}", "/createdAt" },
    { "{\"id\":\"x\",\"key\":\"lr-mine\"}", "/key" },
    { "{\"id\":\"x\",\"limits\":{\"concurrency\":0}}", "/limits/concurrency" },
};

START_TEST(what_cannot_be_a_row_is_refused_with_its_place)
{
    ck_assert_int_eq(add(BOTH, refused[_i].wanted), ERR_FORMAT);
    ck_assert_msg(faults.count == 1 && strcmp(faults.items[0].path, refused[_i].path) == 0, "%s:\n%s",
                  refused[_i].wanted, all_faults());
    ck_assert_uint_eq(out.len, 0);
}
END_TEST

START_TEST(an_id_is_given_once)
{
    ck_assert_int_eq(add(BOTH, "{\"id\":\"b\"}"), ERR_CONFLICT);
    ck_assert_int_eq(add(BOTH, "{\"id\":\"\\u0061\"}"), ERR_CONFLICT);
    ck_assert_uint_eq(faults.count, 0);
}
END_TEST

static const struct {
    const char *id, *rest;
} revoked[] = {
    { "a", "{ \"keys\": [\n  " ROW_B "\n] }\n" },
    { "b", "{ \"keys\": [\n  " ROW_A "\n] }\n" },
};

START_TEST(a_revoked_key_is_gone_and_the_others_stay_as_they_were_written)
{
    ck_assert_int_eq(caller_keys_revoke(span_cstr(BOTH), revoked[_i].id, arena, &out), 0);
    ck_assert_str_eq(out.ptr, revoked[_i].rest);
    ck_assert_int_eq(entry_check(ENTRY_CALLER_KEYS, out, arena, &faults), 0);
    ck_assert_int_eq(caller_keys_revoke(out, revoked[_i].id, arena, &out), ERR_NOT_FOUND);
}
END_TEST

START_TEST(the_last_key_leaves_an_empty_list)
{
    ck_assert_int_eq(caller_keys_revoke(span_cstr("{\"keys\":[ " ROW_A " ]}"), "a", arena, &out), 0);
    ck_assert_int_eq(entry_check(ENTRY_CALLER_KEYS, out, arena, &faults), 0);
    ck_assert_int_eq(caller_keys_revoke(span_of("", 0), "a", arena, &out), ERR_NOT_FOUND);
}
END_TEST

START_TEST(owner_and_models_can_be_changed_and_taken_away)
{
    struct caller_key key;
    ck_assert_int_eq(caller_keys_change(span_cstr(BOTH), "a",
                                        span_cstr("{\"owner\":\"Bob\",\"models\":null}"), arena, &out,
                                        &faults),
                     0);
    ck_assert_str_eq(out.ptr, "{ \"keys\": [\n  {\"id\":\"a\",\"sha256\":\"" HASH_A
                              "\",\"owner\":\"Bob\"},\n  " ROW_B "\n] }\n");
    ck_assert_int_eq(caller_keys_find(out, "a", arena, &key), 0);
    ck_assert_str_eq(key.owner, "Bob");
    ck_assert_ptr_null(key.models.ptr);
}
END_TEST

START_TEST(limits_are_given_changed_one_by_one_and_shown)
{
    ck_assert_int_eq(add("{\"keys\":[]}", "{\"id\":\"x\",\"limits\":{\"concurrency\":3}}"), 0);
    ck_assert_int_eq(
        caller_keys_change(out, "x", span_cstr("{\"limits\":{\"tokensPerMinute\":9}}"), arena, &out, &faults),
        0);
    ck_assert_int_eq(
        caller_keys_change(out, "x", span_cstr("{\"limits\":{\"concurrency\":null}}"), arena, &out, &faults),
        0);
    ck_assert(span_is(caller_keys_show(out, "x", arena),
                      "{\"id\":\"x\",\"limits\":{\"tokensPerMinute\":9},\"createdAt\":\"" NOW
                      "\",\"fingerprint\":\"ba7816bf\"}"));
    ck_assert_int_eq(caller_keys_change(out, "x", span_cstr("{\"limits\":null}"), arena, &out, &faults), 0);
    ck_assert(span_is(caller_keys_show(out, "x", arena),
                      "{\"id\":\"x\",\"createdAt\":\"" NOW "\",\"fingerprint\":\"ba7816bf\"}"));
}
END_TEST

static const struct {
    const char *patch, *path;
} bad_patches[] = {
    { "{\"limits\":{\"concurrency\":-1}}", "/limits/concurrency" },
    { "{\"limits\":7}", "/limits" },
    { "5", "" },
    { "{\"id\":\"c\"}", "/id" },
    { "{\"sha256\":null}", "/sha256" },
    { "{\"createdAt\":\"x\"}", "/createdAt" },
    { "{\"owner\":5}", "/owner" },
    { "{\"models\":\"m\"}", "/models" },
    { "{\"model\":[]}", "/model" },
};

START_TEST(nothing_else_of_a_row_can_be_changed)
{
    int r = caller_keys_change(span_cstr(BOTH), "a", span_cstr(bad_patches[_i].patch), arena, &out, &faults);
    ck_assert_int_eq(r, ERR_FORMAT);
    ck_assert_msg(faults.count == 1 && strcmp(faults.items[0].path, bad_patches[_i].path) == 0, "%s:\n%s",
                  bad_patches[_i].patch, all_faults());
}
END_TEST

START_TEST(who_is_not_there_is_not_found)
{
    struct caller_key key;
    ck_assert_int_eq(caller_keys_change(span_cstr(BOTH), "c", span_cstr("{}"), arena, &out, &faults),
                     ERR_NOT_FOUND);
    ck_assert_int_eq(caller_keys_find(span_cstr(BOTH), "c", arena, &key), ERR_NOT_FOUND);
    ck_assert_int_eq(caller_keys_find(span_of("", 0), "a", arena, &key), ERR_NOT_FOUND);
}
END_TEST

static const char *const broken[] = { "{", "[]", "{}", "{\"keys\":[{\"id\":\"a\"}]}" };

START_TEST(a_document_that_is_not_valid_is_left_alone)
{
    struct span raw = span_cstr(broken[_i]);
    struct caller_key *list, key;
    size_t n;
    ck_assert_int_eq(add(broken[_i], "{\"id\":\"x\"}"), ERR_UNSUPPORTED);
    ck_assert_int_eq(caller_keys_change(raw, "a", span_cstr("{}"), arena, &out, &faults), ERR_UNSUPPORTED);
    ck_assert_int_eq(caller_keys_revoke(raw, "a", arena, &out), ERR_UNSUPPORTED);
    ck_assert_int_eq(caller_keys_find(raw, "a", arena, &key), ERR_UNSUPPORTED);
    ck_assert_int_eq(caller_keys_list(raw, arena, &list, &n), ERR_UNSUPPORTED);
}
END_TEST

START_TEST(what_is_shown_holds_the_beginning_of_the_hash_only)
{
    struct caller_key *list;
    struct json_writer w;
    struct buf text;
    size_t n = 0;
    ck_assert_int_eq(caller_keys_list(span_cstr(BOTH), arena, &list, &n), 0);
    ck_assert_uint_eq(n, 2);
    buf_init(&text, 4096);
    jw_init(&w, &text);
    caller_key_write(&list[0], &w);
    ck_assert(span_is(buf_span(&text),
                      "{\"id\":\"a\",\"owner\":\"Ada\",\"models\":[\"m\"],\"fingerprint\":\"ba7816bf\"}"));
    buf_free(&text);
    ck_assert_str_eq(list[1].id, "b");
    ck_assert_ptr_null(list[1].owner);
    ck_assert_ptr_null(list[1].models.ptr);
}
END_TEST

/* An administrator decides how a row is laid out; what is shown of it goes to the audit log. */
START_TEST(a_row_is_shown_whole_however_it_is_laid_out)
{
    enum { BLANKS = 1024 * 1024 };
    char *blanks = arena_calloc(arena, 1, BLANKS + 1);
    memset(blanks, ' ', BLANKS);
    ck_assert_int_eq(add("{\"keys\":[]}", arena_printf(arena, "{\"id\":\"x\",\"models\":[%s\"m\"]}", blanks)),
                     0);
    const char *shown = arena_printf(
        arena, "{\"id\":\"x\",\"models\":[%s\"m\"],\"createdAt\":\"" NOW "\",\"fingerprint\":\"ba7816bf\"}",
        blanks);
    ck_assert(span_is(caller_keys_show(out, "x", arena), shown));
    ck_assert_uint_eq(caller_keys_show(out, "y", arena).len, 0);
    ck_assert_uint_eq(caller_keys_show(span_cstr("{}"), "x", arena).len, 0);
}
END_TEST

START_TEST(a_row_admits_the_key_that_it_was_made_for)
{
    char key[CALLER_KEY_TEXT_BYTES], digest[SHA256_HEX_BYTES];
    caller_key_generate(key);
    sha256_hex(span_cstr(key), digest);
    ck_assert_int_eq(
        caller_keys_add(span_of("", 0), span_cstr("{\"id\":\"x\"}"), key, NOW, arena, &out, &faults), 0);
    ck_assert_ptr_nonnull(strstr(out.ptr, digest));
    ck_assert_ptr_null(strstr(out.ptr, key));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("caller_keys");
    TCase *tests = tcase_create("caller_keys");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_new_key_is_random_and_recognisable);
    tcase_add_test(tests, the_first_key_makes_the_document);
    tcase_add_test(tests, a_further_key_leaves_the_others_as_they_were_written);
    tcase_add_loop_test(tests, what_cannot_be_a_row_is_refused_with_its_place, 0, COUNT(refused));
    tcase_add_test(tests, an_id_is_given_once);
    tcase_add_loop_test(tests, a_revoked_key_is_gone_and_the_others_stay_as_they_were_written, 0,
                        COUNT(revoked));
    tcase_add_test(tests, the_last_key_leaves_an_empty_list);
    tcase_add_test(tests, owner_and_models_can_be_changed_and_taken_away);
    tcase_add_test(tests, limits_are_given_changed_one_by_one_and_shown);
    tcase_add_test(tests, a_row_is_shown_whole_however_it_is_laid_out);
    tcase_add_loop_test(tests, nothing_else_of_a_row_can_be_changed, 0, COUNT(bad_patches));
    tcase_add_test(tests, who_is_not_there_is_not_found);
    tcase_add_loop_test(tests, a_document_that_is_not_valid_is_left_alone, 0, COUNT(broken));
    tcase_add_test(tests, what_is_shown_holds_the_beginning_of_the_hash_only);
    tcase_add_test(tests, a_row_admits_the_key_that_it_was_made_for);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
