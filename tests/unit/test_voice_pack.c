/* Snapshots of voice packs: written with a tag, read only as they were written. And its key. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/crypto/digest.h"
#include "core/json/scan.h"
#include "core/packs/tag_key.h"
#include "core/packs/voice_pack.h"

static struct arena *arena;
static struct voice_pack_fault fault;
static struct voice_pack_snapshot out;
static struct span tag_key;

static const struct voice_pack_snapshot sample = {
    .pack_id = { "p", 1 },
    .name = { "N\xc3\xa9", 3 },
    .provider = { "azure", 5 },
    .model = { "m", 1 },
    .voice_id = { "v", 1 },
    .tier = { "pro", 3 },
    .tts_model_id = { "t", 1 },
    .params = { [VOICE_PACK_PITCH] = { -5, true }, [VOICE_PACK_RATE] = { 1.1, true } },
};

#define TAG "v1.FeN_aokKEd5VcAPiSXIIKDmnn7kbLhTBrYD1gPQJsos"
#define MEMBERS                                                                       \
    "\"packId\":\"p\",\"name\":\"N\xc3\xa9\",\"provider\":\"azure\",\"model\":\"m\"," \
    "\"voiceId\":\"v\",\"tier\":\"pro\",\"ttsModelId\":\"t\""
#define WRITTEN "{" MEMBERS ",\"params\":{\"pitch\":-5,\"rate\":1.1},\"tag\":\"" TAG "\"}"

static void set_up(void)
{
    arena = arena_new();
    char *key = arena_alloc(arena, TAG_KEY_BYTES);
    for (int i = 0; i < TAG_KEY_BYTES; i++)
        key[i] = (char)i;
    tag_key = span_of(key, TAG_KEY_BYTES);
    fault = (struct voice_pack_fault){ NULL, NULL };
    out = (struct voice_pack_snapshot){ .pack_id = { "untouched", 9 } };
}

static void tear_down(void)
{
    arena_free(arena);
}

static const char *write(const struct voice_pack_snapshot *snapshot)
{
    struct json_writer w;
    struct buf text;
    buf_init(&text, 64 * 1024);
    jw_init(&w, &text);
    voice_pack_write_snapshot(snapshot, tag_key, &w);
    const char *copy = arena_span(arena, buf_span(&text));
    buf_free(&text);
    return copy;
}

static int read_text(const char *text)
{
    return voice_pack_read_snapshot(span_cstr(text), tag_key, arena, &out, &fault);
}

/* The tag is HMAC-SHA256 by the key 0, 1, … 31 of
 * ["llm-router voice pack v1","p","Né","azure","m","v","pro","t",-5,null,1.1] */
START_TEST(a_snapshot_is_written_with_a_tag_that_anybody_with_the_key_can_make)
{
    ck_assert_str_eq(write(&sample), WRITTEN);
}
END_TEST

START_TEST(what_was_written_is_read_again)
{
    ck_assert_msg(read_text(WRITTEN) == 0, "%s", fault.message);
    ck_assert(span_is(out.pack_id, "p") && span_is(out.name, "N\xc3\xa9") && span_is(out.provider, "azure") &&
              span_is(out.model, "m") && span_is(out.voice_id, "v") && span_is(out.tier, "pro") &&
              span_is(out.tts_model_id, "t"));
    ck_assert(out.params[VOICE_PACK_PITCH].is_set && !out.params[VOICE_PACK_VOLUME].is_set);
    ck_assert_double_eq(out.params[VOICE_PACK_PITCH].value, -5);
    ck_assert_double_eq(out.params[VOICE_PACK_RATE].value, 1.1);
}
END_TEST

