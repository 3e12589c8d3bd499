/* What a voice pack says of how to speak, in each provider's words, or refused by name. */
#include "tests/unit/adapter_driver.h"

#define COUNT(rows) (int)(sizeof(rows) / sizeof((rows)[0]))
#define ASK "{\"model\":\"x\",\"input\":\"Hi.\"}"
#define UNSET    \
    {            \
        0, false \
    }
#define IS(value)     \
    {                 \
        (value), true \
    }

static struct voice_pack_snapshot pack_of(const char *provider, const char *voice)
{
    return (struct voice_pack_snapshot){
        .pack_id = span_cstr("p"),
        .provider = span_cstr(provider),
        .voice_id = span_cstr(voice),
    };
}

#define AZURE "azure", "", "en-US-AvaNeural"
#define COSYVOICE "dashscope-cosyvoice", "{\"model\":\"cosyvoice-v3-flash\"}", "longanyang"
#define QWEN "dashscope-cosyvoice", "{\"model\":\"qwen3-tts-flash\"}", "Cherry"
#define V1 "volcengine", "{\"appid\":\"1\"}", "zh_female_x"
#define V1_OLD "volcengine", "{\"appid\":\"1\"}", "BV001"
#define V3 "volcengine", "{\"api\":\"v3\"}", "zh_female_x"
#define ELEVENLABS "elevenlabs", "", "21m00Tcm4TlvDq8ikWAM"
#define OPENAI "openai", "", "alloy"

