/* Catalogs of voices: what a file may hold, what becomes of a voice, and which ones a caller gets. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json/scan.h"
#include "core/voices/catalog.h"
#include "core/voices/compiled.h"
#include "core/voices/piece.h"
#include "core/voices/table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { REPLY_BYTES = 16 * 1024 * 1024 };

#define LANGUAGES "language\ten-US\tEnglish\nlanguage\tfr\tFrench\n"
#define FORMATS "format\tMP3\t.mp3\taudio/mpeg\t24000\t96\tmp3-96\n"
#define OTHER_FORMATS \
    "format\tPCM\t.pcm\taudio/pcm\t24000\t384\traw\nformat\tWAV\t.wav\taudio/wav\t8000\t0\twav\n"
#define ANNE "voice\tAnne\tAnne\tfemale\t\ten-US;fr\tv1;v2\tNeural\n"
#define BOB \
    "voice\tbob-2\tBob B\tmale\tchild\tfr\tv2\ticl\tnews;ads\tCalm\tGA\tsad;glad\tBoy\tBöb\t48000\t150\n"
#define SMALL "# Two voices.\n" LANGUAGES FORMATS ANNE OTHER_FORMATS BOB

static struct arena *arena;
static struct buf text;

static void set_up(void)
{
    arena = arena_new();
    buf_init(&text, REPLY_BYTES);
}

static void tear_down(void)
{
    buf_free(&text);
    arena_free(arena);
}

static struct voice_table small_table(void)
{
    struct voice_table table;
    struct error e;
    ck_assert_msg(voice_table_read(span_cstr(SMALL), "small", arena, &table, &e) == 0, "%s", e.text);
    return table;
}

/* ---- files ---- */

START_TEST(a_table_that_is_read_and_written_is_what_it_was)
{
    struct voice_table table = small_table();
    ck_assert_uint_eq(table.n_voices, 2);
    voice_table_write(&table, &text);
    ck_assert_msg(span_is(buf_span(&text), SMALL), "%.*s", (int)text.len, text.data);
}
END_TEST

START_TEST(voices_have_the_formats_that_stand_above_them)
{
    struct voice_table table = small_table();
    ck_assert_uint_eq(table.voices[0].first_format, 0);
    ck_assert_uint_eq(table.voices[0].n_formats, 1);
    ck_assert_uint_eq(table.voices[1].first_format, 1);
    ck_assert_uint_eq(table.voices[1].n_formats, 2);
}
END_TEST

#define HEAD LANGUAGES FORMATS
#define VOICE(id) "voice\t" id "\tA\t\t\ten-US;fr\tv1\tNeural\n"
#define LAST_COLUMNS(columns) HEAD "voice\ta\tA\t\t\ten-US;fr\tv1\tNeural\t" columns "\n"