/* The same in other words. */
static const char *const spellings[] = {
    "{ \"tag\":\"" TAG "\" , \"params\" : { \"rate\":1.10, \"pitch\":-5.0 },\n" MEMBERS "}",
    "{\"tag\":\"" TAG "\",\"params\":{\"rate\":11e-1,\"pitch\":-0.5e1}," MEMBERS "}",
    "{\"params\":{\"pitch\":-5,\"rate\":1.1},\"n\\u0061me\":\"N\\u00e9\",\"packId\":\"\\u0070\","
    "\"provider\":\"azure\",\"model\":\"m\",\"voiceId\":\"v\",\"tier\":\"pro\",\"ttsModelId\":\"t\","
    "\"tag\":\"" TAG "\"}",
};

START_TEST(a_snapshot_may_be_written_in_any_way_that_says_the_same)
{
    ck_assert_msg(read_text(spellings[_i]) == 0, "%s: %s", spellings[_i], fault.message);
}
END_TEST

static const char *const numbers[] = { "0",      "-50",    "0.1", "1.1", "100", "0.30000000000000004",
                                       "1e+300", "2.5e-09" };

START_TEST(a_number_is_written_as_shortly_as_it_can_be_read_again)
{
    char text[VOICE_PACK_NUMBER_BYTES];
    voice_pack_write_number(strtod(numbers[_i], NULL), text);
    ck_assert_str_eq(text, numbers[_i]);
}
END_TEST

/* What a snapshot says in another of its places, each as far as a tamperer gets with the tag of the first. */
static const struct {
    size_t text; /* offset of the text that is another; SIZE_MAX: a parameter is */
    enum voice_pack_param param;
    struct voice_pack_number number;
} tampered[] = {
    { offsetof(struct voice_pack_snapshot, pack_id), 0, { 0, false } },
    { offsetof(struct voice_pack_snapshot, name), 0, { 0, false } },
    { offsetof(struct voice_pack_snapshot, provider), 0, { 0, false } },
    { offsetof(struct voice_pack_snapshot, model), 0, { 0, false } },
    { offsetof(struct voice_pack_snapshot, voice_id), 0, { 0, false } },
    { offsetof(struct voice_pack_snapshot, tier), 0, { 0, false } },
    { offsetof(struct voice_pack_snapshot, tts_model_id), 0, { 0, false } },
    { SIZE_MAX, VOICE_PACK_PITCH, { -5.000000000000001, true } },
    { SIZE_MAX, VOICE_PACK_PITCH, { 5, true } },
    { SIZE_MAX, VOICE_PACK_PITCH, { 0, false } },
    { SIZE_MAX, VOICE_PACK_VOLUME, { 0, true } },
    { SIZE_MAX, VOICE_PACK_VOLUME, { -5, true } },
    { SIZE_MAX, VOICE_PACK_RATE, { 1.2, true } },
    { SIZE_MAX, VOICE_PACK_RATE, { 0, false } },
};

START_TEST(no_member_can_be_changed)
{
    struct voice_pack_snapshot snapshot = sample;
    if (tampered[_i].text != SIZE_MAX)
        *(struct span *)(void *)((char *)&snapshot + tampered[_i].text) = span_cstr("x");
    else
        snapshot.params[tampered[_i].param] = tampered[_i].number;
    const char *text = write(&snapshot);
    const char *tag = strstr(text, "\"tag\""), *other = strstr(write(&sample), "\"tag\"");
    ck_assert_msg(read_text(text) == 0, "%s", fault.message);
    ck_assert_str_ne(tag, other);
    out.pack_id = span_cstr("untouched");
    text = arena_printf(arena, "%.*s%s", (int)(tag - text), text, other);
    ck_assert_msg(read_text(text) == ERR_CRYPTO, "%s", text);
    ck_assert_str_eq(fault.param, "voice_pack.tag");
    ck_assert(span_is(out.pack_id, "untouched"));
}
END_TEST

START_TEST(texts_cannot_move_from_one_member_to_the_next)
{
    struct voice_pack_snapshot one = sample, two = sample;
    one.pack_id = span_cstr("a\",\"b");
    one.name = span_cstr("c");
    two.pack_id = span_cstr("a");
    two.name = span_cstr("b\",\"c");
    ck_assert_str_ne(strstr(write(&one), "\"tag\""), strstr(write(&two), "\"tag\""));
}
END_TEST

