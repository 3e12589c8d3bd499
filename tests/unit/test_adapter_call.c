/* What holds for every adapter: parameters by a table, what is refused before
 * anything is sent, what audio is. With an adapter of the test's own. */
#include <check.h>
#include <stdlib.h>

#include "adapters/adapter.h"
#include "adapters/params_internal.h"
#include "core/base/arena.h"
#include "core/base/err.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const moods[] = { "calm", "happy", NULL };

enum { TEXT, NAME, MOOD, WHOLE, NUMBER, FLAG, JSON, SECRET_NAME, N_PARAMS };

static const struct adapter_param params[N_PARAMS] = {
    [TEXT] = { "text", PARAM_TEXT, PARAM_BY_BOTH, 1, 8, NULL, "A text." },
    [NAME] = { "name", PARAM_NAME, PARAM_BY_BOTH, 1, 8, NULL, "A name." },
    [MOOD] = { "mood", PARAM_CHOICE, PARAM_BY_BOTH, 0, 0, moods, "A mood." },
    [WHOLE] = { "whole", PARAM_WHOLE, PARAM_BY_BOTH, -12, 12, NULL, "A number." },
    [NUMBER] = { "number", PARAM_NUMBER, PARAM_BY_BOTH, 0.5, 2, NULL, "A number." },
    [FLAG] = { "flag", PARAM_BOOL, PARAM_BY_BOTH, 0, 0, NULL, "A flag." },
    [JSON] = { "json", PARAM_JSON, PARAM_BY_BOTH, 0, 10, NULL, "Anything." },
    [SECRET_NAME] = { "appid", PARAM_NAME, PARAM_BY_OPERATOR, 1, 8, NULL, "The operator's." },
};

static const struct adapter_format formats[] = { { "wav", "riff", "audio/wav" },
                                                 { "pcm", "raw", "audio/pcm" } };

static bool refuses;

static int check(struct adapter_call *call, struct adapter_fault *fault)
{
    return refuses ? adapter_refuse(fault, call->arena, "voice", "%s is %d", "no", 7) : 0;
}

static struct adapter adapter = {
    .name = "test",
    .params = params,
    .n_params = N_PARAMS,
    .formats = formats,
    .n_formats = COUNT(formats),
    .check = check,
};

static struct arena *arena, *scratch;
static struct adapter_fault fault;
static struct request_facts facts;
static const char *faults;

static void set_up(void)
{
    arena = arena_new();
    scratch = arena_new();
    fault = (struct adapter_fault){ 0 };
    faults = "";
    refuses = false;
    adapter.skills = 0;
    adapter.text_max = 0;
}

static void tear_down(void)
{
    arena_free(arena);
    arena_free(scratch);
}

static void on_fault(void *ctx, struct span member, const char *message)
{
    (void)ctx;
    faults = arena_printf(arena, "%s%.*s: %s\n", faults, (int)member.len, member.ptr, message);
}

static struct adapter_call *call_of(const char *body, const char *operators)
{
    struct request_fault bad = { 0 };
    ck_assert_msg(
        speech_read_request(span_cstr(body), span_cstr(dialect_speech.media_type), arena, &facts, &bad) == 0,
        "%s: %s", body, bad.message);
    struct adapter_order *order = arena_new_of(arena, struct adapter_order);
    *order = (struct adapter_order){
        .adapter = &adapter,
        .speech = facts.speech,
        .params = span_cstr(operators),
    };
    return adapter_call_new(order, arena, scratch, &fault);
}

/* ---- one value ---- */