static const struct {
    const char *text, *fault;
} bad_tables[] = {
    { HEAD VOICE("a") VOICE("b") VOICE("a"), "t:6: id: there twice: \"a\"" },
    { HEAD VOICE(""), "t:4: id: missing" },
    { HEAD VOICE(" a"), "t:4: id: a space at an end" },
    { HEAD VOICE("a\"b"), "t:4: id: unexpected" },
    { HEAD VOICE("a<b"), "t:4: id: unexpected" },
    { HEAD VOICE("\xC3\xA4"), "t:4: id: unexpected" },
    { HEAD "voice\ta\n", "t:4: name: missing" },
    { HEAD "voice\ta\tA\tFemale\t\ten-US;fr\tv1\tNeural\n", "t:4: gender: unexpected \"Female\"" },
    { HEAD "voice\ta\tA\t\told\ten-US;fr\tv1\tNeural\n", "t:4: age: unexpected" },
    { HEAD "voice\ta\tA\t\t\t\tv1\tNeural\n", "t:4: languages: missing" },
    { HEAD "voice\ta\tA\t\t\ten-US;de\tv1\tNeural\n",
      "t:4: languages: no line before says what this is: \"de\"" },
    { HEAD "voice\ta\tA\t\t\tfr;fr\tv1\tNeural\n", "t:4: languages: there twice: \"fr\"" },
    { HEAD "voice\ta\tA\t\t\ten_US\tv1\tNeural\n", "t:4: languages: unexpected" },
    { HEAD "voice\ta\tA\t\t\tfr;\tv1\tNeural\n", "t:4: languages: an item is empty" },
    { HEAD "voice\ta\tA\t\t\tfr;;en-US\tv1\tNeural\n", "t:4: languages: an item is empty" },
    { HEAD "voice\ta\tA\t\t\tfr; en-US\tv1\tNeural\n", "t:4: languages: an item is empty or begins" },
    { HEAD "voice\ta\tA\t\t\tfr\tv 1\tNeural\n", "t:4: models: unexpected" },
    { HEAD "voice\ta\tA\t\t\tfr\tv1\n", "t:4: type: missing" },
    { LAST_COLUMNS("x\t\t\t\t\tn\tfast"), "t:4: sample rate: unexpected \"fast\"" },
    { LAST_COLUMNS("x\t\t\t\t\tn\t048"), "t:4: sample rate: unexpected" },
    { LAST_COLUMNS("x\t\t\t\t\tn\t48\t1.5"), "t:4: words per minute: unexpected" },
    { LAST_COLUMNS("x\t\t\t\t\tn\t48\t1\tmore"), "t:4: too many columns after \"1\"" },
    { LAST_COLUMNS("x\x01"), "t:4: empty, too long, not UTF-8, or with control" },
    { LAST_COLUMNS("x\r"), "t:4: empty, too long, not UTF-8, or with control" },
    { LAST_COLUMNS("\xC3"), "t:4: empty, too long, not UTF-8" },
    { LAST_COLUMNS("\xED\xA0\x80"), "t:4: empty, too long, not UTF-8" },
    { HEAD VOICE("a") "# late\n", "t:5: expected language, format or voice, not \"# late\"" },
    { HEAD "\n" VOICE("a"), "t:4: empty" },
    { HEAD "voices\ta\n", "t:4: expected language, format or voice, not \"voices\"" },
    { LANGUAGES VOICE("a"), "t:3: no format stands before \"a\"" },
    { LANGUAGES "language\tfr\tFrançais\n", "t:3: there is such a language already" },
    { LANGUAGES "language\tde\n", "t:3: title: missing" },
    { LANGUAGES "format\tMP3\tmp3\taudio/mpeg\t1\t1\tm\n", "t:3: extension: unexpected \"mp3\"" },
    { LANGUAGES "format\tMP3\t.mp3\tmpeg\t1\t1\tm\n", "t:3: media type: unexpected" },
    { LANGUAGES "format\tMP3\t.mp3\taudio/mpeg\t1\t\tm\n", "t:3: bit rate: missing" },
    { LANGUAGES "language\tde\tGerman\n" FORMATS VOICE("a"), "t: no voice speaks \"de\"" },
    { HEAD VOICE("a") "voice\tb", "t:5: the last line has no end" },
};

START_TEST(a_bad_file_is_refused_with_its_line)
{
    struct voice_table table;
    struct error e = { 0 };
    int r = voice_table_read(span_cstr(bad_tables[_i].text), "t", arena, &table, &e);
    ck_assert_msg(r == ERR_FORMAT && strncmp(e.text, bad_tables[_i].fault, strlen(bad_tables[_i].fault)) == 0,
                  "%s\nsays %d \"%s\", expected \"%s\"", bad_tables[_i].text, r, e.text,
                  bad_tables[_i].fault);
}
END_TEST

START_TEST(a_table_takes_as_many_voices_as_a_selection_has_bits)
{
    struct voice_table table;
    struct error e;
    buf_append_cstr(&text, HEAD);
    for (int i = 0; i < VOICE_TABLE_MAX; i++)
        buf_printf(&text, VOICE("v%d"), i);
    ck_assert_int_eq(voice_table_read(buf_span(&text), "t", arena, &table, &e), 0);
    ck_assert_uint_eq(table.n_voices, VOICE_TABLE_MAX);
    buf_append_cstr(&text, VOICE("one-more"));
    ck_assert_int_eq(voice_table_read(buf_span(&text), "t", arena, &table, &e), ERR_FORMAT);
    ck_assert_msg(strstr(e.text, "too many voices") != NULL, "%s", e.text);
}
END_TEST