START_TEST(another_key_makes_another_tag)
{
    char *other = arena_span(arena, tag_key);
    other[31] ^= 1;
    tag_key = span_of(other, TAG_KEY_BYTES);
    ck_assert_int_eq(read_text(WRITTEN), ERR_CRYPTO);
}
END_TEST

static const struct {
    const char *text, *param, *message;
} refused[] = {
    { "[]", "voice_pack", "must be an object" },
    { "{}", "voice_pack.tag", "is missing" },
    { "{" MEMBERS ",\"params\":{}}", "voice_pack.tag", "is missing" },
    { "{" MEMBERS ",\"tag\":\"x\"}", "voice_pack.params", "is missing" },
    { "{\"params\":{},\"tag\":\"x\"}", "voice_pack.packId", "is missing" },
    { "{" MEMBERS ",\"params\":{},\"tag\":7}", "voice_pack.tag", "must be a string" },
    { "{" MEMBERS ",\"params\":{},\"tag\":\"\"}", "voice_pack.tag", "is empty or too long" },
    { "{" MEMBERS ",\"params\":[],\"tag\":\"x\"}", "voice_pack.params", "must be an object" },
    { "{" MEMBERS ",\"params\":{\"rate\":\"1\"},\"tag\":\"x\"}", "voice_pack.params.rate",
      "must be a number" },
    { "{" MEMBERS ",\"params\":{\"rate\":null},\"tag\":\"x\"}", "voice_pack.params.rate",
      "must be a number" },
    { "{" MEMBERS ",\"params\":{\"rate\":1e999},\"tag\":\"x\"}", "voice_pack.params.rate",
      "must be a number" },
    { "{" MEMBERS ",\"params\":{\"speed\":1},\"tag\":\"x\"}", "voice_pack.params.speed", "is not a member" },
    { "{" MEMBERS ",\"params\":{},\"tag\":\"x\",\"cost\":1}", "voice_pack.cost", "is not a member" },
    { "{" MEMBERS ",\"params\":{},\"tag\":\"x\",\"tier\":\"lite\"}", "voice_pack", "has a member twice" },
    { "{" MEMBERS ",\"params\":{\"rate\":1,\"r\\u0061te\":2},\"tag\":\"x\"}", "voice_pack",
      "has a member twice" },
};

START_TEST(what_is_no_snapshot_is_refused_with_its_place)
{
    ck_assert_int_eq(read_text(refused[_i].text), ERR_FORMAT);
    ck_assert_msg(strcmp(fault.param, refused[_i].param) == 0 &&
                      strstr(fault.message, refused[_i].message) != NULL,
                  "%s: %s: %s", refused[_i].text, fault.param, fault.message);
    ck_assert(span_is(out.pack_id, "untouched"));
}
END_TEST

START_TEST(only_what_changes_nothing_is_usual)
{
    ck_assert(voice_pack_is_usual(VOICE_PACK_PITCH, 0) && !voice_pack_is_usual(VOICE_PACK_PITCH, 1));
    ck_assert(voice_pack_is_usual(VOICE_PACK_VOLUME, 0) && !voice_pack_is_usual(VOICE_PACK_VOLUME, -0.1));
    ck_assert(voice_pack_is_usual(VOICE_PACK_RATE, 1) && !voice_pack_is_usual(VOICE_PACK_RATE, 0));
}
END_TEST

/* ---- the key ---- */

static struct envelope_keys keys_of(const char *current, const char *previous)
{
    struct envelope_keys keys;
    struct error e;
    ck_assert_int_eq(envelope_keys_derive(&keys, span_cstr(current), span_cstr(previous), &e), 0);
    return keys;
}

#define MASTER_A "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define MASTER_B "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="

