/* Token counts in the shapes that providers write them. */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/record/usage.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { NONE = -1 };

static void expect(const char *object, const struct usage *u, const struct usage *expected)
{
    ck_assert_msg(u->present == expected->present && u->input == expected->input &&
                      u->output == expected->output && u->cached_read == expected->cached_read &&
                      u->cached_write == expected->cached_write && u->reasoning == expected->reasoning &&
                      u->audio_in == expected->audio_in && u->audio_out == expected->audio_out &&
                      u->audio_ms == expected->audio_ms,
                  "%s: present %d input %" PRId64 " output %" PRId64 " cached %" PRId64 "/%" PRId64
                  " reasoning %" PRId64 " audio %" PRId64 "/%" PRId64 " audio_ms %" PRId64,
                  object, u->present, u->input, u->output, u->cached_read, u->cached_write, u->reasoning,
                  u->audio_in, u->audio_out, u->audio_ms);
}

static const struct {
    const char *object;
    struct usage usage;
} objects[] = {
    { "{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3}",
      { true, 1, 2, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"input_tokens\":1,\"output_tokens\":2}", { true, 1, 2, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":0,\"completion_tokens\":0}", { true, 0, 0, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":5}", { true, 5, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":9000000000000,\"completion_tokens\":2}",
      { true, 9000000000000, 2, NONE, NONE, NONE, NONE, NONE, NONE } },
    /* cached: one place per provider; where both stand, OpenAI's */
    { "{\"cached_tokens\":3}", { true, NONE, NONE, 3, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_cache_hit_tokens\":3,\"prompt_cache_miss_tokens\":9}",
      { true, NONE, NONE, 3, NONE, NONE, NONE, NONE, NONE } },
    { "{\"cache_read_input_tokens\":3,\"cache_creation_input_tokens\":4}",
      { true, NONE, NONE, 3, 4, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens_details\":{\"cached_tokens\":3,\"audio_tokens\":6}}",
      { true, NONE, NONE, 3, NONE, NONE, 6, NONE, NONE } },
    { "{\"prompt_tokens_details\":{\"cached_tokens\":3},\"prompt_cache_hit_tokens\":2,\"cached_tokens\":1}",
      { true, NONE, NONE, 3, NONE, NONE, NONE, NONE, NONE } },
    { "{\"completion_tokens_details\":{\"reasoning_tokens\":7,\"audio_tokens\":8}}",
      { true, NONE, NONE, NONE, NONE, 7, NONE, 8, NONE } },
    { "{\"prompt_tokens\":1,\"prompt_tokens_details\":null,\"completion_tokens_details\":null}",
      { true, 1, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"type\":\"tokens\",\"input_tokens\":14,\"input_token_details\":{\"text_tokens\":4,\"audio_tokens\":"
      "10},"
      "\"output_tokens\":45,\"total_tokens\":59}",
      { true, 14, 45, NONE, NONE, NONE, 10, NONE, NONE } },
    /* a length of audio, rounded to milliseconds */
    { "{\"type\":\"duration\",\"seconds\":9}", { true, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 9000 } },
    { "{\"seconds\":3.1416}", { true, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 3142 } },
    { "{\"seconds\":0}", { true, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 0 } },
    { "{\"seconds\":2e2}", { true, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 200000 } },
    { "{\"seconds\":-1}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"seconds\":1e300}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"seconds\":\"9\"}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    /* no counts */
    { "{}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"total_tokens\":3,\"cost\":0.1}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":null}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":\"1\"}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":-1}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":1.0}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":99999999999999999999}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"details\":{\"prompt_tokens\":1}}", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "{\"prompt_tokens\":1", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
    { "7", { false, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE } },
};

START_TEST(counts_are_read_from_every_shape_and_from_nothing_else)
{
    struct usage usage;
    usage_init(&usage);
    usage_read(span_cstr(objects[_i].object), &usage);
    expect(objects[_i].object, &usage, &objects[_i].usage);
}
END_TEST

START_TEST(later_counts_replace_earlier_ones_and_leave_the_others)
{
    static const struct usage expected = { true, 10, 7, 4, NONE, NONE, NONE, NONE, NONE };
    struct usage usage;
    usage_init(&usage);
    usage_read(span_cstr("{\"prompt_tokens\":10,\"completion_tokens\":1,\"cached_tokens\":4}"), &usage);
    usage_read(span_cstr("{\"completion_tokens\":7}"), &usage);
    usage_read(span_cstr("{}"), &usage);
    expect("three objects", &usage, &expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("usage");
    TCase *tcase = tcase_create("counts");
    tcase_add_loop_test(tcase, counts_are_read_from_every_shape_and_from_nothing_else, 0,
                        (int)COUNT(objects));
    tcase_add_test(tcase, later_counts_replace_earlier_ones_and_leave_the_others);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
