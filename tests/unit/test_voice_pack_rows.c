/* Rows of VOICE_PACKS: made, changed, enabled and disabled, one at a time. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/voice_pack_rows.h"

#define NOW "2026-01-02T03:04:05.000006Z"
#define ROW_A                                                                               \
    "{\"id\":\"a\",\"name\":\"A\", \"provider\":\"azure\",\"model\":\"m\",\"voice\":\"v\"," \
    "\"ttsModelId\":\"t\",\"params\":{ \"pitch\": 5 },\"tier\":\"pro\",\"enabled\":true,"   \
    "\"createdAt\":\"2025-01-01T00:00:00Z\",\"updatedAt\":\"2025-01-01T00:00:00Z\"}"
#define ROW_B                                                                                \
    "{\"tier\":\"lite\",\"id\":\"b\",\"name\":\"B\",\"provider\":\"azure\",\"model\":\"m\"," \
    "\"voice\":\"v\",\"ttsModelId\":\"t\"}"
#define BOTH "{ \"packs\": [\n  " ROW_A ",\n  " ROW_B "\n] }\n"
#define WANTED                                                                                         \
    "\"name\":\"C\",\"provider\":\"p\",\"model\":\"m\",\"voice\":\"v\",\"ttsModelId\":\"t\",\"tier\":" \
    "\"lite\""

static struct arena *arena;
static struct entry_faults faults;
static struct span out;

static void set_up(void)
{
    arena = arena_new();
    memset(&faults, 0, sizeof(faults));
    out = span_of("", 0);
}

static void tear_down(void)
{
    arena_free(arena);
}

static int add(const char *raw, const char *wanted)
{
    return voice_packs_add(span_cstr(raw), span_cstr(wanted), "c", NOW, arena, &out, &faults);
}

static int change(const char *raw, const char *id, const char *patch)
{
    return voice_packs_change(span_cstr(raw), id, span_cstr(patch), NOW, arena, &out, &faults);
}

static const char *row(const char *id)
{
    struct span found;
    ck_assert_int_eq(voice_packs_find(out, id, arena, &found), 0);
    return arena_span(arena, found);
}

static const struct {
    const char *wanted, *row;
} made[] = {
    { "{" WANTED "}", "{\"id\":\"c\"," WANTED ",\"params\":{},\"enabled\":true,\"createdAt\":\"" NOW
                      "\",\"updatedAt\":\"" NOW "\"}" },
    { " {" WANTED ",\"enabled\":false, \"params\":{\"rate\":1.50},\"description\":\"d\"} ",
      "{\"id\":\"c\"," WANTED
      ",\"enabled\":false,\"params\":{\"rate\":1.50},\"description\":\"d\",\"createdAt\":\"" NOW
      "\",\"updatedAt\":\"" NOW "\"}" },
};

START_TEST(a_new_pack_says_what_was_wanted_and_what_is_understood)
{
    ck_assert_msg(add("", made[_i].wanted) == 0, "%s: %s", made[_i].wanted, faults.items[0].message);
    ck_assert_str_eq(row("c"), made[_i].row);
    ck_assert_int_eq(entry_check(ENTRY_VOICE_PACKS, out, arena, &faults), 0);
}
END_TEST

START_TEST(other_packs_stay_as_they_were_written)
{
    ck_assert_int_eq(add(BOTH, "{" WANTED "}"), 0);
    ck_assert(span_starts(out, "{ \"packs\": [\n  " ROW_A ",\n  " ROW_B ",\n  {\"id\":\"c\""));
    ck_assert_int_eq(change(BOTH, "b", "{\"tier\":\"pro\"}"), 0);
    ck_assert(span_starts(out, "{ \"packs\": [\n  " ROW_A ",\n  {\"tier\":\"pro\",\"id\":\"b\""));
}
END_TEST

static const struct {
    const char *wanted, *path;
} refused[] = {
    { "", "" },
    { "[]", "" },
    { "{" WANTED ",\"id\":\"mine\"}", "/id" },
    { "{" WANTED ",\"createdAt\":\"" NOW "\"}", "/createdAt" },
    { "{" WANTED ",\"updatedAt\":\"" NOW "\"}", "/updatedAt" },
    { "{" WANTED ",\"tier\":\"pro\"}", "" },
    { "{" WANTED ",\"teir\":\"pro\"}", "/teir" },
    { "{" WANTED ",\"params\":{\"rate\":5}}", "/params/rate" },
    { "{" WANTED ",\"params\":{\"pitch\":-50.5}}", "/params/pitch" },
    { "{" WANTED ",\"params\":{\"volume\":null}}", "/params/volume" },
    { "{" WANTED ",\"params\":[]}", "/params" },
    { "{" WANTED ",\"description\":null}", "/description" },
    { "{\"name\":\"C\",\"provider\":\"p\",\"model\":\"m\",\"voice\":\"v\",\"ttsModelId\":\"t\"}", "/tier" },
};

START_TEST(what_cannot_be_a_pack_is_refused_with_its_place)
{
    ck_assert_int_eq(add(BOTH, refused[_i].wanted), ERR_FORMAT);
    ck_assert_msg(faults.count == 1 && strcmp(faults.items[0].path, refused[_i].path) == 0,
                  "%s: %zu faults, %s: %s", refused[_i].wanted, faults.count, faults.items[0].path,
                  faults.items[0].message);
    ck_assert_uint_eq(out.len, 0);
}
END_TEST

START_TEST(an_id_is_given_once)
{
    ck_assert_int_eq(
        voice_packs_add(span_cstr(BOTH), span_cstr("{" WANTED "}"), "b", NOW, arena, &out, &faults),
        ERR_CONFLICT);
}
END_TEST

START_TEST(there_are_no_more_than_there_may_be)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_append_cstr(&text, "{\"packs\":[");
    for (int i = 0; i < 1000; i++)
        buf_printf(&text, "%s{\"id\":\"n%d\"," WANTED "}", i == 0 ? "" : ",", i);
    buf_append_cstr(&text, "]}");
    ck_assert_int_eq(add(arena_span(arena, buf_span(&text)), "{" WANTED "}"), ERR_LIMIT);
    buf_free(&text);
}
END_TEST

/* What a patch makes of the first pack. */
static const struct {
    const char *patch;
    const char *before, *after; /* what stands there no more, and then does; NULL: all is as it was */
} changes[] = {
    { "{\"name\":\"X\"}", "\"name\":\"A\"", "\"name\":\"X\"" },
    { "{\"description\":\"d\"}", "no description", "\"description\":\"d\"" },
    { "{\"params\":{\"rate\":2}}", "{ \"pitch\": 5 }", "\"rate\":2" },
    { "{\"params\":{\"pitch\":null}}", "\"pitch\"", "\"params\":{" },
    { "{}", NULL, NULL },
    { "{\"name\":\"A\",\"description\":null,\"params\":{\"pitch\":5}}", NULL, NULL },
};