/* ---- a voice ---- */

static const struct {
    size_t voice;
    const char *piece, *formats;
} golden[] = {
    { 0,
      "{\"id\":\"Anne\",\"name\":\"Anne\",\"description\":\"English\",\"labels\":{\"accent\":\"English\","
      "\"gender\":\"female\",\"type\":\"Neural\",\"age\":\"\",\"tailoredScenarios\":[],"
      "\"voicePersonalities\":[]},\"tags\":[],\"languages\":[{\"title\":\"English\",\"code\":\"en-US\"},"
      "{\"title\":\"French\",\"code\":\"fr\"}],\"compatible_models\":[\"v1\",\"v2\"],"
      "\"predefined_options\":{},\"preview_audio_url\":\"\",\"formats\":",
      "[{\"name\":\"MP3\",\"extension\":\".mp3\",\"mime_type\":\"audio/mpeg\",\"sample_rate\":24000,"
      "\"bitrate\":96,\"format_code\":\"mp3-96\"}]" },
    { 1,
      "{\"id\":\"bob-2\",\"name\":\"Bob B\",\"description\":\"French news ads\",\"labels\":{"
      "\"accent\":\"French\",\"gender\":\"male\",\"type\":\"icl\",\"age\":\"child\","
      "\"tailoredScenarios\":[\"news\",\"ads\"],\"voicePersonalities\":[\"Calm\"],\"status\":\"GA\","
      "\"styles\":[\"sad\",\"glad\"],\"roles\":[\"Boy\"],\"local_name\":\"Böb\",\"sample_rate\":48000,"
      "\"words_per_minute\":150},\"tags\":[\"news\",\"ads\",\"Calm\"],\"languages\":[{\"title\":\"French\","
      "\"code\":\"fr\"}],\"compatible_models\":[\"v2\"],\"predefined_options\":{},"
      "\"preview_audio_url\":\"\",\"formats\":",
      "[{\"name\":\"PCM\",\"extension\":\".pcm\",\"mime_type\":\"audio/pcm\",\"sample_rate\":24000,"
      "\"bitrate\":384,\"format_code\":\"raw\"},{\"name\":\"WAV\",\"extension\":\".wav\","
      "\"mime_type\":\"audio/wav\",\"sample_rate\":8000,\"bitrate\":0,\"format_code\":\"wav\"}]" },
};

START_TEST(a_voice_has_the_shape_that_unspeech_gave_it)
{
    struct voice_table table = small_table();
    const struct voice *voice = &table.voices[golden[_i].voice];
    voice_write_piece(&table, voice, &text);
    ck_assert_msg(span_is(buf_span(&text), golden[_i].piece), "%.*s", (int)text.len, text.data);
    buf_clear(&text);
    voice_write_formats(&table, voice, &text);
    ck_assert_msg(span_is(buf_span(&text), golden[_i].formats), "%.*s", (int)text.len, text.data);
}
END_TEST

/* ---- the catalogs in the program ---- */

static const struct voice_catalog *catalog(const char *provider)
{
    const struct voice_catalog *found = voice_catalog_find(span_cstr(provider));
    ck_assert_msg(found != NULL, "no catalog of %s", provider);
    return found;
}

/* The array of a selection, put together; `room` pieces at a time. */
static struct span join(const struct voice_selection *selection, size_t room)
{
    struct voice_cursor cursor = { 0 };
    struct span pieces[64];
    size_t n;
    buf_clear(&text);
    buf_append_char(&text, '[');
    while ((n = voice_selection_read(selection, &cursor, pieces, room)) > 0)
        for (size_t i = 0; i < n; i++)
            buf_append_span(&text, pieces[i]);
    buf_append_char(&text, ']');
    ck_assert_uint_eq(text.len, selection->bytes + 2);
    return buf_span(&text);
}

static const struct voice_filter all;

static struct voice_selection select_of(const char *provider, const struct voice_filter *filter)
{
    struct voice_selection selection;
    voice_select(catalog(provider), filter, &selection);
    return selection;
}