static const struct {
    const char *object, *fault; /* NULL: none */
    unsigned row;
    const char *text;
    double number;
} values[] = {
    { "{\"text\":\"\xc3\xa4 b\"}", NULL, TEXT, "\xc3\xa4 b", 0 },
    { "{\"te\\u0078t\":\"a\"}", NULL, TEXT, "a", 0 },
    { "{\"text\":\"\"}", "text: expected a text of 1 to 8 bytes without control characters\n", 0, NULL, 0 },
    { "{\"text\":\"123456789\"}", "text: expected a text of 1 to 8 bytes without control characters\n", 0,
      NULL, 0 },
    { "{\"text\":\"a\\r\\nb\"}", "text: expected a text of 1 to 8 bytes without control characters\n", 0,
      NULL, 0 },
    { "{\"text\":\"a\\u0085\"}", "text: expected a text of 1 to 8 bytes without control characters\n", 0,
      NULL, 0 },
    { "{\"text\":\"a\\u0000\"}", "text: expected a text of 1 to 8 bytes without control characters\n", 0,
      NULL, 0 },
    { "{\"text\":7}", "text: expected a text of 1 to 8 bytes without control characters\n", 0, NULL, 0 },
    { "{\"name\":\"a-B_9/:\"}", NULL, NAME, "a-B_9/:", 0 },
    { "{\"name\":\"a b\"}", "name: expected a text of 1 to 8 visible ASCII characters\n", 0, NULL, 0 },
    { "{\"name\":\"\xc3\xa4\"}", "name: expected a text of 1 to 8 visible ASCII characters\n", 0, NULL, 0 },
    { "{\"mood\":\"h\\u0061ppy\"}", NULL, MOOD, "happy", 0 },
    { "{\"mood\":\"angry\"}", "mood: expected \"calm\" or \"happy\"\n", 0, NULL, 0 },
    { "{\"whole\":-12}", NULL, WHOLE, "-12", -12 },
    { "{\"whole\":13}", "whole: expected a whole number from -12 to 12\n", 0, NULL, 0 },
    { "{\"whole\":1.5}", "whole: expected a whole number from -12 to 12\n", 0, NULL, 0 },
    { "{\"whole\":1e1}", "whole: expected a whole number from -12 to 12\n", 0, NULL, 0 },
    { "{\"number\":1.50}", NULL, NUMBER, "1.50", 1.5 },
    { "{\"number\":2.001}", "number: expected a number from 0.5 to 2\n", 0, NULL, 0 },
    { "{\"number\":1e999}", "number: expected a number from 0.5 to 2\n", 0, NULL, 0 },
    { "{\"number\":\"1\"}", "number: expected a number from 0.5 to 2\n", 0, NULL, 0 },
    { "{\"flag\":true}", NULL, FLAG, "true", 0 },
    { "{\"flag\":0}", "flag: expected true or false\n", 0, NULL, 0 },
    { "{\"json\":{ \"a\":1 }}", NULL, JSON, "{ \"a\":1 }", 0 },
    { "{\"json\":[]}", NULL, JSON, "[]", 0 },
    { "{\"json\":[1,2,3,45]}", NULL, JSON, "[1,2,3,45]", 0 },
    { "{\"json\":[1,2,3,456]}", "json: expected an object or a list of at most 10 bytes\n", 0, NULL, 0 },
    { "{\"json\":1}", "json: expected an object or a list of at most 10 bytes\n", 0, NULL, 0 },
    { "{\"appid\":\"1\"}", NULL, SECRET_NAME, "1", 0 },
    { "{\"nobody\":1,\"flag\":1}", "nobody: test has no such parameter\nflag: expected true or false\n", 0,
      NULL, 0 },
    { "[1]", ": it is no JSON object\n", 0, NULL, 0 },
};

START_TEST(an_operators_value_is_read_by_its_row)
{
    struct adapter_value read[N_PARAMS] = { 0 };
    size_t n = adapter_params_read(&adapter, span_cstr(values[_i].object), PARAM_BY_OPERATOR, arena, read,
                                   NULL, on_fault, NULL);
    if (values[_i].fault != NULL) {
        ck_assert_str_eq(faults, values[_i].fault);
        ck_assert_uint_gt(n, 0);
        return;
    }
    const struct adapter_value *value = &read[values[_i].row];
    ck_assert_msg(n == 0 && value->is_set && !value->is_callers, "%s: %s", values[_i].object, faults);
    ck_assert_msg(span_is(value->text, values[_i].text), "%s: %.*s", values[_i].object, (int)value->text.len,
                  value->text.ptr);
    ck_assert_double_eq(value->number, values[_i].number);
}
END_TEST

START_TEST(the_rows_are_there_for_the_manual_with_those_of_every_provider_first)
{
    ck_assert_str_eq(adapter_param(&adapter, 0)->name, "model");
    ck_assert_str_eq(adapter_param(&adapter, 1)->name, "defaultVoice");
    ck_assert_str_eq(adapter_param(&adapter, 2)->name, "text");
    ck_assert_ptr_nonnull(adapter_param(&adapter, N_PARAMS + 1));
    ck_assert_ptr_null(adapter_param(&adapter, N_PARAMS + 2));
}
END_TEST