START_TEST(a_patch_changes_what_it_says_and_the_time)
{
    ck_assert_msg(change(BOTH, "a", changes[_i].patch) == 0, "%s", changes[_i].patch);
    if (changes[_i].after == NULL) {
        ck_assert_str_eq(out.ptr, BOTH);
        return;
    }
    const char *text = row("a");
    ck_assert_msg(strstr(text, changes[_i].before) == NULL && strstr(text, changes[_i].after) != NULL, "%s",
                  text);
    ck_assert_ptr_nonnull(strstr(text, "\"updatedAt\":\"" NOW "\""));
    ck_assert_ptr_nonnull(strstr(text, "\"createdAt\":\"2025-01-01T00:00:00Z\""));
}
END_TEST

static const struct {
    const char *patch, *path;
} bad_patches[] = {
    { "[]", "" },
    { "{\"id\":\"x\"}", "/id" },
    { "{\"updatedAt\":\"x\"}", "/updatedAt" },
    { "{\"name\":null}", "/name" },
    { "{\"tier\":\"gold\"}", "/tier" },
    { "{\"params\":{\"rate\":0}}", "/params/rate" },
    { "{\"params\":null,\"enabled\":1}", "/enabled" },
};

START_TEST(a_patch_that_makes_no_pack_is_refused_with_its_place)
{
    ck_assert_int_eq(change(BOTH, "a", bad_patches[_i].patch), ERR_FORMAT);
    ck_assert_msg(faults.count == 1 && strcmp(faults.items[0].path, bad_patches[_i].path) == 0, "%s: %s",
                  bad_patches[_i].patch, faults.items[0].path);
}
END_TEST

START_TEST(a_pack_is_disabled_and_enabled_and_keeps_the_rest)
{
    struct members rows;
    ck_assert_int_eq(voice_packs_enable(span_cstr(BOTH), "a", true, NOW, arena, &out), 0);
    ck_assert_str_eq(out.ptr, BOTH);
    ck_assert_int_eq(voice_packs_enable(span_cstr(BOTH), "a", false, NOW, arena, &out), 0);
    ck_assert_ptr_nonnull(strstr(row("a"), "\"enabled\":false"));
    ck_assert_ptr_nonnull(strstr(row("a"), NOW));
    ck_assert_int_eq(voice_packs_list(out, arena, &rows), 0);
    ck_assert_uint_eq(rows.count, 2);
    ck_assert_int_eq(voice_packs_enable(out, "nobody", true, NOW, arena, &out), ERR_NOT_FOUND);
    ck_assert_int_eq(change(BOTH, "nobody", "{}"), ERR_NOT_FOUND);
}
END_TEST

START_TEST(what_somebody_broke_is_left_alone)
{
    static const char broken[] = "{\"packs\":[{\"id\":\"a\"}]}";
    struct members rows;
    struct span found;
    ck_assert_int_eq(voice_packs_list(span_cstr(broken), arena, &rows), ERR_UNSUPPORTED);
    ck_assert_int_eq(voice_packs_find(span_cstr(broken), "a", arena, &found), ERR_UNSUPPORTED);
    ck_assert_int_eq(add(broken, "{" WANTED "}"), ERR_UNSUPPORTED);
    ck_assert_int_eq(change(broken, "a", "{}"), ERR_UNSUPPORTED);
}
END_TEST

#define COUNT(rows) (int)(sizeof(rows) / sizeof((rows)[0]))

int main(void)
{
    Suite *suite = suite_create("voice_pack_rows");
    TCase *c = tcase_create("rows");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_loop_test(c, a_new_pack_says_what_was_wanted_and_what_is_understood, 0, COUNT(made));
    tcase_add_test(c, other_packs_stay_as_they_were_written);
    tcase_add_loop_test(c, what_cannot_be_a_pack_is_refused_with_its_place, 0, COUNT(refused));
    tcase_add_test(c, an_id_is_given_once);
    tcase_add_test(c, there_are_no_more_than_there_may_be);
    tcase_add_loop_test(c, a_patch_changes_what_it_says_and_the_time, 0, COUNT(changes));
    tcase_add_loop_test(c, a_patch_that_makes_no_pack_is_refused_with_its_place, 0, COUNT(bad_patches));
    tcase_add_test(c, a_pack_is_disabled_and_enabled_and_keeps_the_rest);
    tcase_add_test(c, what_somebody_broke_is_left_alone);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