/* The ciphertext in the entry. */
static struct span ciphertext_of(struct span entry)
{
    static const struct json_want want = { "ciphertext", true };
    struct json_value found;
    ck_assert_int_eq(json_find(entry, &want, 1, 0, &found, NULL), 0);
    return json_decode(arena, found.raw);
}

START_TEST(a_key_of_tags_opens_with_the_master_key_it_was_made_with)
{
    struct envelope_keys a = keys_of(MASTER_A, NULL), b = keys_of(MASTER_B, NULL),
                         both = keys_of(MASTER_B, MASTER_A);
    struct span entry, other;
    struct secret secret, again;
    struct error e;

    ck_assert_int_eq(tag_key_make(&a, arena, &entry, &e), 0);
    ck_assert_int_eq(tag_key_make(&a, arena, &other, &e), 0);
    ck_assert_int_eq(tag_key_open(&a, ciphertext_of(entry), &secret, &e), 0);
    ck_assert_uint_eq(secret.len, TAG_KEY_BYTES);
    ck_assert_int_eq(tag_key_open(&both, ciphertext_of(entry), &again, &e), 0);
    ck_assert_mem_eq(secret.bytes, again.bytes, TAG_KEY_BYTES);
    ck_assert_int_eq(tag_key_open(&a, ciphertext_of(other), &again, &e), 0);
    ck_assert_mem_ne(secret.bytes, again.bytes, TAG_KEY_BYTES);
    ck_assert_int_eq(tag_key_open(&b, ciphertext_of(entry), &again, &e), ERR_CRYPTO);
    ck_assert_uint_eq(again.len, 0);
    ck_assert_int_eq(tag_key_open(&a, span_cstr("v1.x"), &again, &e), ERR_FORMAT);
}
END_TEST

START_TEST(what_is_encrypted_for_another_place_or_of_another_length_is_no_key_of_tags)
{
    struct envelope_keys keys = keys_of(MASTER_A, NULL);
    struct secret secret;
    struct error e;
    char *text;

    ck_assert_int_eq(envelope_encrypt(&keys, tag_key, span_cstr("m|k"), arena, &text, &e), 0);
    ck_assert_int_eq(tag_key_open(&keys, span_cstr(text), &secret, &e), ERR_CRYPTO);
    ck_assert_int_eq(envelope_encrypt(&keys, span_of(tag_key.ptr, 31), tag_key_aad(), arena, &text, &e), 0);
    ck_assert_int_eq(tag_key_open(&keys, span_cstr(text), &secret, &e), ERR_CRYPTO);
    ck_assert_uint_eq(secret.len, 0);
    ck_assert_ptr_null(memchr(tag_key_aad().ptr, '|', tag_key_aad().len));
}
END_TEST

#define COUNT(rows) (int)(sizeof(rows) / sizeof((rows)[0]))

int main(void)
{
    Suite *suite = suite_create("voice_pack");
    TCase *c = tcase_create("snapshot");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, a_snapshot_is_written_with_a_tag_that_anybody_with_the_key_can_make);
    tcase_add_test(c, what_was_written_is_read_again);
    tcase_add_loop_test(c, a_snapshot_may_be_written_in_any_way_that_says_the_same, 0, COUNT(spellings));
    tcase_add_loop_test(c, a_number_is_written_as_shortly_as_it_can_be_read_again, 0, COUNT(numbers));
    tcase_add_loop_test(c, no_member_can_be_changed, 0, COUNT(tampered));
    tcase_add_test(c, texts_cannot_move_from_one_member_to_the_next);
    tcase_add_test(c, another_key_makes_another_tag);
    tcase_add_loop_test(c, what_is_no_snapshot_is_refused_with_its_place, 0, COUNT(refused));
    tcase_add_test(c, only_what_changes_nothing_is_usual);
    tcase_add_test(c, a_key_of_tags_opens_with_the_master_key_it_was_made_with);
    tcase_add_test(c, what_is_encrypted_for_another_place_or_of_another_length_is_no_key_of_tags);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