static const struct {
    const char *adapter, *params, *voice;
    enum voice_pack_param param;
    double value;
    const char *said; /* in the body that is sent; NULL: it is refused */
} rows[] = {
    { AZURE, VOICE_PACK_PITCH, -50, " pitch=\"-50%\"" },
    { AZURE, VOICE_PACK_PITCH, 50, " pitch=\"+50%\"" },
    { AZURE, VOICE_PACK_PITCH, 50.5, NULL },
    { AZURE, VOICE_PACK_PITCH, 0, " pitch=\"+0%\"" },
    { AZURE, VOICE_PACK_VOLUME, -100, " volume=\"-100%\"" },
    { AZURE, VOICE_PACK_VOLUME, 12.25, " volume=\"+12.25%\"" },
    { AZURE, VOICE_PACK_RATE, 0.5, " rate=\"-50%\"" },
    { AZURE, VOICE_PACK_RATE, 1.1, " rate=\"+10%\"" },
    { AZURE, VOICE_PACK_RATE, 2, " rate=\"+100%\"" },
    { AZURE, VOICE_PACK_RATE, 2.01, NULL },
    { AZURE, VOICE_PACK_RATE, 0.49, NULL },
    { "azure", "{\"rate\":\"+20%\",\"pitch\":\"+2st\"}", "a", VOICE_PACK_RATE, 1,
      " rate=\"+0%\" pitch=\"+2st\"" },
    { "azure", "{\"rate\":\"+20%\",\"pitch\":\"+2st\"}", "a", VOICE_PACK_PITCH, 0,
      " rate=\"+20%\" pitch=\"+0%\"" },
    { "azure", "{\"disableSsml\":true}", "a", VOICE_PACK_PITCH, 5, NULL },
    { COSYVOICE, VOICE_PACK_PITCH, -50, "\"pitch\":0.5" },
    { COSYVOICE, VOICE_PACK_PITCH, 100, "\"pitch\":2" },
    { COSYVOICE, VOICE_PACK_VOLUME, -100, "\"volume\":0" },
    { COSYVOICE, VOICE_PACK_VOLUME, 100, "\"volume\":100" },
    { COSYVOICE, VOICE_PACK_VOLUME, 0, "\"volume\":50" },
    { COSYVOICE, VOICE_PACK_VOLUME, 1, NULL },
    { COSYVOICE, VOICE_PACK_VOLUME, -1, NULL },
    { COSYVOICE, VOICE_PACK_VOLUME, 1.5, "\"volume\":51" },
    { COSYVOICE, VOICE_PACK_VOLUME, -1.5, "\"volume\":49" },
    { COSYVOICE, VOICE_PACK_PITCH, 0, "\"pitch\":1" },
    { COSYVOICE, VOICE_PACK_PITCH, 0.0001, NULL },
    { COSYVOICE, VOICE_PACK_PITCH, 0.25, "\"pitch\":1.0025" },
    { COSYVOICE, VOICE_PACK_RATE, 0.5, "\"rate\":0.5" },
    { COSYVOICE, VOICE_PACK_RATE, 2.5, NULL },
    { QWEN, VOICE_PACK_PITCH, 0, "\"voice\":\"Cherry\"" },
    { QWEN, VOICE_PACK_PITCH, 1, NULL },
    { QWEN, VOICE_PACK_VOLUME, -1, NULL },
    { QWEN, VOICE_PACK_RATE, 1, "\"voice\":\"Cherry\"" },
    { QWEN, VOICE_PACK_RATE, 1.5, NULL },
    { V1, VOICE_PACK_PITCH, 1, NULL },
    { V1, VOICE_PACK_PITCH, 0, "\"voice_type\":\"zh_female_x\"" },
    { V1, VOICE_PACK_VOLUME, -50, "\"loudness_ratio\":0.5" },
    { V1, VOICE_PACK_VOLUME, 100, "\"loudness_ratio\":2" },
    { V1, VOICE_PACK_VOLUME, -51, NULL },
    { V1, VOICE_PACK_RATE, 0.8, "\"speed_ratio\":0.8" },
    { V1, VOICE_PACK_RATE, 0.79, NULL },
    { V1, VOICE_PACK_RATE, 2.01, NULL },
    { V1_OLD, VOICE_PACK_PITCH, -50, "\"pitch_ratio\":0.5" },
    { V1_OLD, VOICE_PACK_VOLUME, -90, "\"volume_ratio\":0.1" },
    { V1_OLD, VOICE_PACK_VOLUME, -91, NULL },
    { V1_OLD, VOICE_PACK_RATE, 3, "\"speed_ratio\":3" },
    { V1_OLD, VOICE_PACK_RATE, 3.1, NULL },
    { V3, VOICE_PACK_PITCH, 100, "{\\\"post_process\\\":{\\\"pitch\\\":12}}" },
    { V3, VOICE_PACK_PITCH, -50, "{\\\"post_process\\\":{\\\"pitch\\\":-12}}" },
    { V3, VOICE_PACK_PITCH, 6, "{\\\"post_process\\\":{\\\"pitch\\\":1}}" },
    { V3, VOICE_PACK_PITCH, -5, "{\\\"post_process\\\":{\\\"pitch\\\":-1}}" },
    { V3, VOICE_PACK_PITCH, 2, NULL },
    { V3, VOICE_PACK_PITCH, -2, NULL },
    { V3, VOICE_PACK_VOLUME, -50, "\"loudness_rate\":-50" },
    { V3, VOICE_PACK_VOLUME, -51, NULL },
    { V3, VOICE_PACK_VOLUME, 0, "\"loudness_rate\":0" },
    { V3, VOICE_PACK_VOLUME, 0.4, NULL },
    { V3, VOICE_PACK_VOLUME, -0.4, NULL },
    { V3, VOICE_PACK_VOLUME, -0.6, "\"loudness_rate\":-1" },
    { V3, VOICE_PACK_VOLUME, 10.4, "\"loudness_rate\":10" },
    { V3, VOICE_PACK_RATE, 1, "\"speaker\":\"zh_female_x\"" },
    { V3, VOICE_PACK_RATE, 1.004, NULL },
    { V3, VOICE_PACK_RATE, 0.996, NULL },
    { V3, VOICE_PACK_RATE, 0.994, "\"speech_rate\":-1" },
    { V3, VOICE_PACK_RATE, 1.504, "\"speech_rate\":50" },
    { V3, VOICE_PACK_RATE, 1.5, "\"speech_rate\":50" },
    { V3, VOICE_PACK_RATE, 2.5, NULL },
    { ELEVENLABS, VOICE_PACK_PITCH, 5, NULL },
    { ELEVENLABS, VOICE_PACK_VOLUME, 5, NULL },
    { ELEVENLABS, VOICE_PACK_RATE, 1.2, "\"speed\":1.2" },
    { ELEVENLABS, VOICE_PACK_RATE, 1.21, NULL },
    { OPENAI, VOICE_PACK_PITCH, 5, NULL },
    { OPENAI, VOICE_PACK_VOLUME, 5, NULL },
    { OPENAI, VOICE_PACK_VOLUME, 0, "\"voice\":\"alloy\"" },
    { OPENAI, VOICE_PACK_RATE, 4, "\"speed\":4" },
};