/* What stands in every voice, and of which kind it is. */
static const struct json_want shape[] = {
    { "*", true },
    { "*.id", true },
    { "*.name", true },
    { "*.description", true },
    { "*.labels", true },
    { "*.labels.accent", true },
    { "*.labels.gender", true },
    { "*.labels.type", true },
    { "*.tags", true },
    { "*.languages", true },
    { "*.languages.*.title", true },
    { "*.languages.*.code", true },
    { "*.formats", true },
    { "*.formats.*.name", true },
    { "*.formats.*.extension", true },
    { "*.formats.*.mime_type", true },
    { "*.formats.*.sample_rate", true },
    { "*.formats.*.bitrate", true },
    { "*.formats.*.format_code", true },
    { "*.compatible_models", true },
    { "*.compatible_models.*", true },
    { "*.predefined_options", true },
    { "*.preview_audio_url", true },
};

static const enum json_kind kinds[COUNT(shape)] = {
    JSON_KIND_OBJECT, JSON_KIND_STRING, JSON_KIND_STRING, JSON_KIND_STRING, JSON_KIND_OBJECT,
    JSON_KIND_STRING, JSON_KIND_STRING, JSON_KIND_STRING, JSON_KIND_ARRAY,  JSON_KIND_ARRAY,
    JSON_KIND_STRING, JSON_KIND_STRING, JSON_KIND_ARRAY,  JSON_KIND_STRING, JSON_KIND_STRING,
    JSON_KIND_STRING, JSON_KIND_NUMBER, JSON_KIND_NUMBER, JSON_KIND_STRING, JSON_KIND_ARRAY,
    JSON_KIND_STRING, JSON_KIND_OBJECT, JSON_KIND_STRING,
};

/* Counts a member once per voice. */
struct tally {
    size_t voices[COUNT(shape)];
    size_t last[COUNT(shape)]; /* voice, counted from 1 */
};

static int check_member(void *ctx, const struct json_value *value)
{
    struct tally *tally = ctx;
    ck_assert_msg(value->kind == kinds[value->path], "voice %zu, %s: %.*s", value->element,
                  shape[value->path].path, (int)value->raw.len, value->raw.ptr);
    if (tally->last[value->path] != value->element + 1)
        tally->voices[value->path]++;
    tally->last[value->path] = value->element + 1;
    return 0;
}

START_TEST(every_voice_of_every_catalog_has_every_member_in_its_kind)
{
    for (size_t n = 0; n < n_voice_catalogs; n++) {
        const struct voice_catalog *each = &voice_catalogs[n];
        struct voice_selection selection;
        struct tally tally = { 0 };
        struct json_fault fault = { 0 };
        voice_select(each, &all, &selection);
        ck_assert_uint_gt(selection.count, 0);
        int r = json_scan(join(&selection, 64), shape, COUNT(shape), JSON_SCAN_UNIQUE, check_member, &tally,
                          &fault);
        ck_assert_msg(r == 0, "%s: byte %zu: %s", each->provider, fault.offset, fault.what);
        for (size_t i = 0; i < COUNT(shape); i++)
            ck_assert_msg(tally.voices[i] == selection.count, "%s: %zu of %zu voices have %s", each->provider,
                          tally.voices[i], selection.count, shape[i].path);
    }
    ck_assert_uint_ge(n_voice_catalogs, 4);
}
END_TEST

static const struct {
    const char *provider;
    size_t voices;
} sizes[] = { { "azure", 500 }, { "dashscope-cosyvoice", 250 }, { "openai", 13 }, { "volcengine", 500 } };

START_TEST(each_provider_has_its_voices)
{
    struct voice_selection selection = select_of(sizes[_i].provider, &all);
    ck_assert_msg(selection.count >= sizes[_i].voices, "%s: %zu", sizes[_i].provider, selection.count);
}
END_TEST

START_TEST(a_provider_without_a_file_has_no_catalog)
{
    ck_assert_ptr_null(voice_catalog_find(span_cstr("elevenlabs")));
    ck_assert_ptr_null(voice_catalog_find(span_cstr("azur")));
    ck_assert_ptr_null(voice_catalog_find(span_cstr("")));
}
END_TEST