/* ---- a call ---- */

#define BODY(more) "{\"input\":\"Hi\",\"voice\":\"v\"" more "}"

START_TEST(a_callers_value_counts_where_both_say_one)
{
    const struct adapter_call *call =
        call_of(BODY(",\"extra_body\":{\"whole\":3,\"flag\":null}"),
                "{\"whole\":1,\"flag\":true,\"appid\":\"a\",\"model\":\"m\",\"defaultVoice\":\"d\"}");
    ck_assert_ptr_nonnull(call);
    ck_assert_double_eq(call->values[WHOLE].number, 3);
    ck_assert(call->values[WHOLE].is_callers);
    ck_assert(call->values[FLAG].truth && !call->values[FLAG].is_callers);
    ck_assert(span_is(call->values[SECRET_NAME].text, "a"));
    ck_assert(!call->values[TEXT].is_set);
    ck_assert(span_is(call->model, "m"));
    ck_assert(span_is(call->voice, "v"));
}
END_TEST

static const struct {
    const char *body;
    unsigned skills;
    size_t text_max;
    enum text_unit unit;
    const char *param, *message; /* NULL: it is accepted */
} orders[] = {
    { BODY(""), 0, 0, TEXT_CHARACTERS, NULL, NULL },
    { BODY(",\"extra_body\":{\"whole\":13}"), 0, 0, TEXT_CHARACTERS, "extra_body.whole",
      "`extra_body.whole`: expected a whole number from -12 to 12." },
    { BODY(",\"extra_body\":{\"whole\":13,\"flag\":7}"), 0, 0, TEXT_CHARACTERS, "extra_body.whole",
      "`extra_body.whole`: expected a whole number from -12 to 12." },
    /* what is said to somebody else */
    { BODY(",\"extra_body\":{\"airi_analytics\":{\"trigger\":\"auto\"}}"), 0, 0, TEXT_CHARACTERS, NULL,
      NULL },
    /* what is not a caller's to say */
    { BODY(",\"extra_body\":{\"appid\":\"x\"}"), 0, 0, TEXT_CHARACTERS, "extra_body.appid",
      "`extra_body.appid`: only the operator of this model may set it." },
    { BODY(",\"extra_body\":{\"a\":1,\"mod\\u0065l\":\"x\"}"), 0, 0, TEXT_CHARACTERS, "extra_body.model",
      "`extra_body.model`: only the operator of this model may set it." },
    { BODY(",\"extra_body\":{\"appid\":null,\"styleDegree\":null}"), 0, 0, TEXT_CHARACTERS, NULL, NULL },
    /* what another provider would follow; only its operator could set the second */
    { BODY(",\"extra_body\":{\"styleDegree\":1}"), 0, 0, TEXT_CHARACTERS, "extra_body.styleDegree",
      "`extra_body.styleDegree`: the provider of this model has no such parameter." },
    { BODY(",\"extra_body\":{\"resourceId\":\"x\"}"), 0, 0, TEXT_CHARACTERS, NULL, NULL },
    { BODY(",\"response_format\":\"pcm\""), 0, 0, TEXT_CHARACTERS, NULL, NULL },
    { BODY(",\"response_format\":\"mp3\""), 0, 0, TEXT_CHARACTERS, "response_format",
      "`response_format`: this model offers wav, pcm." },
    { BODY(",\"response_format\":\"riff\""), 0, 0, TEXT_CHARACTERS, "response_format",
      "`response_format`: this model offers wav, pcm." },
    { BODY(",\"speed\":1"), 0, 0, TEXT_CHARACTERS, NULL, NULL },
    { BODY(",\"speed\":1.5"), 0, 0, TEXT_CHARACTERS, "speed",
      "`speed`: this model speaks at one speed only." },
    { BODY(",\"speed\":1.5"), ADAPTER_SPEED, 0, TEXT_CHARACTERS, NULL, NULL },
    { BODY(",\"instructions\":\"\""), 0, 0, TEXT_CHARACTERS, NULL, NULL },
    { BODY(",\"instructions\":\"a\""), 0, 0, TEXT_CHARACTERS, "instructions",
      "`instructions`: this model takes none." },
    { BODY(",\"instructions\":\"a\""), ADAPTER_INSTRUCTIONS, 0, TEXT_CHARACTERS, NULL, NULL },
    { "{\"input\":\"Hi\",\"voice\":{\"id\":\"v\"}}", 0, 0, TEXT_CHARACTERS, NULL, NULL },
    { "{\"input\":\"Hi\"}", 0, 0, TEXT_CHARACTERS, "voice",
      "`voice` is missing, and this model has no default." },
    /* a, ü, 字, 😀 */
    { "{\"voice\":\"v\",\"input\":\"a\xc3\xbc\xe5\xad\x97\xf0\x9f\x98\x80\"}", 0, 4, TEXT_CHARACTERS, NULL,
      NULL },
    { "{\"voice\":\"v\",\"input\":\"a\xc3\xbc\xe5\xad\x97\xf0\x9f\x98\x80\"}", 0, 3, TEXT_CHARACTERS, "input",
      "`input` has 4; this model takes at most 3 characters." },
    { "{\"voice\":\"v\",\"input\":\"a\xc3\xbc\xe5\xad\x97\xf0\x9f\x98\x80\"}", 0, 10, TEXT_BYTES, NULL,
      NULL },
    { "{\"voice\":\"v\",\"input\":\"a\xc3\xbc\xe5\xad\x97\xf0\x9f\x98\x80\"}", 0, 9, TEXT_BYTES, "input",
      "`input` has 10; this model takes at most 9 bytes of UTF-8." },
    { "{\"voice\":\"v\",\"input\":\"a\xc3\xbc\xe5\xad\x97\xf0\x9f\x98\x80\"}", 0, 5, TEXT_HAN_TWICE, NULL,
      NULL },
    { "{\"voice\":\"v\",\"input\":\"a\xc3\xbc\xe5\xad\x97\xf0\x9f\x98\x80\"}", 0, 4, TEXT_HAN_TWICE, "input",
      "`input` has 5; this model takes at most 4 characters, of which an ideograph counts two." },
    { "{\"voice\":\"v\",\"input\":\"\xf0\xa0\x80\x80\"}", 0, 1, TEXT_HAN_TWICE, "input",
      "`input` has 2; this model takes at most 1 characters, of which an ideograph counts two." },
};