START_TEST(a_parameter_is_said_in_the_providers_words_or_refused_by_name)
{
    struct voice_pack_snapshot pack = pack_of(rows[_i].adapter, rows[_i].voice);
    struct driver d;

    pack.params[rows[_i].param] = (struct voice_pack_number)IS(rows[_i].value);
    driver_open_pack(&d, rows[_i].adapter, ASK, rows[_i].params, &pack);
    const char *place = arena_printf(d.arena, "voice_pack.params.%s", voice_pack_param_names[rows[_i].param]);
    if (rows[_i].said == NULL) {
        ck_assert_msg(d.call == NULL, "%s %s %g: sent %s", rows[_i].adapter, place, rows[_i].value,
                      d.call == NULL ? "" : driver_body(&d));
        ck_assert_msg(strcmp(d.fault.param, place) == 0 && strstr(d.fault.message, place) != NULL, "%s: %s",
                      d.fault.param, d.fault.message);
    } else {
        ck_assert_msg(d.call != NULL, "%s %s %g: %s", rows[_i].adapter, place, rows[_i].value,
                      d.fault.message);
        ck_assert_msg(strstr(driver_body(&d), rows[_i].said) != NULL, "%s %s %g: %s", rows[_i].adapter, place,
                      rows[_i].value, driver_body(&d));
    }
    driver_close(&d);
}
END_TEST

START_TEST(a_pack_of_another_provider_is_refused)
{
    struct voice_pack_snapshot pack = pack_of("azure", "alloy");
    struct driver d;
    driver_open_pack(&d, "openai", ASK, "", &pack);
    ck_assert(d.call == NULL);
    ck_assert_str_eq(d.fault.param, "voice_pack.provider");
    driver_close(&d);
}
END_TEST

/* What a caller says besides, of the same thing. */
static const struct {
    const char *adapter, *params, *voice, *extra, *param;
    enum voice_pack_param says;
} rivals[] = {
    { AZURE, "{\"pitch\":\"+2st\"}", "extra_body.pitch", VOICE_PACK_PITCH },
    { AZURE, "{\"rate\":\"+2%\"}", "extra_body.rate", VOICE_PACK_RATE },
    { COSYVOICE, "{\"volume\":50}", "extra_body.volume", VOICE_PACK_VOLUME },
    { V1, "{\"loudness_ratio\":1}", "extra_body.loudness_ratio", VOICE_PACK_VOLUME },
    { V3, "{\"pitch\":1}", "extra_body.pitch", VOICE_PACK_PITCH },
};

START_TEST(a_caller_does_not_overrule_a_pack)
{
    struct voice_pack_snapshot pack = pack_of(rivals[_i].adapter, rivals[_i].voice);
    struct driver d;
    struct arena *arena = arena_new();

    pack.params[rivals[_i].says] =
        (struct voice_pack_number)IS(rivals[_i].says == VOICE_PACK_RATE ? 1.5 : 10);
    driver_open_pack(&d, rivals[_i].adapter,
                     arena_printf(arena, "{\"input\":\"Hi.\",\"extra_body\":%s}", rivals[_i].extra),
                     rivals[_i].params, &pack);
    ck_assert_msg(d.call == NULL, "%s", rivals[_i].extra);
    ck_assert_str_eq(d.fault.param, rivals[_i].param);
    driver_close(&d);
    arena_free(arena);
}
END_TEST

