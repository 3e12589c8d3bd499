/* The event of a request whose worker died: metrics and record say the same of it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "fcgi/in_hand.h"

static struct arena *arena;
static char dir[64];
static struct router_settings settings;
static struct router_shared shared;
static struct mapping *mapping;
static struct scoreboard_record *record;
static struct error e;

/* In the place of main.c's. */
const struct router_settings *router_settings(void)
{
    return &settings;
}

const struct spool_plan *router_spool_plan(void)
{
    return &shared.spool_plan;
}

static void set_up(void)
{
    struct request_event event;

    arena = arena_new();
    strcpy(dir, "/tmp/test_in_hand.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    settings = (struct router_settings){ .state_dir = dir, .spool_max_bytes = 1 << 20 };
    shared = (struct router_shared){ .settings = &settings };
    shared.spool_plan = (struct spool_plan){
        .state_dir = dir, .program = "llm-router", .max_bytes = 1 << 20, .shared = spool_shared_alone()
    };
    mapping = mapping_alone("llm-router", 1);
    record = &mapping->workers[0];
    scoreboard_begin_request(record);
    event_begin(&event);
    event.request_id = "id-7";
    event.endpoint = "chat/completions";
    in_hand_note(record, &event);
}

static void tear_down(void)
{
    mapping_close(mapping);
    spool_shared_close(&shared.spool_plan.shared);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

/* On all surfaces and models; 0: without a status. */
static uint64_t counted(int status)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < mapping->telemetry.n_blocks; i++) {
        const struct series_block *block = &mapping->telemetry.blocks[i];
        if (block->kind == BLOCK_MODEL)
            total += mapping->telemetry
                         .cells[block->cell + metric_offset(METRIC_REQUESTS) + metric_status(status)];
    }
    return total;
}

/* The spool, or "" while there is nothing in it. */
static const char *spooled(void)
{
    struct span raw;
    const char *path = arena_printf(arena, "%s/spool/llm-router.00000001.jsonl", dir);
    return file_read(path, 65536, arena, &raw, &e) == 0 ? raw.ptr : "";
}

static unsigned count_lines(const char *text)
{
    unsigned n = 0;
    for (const char *at = strchr(text, '{'); at != NULL && (at = strstr(at, "\n")) != NULL;
         at = strchr(at, '{'))
        n++;
    return n;
}

static void expect_event(const char *member)
{
    const char *text = spooled();
    ck_assert_msg(strstr(text, "\"end\":\"worker_died\"") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "\"request_id\":\"id-7\"") != NULL, "%s", text);
    ck_assert_msg((strstr(text, "\"status\":") != NULL) == (member != NULL), "%s", text);
    ck_assert_msg(member == NULL || strstr(text, member) != NULL, "%s is not in %s", member, text);
    ck_assert_uint_eq(count_lines(text), 1);
}

START_TEST(a_request_that_was_not_counted_is_counted_and_told_of_without_a_status)
{
    in_hand_append_death(&shared, mapping, 0, record);
    expect_event(NULL);
    ck_assert_uint_eq(counted(0), 1);
}
END_TEST

START_TEST(one_that_was_counted_and_not_told_of_is_told_of_with_the_status_it_was_counted_with)
{
    record->request.status = 200;
    record->request.is_counted = 1;
    in_hand_append_death(&shared, mapping, 0, record);
    expect_event("\"status\":200");
    ck_assert_uint_eq(counted(0), 0);
    ck_assert_uint_eq(counted(200), 0); /* the worker did */
}
END_TEST

START_TEST(one_that_was_counted_and_told_of_needs_nothing)
{
    static struct request_event event;
    struct spool spool;

    event_begin(&event);
    event.request_id = "id-7";
    event.status = 200;
    in_hand_note(record, &event);
    ck_assert_int_eq(spool_open(&shared.spool_plan, &spool, &e), 0);
    router_record(&spool, mapping, record, &event);
    spool_close(&spool);
    ck_assert_int_eq(record->request.status, 200);
    in_hand_append_death(&shared, mapping, 0, record);
    ck_assert_uint_eq(count_lines(spooled()), 1);
    ck_assert_uint_eq(counted(200), 1);
    ck_assert_uint_eq(counted(0), 0);
}
END_TEST

/* What a worker leaves of the request before must not be told of the next, which died before
 * anything was known of it: least of all its trace, in which it would be taken for the same. */
START_TEST(one_of_which_nothing_is_known_has_nothing_of_the_one_before)
{
    static const char *const members[] = { "a1b2", "/A", "B-", "owner-of-it", "model-of-it" };
    struct request_event event;

    event_begin(&event);
    memset(event.trace.trace_id, 'a', sizeof(event.trace.trace_id) - 1);
    memcpy(event.trace.trace_id, "a1b2", 4);
    memset(event.trace.span_id, 'b', sizeof(event.trace.span_id) - 1);
    memcpy(event.trace.span_id, "a1b2", 4);
    memset(event.trace.parent_span_id, 'c', sizeof(event.trace.parent_span_id) - 1);
    memcpy(event.trace.parent_span_id, "a1b2", 4);
    snprintf(event.id, sizeof(event.id), "%s", "a1b2a1b2-0000-7000-8000-000000000000");
    event.request_id = "B-1";
    event.mount = event.endpoint = "/A";
    event.key_id = event.remote_user = "owner-of-it";
    event.model = span_cstr("model-of-it");
    in_hand_note(record, &event);
    scoreboard_begin_request(record);
    in_hand_append_death(&shared, mapping, 0, record);
    const char *text = spooled();
    ck_assert_msg(strstr(text, "\"end\":\"worker_died\"") != NULL, "%s", text);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        ck_assert_msg(strstr(text, members[i]) == NULL, "%s is in %s", members[i], text);
    ck_assert_uint_eq(count_lines(text), 1);
    ck_assert_uint_eq(counted(0), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("in_hand");
    TCase *tcase = tcase_create("in_hand");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_request_that_was_not_counted_is_counted_and_told_of_without_a_status);
    tcase_add_test(tcase,
                   one_that_was_counted_and_not_told_of_is_told_of_with_the_status_it_was_counted_with);
    tcase_add_test(tcase, one_that_was_counted_and_told_of_needs_nothing);
    tcase_add_test(tcase, one_of_which_nothing_is_known_has_nothing_of_the_one_before);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