START_TEST(no_catalog_is_an_empty_list)
{
    struct voice_selection selection;
    char etag[VOICE_ETAG_BYTES];
    voice_select(NULL, &all, &selection);
    ck_assert_msg(span_is(join(&selection, 64), "[]"), "%.*s", (int)text.len, text.data);
    voice_selection_etag(&selection, span_cstr("{}"), etag);
    ck_assert_uint_eq(strlen(etag), VOICE_ETAG_BYTES - 1);
}
END_TEST

START_TEST(pieces_are_the_same_bytes_however_few_are_read_at_once)
{
    struct voice_selection selection = select_of("dashscope-cosyvoice", &all);
    struct span whole = join(&selection, 64);
    struct buf kept;
    buf_init(&kept, REPLY_BYTES);
    buf_append_span(&kept, whole);
    for (size_t room = VOICE_PIECES; room < 12; room++) {
        struct span again = join(&selection, room);
        ck_assert_msg(span_eq(buf_span(&kept), again), "with room for %zu", room);
    }
    buf_free(&kept);
}
END_TEST

/* ---- filters ---- */

struct hits {
    bool has, has_not;
    const char *with, *without;
};

static int look_for_ids(void *ctx, const struct json_value *value)
{
    struct hits *hits = ctx;
    hits->has = hits->has || json_string_is(value->raw, hits->with);
    hits->has_not = hits->has_not || json_string_is(value->raw, hits->without);
    return 0;
}

static const struct filter_row {
    const char *provider, *models[2], *locale, *words;
    enum voice_gender gender;
    const char *with, *without; /* ids; NULL: no voice at all is left */
} filters[] = {
    { "azure", .with = "en-US-AvaNeural", .without = "none" },
    { "azure", .models = { "v1" }, .with = "en-US-AvaNeural", .without = "none" },
    { "azure", .locale = "af", .with = "af-ZA-AdriNeural", .without = "en-US-AvaNeural" },
    { "azure", .locale = "AF-za", .with = "af-ZA-AdriNeural", .without = "en-US-AvaNeural" },
    /* not only in its own language */
    { "azure", .locale = "af-ZA", .with = "en-GB-AdaMultilingualNeural", .without = "en-GB-AbbiNeural" },
    { "azure", .locale = "zh-CN", .with = "zh-CN-henan-YundengNeural", .without = "zh-TW-HsiaoChenNeural" },
    { "azure", .locale = "zh-CN-henan", .with = "zh-CN-henan-YundengNeural",
      .without = "zh-CN-XiaoxiaoNeural" },
    /* a prefix ends at a hyphen */
    { "azure", .locale = "e" },
    { "azure", .locale = "en-" },
    { "azure", .locale = "en-US-x" },
    { "azure", .locale = "af", .gender = VOICE_GENDER_MALE, .with = "af-ZA-WillemNeural",
      .without = "af-ZA-AdriNeural" },
    { "azure", .locale = "af", .gender = VOICE_GENDER_FEMALE, .with = "af-ZA-AdriNeural",
      .without = "af-ZA-WillemNeural" },
    { "azure", .gender = VOICE_GENDER_NEUTRAL, .with = "en-US-MultiTalker-Ava-Andrew:DragonHDLatestNeural",
      .without = "af-ZA-AdriNeural" },
    { "azure", .words = "ADRI", .with = "af-ZA-AdriNeural", .without = "af-ZA-WillemNeural" },
    { "azure", .words = "አምሀ", .with = "am-ET-AmehaNeural", .without = "af-ZA-AdriNeural" },
    { "azure", .words = "no such words" },
    /* no text is found across two fields */
    { "azure", .words = "NeuralAdri" },
    { "volcengine", .words = "智能助手", .with = "BV415_streaming", .without = "BV064_streaming" },
    { "volcengine", .models = { "seed-tts-2.0" }, .without = "BV700_V2_streaming" },
    { "volcengine", .models = { "v1" }, .with = "BV700_V2_streaming",
      .without = "zh_female_vv_uranus_bigtts" },
    { "dashscope-cosyvoice", .models = { "cosyvoice-v2" }, .with = "longanlang", .without = "longanyang" },
    { "dashscope-cosyvoice", .models = { "cosyvoice-v3-flash" }, .with = "longanyang",
      .without = "longanlang" },
    { "dashscope-cosyvoice", .models = { "qwen3-tts-flash" }, .with = "Ono Anna", .without = "longanyang" },
    { "dashscope-cosyvoice", .models = { "qwen3-tts-flash-2025-09-18" }, .with = "Ono Anna",
      .without = "longanyang" },
    { "dashscope-cosyvoice", .models = { "qwen3-tts-flash-realtime" } },
    { "dashscope-cosyvoice", .models = { "qwen3-tts-flash-2025-9-18" } },
    { "dashscope-cosyvoice", .models = { "-2025-09-18" } },
    { "dashscope-cosyvoice", .models = { "cosyvoice" } },
    { "dashscope-cosyvoice", .models = { "" } },
    /* every one of the models */
    { "dashscope-cosyvoice", .models = { "cosyvoice-v3-flash", "cosyvoice-v3-plus" }, .with = "longanyang",
      .without = "longanhuan_v3" },
    { "dashscope-cosyvoice", .models = { "cosyvoice-v2", "cosyvoice-v3-plus" } },
    { "openai", .models = { "tts-1" }, .with = "alloy", .without = "marin" },
    { "openai", .models = { "gpt-4o-mini-tts" }, .with = "marin", .without = "none" },
    { "openai", .models = { "gpt-4o-mini-tts-2025-12-15" }, .with = "marin", .without = "none" },
    { "openai", .models = { "kokoro" } },
    /* one of some models, which is enough */
    { "volcengine", .models = { "seed-tts-1.0;seed-tts-2.0" }, .with = "zh_female_vv_uranus_bigtts",
      .without = "BV700_V2_streaming" },
    { "volcengine", .models = { "seed-icl-1.0;seed-tts-1.0" }, .with = "zh_female_vv_mars_bigtts",
      .without = "zh_female_vv_uranus_bigtts" },
};