/* A body for an upstream that takes the caller's own. */
static const struct {
    const char *body;
    struct voice_pack_number rate;
    const char *sent;
} bodies[] = {
    { "{\"input\":\"Hi\",\"voice_pack\":{\"a\":[1]}}", UNSET,
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"input\":\"Hi\"}" },
    { "{\"voice_pack\":{},\"input\":\"Hi\"}", IS(1.25),
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"speed\":1.25,\"input\":\"Hi\"}" },
    { "{\"input\":\"Hi\",\"extra_body\":{}, \"voice_pack\":{} }", UNSET,
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"input\":\"Hi\" }" },
    { "{\"extra_body\":{} , \"voice_pack\":{},\"input\":\"Hi\"}", UNSET,
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"input\":\"Hi\"}" },
    { "{\"voice_pack\":{},\"input\":\"Hi\",\"extra_body\":{}}", UNSET,
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"input\":\"Hi\"}" },
    { "{\"extra_body\":null,\"x\":1,\"voice_pack\":{},\"input\":\"Hi\"}", UNSET,
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"x\":1,\"input\":\"Hi\"}" },
    { "{\"model\":\"asked\",\"voice\":\"alloy\",\"speed\":1.0,\"input\":\"Hi\",\"voice_pack\":{}}", IS(1.5),
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"speed\":1.5,\"input\":\"Hi\"}" },
    { "{\"model\":\"asked\",\"voice\":\"pack\",\"speed\":null,\"input\":\"Hi\"}", IS(0.1),
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"speed\":0.1,\"input\":\"Hi\"}" },
    { "{\"model\":\"asked\",\"voice\":{\"id\":\"pack\"},\"input\":\"Hi\"}", UNSET,
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"input\":\"Hi\"}" },
    { "{\"model\":\"asked\",\"voice\":null,\"speed\":2,\"input\":\"Hi\"}", UNSET,
      "{\"model\":\"asked\",\"voice\":\"alloy\",\"speed\":2,\"input\":\"Hi\"}" },
};

START_TEST(a_body_that_goes_on_says_what_the_pack_says)
{
    struct voice_pack_snapshot pack = pack_of("openai", "alloy");
    struct driver d;

    pack.params[VOICE_PACK_RATE] = bodies[_i].rate;
    driver_open_pack(&d, "openai", bodies[_i].body, "", &pack);
    ck_assert_msg(d.call != NULL, "%s", bodies[_i].body);
    ck_assert_str_eq(driver_body(&d), bodies[_i].sent);
    driver_close(&d);
}
END_TEST

START_TEST(a_pack_that_was_not_applied_is_left_out_of_a_body)
{
    struct driver d;
    driver_open(&d, "openai", "{\"model\":\"asked\",\"voice\":\"nova\",\"input\":\"Hi\",\"voice_pack\":null}",
                "");
    ck_assert_str_eq(driver_body(&d), "{\"model\":\"asked\",\"voice\":\"nova\",\"input\":\"Hi\"}");
    driver_close(&d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adapter_voice_pack");
    TCase *c = tcase_create("packs");
    tcase_add_loop_test(c, a_parameter_is_said_in_the_providers_words_or_refused_by_name, 0, COUNT(rows));
    tcase_add_test(c, a_pack_of_another_provider_is_refused);
    tcase_add_loop_test(c, a_caller_does_not_overrule_a_pack, 0, COUNT(rivals));
    tcase_add_loop_test(c, a_body_that_goes_on_says_what_the_pack_says, 0, COUNT(bodies));
    tcase_add_test(c, a_pack_that_was_not_applied_is_left_out_of_a_body);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
