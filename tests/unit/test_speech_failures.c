/*
 * What providers of speech say when they fail, mostly in their own words: the rows
 * of tests/data/speech_failures.json. Run from the repository's root.
 */
#include <check.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/adapter.h"
#include "adapters/failure.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char data_path[] = "tests/data/speech_failures.json";

static const char *const class_names[] = {
    [ADAPTER_UNKNOWN] = "unknown", [ADAPTER_AUTH] = "auth",     [ADAPTER_QUOTA] = "quota",
    [ADAPTER_RATE] = "rate",       [ADAPTER_SERVER] = "server", [ADAPTER_CONFIG] = "config",
    [ADAPTER_CLIENT] = "client",
};

static struct arena *arena;
static struct json_object *failures;

static void set_up(void)
{
    arena = arena_new();
    failures = json_object_from_file(data_path);
    ck_assert_msg(json_object_is_type(failures, json_type_array), "%s is no JSON array", data_path);
}

static void tear_down(void)
{
    json_object_put(failures);
    arena_free(arena);
}

static struct span member(struct json_object *object, const char *name)
{
    struct json_object *value;
    if (!json_object_object_get_ex(object, name, &value))
        return span_of(NULL, 0);
    return span_of(json_object_get_string(value), (size_t)json_object_get_string_len(value));
}

static struct adapter_failure failure_of(struct json_object *row)
{
    return (struct adapter_failure){
        .status = json_object_get_int(json_object_object_get(row, "status")),
        .reason = member(row, "reason"),
        .content_type = member(row, "content_type"),
        .body = member(row, "body"),
    };
}

static const struct adapter *adapter_of(struct json_object *row)
{
    const struct adapter *adapter = adapter_find(member(row, "provider"));
    ck_assert_msg(adapter != NULL, "no adapter %s", member(row, "provider").ptr);
    return adapter;
}

START_TEST(every_failure_of_the_data_gets_its_class_and_names_the_member_at_fault)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < json_object_array_length(failures); i++) {
        struct json_object *row = json_object_array_get_idx(failures, i), *message;
        const struct adapter_failure failure = failure_of(row);
        struct adapter_opinion o;
        adapter_classify(adapter_of(row), &failure, arena, &o);
        bool has_message = json_object_object_get_ex(row, "message", &message);
        if (span_is(member(row, "class"), class_names[o.class]) &&
            span_eq(member(row, "param"), span_cstr(o.param)) && span_eq(member(row, "code"), o.code) &&
            (!has_message || span_eq(member(row, "message"), o.message)) &&
            (o.class == ADAPTER_UNKNOWN) == (o.rule == NULL))
            continue;
        wrong++;
        fprintf(stderr, "%s, %s: expected %s, found %s by %s, param %s, code %.*s, message %.*s\n",
                member(row, "provider").ptr, member(row, "name").ptr, member(row, "class").ptr,
                class_names[o.class], o.rule == NULL ? "none" : o.rule, o.param == NULL ? "none" : o.param,
                (int)o.code.len, o.code.ptr, (int)o.message.len, o.message.ptr);
    }
    ck_assert_msg(wrong == 0, "%u failures are judged otherwise", wrong);
}
END_TEST

START_TEST(a_body_that_is_cut_anywhere_is_judged_by_what_came)
{
    for (size_t i = 0; i < json_object_array_length(failures); i++) {
        struct json_object *row = json_object_array_get_idx(failures, i);
        struct adapter_failure failure = failure_of(row);
        struct span body = failure.body;
        struct adapter_opinion whole, o;
        adapter_classify(adapter_of(row), &failure, arena, &whole);
        for (size_t len = 0; len < body.len; len++) {
            /* In memory of its own, so that a read beyond it is seen. */
            char *copy = xmalloc(len + 1);
            memcpy(copy, body.ptr, len);
            failure.body = span_of(copy, len);
            adapter_classify(adapter_of(row), &failure, arena, &o);
            bool has_all = len + 1 == body.len && body.ptr[len] == '}';
            ck_assert_msg((o.class == ADAPTER_UNKNOWN) == (o.rule == NULL) &&
                              (!has_all || o.class == whole.class),
                          "%s cut at %zu: %s", member(row, "name").ptr, len, class_names[o.class]);
            free(copy);
        }
    }
}
END_TEST

/* --- the table's own rules --- */

static const struct failure_rule RULES[] = {
    { .phrase = "no money", .class = ADAPTER_QUOTA },
    { .code = "Slow*", .class = ADAPTER_RATE },
    { .code = "Slow", .class = ADAPTER_AUTH }, /* never reached */
    { .status = 400, .code = "Bad", .class = ADAPTER_CLIENT, .param = "voice" },
    { .status = 500, .last_status = 599, .class = ADAPTER_SERVER },
};

static const struct {
    int status;
    const char *code, *message;
    enum adapter_class class;
    const char *rule;
} FACTS[] = {
    { 400, "Slow", "There is No Money left", ADAPTER_QUOTA, "phrase:no money" },
    { 400, "Slow", "", ADAPTER_RATE, "code:Slow*" },
    { 400, "SlowDown", "", ADAPTER_RATE, "code:Slow*" },
    { 400, "slow", "", ADAPTER_UNKNOWN, NULL },
    { 400, "Bad", "", ADAPTER_CLIENT, "code:Bad" },
    { 401, "Bad", "", ADAPTER_UNKNOWN, NULL },
    { 599, "", "", ADAPTER_SERVER, "status" },
    { 600, "", "", ADAPTER_UNKNOWN, NULL },
    /* What is quoted may be a caller's. */
    { 400, "", "voice \"no money\" is unknown", ADAPTER_UNKNOWN, NULL },
    { 400, "", "voice 'x' no money 'y' is unknown", ADAPTER_UNKNOWN, NULL },
    { 400, "", "voice (`no money`) is unknown", ADAPTER_UNKNOWN, NULL },
    { 400, "", "you don't have it: no money", ADAPTER_QUOTA, "phrase:no money" },
    { 400, "", "an open \" quote: no money", ADAPTER_QUOTA, "phrase:no money" },
};

START_TEST(the_first_rule_that_fits_decides)
{
    const struct failure_facts facts = { FACTS[_i].status, span_cstr(FACTS[_i].code),
                                         span_cstr(FACTS[_i].message) };
    struct adapter_opinion o = { .class = ADAPTER_UNKNOWN };
    failure_judge(RULES, COUNT(RULES), &facts, arena, &o);
    ck_assert_msg(o.class == FACTS[_i].class, "%d %s %s: expected %s, found %s", FACTS[_i].status,
                  FACTS[_i].code, FACTS[_i].message, class_names[FACTS[_i].class], class_names[o.class]);
    ck_assert_pstr_eq(o.rule, FACTS[_i].rule);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("speech failures");
    TCase *tests = tcase_create("failures");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, every_failure_of_the_data_gets_its_class_and_names_the_member_at_fault);
    tcase_add_test(tests, a_body_that_is_cut_anywhere_is_judged_by_what_came);
    tcase_add_loop_test(tests, the_first_rule_that_fits_decides, 0, (int)COUNT(FACTS));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