START_TEST(what_a_provider_cannot_do_is_refused_and_never_left_out)
{
    adapter.skills = orders[_i].skills;
    adapter.text_max = orders[_i].text_max;
    adapter.text_unit = orders[_i].unit;
    const struct adapter_call *call = call_of(orders[_i].body, "");
    ck_assert_msg((call != NULL) == (orders[_i].message == NULL), "%s: %s", orders[_i].body,
                  fault.message == NULL ? "accepted" : fault.message);
    ck_assert_pstr_eq(fault.param, orders[_i].param);
    ck_assert_pstr_eq(fault.message, orders[_i].message);
}
END_TEST

START_TEST(who_names_no_format_gets_the_first)
{
    ck_assert_str_eq(call_of(BODY(""), "")->format->name, "wav");
    ck_assert_str_eq(call_of(BODY(",\"response_format\":\"pcm\""), "")->format->name, "pcm");
}
END_TEST

START_TEST(the_adapter_itself_may_refuse)
{
    refuses = true;
    ck_assert_ptr_null(call_of(BODY(""), ""));
    ck_assert_str_eq(fault.param, "voice");
    ck_assert_str_eq(fault.message, "no is 7");
}
END_TEST

/* ---- what audio is ---- */

static const struct {
    const char *bytes;
    size_t len;
    const char *format, *claimed, *type;
} sounds[] = {
    { "OggS\0\2", 6, "wav", NULL, "audio/ogg" },
    { "fLaC", 4, "wav", NULL, "audio/flac" },
    { "RIFF\1\2\3\4WAVEfmt ", 16, "pcm", NULL, "audio/wav" },
    { "RIFF\1\2\3\4AVI ", 12, "pcm", NULL, "audio/pcm" },
    { "\x1a\x45\xdf\xa3", 4, "wav", NULL, "audio/webm" },
    { "#!AMR-WB\n", 9, "wav", NULL, "audio/amr" },
    { "ID3\4", 4, "wav", NULL, "audio/mpeg" },
    { "\xff\xfb\x90", 3, "wav", NULL, "audio/mpeg" },
    { "\xff\xf3\x90", 3, "wav", NULL, "audio/mpeg" },
    { "\xff\xf1\x50", 3, "wav", NULL, "audio/aac" },
    { "\xff\xf9\x50", 3, "wav", NULL, "audio/aac" },
    /* samples may look like frames */
    { "\xff\xfb\x90", 3, "pcm", NULL, "audio/pcm" },
    { "ID3\4", 4, "pcm", "audio/L16", "audio/L16" },
    /* too little to tell */
    { "R", 1, "wav", NULL, "audio/wav" },
    { "\xff", 1, "wav", "audio/mpeg", "audio/mpeg" },
    { "", 0, "wav", NULL, "audio/wav" },
    { "sound", 5, "wav", "audio/x-thing", "audio/x-thing" },
    { "OggS", 4, "wav", "audio/mpeg", "audio/ogg" },
};