START_TEST(a_filter_lets_through_what_it_says)
{
    static const struct json_want want[] = { { "*.id", true } };
    const struct filter_row *row = &filters[_i];
    struct span models[2];
    struct voice_filter filter = {
        .models = models,
        .locale = span_cstr(row->locale),
        .words = span_cstr(row->words),
        .gender = row->gender,
    };
    struct hits hits = { .with = row->with == NULL ? "" : row->with,
                         .without = row->without == NULL ? "" : row->without };

    while (filter.n_models < 2 && row->models[filter.n_models] != NULL) {
        models[filter.n_models] = span_cstr(row->models[filter.n_models]);
        filter.n_models++;
    }
    struct voice_selection selection = select_of(row->provider, &filter);
    ck_assert_int_eq(json_scan(join(&selection, 64), want, 1, 0, look_for_ids, &hits, NULL), 0);
    ck_assert_msg(!hits.has_not, "row %d: %s is there", _i, hits.without);
    if (row->with != NULL)
        ck_assert_msg(hits.has, "row %d: %s is missing of %zu", _i, hits.with, selection.count);
    else if (row->without == NULL)
        ck_assert_msg(selection.count == 0, "row %d: %zu voices", _i, selection.count);
}
END_TEST

START_TEST(more_words_than_are_looked_at_are_cut)
{
    char words[2 * VOICE_WORDS_MAX_BYTES];
    memset(words, 'x', sizeof(words));
    struct voice_filter filter = { .words = span_of(words, sizeof(words)) };
    ck_assert_uint_eq(select_of("azure", &filter).count, 0);
}
END_TEST

/* ---- entity tags ---- */

static const char *etag_of(const char *provider, const struct voice_filter *filter, const char *beside)
{
    struct voice_selection selection = select_of(provider, filter);
    char *etag = arena_alloc(arena, VOICE_ETAG_BYTES);
    voice_selection_etag(&selection, span_cstr(beside), etag);
    return etag;
}

