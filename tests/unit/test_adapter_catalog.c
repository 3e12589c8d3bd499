/* Adapters and catalogs of voices: one knows the models of the other, and takes its voices. */
#include "tests/unit/adapter_driver.h"

#include "core/json/scan.h"
#include "core/voices/catalog.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    const char *adapter, *params, *model;
} rows[] = {
    { "azure", "", "v1" },
    { "azure", "{\"locale\":\"de-DE\"}", "v1" },
    { "azure", "{\"deploymentId\":\"mine\"}", "" },
    { "dashscope-cosyvoice", "", "asked" },
    { "dashscope-cosyvoice", "{\"model\":\"cosyvoice-v2\"}", "cosyvoice-v2" },
    { "volcengine", "{\"appid\":\"1\"}", "v1" },
    { "volcengine", "{\"appid\":\"1\",\"resourceId\":\"seed-tts-2.0\"}", "v1" },
    { "volcengine", "{\"api\":\"v3\"}", "seed-tts-1.0;seed-tts-2.0" },
    { "volcengine", "{\"api\":\"v3\",\"resourceId\":\"seed-tts-2.0\"}", "seed-tts-2.0" },
    { "volcengine", "{\"api\":\"v3\",\"resourceId\":\"seed-tts-1.0-concurr\"}", "seed-tts-1.0" },
    { "volcengine", "{\"api\":\"v3\",\"resourceId\":\"volc.service_type.10029\"}", "seed-tts-1.0" },
    { "volcengine", "{\"api\":\"v3\",\"resourceId\":\"volc.service_type.10048\"}", "seed-tts-1.0" },
    { "volcengine", "{\"api\":\"v3\",\"resourceId\":\"seed-icl-2.0\"}", "seed-icl-2.0" },
    { "openai", "", "asked" },
    { "openai", "{\"model\":\"tts-1\"}", "tts-1" },
};

START_TEST(an_upstream_has_the_model_that_its_parameters_say)
{
    struct arena *arena = arena_new();
    struct span model = adapter_catalog_model(adapter_find(span_cstr(rows[_i].adapter)), span_cstr("asked"),
                                              span_cstr(rows[_i].params), arena);
    ck_assert_msg(span_is(model, rows[_i].model), "%s %s: \"%.*s\"", rows[_i].adapter, rows[_i].params,
                  (int)model.len, model.ptr);
    arena_free(arena);
}
END_TEST

START_TEST(an_adapter_that_names_a_catalog_has_one)
{
    size_t n = 0;
    for (size_t i = 0; adapter_name(i) != NULL; i++) {
        const struct adapter *adapter = adapter_find(span_cstr(adapter_name(i)));
        n += adapter->catalog != NULL;
        if (adapter->catalog != NULL)
            ck_assert_msg(voice_catalog_find(span_cstr(adapter->catalog)) != NULL, "%s", adapter->name);
    }
    ck_assert_uint_eq(n, 4);
}
END_TEST

/* One upstream per model of a catalog; parameters that it needs. */
static const struct {
    const char *adapter, *params;
} upstreams[] = {
    { "azure", "" },
    { "dashscope-cosyvoice", "{\"model\":\"cosyvoice-v2\"}" },
    { "dashscope-cosyvoice", "{\"model\":\"cosyvoice-v3-flash\"}" },
    { "dashscope-cosyvoice", "{\"model\":\"qwen3-tts-flash\"}" },
    { "volcengine", "{\"appid\":\"1\"}" },
    { "volcengine", "{\"api\":\"v3\"}" },
    { "openai", "{\"model\":\"gpt-4o-mini-tts\"}" },
};

struct asked {
    const char *adapter, *params;
    size_t n;
};

static int ask_for(void *ctx, const struct json_value *id)
{
    struct asked *asked = ctx;
    struct driver d;
    struct buf body;

    buf_init(&body, 1024);
    buf_printf(&body, "{\"input\":\"Hi\",\"voice\":%.*s}", (int)id->raw.len, id->raw.ptr);
    buf_append_char(&body, '\0');
    driver_open(&d, asked->adapter, body.data, asked->params);
    ck_assert_msg(d.call != NULL, "%s %s %s: %s", asked->adapter, asked->params, body.data, d.fault.message);
    driver_close(&d);
    buf_free(&body);
    asked->n++;
    return 0;
}

START_TEST(every_voice_that_is_listed_can_be_asked_for)
{
    static const struct json_want ids = { "*.id", true };
    const struct adapter *adapter = adapter_find(span_cstr(upstreams[_i].adapter));
    struct arena *arena = arena_new();
    struct span model =
        adapter_catalog_model(adapter, span_cstr("asked"), span_cstr(upstreams[_i].params), arena);
    struct voice_filter filter = { .models = &model, .n_models = 1 };
    struct asked asked = { upstreams[_i].adapter, upstreams[_i].params, 0 };
    struct voice_selection selection;
    struct voice_cursor cursor = { 0 };
    struct span pieces[64];
    struct buf list;
    size_t n;

    voice_select(voice_catalog_find(span_cstr(adapter->catalog)), &filter, &selection);
    buf_init(&list, selection.bytes + 2);
    buf_append_char(&list, '[');
    while ((n = voice_selection_read(&selection, &cursor, pieces, COUNT(pieces))) > 0)
        for (size_t i = 0; i < n; i++)
            buf_append_span(&list, pieces[i]);
    buf_append_char(&list, ']');
    ck_assert_int_eq(json_scan(buf_span(&list), &ids, 1, 0, ask_for, &asked, NULL), 0);
    ck_assert_uint_eq(asked.n, selection.count);
    ck_assert_uint_gt(asked.n, 0);
    buf_free(&list);
    arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adapter catalog");
    TCase *tcase = tcase_create("catalog");
    tcase_add_loop_test(tcase, an_upstream_has_the_model_that_its_parameters_say, 0, (int)COUNT(rows));
    tcase_add_test(tcase, an_adapter_that_names_a_catalog_has_one);
    tcase_add_loop_test(tcase, every_voice_that_is_listed_can_be_asked_for, 0, (int)COUNT(upstreams));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