START_TEST(audio_is_what_its_first_bytes_say_else_what_is_claimed)
{
    const char *body = arena_printf(arena, "{\"input\":\"Hi\",\"voice\":\"v\",\"response_format\":\"%s\"}",
                                    sounds[_i].format);
    struct adapter_call *call = call_of(body, "");
    call->type = sounds[_i].claimed;
    ck_assert_msg(
        strcmp(adapter_call_type(call, span_of(sounds[_i].bytes, sounds[_i].len)), sounds[_i].type) == 0,
        "%s as %s, claimed %s: %s", sounds[_i].bytes, sounds[_i].format, sounds[_i].claimed,
        adapter_call_type(call, span_of(sounds[_i].bytes, sounds[_i].len)));
}
END_TEST

static const struct {
    const char *claimed, *type;
} claims[] = {
    { "audio/mpeg", "audio/mpeg" },
    { "Audio/MP3 ; q=1", "audio/mpeg" },
    { "audio/x-wav", "audio/wav" },
    { "audio/sk-0123456789", NULL },
    { "application/octet-stream", NULL },
    { "", NULL },
    { ";", NULL },
};

START_TEST(a_claimed_type_is_one_of_those_that_are_known)
{
    ck_assert_pstr_eq(adapter_known_type(span_cstr(claims[_i].claimed)), claims[_i].type);
}
END_TEST

/* ---- the table ---- */

START_TEST(every_row_of_the_table_is_complete)
{
    const char *name;
    for (size_t i = 0; (name = adapter_name(i)) != NULL; i++) {
        const struct adapter *a = adapter_find(span_cstr(name));
        ck_assert_str_eq(a->name, name);
        ck_assert_msg(a->n_formats > 0 && a->n_params <= ADAPTER_PARAMS_MAX, "%s", name);
        ck_assert_msg(a->endpoint != NULL && a->begin != NULL && a->feed != NULL && a->finish != NULL &&
                          a->classify != NULL && a->system != NULL,
                      "%s", name);
        for (size_t p = 0; p < a->n_params; p++) {
            const struct adapter_param *row = &a->params[p];
            ck_assert_msg(row->name != NULL && row->doc != NULL && row->doc[strlen(row->doc) - 1] == '.',
                          "%s, parameter %zu", name, p);
            ck_assert_msg((row->kind == PARAM_CHOICE) == (row->choices != NULL), "%s.%s", name, row->name);
            ck_assert_msg(row->right != 0, "%s.%s", name, row->name);
            ck_assert_msg(strcmp(row->name, "model") != 0 && strcmp(row->name, "defaultVoice") != 0,
                          "%s.%s is every provider's", name, row->name);
        }
    }
    ck_assert_ptr_null(adapter_find(span_cstr("")));
    ck_assert_ptr_null(adapter_find(span_cstr("nobody")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adapter call");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, an_operators_value_is_read_by_its_row, 0, (int)COUNT(values));
    tcase_add_test(tests, the_rows_are_there_for_the_manual_with_those_of_every_provider_first);
    tcase_add_test(tests, a_callers_value_counts_where_both_say_one);
    tcase_add_loop_test(tests, what_a_provider_cannot_do_is_refused_and_never_left_out, 0,
                        (int)COUNT(orders));
    tcase_add_test(tests, who_names_no_format_gets_the_first);
    tcase_add_test(tests, the_adapter_itself_may_refuse);
    tcase_add_loop_test(tests, audio_is_what_its_first_bytes_say_else_what_is_claimed, 0, (int)COUNT(sounds));
    tcase_add_loop_test(tests, a_claimed_type_is_one_of_those_that_are_known, 0, (int)COUNT(claims));
    tcase_add_test(tests, every_row_of_the_table_is_complete);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