START_TEST(an_etag_is_another_whenever_the_reply_is_another)
{
    const struct span v1 = span_cstr("v1"), v2 = span_cstr("seed-tts-2.0");
    const struct voice_filter french = { .locale = span_cstr("fr") }, german = { .locale = span_cstr("de") };
    const struct voice_filter only_v1 = { .models = &v1, .n_models = 1 };
    const struct voice_filter only_v2 = { .models = &v2, .n_models = 1 };
    const char *etags[] = {
        etag_of("azure", &all, "{}"),      etag_of("azure", &all, "{\"fr\":\"x\"}"),
        etag_of("azure", &french, "{}"),   etag_of("azure", &german, "{}"),
        etag_of("volcengine", &all, "{}"), etag_of("volcengine", &only_v1, "{}"),
        etag_of("openai", &all, "{}"),     etag_of("volcengine", &only_v2, "{}"),
        etag_of("openai", &french, "{}"),
    };
    for (size_t i = 0; i < COUNT(etags); i++) {
        ck_assert_uint_eq(strlen(etags[i]), VOICE_ETAG_BYTES - 1);
        for (size_t k = 0; k < i; k++)
            ck_assert_msg(strcmp(etags[i], etags[k]) != 0, "%zu and %zu: %s", i, k, etags[i]);
    }
}
END_TEST

START_TEST(an_etag_is_the_same_for_the_same_reply)
{
    const struct voice_filter upper = { .locale = span_cstr("FR") }, lower = { .locale = span_cstr("fr") };
    ck_assert_str_eq(etag_of("azure", &all, "{}"), etag_of("azure", &all, "{}"));
    ck_assert_str_eq(etag_of("azure", &upper, "{}"), etag_of("azure", &lower, "{}"));
}
END_TEST

static const struct {
    const char *if_none_match;
    bool is_known;
} matches[] = {
    { "\"abc\"", true },
    { "W/\"abc\"", true },
    { " \"abc\" ", true },
    { "\"x\", \"abc\"", true },
    { "\"x\",W/\"abc\",\"y\"", true },
    { "*", true },
    { "", false },
    { "abc", false },
    { "\"ab\"", false },
    { "\"abcd\"", false },
    { "w/\"abc\"", false },
    { "\"x\", \"y\"", false },
    { ",,", false },
    { "\"x\" \"abc\"", false },
};

START_TEST(who_has_the_list_need_not_get_it_again)
{
    bool is_known = voice_etag_is_known(span_cstr(matches[_i].if_none_match), "\"abc\"");
    ck_assert_msg(is_known == matches[_i].is_known, "If-None-Match: %s", matches[_i].if_none_match);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("voices");
    TCase *tcase = tcase_create("voices");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_table_that_is_read_and_written_is_what_it_was);
    tcase_add_test(tcase, voices_have_the_formats_that_stand_above_them);
    tcase_add_loop_test(tcase, a_bad_file_is_refused_with_its_line, 0, (int)COUNT(bad_tables));
    tcase_add_test(tcase, a_table_takes_as_many_voices_as_a_selection_has_bits);
    tcase_add_loop_test(tcase, a_voice_has_the_shape_that_unspeech_gave_it, 0, (int)COUNT(golden));
    tcase_add_test(tcase, every_voice_of_every_catalog_has_every_member_in_its_kind);
    tcase_add_loop_test(tcase, each_provider_has_its_voices, 0, (int)COUNT(sizes));
    tcase_add_test(tcase, a_provider_without_a_file_has_no_catalog);
    tcase_add_test(tcase, no_catalog_is_an_empty_list);
    tcase_add_test(tcase, pieces_are_the_same_bytes_however_few_are_read_at_once);
    tcase_add_loop_test(tcase, a_filter_lets_through_what_it_says, 0, (int)COUNT(filters));
    tcase_add_test(tcase, more_words_than_are_looked_at_are_cut);
    tcase_add_test(tcase, an_etag_is_another_whenever_the_reply_is_another);
    tcase_add_test(tcase, an_etag_is_the_same_for_the_same_reply);
    tcase_add_loop_test(tcase, who_has_the_list_need_not_get_it_again, 0, (int)COUNT(matches));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
